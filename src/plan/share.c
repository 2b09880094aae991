/* Share: a rank's edges as transfers, loops over the indices of parts.
 *
 * An edge is a product over dims of the runs that source and destination have in common; each combination of runs is a
 * transfer with at most two loops a dim.  A rank may have as many neighbours as there are ranks, so edges become
 * transfers one by one, and numbers that the transfer before has too are not written again. */
#include "plan/impl.h"

#include <string.h>

#define FIRST_CHUNK ((size_t)1 << 10) /* bytes; chunks double from there */
#define LARGEST_CHUNK ((size_t)1 << 21)
#define GROWTH 4 /* of a full array: it is copied seldom, and what stays unused is never touched */

/* Memory that never moves, for ends and numbers. */
typedef struct chunk {
    struct chunk *next;
    size_t used, bytes; /* of `at` */
    _Alignas(16) char at[];
} chunk;

typedef struct transfers {
    rsh_transfer *at; /* owned */
    int64_t n, room;
} transfers;

/* Two stripes that meet, and what they were seen to have in common. */
typedef struct meeting {
    rshi_stripe a, b;
    int64_t lo, hi;
    rshi_runs runs;
} meeting;

/* The numbers of an end. */
typedef struct placed {
    const int64_t *first, *step;
    bool flat;
} placed;

/* A share with what it owns. */
typedef struct share {
    rsh_share shown;
    transfers copies, receives, sends;
    chunk *chunk;     /* the one at hand first */
    int64_t *scratch; /* by tensor, or NULL */
    meeting met[RSH_MAX_NDIM];        /* of the edge at hand */
    const rshi_run *at[RSH_MAX_NDIM]; /* the combination at hand */
    struct {                          /* of the transfer before */
        int ndim, nloops;
        const int64_t *n;
        const int *dim;
        placed dst, src; /* `src`: its last one */
    } like;
} share;

/* ---- memory ---- */

static chunk *add_chunk(share *s, size_t bytes) {
    size_t room = s->chunk ? 2 * s->chunk->bytes : FIRST_CHUNK;
    if (room > LARGEST_CHUNK) room = LARGEST_CHUNK;
    if (room < bytes) room = bytes;
    chunk *c = rshi_alloc_data(sizeof *c + room, false);
    if (!c) return NULL;
    *c = (chunk){.next = s->chunk, .bytes = room};
    return s->chunk = c;
}

/* n items of `size` bytes; NULL and a sentence: no memory. */
static void *take_room(share *s, int64_t n, size_t size) {
    size_t bytes = ((size_t)n * size + 7) & ~(size_t)7;
    chunk *c = s->chunk;
    if (!c || c->bytes - c->used < bytes) c = add_chunk(s, bytes);
    if (!c) return NULL;
    c->used += bytes;
    return c->at + c->used - bytes;
}

/* A copy of n numbers that stays, or `before` where those are the same. */
static inline const int64_t *keep(share *s, const int64_t *numbers, int n, const int64_t *before) {
    int same = 0;
    while (before && same < n && before[same] == numbers[same]) same++;
    if (before && same == n) return before;
    int64_t *kept = take_room(s, n, sizeof *kept);
    for (int i = 0; kept && i < n; i++) kept[i] = numbers[i];
    return kept;
}
static inline const int *keep_dims(share *s, const int *dims, int n, const int *before) {
    int same = 0;
    while (before && same < n && before[same] == dims[same]) same++;
    if (before && same == n) return before;
    int *kept = take_room(s, n, sizeof *kept);
    for (int i = 0; kept && i < n; i++) kept[i] = dims[i];
    return kept;
}

static rsh_status grow(transfers *list) {
    if (list->n < list->room) return RSH_OK;
    int64_t room = rshi_max(4, GROWTH * list->room);
    rsh_transfer *at = rshi_alloc_data((size_t)room * sizeof *at, false);
    if (!at) return rshi_nomem();
    if (list->n) memcpy(at, list->at, (size_t)list->n * sizeof *at);
    rshi_free_data(list->at, (size_t)list->room * sizeof *at);
    *list = (transfers){at, list->n, room};
    return RSH_OK;
}

/* ---- one edge ---- */

static rsh_status set_loops(share *s, rsh_transfer *t) {
    int64_t n[RSH_MAX_LOOPS];
    int dim[RSH_MAX_LOOPS];
    t->count = 1;
    for (int d = 0; d < t->ndim; d++) {
        const int64_t rounds[2] = {s->at[d]->count, s->at[d]->len};
        for (int i = 0; i < 2; i++) {
            t->count *= rounds[i];
            if (rounds[i] == 1) continue;
            dim[t->nloops] = d;
            n[t->nloops++] = rounds[i];
        }
    }
    bool alike = t->nloops == s->like.nloops;
    t->n = keep(s, n, t->nloops, alike ? s->like.n : NULL);
    t->dim = keep_dims(s, dim, t->nloops, alike ? s->like.dim : NULL);
    return t->n && t->dim ? RSH_OK : rshi_nomem();
}

/* A piece at the combination of runs at hand; by_dst: its indices are those of the destination piece.  `like`: the
 * numbers of an end that may have the same ones; from here on those of this end. */
static inline rsh_status set_end(share *s, const rsh_transfer *t, const rshi_piece *p, bool by_dst, placed *like,
                                 rsh_transfer_end *end) {
    int64_t first[RSH_MAX_NDIM], step[RSH_MAX_LOOPS];
    int loops = 0;
    bool alike = t->nloops == s->like.nloops && t->ndim == s->like.ndim && p->flat == like->flat;
    end->rank = p->rank;
    end->part = p->part == RSHI_SCRATCH ? 0 : p->part;
    end->in_scratch = p->part == RSHI_SCRATCH;
    end->in_dst = false;
    end->flat = p->flat;
    first[0] = p->flat ? p->at[0] : 0;
    for (int d = 0; d < t->ndim; d++) {
        const rshi_run *r = s->at[d];
        int64_t i = by_dst ? r->ib : r->ia, apart = by_dst ? r->db : r->da, unit = p->flat ? p->step[d] : 1;
        if (p->flat)
            first[0] += i * unit;
        else
            first[d] = p->at[d] + i;
        if (r->count > 1) step[loops++] = apart * unit;
        if (r->len > 1) step[loops++] = unit;
    }
    like->first = end->first = keep(s, first, p->flat ? 1 : t->ndim, alike ? like->first : NULL);
    like->step = end->step = keep(s, step, loops, alike ? like->step : NULL);
    like->flat = p->flat;
    return like->first && like->step ? RSH_OK : rshi_nomem();
}

static rsh_status set_sources(share *s, const rshi_edge *e, rsh_transfer *t) {
    rsh_transfer_end *end = take_room(s, e->nsrc, sizeof *end);
    if (!end) return rshi_nomem();
    for (int64_t i = 0; i < e->nsrc; i++) {
        RSH_TRY(set_end(s, t, &e->src[i], e->from_dst, &s->like.src, &end[i]));
        end[i].in_dst = e->from_dst;
        s->like.nloops = t->nloops, s->like.ndim = t->ndim; /* from here on the ends are of this transfer */
    }
    t->src = end;
    return RSH_OK;
}

/* All of a transfer is of the edge but its loops and ends. */
static void set_facts(const rshi_edge *e, int ndim, rsh_transfer *t) {
    t->tensor = e->tensor;
    t->ndim = ndim;
    t->stage = e->stage;
    t->nloops = 0;
    t->element_bytes = e->wire_size;
    t->from = e->src_dtype;
    t->to = e->dst_dtype;
    t->op = e->op;
    t->divisor = e->divisor;
    t->nsrc = e->nsrc;
}

static transfers *list_of(share *s, const rshi_edge *e) {
    if (e->dst->rank != s->shown.rank) return &s->sends;
    return rshi_edge_is_copy(e) ? &s->copies : &s->receives;
}

static rsh_status add_transfer(share *s, const rshi_edge *e, int ndim) {
    transfers *list = list_of(s, e);
    RSH_TRY(grow(list));
    rsh_transfer *t = &list->at[list->n];
    set_facts(e, ndim, t);
    RSH_TRY(set_loops(s, t));
    RSH_TRY(set_end(s, t, e->dst, true, &s->like.dst, &t->dst));
    t->dst.in_dst = !t->dst.in_scratch;
    RSH_TRY(set_sources(s, e, t));
    s->like.ndim = ndim, s->like.nloops = t->nloops;
    s->like.n = t->n, s->like.dim = t->dim;
    list->n++;
    return RSH_OK;
}

static rsh_status combine_runs(share *s, const rshi_edge *e, int ndim, int d) {
    if (d == ndim) return add_transfer(s, e, ndim);
    for (int64_t i = 0; i < s->met[d].runs.n; i++) {
        s->at[d] = &s->met[d].runs.run[i];
        RSH_TRY(combine_runs(s, e, ndim, d + 1));
    }
    return RSH_OK;
}

static bool same_stripe(const rshi_stripe *a, const rshi_stripe *b) {
    return a->lo == b->lo && a->len == b->len && a->stride == b->stride && a->count == b->count && a->last == b->last;
}

/* Neighbouring edges have most dims in common. */
static rsh_status meet(meeting *m, const rshi_stripe *a, const rshi_stripe *b, int64_t lo, int64_t hi) {
    if (m->runs.n && m->lo == lo && m->hi == hi && same_stripe(&m->a, a) && same_stripe(&m->b, b)) return RSH_OK;
    m->a = *a, m->b = *b, m->lo = lo, m->hi = hi;
    m->runs.n = 0;
    if (a->count != 1 || b->count != 1 || !m->runs.room) return rshi_stripe_overlap(a, b, lo, hi, &m->runs);
    m->runs.n = rshi_range_overlap(a, b, lo, hi, m->runs.run);
    return RSH_OK;
}

static rsh_status add_edge(void *ctx, const rshi_edge *e) {
    share *s = ctx;
    int ndim = rsh_layout_ndim(e->dst_layout);
    for (int d = 0; d < ndim; d++) {
        RSH_TRY(meet(&s->met[d], &e->with->set[d], &e->dst->set[d], e->lo[d], e->hi[d]));
        if (!s->met[d].runs.n) return RSH_OK; /* nothing in common */
    }
    return combine_runs(s, e, ndim, 0);
}

/* ---- the whole share ---- */

/* The arrays are complete and stay where they are. */
static void show(share *s) {
    s->shown.copies = s->copies.at, s->shown.ncopies = s->copies.n;
    s->shown.receives = s->receives.at, s->shown.nreceives = s->receives.n;
    s->shown.sends = s->sends.at, s->shown.nsends = s->sends.n;
}

static void free_runs(share *s) {
    for (int d = 0; d < RSH_MAX_NDIM; d++) rshi_free(s->met[d].runs.run);
}

static rsh_status count_scratch(share *s, const rsh_plan *p, int64_t rank) {
    if (!rshi_plan_has_scratch(p)) return RSH_OK;
    s->scratch = rshi_calloc((size_t)p->n, sizeof *s->scratch);
    if (!s->scratch) return rshi_nomem();
    for (int64_t t = 0; t < p->n; t++) RSH_TRY(rshi_plan_scratch(p, t, rank, &s->scratch[t]));
    s->shown.scratch = s->scratch;
    return RSH_OK;
}

rsh_status rshi_plan_share(const rsh_plan *p, int64_t rank, rshi_share_sends sends, rsh_share **out) {
    rshi_rank_edges edges = {.take = add_edge, .whole_sends = sends == RSHI_SENDS_WHOLE};
    share *s = RSHI_NEW(share);
    rsh_status st;
    if (!s) return rshi_nomem();
    edges.ctx = s;
    s->shown.rank = rank;
    RSH_GOTO(sends == RSHI_SENDS_NONE ? rshi_plan_receives(p, rank, &edges) : rshi_plan_edges(p, rank, &edges));
    RSH_GOTO(count_scratch(s, p, rank));
    show(s);
out:
    rshi_rank_edges_free(&edges);
    free_runs(s);
    if (st)
        rsh_share_free(&s->shown);
    else
        *out = &s->shown;
    return st;
}

rsh_status rsh_plan_share(const rsh_plan *p, int64_t rank, rsh_share **out) {
    RSH_NEEDS(p);
    RSH_NEEDS(out);
    RSH_REQUIRE(rank >= 0, RSH_EINDEX, "rank %lld was asked for", (long long)rank);
    return rshi_plan_share(p, rank, RSHI_SENDS_OWN, out);
}

static void free_transfers(transfers *list) { rshi_free_data(list->at, (size_t)list->room * sizeof *list->at); }

void rsh_share_free(rsh_share *shown) {
    share *s = (share *)shown; /* its first member */
    if (!s) return;
    for (chunk *c = s->chunk, *next; c; c = next) {
        next = c->next;
        rshi_free_data(c, sizeof *c + c->bytes);
    }
    free_transfers(&s->copies);
    free_transfers(&s->receives);
    free_transfers(&s->sends);
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
