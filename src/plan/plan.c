/* Plan: checks layouts and options, lists ranks, and takes a fingerprint that ranks can compare. */
#include "plan/impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one pair of layouts ---- */

static void shape_text(const rsh_layout *l, char *text, size_t room) {
    size_t n = 0;
    text[0] = '\0';
    for (int d = 0; d < rsh_layout_ndim(l) && n < room; d++)
        n += (size_t)snprintf(text + n, room - n, "%s%lld", d ? ", " : "", (long long)rsh_layout_shape(l)[d]);
}

rsh_status rshi_check_shapes(const rsh_layout *from, const rsh_layout *to) {
    int n = rsh_layout_ndim(from);
    bool same = n == rsh_layout_ndim(to);
    for (int d = 0; d < n && same; d++) same = rsh_layout_shape(from)[d] == rsh_layout_shape(to)[d];
    if (same) return RSH_OK;
    char a[256], b[256];
    shape_text(from, a, sizeof a);
    shape_text(to, b, sizeof b);
    return rshi_fail(RSH_EVALUE, "the shapes differ: from [%s] to [%s]", a, b);
}

/* Derives how the partial axes of both sides correspond. */
static rsh_status derive_partials(rshi_pair *pair) {
    rsh_op a = rsh_layout_op(pair->from), b = rsh_layout_op(pair->to);
    RSH_REQUIRE(!a || !b || a == b, RSH_EUNSUP,
                "a partial %s cannot become a partial %s: move through a layout without partial axes", rsh_op_name(a),
                rsh_op_name(b));
    pair->keep = a && b && rshi_layout_same_partials(pair->from, pair->to);
    pair->reduce = a && !pair->keep && rshi_layout_partials(pair->from) > 1;
    pair->contributions = pair->reduce ? rshi_layout_partials(pair->from) : 1;
    pair->divisor = pair->reduce && a == RSH_OP_AVG ? pair->contributions : 1;
    pair->fill_others = b && !pair->keep && b != RSH_OP_AVG;
    return RSH_OK;
}

rsh_status rshi_pair_derive(rshi_pair *pair) {
    RSH_TRY(derive_partials(pair));
    int64_t e = (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->from)),
            f = (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to));
    pair->wire_size = pair->reduce ? e : rshi_min(e, f);
    pair->from_overlaps = rshi_layout_irregular(pair->from);
    pair->to_overlaps = rshi_layout_irregular(pair->to);
    return RSH_OK;
}

static rsh_status pair_init(rshi_pair *pair, const rsh_layout *from, const rsh_layout *to) {
    RSH_REQUIRE(from && to, RSH_EVALUE, "a plan needs two layouts");
    RSH_TRY(rshi_check_shapes(from, to));
    RSH_TRY(rsh_dtype_check_convert(rsh_layout_dtype(from), rsh_layout_dtype(to)));
    pair->src = rsh_layout_hold(from);
    pair->dst = rsh_layout_hold(to);
    pair->from = rsh_layout_hold(from);
    pair->to = rsh_layout_hold(to);
    return rshi_pair_derive(pair);
}

/* ---- ranks ---- */

/* Lists the ranks of both sides of all tensors, and removes duplicates. */
static rsh_status list_by_sorting(rsh_plan *p, int64_t room) {
    int64_t n = 0, *list = p->rank = rshi_alloc((size_t)room, sizeof *list);
    if (!list) return rshi_nomem();
    for (int64_t t = 0; t < p->n; t++) {
        const rsh_layout *both[2] = {p->pair[t].from, p->pair[t].to};
        for (int s = 0; s < 2; s++)
            for (int64_t i = 0; i < rsh_layout_nranks(both[s]); i++) list[n++] = rsh_layout_rank(both[s], i);
    }
    qsort(list, (size_t)n, sizeof *list, rshi_compare_int64);
    for (int64_t i = 0; i < n; i++)
        if (!p->nranks || list[p->nranks - 1] != list[i]) list[p->nranks++] = list[i];
    return RSH_OK;
}

static void mark_ranks(const rsh_layout *l, bool *named) {
    for (int64_t i = 0, n = rsh_layout_nranks(l); i < n; i++) named[rsh_layout_rank(l, i)] = true;
}

/* The same without sorting, if ranks are small numbers: many tensors mostly name the same ranks. */
static rsh_status list_by_marking(rsh_plan *p, int64_t bound) {
    bool *named = rshi_calloc((size_t)bound, sizeof *named);
    int64_t *list = p->rank = rshi_alloc((size_t)bound, sizeof *list);
    if (named && list) {
        for (int64_t t = 0; t < p->n; t++) mark_ranks(p->pair[t].from, named), mark_ranks(p->pair[t].to, named);
        for (int64_t r = 0; r < bound; r++)
            if (named[r]) list[p->nranks++] = r;
    }
    rshi_free(named);
    return named && list ? RSH_OK : rshi_nomem();
}

static rsh_status list_ranks(rsh_plan *p) {
    int64_t room = 0, bound = 0;
    for (int64_t t = 0; t < p->n; t++) {
        const rsh_layout *from = p->pair[t].from, *to = p->pair[t].to;
        room += rsh_layout_nranks(from) + rsh_layout_nranks(to);
        bound = rshi_max(bound, rshi_max(rshi_layout_rank_bound(from), rshi_layout_rank_bound(to)));
    }
    return bound <= 4 * room ? list_by_marking(p, bound) : list_by_sorting(p, room);
}

int64_t rshi_plan_ordinal(const rsh_plan *p, int64_t rank) {
    int64_t last = p->nranks - 1;
    if (last >= 0 && p->rank[last] - p->rank[0] == last) /* ranks are consecutive */
        return rank >= p->rank[0] && rank <= p->rank[last] ? rank - p->rank[0] : -1;
    return rshi_find(p->rank, p->nranks, sizeof *p->rank, rank);
}

/* ---- options ---- */

static rsh_status read_nodes(rsh_plan *p, const rsh_plan_opts *o) {
    RSH_REQUIRE(o->ranks_per_node >= 0, RSH_EVALUE, "ranks_per_node must be at least 0, got %lld",
                (long long)o->ranks_per_node);
    p->ranks_per_node = o->ranks_per_node;
    if (!o->node_of) return RSH_OK;
    int64_t highest = p->nranks ? p->rank[p->nranks - 1] : -1;
    RSH_REQUIRE(o->nnode_of > highest, RSH_EVALUE, "the node map must cover rank %lld, but has only %lld entries",
                (long long)highest, (long long)o->nnode_of);
    p->node_of = rshi_alloc((size_t)o->nnode_of, sizeof *p->node_of);
    if (!p->node_of) return rshi_nomem();
    memcpy(p->node_of, o->node_of, (size_t)o->nnode_of * sizeof *p->node_of);
    p->nnode_of = o->nnode_of;
    return rshi_plan_sort_nodes(p);
}

rsh_status rshi_plan_opts_take(const rsh_plan_opts *opts, rsh_plan_opts *out) {
    *out = (rsh_plan_opts)RSH_PLAN_OPTS_INIT;
    RSH_TRY(RSHI_READ_OPTIONS(opts, RSH_PLAN_OPTS_INIT, out));
    RSH_REQUIRE(!out->node_of || out->nnode_of >= 0, RSH_EVALUE, "nnode_of must be at least 0, got %lld",
                (long long)out->nnode_of);
    return RSH_OK;
}

/* Adjoints sum in order.  A transposed pair follows the forward plan.  On one node, contributions are read in order
 * anyway. */
static bool adds_by_node(const rsh_plan *p, const rshi_pair *pair) {
    if (p->adjoint && !pair->transposed) return false;
    return p->reduce == RSH_REDUCE_BY_NODE && pair->reduce && p->several_nodes;
}

static rsh_status read_opts(rsh_plan *p, const rsh_plan_opts *opts) {
    rsh_plan_opts o;
    RSH_TRY(rshi_plan_opts_take(opts, &o));
    RSH_REQUIRE((unsigned)o.reduce <= RSH_REDUCE_BY_NODE, RSH_EVALUE,
                "reduce must be a value of rsh_reduce_order, got %d", (int)o.reduce);
    RSH_TRY(read_nodes(p, &o));
    for (int64_t i = 1; i < p->nranks && rshi_plan_has_nodes(p) && !p->several_nodes; i++)
        p->several_nodes = rshi_plan_node(p, p->rank[i]) != rshi_plan_node(p, p->rank[0]);
    p->reduce = o.reduce;
    for (int64_t t = 0; t < p->n; t++) p->pair[t].by_node = adds_by_node(p, &p->pair[t]);
    p->messages = o.messages;
    p->has_ceiling = o.has_max_scratch;
    p->ceiling = o.max_scratch_bytes > INT64_MAX ? INT64_MAX : (int64_t)o.max_scratch_bytes;
    return RSH_OK;
}

/* ---- fingerprint ---- */

static uint64_t hash_number(uint64_t h, int64_t x) { return rshi_hash(&x, sizeof x, h); }

static void set_fingerprint(rsh_plan *p) {
    uint64_t h = hash_number(RSHI_PLAN_VERSION, p->n);
    for (int64_t t = 0; t < p->n; t++) {
        h = hash_number(h, (int64_t)rsh_layout_hash(p->pair[t].src));
        h = hash_number(h, (int64_t)rsh_layout_hash(p->pair[t].dst));
    }
    if (p->node_of) h = rshi_hash(p->node_of, (size_t)p->nnode_of * sizeof *p->node_of, h);
    h = hash_number(h, p->ranks_per_node);
    h = hash_number(h, p->reduce);
    h = hash_number(h, p->messages);
    h = hash_number(h, p->send_bytes);
    h = hash_number(h, p->recv_bytes);
    p->fingerprint = hash_number(h, p->adjoint);
}

static int count_stages(const rsh_plan *p) {
    int n = 1;
    for (int64_t t = 0; t < p->n; t++) n = rshi_max(n, rshi_pair_stages(p, &p->pair[t]));
    return n;
}

/* ---- making and freeing ---- */

static rsh_status plan_init(rsh_plan *p, int64_t n, const rsh_layout *const *from, const rsh_layout *const *to,
                            const rsh_plan_opts *opts) {
    p->n = n;
    p->pair = rshi_calloc((size_t)n, sizeof *p->pair);
    if (!p->pair) return rshi_nomem();
    for (int64_t t = 0; t < n; t++) {
        RSH_TRY(pair_init(&p->pair[t], from[t], to[t]));
        if (p->adjoint) RSH_TRY(rshi_pair_transpose(&p->pair[t]));
    }
    RSH_TRY(list_ranks(p));
    RSH_TRY(read_opts(p, opts));
    RSH_TRY(rshi_plan_choose_chains(p));
    p->stages = count_stages(p);
    RSH_TRY(rshi_plan_size_buffers(p));
    set_fingerprint(p);
    return RSH_OK;
}

rsh_status rshi_plan_make(int64_t n, const rsh_layout *const *from, const rsh_layout *const *to,
                          const rsh_plan_opts *opts, bool adjoint, rsh_plan **out) {
    rsh_plan *p = RSHI_NEW(rsh_plan);
    if (!p) return rshi_nomem();
    atomic_init(&p->refs, 1);
    p->adjoint = adjoint;
    rsh_status st = plan_init(p, n, from, to, opts);
    if (st)
        rsh_plan_free(p);
    else
        *out = p;
    return st;
}

rsh_status rsh_plan_new_many(int64_t n, const rsh_layout *const *from, const rsh_layout *const *to,
                             const rsh_plan_opts *opts, rsh_plan **out) {
    RSH_REQUIRE(n >= 0 && (!n || (from && to)) && out, RSH_EVALUE,
                "a plan for %lld tensors needs two layouts for each and a place for the result", (long long)n);
    return rshi_plan_make(n, from, to, opts, false, out);
}

rsh_status rsh_plan_new(const rsh_layout *from, const rsh_layout *to, const rsh_plan_opts *opts, rsh_plan **out) {
    return rsh_plan_new_many(1, &from, &to, opts, out);
}

rsh_plan *rsh_plan_hold(const rsh_plan *p) {
    rsh_plan *held = (rsh_plan *)p; /* only the count of references changes */
    /* the caller's reference keeps it alive */
    if (held) atomic_fetch_add_explicit(&held->refs, 1, memory_order_relaxed);
    return held;
}

void rsh_plan_free(rsh_plan *p) {
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) > 1) return;
    for (int64_t t = 0; t < p->n && p->pair; t++) {
        rsh_layout_free(p->pair[t].src);
        rsh_layout_free(p->pair[t].dst);
        rsh_layout_free(p->pair[t].from);
        rsh_layout_free(p->pair[t].to);
    }
    rshi_free(p->pair);
    rshi_free(p->node_of);
    rshi_free(p->node_order);
    rshi_free(atomic_load_explicit(&p->totals, memory_order_relaxed));
    rshi_free(p->rank);
    rshi_free(p);
}

/* ---- getters ---- */

int64_t rsh_plan_ntensors(const rsh_plan *p) { return p ? p->n : 0; }
const rsh_layout *rshi_plan_src(const rsh_plan *p, int64_t t) { return p->pair[t].src; }
const rsh_layout *rshi_plan_dst(const rsh_plan *p, int64_t t) { return p->pair[t].dst; }
const rsh_layout *rsh_plan_from(const rsh_plan *p, int64_t t) {
    return p && t >= 0 && t < p->n ? rshi_plan_src(p, t) : NULL;
}
const rsh_layout *rsh_plan_to(const rsh_plan *p, int64_t t) {
    return p && t >= 0 && t < p->n ? rshi_plan_dst(p, t) : NULL;
}
uint64_t rsh_plan_fingerprint(const rsh_plan *p) { return p ? p->fingerprint : 0; }
int64_t rsh_plan_nranks(const rsh_plan *p) { return p ? p->nranks : 0; }

const int64_t *rshi_plan_ranks(const rsh_plan *p, int64_t *n) {
    *n = p->nranks;
    return p->rank;
}

bool rshi_plan_messages(const rsh_plan *p) { return p->messages; }
bool rshi_plan_has_ceiling(const rsh_plan *p) { return p->has_ceiling; }

int rshi_plan_stages(const rsh_plan *p) { return p->stages; }
int64_t rshi_plan_node_of(const rsh_plan *p, int64_t rank) { return rshi_plan_node(p, rank); }
