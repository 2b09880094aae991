/* Tally: bytes per pair of ranks, counted over the edges of shares. */
#include "plan/impl.h"

#include <stdlib.h>

/* Bytes between one rank and each of the others, by ordinal; only what was touched is looked at again. */
typedef struct tally {
    rshi_walk walk;
    int64_t *bytes;   /* owned: by ordinal */
    int64_t *touched; /* owned: ordinals */
    int64_t n;
} tally;

static rsh_status tally_init(tally *t, const rsh_plan *p, int64_t rank) {
    *t = (tally){.walk = {.p = p, .rank = rank, .ctx = t}};
    t->bytes = rshi_calloc((size_t)p->nranks, sizeof *t->bytes);
    t->touched = rshi_alloc((size_t)p->nranks, sizeof *t->touched);
    return t->bytes && t->touched ? RSH_OK : rshi_nomem();
}

static void tally_free(tally *t) {
    rshi_free(t->bytes);
    rshi_free(t->touched);
    rshi_walk_free(&t->walk);
}

static void tally_clear(tally *t) {
    for (int64_t i = 0; i < t->n; i++) t->bytes[t->touched[i]] = 0;
    t->n = 0;
}

static void tally_add(tally *t, int64_t peer, int64_t bytes) {
    int64_t i = rshi_plan_ordinal(t->walk.p, peer);
    if (!bytes) return;
    if (!t->bytes[i]) t->touched[t->n++] = i;
    if (!rshi_add(t->bytes[i], bytes, &t->bytes[i])) t->bytes[i] = INT64_MAX;
}

/* What each source of an edge gives. */
static rsh_status count_sources(void *ctx, const rshi_edge *e) {
    tally *t = ctx;
    int64_t bytes = rshi_edge_count(e) * e->wire_size;
    for (int64_t k = 0; k < e->nsrc; k++) tally_add(t, rshi_edge_source(e, k), bytes);
    return RSH_OK;
}

/* What the destination of an edge gets from this rank. */
static rsh_status count_destination(void *ctx, const rshi_edge *e) {
    tally *t = ctx;
    int64_t bytes = rshi_edge_count(e) * e->wire_size;
    for (int64_t k = 0; k < e->nsrc; k++)
        if (rshi_edge_source(e, k) == t->walk.rank) tally_add(t, e->dst->rank, bytes);
    return RSH_OK;
}

/* Everything that the rank receives, and keeps. */
static rsh_status tally_receives(tally *t) {
    t->walk.take = count_sources;
    return rshi_receive_all(&t->walk);
}

/* Everything that the rank sends, and keeps; receives may have sources of its own too. */
static rsh_status tally_sends(tally *t) {
    t->walk.take = count_destination;
    RSH_TRY(rshi_receive_all(&t->walk));
    return rshi_send_all(&t->walk);
}

static void hand_out(tally *t, rsh_neighbour_fn fn, void *ctx) {
    if (t->n) qsort(t->touched, (size_t)t->n, sizeof *t->touched, rshi_compare_int64);
    for (int64_t i = 0; i < t->n; i++)
        if (fn(ctx, t->walk.p->rank[t->touched[i]], t->bytes[t->touched[i]])) return;
}

static rsh_status check_rank(int64_t rank) {
    RSH_REQUIRE(rank >= 0, RSH_EINDEX, "rank %lld was asked for", (long long)rank);
    return RSH_OK;
}

static rsh_status hand_out_neighbours(const rsh_plan *p, int64_t rank, const rshi_stripe *box, bool sends,
                                      rsh_neighbour_fn fn, void *ctx) {
    tally t;
    rsh_status st;
    RSH_GOTO(tally_init(&t, p, rank));
    t.walk.box = box;
    RSH_GOTO(sends ? tally_sends(&t) : tally_receives(&t));
    hand_out(&t, fn, ctx);
out:
    tally_free(&t);
    return st;
}

rsh_status rsh_plan_each_source(const rsh_plan *p, int64_t rank, rsh_neighbour_fn fn, void *ctx) {
    RSH_NEEDS(p);
    RSH_NEEDS(fn);
    RSH_TRY(check_rank(rank));
    return hand_out_neighbours(p, rank, NULL, false, fn, ctx);
}

rsh_status rshi_plan_sources_in(const rsh_plan *p, int64_t rank, const rshi_stripe *box, rsh_neighbour_fn fn,
                                void *ctx) {
    return hand_out_neighbours(p, rank, p->n == 1 ? box : NULL, false, fn, ctx);
}

rsh_status rsh_plan_each_destination(const rsh_plan *p, int64_t rank, rsh_neighbour_fn fn, void *ctx) {
    RSH_NEEDS(p);
    RSH_NEEDS(fn);
    RSH_TRY(check_rank(rank));
    return hand_out_neighbours(p, rank, NULL, true, fn, ctx);
}

rsh_status rsh_plan_each_pair(const rsh_plan *p, rsh_pair_fn fn, void *ctx) {
    RSH_NEEDS(p);
    RSH_NEEDS(fn);
    tally t;
    rsh_status st;
    RSH_GOTO(tally_init(&t, p, 0));
    for (int64_t q = 0; q < p->nranks; q++) {
        tally_clear(&t);
        t.walk.rank = p->rank[q];
        RSH_GOTO(tally_receives(&t));
        if (t.n) qsort(t.touched, (size_t)t.n, sizeof *t.touched, rshi_compare_int64);
        for (int64_t i = 0; i < t.n; i++)
            if (fn(ctx, p->rank[t.touched[i]], p->rank[q], t.bytes[t.touched[i]])) goto out;
    }
out:
    tally_free(&t);
    return st;
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
int64_t rshi_message_scratch(const rsh_plan *p, bool alone) { return alone ? 0 : p->send_bytes + p->recv_bytes; }

rsh_status rsh_plan_get_rank_totals(const rsh_plan *p, int64_t rank, rsh_rank_totals *out) {
    RSH_NEEDS(p);
    RSH_NEEDS(out);
    RSHI_CHECK_RESULT(out, RSH_RANK_TOTALS_INIT);
    rsh_rank_totals v = {.rank = rank};
    RSH_TRY(check_rank(rank));
    RSH_TRY(rshi_plan_check_fits(p));
    RSH_TRY(view_by_share(p, rank, &v));
    RSH_TRY(rshi_plan_scratch_bytes(p, rank, &v.scratch_bytes));
    v.scratch_messages = rshi_message_scratch(p, !v.nsend && !v.nrecv) + v.scratch_bytes;
    if (p->messages) v.scratch_bytes = v.scratch_messages;
    rshi_result_write(&v, sizeof v, out);
    return RSH_OK;
}
