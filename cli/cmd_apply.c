/* Apply: move the parts of a tensor from stdin to stdout. */
#include "holding.h"
#include "launched.h"

#include <string.h>
#include <unistd.h>

enum { ENGINE = 256, CEILING };

typedef struct application {
    layout_pair pair;
    const char *engine;
    rsh_plan_opts opts;
    launched launched;
} application;

static const struct argp_option options[] = {
    {.name = "engine", .key = ENGINE, .arg = "NAME", .doc = "local (the default), threads, shm or mpi"},
    {.name = "ceiling", .key = CEILING, .arg = "BYTES", .doc = "scratch memory that a rank may use: 64MiB, 1G, 0, ..."},
    {0}};

static error_t parse(int key, char *word, struct argp_state *state) {
    application *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->pair; return 0;
    case ENGINE:
        if (!engine_known(word) && strcmp(word, "local"))
            argp_error(state, "'%s' is not an engine: local, threads, shm or mpi", word);
        a->engine = word;
        return 0;
    case CEILING:
        if (!parse_bytes(word, &a->opts.max_scratch_bytes)) argp_error(state, "'%s' is not a number of bytes", word);
        a->opts.has_max_scratch = true;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{.argp = &layout_pair_argp}, {0}};
static const struct argp apply_argp = {options,
                                       parse,
                                       "FROM TO",
                                       "Reads the parts of layout FROM from stdin and writes those of layout TO to "
                                       "stdout: raw little-endian elements, part after "
                                       "part, rank after rank ascending.",
                                       children,
                                       NULL,
                                       NULL};

/* Without ranks: one caller holds every part. */
static int move_locally(const rsh_plan *plan, const parts *src, const parts *dst) {
    rsh_pool *pool = NULL;
    rsh_status st = rsh_pool_new(0, &pool);
    if (!st) st = rsh_plan_run_local(plan, pool, src->memory, dst->memory);
    rsh_pool_free(pool);
    return st ? fail_library(st) : DONE;
}

/* What all ranks of a move see. */
typedef struct inheritance {
    const rsh_plan *plan;
    const parts *src, *dst;
} inheritance;

/* The source's parts of this rank from where rank 0 read them; the destination's to where it writes them from. */
static void copy_parts(const holding *h, bool out) {
    for (int64_t i = 0; i < h->nparts; i++) {
        void *own = h->memory[i].data, *common = h->whole->memory[h->first + i].data;
        size_t bytes = parts_bytes(h->whole, h->first + i);
        if (bytes) memcpy(out ? common : own, out ? own : common, bytes);
    }
}

/* A rank that is a thread: its parts are where they were read and where they are written from. */
static rsh_status move_thread(void *ctx, rsh_comm *comm) {
    const inheritance *h = ctx;
    int rank = rsh_comm_rank(comm);
    rsh_exec *exec = NULL;
    rsh_status st = rsh_exec_bind(h->plan, comm, h->src->memory + parts_of(h->src, rank),
                                  h->dst->memory + parts_of(h->dst, rank), &exec);
    if (!st) st = rsh_exec_run(exec);
    rsh_exec_free(exec);
    return st;
}

/* A rank that is a process. */
static rsh_status move_process(void *ctx, rsh_comm *comm) {
    const inheritance *h = ctx;
    holding src, dst = {0};
    rsh_status st = holding_take(comm, h->src, &src);
    if (!st) st = holding_take(comm, h->dst, &dst);
    st = rsh_comm_agree(comm, st);
    if (!st) copy_parts(&src, false);
    if (!st) st = holding_reshard(comm, h->plan, &src, &dst);
    if (!st) copy_parts(&dst, true);
    holding_free(&src);
    holding_free(&dst);
    return st;
}

static int move_by_ranks(const application *a, bool processes, const rsh_plan *plan, const parts *src,
                         const parts *dst) {
    inheritance h = {plan, src, dst};
    int64_t n = layout_pair_group(&a->pair);
    if (n > INT32_MAX) return fail("%lld ranks are more than this machine can run", (long long)n);
    int ranks = n < 1 ? 1 : (int)n;
    rsh_status st = processes ? rsh_run_shm(ranks, move_process, &h) : rsh_run(ranks, move_thread, &h);
    return st ? fail_library(st) : DONE;
}

/* Rank 0 reads and writes; the others go no further than it does. */
static int apply_launched(const launched *l, const rsh_plan *plan, int result, parts *src, parts *dst) {
    bool speaks = launched_speaks(l);
    if (!result && speaks) result = parts_read(src, STDIN_FILENO);
    if (!result && speaks) result = parts_allocate(dst);
    if (rsh_comm_agree(l->comm, result ? RSH_EIO : RSH_OK)) return FAILED; /* the rank that failed has said why */
    result = launched_move(l, plan, src, dst);
    return result || !speaks ? result : parts_write(dst, STDOUT_FILENO);
}

/* Nothing is written before everything has moved. */
static int apply(const application *a, const rsh_plan *plan) {
    parts src = {0}, dst = {0};
    bool processes = !strcmp(a->engine, "shm"), local = !strcmp(a->engine, "local");
    int result = parts_measure(&src, a->pair.from);
    if (!result) result = parts_measure(&dst, a->pair.to);
    if (a->launched.comm) {
        result = apply_launched(&a->launched, plan, result, &src, &dst);
    } else {
        if (!result) result = parts_read(&src, STDIN_FILENO);
        if (!result) result = processes ? parts_allocate_shared(&dst) : parts_allocate(&dst);
        if (!result)
            result = local ? move_locally(plan, &src, &dst) : move_by_ranks(a, processes, plan, &src, &dst);
        if (!result) result = parts_write(&dst, STDOUT_FILENO);
    }
    parts_free(&src);
    parts_free(&dst);
    return result;
}

static int run_apply(application *a) {
    rsh_plan *plan = NULL;
    if (!layout_pair_parse(&a->pair) || launched_check(&a->launched, &a->pair)) return FAILED;
    rsh_status st = launched_nodes(&a->launched, &a->opts);
    if (!st) st = rsh_plan_new(a->pair.from, a->pair.to, &a->opts, &plan);
    int result = st ? fail_library(st) : apply(a, plan);
    rsh_plan_free(plan);
    return result;
}

int cmd_apply(int argc, char **argv) {
    application a = {.engine = "local", .opts = RSH_PLAN_OPTS_INIT};
    argp_parse(&apply_argp, argc, argv, 0, NULL, &a);
    int result = launched_open(&a.launched, a.engine);
    if (!result) result = run_apply(&a);
    layout_pair_free(&a.pair);
    return launched_close(&a.launched, result);
}
