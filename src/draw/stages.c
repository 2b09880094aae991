/* Stages: finds the stages of a plan in which each destination cell arrives at its first holder. */
#include "draw/impl.h"

#include "plan/plan.h"

#define RANKS_ASKED 64 /* number of ranks that are examined; cells with other first holders get all stages */

/* Indices of a part along one dim: [lo, hi). */
typedef struct local_range {
    int64_t lo, hi;
} local_range;

/* Does a transfer write into the range of this dim?  It may have two loops over the dim: over blocks, and over the
 * elements of a block. */
static bool overlaps_range(const rsh_transfer *t, int d, local_range want) {
    int64_t step[2] = {1, 1}, rounds[2] = {1, 1};
    for (int i = 0, k = 0; i < t->nloops && k < 2; i++) {
        if (t->dim[i] != d) continue;
        step[k] = t->dst.step[i];
        rounds[k++] = t->n[i];
    }
    int64_t first = t->dst.first[d], block = (rounds[1] - 1) * step[1] + 1, skipped = want.lo - first - block + 1;
    int64_t j = skipped <= 0 ? 0 : rshi_ceil_div(skipped, step[0]); /* the first block that ends after want.lo */
    return j < rounds[0] && first + j * step[0] < want.hi;
}

typedef struct arriving {
    rshi_scene *scene;
    const rsh_share *share;
    const rshi_piece *piece; /* the destination piece */
} arriving;

static bool writes(const arriving *a, const rsh_transfer *t, int cell) {
    const rshi_scene *s = a->scene;
    int at[RSHI_DIRECTIONS] = {cell / s->along[RSHI_COLUMNS].n % s->along[RSHI_ROWS].n, cell % s->along[RSHI_COLUMNS].n,
                               cell / s->along[RSHI_COLUMNS].n / s->along[RSHI_ROWS].n};
    if (t->tensor != s->tensor || t->dst.in_scratch || t->dst.part != a->piece->part) return false;
    if (t->dst.flat) return true; /* a flat part has no dims, so every stage may write the cell */
    for (int k = 0; k < RSHI_DIRECTIONS; k++) {
        const rshi_borders *e = &s->along[k];
        if (e->dim < 0) continue;
        int64_t lo = a->piece->at[e->dim] + rshi_stripe_before(&a->piece->set[e->dim], e->at[at[k]]);
        if (!overlaps_range(t, e->dim, (local_range){lo, lo + e->at[at[k] + 1] - e->at[at[k]]})) return false;
    }
    return true;
}

static void mark_cell(const arriving *a, int cell) {
    for (int64_t i = 0; i < a->share->nreceives; i++)
        if (writes(a, &a->share->receives[i], cell)) a->scene->origin[cell].stages |= 1u << a->share->receives[i].stage;
    for (int64_t i = 0; i < a->share->ncopies; i++)
        if (writes(a, &a->share->copies[i], cell)) a->scene->origin[cell].stages |= 1u << a->share->copies[i].stage;
}

static bool inside(const rshi_scene *s, const rshi_piece *p, int cell) {
    int columns = s->along[RSHI_COLUMNS].n, rows = s->along[RSHI_ROWS].n;
    int at[RSHI_DIRECTIONS] = {cell / columns % rows, cell % columns, cell / columns / rows};
    for (int k = 0; k < RSHI_DIRECTIONS; k++)
        if (s->along[k].dim >= 0 && !rshi_stripe_has(&p->set[s->along[k].dim], s->along[k].at[at[k]])) return false;
    return true;
}

static rsh_status mark_rank(rshi_scene *s, int64_t rank) {
    const rshi_side *to = &s->side[1];
    rsh_share *share = NULL;
    rshi_piece *piece = NULL;
    int64_t n = 0;
    rsh_status st = rshi_plan_share(s->plan, rank, RSHI_SENDS_NONE, &share);
    if (!st) st = rshi_layout_pieces(to->layout, rank, &piece, &n);
    for (int64_t k = 0; k < n && !st; k++)
        for (int i = 0; i < rshi_scene_cells(s); i++) {
            bool own = to->cell[i] >= 0 && to->holders[to->cell[i]].ranks.first[0] == rank;
            if (own && inside(s, &piece[k], i)) mark_cell(&(arriving){s, share, &piece[k]}, i);
        }
    rshi_free(piece);
    rsh_share_free(share);
    return st;
}

rsh_status rshi_scene_stages(rshi_scene *s) {
    const rshi_side *to = &s->side[1];
    s->stages = rshi_plan_stages(s->plan);
    int asked = 0, cells = rshi_scene_cells(s);
    for (int i = 0; i < cells && s->stages > 1 && asked < RANKS_ASKED; i++) {
        if (to->cell[i] < 0 || s->origin[i].stages) continue;
        asked++;
        RSH_TRY(mark_rank(s, to->holders[to->cell[i]].ranks.first[0]));
    }
    for (int i = 0; i < cells; i++)
        if (!s->origin[i].stages) s->origin[i].stages = (1u << s->stages) - 1;
    return RSH_OK;
}
