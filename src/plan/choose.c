/* Choose: the way by which each region is moved, by what the rank that sends the most would send.
 *
 * Two ways are tried one after the other, each for the whole plan, and allowed only if the largest send becomes
 * smaller: regions that more nodes want than ranks hold are spread over the nodes (way_spread.c), by the sources
 * themselves or by the ranks beside them, and what several
 * replicas could send is cut into one slice each (way_sliced.c).  Reduced and relayed regions (way_reduced.c,
 * way_relayed.c) always move fewer bytes than direct ones (way_direct.c); for them no comparison is needed. */
#include "plan/impl.h"

#include <stdlib.h>

/* Walking is worth it only for plans of modest size. */
#define WALK_LIMIT ((int64_t)1 << 16)

static bool has_shared_box(const rsh_layout_desc *desc) {
    for (int64_t b = 0; b < desc->nboxes; b++)
        if (desc->boxes[b].nranks > 1) return true;
    return false;
}

static bool has_replicas(const rsh_layout *l) {
    if (rsh_layout_describe(l)->is_boxes) return has_shared_box(rsh_layout_describe(l));
    rshi_piece *list = NULL;
    int64_t n = 0;
    bool found = false;
    if (!rsh_layout_nranks(l) || rshi_layout_pieces(l, rsh_layout_rank(l, 0), &list, &n)) return false;
    for (int64_t i = 0; i < n; i++) found |= rshi_piece_holders(l, &list[i]) > 1;
    rshi_free(list);
    return found || !rshi_layout_plain(l);
}

static int64_t pair_bytes(const rshi_pair *pair) { return rshi_mul_most(rsh_layout_count(pair->to), pair->wire_size); }

static bool can_slice(const rshi_pair *pair) {
    return !pair->keep && !pair->by_node && pair_bytes(pair) >= 8 * RSHI_SLICE_BYTES &&
           (has_replicas(pair->from) || rshi_layout_partials(pair->from) > 1);
}

/* Not where elements grow wider on the way: ranks would pass on more bytes than they must. */
static bool can_spread(const rshi_pair *pair) {
    if (pair->keep || pair->reduce || pair->irregular ||
        (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to)) > pair->wire_size)
        return false;
    return pair_bytes(pair) >= 2 * RSHI_SLICE_BYTES && has_replicas(pair->to);
}

/* Where the numbers do not fit, `bytes` is the largest number. */
static rsh_status largest_send(const rsh_plan *p, int64_t *bytes) {
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    bool fits;
    RSH_TRY(rshi_plan_fits(p, &fits));
    if (fits) RSH_TRY(rshi_totals(p, NULL, &t));
    *bytes = fits ? t.max_send : INT64_MAX;
    return RSH_OK;
}

static bool is_walked(const rsh_plan *p) {
    return rshi_mul_most(rshi_mul_most(p->nranks, p->nranks), p->n) <= WALK_LIMIT;
}

/* ---- spreading ---- */

static rsh_status count_nodes(const rsh_plan *p, const rsh_layout *l, int64_t *count) {
    int64_t n = rsh_layout_nranks(l), *node = rshi_alloc((size_t)rshi_max(n, 1), sizeof *node);
    if (!node) return rshi_nomem();
    for (int64_t i = 0; i < n; i++) node[i] = rshi_plan_node(p, rsh_layout_rank(l, i));
    qsort(node, (size_t)n, sizeof *node, rshi_compare_int64);
    *count = 0;
    for (int64_t i = 0; i < n; i++) *count += !i || node[i] != node[i - 1];
    rshi_free(node);
    return RSH_OK;
}

/* Without a walk: sources that are fewer than nodes would each send to several, whoever wants what. */
static rsh_status spread_few_sources(rsh_plan *p) {
    for (int64_t t = 0; t < p->n; t++) {
        int64_t nodes = 0;
        if (!can_spread(&p->pair[t])) continue;
        RSH_TRY(count_nodes(p, p->pair[t].to, &nodes));
        p->pair[t].spread = rsh_layout_nranks(p->pair[t].from) < nodes;
    }
    return RSH_OK;
}

static rsh_status choose_spread(rsh_plan *p) {
    bool any = false;
    if (!rshi_plan_has_nodes(p)) return RSH_OK;
    if (!is_walked(p)) return spread_few_sources(p);
    for (int64_t t = 0; t < p->n; t++) any |= can_spread(&p->pair[t]);
    if (!any) return RSH_OK;
    int64_t whole, spread, forwarded;
    RSH_TRY(largest_send(p, &whole));
    for (int64_t t = 0; t < p->n; t++) p->pair[t].spread = can_spread(&p->pair[t]);
    RSH_TRY(largest_send(p, &spread));
    for (int64_t t = 0; t < p->n; t++) p->pair[t].forward = p->pair[t].spread;
    RSH_TRY(largest_send(p, &forwarded));
    for (int64_t t = 0; t < p->n; t++) {
        p->pair[t].forward &= forwarded < rshi_min(spread, whole);
        p->pair[t].spread &= rshi_min(spread, forwarded) < whole;
    }
    return RSH_OK;
}

rsh_status rshi_plan_choose_ways(rsh_plan *p) {
    bool any = false;
    RSH_TRY(choose_spread(p));
    for (int64_t t = 0; t < p->n; t++) any |= can_slice(&p->pair[t]);
    if (!any || !is_walked(p)) return RSH_OK;
    int64_t whole, sliced;
    RSH_TRY(largest_send(p, &whole));
    for (int64_t t = 0; t < p->n; t++) p->pair[t].slice = true;
    RSH_TRY(largest_send(p, &sliced));
    for (int64_t t = 0; t < p->n; t++) p->pair[t].slice = sliced < whole;
    return RSH_OK;
}

/* ---- one region ---- */

/* The dim along which a region is cut, always the same however many slices: the longest, the outermost of equals. */
void rshi_region_find_dim(rshi_region *r) {
    for (int d = 0; d < rsh_layout_ndim(r->pair->to); d++) {
        const rshi_stripe *a = &r->a->set[d], *b = &r->b->set[d];
        int64_t n = rshi_stripe_common(a, b, a->lo, rshi_stripe_end(a));
        if (n > r->extent) r->dim = d, r->extent = n;
    }
}

void rshi_region_init(const rsh_plan *p, int64_t tensor, const rshi_piece *a, const rshi_piece *b,
                      rshi_rank_edges *edges, rshi_edges *out, rshi_region *r) {
    r->p = p, r->pair = &p->pair[tensor];
    r->a = a, r->b = b, r->a_kept = NULL;
    r->dim = 0, r->extent = 0;
    r->edges = edges, r->out = out;
    rshi_edge_init(p, tensor, a, b, &r->whole);
}

rsh_status rshi_region_edges(const rsh_plan *p, int64_t tensor, const rshi_piece *a, const rshi_piece *b,
                             rshi_rank_edges *edges, rshi_edges *out) {
    rshi_region r;
    int64_t n;
    rshi_region_init(p, tensor, a, b, edges, out, &r);
    if (rshi_goes_directly(p, r.pair, rshi_piece_holders(r.pair->to, b))) return rshi_direct_edge(&r);
    rshi_region_find_dim(&r);
    if (r.pair->spread) {
        bool spread;
        RSH_TRY(rshi_spread_edges(&r, &spread));
        if (spread) return RSH_OK;
    }
    if ((n = rshi_reduced_slices(&r)) > 1) return rshi_reduced_edges(&r, n);
    bool relayed;
    RSH_TRY(rshi_relayed_edges(&r, &relayed));
    if (relayed) return RSH_OK;
    if ((n = rshi_sliced_slices(&r)) > 1) return rshi_sliced_edges(&r, n);
    return rshi_direct_edge(&r);
}
