/* Library: loads a library from the directory of the command, from that of the core library, or from the system's
 * path. */
#include "library.h"

#include "cli.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* Loads the library from the directory of `file`; returns NULL if it is not there or cannot be loaded. */
static void *load_beside(const char *file, const char *soname) {
    char path[PATH_MAX];
    const char *slash = strrchr(file, '/');
    int n = slash ? snprintf(path, sizeof path, "%.*s/%s", (int)(slash - file), file, soname) : -1;
    return n > 0 && n < PATH_MAX && !access(path, R_OK) ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
}

/* Loads a library.  RTLD_GLOBAL is needed because plugins of MPI look for its symbols among the global ones. */
void *library_load(const char *name) {
    char self[PATH_MAX] = "", soname[64];
    Dl_info core;
    snprintf(soname, sizeof soname, "%s.%d.%d", name, RSH_VERSION_MAJOR, RSH_VERSION_MINOR);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) *self = '\0';
    void *library = load_beside(self, soname);
    if (!library && dladdr((void *)(uintptr_t)rsh_version, &core) && core.dli_fname)
        library = load_beside(core.dli_fname, soname);
    return library ? library : dlopen(soname, RTLD_NOW | RTLD_GLOBAL);
}
