/* Scene: computes everything that a picture shows, and notes about what it omits. */
#include "draw/impl.h"

#include <inttypes.h>
#include <stdio.h>

rsh_status rshi_scene_make(rshi_scene *s, const rsh_plan *plan, int64_t tensor, const rsh_layout *from,
                           const rsh_layout *to, const rshi_detail *detail) {
    *s = (rshi_scene){
        .plan = plan, .tensor = tensor, .nsides = to ? 2 : 1, .side = {{.layout = from}, {.layout = to}}, .stages = 1,
        .totals = RSH_PLAN_TOTALS_INIT};
    RSH_TRY(rshi_scene_borders(s, detail));
    for (int i = 0; i < s->nsides; i++) RSH_TRY(rshi_side_fill(s, &s->side[i]));
    RSH_TRY(rshi_scene_palette(s));
    if (!plan) return RSH_OK;
    RSH_TRY(rsh_plan_get_totals(plan, &s->totals));
    RSH_TRY(rshi_scene_origins(s));
    return detail->slices > 1 ? rshi_scene_stages(s) : RSH_OK; /* only pages animate stages */
}

void rshi_scene_free(rshi_scene *s) {
    for (int i = 0; i < s->nsides; i++) rshi_side_free(&s->side[i]);
    rshi_free(s->origin);
    rshi_free(s->palette.hue.value);
    rshi_free(s->palette.shade.value);
}

/* ---- notes ---- */

static bool note_empty(const rshi_scene *s, int i, char *text, size_t room) {
    if (i || rsh_layout_count(s->side[0].layout)) return false;
    snprintf(text, room, "the tensor has no elements");
    return true;
}

static bool note_dims(const rshi_scene *s, int i, char *text, size_t room) {
    int down = s->along[RSHI_ROWS].dim, across = s->along[RSHI_COLUMNS].dim, n = 0;
    int ndim = rsh_layout_ndim(s->side[0].layout), drawn = (down >= 0) + (across >= 0) + (s->along[RSHI_SLICES].n > 1);
    const int64_t *shape = rsh_layout_shape(s->side[0].layout);
    if (i || across < 0 || !rsh_layout_count(s->side[0].layout)) return false;
    if (down >= 0) n = snprintf(text, room, "dim %d (%" PRId64 ") down, ", down, shape[down]);
    n += snprintf(text + n, room - (size_t)n, "dim %d (%" PRId64 ") across", across, shape[across]);
    if (drawn < ndim) snprintf(text + n, room - (size_t)n, ", at index 0 of the other dims");
    return true;
}

/* The note for the i-th dim with a gap. */
static bool note_gap(const rshi_scene *s, int i, char *text, size_t room) {
    for (int k = 0; k < RSHI_DIRECTIONS; k++) {
        const rshi_borders *e = &s->along[k];
        if (e->gap < 0 || i--) continue;
        if (e->times)
            snprintf(text, room,
                     "dim %d is %" PRId64 " x %" PRId64 "; indices %" PRId64 " to %" PRId64 " are not drawn", e->dim,
                     e->times, e->unit, e->at[e->gap], e->at[e->gap + 1] - 1);
        else
            snprintf(text, room, "dim %d: indices %" PRId64 " to %" PRId64 " are not drawn", e->dim, e->at[e->gap],
                     e->at[e->gap + 1] - 1);
        return true;
    }
    return false;
}

static bool note_ranks(const rshi_scene *s, int i, char *text, size_t room) {
    const rshi_side *a = &s->side[0], *b = &s->side[s->nsides - 1];
    int64_t na = rsh_layout_nranks(a->layout), nb = rsh_layout_nranks(b->layout);
    if (i || (a->nshown == na && b->nshown == nb) || !rsh_layout_count(a->layout)) return false;
    if (s->nsides == 1 || (a->nshown == b->nshown && na == nb))
        snprintf(text, room, "showing %" PRId64 " of %" PRId64 " ranks", a->nshown, na);
    else
        snprintf(text, room, "showing %" PRId64 " of %" PRId64 " ranks before, %" PRId64 " of %" PRId64 " after",
                 a->nshown, na, b->nshown, nb);
    return true;
}

bool rshi_scene_note(const rshi_scene *s, int i, char *text, size_t room) {
    static bool (*const notes[])(const rshi_scene *, int, char *, size_t) = {note_empty, note_dims, note_gap,
                                                                             note_ranks};
    for (size_t k = 0; k < sizeof notes / sizeof *notes; k++)
        for (int n = 0; notes[k](s, n, text, room); n++)
            if (i-- == 0) return true;
    return false;
}
