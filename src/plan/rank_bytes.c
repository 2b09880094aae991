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

rsh_status rsh_plan_each_rank(const rsh_plan *p, rsh_rank_bytes_fn fn, void *ctx) {
    RSH_NEEDS(p);
    RSH_NEEDS(fn);
    rshi_rank_bytes b = {0};
    rshi_kept_totals k = {.totals = RSH_PLAN_TOTALS_INIT};
    RSH_TRY(rshi_plan_check_fits(p));
    rsh_status st = rshi_rank_bytes_new(p, &b);
    if (!st) st = rshi_totals(p, NULL, &k, &b);
    for (int64_t q = 0; q < p->nranks && !st; q++)
        if (fn(ctx, p->rank[q], b.sent[q], b.received[q], b.kept[q])) break;
    rshi_rank_bytes_free(&b);
    return st;
}
