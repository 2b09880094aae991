/* Totals compared with a walk over the transfers of all ranks, and lower bounds compared with a count of elements:
 * pairs of any form on up to 40 ranks, with nodes, replicas, partials, lists of ranks and limits on scratch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prop.h"

enum { MOST_RANKS = 40, NAMES = 48 }; /* most ranks of a layout; all rank numbers are below NAMES */

typedef struct summed {
    rsh_layout *from, *to;
    ora_layout *from_o, *to_o;
    rsh_plan *plan;
    rsh_plan_totals t;
    int64_t node[NAMES];
    int64_t matrix[NAMES][NAMES]; /* bytes at [source][destination] */
    int64_t sends[NAMES][NAMES];  /* the same, from the shares of the senders */
} summed;

/* ---- making a pair ---- */

static void any_ranks(gen_rng *g, int n, int64_t *rank) {
    int64_t all[NAMES], first = gen_below(g, NAMES - n + 1), way = gen_below(g, 3);
    for (int i = 0; i < NAMES; i++) all[i] = i;
    if (way == 2) gen_shuffle(g, NAMES, all);
    for (int i = 0; i < n; i++) rank[i] = way == 1 ? first + i : all[i];
}

static void any_side(gen_rng *g, const gen_wish *w, char text[GEN_TEXT]) {
    static gen_layout l;
    int64_t rank[MOST_RANKS];
    gen_wish few = *w;
    few.max_ranks = GEN_MAX_ROLES;
    if (w->op == ORA_NONE && gen_chance(g, 25))
        gen_box_layout(g, &few, &l);
    else
        gen_mesh_layout(g, w, &l);
    any_ranks(g, l.nroles, rank);
    gen_text(&l, rank, text);
}

static void any_pair(gen_rng *g, char from[GEN_TEXT], char to[GEN_TEXT]) {
    gen_shape shape = gen_any_shape(g);
    ora_dtype a = gen_any_dtype(g), b = gen_chance(g, 25) ? gen_dtype_from(g, a) : a;
    ora_op op_a = gen_chance(g, 40) ? gen_any_op(g, a) : ORA_NONE, op_b = ORA_NONE;
    if (gen_chance(g, 30)) op_b = op_a == ORA_NONE ? gen_any_op(g, b) : ora_op_exists(op_a, b) ? op_a : ORA_NONE;
    int most = gen_chance(g, 60) ? MOST_RANKS : (int)gen_between(g, 1, MOST_RANKS);
    any_side(g, &(gen_wish){shape, a, op_a, most, true, false}, from);
    any_side(g, &(gen_wish){shape, b, op_b, most, true, op_a != ORA_NONE}, to);
}

/* Draws no nodes, nodes of consecutive ranks, or a random map. */
static void any_nodes(prop_case *c, summed *s, rsh_plan_opts *o) {
    int64_t way = gen_below(&c->rng, 4), n = gen_between(&c->rng, 1, 12);
    for (int64_t r = 0; r < NAMES; r++) s->node[r] = way == 0 ? 0 : way < 3 ? r / n : 7 * gen_below(&c->rng, n);
    if (way == 1 || way == 2) o->ranks_per_node = n;
    if (way == 3) o->node_of = s->node, o->nnode_of = NAMES;
    snprintf(c->note, sizeof c->note, way == 0 ? "no nodes" : way < 3 ? "%lld ranks a node" : "up to %lld nodes",
             (long long)n);
}

/* ---- the walk ---- */

static void add_transfers(summed *s, const rsh_transfer *t, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < t[i].nsrc; k++)
            s->matrix[t[i].src[k].rank][t[i].dst.rank] += t[i].count * t[i].element_bytes;
}

static bool walk(prop_case *c, summed *s) {
    for (int64_t r = 0; r < NAMES; r++) {
        rsh_share *share;
        PROP_OK(c, rsh_plan_share(s->plan, r, &share));
        add_transfers(s, share->copies, share->ncopies);
        add_transfers(s, share->receives, share->nreceives);
        for (int64_t i = 0; i < share->nsends; i++)
            for (int64_t k = 0; k < share->sends[i].nsrc; k++)
                if (share->sends[i].src[k].rank == r)
                    s->sends[r][share->sends[i].dst.rank] += share->sends[i].count * share->sends[i].element_bytes;
        rsh_share_free(share);
    }
    return true;
}

/* Checks that a rank sends what others receive from it.  A receive that also has a source on its own rank is listed by
 * the receiver only. */
static bool both_ends_agree(prop_case *c, const summed *s) {
    for (int64_t r = 0; r < NAMES; r++)
        for (int64_t q = 0; q < NAMES; q++)
            PROP(c, r == q || s->sends[r][q] == s->matrix[r][q],
                 "rank %lld sends %lld bytes to %lld, which receives %lld", (long long)r, (long long)s->sends[r][q],
                 (long long)q, (long long)s->matrix[r][q]);
    return true;
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static rsh_plan_totals totals_of_walk(const summed *s) {
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    for (int64_t r = 0; r < NAMES; r++) {
        int64_t sent = 0, received = 0;
        t.bytes_local += s->matrix[r][r];
        for (int64_t q = 0; q < NAMES; q++) {
            if (q == r) continue;
            sent += s->matrix[r][q];
            received += s->matrix[q][r];
            t.messages += s->matrix[r][q] > 0;
            if (s->node[q] != s->node[r]) t.bytes_between_nodes += s->matrix[r][q];
        }
        t.bytes_moved += sent;
        t.max_send = most(t.max_send, sent);
        t.max_recv = most(t.max_recv, received);
    }
    return t;
}

/* ---- elements ---- */

static bool keeps(const summed *s) { return s->from_o->op != ORA_NONE && ora_moves_alone(s->from_o, s->to_o); }
static bool reduces(const summed *s) {
    return s->from_o->op != ORA_NONE && !keeps(s) && s->from_o->npartial > 1;
}

/* Returns false for parts that are only filled with the identity of the op. */
static bool needs(const summed *s, const ora_part *b) {
    return s->to_o->op == ORA_NONE || keeps(s) || s->to_o->op == ORA_AVG || b->partial == 0;
}

static bool has(const ora_part *p, int64_t element) {
    for (int64_t i = 0; i < p->count; i++)
        if (p->element[i] == element) return true;
    return false;
}

/* Does a rank (or, with `near`, any rank of its node) hold the element, at a partial position if positions move
 * separately? */
static bool holds(const summed *s, int64_t rank, int64_t element, int64_t partial, bool near) {
    for (int64_t i = 0; i < s->from_o->nparts; i++) {
        const ora_part *a = &s->from_o->part[i];
        if (near ? s->node[a->rank] != s->node[rank] : a->rank != rank) continue;
        if ((!keeps(s) || a->partial == partial) && has(a, element)) return true;
    }
    return false;
}

static int64_t smaller_size(const summed *s) {
    int64_t a = (int64_t)ora_size(s->from_o->dtype), b = (int64_t)ora_size(s->to_o->dtype);
    return a < b ? a : b;
}

static int64_t least_copied(const summed *s) {
    int64_t n = 0;
    for (int64_t i = 0; i < s->to_o->nparts; i++) {
        const ora_part *b = &s->to_o->part[i];
        for (int64_t k = 0; k < b->count && needs(s, b); k++) n += !holds(s, b->rank, b->element[k], b->partial, false);
    }
    return n * smaller_size(s);
}

/* Computes the least bytes of a reduction: contributions must meet, and all copies except one must be sent. */
static int64_t least_reduced(const summed *s) {
    int64_t bytes = 0, e = (int64_t)ora_size(s->from_o->dtype);
    for (int64_t element = 0; element < s->to_o->count; element++) {
        int64_t copies = 0;
        bool contributes = false;
        for (int64_t i = 0; i < s->to_o->nparts; i++) {
            const ora_part *b = &s->to_o->part[i];
            if (!needs(s, b) || !has(b, element)) continue;
            copies++;
            contributes = contributes || holds(s, b->rank, element, 0, false);
        }
        bytes += (s->from_o->npartial - contributes) * e + (copies - 1) * smaller_size(s);
    }
    return bytes;
}

/* Does an earlier part of the same node need the same element? */
static bool comes_anyway(const summed *s, int64_t part, int64_t element) {
    const ora_part *b = &s->to_o->part[part];
    for (int64_t i = 0; i < part; i++) {
        const ora_part *p = &s->to_o->part[i];
        if (s->node[p->rank] == s->node[b->rank] && needs(s, p) && (!keeps(s) || p->partial == b->partial) &&
            has(p, element))
            return true;
    }
    return false;
}

static int64_t least_between(const summed *s) {
    int64_t n = 0;
    for (int64_t i = 0; i < s->to_o->nparts && !reduces(s); i++) {
        const ora_part *b = &s->to_o->part[i];
        for (int64_t k = 0; k < b->count && needs(s, b); k++)
            n += !holds(s, b->rank, b->element[k], b->partial, true) && !comes_anyway(s, i, b->element[k]);
    }
    return n * smaller_size(s);
}

/* ---- properties ---- */

static bool summed_new(prop_case *c, summed *s, rsh_plan_opts *o) {
    memset(s, 0, sizeof *s);
    any_pair(&c->rng, c->from, c->to);
    any_nodes(c, s, o);
    s->from_o = ora_parse(c->from);
    s->to_o = ora_parse(c->to);
    PROP_OK(c, rsh_layout_parse(c->from, &s->from));
    PROP_OK(c, rsh_layout_parse(c->to, &s->to));
    PROP_OK(c, rsh_plan_new(s->from, s->to, o, &s->plan));
    s->t.struct_size = sizeof s->t;
    PROP_OK(c, rsh_plan_get_totals(s->plan, &s->t));
    return walk(c, s);
}

static void summed_free(summed *s) {
    rsh_plan_free(s->plan);
    rsh_layout_free(s->from);
    rsh_layout_free(s->to);
    ora_free(s->from_o);
    ora_free(s->to_o);
}

#define SAME(field)                                                                                                    \
    PROP(c, s->t.field == w.field, #field " %lld, the walk has %lld", (long long)s->t.field, (long long)w.field)

typedef struct rank_check {
    prop_case *c;
    const summed *s;
    int64_t n;
    bool ok;
} rank_check;

static bool rank_is_as_walked(rank_check *k, int64_t r, int64_t sent, int64_t received, int64_t kept) {
    for (int64_t q = 0; q < NAMES; q++) {
        if (q == r) continue;
        sent -= k->s->matrix[r][q];
        received -= k->s->matrix[q][r];
    }
    kept -= k->s->matrix[r][r];
    PROP(k->c, !sent && !received && !kept, "rank %lld: %lld bytes more sent, %lld received, %lld kept than walked",
         (long long)r, (long long)sent, (long long)received, (long long)kept);
    return true;
}

static int check_rank(void *ctx, int64_t rank, int64_t sent, int64_t received, int64_t kept) {
    rank_check *k = ctx;
    k->n++;
    k->ok = rank_is_as_walked(k, rank, sent, received, kept);
    return !k->ok;
}

static bool ranks_are_as_walked(prop_case *c, const summed *s) {
    rank_check k = {c, s, 0, true};
    PROP_OK(c, rsh_plan_each_rank(s->plan, check_rank, &k));
    PROP(c, !k.ok || k.n == rsh_plan_nranks(s->plan), "%lld ranks were told", (long long)k.n);
    return k.ok;
}

static bool same_as_walk(prop_case *c, const summed *s) {
    rsh_plan_totals w = totals_of_walk(s);
    SAME(bytes_moved);
    SAME(bytes_local);
    SAME(bytes_between_nodes);
    SAME(max_send);
    SAME(max_recv);
    SAME(messages);
    return ranks_are_as_walked(c, s);
}

static bool tells_the_bytes_of_the_tensor(prop_case *c, const summed *s) {
    int64_t bytes = s->to_o->count * (int64_t)ora_size(s->to_o->dtype);
    PROP(c, s->t.tensor_bytes == bytes, "tensor_bytes %lld, not %lld", (long long)s->t.tensor_bytes, (long long)bytes);
    return true;
}

static bool totals(prop_case *c) {
    static summed s;
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    o.reduce = gen_chance(&c->rng, 40) ? RSH_REDUCE_BY_NODE : RSH_REDUCE_IN_ORDER;
    bool ok = summed_new(c, &s, &o) && both_ends_agree(c, &s) && same_as_walk(c, &s) &&
              tells_the_bytes_of_the_tensor(c, &s);
    summed_free(&s);
    return ok;
}

/* Walks over another plan instead of that of the pair. */
static bool walk_of(prop_case *c, summed *s, rsh_plan *plan) {
    rsh_plan_free(s->plan);
    s->plan = plan;
    memset(s->matrix, 0, sizeof s->matrix);
    memset(s->sends, 0, sizeof s->sends);
    PROP_OK(c, rsh_plan_get_totals(plan, &s->t));
    return walk(c, s) && both_ends_agree(c, s) && same_as_walk(c, s);
}

/* Tests the transposed map, and backward. */
static bool ways_back(prop_case *c) {
    static summed s;
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    rsh_plan *plan = NULL;
    bool ok = summed_new(c, &s, &o);
    rsh_status st = RSH_OK;
    if (ok) st = gen_chance(&c->rng, 70) ? rsh_plan_adjoint(s.plan, &plan) : rsh_plan_backward(s.plan, &plan);
    if (ok && !st) ok = walk_of(c, &s, plan);
    if (ok && !st && s.t.lower_bound > s.t.bytes_moved)
        ok = prop_say(c, "lower_bound %lld, but %lld bytes move", (long long)s.t.lower_bound,
                      (long long)s.t.bytes_moved);
    if (ok && st && st != RSH_EUNSUP && st != RSH_ETYPE)
        ok = prop_say(c, "a way back: %s", rsh_status_name(st));
    summed_free(&s);
    return ok;
}

/* Tests several tensors, some of which have the same layouts. */
static bool many(prop_case *c) {
    enum { MOST = 5 };
    static summed s;
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    rsh_layout *list[2][MOST] = {{NULL}};
    const rsh_layout *from[MOST], *to[MOST];
    rsh_plan *plan = NULL;
    int64_t n = gen_between(&c->rng, 2, MOST), made = 0;
    bool ok = summed_new(c, &s, &o);
    for (int64_t i = 0; i < n && ok; i++) {
        int64_t like = gen_chance(&c->rng, 40) ? gen_below(&c->rng, i + 1) : i;
        from[i] = like < i ? from[like] : s.from, to[i] = like < i ? to[like] : s.to;
        if (like < i || !i) continue;
        any_pair(&c->rng, c->from, c->to);
        ok = !rsh_layout_parse(c->from, &list[0][made]) && !rsh_layout_parse(c->to, &list[1][made]);
        from[i] = list[0][made], to[i] = list[1][made];
        made++;
    }
    if (ok) ok = !rsh_plan_new_many(n, from, to, &o, &plan) || prop_say(c, "many: %s", rsh_error_detail());
    if (ok) ok = walk_of(c, &s, plan);
    for (int64_t i = 0; i < made; i++) rsh_layout_free(list[0][i]), rsh_layout_free(list[1][i]);
    summed_free(&s);
    return ok;
}

/* Returns the axes, as bits, that divide something. */
static unsigned axes_of(const ora_layout *l, const ora_cut *cut) {
    unsigned axes = 0;
    for (int i = 0; i < cut->naxes; i++)
        if (l->axis_size[cut->axis[i]] > 1) axes |= 1u << cut->axis[i];
    return axes;
}

/* Is the layout flat over segments some of which are replicated along an axis of their dim?  Copies are then in ranges
 * of different shapes, and the bound of a reduction counts only the first. */
static bool is_irregular(const ora_layout *l) {
    for (int d = 0; d < l->ndim && l->flat.naxes; d++)
        for (int i = 1; i < l->dim[d].nsegments; i++)
            if (axes_of(l, &l->dim[d].segment[i].cut) != axes_of(l, &l->dim[d].segment[0].cut)) return true;
    return false;
}

static bool bounds(prop_case *c) {
    static summed s;
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    bool ok = summed_new(c, &s, &o);
    if (ok) {
        int64_t least = reduces(&s) ? least_reduced(&s) : least_copied(&s), between = least_between(&s);
        bool lower = s.t.lower_bound < least && reduces(&s) && is_irregular(s.to_o);
        if (s.t.lower_bound != least && !lower)
            ok = prop_say(c, "lower_bound %lld, elements make %lld", (long long)s.t.lower_bound, (long long)least);
        else if (o.ranks_per_node + o.nnode_of && s.t.lower_bound_between_nodes != between)
            ok = prop_say(c, "lower_bound_between_nodes %lld, elements make %lld",
                          (long long)s.t.lower_bound_between_nodes, (long long)between);
    }
    summed_free(&s);
    return ok;
}

/* With a limit, or with messages, the same bytes move, and scratch does not exceed the limit. */
static bool ceilings(prop_case *c) {
    static summed s;
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    rsh_plan *plan = NULL;
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    bool ok = summed_new(c, &s, &o);
    o.messages = gen_chance(&c->rng, 70);
    o.has_max_scratch = true;
    o.max_scratch_bytes = (uint64_t)gen_between(&c->rng, 0, 20000);
    rsh_status st = ok ? rsh_plan_new(s.from, s.to, &o, &plan) : RSH_OK;
    if (ok && st == RSH_OK) {
        st = rsh_plan_get_totals(plan, &t);
        int64_t scratch = o.messages ? t.scratch_messages : 0;
        if (st || t.bytes_moved != s.t.bytes_moved || t.messages != s.t.messages || t.scratch_bytes != scratch ||
            (uint64_t)t.scratch_bytes > o.max_scratch_bytes || (t.scratch_messages > 0) != (t.messages > 0))
            ok = prop_say(c, "under %lld bytes: %lld moved, %lld messages, %lld bytes of scratch",
                          (long long)o.max_scratch_bytes, (long long)t.bytes_moved, (long long)t.messages,
                          (long long)t.scratch_bytes);
    } else if (ok && st != RSH_ENOMEM) {
        ok = prop_say(c, "rsh_plan_new says %s", rsh_status_name(st));
    }
    rsh_plan_free(plan);
    summed_free(&s);
    return ok;
}

static void totals_are_those_of_the_transfers(void **state) { (void)state; prop_run("totals", 3000, totals); }
static void totals_of_ways_back_are_those_of_their_transfers(void **state) {
    (void)state;
    prop_run("ways_back", 1500, ways_back);
}
static void totals_of_many_tensors_are_those_of_their_transfers(void **state) {
    (void)state;
    prop_run("many", 600, many);
}
static void lower_bounds_are_those_of_the_elements(void **state) { (void)state; prop_run("bounds", 600, bounds); }
static void a_ceiling_changes_scratch_only(void **state) { (void)state; prop_run("ceilings", 400, ceilings); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_are_those_of_the_transfers),
        cmocka_unit_test(totals_of_ways_back_are_those_of_their_transfers),
        cmocka_unit_test(totals_of_many_tensors_are_those_of_their_transfers),
        cmocka_unit_test(lower_bounds_are_those_of_the_elements),
        cmocka_unit_test(a_ceiling_changes_scratch_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
