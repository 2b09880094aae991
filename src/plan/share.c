/* Share: a rank's edges as transfers, loops over the indices of parts.
 *
 * An edge is a product over dims of the runs that source and destination have in common; each combination of runs is a
 * transfer with at most two loops a dim. */
#include "plan/impl.h"

/* A share with what it owns. */
typedef struct share {
    rsh_share shown;
    rsh_transfer *transfer;
    rsh_transfer_end *end; /* sources of one transfer after the other */
    int64_t *scratch;      /* by tensor, or NULL */
    int64_t n, room, nends, ends_room;
    rshi_runs runs[RSH_MAX_NDIM];     /* of the edge at hand */
    const rshi_run *at[RSH_MAX_NDIM]; /* the combination at hand */
} share;

/* ---- one edge ---- */

static void set_loops(const share *s, rsh_transfer *t) {
    t->count = 1;
    for (int d = 0; d < t->ndim; d++) {
        const int64_t n[2] = {s->at[d]->count, s->at[d]->len};
        for (int i = 0; i < 2; i++) {
            t->count *= n[i];
            if (n[i] == 1) continue;
            t->dim[t->nloops] = d;
            t->n[t->nloops++] = n[i];
        }
    }
}

/* A piece at the combination of runs at hand; by_dst: its indices are those of the destination piece. */
static void set_end(const share *s, int ndim, const rshi_piece *p, bool by_dst, rsh_transfer_end *end) {
    int loops = 0;
    *end = (rsh_transfer_end){.rank = p->rank, .part = p->part, .flat = p->flat};
    if (p->part == RSHI_SCRATCH) end->part = 0, end->in_scratch = true;
    if (p->flat) end->first[0] = p->at[0];
    for (int d = 0; d < ndim; d++) {
        const rshi_run *r = s->at[d];
        int64_t first = by_dst ? r->ib : r->ia, apart = by_dst ? r->db : r->da, unit = p->flat ? p->step[d] : 1;
        if (p->flat)
            end->first[0] += first * unit;
        else
            end->first[d] = p->at[d] + first;
        if (r->count > 1) end->step[loops++] = apart * unit;
        if (r->len > 1) end->step[loops++] = unit;
    }
}

static rsh_status add_transfer(share *s, const rshi_edge *e) {
    int ndim = rsh_layout_ndim(e->dst_layout);
    RSH_TRY(RSHI_GROW(s->transfer, s->n + 1, &s->room));
    RSH_TRY(RSHI_GROW(s->end, s->nends + e->nsrc, &s->ends_room));
    rsh_transfer *t = &s->transfer[s->n++];
    *t = (rsh_transfer){.tensor = e->tensor, .ndim = ndim, .stage = e->stage, .nsrc = e->nsrc};
    t->element_bytes = e->wire_size;
    t->from = e->src_dtype;
    t->to = e->dst_dtype;
    t->op = e->op;
    t->divisor = e->divisor;
    set_loops(s, t);
    set_end(s, ndim, e->dst, true, &t->dst);
    t->dst.in_dst = !t->dst.in_scratch;
    for (int64_t i = 0; i < e->nsrc; i++, s->nends++) {
        set_end(s, ndim, &e->src[i], e->from_dst, &s->end[s->nends]);
        s->end[s->nends].in_dst = e->from_dst;
    }
    return RSH_OK;
}

static rsh_status combine_runs(share *s, const rshi_edge *e, int d) {
    if (d == rsh_layout_ndim(e->dst_layout)) return add_transfer(s, e);
    for (int64_t i = 0; i < s->runs[d].n; i++) {
        s->at[d] = &s->runs[d].run[i];
        RSH_TRY(combine_runs(s, e, d + 1));
    }
    return RSH_OK;
}

static rsh_status add_edge(share *s, const rshi_edge *e) {
    for (int d = 0; d < rsh_layout_ndim(e->dst_layout); d++) {
        s->runs[d].n = 0;
        RSH_TRY(rshi_stripe_overlap(&e->with->set[d], &e->dst->set[d], e->lo[d], e->hi[d], &s->runs[d]));
        if (!s->runs[d].n) return RSH_OK; /* nothing in common */
    }
    return combine_runs(s, e, 0);
}

static rsh_status add_edges(share *s, const rshi_edges *list, int64_t *n) {
    int64_t first = s->n;
    for (int64_t i = 0; i < list->n; i++) RSH_TRY(add_edge(s, &list->edge[i]));
    *n = s->n - first;
    return RSH_OK;
}

/* ---- the whole share ---- */

/* The arrays are complete and stay where they are: let everything point to its place. */
static void show(share *s, int64_t rank) {
    const rsh_transfer_end *end = s->end;
    for (int64_t i = 0; i < s->n; i++) {
        s->transfer[i].src = end;
        end += s->transfer[i].nsrc;
    }
    s->shown.rank = rank;
    s->shown.copies = s->transfer;
    s->shown.receives = s->shown.copies + s->shown.ncopies;
    s->shown.sends = s->shown.receives + s->shown.nreceives;
}

static void free_runs(share *s) {
    for (int d = 0; d < RSH_MAX_NDIM; d++) rshi_free(s->runs[d].run);
}

static rsh_status count_scratch(share *s, const rsh_plan *p, int64_t rank) {
    if (!rshi_plan_has_scratch(p)) return RSH_OK;
    s->scratch = rshi_calloc((size_t)p->n, sizeof *s->scratch);
    if (!s->scratch) return rshi_nomem();
    for (int64_t t = 0; t < p->n; t++) RSH_TRY(rshi_plan_scratch(p, t, rank, &s->scratch[t]));
    s->shown.scratch = s->scratch;
    return RSH_OK;
}

static rsh_status share_new(const rsh_plan *p, int64_t rank, bool sends, rsh_share **out) {
    rshi_rank_edges edges = {0};
    share *s = RSHI_NEW(share);
    rsh_status st;
    if (!s) return rshi_nomem();
    RSH_GOTO(sends ? rshi_plan_edges(p, rank, &edges) : rshi_plan_receives(p, rank, &edges));
    RSH_GOTO(add_edges(s, &edges.copies, &s->shown.ncopies));
    RSH_GOTO(add_edges(s, &edges.receives, &s->shown.nreceives));
    RSH_GOTO(add_edges(s, &edges.sends, &s->shown.nsends));
    RSH_GOTO(count_scratch(s, p, rank));
    show(s, rank);
out:
    rshi_rank_edges_free(&edges);
    free_runs(s);
    if (st)
        rsh_share_free(&s->shown);
    else
        *out = &s->shown;
    return st;
}

rsh_status rshi_plan_share_in(const rsh_plan *p, int64_t rank, rsh_share **out) {
    return share_new(p, rank, false, out);
}

rsh_status rsh_plan_share(const rsh_plan *p, int64_t rank, rsh_share **out) {
    RSH_NEEDS(p);
    RSH_NEEDS(out);
    RSH_REQUIRE(rank >= 0, RSH_EINDEX, "rank %lld was asked for", (long long)rank);
    return share_new(p, rank, true, out);
}

void rsh_share_free(rsh_share *shown) {
    share *s = (share *)shown; /* its first member */
    if (!s) return;
    rshi_free(s->transfer);
    rshi_free(s->end);
    rshi_free(s->scratch);
    rshi_free(s);
}

rsh_status rsh_transfer_place(const rsh_transfer *t, const rsh_transfer_end *end, const int64_t *strides,
                              int64_t *offset, int64_t *rounds) {
    RSH_REQUIRE(t && end && strides && offset && rounds, RSH_EVALUE,
                "a transfer is placed by its end and strides, into an offset and rounds");
    *offset = 0;
    for (int d = 0; d < (end->flat ? 1 : t->ndim); d++) *offset += end->first[d] * strides[d];
    for (int i = 0; i < t->nloops; i++) rounds[i] = end->step[i] * strides[end->flat ? 0 : t->dim[i]];
    return RSH_OK;
}
