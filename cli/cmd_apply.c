/* Apply: reshards raw data from stdin or files to stdout or files. */
#include "interrupt.h"
#include "launched.h"
#include "progress.h"
#include "room.h"
#include "streamed.h"

#include <string.h>

enum { ENGINE = 256, CEILING, IN, OUT };

typedef struct application {
    layout_pair pair;
    const char *engine;   /* NULL: the option was not given */
    const char *in, *out; /* names of files, or NULL: the standard streams */
    rsh_plan_opts opts;
    launched launched;
} application;

static const struct argp_option options[] = {
    {.name = "engine", .key = ENGINE, .arg = "NAME", .doc = "local (the default), threads, shm or mpi"},
    {.name = "ceiling", .key = CEILING, .arg = "BYTES", .doc = "limit of scratch memory per rank: 64MiB, 1G, 0, ..."},
    {.name = "in", .key = IN, .arg = "NAME", .doc = "read from NAME; 'rank%d.bin' means one file per rank, .npy a "
                                                    "NumPy array"},
    {.name = "out", .key = OUT, .arg = "NAME", .doc = "write to NAME, with the same conventions"},
    {0}};

/* Checks the argument of --in or --out; "-" means the standard stream. */
static const char *parse_file_name(struct argp_state *state, const char *word) {
    if (!files_name_known(word))
        argp_error(state, "invalid file name '%s': write %%d or %%03d for the rank, %%%% for a percent sign", word);
    return strcmp(word, "-") ? word : NULL;
}

static error_t parse(int key, char *word, struct argp_state *state) {
    application *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->pair; return 0;
    case ENGINE:
        if (!engine_known(word) && strcmp(word, "local"))
            argp_error(state, "unknown engine '%s'; expected local, threads, shm or mpi", word);
        a->engine = word;
        return 0;
    case CEILING:
        if (!parse_bytes(word, &a->opts.max_scratch_bytes))
            argp_error(state, "--ceiling: expected a number of bytes, such as 64MiB, got '%s'", word);
        a->opts.has_max_scratch = true;
        return 0;
    case IN: a->in = parse_file_name(state, word); return 0;
    case OUT: a->out = parse_file_name(state, word); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{.argp = &layout_pair_argp}, {0}};
static const struct argp apply_argp = {options,
                                       parse,
                                       "FROM TO",
                                       "Reads the parts of a tensor with layout FROM from stdin or files, reshards it, "
                                       "and writes the parts of layout TO to stdout or files.  Parts are raw "
                                       "little-endian elements in rank order.",
                                       children,
                                       NULL,
                                       NULL};

/* Moves without ranks: this process holds all parts. */
static rsh_status move_locally(const rsh_plan *plan, const parts *src, const parts *dst) {
    rsh_pool *pool = NULL;
    rsh_status st = rsh_pool_new(0, &pool);
    if (!st) st = rsh_plan_run_local(plan, pool, src->memory, dst->memory);
    rsh_pool_free(pool);
    return st;
}

/* The data that all ranks of a move share. */
typedef struct inheritance {
    const rsh_plan *plan;
    const parts *src, *dst; /* threads only: the buffers that were read, and those that will be written */
    files *in, *out;        /* processes only */
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

/* Moves with all parts in this process.  Writes only after the whole move. */
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

/* Moves on the ranks that a launcher started; rank 0 reads and writes.  If rank 0 has failed, all ranks stop. */
static rsh_status apply_launched(const application *a, const rsh_plan *plan, rsh_status st, files *in, files *out) {
    st = rsh_comm_agree(a->launched.comm, st);
    return st ? st : streamed_move(a->launched.comm, plan, in, out);
}

/* Opens the files; on ranks other than 0 they are only described, not read. */
static rsh_status open_files(const application *a, files *in, files *out, const parts *src, const parts *dst) {
    bool speaks = launched_speaks(&a->launched);
    rsh_status st = files_open(in, a->in, "FROM", src, false, speaks);
    return st ? st : files_open(out, a->out, "TO", dst, true, speaks);
}

static int apply_plan(const application *a, const rsh_plan *plan) {
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
    progress_plan("apply", ranks); /* forked ranks do not inherit its thread */
    if (!st) st = launched_nodes(&a->launched, &a->opts);
    if (!st) st = rsh_plan_new(a->pair.from, a->pair.to, &a->opts, &plan);
    int result = st ? fail_library(st) : apply_plan(a, plan);
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
