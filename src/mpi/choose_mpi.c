/* Choice of an MPI: finds which MPI the process uses and loads the library that was built for it.
 *
 * A program that is compiled for Open MPI passes pointers where one for MPICH passes ints, so the wrong library would
 * crash.  The loaded MPI states its name (MPI_Get_library_version, which may be called before MPI_Init).  Only the
 * library that was built for that name is loaded. */
#include "mpi/mpi_engine.h"

#include <reshard/mpi_world.h>

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION_ROOM 8192 /* at least any MPI's MPI_MAX_LIBRARY_VERSION_STRING */

/* An MPI family, recognised by its version text and by an environment variable of its launcher. */
typedef struct family {
    const char *name;
    const char *says[4]; /* parts of its version text; NULL ends the list */
    const char *launcher;
} family;

static const family families[] = {{"openmpi", {"Open MPI", NULL}, "OMPI_COMM_WORLD_SIZE"},
                                  {"mpich", {"MPICH", "Intel(R) MPI", "MVAPICH", NULL}, "PMI_SIZE"}};
enum { NFAMILIES = sizeof families / sizeof *families };

static const family *family_named(const char *name) {
    for (int i = 0; i < NFAMILIES; i++)
        if (!strcmp(families[i].name, name)) return &families[i];
    return NULL;
}

/* Truncates an MPI's version text to its first line, short enough for an error message. */
static void cut_version(char *version) {
    version[strcspn(version, "\n,")] = '\0';
    version[strnlen(version, 80)] = '\0';
}

#ifdef RESHARD_MPI_BUILT_IN

/* Returns the engine that is compiled into the same program. */
static rsh_status find_engine(const rshi_mpi_engine **out) {
    *out = rsh_mpi_engine();
    return RSH_OK;
}

#else

static const family *family_saying(const char *version) {
    for (int i = 0; i < NFAMILIES; i++)
        for (const char *const *s = families[i].says; *s; s++)
            if (strstr(version, *s)) return &families[i];
    return NULL;
}

typedef int (*version_fn)(char *version, int *length);

/* Finds MPI_Get_library_version of the loaded MPI, even if a plugin loaded it privately; NULL: none. */
static version_fn find_version(void) {
    static const char *const libraries[] = {"libmpi.so.40", "libmpich.so.12", "libmpi.so.12"};
    void *found = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    version_fn fn;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !found; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library) found = dlsym(library, "MPI_Get_library_version");
    }
    memcpy(&fn, &found, sizeof fn);
    return fn;
}

/* Writes the version text of the loaded MPI; "" if no MPI is loaded. */
static void loaded_version(char version[VERSION_ROOM]) {
    version_fn fn = find_version();
    int length = 0;
    *version = '\0';
    if (fn) fn(version, &length);
}

/* Loads a library from the folder of this library, or otherwise from the system's search path. */
static void *load_library(const char *name) {
    char path[PATH_MAX];
    Dl_info self;
    if (dladdr((void *)(size_t)rsh_mpi_open, &self) && self.dli_fname && strrchr(self.dli_fname, '/')) {
        int folder = (int)(strrchr(self.dli_fname, '/') - self.dli_fname);
        if (snprintf(path, sizeof path, "%.*s/%s", folder, self.dli_fname, name) < PATH_MAX) {
            void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* MPI's plugins need global symbols */
            if (library) return library;
        }
    }
    return dlopen(name, RTLD_NOW | RTLD_GLOBAL);
}

static const rshi_mpi_engine *load_engine(const family *f, char *name, size_t room) {
    rshi_mpi_engine_fn fn = NULL;
    snprintf(name, room, "libreshard-mpi-%s.so.%d.%d", f->name, RSH_VERSION_MAJOR, RSH_VERSION_MINOR);
    void *library = load_library(name), *symbol = library ? dlsym(library, "rsh_mpi_engine") : NULL;
    memcpy(&fn, &symbol, sizeof fn);
    return fn ? fn() : NULL;
}

static rsh_status engine_for(const family *f, const char *version, const rshi_mpi_engine **out) {
    char name[80], sentence[512], found[VERSION_ROOM] = "";
    *out = load_engine(f, name, sizeof name);
    if (!*out) {
        const char *why = dlerror();
        snprintf(sentence, sizeof sentence,
                 "no engine for the MPI of this process: it is %s, and %s cannot be loaded (%s); build reshard with "
                 "that MPI's compiler wrapper installed", *version ? version : f->name, name, why ? why : "no symbols");
        return rsh_fail(RSH_EUNSUP, sentence);
    }
    (*out)->version(found, sizeof found);
    if (family_saying(found) == f) return RSH_OK;
    cut_version(found);
    snprintf(sentence, sizeof sentence, "%s was built for %s, but MPI calls of this process go to %s", name, f->name,
             found);
    return rsh_fail(RSH_EUNSUP, sentence);
}

static rsh_status engine_of_loaded(char *version, const rshi_mpi_engine **out) {
    char sentence[256];
    const family *f = family_saying(version);
    cut_version(version);
    if (f) return engine_for(f, version, out);
    snprintf(sentence, sizeof sentence,
             "no engine for the MPI of this process: expected Open MPI, MPICH or an MPI with MPICH's ABI, got \"%s\"",
             version);
    return rsh_fail(RSH_EUNSUP, sentence);
}

/* Chooses an engine if no MPI is loaded: the user's choice, the launcher's, or the first engine that is installed. */
static rsh_status engine_by_environment(const rshi_mpi_engine **out) {
    const char *chosen = getenv("RESHARD_MPI");
    char sentence[128];
    if (chosen && *chosen && !family_named(chosen)) {
        snprintf(sentence, sizeof sentence, "RESHARD_MPI must be openmpi or mpich, got \"%.40s\"", chosen);
        return rsh_fail(RSH_EVALUE, sentence);
    }
    if (chosen && *chosen) return engine_for(family_named(chosen), "", out);
    for (int i = 0; i < NFAMILIES; i++)
        if (getenv(families[i].launcher)) return engine_for(&families[i], "", out);
    rsh_status st = RSH_OK;
    for (int i = 0; i < NFAMILIES; i++) {
        st = engine_for(&families[i], "", out);
        if (!st) return RSH_OK;
    }
    return st;
}

/* Finds the engine.  The result is cached, because the MPI of a process does not change. */
static rsh_status find_engine(const rshi_mpi_engine **out) {
    static const rshi_mpi_engine *found;
    char version[VERSION_ROOM];
    rsh_status st = RSH_OK;
    if (!found) {
        loaded_version(version);
        st = *version ? engine_of_loaded(version, out) : engine_by_environment(out);
        if (!st) found = *out;
    }
    if (!st) *out = found;
    return st;
}

#endif

/* ---- public functions ---- */

rsh_status rsh_mpi_open(rsh_comm **out) {
    const rshi_mpi_engine *e;
    rsh_status st = find_engine(&e);
    return st ? st : e->open_world(out);
}

rsh_status rsh_mpi_close(rsh_comm *comm) {
    const rshi_mpi_engine *e;
    rsh_status st = find_engine(&e);
    return st ? st : e->close_world(comm);
}

rsh_status rsh_comm_mpi_f(int comm, rsh_comm **out) {
    const rshi_mpi_engine *e;
    rsh_status st = find_engine(&e);
    return st ? st : e->comm(comm, out);
}

rsh_status rsh_comm_mpi_kept_f(int comm, rsh_comm **out) {
    const rshi_mpi_engine *e = NULL;
    rsh_status st = out ? find_engine(&e) : rsh_fail(RSH_EVALUE, "rsh_comm_mpi_kept_f: out is NULL");
    return st ? st : e->kept_comm(comm, out);
}

rsh_status rsh_mpi_check(const char *name) {
    const rshi_mpi_engine *e;
    char sentence[256], version[VERSION_ROOM] = "";
    if (!name || !family_named(name)) return rsh_fail(RSH_EVALUE, "rsh_mpi_check: family must be openmpi or mpich");
    rsh_status st = find_engine(&e);
    if (!st && !strcmp(e->family, name)) return e->check_running();
    if (st) return st;
    e->version(version, sizeof version);
    cut_version(version);
    snprintf(sentence, sizeof sentence,
             "this program was compiled for %s, but its MPI calls go to %s; use the MPI that it was compiled for", name,
             version);
    return rsh_fail(RSH_EUNSUP, sentence);
}
