/* Walk: all edges into a rank, and all edges out of it. */
#include "plan/impl.h"

/* ---- into a rank ---- */

typedef struct receiving {
    const rsh_plan *p;
    int64_t tensor;
    const rshi_piece *b;
    rshi_edge_fn fn;
    void *ctx;
} receiving;

static rsh_status receive_from(void *ctx, const rshi_piece *a) {
    receiving *r = ctx;
    return rshi_pair_edges(r->p, r->tensor, a, r->b, r->fn, r->ctx);
}

static rsh_status fill(receiving *r) {
    rshi_edge e;
    rshi_edge_init(r->p, r->tensor, r->b, r->b, &e);
    e.nsrc = 0;
    e.op = rsh_layout_op(r->p->pair[r->tensor].to);
    return r->fn(r->ctx, &e);
}

rsh_status rshi_piece_receives(const rsh_plan *p, int64_t tensor, const rshi_piece *b, rshi_edge_fn fn, void *ctx) {
    const rshi_pair *pair = &p->pair[tensor];
    receiving r = {p, tensor, b, fn, ctx};
    if (pair->fill_others && rshi_piece_partial(pair->to, b)) return fill(&r);
    if (pair->irregular) return rshi_irregular_receives(p, tensor, b, fn, ctx);
    return rshi_layout_search(pair->from, b->set, receive_from, &r);
}

rsh_status rshi_plan_receives(const rsh_plan *p, int64_t rank, rshi_edge_fn fn, void *ctx) {
    if (p->adjoint) return rshi_adjoint_receives(p, rank, fn, ctx);
    rsh_status st = RSH_OK;
    for (int64_t t = 0; t < p->n && !st; t++) {
        rshi_piece *b = NULL;
        int64_t n = 0;
        st = rshi_layout_pieces(p->pair[t].to, rank, &b, &n);
        for (int64_t i = 0; i < n && !st; i++) st = rshi_piece_receives(p, t, &b[i], fn, ctx);
        rshi_free(b);
    }
    return st;
}

/* ---- out of a rank ---- */

typedef struct targets {
    const rshi_pair *pair;
    rshi_piece_fn fn;
    void *ctx;
} targets;

/* b at every partial position and every holder. */
static rsh_status each_holder(void *ctx, const rshi_piece *b) {
    targets *t = ctx;
    int64_t partials = rshi_layout_partials(t->pair->to), holders = rshi_piece_holders(t->pair->to, b);
    for (int64_t i = 0; i < partials; i++) {
        if (t->pair->fill_others && i) break;
        rshi_piece at, held;
        rshi_piece_at_partial(t->pair->to, b, i, &at);
        for (int64_t j = 0; j < holders; j++) {
            rshi_piece_at_holder(t->pair->to, &at, j, &held);
            RSH_TRY(t->fn(t->ctx, &held));
        }
    }
    return RSH_OK;
}

rsh_status rshi_piece_targets(const rsh_plan *p, int64_t tensor, const rshi_piece *a, rshi_piece_fn fn, void *ctx) {
    targets t = {&p->pair[tensor], fn, ctx};
    return rshi_layout_search(t.pair->to, a->set, each_holder, &t);
}

typedef struct sending {
    const rsh_plan *p;
    int64_t tensor, rank;
    const rshi_piece *a; /* this rank's piece; first: the same where others look for it */
    rshi_piece first;
    const rshi_piece *b; /* second half: a piece of this rank's destination */
    rshi_edge_fn fn;
    void *ctx;
} sending;

static bool same_sets(const rsh_layout *l, const rshi_piece *a, const rshi_piece *b) {
    for (int d = 0; d < rsh_layout_ndim(l); d++)
        if (a->set[d].lo != b->set[d].lo) return false;
    return true;
}

/* Keep the edges of stage 0 that read this rank's piece. */
static rsh_status keep_mine(void *ctx, const rshi_edge *e) {
    sending *s = ctx;
    if (e->from_dst) return RSH_OK;
    for (int64_t i = 0; i < e->nsrc; i++)
        if (e->src[i].rank == s->rank && same_sets(e->src_layout, &e->src[i], s->a)) return s->fn(s->ctx, e);
    return RSH_OK;
}

static rsh_status send_to(void *ctx, const rshi_piece *b) {
    sending *s = ctx;
    if (b->rank == s->rank) return RSH_OK;
    if (s->p->pair[s->tensor].irregular) return rshi_piece_receives(s->p, s->tensor, b, keep_mine, s);
    return rshi_pair_edges(s->p, s->tensor, &s->first, b, keep_mine, s);
}

static rsh_status send_piece(sending *s) {
    const rsh_layout *from = s->p->pair[s->tensor].from;
    s->first = *s->a;
    if (!s->p->pair[s->tensor].irregular) {
        rshi_piece_at_partial(from, s->a, 0, &s->first);
        rshi_piece_at_holder(from, &s->first, 0, &s->first);
    }
    return rshi_piece_targets(s->p, s->tensor, &s->first, send_to, s);
}

/* Keep the edges of stage 1 that read this rank's destination. */
static rsh_status keep_owned(void *ctx, const rshi_edge *e) {
    sending *s = ctx;
    return e->from_dst && e->src[0].rank == s->rank ? s->fn(s->ctx, e) : RSH_OK;
}

static rsh_status pass_on(sending *s) {
    const rsh_layout *to = s->p->pair[s->tensor].to;
    int64_t holders = rshi_piece_holders(to, s->b);
    for (int64_t j = 0; j < holders; j++) {
        rshi_piece at;
        rshi_piece_at_holder(to, s->b, j, &at);
        if (at.rank != s->rank) RSH_TRY(rshi_piece_receives(s->p, s->tensor, &at, keep_owned, s));
    }
    return RSH_OK;
}

static rsh_status send_tensor(sending *s) {
    const rshi_pair *pair = &s->p->pair[s->tensor];
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(pair->from, s->rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        s->a = &list[i];
        st = send_piece(s);
    }
    rshi_free(list);
    list = NULL;
    n = 0;
    if (!st && rshi_plan_stages(s->p) > 1) st = rshi_layout_pieces(pair->to, s->rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        s->b = &list[i];
        st = pass_on(s);
    }
    rshi_free(list);
    return st;
}

rsh_status rshi_plan_sends(const rsh_plan *p, int64_t rank, rshi_edge_fn fn, void *ctx) {
    if (p->adjoint) return rshi_adjoint_sends(p, rank, fn, ctx);
    for (int64_t t = 0; t < p->n; t++) {
        sending s = {.p = p, .tensor = t, .rank = rank, .fn = fn, .ctx = ctx};
        RSH_TRY(send_tensor(&s));
    }
    return RSH_OK;
}
