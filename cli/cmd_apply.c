/* Apply: move the parts of a tensor from stdin to stdout. */
#include "interrupt.h"
#include "launched.h"
#include "progress.h"
#include "room.h"
#include "streamed.h"

#include <string.h>

enum { ENGINE = 256, CEILING, IN, OUT };

typedef struct application {
    layout_pair pair;
    const char *engine;   /* NULL: none was named */
    const char *in, *out; /* names of files, or NULL: the standard streams */
    rsh_plan_opts opts;
    launched launched;
} application;

static const struct argp_option options[] = {
    {.name = "engine", .key = ENGINE, .arg = "NAME", .doc = "local (the default), threads, shm or mpi"},
    {.name = "ceiling", .key = CEILING, .arg = "BYTES", .doc = "scratch memory that a rank may use: 64MiB, 1G, 0, ..."},
    {.name = "in", .key = IN, .arg = "NAME", .doc = "read NAME; 'rank%d.bin' is a file for each rank, .npy an array"},
    {.name = "out", .key = OUT, .arg = "NAME", .doc = "write NAME, or 'part%d.npy', in the same way"},
    {0}};

/* A name of files; - is the standard stream. */
static const char *take_name(struct argp_state *state, const char *word) {
    if (!files_name_known(word))
        argp_error(state, "'%s' is no name: %%d or %%03d in it is the rank, %%%% a percent sign", word);
    return strcmp(word, "-") ? word : NULL;
}

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
    case IN: a->in = take_name(state, word); return 0;
    case OUT: a->out = take_name(state, word); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{.argp = &layout_pair_argp}, {0}};
static const struct argp apply_argp = {options,
                                       parse,
                                       "FROM TO",
                                       "Reads the parts of layout FROM from stdin, or from files, and writes those of "
                                       "layout TO to stdout, or to files: raw little-endian elements, part after "
                                       "part, rank after rank ascending.",
                                       children,
                                       NULL,
                                       NULL};

/* Without ranks: one caller holds every part. */
static rsh_status move_locally(const rsh_plan *plan, const parts *src, const parts *dst) {
    rsh_pool *pool = NULL;
    rsh_status st = rsh_pool_new(0, &pool);
    if (!st) st = rsh_plan_run_local(plan, pool, src->memory, dst->memory);
    rsh_pool_free(pool);
    return st;
}

/* What all ranks of a move see. */
typedef struct inheritance {
    const rsh_plan *plan;
    const parts *src, *dst; /* of threads: their parts are where they were read and where they are written from */
    files *in, *out;        /* of processes */
} inheritance;

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

static rsh_status move_process(void *ctx, rsh_comm *comm) {
    const inheritance *h = ctx;
    return streamed_move(comm, h->plan, h->in, h->out);
}

static rsh_status move_by_ranks(const application *a, inheritance *h) {
    int64_t n = layout_pair_group(&a->pair);
    int ranks = n < 1 ? 1 : (int)n;
    return h->src ? rsh_run(ranks, move_thread, h) : rsh_run_shm(ranks, move_process, h);
}

/* All parts in the memory of this process.  Nothing is written before everything has moved. */
static rsh_status apply_here(const application *a, const rsh_plan *plan, files *in, files *out, parts *src,
                             parts *dst) {
    inheritance h = {.plan = plan, .src = src, .dst = dst};
    progress_begin("apply: reading", src->bytes);
    rsh_status st = files_load(in, src);
    if (!st) st = parts_allocate(dst);
    if (!st && (files_order(in, src) || files_order(out, dst))) st = RSH_ENOMEM;
    if (!st) progress_fill("apply: moving", dst->data, dst->bytes);
    if (!st) st = strcmp(a->engine, "local") ? move_by_ranks(a, &h) : move_locally(plan, src, dst);
    progress_begin("apply: writing", dst->bytes);
    if (!st) st = files_move(out, dst->data, dst->bytes);
    if (!st) st = files_finish(out);
    if (st) files_abandon(out);
    return st;
}

/* Rank 0 reads and writes; the others go no further than it does. */
static rsh_status apply_launched(const application *a, const rsh_plan *plan, rsh_status st, files *in, files *out) {
    st = rsh_comm_agree(a->launched.comm, st);
    return st ? st : streamed_move(a->launched.comm, plan, in, out);
}

/* Files that others read and write know which parts there are, and of which kind they are. */
static rsh_status open_files(const application *a, files *in, files *out, const parts *src, const parts *dst) {
    bool speaks = launched_speaks(&a->launched);
    rsh_status st = files_open(in, a->in, "FROM", src, false, speaks);
    return st ? st : files_open(out, a->out, "TO", dst, true, speaks);
}

static int apply(const application *a, const rsh_plan *plan) {
    parts src = {0}, dst = {0};
    files in, out;
    int result = parts_measure(&src, a->pair.from);
    if (!result) result = parts_measure(&dst, a->pair.to);
    if (!result) {
        rsh_status st = open_files(a, &in, &out, &src, &dst);
        if (a->launched.comm)
            st = apply_launched(a, plan, st, &in, &out);
        else if (!st && !strcmp(a->engine, "shm"))
            st = move_by_ranks(a, &(inheritance){.plan = plan, .in = &in, .out = &out});
        else if (!st)
            st = apply_here(a, plan, &in, &out, &src, &dst);
        result = st ? fail_library(st) : DONE;
    }
    parts_free(&src);
    parts_free(&dst);
    return result;
}

static int run_apply(application *a) {
    rsh_plan *plan = NULL;
    if (!layout_pair_parse(&a->pair) || launched_check(&a->launched, &a->pair)) return FAILED;
    int64_t ranks = layout_pair_group(&a->pair);
    bool threads = !strcmp(a->engine, "threads");
    rsh_status st = threads || !strcmp(a->engine, "shm") ? room_check(ranks, threads) : RSH_OK;
    progress_plan("apply", ranks); /* by a painter that ranks do not inherit */
    if (!st) st = launched_nodes(&a->launched, &a->opts);
    if (!st) st = rsh_plan_new(a->pair.from, a->pair.to, &a->opts, &plan);
    int result = st ? fail_library(st) : apply(a, plan);
    progress_end();
    rsh_plan_free(plan);
    return result;
}

int cmd_apply(int argc, char **argv) {
    application a = {.opts = RSH_PLAN_OPTS_INIT};
    argp_parse(&apply_argp, argc, argv, 0, NULL, &a);
    if (!a.engine && launched_forgotten("apply", "local")) return USAGE;
    if (!a.engine) a.engine = "local";
    interrupt_leaves("nothing was written");
    int result = launched_open(&a.launched, a.engine);
    if (!result) result = run_apply(&a);
    layout_pair_free(&a.pair);
    return launched_close(&a.launched, result);
}
