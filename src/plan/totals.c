/* Totals: what a whole plan costs. */
#include "plan/totals.h"

/* ---- do the numbers fit? ---- */

/* The number of destination elements on all ranks, counting each replica, or INT64_MAX. */
static rsh_status held_by_all(const rsh_layout *l, int64_t *held) {
    int64_t sum = 0, parts = 1;
    if (rshi_layout_plain(l)) { /* for every kind of cut the parts of a dim add up to it */
        for (int d = 0; d < rsh_layout_ndim(l); d++) parts *= rshi_layout_cut_parts(l, d);
        *held = rshi_mul_most(rsh_layout_count(l), rsh_layout_nranks(l) / parts);
        return RSH_OK;
    }
    *held = rshi_mul_most(rsh_layout_count(l), rsh_layout_nranks(l));
    if (*held < INT64_MAX >> 16) return RSH_OK; /* precise enough */
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

/* No count exceeds what all ranks receive and keep: every destination element from every contribution. */
rsh_status rshi_plan_fits(const rsh_plan *p, bool *fits) {
    int64_t sum = 0;
    for (int64_t t = 0; t < p->n; t++) {
        const rshi_pair *pair = &p->pair[t];
        int64_t e = (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->from)),
                f = (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to)), held;
        RSH_TRY(held_by_all(pair->to, &held));
        if (pair->by_node) { /* every contribution is read once more, and results are wider */
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

/* ---- bytes of each rank ---- */

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

/* ---- totals ---- */

/* A plan of one tensor may not need its edges. */
static rsh_status add_all(const rsh_plan *p, rshi_progress *w, rshi_kept_totals *k, rshi_rank_bytes *bytes) {
    bool done = false;
    if (p->n == 1 && rsh_layout_count(p->pair[0].to)) RSH_TRY(rshi_direct_totals(p, 0, w, &k->totals, bytes, &done));
    if (done) return RSH_OK;
    RSH_TRY(rshi_progress_begin(w, RSHI_PASS_EDGES));
    rshi_progress_pass(w, RSHI_PASS_EDGES);
    return rshi_edge_totals(p, w, &k->totals, bytes, &k->stages);
}

rsh_status rshi_totals(const rsh_plan *p, rshi_progress *w, rshi_kept_totals *k, rshi_rank_bytes *bytes) {
    rsh_plan_totals *t = &k->totals;
    RSH_TRY(add_all(p, w, k, bytes));
    for (int64_t q = 0; q < p->nranks; q++) {
        t->bytes_moved += bytes->sent[q];
        t->bytes_local += bytes->kept[q];
        t->max_send = rshi_max(t->max_send, bytes->sent[q]);
        t->max_recv = rshi_max(t->max_recv, bytes->received[q]);
    }
    if (p->stages == 1) k->stages.moved[0] = t->bytes_moved, k->stages.between[0] = t->bytes_between_nodes;
    return RSH_OK;
}

static rsh_status add_stages(const rsh_plan *p, rshi_progress *w, rshi_kept_totals *k) {
    rshi_rank_bytes bytes = {0};
    rsh_status st = rshi_rank_bytes_new(p, &bytes);
    if (!st) st = rshi_totals(p, w, k, &bytes);
    rshi_rank_bytes_free(&bytes);
    return st;
}

/* Work units of the lower bounds, for all ranks. */
static uint64_t work_of_bounds(const rsh_plan *p) {
    uint64_t units = RSHI_PASS_BOUND + (rshi_plan_has_nodes(p) ? RSHI_PASS_NODE_BOUND : 0);
    return (uint64_t)p->n * units * (uint64_t)p->nranks;
}

static rsh_status add_up(const rsh_plan *p, rshi_progress *w, rshi_kept_totals *out) {
    rshi_kept_totals k = {.totals = RSH_PLAN_TOTALS_INIT};
    rsh_plan_totals *t = &k.totals;
    RSH_TRY(rshi_plan_check_fits(p));
    for (int64_t i = 0; i < p->n; i++) {
        const rsh_layout *to = rshi_plan_dst(p, i);
        t->tensor_bytes += rsh_layout_count(to) * (int64_t)rsh_dtype_size(rsh_layout_dtype(to));
    }
    RSH_TRY(add_stages(p, w, &k));
    RSH_TRY(rshi_lower_bound(p, w, &t->lower_bound));
    RSH_TRY(rshi_lower_bound_between_nodes(p, w, &t->lower_bound_between_nodes));
    RSH_TRY(rshi_progress_end(w));
    t->scratch_messages = rshi_message_scratch(p, !t->messages) + p->scratch_bytes;
    t->scratch_bytes = p->messages ? t->scratch_messages : p->scratch_bytes;
    *out = k;
    return RSH_OK;
}

/* Keeps the totals for the next request, if there is memory.  If several threads compute them at once, one keeps
 * them. */
static void keep_totals(const rsh_plan *p, const rshi_kept_totals *k) {
    rshi_kept_totals *kept = RSHI_NEW(rshi_kept_totals), *none = NULL;
    if (!kept) return;
    *kept = *k;
    if (!atomic_compare_exchange_strong(&((rsh_plan *)p)->totals, &none, kept)) rshi_free(kept);
}

rsh_status rshi_plan_all_totals(const rsh_plan *p, rshi_progress *w, rshi_kept_totals *out) {
    const rshi_kept_totals *known = atomic_load(&((rsh_plan *)p)->totals);
    if (known) {
        *out = *known;
        return RSH_OK;
    }
    RSH_TRY(add_up(p, w, out));
    keep_totals(p, out);
    return RSH_OK;
}

rsh_status rsh_plan_get_totals_with(const rsh_plan *p, rsh_progress_fn progress, void *ctx, rsh_plan_totals *out) {
    RSH_NEEDS(p);
    RSH_NEEDS(out);
    RSHI_CHECK_RESULT(out, RSH_PLAN_TOTALS_INIT);
    rshi_progress w = {.fn = progress, .ctx = ctx, .ranks = (uint64_t)p->nranks, .rest = work_of_bounds(p)};
    rshi_kept_totals k;
    RSH_TRY(rshi_plan_all_totals(p, &w, &k));
    rshi_result_write(&k.totals, sizeof k.totals, out);
    return RSH_OK;
}

rsh_status rsh_plan_get_totals(const rsh_plan *p, rsh_plan_totals *out) {
    return rsh_plan_get_totals_with(p, NULL, NULL, out);
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
