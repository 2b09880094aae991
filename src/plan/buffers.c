/* Buffers: the sizes of the buffers for messages.
 *
 * A rank packs several messages, one after another, into one buffer, and receives into another.  All contributions
 * to a reduction are held together before they are combined, so the second buffer has a slot for each.  Sizes are
 * the same on every rank, because both ends of a message must cut it at the same places. */
#include "plan/impl.h"

/* Used unless the ceiling or small tensors require less: a few messages each way.  If many ranks share a node, their
 * buffers should fit into the caches that they share. */
#define BUFFER_BYTES     ((int64_t)1 << 20)
#define LARGE_NODE_BYTES ((int64_t)512 << 10)
#define LARGE_NODE       16 /* ranks on one node */

/* What the tensors need, in bytes: space for one element to send, for one of each contribution, and for a whole
 * stream. */
typedef struct need {
    int64_t send, recv;
    int64_t stream, contributions;
    int64_t most; /* upper limit for a buffer */
} need;

/* The number of elements of the largest part, or an upper bound that is fast to compute. */
static int64_t largest_part(const rsh_layout *l) {
    int64_t n = 1;
    if (!rshi_layout_plain(l)) return rsh_layout_count(l);
    for (int d = 0; d < rsh_layout_ndim(l); d++) {
        int64_t most = 0;
        for (int64_t k = 0; k < rshi_layout_cut_parts(l, d); k++) {
            rshi_stripe s = rshi_layout_cut_stripe(l, d, k);
            most = rshi_max(most, rshi_stripe_size(&s));
        }
        n *= most;
    }
    return n;
}

/* The largest number of ranks that hold the same elements. */
static rsh_status most_holders(const rsh_layout *l, int64_t *most) {
    *most = 1;
    for (int64_t i = 0; i < rsh_layout_nranks(l); i++) {
        rshi_piece *list = NULL;
        int64_t n = 0;
        RSH_TRY(rshi_layout_pieces(l, rsh_layout_rank(l, i), &list, &n));
        for (int64_t k = 0; k < n; k++) *most = rshi_max(*most, rshi_piece_holders(l, &list[k]));
        rshi_free(list);
    }
    return RSH_OK;
}

/* The largest number of contributions to one element.  In a transposed map every rank that may have read it
 * contributes. */
static rsh_status most_contributions(const rshi_pair *pair, int64_t *n) {
    *n = pair->contributions;
    if (!pair->transposed) return RSH_OK;
    if (pair->to_overlaps) { /* copies are separate pieces: any rank may hold one */
        *n = rsh_layout_nranks(pair->to);
        return RSH_OK;
    }
    RSH_TRY(most_holders(pair->to, n));
    if (!pair->fill_others && !pair->keep) *n *= rshi_layout_partials(pair->to);
    return RSH_OK;
}

static rsh_status add_need(const rshi_pair *pair, need *out) {
    int64_t e = (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->from)),
            f = (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to)), n;
    if (pair->by_node) e = rshi_max(e, (int64_t)rsh_dtype_size(rshi_pair_accumulator(pair)));
    int64_t size = rshi_max(e, f), part = rshi_min(largest_part(pair->from), largest_part(pair->to));
    RSH_TRY(most_contributions(pair, &n));
    out->send = rshi_max(out->send, size);
    out->recv = rshi_max(out->recv, n * size);
    out->contributions = rshi_max(out->contributions, n);
    out->stream = rshi_min(out->most, out->stream + rshi_min(out->most, rshi_mul_most(part, size)));
    return RSH_OK;
}

/* Are at least LARGE_NODE ranks of the plan on one node?  In node_order they are adjacent. */
static bool has_large_node(const rsh_plan *p) {
    if (p->ranks_per_node && !p->node_of && p->ranks_per_node < LARGE_NODE) return false;
    if (!p->node_of) return p->nranks >= LARGE_NODE;
    for (int64_t i = LARGE_NODE - 1; i < p->nranks; i++) {
        int64_t first = p->rank[p->node_order[i - LARGE_NODE + 1]], last = p->rank[p->node_order[i]];
        if (rshi_plan_node(p, first) == rshi_plan_node(p, last)) return true;
    }
    return false;
}

static rsh_status moves_nothing(const rsh_plan *p, bool *nothing) {
    rshi_kept_totals k = {.totals = RSH_PLAN_TOTALS_INIT};
    rshi_rank_bytes bytes = {0};
    rsh_status st = rshi_rank_bytes_new(p, &bytes);
    if (!st) st = rshi_totals(p, NULL, &k, &bytes);
    rshi_rank_bytes_free(&bytes);
    *nothing = !k.totals.messages;
    return st;
}

static rsh_status refuse(int64_t least, int64_t ceiling) {
    return rshi_fail(RSH_ENOMEM, "messages need at least %lld bytes of scratch per rank, but max_scratch_bytes is %lld",
                     (long long)least, (long long)ceiling);
}

/* Makes both buffers fit under the ceiling: half each, unless one needs less or reductions need more. */
static rsh_status keep_under_ceiling(rsh_plan *p, const need *n) {
    int64_t least = n->send + n->recv, room = p->ceiling - p->scratch_bytes;
    if (room < least) {
        bool nothing = !p->messages;
        if (!nothing) RSH_TRY(moves_nothing(p, &nothing));
        if (!nothing) return refuse(least + p->scratch_bytes, p->ceiling);
        room = least;
    }
    int64_t most = rshi_max(n->recv, rshi_max(room / 2, room - p->send_bytes));
    p->recv_bytes = rshi_min(p->recv_bytes, most);
    p->send_bytes = rshi_min(p->send_bytes, room - p->recv_bytes);
    return RSH_OK;
}

rsh_status rshi_plan_size_buffers(rsh_plan *p) {
    need n = {.send = 1, .recv = 1, .contributions = 1, .most = has_large_node(p) ? LARGE_NODE_BYTES : BUFFER_BYTES};
    for (int64_t t = 0; t < p->n; t++)
        if (p->pair[t].scratch_bytes && !p->pair[t].transposed)
            p->scratch_bytes = rshi_scratch_start(p->scratch_bytes) + p->pair[t].scratch_bytes;
    RSH_REQUIRE(!p->has_ceiling || p->scratch_bytes <= p->ceiling, RSH_ENOMEM,
                "combining by node needs %lld bytes of scratch per rank, but max_scratch_bytes is %lld; raise it or "
                "use RSH_REDUCE_IN_ORDER",
                (long long)p->scratch_bytes, (long long)p->ceiling);
    for (int64_t t = 0; t < p->n; t++) RSH_TRY(add_need(&p->pair[t], &n));
    p->send_bytes = rshi_max(n.send, n.stream);
    p->recv_bytes = rshi_max(n.recv, rshi_min(n.most, rshi_mul_most(n.contributions, n.stream)));
    return p->has_ceiling ? keep_under_ceiling(p, &n) : RSH_OK;
}

rsh_status rshi_plan_messages_fit(const rsh_plan *p) {
    int64_t both = p->send_bytes + p->recv_bytes + p->scratch_bytes;
    return p->has_ceiling && both > p->ceiling ? refuse(both, p->ceiling) : RSH_OK;
}

int64_t rshi_plan_send_bytes(const rsh_plan *p) { return p->send_bytes; }
int64_t rshi_plan_recv_bytes(const rsh_plan *p) { return p->recv_bytes; }
