/* Join: finds rank, size and job of this process in the environment variables of known launchers. */
#include "comm/comm.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct launcher {
    const char *name, *rank, *size;
    const char *local_size; /* variable with the number of ranks on this machine, if the launcher sets one */
    const char *job[2];     /* variables that distinguish jobs on this machine */
} launcher;

/* Listed in order of precedence: inside a Slurm job, mpirun's variables are more specific than Slurm's. */
static const launcher launchers[] = {
    {"reshard run", "RESHARD_RANK", "RESHARD_SIZE", NULL, {"RESHARD_JOB", NULL}},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", NULL}},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", {"MASTER_PORT", "TORCHELASTIC_RUN_ID"}},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", {"PMI_JOBID", NULL}},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", NULL, {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};
#define LAUNCHERS (sizeof launchers / sizeof *launchers)

static const char *nonempty_env(const char *name) {
    const char *text = name ? getenv(name) : NULL;
    return text && *text ? text : NULL;
}

static bool read_number(const char *text, int *out) {
    char *end;
    long n = text ? strtol(text, &end, 10) : -1;
    if (n < 0 || n > INT_MAX || *end) return false;
    *out = (int)n;
    return true;
}

static rsh_status read_rank_and_size(const launcher *l, int *rank, int *size) {
    const char *r = nonempty_env(l->rank), *s = nonempty_env(l->size), *local = nonempty_env(l->local_size);
    RSH_REQUIRE(read_number(r, rank) && read_number(s, size) && *rank < *size, RSH_EVALUE,
                "%s did not set a valid rank and size: %s is \"%.40s\", %s is \"%.40s\"", l->name, l->rank, r ? r : "",
                l->size, s ? s : "");
    int here = *size;
    RSH_REQUIRE(!local || read_number(local, &here), RSH_EVALUE,
                "%s did not set the number of ranks on this machine: %s is \"%.40s\"", l->name, l->local_size, local);
    RSH_REQUIRE(here == *size, RSH_EUNSUP,
                "%s runs %d ranks, only %d of them on this machine (%s); engine shm requires all ranks on one "
                "machine, use MPI",
                l->name, *size, here, l->local_size);
    return RSH_OK;
}

/* If no variable names the job, ranks of one launcher on one machine are recognised by their common parent process.
 * Containers that share a network have their own process ids, so the name includes the pid namespace. */
static void name_job(const launcher *l, char *text, size_t bytes) {
    const char *a = nonempty_env(l->job[0]), *b = nonempty_env(l->job[1]);
    char space[64] = "";
    if (readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0) space[0] = 0;
    if (a || b)
        snprintf(text, bytes, "%s %s %s", l->name, a ? a : "", b ? b : "");
    else
        snprintf(text, bytes, "%s parent %ld of %s", l->name, (long)getppid(), space);
}

rsh_status rsh_comm_join(rsh_comm **out) {
    char job[256];
    int rank = 0, size = 1;
    for (size_t i = 0; i < LAUNCHERS; i++) {
        const launcher *l = &launchers[i];
        if (!nonempty_env(l->rank) && !(i == 0 && nonempty_env(l->size))) continue;
        RSH_TRY(read_rank_and_size(l, &rank, &size));
        name_job(l, job, sizeof job);
        return rsh_comm_shm(job, rank, size, out);
    }
    return rsh_comm_shm("alone", rank, size, out);
}
