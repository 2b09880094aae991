/* Series: pieces that overlap a region and differ along one dim. */
#include "layout/impl.h"

int64_t rshi_cut_position(const rsh_layout *l, const rshi_resolved_cut *c, int64_t k) {
    int64_t position = 0;
    if (c->naxes == 1) return k * l->axis_step[c->axes[0]];
    for (int i = c->naxes - 1; i >= 0; i--) {
        int64_t size = l->desc.axis[c->axes[i]].size;
        position += k % size * l->axis_step[c->axes[i]];
        k /= size;
    }
    return position;
}

int64_t rshi_cut_step(const rsh_layout *l, const rshi_resolved_cut *c) {
    int last = c->naxes - 1;
    for (int i = 0; i < last; i++)
        if (l->axis_step[c->axes[i]] != l->axis_step[c->axes[i + 1]] * l->desc.axis[c->axes[i + 1]].size) return 0;
    return c->naxes ? l->axis_step[c->axes[last]] : 0;
}

static const rshi_resolved_segment *segment_of(const rshi_series *s) {
    return &s->l->dim[s->dim].segment[s->piece->seg[s->dim]];
}

int64_t rshi_series_look_up(const rshi_series *s, int64_t i) {
    return s->base + rshi_cut_position(s->l, &segment_of(s)->cut, s->coordinate[i]);
}

/* Returns the local index at which coordinate k of the segment starts, after the indices of the preceding segments. */
static int64_t local_start_of(const rshi_series *s, int64_t k) {
    const rshi_resolved_segment *segment = s->l->dim[s->dim].segment, *own = segment_of(s);
    int64_t at = 0;
    for (const rshi_resolved_segment *g = segment; g < own; g++) {
        bool same = rshi_cut_same_axes(&g->cut, &own->cut);
        int64_t other = same ? k : rshi_cut_coordinate(s->l, &g->cut, s->piece->position);
        rshi_stripe set = rshi_cut_walk_at(&s->walk[g - segment], other);
        at += rshi_stripe_size(&set);
    }
    return at;
}

const rshi_piece *rshi_series_choose(rshi_series *s, int64_t i) {
    rshi_piece *p = s->piece;
    if (!s->coordinate && p->position == s->base) return p;
    if (!s->coordinate) { /* the piece was moved to another holder, which never happens with pieces of boxes */
        p->position = s->base;
        p->rank = rshi_series_rank(s, s->base);
        return p;
    }
    int64_t k = s->coordinate[i];
    p->position = rshi_series_position(s, i);
    p->rank = rshi_series_rank(s, p->position);
    p->set[s->dim] = rshi_cut_walk_at(&s->walk[p->seg[s->dim]], k);
    p->at[s->dim] = p->seg[s->dim] ? local_start_of(s, k) : 0;
    return p;
}
