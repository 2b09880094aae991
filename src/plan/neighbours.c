/* Neighbours: bytes between a rank and each of its neighbours, counted over edges. */
#include "plan/impl.h"

#include <stdlib.h>

/* Bytes between one rank and each of the others, by ordinal.  `touched` lists the entries that are not 0. */
typedef struct neighbours {
    rshi_walk walk;
    int64_t *bytes;   /* owned: by ordinal */
    int64_t *touched; /* owned: ordinals */
    int64_t n;
} neighbours;

static rsh_status neighbours_init(neighbours *t, const rsh_plan *p, int64_t rank) {
    *t = (neighbours){.walk = {.p = p, .rank = rank, .ctx = t}};
    t->bytes = rshi_calloc((size_t)p->nranks, sizeof *t->bytes);
    t->touched = rshi_alloc((size_t)p->nranks, sizeof *t->touched);
    return t->bytes && t->touched ? RSH_OK : rshi_nomem();
}

static void neighbours_free(neighbours *t) {
    rshi_free(t->bytes);
    rshi_free(t->touched);
    rshi_walk_free(&t->walk);
}

static void clear(neighbours *t) {
    for (int64_t i = 0; i < t->n; i++) t->bytes[t->touched[i]] = 0;
    t->n = 0;
}

static void add_bytes(neighbours *t, int64_t peer, int64_t bytes) {
    int64_t i = rshi_plan_ordinal(t->walk.p, peer);
    if (!bytes) return;
    if (!t->bytes[i]) t->touched[t->n++] = i;
    if (!rshi_add(t->bytes[i], bytes, &t->bytes[i])) t->bytes[i] = INT64_MAX;
}

/* Counts the bytes that come from each source of an edge. */
static rsh_status count_sources(void *ctx, const rshi_edge *e) {
    neighbours *t = ctx;
    int64_t bytes = rshi_edge_count(e) * e->wire_size;
    for (int64_t k = 0; k < e->nsrc; k++) add_bytes(t, rshi_edge_source(e, k), bytes);
    return RSH_OK;
}

/* Counts the bytes that go from this rank to the destination of an edge. */
static rsh_status count_destination(void *ctx, const rshi_edge *e) {
    neighbours *t = ctx;
    int64_t bytes = rshi_edge_count(e) * e->wire_size;
    for (int64_t k = 0; k < e->nsrc; k++)
        if (rshi_edge_source(e, k) == t->walk.rank) add_bytes(t, e->dst->rank, bytes);
    return RSH_OK;
}

/* Counts everything that the rank receives and keeps. */
static rsh_status count_receives(neighbours *t) {
    t->walk.emit = count_sources;
    return rshi_receive_all(&t->walk);
}

/* Counts everything that the rank sends and keeps.  Its receives may read its own parts as well. */
static rsh_status count_sends(neighbours *t) {
    t->walk.emit = count_destination;
    RSH_TRY(rshi_receive_all(&t->walk));
    return rshi_send_all(&t->walk);
}

static void report(neighbours *t, rsh_neighbour_fn fn, void *ctx) {
    if (t->n) qsort(t->touched, (size_t)t->n, sizeof *t->touched, rshi_compare_int64);
    for (int64_t i = 0; i < t->n; i++)
        if (fn(ctx, t->walk.p->rank[t->touched[i]], t->bytes[t->touched[i]])) return;
}

static rsh_status check_rank(int64_t rank) {
    RSH_REQUIRE(rank >= 0, RSH_EINDEX, "rank must be at least 0, got %lld", (long long)rank);
    return RSH_OK;
}

static rsh_status report_neighbours(const rsh_plan *p, int64_t rank, const rshi_stripe *box, bool sends,
                                    rsh_neighbour_fn fn, void *ctx) {
    neighbours t;
    rsh_status st;
    RSH_GOTO(neighbours_init(&t, p, rank));
    t.walk.box = box;
    RSH_GOTO(sends ? count_sends(&t) : count_receives(&t));
    report(&t, fn, ctx);
out:
    neighbours_free(&t);
    return st;
}

rsh_status rsh_plan_each_source(const rsh_plan *p, int64_t rank, rsh_neighbour_fn fn, void *ctx) {
    RSH_NEEDS(p);
    RSH_NEEDS(fn);
    RSH_TRY(check_rank(rank));
    return report_neighbours(p, rank, NULL, false, fn, ctx);
}

rsh_status rshi_plan_sources_in(const rsh_plan *p, int64_t rank, const rshi_stripe *box, rsh_neighbour_fn fn,
                                void *ctx) {
    return report_neighbours(p, rank, p->n == 1 ? box : NULL, false, fn, ctx);
}

rsh_status rsh_plan_each_destination(const rsh_plan *p, int64_t rank, rsh_neighbour_fn fn, void *ctx) {
    RSH_NEEDS(p);
    RSH_NEEDS(fn);
    RSH_TRY(check_rank(rank));
    return report_neighbours(p, rank, NULL, true, fn, ctx);
}

rsh_status rsh_plan_each_pair(const rsh_plan *p, rsh_pair_fn fn, void *ctx) {
    RSH_NEEDS(p);
    RSH_NEEDS(fn);
    neighbours t;
    rsh_status st;
    RSH_GOTO(neighbours_init(&t, p, 0));
    for (int64_t q = 0; q < p->nranks; q++) {
        clear(&t);
        t.walk.rank = p->rank[q];
        RSH_GOTO(count_receives(&t));
        if (t.n) qsort(t.touched, (size_t)t.n, sizeof *t.touched, rshi_compare_int64);
        for (int64_t i = 0; i < t.n; i++)
            if (fn(ctx, p->rank[t.touched[i]], p->rank[q], t.bytes[t.touched[i]])) goto out;
    }
out:
    neighbours_free(&t);
    return st;
}

/* ---- one rank ---- */

typedef struct rank_sums {
    int64_t rank, local, bytes, n;
} rank_sums;

static int add_neighbour(void *ctx, int64_t peer, int64_t bytes) {
    rank_sums *s = ctx;
    if (peer == s->rank) {
        s->local += bytes;
    } else {
        s->bytes += bytes;
        s->n++;
    }
    return 0;
}

static rsh_status add_neighbours(const rsh_plan *p, int64_t rank, rsh_rank_totals *v) {
    rank_sums in = {.rank = rank}, out = {.rank = rank};
    RSH_TRY(rsh_plan_each_source(p, rank, add_neighbour, &in));
    RSH_TRY(rsh_plan_each_destination(p, rank, add_neighbour, &out));
    v->bytes_received = in.bytes;
    v->bytes_local = in.local;
    v->nrecv = in.n;
    v->bytes_sent = out.bytes;
    v->nsend = out.n;
    return RSH_OK;
}

/* A rank without neighbours needs no buffers. */
int64_t rshi_message_scratch(const rsh_plan *p, bool alone) { return alone ? 0 : p->send_bytes + p->recv_bytes; }

rsh_status rsh_plan_get_rank_totals(const rsh_plan *p, int64_t rank, rsh_rank_totals *out) {
    RSH_NEEDS(p);
    RSH_NEEDS(out);
    RSHI_CHECK_RESULT(out, RSH_RANK_TOTALS_INIT);
    rsh_rank_totals v = {.rank = rank};
    RSH_TRY(check_rank(rank));
    RSH_TRY(rshi_plan_check_fits(p));
    RSH_TRY(add_neighbours(p, rank, &v));
    RSH_TRY(rshi_plan_scratch_bytes(p, rank, &v.scratch_bytes));
    v.scratch_messages = rshi_message_scratch(p, !v.nsend && !v.nrecv) + v.scratch_bytes;
    if (p->messages) v.scratch_bytes = v.scratch_messages;
    rshi_result_write(&v, sizeof v, out);
    return RSH_OK;
}
