/* Messages compared with direct transport: the same bytes, with any limit, and with the scratch that the plan
 * states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "stage.h"

enum { MOST = 3, MANY_PARTS = MOST * GEN_MAX_BOXES * GEN_MAX_ROLES, RUNS = 3 };

/* Several tensors, moved forward and (adjoint) back. */
typedef struct crowd {
    int n, nranks;
    bool adjoint;
    stage s[MOST];
    const rsh_layout *from[MOST], *to[MOST];
    rsh_plan_opts opts;
    int way; /* how the ranks run */
    int64_t stated[GEN_MAX_ROLES + 1];
    uint64_t peak[GEN_MAX_ROLES + 1], requests[GEN_MAX_ROLES + 1];
} crowd;

static side *source(crowd *w, int i) { return w->adjoint ? &w->s[i].to : &w->s[i].from; }
static side *destination(crowd *w, int i) { return w->adjoint ? &w->s[i].from : &w->s[i].to; }

static ora_dtype any_float(gen_rng *g) {
    static const ora_dtype list[] = {ORA_F64, ORA_F32, ORA_F16, ORA_BF16};
    return list[gen_below(g, 4)];
}

/* Draws a pair that has an adjoint: floats; copies, sum and avg. */
static void linear_pair(gen_rng *g, char from[GEN_TEXT], char to[GEN_TEXT]) {
    ora_op op = gen_chance(g, 50) ? ORA_SUM : ORA_AVG;
    bool source_is_partial = gen_chance(g, 30);
    gen_wish w = {gen_any_shape(g), any_float(g), source_is_partial ? op : ORA_NONE, 12, true, source_is_partial};
    gen_side(g, &w, from);
    w.op = !source_is_partial && gen_chance(g, 30) ? op : ORA_NONE;
    if (gen_chance(g, 40)) w.dtype = any_float(g);
    gen_side(g, &w, to);
}

static bool add_tensor(crowd *w, prop_case *c) {
    static const gen_pair_wish any = {50, 40, false, true, 12, false};
    char from[GEN_TEXT], to[GEN_TEXT];
    size_t f = strlen(c->from), t = strlen(c->to);
    int i = w->n;
    if (w->adjoint)
        linear_pair(&c->rng, from, to);
    else
        gen_pair(&c->rng, &any, from, to);
    snprintf(c->from + f, sizeof c->from - f, "%s%s", i ? "; " : "", from);
    snprintf(c->to + t, sizeof c->to - t, "%s%s", i ? "; " : "", to);
    if (!stage_new(&w->s[i], c, from, to, gen_chance(&c->rng, 40))) return false;
    w->n++;
    w->from[i] = w->s[i].from.l;
    w->to[i] = w->s[i].to.l;
    if (w->s[i].nranks > w->nranks) w->nranks = w->s[i].nranks;
    return true;
}

static rsh_status make_plan(const crowd *w, const rsh_plan_opts *opts, rsh_plan **out) {
    rsh_plan *forward = NULL;
    rsh_status status = rsh_plan_new_many(w->n, w->from, w->to, opts, w->adjoint ? &forward : out);
    if (status == RSH_OK && w->adjoint) status = rsh_plan_adjoint(forward, out);
    rsh_plan_free(forward);
    return status;
}

static rsh_status try_ceiling(const crowd *w, uint64_t ceiling) {
    rsh_plan_opts opts = w->opts;
    rsh_plan *p = NULL;
    opts.has_max_scratch = true;
    opts.max_scratch_bytes = ceiling;
    rsh_status status = make_plan(w, &opts, &p);
    rsh_plan_free(p);
    return status;
}

static uint64_t least_ceiling(const crowd *w) {
    uint64_t low = 0, high = 1 << 20;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (try_ceiling(w, middle) == RSH_OK)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Draws a limit: none, the least possible, or something above it. */
static void any_ceiling(crowd *w, prop_case *c) {
    static const uint64_t more[] = {0, 0, 1, 3, 8, 17, 64, 200, 1000, 5000};
    if (gen_chance(&c->rng, 20)) return;
    w->opts.max_scratch_bytes = least_ceiling(w) + more[gen_below(&c->rng, 10)];
    w->opts.has_max_scratch = true;
}

/* Lists the parts of one rank (or of all if rank < 0), tensor by tensor. */
static rsh_memory *list_parts(crowd *w, bool sources, int64_t rank) {
    rsh_memory *out = prop_alloc(MANY_PARTS * sizeof *out);
    int64_t n = 0;
    for (int i = 0; i < w->n; i++) {
        const side *s = sources ? source(w, i) : destination(w, i);
        for (int64_t k = 0; k < s->o->nparts; k++)
            if (rank < 0 || s->o->part[k].rank == rank) out[n++] = s->memory[k];
    }
    return out;
}

/* Stores the result of direct transport as the expected one. */
static bool expect(prop_case *c, crowd *w) {
    rsh_plan *plan = NULL;
    rsh_plan_opts opts = w->opts;
    opts.messages = opts.has_max_scratch = false;
    PROP_OK(c, make_plan(w, &opts, &plan));
    rsh_memory *src = list_parts(w, true, -1), *dst = list_parts(w, false, -1);
    rsh_status status = rsh_plan_run_local(plan, NULL, src, dst);
    free(src);
    free(dst);
    rsh_plan_free(plan);
    PROP_OK(c, status);
    for (int i = 0; i < w->n; i++) {
        side *s = destination(w, i);
        for (int64_t k = 0; k < s->o->nparts; k++) held_get(&s->held[k], s->dense[k]);
        side_wipe(s);
    }
    return true;
}

static rsh_status run_in_pieces(rsh_exec *e) {
    bool done = false;
    rsh_status status = rsh_exec_begin(e);
    for (int i = 0; status == RSH_OK && !done && i < 20; i++) status = rsh_exec_test(e, &done);
    return status == RSH_OK ? rsh_exec_wait(e) : status;
}

/* Overwrites a rank's destinations: messages never read another rank's destination, so this is allowed at any time. */
static void wipe(crowd *w, int64_t rank) {
    for (int i = 0; i < w->n; i++) {
        side *s = destination(w, i);
        for (int64_t k = 0; k < s->o->nparts; k++)
            if (s->o->part[k].rank == rank) held_wipe(&s->held[k]);
    }
}

static rsh_status run_some_way(const crowd *w, rsh_exec *e, const rsh_memory *src, const rsh_memory *dst) {
    if (w->way == 0) return rsh_exec_run(e);
    return w->way == 1 ? run_in_pieces(e) : rsh_exec_run_on(e, src, dst);
}

static rsh_status run_often(crowd *w, const rsh_plan *plan, rsh_comm *comm, const rsh_memory *src,
                            const rsh_memory *dst) {
    int r = rsh_comm_rank(comm);
    rsh_exec *e = NULL;
    rsh_alloc_reset_peak();
    uint64_t held = rsh_alloc_get_stats().scratch_bytes;
    rsh_status status = rsh_exec_bind(plan, comm, src, dst, &e);
    uint64_t before = rsh_alloc_get_stats().allocations;
    for (int i = 0; i < RUNS && status == RSH_OK; i++) {
        wipe(w, r);
        status = run_some_way(w, e, src, dst);
    }
    w->requests[r] = rsh_alloc_get_stats().allocations - before;
    w->peak[r] = rsh_alloc_get_stats().scratch_peak - held;
    rsh_exec_free(e);
    if (status == RSH_OK && rsh_alloc_get_stats().scratch_bytes != held) status = RSH_ERUNTIME;
    return status;
}

static rsh_status on_rank(void *ctx, rsh_comm *comm) {
    crowd *w = ctx;
    int r = rsh_comm_rank(comm);
    rsh_plan *plan = NULL;
    rsh_rank_totals view = RSH_RANK_TOTALS_INIT;
    rsh_memory *src = list_parts(w, true, r), *dst = list_parts(w, false, r);
    rsh_status status = make_plan(w, &w->opts, &plan);
    if (status == RSH_OK) status = rsh_plan_get_rank_totals(plan, r, &view);
    if (status == RSH_OK) status = run_often(w, plan, comm, src, dst);
    w->stated[r] = view.scratch_bytes;
    rsh_plan_free(plan);
    free(src);
    free(dst);
    return status;
}

static bool as_stated(prop_case *c, const crowd *w) {
    for (int r = 0; r < w->nranks; r++) {
        if (!engine_sees(r)) continue;
        PROP(c, (int64_t)w->peak[r] == w->stated[r], "rank %d: scratch %llu, stated %lld", r,
             (unsigned long long)w->peak[r], (long long)w->stated[r]);
        PROP(c, !w->opts.has_max_scratch || w->peak[r] <= w->opts.max_scratch_bytes,
             "rank %d: scratch %llu, ceiling %llu", r, (unsigned long long)w->peak[r],
             (unsigned long long)w->opts.max_scratch_bytes);
        PROP(c, !w->requests[r], "rank %d: %llu requests for memory in runs", r, (unsigned long long)w->requests[r]);
    }
    return true;
}

static bool compare(prop_case *c, crowd *w) {
    w->opts = (rsh_plan_opts)RSH_PLAN_OPTS_INIT;
    w->opts.messages = true;
    if (gen_chance(&c->rng, 40)) w->opts.ranks_per_node = gen_between(&c->rng, 1, 5);
    if (gen_chance(&c->rng, 50)) w->opts.reduce = RSH_REDUCE_BY_NODE;
    w->way = (int)gen_below(&c->rng, 3);
    for (int i = 0; i < w->n; i++) {
        side_fill(source(w, i), &c->rng, gen_chance(&c->rng, 20));
        side_wipe(destination(w, i));
    }
    any_ceiling(w, c);
    snprintf(c->note, sizeof c->note, "adjoint=%d way=%d ranks=%d ranks_per_node=%d by_node=%d ceiling=%lld",
             w->adjoint, w->way,
             w->nranks, (int)w->opts.ranks_per_node, w->opts.reduce == RSH_REDUCE_BY_NODE,
             w->opts.has_max_scratch ? (long long)w->opts.max_scratch_bytes : -1LL);
    if (!expect(c, w)) return false;
    PROP_OK(c, engine_run(w->nranks, on_rank, w));
    for (int i = 0; i < w->n; i++)
        if (!side_matches(c, destination(w, i), ORA_BITS, "by messages") ||
            !side_matches(c, source(w, i), ORA_BITS, "the source"))
            return false;
    return as_stated(c, w);
}

static bool messages(prop_case *c, bool adjoint) {
    crowd *w = prop_alloc(sizeof *w);
    w->adjoint = adjoint;
    int64_t n = gen_chance(&c->rng, 60) ? 1 : gen_between(&c->rng, 2, MOST);
    bool ok = true;
    while (ok && w->n < n) ok = add_tensor(w, c);
    ok = ok && compare(c, w);
    for (int i = 0; i < w->n; i++) stage_free(&w->s[i]);
    free(w);
    return ok;
}

static bool forward(prop_case *c) { return messages(c, false); }
static bool backward(prop_case *c) { return messages(c, true); }

static void messages_bring_the_same_bytes(void **state) { (void)state; prop_run("messages", 300, forward); }
static void messages_bring_the_same_adjoint(void **state) { (void)state; prop_run("adjoint_messages", 200, backward); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_bring_the_same_bytes),
        cmocka_unit_test(messages_bring_the_same_adjoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
