/* Launched: loads libreshard-mpi on demand, and creates a comm of all ranks that a launcher started. */
#include "launched.h"

#include "interrupt.h"
#include "library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(x) #x
#define SONAME(major, minor) "libreshard-mpi.so." TEXT_OF(major) "." TEXT_OF(minor)
static const char soname[] = SONAME(RSH_VERSION_MAJOR, RSH_VERSION_MINOR);

/* Loads libreshard-mpi; if RESHARD_MPI_LIBRARY is set, loads that file. */
static void *load_mpi(void) {
    const char *file = getenv("RESHARD_MPI_LIBRARY");
    return file && *file ? dlopen(file, RTLD_NOW | RTLD_GLOBAL) : library_load("libreshard-mpi.so");
}

/* Environment variables in which launchers tell each process the number of ranks and its rank. */
static const char *const told[][3] = {{"Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                      {"MVAPICH", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                                      {"MPICH", "PMI_SIZE", "PMI_RANK"}};

bool launched_forgotten(const char *verb, const char *engine) {
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        const char *size = getenv(told[i][1]), *rank = getenv(told[i][2]);
        if (!size || atoi(size) < 2) continue;
        if (!rank || !atoi(rank))
            fail("mpirun started %s processes (%s), and each would run %s by itself; use --engine mpi to make them the "
                 "ranks, or --engine %s if that is intended", size, told[i][0], verb, engine);
        return true;
    }
    return false;
}

/* Checks whether libreshard-mpi finds an MPI, without starting MPI. */
bool launched_possible(void) {
    rsh_status (*check)(const char *) = NULL;
    void *library = load_mpi();
    if (library) *(void **)&check = dlsym(library, "rsh_mpi_check");
    return check && (check("openmpi") != RSH_EUNSUP || check("mpich") != RSH_EUNSUP);
}

bool launched_speaks(const launched *l) { return !l->comm || !rsh_comm_rank(l->comm); }

int launched_open(launched *l, const char *engine) {
    *l = (launched){0};
    if (strcmp(engine, "mpi")) return DONE;
    void *library = load_mpi();
    if (!library)
        return fail("--engine mpi needs %s and the MPI that it was built for (Debian: libopenmpi3): %s", soname,
                    dlerror());
    rsh_status (*open)(rsh_comm **) = NULL;
    *(void **)&open = dlsym(library, "rsh_mpi_open");
    *(void **)&l->close = dlsym(library, "rsh_mpi_close");
    if (!open || !l->close)
        return fail("%s has the wrong version: %s; install the version of this command", soname, dlerror());
    interrupt_speaks(false); /* no rank prints until it knows its rank */
    rsh_status st = open(&l->comm);
    if (st) return fail_library(st);
    if (!launched_speaks(l)) be_quiet();
    interrupt_speaks(true);
    return DONE;
}

rsh_status launched_nodes(const launched *l, rsh_plan_opts *opts) {
    return l->comm ? rsh_plan_opts_from_comm(l->comm, opts) : RSH_OK;
}

/* MPI_Finalize would wait for a rank that is stuck; without it the launcher ends the whole job. */
int launched_close(launched *l, int result) {
    if (rank_is_stuck()) return result;
    rsh_status st = l->close ? l->close(l->comm) : RSH_OK;
    if (!st || result) return result;
    return fail_library(st);
}

int launched_check(const launched *l, const layout_pair *pair) {
    int64_t n = layout_pair_group(pair);
    if (!l->comm || (n < 1 ? 1 : n) == rsh_comm_size(l->comm)) return DONE;
    return fail("FROM and TO have ranks 0 to %lld, but mpirun started %d; use mpirun -n %lld", (long long)n - 1,
                rsh_comm_size(l->comm), (long long)n);
}
