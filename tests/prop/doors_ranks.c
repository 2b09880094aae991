/* Rank doors: the same move by several ranks, each with its own parts. */
#include "doors.h"
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#define TRY(call)                                                                                  \
    do                                                                                             \
        if ((status = (call)) != RSH_OK) goto out;                                                 \
    while (0)

rank_share share_of(const stage *s, const rsh_comm *comm) {
    int64_t r = rsh_comm_rank(comm);
    return (rank_share){r, ora_has_rank(s->from.o, r) ? s->from.memory + side_first(&s->from, r) : NULL,
                        ora_has_rank(s->to.o, r) ? s->to.memory + side_first(&s->to, r) : NULL};
}

/* Returns the address of the i-th element of the dense part, in a tensor that has it. */
static char *element(const ora_part *p, const rsh_tensor *t, int64_t i, size_t size) {
    int64_t at = 0;
    for (int k = p->ndim - 1; k >= 0; k--) {
        int d = p->order[k];
        at += i % p->shape[d] * rsh_tensor_strides(t)[d];
        i /= p->shape[d];
    }
    return (char *)rsh_tensor_data(t) + at * (int64_t)size;
}

static void show_part(held *h, const rsh_tensor *t) {
    unsigned char *dense = prop_alloc((size_t)h->part->count * h->size);
    for (int64_t i = 0; i < h->part->count; i++)
        memcpy(dense + (size_t)i * h->size, element(h->part, t, i, h->size), h->size);
    held_put(h, dense);
    free(dense);
}

static void take_part(const held *h, const rsh_tensor *t) {
    unsigned char *dense = prop_alloc((size_t)h->part->count * h->size);
    held_get(h, dense);
    for (int64_t i = 0; i < h->part->count; i++)
        memcpy(element(h->part, t, i, h->size), dense + (size_t)i * h->size, h->size);
    free(dense);
}

static void take_parts(const side *s, int64_t rank, const rsh_sharded *t) {
    int64_t first = side_first(s, rank);
    for (int64_t i = 0; i < rsh_sharded_nparts(t); i++) take_part(&s->held[first + i], rsh_sharded_part(t, i));
}

void show_parts(side *s, int64_t rank, const rsh_sharded *t) {
    int64_t first = side_first(s, rank);
    for (int64_t i = 0; i < rsh_sharded_nparts(t); i++) show_part(&s->held[first + i], rsh_sharded_part(t, i));
}

static rsh_status reshard_on_rank(void *ctx, rsh_comm *comm) {
    stage *s = ctx;
    rank_share mine = share_of(s, comm);
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_status status;
    TRY(rsh_sharded_wrap(comm, s->from.l, mine.src, &src));
    for (int round = 0; round < 2; round++) {
        if (round) stage_turn(s, mine.rank);
        TRY(rsh_reshard(src, s->to.l, &s->opts, &dst));
        show_parts(&s->to, mine.rank, dst);
        rsh_sharded_free(dst);
        dst = NULL;
    }
out:
    rsh_sharded_free(dst);
    rsh_sharded_free(src);
    return status;
}

/* The source is also in memory of the library, which peers can reach even if they cannot reach the caller's. */
static rsh_status own_memory_on_rank(void *ctx, rsh_comm *comm) {
    stage *s = ctx;
    int64_t rank = rsh_comm_rank(comm);
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_status status;
    TRY(rsh_sharded_empty(comm, s->from.l, &src));
    TRY(rsh_sharded_zeros(comm, s->to.l, &dst));
    for (int round = 0; round < 2; round++) {
        if (round) stage_turn(s, rank);
        take_parts(&s->from, rank, src);
        TRY(rsh_reshard_into(src, dst, &s->opts));
        show_parts(&s->to, rank, dst);
    }
out:
    rsh_sharded_free(dst);
    rsh_sharded_free(src);
    return status;
}

static rsh_status into_on_rank(void *ctx, rsh_comm *comm) {
    stage *s = ctx;
    rank_share mine = share_of(s, comm);
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_status status;
    TRY(rsh_sharded_wrap(comm, s->from.l, mine.src, &src));
    TRY(rsh_sharded_wrap(comm, s->to.l, mine.dst, &dst));
    TRY(rsh_reshard_into(src, dst, &s->opts));
    stage_turn(s, mine.rank);
    TRY(rsh_reshard_into(src, dst, &s->opts));
out:
    rsh_sharded_free(dst);
    rsh_sharded_free(src);
    return status;
}

typedef rsh_status (*exec_fn)(stage *s, rsh_exec *e, const rank_share *mine);

/* Makes a plan on this rank and binds it to the rank's memory. */
static rsh_status bind_and(stage *s, rsh_comm *comm, exec_fn fn) {
    rank_share mine = share_of(s, comm);
    rsh_plan *plan = NULL;
    rsh_exec *e = NULL;
    rsh_status status;
    TRY(rsh_plan_new(s->from.l, s->to.l, &s->opts, &plan));
    TRY(rsh_exec_bind(plan, comm, mine.src, mine.dst, &e));
    TRY(fn(s, e, &mine));
out:
    rsh_exec_free(e);
    rsh_plan_free(plan);
    return status;
}

static rsh_status run_twice(stage *s, rsh_exec *e, const rank_share *mine) {
    rsh_status status = rsh_exec_run(e);
    if (status != RSH_OK) return status;
    stage_turn(s, mine->rank);
    return rsh_exec_run(e);
}

static rsh_status in_pieces(rsh_exec *e) {
    bool done = false;
    rsh_status status = rsh_exec_begin(e);
    volatile double work = 1;
    for (int i = 0; status == RSH_OK && !done && i < 5; i++) {
        for (int j = 0; j < 200; j++) work = work * 1.0001 + j;
        status = rsh_exec_test(e, &done);
    }
    return status == RSH_OK ? rsh_exec_wait(e) : status;
}

static rsh_status pieces_twice(stage *s, rsh_exec *e, const rank_share *mine) {
    rsh_status status = in_pieces(e);
    if (status != RSH_OK) return status;
    stage_turn(s, mine->rank);
    return in_pieces(e);
}

/* Calls only begin and test, which must complete the run. */
static rsh_status test_until_done(rsh_exec *e) {
    bool done = false;
    rsh_status status = rsh_exec_begin(e);
    while (status == RSH_OK && !done) status = rsh_exec_test(e, &done);
    return status == RSH_OK ? rsh_exec_wait(e) : status;
}

static rsh_status tests_twice(stage *s, rsh_exec *e, const rank_share *mine) {
    rsh_status status = test_until_done(e);
    if (status != RSH_OK) return status;
    stage_turn(s, mine->rank);
    return test_until_done(e);
}

static rsh_status run_on_rank(void *ctx, rsh_comm *comm) { return bind_and(ctx, comm, run_twice); }
static rsh_status pieces_on_rank(void *ctx, rsh_comm *comm) { return bind_and(ctx, comm, pieces_twice); }
static rsh_status tests_on_rank(void *ctx, rsh_comm *comm) { return bind_and(ctx, comm, tests_twice); }

static bool twice(prop_case *c, stage *s, rsh_rank_fn fn, const char *when) {
    stage_next_values(s, &c->rng);
    PROP_OK(c, engine_run(s->nranks, fn, s));
    return stage_done_twice(c, s, when);
}

static bool reshard(prop_case *c, stage *s) { return twice(c, s, reshard_on_rank, "the second rsh_reshard"); }
static bool own_memory(prop_case *c, stage *s) {
    return twice(c, s, own_memory_on_rank, "the second rsh_reshard_into of the library's memory");
}
static bool into(prop_case *c, stage *s) { return twice(c, s, into_on_rank, "the second rsh_reshard_into"); }
static bool exec(prop_case *c, stage *s) { return twice(c, s, run_on_rank, "the second rsh_exec_run"); }
static bool pieces(prop_case *c, stage *s) { return twice(c, s, pieces_on_rank, "the second begin, test, wait"); }
static bool tests(prop_case *c, stage *s) { return twice(c, s, tests_on_rank, "the second begin and test until done"); }

static bool alias(prop_case *c, stage *s) {
    s->opts.may_alias = true;
    return twice(c, s, reshard_on_rank, "the second rsh_reshard that may alias");
}

/* Memory with the same strides as a side's, but at another address: an exec is bound to it before it runs on the side's
 * own. */
typedef struct decoy {
    held *held;
    rsh_memory *memory;
    int64_t n;
} decoy;

static decoy decoy_new(const side *s) {
    size_t n = (size_t)s->o->nparts;
    decoy d = {prop_alloc(n * sizeof *d.held), prop_alloc(n * sizeof *d.memory), s->o->nparts};
    for (size_t i = 0; i < n; i++) {
        held_like(&d.held[i], &s->held[i]);
        d.memory[i] = held_memory(&d.held[i]);
    }
    return d;
}

static void decoy_free(decoy *d) {
    for (int64_t i = 0; i < d->n; i++) held_free(&d->held[i]);
    free(d->held);
    free(d->memory);
}

typedef struct elsewhere {
    stage *s;
    decoy from, to;
} elsewhere;

static rsh_status run_elsewhere(void *ctx, rsh_comm *comm) {
    elsewhere *w = ctx;
    rank_share mine = share_of(w->s, comm);
    const rsh_memory *src = mine.src ? w->from.memory + (mine.src - w->s->from.memory) : NULL;
    const rsh_memory *dst = mine.dst ? w->to.memory + (mine.dst - w->s->to.memory) : NULL;
    rsh_plan *plan = NULL;
    rsh_exec *e = NULL;
    rsh_status status;
    TRY(rsh_plan_new(w->s->from.l, w->s->to.l, &w->s->opts, &plan));
    TRY(rsh_exec_bind(plan, comm, src, dst, &e));
    TRY(rsh_exec_run_on(e, mine.src, mine.dst));
    stage_turn(w->s, mine.rank);
    TRY(rsh_exec_run_on(e, mine.src, mine.dst));
out:
    rsh_exec_free(e);
    rsh_plan_free(plan);
    return status;
}

static bool run_on_others(prop_case *c, stage *s) {
    elsewhere w = {s, decoy_new(&s->from), decoy_new(&s->to)};
    stage_next_values(s, &c->rng);
    rsh_status status = engine_run(s->nranks, run_elsewhere, &w);
    bool clean = true;
    for (int64_t i = 0; i < w.to.n; i++) clean = clean && held_is_wiped(&w.to.held[i]);
    decoy_free(&w.from);
    decoy_free(&w.to);
    PROP_OK(c, status);
    PROP(c, clean, "rsh_exec_run_on wrote to the memory of bind");
    return stage_done_twice(c, s, "the second rsh_exec_run_on");
}

const door rank_doors[RANK_DOORS] = {
    {"rsh_reshard", reshard},
    {"rsh_reshard, may_alias", alias},
    {"rsh_reshard_into", into},
    {"rsh_reshard_into, memory of the library", own_memory},
    {"rsh_exec_run", exec},
    {"rsh_exec_begin, test, wait", pieces},
    {"rsh_exec_begin, test until done", tests},
    {"rsh_exec_run_on", run_on_others},
};
