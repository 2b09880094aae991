/* Tally: bytes per pair of ranks, counted over the edges of shares. */
#include "plan/impl.h"

#include <stdlib.h>

/* Bytes between one rank and each of the others, by ordinal; only what was touched is looked at again. */
typedef struct tally {
    const rsh_plan *p;
    int64_t rank;
    int64_t *bytes;   /* nranks */
    int64_t *touched; /* ordinals */
    int64_t n;
    rshi_rank_edges edges; /* of the rank */
} tally;

static rsh_status tally_init(tally *t, const rsh_plan *p) {
    *t = (tally){.p = p};
    t->bytes = rshi_calloc((size_t)p->nranks, sizeof *t->bytes);
    t->touched = rshi_alloc((size_t)p->nranks, sizeof *t->touched);
    return t->bytes && t->touched ? RSH_OK : rshi_nomem();
}

static void tally_free(tally *t) {
    rshi_free(t->bytes);
    rshi_free(t->touched);
    rshi_rank_edges_free(&t->edges);
}

static void tally_clear(tally *t) {
    for (int64_t i = 0; i < t->n; i++) t->bytes[t->touched[i]] = 0;
    t->n = 0;
}

static void tally_add(tally *t, int64_t peer, int64_t bytes) {
    int64_t i = rshi_plan_ordinal(t->p, peer);
    if (!bytes) return;
    if (!t->bytes[i]) t->touched[t->n++] = i;
    if (!rshi_add(t->bytes[i], bytes, &t->bytes[i])) t->bytes[i] = INT64_MAX;
}

/* What each source of the edges gives. */
static void count_sources(tally *t, const rshi_edges *list) {
    for (int64_t i = 0; i < list->n; i++) {
        const rshi_edge *e = &list->edge[i];
        int64_t bytes = rshi_edge_count(e) * e->wire_size;
        for (int64_t k = 0; k < e->nsrc; k++) tally_add(t, rshi_edge_source(e, k), bytes);
    }
}

/* What each destination of the edges gets from this rank. */
static void count_destinations(tally *t, const rshi_edges *list) {
    for (int64_t i = 0; i < list->n; i++) {
        const rshi_edge *e = &list->edge[i];
        int64_t bytes = rshi_edge_count(e) * e->wire_size;
        for (int64_t k = 0; k < e->nsrc; k++)
            if (rshi_edge_source(e, k) == t->rank) tally_add(t, e->dst->rank, bytes);
    }
}

/* Everything that the rank receives, and keeps. */
static rsh_status tally_receives(tally *t, int64_t rank) {
    t->rank = rank;
    RSH_TRY(rshi_plan_receives(t->p, rank, &t->edges));
    count_sources(t, &t->edges.copies);
    count_sources(t, &t->edges.receives);
    return RSH_OK;
}

/* Everything that the rank sends, and keeps; receives may have sources of its own too. */
static rsh_status tally_sends(tally *t, int64_t rank) {
    t->rank = rank;
    RSH_TRY(rshi_plan_edges(t->p, rank, &t->edges));
    count_destinations(t, &t->edges.copies);
    count_destinations(t, &t->edges.receives);
    count_destinations(t, &t->edges.sends);
    return RSH_OK;
}

static void tally_sort(tally *t) {
    if (t->n) qsort(t->touched, (size_t)t->n, sizeof *t->touched, rshi_compare_int64);
}

static void hand_out(tally *t, rsh_neighbour_fn fn, void *ctx) {
    tally_sort(t);
    for (int64_t i = 0; i < t->n; i++)
        if (fn(ctx, t->p->rank[t->touched[i]], t->bytes[t->touched[i]])) return;
}

static rsh_status check_rank(int64_t rank) {
    RSH_REQUIRE(rank >= 0, RSH_EINDEX, "rank %lld was asked for", (long long)rank);
    return RSH_OK;
}

rsh_status rsh_plan_each_source(const rsh_plan *p, int64_t rank, rsh_neighbour_fn fn, void *ctx) {
    RSH_NEEDS(p);
    RSH_NEEDS(fn);
    tally t;
    rsh_status st;
    RSH_TRY(check_rank(rank));
    RSH_GOTO(tally_init(&t, p));
    RSH_GOTO(tally_receives(&t, rank));
    hand_out(&t, fn, ctx);
out:
    tally_free(&t);
    return st;
}

rsh_status rshi_plan_sources_in(const rsh_plan *p, int64_t rank, const rshi_stripe *box, rsh_neighbour_fn fn,
                                void *ctx) {
    tally t;
    rsh_status st;
    if (p->n != 1 || p->adjoint || p->pair[0].irregular || p->reduce != RSH_REDUCE_IN_ORDER)
        return rsh_plan_each_source(p, rank, fn, ctx);
    RSH_GOTO(tally_init(&t, p));
    t.rank = rank;
    RSH_GOTO(rshi_plan_receives_in(p, rank, box, &t.edges));
    count_sources(&t, &t.edges.receives);
    hand_out(&t, fn, ctx);
out:
    tally_free(&t);
    return st;
}

rsh_status rsh_plan_each_destination(const rsh_plan *p, int64_t rank, rsh_neighbour_fn fn, void *ctx) {
    RSH_NEEDS(p);
    RSH_NEEDS(fn);
    tally t;
    rsh_status st;
    RSH_TRY(check_rank(rank));
    RSH_GOTO(tally_init(&t, p));
    RSH_GOTO(tally_sends(&t, rank));
    hand_out(&t, fn, ctx);
out:
    tally_free(&t);
    return st;
}

static rsh_status walk_matrix(const rsh_plan *p, rshi_progress *w, rsh_pair_fn fn, void *ctx) {
    tally t;
    rsh_status st;
    RSH_GOTO(tally_init(&t, p));
    for (int64_t q = 0; q < p->nranks; q++) {
        tally_clear(&t);
        RSH_GOTO(rshi_progress_at(w, q, p->nranks));
        RSH_GOTO(tally_receives(&t, p->rank[q]));
        tally_sort(&t);
        for (int64_t i = 0; i < t.n; i++)
            if (fn(ctx, p->rank[t.touched[i]], p->rank[q], t.bytes[t.touched[i]])) goto out;
    }
out:
    tally_free(&t);
    return st;
}

rsh_status rsh_plan_each_pair(const rsh_plan *p, rsh_pair_fn fn, void *ctx) {
    RSH_NEEDS(p);
    RSH_NEEDS(fn);
    return walk_matrix(p, NULL, fn, ctx);
}

/* ---- pairs of ranks ---- */

static rsh_status add_sources(void *ctx, const rshi_edge *e) {
    tally *t = ctx;
    for (int64_t k = 0; k < e->nsrc && rshi_edge_count(e); k++)
        if (rshi_edge_source(e, k) != t->rank) tally_add(t, rshi_edge_source(e, k), 1);
    return RSH_OK;
}

rsh_status rshi_plan_count_pairs(const rsh_plan *p, const int64_t *same, rshi_progress *w, int64_t *pairs) {
    tally t;
    rsh_status st;
    *pairs = 0;
    RSH_GOTO(tally_init(&t, p));
    t.edges.take = add_sources, t.edges.ctx = &t;
    rshi_progress_pass(w, RSHI_PASS_SHARES);
    for (int64_t q = 0; q < p->nranks; q++) {
        tally_clear(&t);
        t.rank = t.edges.rank = p->rank[q];
        RSH_GOTO(rshi_progress_at(w, q, p->nranks));
        for (int64_t i = 0; i < p->n; i++) {
            if (!same[i]) continue;
            RSH_GOTO(rshi_tensor_receives(p, i, &t.edges));
            RSH_GOTO(rshi_edges_hand_over(&t.edges, &t.edges.receives, (rshi_kept){0}));
        }
        *pairs += t.n;
    }
out:
    tally_free(&t);
    return st;
}

/* ---- do the sums fit? ---- */

/* Elements of the destination on all ranks, replicas counted each, or the largest number. */
static rsh_status held_by_all(const rsh_layout *l, int64_t *held) {
    int64_t sum = 0, parts = 1;
    if (rshi_layout_plain(l)) { /* the parts of a dim add up to it, whatever its rule */
        for (int d = 0; d < rsh_layout_ndim(l); d++) parts *= rshi_layout_cut_parts(l, d);
        *held = rshi_mul_most(rsh_layout_count(l), rsh_layout_nranks(l) / parts);
        return RSH_OK;
    }
    *held = rshi_mul_most(rsh_layout_count(l), rsh_layout_nranks(l));
    if (*held < INT64_MAX >> 16) return RSH_OK; /* no need to look closer */
    for (int64_t i = 0; i < rsh_layout_nranks(l); i++) {
        rshi_piece *list = NULL;
        int64_t n = 0;
        RSH_TRY(rshi_layout_pieces(l, rsh_layout_rank(l, i), &list, &n));
        for (int64_t k = 0; k < n; k++)
            if (!rshi_add(sum, rshi_piece_count(l, &list[k]), &sum)) sum = INT64_MAX;
        rshi_free(list);
    }
    *held = sum;
    return RSH_OK;
}

/* Nothing that is counted is more than what all ranks receive and keep: every destination element from every
 * contribution. */
rsh_status rshi_plan_fits(const rsh_plan *p, bool *fits) {
    int64_t sum = 0;
    for (int64_t t = 0; t < p->n; t++) {
        const rshi_pair *pair = &p->pair[t];
        int64_t e = (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->from)),
                f = (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to)), held;
        RSH_TRY(held_by_all(pair->to, &held));
        if (pair->by_node) { /* every contribution is read once more, and results travel wider */
            int64_t read = rshi_mul_most(rsh_layout_count(pair->from), rsh_layout_nranks(pair->from));
            e = rshi_max(e, (int64_t)rsh_dtype_size(rshi_pair_accumulator(pair)));
            if (!rshi_add(sum, rshi_mul_most(read, e), &sum)) sum = INT64_MAX;
        }
        if (!rshi_add(sum, rshi_mul_most(held, rshi_mul_most(pair->contributions, rshi_max(e, f))), &sum))
            sum = INT64_MAX;
    }
    *fits = sum < INT64_MAX;
    return RSH_OK;
}

rsh_status rshi_plan_check_fits(const rsh_plan *p) {
    bool fits;
    RSH_TRY(rshi_plan_fits(p, &fits));
    RSH_REQUIRE(fits, RSH_EVALUE, "%s%s: all ranks together receive and keep more bytes than 63 bits can count",
                rsh_layout_text(rshi_plan_dst(p, 0)), p->n > 1 ? " and other tensors" : "");
    return RSH_OK;
}

/* ---- totals ---- */

typedef struct summing {
    const rsh_plan *p;
    rsh_plan_totals *t;
    int64_t *sent; /* by ordinal */
    int64_t destination, received;
} summing;

static int add_entry(void *ctx, int64_t source, int64_t destination, int64_t bytes) {
    summing *s = ctx;
    if (destination != s->destination) s->destination = destination, s->received = 0;
    if (source == destination) {
        s->t->bytes_local += bytes;
        return 0;
    }
    s->t->bytes_moved += bytes;
    s->t->messages++;
    s->received += bytes;
    s->t->max_recv = rshi_max(s->t->max_recv, s->received);
    int64_t *sent = &s->sent[rshi_plan_ordinal(s->p, source)];
    *sent += bytes;
    s->t->max_send = rshi_max(s->t->max_send, *sent);
    if (rshi_plan_node(s->p, source) != rshi_plan_node(s->p, destination)) s->t->bytes_between_nodes += bytes;
    return 0;
}

rsh_status rshi_totals_by_shares(const rsh_plan *p, rshi_progress *w, rsh_plan_totals *t) {
    summing s = {.p = p, .t = t, .destination = -1};
    s.sent = rshi_calloc((size_t)p->nranks, sizeof *s.sent);
    if (!s.sent) return rshi_nomem();
    rsh_status st = rshi_progress_begin(w, RSHI_PASS_SHARES);
    rshi_progress_pass(w, RSHI_PASS_SHARES);
    if (!st) st = walk_matrix(p, w, add_entry, &s);
    rshi_free(s.sent);
    return st;
}

rsh_status rshi_totals(const rsh_plan *p, rshi_progress *w, rsh_plan_totals *t) {
    rshi_rank_bytes bytes = {0};
    bool done = false;
    rsh_status st = rshi_rank_bytes_new(p, &bytes);
    if (!st) st = rshi_totals_by_sums(p, w, t, &bytes, &done);
    rshi_rank_bytes_free(&bytes);
    if (st || done) return st;
    return rshi_plan_factorises(p) ? rshi_totals_by_factors(p, t) : rshi_totals_by_shares(p, w, t);
}

/* ---- one rank ---- */

typedef struct share {
    int64_t rank, local, bytes, n;
} share;

static int add_neighbour(void *ctx, int64_t peer, int64_t bytes) {
    share *s = ctx;
    if (peer == s->rank) {
        s->local += bytes;
    } else {
        s->bytes += bytes;
        s->n++;
    }
    return 0;
}

static rsh_status view_by_share(const rsh_plan *p, int64_t rank, rsh_rank_totals *v) {
    share in = {.rank = rank}, out = {.rank = rank};
    RSH_TRY(rsh_plan_each_source(p, rank, add_neighbour, &in));
    RSH_TRY(rsh_plan_each_destination(p, rank, add_neighbour, &out));
    v->bytes_received = in.bytes;
    v->bytes_local = in.local;
    v->nrecv = in.n;
    v->bytes_sent = out.bytes;
    v->nsend = out.n;
    return RSH_OK;
}

/* A buffer to send and a buffer to receive, where there is anybody to exchange with. */
static int64_t message_scratch(const rsh_plan *p, bool alone) { return alone ? 0 : p->send_bytes + p->recv_bytes; }

rsh_status rsh_plan_get_rank_totals(const rsh_plan *p, int64_t rank, rsh_rank_totals *out) {
    RSH_NEEDS(p);
    RSH_NEEDS(out);
    RSHI_CHECK_RESULT(out, RSH_RANK_TOTALS_INIT);
    rsh_rank_totals v = {.rank = rank};
    RSH_TRY(check_rank(rank));
    RSH_TRY(rshi_plan_check_fits(p));
    RSH_TRY(rshi_plan_factorises(p) ? rshi_view_by_factors(p, rank, &v) : view_by_share(p, rank, &v));
    RSH_TRY(rshi_plan_scratch_bytes(p, rank, &v.scratch_bytes));
    v.scratch_messages = message_scratch(p, !v.nsend && !v.nrecv) + v.scratch_bytes;
    if (p->messages) v.scratch_bytes = v.scratch_messages;
    rshi_result_write(&v, sizeof v, out);
    return RSH_OK;
}

/* Units of work of the lower bounds, for all ranks. */
static uint64_t work_of_bounds(const rsh_plan *p) {
    uint64_t units = RSHI_PASS_BOUND + (rshi_plan_has_nodes(p) ? RSHI_PASS_NODE_BOUND : 0);
    return (uint64_t)p->n * units * (uint64_t)p->nranks;
}

static rsh_status add_up(const rsh_plan *p, rshi_progress *w, rsh_plan_totals *out) {
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    RSH_TRY(rshi_plan_check_fits(p));
    for (int64_t i = 0; i < p->n; i++) {
        const rsh_layout *to = rshi_plan_dst(p, i);
        t.tensor_bytes += rsh_layout_count(to) * (int64_t)rsh_dtype_size(rsh_layout_dtype(to));
    }
    RSH_TRY(rshi_totals(p, w, &t));
    RSH_TRY(rshi_lower_bound(p, w, &t.lower_bound));
    RSH_TRY(rshi_lower_bound_between_nodes(p, w, &t.lower_bound_between_nodes));
    RSH_TRY(rshi_progress_end(w));
    t.scratch_messages = message_scratch(p, !t.messages) + p->scratch_bytes;
    t.scratch_bytes = p->messages ? t.scratch_messages : p->scratch_bytes;
    *out = t;
    return RSH_OK;
}

/* Kept for the next who asks, if there is memory; of several who add up at once one keeps them. */
static void keep_totals(const rsh_plan *p, const rsh_plan_totals *t) {
    rsh_plan_totals *kept = RSHI_NEW(rsh_plan_totals), *none = NULL;
    if (!kept) return;
    *kept = *t;
    if (!atomic_compare_exchange_strong(&((rsh_plan *)p)->totals, &none, kept)) rshi_free(kept);
}

rsh_status rsh_plan_get_totals_with(const rsh_plan *p, rsh_progress_fn progress, void *ctx, rsh_plan_totals *out) {
    RSH_NEEDS(p);
    RSH_NEEDS(out);
    RSHI_CHECK_RESULT(out, RSH_PLAN_TOTALS_INIT);
    rshi_progress w = {.fn = progress, .ctx = ctx, .ranks = (uint64_t)p->nranks, .rest = work_of_bounds(p)};
    const rsh_plan_totals *known = atomic_load(&((rsh_plan *)p)->totals);
    rsh_plan_totals made = RSH_PLAN_TOTALS_INIT;
    if (!known) {
        RSH_TRY(add_up(p, &w, &made));
        keep_totals(p, &made);
    }
    rshi_result_write(known ? known : &made, sizeof made, out);
    return RSH_OK;
}

rsh_status rsh_plan_get_totals(const rsh_plan *p, rsh_plan_totals *out) {
    return rsh_plan_get_totals_with(p, NULL, NULL, out);
}
