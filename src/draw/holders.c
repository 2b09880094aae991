/* Holders: finds the ranks that hold each cell of the picture.
 *
 * Each piece of a rank is a mask of rows, one of columns and one of slices.  Ranks with equal masks form a group, so
 * that many replicas cost as much as one.  The holders of a cell are the ranks of all groups that cover it.  The cost
 * is one step per rank, and one per cell that a group covers. */
#include "draw/impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- masks of pieces ---- */

/* The mask of one piece of a rank. */
typedef struct sight {
    rshi_mask mask;
    int64_t number; /* index of its rank in the layout */
} sight;
typedef struct sights {
    sight *at;
    int64_t n, room;
} sights;

/* Is [lo, hi) entirely in the set, given that lo is? */
static bool spans(const rshi_stripe *set, int64_t lo, int64_t hi) {
    return rshi_stripe_before(set, hi) - rshi_stripe_before(set, lo) == hi - lo;
}

/* Returns the bits of the intervals that the set covers.  The bit of a gap is set only if the set covers the whole
 * gap. */
static uint64_t bits_along(const rshi_borders *e, const rshi_stripe *set) {
    uint64_t bits = 0;
    for (int i = 0; i < e->n; i++)
        if (rshi_stripe_has(set, e->at[i]) && (i != e->gap || spans(set, e->at[i], e->at[i + 1])))
            bits |= (uint64_t)1 << i;
    return bits;
}

/* Returns the mask of a piece; it is empty if the piece does not contain index 0 of the dims that are not drawn. */
static rshi_mask mask_of(const rshi_scene *s, int ndim, const rshi_piece *p) {
    rshi_mask m = {{1, 1, 1}};
    unsigned drawn = 0;
    for (int i = 0; i < RSHI_DIRECTIONS; i++) {
        const rshi_borders *e = &s->along[i];
        if (e->dim < 0) continue;
        drawn |= 1u << e->dim;
        m.in[i] = bits_along(e, &p->set[e->dim]);
    }
    for (int d = 0; d < ndim; d++)
        if (!(drawn >> d & 1) && !rshi_stripe_has(&p->set[d], 0)) m.in[0] = 0;
    return m;
}

static rsh_status look_at_rank(const rshi_scene *s, const rshi_side *side, int64_t number, sights *out) {
    rshi_piece *piece = NULL;
    int64_t n = 0, before = out->n;
    rsh_status st = rshi_layout_pieces(side->layout, rsh_layout_rank(side->layout, number), &piece, &n);
    for (int64_t k = 0; k < n && !st; k++) {
        rshi_mask m = mask_of(s, rsh_layout_ndim(side->layout), &piece[k]);
        bool again = out->n > before && !memcmp(&out->at[out->n - 1].mask, &m, sizeof m);
        if (rshi_mask_empty(&m) || again) continue;
        st = RSHI_GROW(out->at, out->n + 1, &out->room);
        if (!st) out->at[out->n++] = (sight){m, number};
    }
    rshi_free(piece);
    return st;
}

/* ---- groups of ranks with equal masks ---- */

static int by_mask(const void *a, const void *b) {
    const sight *x = a, *y = b;
    int order = memcmp(&x->mask, &y->mask, sizeof x->mask);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

/* Sorts by mask and removes duplicates, which exist if a rank has several pieces with the same mask. */
static void drop_twins(sights *seen) {
    int64_t n = 0;
    if (seen->n) qsort(seen->at, (size_t)seen->n, sizeof *seen->at, by_mask);
    for (int64_t i = 0; i < seen->n; i++)
        if (!n || by_mask(&seen->at[i], &seen->at[n - 1])) seen->at[n++] = seen->at[i];
    seen->n = n;
}

/* Lists the groups of each rank, with a counting sort of the sights by rank. */
static void list_members(rshi_side *side, const sights *seen, const int64_t *alike_of, int64_t nranks) {
    for (int64_t i = 0; i < seen->n; i++) side->start[seen->at[i].number + 1]++;
    for (int64_t i = 0; i < nranks; i++) {
        side->nshown += side->start[i + 1] > 0;
        side->start[i + 1] += side->start[i];
    }
    for (int64_t i = seen->n - 1; i >= 0; i--) side->member[--side->start[seen->at[i].number + 1]] = alike_of[i];
    for (int64_t i = 0; i < nranks; i++) side->start[i] = side->start[i + 1];
    side->start[nranks] = seen->n;
}

static rsh_status group_alike(rshi_side *side, sights *seen, int64_t nranks) {
    size_t n = (size_t)seen->n;
    int64_t *alike_of = rshi_calloc(n, sizeof *alike_of);
    side->alike = rshi_calloc(n, sizeof *side->alike);
    side->rank = rshi_calloc(n, sizeof *side->rank);
    side->member = rshi_calloc(n, sizeof *side->member);
    side->start = rshi_calloc((size_t)nranks + 1, sizeof *side->start);
    bool ready = alike_of && side->alike && side->rank && side->member && side->start;
    if (ready) {
        drop_twins(seen);
        for (int64_t i = 0; i < seen->n; i++) {
            bool same = i && !memcmp(&seen->at[i].mask, &seen->at[i - 1].mask, sizeof seen->at[i].mask);
            if (!same) side->alike[side->nalike++] = (rshi_alike){seen->at[i].mask, i, 0};
            side->alike[side->nalike - 1].n++;
            alike_of[i] = side->nalike - 1;
            side->rank[i] = rsh_layout_rank(side->layout, seen->at[i].number);
        }
        list_members(side, seen, alike_of, nranks);
    }
    rshi_free(alike_of);
    return ready ? RSH_OK : rshi_nomem();
}

/* ---- cells and their holders ---- */

void rshi_scene_each(const rshi_scene *s, const rshi_mask *m, rshi_cell_fn fn, void *ctx) {
    for (uint64_t k = m->in[RSHI_SLICES]; k; k &= k - 1)
        for (uint64_t r = m->in[RSHI_ROWS]; r; r &= r - 1)
            for (uint64_t c = m->in[RSHI_COLUMNS]; c; c &= c - 1)
                fn(ctx, rshi_scene_cell(s, __builtin_ctzll(k), __builtin_ctzll(r), __builtin_ctzll(c)));
}

/* The groups that cover a cell: their number, the first of them, and a hash of their indices. */
typedef struct cover {
    uint64_t hash;
    int64_t count, first;
    int cell;
} cover;

typedef struct covering {
    cover *cell;
    int64_t alike;
} covering;

static void add_cover(void *ctx, int cell) {
    const covering *g = ctx;
    cover *c = &g->cell[cell];
    if (!c->count++) c->first = g->alike;
    c->hash = rshi_hash(&g->alike, sizeof g->alike, c->hash);
}

static int by_hash(const void *a, const void *b) {
    const cover *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return (x->cell > y->cell) - (x->cell < y->cell);
}

static bool covers(const rshi_scene *s, const rshi_mask *m, int cell) {
    int columns = s->along[RSHI_COLUMNS].n, rows = s->along[RSHI_ROWS].n;
    return (m->in[RSHI_COLUMNS] >> cell % columns & 1) && (m->in[RSHI_ROWS] >> cell / columns % rows & 1) &&
           (m->in[RSHI_SLICES] >> cell / columns / rows & 1);
}

typedef struct merging {
    const rshi_scene *scene;
    rshi_side *side;
    int64_t n, room; /* number of entries of side->merged, and its capacity */
} merging;

/* Appends the ranks of all groups that cover a cell to `merged`, ascending and without duplicates. */
static rsh_status merge_ranks(merging *m, int cell, int64_t *count) {
    rshi_side *side = m->side;
    int64_t start = m->n, n = 0;
    for (int64_t i = 0; i < side->nalike; i++) {
        const rshi_alike *a = &side->alike[i];
        if (!covers(m->scene, &a->mask, cell)) continue;
        RSH_TRY(RSHI_GROW(side->merged, m->n + a->n, &m->room));
        memcpy(side->merged + m->n, side->rank + a->first, (size_t)a->n * sizeof *side->rank);
        m->n += a->n;
    }
    int64_t *list = side->merged + start;
    qsort(list, (size_t)(m->n - start), sizeof *list, rshi_compare_int64);
    for (int64_t i = start; i < m->n; i++)
        if (!n || side->merged[i] != list[n - 1]) list[n++] = side->merged[i];
    m->n = start + n;
    *count = n;
    return RSH_OK;
}

/* Finds the list of ranks that cover a cell.  *begin is its offset in `rank`; if it is negative, -1 - *begin is its
 * offset in `merged`, which may still grow. */
static rsh_status place_list(merging *m, const cover *c, int64_t *begin, int64_t *count) {
    const rshi_alike *only = &m->side->alike[c->first];
    *begin = only->first;
    *count = only->n;
    if (c->count == 1) return RSH_OK;
    *begin = -1 - m->n;
    return merge_ranks(m, c->cell, count);
}

static void finish_holders(rshi_side *side, const int64_t *begin, const int64_t *count) {
    for (int64_t h = 0; h < side->nholders; h++) {
        rshi_holders *own = &side->holders[h];
        own->list = begin[h] < 0 ? side->merged + (-1 - begin[h]) : side->rank + begin[h];
        for (int64_t i = 0; i < count[h]; i++) rshi_ranks_add(&own->ranks, own->list[i]);
        if (rsh_layout_op(side->layout)) rshi_sum_fill(side->layout, own);
    }
}

/* Numbers the distinct sets of holders; cells with the same hash have the same holders. */
static rsh_status number_holders(merging *m, cover *cell, int ncells, int64_t *begin, int64_t *count) {
    rshi_side *side = m->side;
    qsort(cell, (size_t)ncells, sizeof *cell, by_hash);
    for (int i = 0; i < ncells; i++) {
        bool same = i && cell[i].hash == cell[i - 1].hash;
        if (!cell[i].count) continue;
        if (!same) RSH_TRY(place_list(m, &cell[i], &begin[side->nholders], &count[side->nholders]));
        side->nholders += !same;
        side->cell[cell[i].cell] = (int)side->nholders - 1;
    }
    return RSH_OK;
}

static rsh_status find_holders(const rshi_scene *s, rshi_side *side) {
    int ncells = rshi_scene_cells(s);
    merging m = {s, side, 0, 0};
    cover *cell = rshi_calloc((size_t)ncells, sizeof *cell);
    int64_t *begin = rshi_calloc((size_t)ncells, sizeof *begin), *count = rshi_calloc((size_t)ncells, sizeof *count);
    side->cell = rshi_calloc((size_t)ncells, sizeof *side->cell);
    rsh_status st = cell && begin && count && side->cell ? RSH_OK : rshi_nomem();
    if (!st) {
        for (int i = 0; i < ncells; i++) cell[i].cell = i, side->cell[i] = -1;
        for (int64_t i = 0; i < side->nalike; i++)
            rshi_scene_each(s, &side->alike[i].mask, add_cover, &(covering){cell, i});
        st = number_holders(&m, cell, ncells, begin, count);
    }
    if (!st) side->holders = rshi_calloc((size_t)side->nholders, sizeof *side->holders);
    if (!st && !side->holders) st = rshi_nomem();
    if (!st) finish_holders(side, begin, count);
    rshi_free(cell);
    rshi_free(begin);
    rshi_free(count);
    return st;
}

rsh_status rshi_side_fill(const rshi_scene *s, rshi_side *side) {
    sights seen = {0};
    int64_t nranks = rsh_layout_nranks(side->layout);
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < nranks && !st; i++) st = look_at_rank(s, side, i, &seen);
    if (!st) st = group_alike(side, &seen, nranks);
    rshi_free(seen.at);
    return st ? st : find_holders(s, side);
}

void rshi_side_free(rshi_side *side) {
    rshi_free(side->alike);
    rshi_free(side->rank);
    rshi_free(side->start);
    rshi_free(side->member);
    rshi_free(side->holders);
    rshi_free(side->merged);
    rshi_free(side->cell);
}
