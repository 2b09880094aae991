/* Moves compared with the oracle, through every public function, with any strides and options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doors.h"
#include "engine.h"

static const gen_pair_wish any_pair = {40, 35, false, true, 12, false};
static const door *through;
static bool raw; /* random bits instead of numbers */

static bool go_through(prop_case *c, const gen_pair_wish *w) {
    stage s;
    snprintf(c->note, sizeof c->note, "%s", through->name);
    gen_pair(&c->rng, w, c->from, c->to);
    bool ok = stage_new(&s, c, c->from, c->to, gen_chance(&c->rng, 60));
    if (ok) {
        s.raw = raw;
        stage_options(&s, c);
        stage_values(&s, &c->rng);
        ok = through->go(c, &s);
    }
    stage_free(&s);
    return ok;
}

static bool one_door(prop_case *c) { return go_through(c, &any_pair); }

static const door *any_door(gen_rng *g) {
    int64_t i = gen_below(g, LOCAL_DOORS + RANK_DOORS);
    return i < LOCAL_DOORS && !engine_is_job() ? &local_doors[i] : &rank_doors[i % RANK_DOORS];
}

/* A NaN of a reduction has the same bits on every engine, in vector loops and in remainders. */
static bool any_bits_reduced(prop_case *c) {
    const gen_pair_wish partial = {100, 20, false, true, 12, gen_chance(&c->rng, 5)};
    through = any_door(&c->rng);
    raw = true;
    bool ok = go_through(c, &partial);
    raw = false;
    return ok;
}

static void reductions_of_any_bits_give_the_oracles_bits(void **state) {
    (void)state;
    prop_run("any bits", 250, any_bits_reduced);
}

/* Draws sizes that are large enough for kernels which small parts never use. */
static bool any_door_large(prop_case *c) {
    static const gen_pair_wish large = {30, 30, false, true, 6, true};
    through = any_door(&c->rng);
    return go_through(c, &large);
}

/* ---- allreduce ---- */

enum { MOST_REDUCED = 300 };
typedef struct agreement {
    ora_dtype t;
    ora_op op;
    int nranks;
    int64_t count;
    unsigned char mine[GEN_MAX_ROLES][MOST_REDUCED * 8], got[GEN_MAX_ROLES][MOST_REDUCED * 8];
} agreement;

static rsh_status agree_on_rank(void *ctx, rsh_comm *comm) {
    agreement *a = ctx;
    rsh_dtype t = RSH_U8;
    rsh_op op = RSH_OP_NONE;
    int r = rsh_comm_rank(comm);
    for (int k = RSH_OP_NONE; k < RSH_OP_COUNT; k++)
        if (!strcmp(rsh_op_name((rsh_op)k), ora_op_name(a->op))) op = (rsh_op)k;
    rsh_status st = rsh_dtype_parse(ora_dtype_name(a->t), strlen(ora_dtype_name(a->t)), &t);
    return st ? st : rsh_comm_allreduce(comm, a->mine[r], a->got[r], a->count, t, op);
}

static bool agreed(prop_case *c, const agreement *a) {
    size_t size = ora_size(a->t);
    for (int64_t i = 0; i < a->count; i++) {
        const unsigned char *list[GEN_MAX_ROLES];
        unsigned char expected[16];
        for (int r = 0; r < a->nranks; r++) list[r] = a->mine[r] + (size_t)i * size;
        ora_reduce_to(a->op, a->t, a->nranks, list, NULL, a->t, expected);
        for (int r = 0; r < a->nranks; r++)
            PROP(c, !engine_sees(r) || ora_equal(a->t, ORA_BITS, a->got[r] + (size_t)i * size, expected),
                 "%s of %d %s: rank %d, element %lld", ora_op_name(a->op), a->nranks, ora_dtype_name(a->t), r,
                 (long long)i);
    }
    return true;
}

/* Uses the plain C types, which are the dtypes that allreduce supports. */
static bool any_allreduce(prop_case *c) {
    agreement *a = prop_alloc(sizeof *a);
    do a->t = gen_any_dtype(&c->rng);
    while (ora_is_complex(a->t) || (ora_is_float(a->t) && ora_size(a->t) < 4));
    a->op = gen_any_op(&c->rng, a->t);
    /* in a job, all ranks */
    a->nranks = engine_ranks(engine_is_job() ? GEN_MAX_ROLES : (int)gen_between(&c->rng, 1, 6));
    a->count = gen_between(&c->rng, 1, MOST_REDUCED);
    for (int r = 0; r < a->nranks; r++)
        for (int64_t i = 0; i < a->count; i++)
            value_bits(&c->rng, a->t, a->mine[r] + (size_t)i * ora_size(a->t));
    rsh_status st = engine_run(a->nranks, agree_on_rank, a);
    bool ok = st ? prop_say(c, "%s: %s", rsh_status_name(st), rsh_error_detail()) : agreed(c, a);
    free(a);
    return ok;
}

static void allreduce_of_any_bits_gives_the_oracles_bits(void **state) {
    (void)state;
    prop_run("allreduce", 60, any_allreduce);
}

static void large_tensors_arrive_too(void **state) { (void)state; prop_run("large", 20, any_door_large); }

static void the_oracles_bytes_arrive(void **state) {
    through = *state;
    prop_run(through->name, 150, one_door);
}

/* Several tensors at once. */
enum { MOST = 3 };
typedef struct crowd {
    int n, nranks;
    stage s[MOST];
    const rsh_layout *from[MOST], *to[MOST];
} crowd;

static bool crowd_new(crowd *w, prop_case *c) {
    memset(w, 0, sizeof *w);
    w->n = (int)gen_between(&c->rng, 1, MOST);
    for (int i = 0; i < w->n; i++) {
        char from[GEN_TEXT], to[GEN_TEXT];
        size_t f = strlen(c->from), t = strlen(c->to);
        gen_pair(&c->rng, &any_pair, from, to);
        snprintf(c->from + f, sizeof c->from - f, "%s%s", i ? "; " : "", from);
        snprintf(c->to + t, sizeof c->to - t, "%s%s", i ? "; " : "", to);
        if (!stage_new(&w->s[i], c, from, to, gen_chance(&c->rng, 40))) return false;
        stage_values(&w->s[i], &c->rng);
        w->from[i] = w->s[i].from.l;
        w->to[i] = w->s[i].to.l;
        if (w->s[i].nranks > w->nranks) w->nranks = w->s[i].nranks;
    }
    return true;
}

static void crowd_free(crowd *w) {
    for (int i = 0; i < w->n; i++) stage_free(&w->s[i]);
}

static bool crowd_done(prop_case *c, crowd *w, const char *when) {
    for (int i = 0; i < w->n; i++)
        if (!stage_done(c, &w->s[i], when)) {
            size_t n = strlen(c->note);
            snprintf(c->note + n, sizeof c->note - n, ", tensor %d", i);
            return false;
        }
    return true;
}

static rsh_status many_on_rank(void *ctx, rsh_comm *comm) {
    crowd *w = ctx;
    rsh_sharded *src[MOST] = {0}, *dst[MOST] = {0};
    rsh_status status = RSH_OK;
    for (int i = 0; i < w->n && status == RSH_OK; i++)
        status = rsh_sharded_wrap(comm, w->from[i], share_of(&w->s[i], comm).src, &src[i]);
    if (status == RSH_OK) status = rsh_reshard_many(w->n, (const rsh_sharded *const *)src, w->to, NULL, dst);
    for (int i = 0; i < w->n; i++) {
        if (status == RSH_OK) show_parts(&w->s[i].to, rsh_comm_rank(comm), dst[i]);
        rsh_sharded_free(dst[i]);
        rsh_sharded_free(src[i]);
    }
    return status;
}

/* Lists the parts of one rank (or of all if rank < 0), tensor by tensor. */
static int64_t list_parts(const crowd *w, bool sources, int64_t rank, rsh_memory *out) {
    int64_t n = 0;
    for (int i = 0; i < w->n; i++) {
        const side *s = sources ? &w->s[i].from : &w->s[i].to;
        for (int64_t k = 0; k < s->o->nparts; k++)
            if (rank < 0 || s->o->part[k].rank == rank) out[n++] = s->memory[k];
    }
    return n;
}

enum { MANY_PARTS = MOST * GEN_MAX_BOXES * GEN_MAX_ROLES };

static rsh_status bound_on_rank(void *ctx, rsh_comm *comm) {
    crowd *w = ctx;
    rsh_memory *src = prop_alloc(MANY_PARTS * sizeof *src), *dst = prop_alloc(MANY_PARTS * sizeof *dst);
    int64_t nsrc = list_parts(w, true, rsh_comm_rank(comm), src), ndst = list_parts(w, false, rsh_comm_rank(comm), dst);
    rsh_plan *plan = NULL;
    rsh_exec *e = NULL;
    rsh_status status = rsh_plan_new_many(w->n, w->from, w->to, NULL, &plan);
    if (status == RSH_OK) status = rsh_exec_bind(plan, comm, nsrc ? src : NULL, ndst ? dst : NULL, &e);
    if (status == RSH_OK) status = rsh_exec_run(e);
    rsh_exec_free(e);
    rsh_plan_free(plan);
    free(src);
    free(dst);
    return status;
}

static rsh_status many_locally(crowd *w) {
    rsh_memory *src = prop_alloc(MANY_PARTS * sizeof *src), *dst = prop_alloc(MANY_PARTS * sizeof *dst);
    rsh_plan *plan = NULL;
    list_parts(w, true, -1, src);
    list_parts(w, false, -1, dst);
    rsh_status status = rsh_plan_new_many(w->n, w->from, w->to, NULL, &plan);
    if (status == RSH_OK) status = rsh_plan_run_local(plan, NULL, src, dst);
    rsh_plan_free(plan);
    free(src);
    free(dst);
    return status;
}

static bool many(prop_case *c) {
    crowd *w = prop_alloc(sizeof *w);
    bool ok = crowd_new(w, c);
    if (ok) {
        int64_t way = gen_below(&c->rng, 3);
        const char *name = way == 0   ? "rsh_reshard_many"
                           : way == 1 ? "rsh_plan_new_many and bind"
                                      : "rsh_plan_new_many and run_local";
        snprintf(c->note, sizeof c->note, "%s", name);
        rsh_status status = way == 2 ? many_locally(w) : engine_run(w->nranks, way ? bound_on_rank : many_on_rank, w);
        ok = status == RSH_OK ? crowd_done(c, w, name)
                              : prop_say(c, "%s: %s", rsh_status_name(status), rsh_error_detail());
    }
    crowd_free(w);
    free(w);
    return ok;
}

static void many_tensors_move_in_one_plan(void **state) { (void)state; prop_run("many", 200, many); }

/* Binds several execs of one comm, which run in turn, with different values the second time. */
static rsh_status bind_each(crowd *w, rsh_comm *comm, rsh_plan **plan, rsh_exec **e) {
    rsh_status status = RSH_OK;
    for (int i = 0; i < w->n && status == RSH_OK; i++) {
        rank_share mine = share_of(&w->s[i], comm);
        status = rsh_plan_new(w->from[i], w->to[i], NULL, &plan[i]);
        if (status == RSH_OK) status = rsh_exec_bind(plan[i], comm, mine.src, mine.dst, &e[i]);
    }
    return status;
}

static void unbind_each(crowd *w, rsh_plan **plan, rsh_exec **e) {
    for (int i = 0; i < w->n; i++) {
        rsh_exec_free(e[i]);
        rsh_plan_free(plan[i]);
    }
}

static rsh_status interleaved_on_rank(void *ctx, rsh_comm *comm) {
    crowd *w = ctx;
    rsh_plan *plan[MOST] = {0};
    rsh_exec *e[MOST] = {0};
    rsh_status status = bind_each(w, comm, plan, e);
    for (int k = 0; k < 2 * w->n && status == RSH_OK; k++) {
        if (k >= w->n) stage_turn(&w->s[k - w->n], rsh_comm_rank(comm));
        status = rsh_exec_run(e[k % w->n]);
    }
    unbind_each(w, plan, e);
    return status;
}

/* Begins all runs, then waits for them in an order that differs between ranks. */
static rsh_status begun_together(crowd *w, rsh_exec **e, int rank) {
    rsh_status status = RSH_OK;
    for (int i = 0; i < w->n && status == RSH_OK; i++) status = rsh_exec_begin(e[i]);
    for (int i = 0; i < w->n && status == RSH_OK; i++)
        status = rsh_exec_wait(e[rank % 2 ? w->n - 1 - i : (i + rank / 2) % w->n]);
    return status;
}

static rsh_status together_on_rank(void *ctx, rsh_comm *comm) {
    crowd *w = ctx;
    rsh_plan *plan[MOST] = {0};
    rsh_exec *e[MOST] = {0};
    rsh_status status = bind_each(w, comm, plan, e);
    for (int round = 0; round < 2 && status == RSH_OK; round++) {
        for (int i = 0; round && i < w->n; i++) stage_turn(&w->s[i], rsh_comm_rank(comm));
        status = begun_together(w, e, rsh_comm_rank(comm));
    }
    unbind_each(w, plan, e);
    return status;
}

static bool twice_each(prop_case *c, crowd *w, rsh_rank_fn fn) {
    for (int i = 0; i < w->n; i++) stage_next_values(&w->s[i], &c->rng);
    PROP_OK(c, engine_run(w->nranks, fn, w));
    for (int i = 0; i < w->n; i++)
        if (!stage_done_twice(c, &w->s[i], "the second turn")) return false;
    return true;
}

static bool several(prop_case *c, rsh_rank_fn fn) {
    crowd *w = prop_alloc(sizeof *w);
    bool ok = crowd_new(w, c) && twice_each(c, w, fn);
    crowd_free(w);
    free(w);
    return ok;
}

static bool interleaved(prop_case *c) { return several(c, interleaved_on_rank); }
static bool together(prop_case *c) { return several(c, together_on_rank); }

static void several_execs_of_one_comm_keep_apart(void **state) {
    (void)state;
    prop_run("interleaved", 100, interleaved);
}
static void several_runs_at_once_may_be_waited_for_in_any_order(void **state) {
    (void)state;
    prop_run("together", 100, together);
}

/* Writes the layout of the same tensor, whole on one rank. */
static void whole_text(const char *text, int root, char out[GEN_TEXT]) {
    ora_layout *l = ora_parse(text);
    size_t n = (size_t)snprintf(out, GEN_TEXT, "%s[", ora_dtype_name(l->dtype));
    for (int d = 0; d < l->ndim; d++) n += (size_t)snprintf(out + n, GEN_TEXT - n, d ? ", %d" : "%d", (int)l->shape[d]);
    snprintf(out + n, GEN_TEXT - n, "] on w=1@[%d]", root);
    ora_free(l);
}

typedef struct rooted {
    stage s;
    int root;
} rooted;

static rsh_status gather_on_rank(void *ctx, rsh_comm *comm) {
    rooted *w = ctx;
    rsh_sharded *src = NULL;
    rsh_status status = rsh_sharded_wrap(comm, w->s.from.l, share_of(&w->s, comm).src, &src);
    if (status == RSH_OK)
        status = rsh_sharded_gather(src, w->root, rsh_comm_rank(comm) == w->root ? w->s.to.memory : NULL);
    rsh_sharded_free(src);
    return status;
}

static rsh_status scatter_on_rank(void *ctx, rsh_comm *comm) {
    rooted *w = ctx;
    rsh_sharded *dst = NULL;
    const rsh_memory *whole = rsh_comm_rank(comm) == w->root ? w->s.from.memory : NULL;
    rsh_status status = rsh_sharded_scatter(comm, w->s.to.l, w->root, whole, &dst);
    if (status == RSH_OK) show_parts(&w->s.to, rsh_comm_rank(comm), dst);
    rsh_sharded_free(dst);
    return status;
}

static bool rooted_move(prop_case *c, rsh_rank_fn fn, const char *when) {
    rooted w;
    bool ok = stage_new(&w.s, c, c->from, c->to, gen_chance(&c->rng, 60));
    w.root = (int)(fn == gather_on_rank ? w.s.to.o : w.s.from.o)->part[0].rank;
    if (ok) {
        stage_values(&w.s, &c->rng);
        rsh_status status = engine_run(w.s.nranks, fn, &w);
        ok = status == RSH_OK ? stage_done(c, &w.s, when)
                              : prop_say(c, "%s: %s", rsh_status_name(status), rsh_error_detail());
    }
    stage_free(&w.s);
    return ok;
}

static bool gather(prop_case *c) {
    gen_pair(&c->rng, &any_pair, c->from, c->to);
    whole_text(c->from, (int)gen_below(&c->rng, engine_ranks(8)), c->to);
    return rooted_move(c, gather_on_rank, "rsh_sharded_gather");
}

static bool scatter(prop_case *c) {
    gen_pair(&c->rng, &any_pair, c->from, c->to);
    whole_text(c->to, (int)gen_below(&c->rng, engine_ranks(8)), c->from);
    return rooted_move(c, scatter_on_rank, "rsh_sharded_scatter");
}

static void gather_brings_the_whole_tensor_to_the_root(void **state) { (void)state; prop_run("gather", 120, gather); }
static void scatter_deals_the_whole_tensor_out(void **state) { (void)state; prop_run("scatter", 120, scatter); }

static rsh_status move(const rsh_layout *from, const rsh_memory *src, const rsh_layout *to, const rsh_memory *dst) {
    rsh_plan *plan = NULL;
    rsh_status status = rsh_plan_new(from, to, NULL, &plan);
    if (status == RSH_OK) status = rsh_plan_run_local(plan, NULL, src, dst);
    rsh_plan_free(plan);
    return status;
}

static bool back_again(prop_case *c, stage *s, side *back) {
    for (int64_t i = 0; i < back->o->nparts; i++)
        memcpy(back->dense[i], s->from.dense[i], (size_t)back->o->part[i].count * ora_size(back->o->dtype));
    PROP_OK(c, move(s->from.l, s->from.memory, s->to.l, s->to.memory));
    PROP_OK(c, move(s->to.l, s->to.memory, back->l, back->memory));
    return side_matches(c, back, ORA_BITS, "there and back");
}

static bool round_trip(prop_case *c) {
    static const gen_pair_wish plain = {0, 0, false, true, 12, false};
    stage s;
    side back = {0};
    gen_pair(&c->rng, &plain, c->from, c->to);
    bool ok = stage_new(&s, c, c->from, c->to, true);
    if (ok) {
        stage_values(&s, &c->rng);
        ok = side_new(&back, c, c->from, true) && back_again(c, &s, &back);
    }
    side_free(&back);
    stage_free(&s);
    return ok;
}

static void there_and_back_is_where_it_was(void **state) { (void)state; prop_run("round_trip", 200, round_trip); }

static rsh_status refused_on_rank(void *ctx, rsh_comm *comm) {
    stage *s = ctx;
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_status status = rsh_sharded_wrap(comm, s->from.l, share_of(s, comm).src, &src);
    if (status == RSH_OK) status = rsh_reshard(src, s->to.l, NULL, &dst);
    rsh_sharded_free(dst);
    rsh_sharded_free(src);
    return status;
}

static bool other_op(prop_case *c) {
    static const gen_pair_wish ops = {100, 20, true, true, 6, false};
    stage s;
    do {
        gen_pair(&c->rng, &ops, c->from, c->to);
        if (!stage_new(&s, c, c->from, c->to, false)) return false;
        if (s.supported) stage_free(&s);
    } while (s.supported);
    rsh_plan *plan = NULL;
    rsh_status planned = rsh_plan_new(s.from.l, s.to.l, NULL, &plan), moved = engine_run(s.nranks, refused_on_rank, &s);
    rsh_plan_free(plan);
    stage_free(&s);
    PROP(c, planned == RSH_EUNSUP, "rsh_plan_new says %s", rsh_status_name(planned));
    PROP(c, moved == RSH_EUNSUP, "rsh_reshard says %s", rsh_status_name(moved));
    return true;
}

static void one_partial_op_does_not_become_another(void **state) { (void)state; prop_run("other_op", 40, other_op); }

/* Adds one test per door, with the name of the door. */
static int add_doors(const door *list, int n, struct CMUnitTest *out) {
    for (int i = 0; i < n; i++)
        out[i] = (struct CMUnitTest){list[i].name, the_oracles_bytes_arrive, NULL, NULL, (void *)(uintptr_t)&list[i]};
    return n;
}

int main(void) {
    const struct CMUnitTest others[] = {
        cmocka_unit_test(reductions_of_any_bits_give_the_oracles_bits),
        cmocka_unit_test(allreduce_of_any_bits_gives_the_oracles_bits),
        cmocka_unit_test(large_tensors_arrive_too),
        cmocka_unit_test(many_tensors_move_in_one_plan),
        cmocka_unit_test(several_execs_of_one_comm_keep_apart),
        cmocka_unit_test(several_runs_at_once_may_be_waited_for_in_any_order),
        cmocka_unit_test(gather_brings_the_whole_tensor_to_the_root),
        cmocka_unit_test(scatter_deals_the_whole_tensor_out),
        cmocka_unit_test(there_and_back_is_where_it_was),
        cmocka_unit_test(one_partial_op_does_not_become_another),
    };
    struct CMUnitTest tests[LOCAL_DOORS + RANK_DOORS + sizeof others / sizeof *others];
    int n = engine_is_job() ? 0 : add_doors(local_doors, LOCAL_DOORS, tests); /* local doors need no ranks */
    n += add_doors(rank_doors, RANK_DOORS, tests + n);
    memcpy(tests + n, others, sizeof others);
    return _cmocka_run_group_tests("the oracle's bytes arrive through every door", tests,
                                   (size_t)n + sizeof others / sizeof *others, NULL, NULL);
}
