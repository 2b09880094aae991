/* Origins: finds the ranks from which each destination cell comes.
 *
 * A cell that several ranks hold after the move is drawn for the first of them.  Its sources are the ranks that hold
 * the cell before the move and send to that rank according to the plan; the rank's own copy has priority. */
#include "draw/impl.h"

#include "plan/plan.h"

/* The sources of one destination rank, inside the box of intervals that is drawn. */
typedef struct incoming {
    rshi_scene *scene;
    int64_t rank; /* the destination */
    int64_t source;
    rshi_mask box;
} incoming;

static bool is_first(const rshi_scene *s, int cell, int64_t rank) {
    int h = s->side[1].cell[cell];
    return h >= 0 && s->side[1].holders[h].ranks.first[0] == rank;
}

static void add_source(void *ctx, int cell) {
    const incoming *in = ctx;
    if (!is_first(in->scene, cell, in->rank)) return;
    rshi_origin *origin = &in->scene->origin[cell];
    rshi_ranks_add(&origin->from, in->source);
    if (in->source == in->rank) origin->kind = RSHI_ORIGIN_STAYS;
}

/* Returns the groups of a rank, and their number in *n; a rank that is not in the layout has none. */
static const int64_t *masks_of(const rshi_side *side, int64_t rank, int64_t *n) {
    int64_t i = rshi_layout_ordinal(side->layout, rank);
    *n = i < 0 ? 0 : side->start[i + 1] - side->start[i];
    return i < 0 ? NULL : side->member + side->start[i];
}

static int visit_source(void *ctx, int64_t peer, int64_t bytes) {
    incoming *in = ctx;
    const rshi_side *from = &in->scene->side[0], *to = &in->scene->side[1];
    int64_t na, nb;
    const int64_t *a = masks_of(from, peer, &na), *b = masks_of(to, in->rank, &nb);
    (void)bytes;
    in->source = peer;
    for (int64_t i = 0; i < na; i++)
        for (int64_t j = 0; j < nb; j++) {
            rshi_mask m = in->box;
            for (int k = 0; k < RSHI_DIRECTIONS; k++)
                m.in[k] &= from->alike[a[i]].mask.in[k] & to->alike[b[j]].mask.in[k];
            rshi_scene_each(in->scene, &m, add_source, in);
        }
    return 0;
}

/* Selects one end of a direction: end 0 is everything before the gap (or everything if there is no gap), end 1 is
 * everything after it.  Returns false if there is no such end. */
static bool take_end(const rshi_borders *e, int end, uint64_t *bits, rshi_stripe *shown) {
    int first = end ? e->gap + 1 : 0, last = end || e->gap < 0 ? e->n : e->gap;
    if (end && e->gap < 0) return false;
    *bits = (last < 64 ? ((uint64_t)1 << last) - 1 : ~(uint64_t)0) & ~(((uint64_t)1 << first) - 1);
    if (e->dim >= 0) shown[e->dim] = rshi_stripe_range(e->at[first], e->at[last]);
    return true;
}

static void start_cell(void *ctx, int cell) {
    const incoming *in = ctx;
    if (is_first(in->scene, cell, in->rank)) in->scene->origin[cell].kind = RSHI_ORIGIN_MOVES;
}

/* Finds the sources of a rank.  Gaps divide the drawn area into boxes; only their sources are looked up. */
static rsh_status fill_rank(rshi_scene *s, int64_t rank) {
    incoming in = {.scene = s, .rank = rank};
    int64_t n;
    const int64_t *own = masks_of(&s->side[1], rank, &n);
    for (int64_t i = 0; i < n; i++) rshi_scene_each(s, &s->side[1].alike[own[i]].mask, start_cell, &in);
    for (int ends = 0; ends < 1 << RSHI_DIRECTIONS; ends++) {
        rshi_stripe shown[RSH_MAX_NDIM];
        bool there = true;
        for (int d = 0; d < RSH_MAX_NDIM; d++) shown[d] = rshi_stripe_range(0, 1);
        for (int k = 0; k < RSHI_DIRECTIONS; k++)
            there = take_end(&s->along[k], ends >> k & 1, &in.box.in[k], shown) && there;
        if (there) RSH_TRY(rshi_plan_sources_in(s->plan, rank, shown, visit_source, &in));
    }
    return RSH_OK;
}

/* Completes the origin of a cell.  The rank's own copy has priority.  Contributions of a reduction are kept together.
 * If there is no direct source, the holders before the move are used. */
static void complete_origin(rshi_origin *origin, const rshi_ranks *before, int64_t rank, bool partial) {
    if (partial && origin->from.count > 1) origin->kind = RSHI_ORIGIN_REDUCED;
    if (!partial && origin->kind == RSHI_ORIGIN_STAYS) {
        origin->from = (rshi_ranks){0};
        rshi_ranks_add(&origin->from, rank);
    }
    if (!origin->from.count && before) origin->from = *before;
}

rsh_status rshi_scene_origins(rshi_scene *s) {
    int cells = rshi_scene_cells(s);
    bool partial = rshi_scene_reduces(s);
    const rshi_side *from = &s->side[0], *to = &s->side[1];
    s->origin = rshi_calloc((size_t)cells, sizeof *s->origin);
    if (!s->origin) return rshi_nomem();
    for (int i = 0; i < cells; i++)
        if (to->cell[i] >= 0 && s->origin[i].kind == RSHI_ORIGIN_UNKNOWN)
            RSH_TRY(fill_rank(s, to->holders[to->cell[i]].ranks.first[0]));
    for (int i = 0; i < cells; i++)
        if (to->cell[i] >= 0)
            complete_origin(&s->origin[i], from->cell[i] < 0 ? NULL : &from->holders[from->cell[i]].ranks,
                   to->holders[to->cell[i]].ranks.first[0], partial);
    return RSH_OK;
}
