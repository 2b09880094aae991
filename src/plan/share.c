/* Share: a rank's edges as transfers, which are loops over the indices of parts.
 *
 * An edge is a product over dims of the runs that source and destination have in common.  Each combination of runs
 * is a transfer with at most two loops per dim.  A rank may have as many neighbours as there are ranks.  So edges
 * become transfers one at a time, and numbers that are equal to those of the transfer before are shared with it. */
#include "plan/impl.h"

#include <string.h>

#define FIRST_CHUNK     ((size_t)1 << 10) /* bytes; each next chunk has twice the size */
#define LARGEST_CHUNK   ((size_t)1 << 21)
#define EVERY_OTHER_BIT 0x5555u
#define MANY            ((int64_t)1 << 14) /* transfers: larger arrays are mapped; unused pages cost nothing */

/* Memory for ends and numbers, which never moves. */
typedef struct chunk {
    struct chunk *next;
    size_t used, bytes; /* of `at` */
    _Alignas(16) char at[];
} chunk;

typedef struct transfers {
    rsh_transfer *at; /* owned */
    int64_t n, room;
} transfers;

/* Two stripes, and the runs that they have in common. */
typedef struct meeting {
    rshi_stripe a, b;
    int64_t lo, hi;
    rshi_runs runs;
    rshi_run one; /* if both stripes are ranges: their only run */
} meeting;

/* The numbers of an end, and the loops that they belong to. */
typedef struct placed {
    const int64_t *first, *step;
    int ndim; /* of `first`; 0: none yet */
    bool flat;
    int64_t loops;              /* number of the loops that `step` belongs to */
    int64_t unit[RSH_MAX_NDIM]; /* flat: the step of one index of each dim */
} placed;

/* A share with everything that it owns. */
typedef struct share {
    rsh_share shown;
    transfers copies, receives, sends;
    chunk *chunk;                     /* the newest */
    int64_t *scratch;                 /* by tensor, or NULL */
    meeting met[RSH_MAX_NDIM];        /* of the current edge */
    const rshi_run *at[RSH_MAX_NDIM]; /* the current combination of runs */
    struct {                          /* the current loops, which many transfers share */
        int64_t number;               /* increases when `which` changes; 0: none yet */
        unsigned which;               /* two bits per dim: a loop over blocks, and one inside a block */
        bool repeats;                 /* one of them loops over blocks, whose distance is in the run */
        const int *dim;
        const int64_t *rounds;
    } loops;
    placed dst, src;   /* the last destination and source */
    int64_t series;    /* of the edge before, if the next edge can be made from it; otherwise 0 */
    transfers *before; /* the list with its transfer, which is the last one */
} share;

/* ---- memory ---- */

static __attribute__((noinline)) chunk *add_chunk(share *s, size_t bytes) {
    size_t room = s->chunk ? 2 * s->chunk->bytes : FIRST_CHUNK;
    if (room > LARGEST_CHUNK) room = LARGEST_CHUNK;
    if (room < bytes) room = bytes;
    chunk *c = rshi_alloc_data(sizeof *c + room, false);
    if (!c) return NULL;
    *c = (chunk){.next = s->chunk, .bytes = room};
    return s->chunk = c;
}

/* Returns n items of `size` bytes; NULL with a message: no memory. */
static inline void *take_room(share *s, int64_t n, size_t size) {
    size_t bytes = ((size_t)n * size + 7) & ~(size_t)7;
    chunk *c = s->chunk;
    if (!c || c->bytes - c->used < bytes) c = add_chunk(s, bytes);
    if (!c) return NULL;
    c->used += bytes;
    return c->at + c->used - bytes;
}

/* Where the next numbers may be written; make_room has made enough room. */
static inline int64_t *next_numbers(share *s) { return (int64_t *)(s->chunk->at + s->chunk->used); }

/* Keeps n numbers that were written there, unless they equal those of `before`. */
static inline const int64_t *keep(share *s, const int64_t *written, int n, const int64_t *before) {
    int same = 0;
    while (before && same < n && before[same] == written[same]) same++;
    if (before && same == n) return before;
    s->chunk->used += (size_t)n * sizeof *written;
    return written;
}

/* Enough for the numbers of a transfer, of an end, or of both ends and an end. */
#define MOST_NUMBERS 512
_Static_assert(MOST_NUMBERS >= RSH_MAX_LOOPS * (2 * sizeof(int64_t) + sizeof(int)) + RSH_MAX_NDIM * sizeof(int64_t) &&
                   MOST_NUMBERS >= 2 * RSH_MAX_NDIM * sizeof(int64_t) + sizeof(rsh_transfer_end),
               "whatever is written next fits");
static inline rsh_status make_room(share *s) {
    if (s->chunk && s->chunk->bytes - s->chunk->used >= MOST_NUMBERS) return RSH_OK;
    return add_chunk(s, MOST_NUMBERS) ? RSH_OK : rshi_nomem();
}

static rsh_status grow(transfers *list) {
    int64_t room = rshi_max(4, (list->room < MANY ? 4 : 16) * list->room);
    rsh_transfer *at = rshi_alloc_data((size_t)room * sizeof *at, false);
    if (!at) return rshi_nomem();
    if (list->n) memcpy(at, list->at, (size_t)list->n * sizeof *at);
    rshi_free_data(list->at, (size_t)list->room * sizeof *at);
    *list = (transfers){at, list->n, room};
    return RSH_OK;
}

/* ---- one edge ---- */

/* Writes the dims of the loops, if they differ from those of the transfer before. */
static void make_dims(share *s, int ndim, unsigned loops) {
    int *dim = (int *)next_numbers(s), n = 0;
    for (int i = 0; i < 2 * ndim; i++)
        if (loops >> i & 1) dim[n++] = i / 2;
    keep(s, next_numbers(s), (n + 1) / 2, NULL);
    s->loops.dim = dim;
    s->loops.which = loops;
    s->loops.repeats = loops & EVERY_OTHER_BIT;
    s->loops.number++;
}

/* A dim has a loop over blocks and a loop inside a block, if these have several rounds. */
static inline void set_loops(share *s, rsh_transfer *t) {
    int64_t *n = next_numbers(s), count = 1;
    unsigned which = 0;
    int loops = 0;
    for (int d = 0; d < t->ndim; d++) {
        const rshi_run *r = s->at[d];
        if (r->count > 1) n[loops++] = r->count, count *= r->count, which |= 1u << 2 * d;
        if (r->len > 1) n[loops++] = r->len, count *= r->len, which |= 2u << 2 * d;
    }
    bool known = s->loops.number && which == s->loops.which;
    s->loops.rounds = keep(s, n, loops, known ? s->loops.rounds : NULL);
    if (!known) make_dims(s, t->ndim, which);
    t->nloops = loops;
    t->count = count;
    t->n = s->loops.rounds;
    t->dim = s->loops.dim;
}

/* Shares the first index with the end before, if it is equal. */
static inline void set_first(share *s, int ndim, const rshi_piece *p, bool by_dst, placed *like) {
    int64_t *first = next_numbers(s);
    int n = p->flat ? 1 : ndim;
    if (p->flat) {
        first[0] = p->at[0];
        for (int d = 0; d < ndim; d++) first[0] += (by_dst ? s->at[d]->ib : s->at[d]->ia) * p->step[d];
    } else {
        for (int d = 0; d < ndim; d++) first[d] = p->at[d] + (by_dst ? s->at[d]->ib : s->at[d]->ia);
    }
    like->first = keep(s, first, n, like->ndim == n ? like->first : NULL);
    like->ndim = n;
}

static void make_steps(share *s, int ndim, const rshi_piece *p, bool by_dst, placed *like) {
    int64_t *step = next_numbers(s);
    int loops = 0;
    for (int d = 0; d < ndim; d++) {
        const rshi_run *r = s->at[d];
        like->unit[d] = p->flat ? p->step[d] : 1;
        if (r->count > 1) step[loops++] = (by_dst ? r->db : r->da) * like->unit[d];
        if (r->len > 1) step[loops++] = like->unit[d];
    }
    like->step = keep(s, step, loops, like->loops == s->loops.number ? like->step : NULL);
    like->flat = p->flat;
    like->loops = s->loops.number;
}

/* Steps depend on the loops, in a flat part also on the place of the piece, and with blocks also on the runs. */
static inline void set_steps(share *s, int ndim, const rshi_piece *p, bool by_dst, placed *like) {
    bool same = like->loops == s->loops.number && like->flat == p->flat && !s->loops.repeats;
    for (int d = 0; d < ndim && p->flat && same; d++) same = p->step[d] == like->unit[d];
    if (!same) make_steps(s, ndim, p, by_dst, like);
}

/* Makes the end of a piece for the current combination of runs.  by_dst: the runs' indices in the destination piece
 * are used.  `like` is an end that may have the same numbers; it is replaced by this end. */
static inline rsh_status set_end(share *s, int ndim, const rshi_piece *p, bool by_dst, placed *like,
                                 rsh_transfer_end *end) {
    RSH_TRY(make_room(s));
    set_first(s, ndim, p, by_dst, like);
    set_steps(s, ndim, p, by_dst, like);
    end->rank = p->rank;
    end->part = p->part == RSHI_SCRATCH ? 0 : p->part;
    end->in_scratch = p->part == RSHI_SCRATCH;
    end->flat = p->flat;
    end->first = like->first;
    end->step = like->step;
    return RSH_OK;
}

static inline rsh_status set_sources(share *s, const rshi_edge *e, rsh_transfer *t) {
    rsh_transfer_end *end = take_room(s, e->nsrc, sizeof *end);
    int64_t n = e->src_rank ? rshi_min(1, e->nsrc) : e->nsrc;
    if (!end) return rshi_nomem();
    for (int64_t i = 0; i < n; i++) {
        RSH_TRY(set_end(s, t->ndim, &e->src[i], e->from_dst, &s->src, &end[i]));
        end[i].in_dst = e->from_dst;
    }
    for (int64_t i = 0; i < e->nsrc && e->src_rank; i++) {
        end[i] = end[0];
        end[i].rank = e->src_rank[i];
    }
    t->src = end;
    return RSH_OK;
}

/* Sets everything except loops and ends. */
static void set_facts(const rshi_edge *e, int ndim, rsh_transfer *t) {
    t->tensor = e->tensor;
    t->ndim = ndim;
    t->stage = e->stage;
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
    if (list->n == list->room) RSH_TRY(grow(list));
    rsh_transfer *t = &list->at[list->n];
    set_facts(e, ndim, t);
    RSH_TRY(make_room(s));
    set_loops(s, t);
    RSH_TRY(set_end(s, ndim, e->dst, true, &s->dst, &t->dst));
    t->dst.in_dst = !t->dst.in_scratch;
    RSH_TRY(set_sources(s, e, t));
    list->n++;
    return RSH_OK;
}

static rsh_status combine_runs(share *s, const rshi_edge *e, int ndim, int d) {
    if (d == ndim) return add_transfer(s, e, ndim);
    if (s->at[d]) return combine_runs(s, e, ndim, d + 1); /* there is one run */
    for (int64_t i = 0; i < s->met[d].runs.n; i++) {
        s->at[d] = &s->met[d].runs.run[i];
        RSH_TRY(combine_runs(s, e, ndim, d + 1));
    }
    s->at[d] = NULL;
    return RSH_OK;
}

static bool same_stripe(const rshi_stripe *a, const rshi_stripe *b) {
    return a->lo == b->lo && a->len == b->len && a->stride == b->stride && a->count == b->count && a->last == b->last;
}

/* Reuses the runs of the edge before if the stripes are the same. */
static rsh_status meet(meeting *m, const rshi_stripe *a, const rshi_stripe *b, int64_t lo, int64_t hi) {
    if (m->runs.n && m->lo == lo && m->hi == hi && same_stripe(&m->a, a) && same_stripe(&m->b, b)) return RSH_OK;
    m->a = *a, m->b = *b, m->lo = lo, m->hi = hi;
    m->runs.n = 0;
    return rshi_stripe_overlap(a, b, lo, hi, &m->runs);
}

static rsh_status add_whole(share *s, const rshi_edge *e) {
    int ndim = rsh_layout_ndim(e->dst_layout), open = 0;
    s->series = 0;
    for (int d = 0; d < ndim; d++) {
        const rshi_stripe *a = &e->with->set[d], *b = &e->dst->set[d];
        meeting *m = &s->met[d];
        if (a->count == 1 && b->count == 1) {
            if (!rshi_range_overlap(a, b, e->lo[d], e->hi[d], &m->one)) return RSH_OK; /* nothing in common */
            s->at[d] = &m->one;
            continue;
        }
        RSH_TRY(meet(m, a, b, e->lo[d], e->hi[d]));
        if (!m->runs.n) return RSH_OK;
        s->at[d] = m->runs.n == 1 ? m->runs.run : NULL;
        open += m->runs.n > 1;
    }
    if (open) return combine_runs(s, e, ndim, 0);
    RSH_TRY(add_transfer(s, e, ndim));
    if (!e->series || e->nsrc != 1 || s->at[e->series_dim] != &s->met[e->series_dim].one) return RSH_OK;
    s->series = e->series;
    s->before = list_of(s, e);
    return RSH_OK;
}

/* ---- edges of a series ---- */

/* Returns the first index of an end whose piece begins at index `i` of the series' dim, if the end before began at
 * index `before`.  Shares it with that end if it is equal. */
static inline const int64_t *move_first(share *s, int ndim, const rsh_transfer_end *end, const rshi_piece *p, int d,
                                        int64_t i, int64_t before) {
    int n = end->flat ? 1 : ndim, at = end->flat ? 0 : d;
    int64_t first = end->flat ? end->first[0] + (i - before) * p->step[d] : p->at[d] + i;
    if (first == end->first[at]) return end->first;
    int64_t *moved = next_numbers(s);
    for (int k = 0; k < n; k++) moved[k] = end->first[k];
    moved[at] = first;
    s->chunk->used += (size_t)n * sizeof *moved;
    return moved;
}

/* Adds a transfer that differs from the one before only in a rank and in the first index along one dim. */
static rsh_status add_like_before(share *s, const rshi_edge *e, const rshi_run *run) {
    transfers *list = s->before;
    if (list->n == list->room) RSH_TRY(grow(list));
    RSH_TRY(make_room(s));
    rsh_transfer *t = &list->at[list->n++];
    *t = t[-1];
    int d = e->series_dim;
    rshi_run *before = &s->met[d].one;
    t->dst.rank = e->dst->rank;
    t->dst.part = e->dst->part;
    t->dst.first = s->dst.first = move_first(s, t->ndim, &t->dst, e->dst, d, run->ib, before->ib);
    const int64_t *first = s->src.first = move_first(s, t->ndim, t->src, e->src, d, run->ia, before->ia);
    before->ia = run->ia, before->ib = run->ib;
    if (first == t->src->first && e->src->rank == t->src->rank) return RSH_OK;
    rsh_transfer_end *src = (rsh_transfer_end *)next_numbers(s);
    *src = *t->src;
    src->rank = e->src->rank;
    src->part = e->src->part;
    src->first = first;
    t->src = src;
    s->chunk->used += sizeof *src;
    return RSH_OK;
}

/* An end may be flat only if it lies at the same place in the whole series. */
static rsh_status add_edge(void *ctx, const rshi_edge *e) {
    share *s = ctx;
    if (!e->series || e->series != s->series) return add_whole(s, e);
    int d = e->series_dim;
    const rshi_stripe *a = &e->with->set[d], *b = &e->dst->set[d];
    rshi_run run;
    if (a->count != 1 || b->count != 1) return add_whole(s, e);
    if (!rshi_range_overlap(a, b, e->lo[d], e->hi[d], &run)) return RSH_OK;
    if (run.len != s->met[d].one.len || s->before != list_of(s, e)) return add_whole(s, e);
    return add_like_before(s, e, &run);
}

/* ---- the whole share ---- */

/* Publishes the arrays, which are complete and do not move any more. */
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
    share *s = RSHI_NEW(share);
    rshi_walk walk = {.p = p, .rank = rank, .emit = add_edge, .ctx = s, .whole_sends = sends == RSHI_SENDS_WHOLE};
    rsh_status st;
    if (!s) return rshi_nomem();
    s->shown.rank = rank;
    RSH_GOTO(rshi_receive_all(&walk));
    if (sends != RSHI_SENDS_NONE) RSH_GOTO(rshi_send_all(&walk));
    RSH_GOTO(count_scratch(s, p, rank));
    show(s);
out:
    rshi_walk_free(&walk);
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
    RSH_REQUIRE(rank >= 0, RSH_EINDEX, "rank must be at least 0, got %lld", (long long)rank);
    return rshi_plan_share(p, rank, RSHI_SENDS_OWN, out);
}

static void free_transfers(transfers *list) { rshi_free_data(list->at, (size_t)list->room * sizeof *list->at); }

void rsh_share_free(rsh_share *shown) {
    share *s = (share *)shown; /* `shown` is its first member */
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

rsh_status rsh_transfer_offsets(const rsh_transfer *t, const rsh_transfer_end *end, const int64_t *strides,
                                int64_t *offset, int64_t *rounds) {
    RSH_REQUIRE(t && end && strides && offset && rounds, RSH_EVALUE,
                "rsh_transfer_offsets needs a transfer, one of its ends, strides, and places for both results");
    *offset = 0;
    for (int d = 0; d < (end->flat ? 1 : t->ndim); d++) *offset += end->first[d] * strides[d];
    for (int i = 0; i < t->nloops; i++) rounds[i] = end->step[i] * strides[end->flat ? 0 : t->dim[i]];
    return RSH_OK;
}
