/* Bound: computes a lower bound for the time of any plan on a machine.
 *
 * A node must write its destinations and read as many elements.  Its network card must receive the data that the node
 * needs and does not hold.  If ranks need data of other ranks, one latency passes.  All of these may overlap, except
 * the latency. */
#include "simulate/impl.h"

#include "layout/layout.h"

/* Adds half the bytes of a rank's parts, with `each` bytes per element. */
static rsh_status add_parts(const rsh_layout *l, int64_t rank, size_t each, double *bytes) {
    for (int64_t k = 0; k < rsh_layout_nparts(l, rank); k++) {
        rsh_part part;
        RSH_TRY(rsh_layout_part(l, rank, k, &part));
        *bytes += (double)each * (double)part.count / 2;
    }
    return RSH_OK;
}

/* Determines whether no other rank holds an element of this rank. */
static rsh_status is_alone(const rsh_layout *l, int64_t rank, bool *alone) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    RSH_TRY(rshi_layout_pieces(l, rank, &list, &n));
    *alone = true;
    for (int64_t i = 0; i < n; i++) *alone &= rshi_piece_holders(l, &list[i]) == 1;
    rshi_free(list);
    return RSH_OK;
}

/* Adds the bytes that a rank must copy.  Its destinations are written, and one element is read for each.  Contributions
 * that only this rank holds are all read.  Partial destinations may be filled with constants, so they are not
 * counted. */
static rsh_status rank_must_copy(const rsh_plan *p, int64_t rank, double *bytes) {
    for (int64_t t = 0; t < rsh_plan_ntensors(p); t++) {
        const rsh_layout *from = rshi_plan_src(p, t), *to = rshi_plan_dst(p, t);
        size_t a = rsh_dtype_size(rsh_layout_dtype(from)), b = rsh_dtype_size(rsh_layout_dtype(to));
        bool alone;
        if (rsh_layout_op(to)) continue;
        RSH_TRY(is_alone(from, rank, &alone));
        RSH_TRY(add_parts(to, rank, rsh_layout_op(from) ? b : a + b, bytes));
        if (rsh_layout_op(from) && alone) RSH_TRY(add_parts(from, rank, a, bytes));
    }
    return RSH_OK;
}

static void raise_bound(rsh_simulation *s, double seconds, rsh_resource r) {
    if (seconds <= s->lower_bound) return;
    s->lower_bound = seconds;
    s->lower_bound_limit = r;
}

static rsh_status bound_node(const rsh_plan *p, const rsh_machine *m, int64_t node, double bytes, rsh_simulation *s) {
    int64_t need = 0;
    raise_bound(s, bytes / m->memory, RSH_RESOURCE_MEMORY);
    if (!m->nic) return RSH_OK;
    RSH_TRY(rshi_lower_bound_into_node(p, node, &need));
    raise_bound(s, (double)need / m->nic, RSH_RESOURCE_NIC_IN);
    return RSH_OK;
}

rsh_status rshi_simulate_bound(const rsh_plan *p, const rsh_machine *m, const rshi_witnesses *w, rsh_simulation *s) {
    double bytes = 0;
    bool others = false;
    for (int64_t i = 0; i < w->n; i++) {
        double own = 0;
        RSH_TRY(rank_must_copy(p, w->list[i].rank, &own));
        bytes += own * w->list[i].weight;
        if (i + 1 < w->n && w->list[i + 1].node == w->list[i].node) continue;
        RSH_TRY(bound_node(p, m, w->list[i].node, bytes, s));
        bytes = 0;
    }
    for (int k = 0; k < s->nstages; k++) others |= s->stage[k].resource[RSH_RESOURCE_LATENCY] > 0;
    if (!others) return RSH_OK;
    if (m->latency > s->lower_bound) s->lower_bound_limit = RSH_RESOURCE_LATENCY;
    s->lower_bound += m->latency;
    return RSH_OK;
}
