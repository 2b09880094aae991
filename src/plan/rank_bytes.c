/* Rank bytes: what each rank of a plan sends, receives and keeps, added up for all ranks at once. */
#include "plan/impl.h"

rsh_status rshi_rank_bytes_new(const rsh_plan *p, rshi_rank_bytes *b) {
    size_t n = (size_t)p->nranks + 1;
    b->sent = rshi_calloc(n, sizeof *b->sent);
    b->received = rshi_calloc(n, sizeof *b->received);
    b->kept = rshi_calloc(n, sizeof *b->kept);
    return b->sent && b->received && b->kept ? RSH_OK : rshi_nomem();
}

void rshi_rank_bytes_free(rshi_rank_bytes *b) {
    rshi_free(b->sent);
    rshi_free(b->received);
    rshi_free(b->kept);
    *b = (rshi_rank_bytes){0};
}

/* ---- where sums do not do ---- */

static rsh_status add_views(const rsh_plan *p, rshi_rank_bytes *b) {
    for (int64_t q = 0; q < p->nranks; q++) {
        rsh_rank_totals v = RSH_RANK_TOTALS_INIT;
        RSH_TRY(rshi_view_by_factors(p, p->rank[q], &v));
        b->sent[q] = v.bytes_sent;
        b->received[q] = v.bytes_received;
        b->kept[q] = v.bytes_local;
    }
    return RSH_OK;
}

typedef struct adding {
    const rsh_plan *p;
    rshi_rank_bytes *bytes;
} adding;

static int add_entry(void *ctx, int64_t source, int64_t destination, int64_t bytes) {
    adding *w = ctx;
    int64_t from = rshi_plan_ordinal(w->p, source), to = rshi_plan_ordinal(w->p, destination);
    if (from == to) {
        w->bytes->kept[to] += bytes;
        return 0;
    }
    w->bytes->sent[from] += bytes;
    w->bytes->received[to] += bytes;
    return 0;
}

/* ---- */

static rsh_status fill(const rsh_plan *p, rshi_rank_bytes *b) {
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    bool done;
    RSH_TRY(rshi_rank_bytes_new(p, b));
    RSH_TRY(rshi_totals_by_sums(p, NULL, &t, b, &done));
    if (done) return RSH_OK;
    rshi_rank_bytes_free(b); /* it may have the sums of some tensors */
    RSH_TRY(rshi_rank_bytes_new(p, b));
    return rshi_plan_factorises(p) ? add_views(p, b) : rsh_plan_each_pair(p, add_entry, &(adding){p, b});
}

rsh_status rsh_plan_each_rank(const rsh_plan *p, rsh_rank_bytes_fn fn, void *ctx) {
    RSH_NEEDS(p);
    RSH_NEEDS(fn);
    rshi_rank_bytes b = {0};
    RSH_TRY(rshi_plan_check_fits(p));
    rsh_status st = fill(p, &b);
    for (int64_t q = 0; q < p->nranks && !st; q++)
        if (fn(ctx, p->rank[q], b.sent[q], b.received[q], b.kept[q])) break;
    rshi_rank_bytes_free(&b);
    return st;
}
