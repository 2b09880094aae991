/* Engine: runs cases on threads of this process, or on the ranks of a job. */
#include "engine.h"

#ifdef RESHARD_TEST_NODES
#include "comm/mailboxes.h"
#include "gen.h"
#endif

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t case_seed;
static rsh_comm *job; /* joined on first use, left at exit */
static rsh_status (*leave_mpi)(rsh_comm *comm);

static void give_up(const char *what) {
    fprintf(stderr, "the job cannot be joined: %s\n", what);
    exit(1);
}

static const char *engine_name(void) {
    const char *name = getenv("RESHARD_TEST_ENGINE");
    return name && *name ? name : NULL;
}

static void *load(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    if (!symbol) give_up(dlerror());
    return symbol;
}

/* Sets the node of this process, for RESHARD_TEST_PER_NODE ranks on each node.  Both MPIs state the rank of this
 * process in the environment. */
static void choose_node(void) {
    const char *many = getenv("RESHARD_TEST_PER_NODE"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    char name[32];
    if (!many || !*many) return;
    if (!rank) rank = getenv("PMI_RANK");
    if (!rank) give_up("neither OMPI_COMM_WORLD_RANK nor PMI_RANK says which rank this is");
    snprintf(name, sizeof name, "node %d", atoi(rank) / atoi(many));
    setenv("RESHARD_NODE", name, 1);
}

static rsh_status join_mpi(void) {
    choose_node();
    const char *path = getenv("RESHARD_TEST_MPI");
    void *library = dlopen(path ? path : "libreshard-mpi.so", RTLD_NOW | RTLD_GLOBAL);
    if (!library) give_up(dlerror());
    rsh_status (*join)(rsh_comm **out);
    *(void **)&join = load(library, "rsh_mpi_open");
    *(void **)&leave_mpi = load(library, "rsh_mpi_close");
    return join(&job);
}

static void leave(void) {
    if (leave_mpi)
        leave_mpi(job);
    else
        rsh_comm_free(job);
}

static rsh_comm *joined(void) {
    if (job || !engine_name()) return job;
    bool mpi = strcmp(engine_name(), "mpi") == 0;
    if (!mpi && strcmp(engine_name(), "shm") != 0) give_up("RESHARD_TEST_ENGINE is neither shm nor mpi");
    if (mpi ? join_mpi() : rsh_comm_join(&job)) give_up(rsh_error_detail());
    atexit(leave);
    if (rsh_comm_rank(job) > 0 && !freopen("/dev/null", "w", stdout))
        give_up("no /dev/null"); /* the report of one rank is enough; failures go to stderr */
    return job;
}

bool engine_has_nodes(void) {
#ifdef RESHARD_TEST_NODES
    return true;
#else
    return joined();
#endif
}

bool engine_is_job(void) { return joined() != NULL; }
int engine_ranks(int most) { return joined() && rsh_comm_size(job) < most ? rsh_comm_size(job) : most; }
bool engine_sees(int64_t rank) { return !joined() || rank == rsh_comm_rank(job); }

void engine_case(uint64_t seed) { case_seed = seed; }

#ifdef RESHARD_TEST_NODES
/* Runs with one rank per node, all ranks on one node, or anything in between. */
static rsh_status run_ranks(int n, rsh_rank_fn fn, void *ctx) {
    enum { MOST = 64 };
    gen_rng g = {case_seed};
    int node[MOST], nodes = (int)gen_between(&g, 1, n);
    for (int r = 0; r < n && r < MOST; r++) node[r] = (int)gen_below(&g, nodes);
    if (n > MOST) give_up("too many ranks");
    return run_on_nodes(n, node, fn, ctx);
}
#else
static rsh_status run_ranks(int n, rsh_rank_fn fn, void *ctx) { return rsh_run(n, fn, ctx); }
#endif

rsh_status engine_run(int n, rsh_rank_fn fn, void *ctx) {
    if (!joined()) return run_ranks(n, fn, ctx);
    return rsh_comm_agree(job, fn(ctx, job));
}

uint64_t engine_seed(uint64_t mine) {
    if (!joined()) return mine;
    uint64_t *all = calloc((size_t)rsh_comm_size(job), sizeof *all);
    if (!all || rsh_comm_allgather(job, &mine, all, sizeof mine)) give_up(rsh_error_detail());
    mine = all[0];
    free(all);
    return mine;
}
