/* Scene: computes everything that a picture shows, and notes about what it omits. */
#include "draw/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

/* ---- the heading ---- */

/* Writes "75 %"; "All" only if all bytes move. */
static void label_share(int64_t part, int64_t whole, char label[RSHI_DRAW_LABEL]) {
    double percent = 100 * (double)part / (double)whole;
    if (part == whole)
        snprintf(label, RSHI_DRAW_LABEL, "All");
    else if (percent < 1)
        snprintf(label, RSHI_DRAW_LABEL, "Less than 1 %%");
    else if (percent > 99)
        snprintf(label, RSHI_DRAW_LABEL, "More than 99 %%");
    else
        snprintf(label, RSHI_DRAW_LABEL, "%.0f %%", percent);
}

/* Writes "75 % of the bytes move: 129.0 MiB, the least possible." */
static void head_plan(const rshi_scene *s, char text[RSHI_HEADING]) {
    const rsh_plan_totals *t = &s->totals;
    char share[RSHI_DRAW_LABEL], moved[RSHI_DRAW_LABEL], least[RSHI_DRAW_LABEL + 32] = ", the least possible",
                                                         stages[RSHI_DRAW_LABEL] = "";
    if (!t->bytes_moved) {
        snprintf(text, RSHI_HEADING, "Nothing moves: every rank already holds what it needs.");
        return;
    }
    label_share(t->bytes_moved, t->bytes_moved + t->bytes_local, share);
    rshi_bytes_label(t->bytes_moved, moved);
    if (t->bytes_moved != t->lower_bound) {
        char bound[RSHI_DRAW_LABEL];
        rshi_bytes_label(t->lower_bound, bound);
        snprintf(least, sizeof least, " (the least possible: %s)", bound);
    }
    int n = rsh_plan_nstages(s->plan);
    if (n > 1) snprintf(stages, sizeof stages, ", in %d stages", n);
    snprintf(text, RSHI_HEADING, "%s%s the bytes move: %s%s%s.", share, strcmp(share, "All") ? " of" : "", moved, least,
             stages);
}

static void head_layout(const rsh_layout *l, char text[RSHI_HEADING]) {
    char bytes[RSHI_DRAW_LABEL];
    int64_t n = rsh_layout_nranks(l);
    rshi_bytes_label(rsh_layout_count(l) * (int64_t)rsh_dtype_size(rsh_layout_dtype(l)), bytes);
    snprintf(text, RSHI_HEADING, "A tensor of %s on %" PRId64 " rank%s.", bytes, n, n == 1 ? "" : "s");
}

void rshi_scene_heading(const rshi_scene *s, char text[RSHI_HEADING]) {
    if (s->plan)
        head_plan(s, text);
    else
        head_layout(s->side[0].layout, text);
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
    if (down >= 0) n = snprintf(text, room, "%" PRId64 " indices of dim %d down, ", shape[down], down);
    n += snprintf(text + n, room - (size_t)n, "%" PRId64 "%s of dim %d across", shape[across], n ? "" : " indices",
                  across);
    if (drawn < ndim) snprintf(text + n, room - (size_t)n, ", at index 0 of the other dims");
    return true;
}

/* Writes the note for the i-th dim with a gap. */
static bool note_gap(const rshi_scene *s, int i, char *text, size_t room) {
    for (int k = 0; k < RSHI_DIRECTIONS; k++) {
        const rshi_borders *e = &s->along[k];
        if (e->gap < 0 || i--) continue;
        char unit[RSHI_DRAW_LABEL] = "index", times[RSHI_DRAW_LABEL] = "";
        if (e->unit > 1) snprintf(unit, sizeof unit, "%" PRId64 " indices", e->unit);
        if (e->times) snprintf(times, sizeof times, ", %" PRId64 " times", e->times);
        int n = e->unit ? snprintf(text, room, "dim %d repeats every %s%s; ", e->dim, unit, times)
                        : snprintf(text, room, "dim %d: ", e->dim);
        snprintf(text + n, room - (size_t)n, "indices %" PRId64 " to %" PRId64 " are not drawn", e->at[e->gap],
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
