/* Launched: libreshard-mpi, found when it is needed, and a comm of all ranks. */
#include "launched.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_OF(x) #x
#define SONAME(major, minor) "libreshard-mpi.so." TEXT_OF(major) "." TEXT_OF(minor)
static const char soname[] = SONAME(RSH_VERSION_MAJOR, RSH_VERSION_MINOR);

enum { PATH = 4096 };

/* The library in the folder of `file`; NULL: not there, or not to be loaded. */
static void *load_beside(const char *file) {
    char path[PATH];
    const char *slash = strrchr(file, '/');
    int n = slash ? snprintf(path, sizeof path, "%.*s/%s", (int)(slash - file), file, soname) : -1;
    return n > 0 && n < PATH && !access(path, R_OK) ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
}

/* RESHARD_MPI_LIBRARY, if set; else beside the command, beside the core library, and where the system looks.  An MPI's
 * own plugins look for its symbols among the global ones. */
static void *load(void) {
    const char *chosen = getenv("RESHARD_MPI_LIBRARY");
    char self[PATH] = "";
    Dl_info core;
    if (chosen && *chosen) return dlopen(chosen, RTLD_NOW | RTLD_GLOBAL);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) *self = '\0';
    void *library = load_beside(self);
    if (!library && dladdr((void *)(uintptr_t)rsh_version, &core) && core.dli_fname)
        library = load_beside(core.dli_fname);
    return library ? library : dlopen(soname, RTLD_NOW | RTLD_GLOBAL);
}

bool launched_possible(void) { return load() != NULL; }

bool launched_speaks(const launched *l) { return !l->comm || !rsh_comm_rank(l->comm); }

int launched_open(launched *l, const char *engine) {
    *l = (launched){0};
    if (strcmp(engine, "mpi")) return DONE;
    void *library = load();
    if (!library)
        return fail("the engine mpi needs %s and the MPI that it was built for (Debian: libopenmpi3): %s", soname,
                    dlerror());
    rsh_status (*open)(rsh_comm **) = NULL;
    *(void **)&open = dlsym(library, "rsh_mpi_open");
    *(void **)&l->close = dlsym(library, "rsh_mpi_close");
    if (!open || !l->close) return fail("%s is of another version: %s", soname, dlerror());
    rsh_status st = open(&l->comm);
    if (st) return fail_library(st);
    if (!launched_speaks(l)) be_quiet();
    return DONE;
}

rsh_status launched_nodes(const launched *l, rsh_plan_opts *opts) {
    return l->comm ? rsh_plan_opts_of_comm(l->comm, opts) : RSH_OK;
}

int launched_close(launched *l, int result) {
    rsh_status st = l->close ? l->close(l->comm) : RSH_OK;
    if (!st || result) return result;
    return fail_library(st);
}

int launched_check(const launched *l, const layout_pair *pair) {
    int64_t n = layout_pair_group(pair);
    if (!l->comm || (n < 1 ? 1 : n) == rsh_comm_size(l->comm)) return DONE;
    return fail("FROM and TO have ranks 0 to %lld, but there are %d: start the command with mpirun -n %lld",
                (long long)n - 1, rsh_comm_size(l->comm), (long long)n);
}
