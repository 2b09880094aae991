/* Origins: from which ranks each cell of the destination comes.
 *
 * A cell that several ranks hold after the move is drawn as the first of them sees it.  Its sources are those ranks
 * that hold the cell before and that the plan makes send to it; its own copy comes before all others. */
#include "draw/impl.h"

#include "plan/plan.h"

typedef struct incoming {
    rshi_scene *scene;
    int64_t rank;   /* the destination */
    int64_t source;
    rsh_status status;
} incoming;

static void add_source(void *ctx, uint64_t rows, uint64_t columns) {
    const incoming *in = ctx;
    int n = rshi_scene_columns(in->scene)->n;
    for (uint64_t r = rows; r; r &= r - 1)
        for (uint64_t c = columns; c; c &= c - 1) {
            int i = __builtin_ctzll(r) * n + __builtin_ctzll(c);
            if (in->scene->side[1].cell[i].first[0] != in->rank) continue;
            rshi_origin *origin = &in->scene->origin[i];
            rshi_ranks_add(&origin->from, in->source);
            if (in->source == in->rank) origin->kind = RSHI_ORIGIN_STAYS;
        }
}

static int visit_source(void *ctx, int64_t peer, int64_t bytes) {
    incoming *in = ctx;
    (void)bytes;
    in->source = peer;
    in->status = rshi_scene_cells(in->scene, in->scene->side[0].layout, peer, add_source, in);
    return in->status != RSH_OK;
}

/* Own copies win; contributions to a reduction add up; with neither, the holder that the plan sends by way of others.
 */
static void settle(rshi_origin *origin, const rshi_ranks *before, int64_t rank, bool partial) {
    if (partial && origin->from.count > 1) origin->kind = RSHI_ORIGIN_REDUCED;
    if (!partial && origin->kind == RSHI_ORIGIN_STAYS) {
        origin->from = (rshi_ranks){0};
        rshi_ranks_add(&origin->from, rank);
    }
    if (!origin->from.count) origin->from = *before;
}

static rsh_status fill_rank(rshi_scene *s, int cells, int64_t rank) {
    incoming in = {s, rank, 0, RSH_OK};
    for (int i = 0; i < cells; i++)
        if (s->side[1].cell[i].first[0] == rank) s->origin[i].kind = RSHI_ORIGIN_MOVES;
    rshi_stripe shown[RSH_MAX_NDIM];
    for (int d = 0; d < rsh_layout_ndim(s->side[1].layout); d++)
        shown[d] = rshi_stripe_range(s->borders[d].at[0], s->borders[d].at[s->borders[d].n]);
    RSH_TRY(rshi_plan_sources_in(s->plan, rank, shown, visit_source, &in));
    return in.status;
}

rsh_status rshi_scene_origins(rshi_scene *s) {
    int cells = rshi_scene_rows(s)->n * rshi_scene_columns(s)->n;
    bool partial = rshi_scene_reduces(s);
    const rshi_ranks *before = s->side[0].cell, *after = s->side[1].cell;
    s->origin = rshi_calloc((size_t)cells, sizeof *s->origin);
    if (!s->origin) return rshi_nomem();
    for (int i = 0; i < cells; i++)
        if (after[i].count && s->origin[i].kind == RSHI_ORIGIN_UNKNOWN) RSH_TRY(fill_rank(s, cells, after[i].first[0]));
    for (int i = 0; i < cells; i++)
        if (after[i].count) settle(&s->origin[i], &before[i], after[i].first[0], partial);
    return RSH_OK;
}
