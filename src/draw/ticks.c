/* Ticks: writes indices next to a panel where its own layout is cut, as many as fit, preferring round numbers. */
#include "draw/impl.h"

#include <inttypes.h>
#include <stdio.h>

/* Returns the number of digits without trailing zeros; a rounder number has fewer. */
static int significant_digits(int64_t x) {
    int n = 0;
    while (x && x % 10 == 0) x /= 10;
    for (; x; x /= 10) n++;
    return n;
}

/* Returns the first of 1, 2, 5, 10, 20, 50, ... that is at least `least`. */
static int64_t round_step(double least) {
    int64_t step = 1;
    for (int i = 0; (double)step < least && step < INT64_MAX / 10; i++) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    return step;
}

/* The borders of a panel at which its own side is cut, and both ends. */
typedef struct ticking {
    int n;   /* number of intervals */
    int gap; /* the interval with the scene's gap; -1: none */
    int64_t at[RSHI_DRAW_INTERVALS + 1]; /* indices of the borders */
    int place[RSHI_DRAW_INTERVALS + 1];  /* positions of the borders */
    int room;                            /* space of a tick */
    rshi_tick_fn fn;
    void *ctx;
} ticking;

/* Does one side have different holders before and after border i of a direction?  True at the ends of the dim. */
static bool is_cut(const rshi_scene *s, const rshi_side *side, int direction, int i) {
    const rshi_borders *e = &s->along[direction], *other = &s->along[1 - direction];
    if (i == 0 || i == e->n) return true;
    for (int slice = 0; slice < s->along[RSHI_SLICES].n; slice++)
        for (int k = 0; k < other->n; k++) {
            int rows[2] = {i - 1, i}, across[2] = {k, k};
            const int *row = direction == RSHI_ROWS ? rows : across, *column = direction == RSHI_ROWS ? across : rows;
            if (side->cell[rshi_scene_cell(s, slice, row[0], column[0])] !=
                side->cell[rshi_scene_cell(s, slice, row[1], column[1])])
                return true;
        }
    return false;
}

/* Copies to t the borders at which this side is cut. */
static void keep_own_borders(ticking *t, const rshi_scene *s, const rshi_side *side, int direction, const int *place) {
    const rshi_borders *e = &s->along[direction];
    t->gap = -1;
    t->n = -1;
    for (int i = 0; i <= e->n; i++) {
        if (is_cut(s, side, direction, i)) {
            t->at[++t->n] = e->at[i];
            t->place[t->n] = place[i];
        }
        if (i == e->gap) t->gap = t->n;
    }
}

/* Writes ticks at round indices and at the end, for a dim that neither layout cuts. */
static rsh_status uncut_ticks(const ticking *t) {
    int length = t->place[1];
    int64_t size = t->at[1] - t->at[0], step = round_step((double)size * 2 * t->room / (double)rshi_max(1, length));
    for (int64_t i = 0; i < size; i += step) {
        int place = (int)((double)i / (double)size * length + 0.5);
        if (length - place >= t->room) RSH_TRY(t->fn(t->ctx, place, i));
    }
    return t->fn(t->ctx, length, size);
}

/* Is border i one of every k borders?  After a gap, borders are counted from the end. */
static bool is_kth(const ticking *t, int i, int k) { return (t->gap >= 0 && i > t->gap ? t->n - i : i) % k == 0; }

static bool has_room(const ticking *t, int k) {
    int last = -t->room;
    for (int i = 0; i < t->n; i++) {
        if (!is_kth(t, i, k)) continue;
        if (t->place[i] - last < t->room && i != t->gap + 1) return false;
        last = t->place[i];
    }
    return true;
}

/* Returns 1 if there is room for all cuts.  Otherwise returns the smallest k for which every k-th index fits, or up to
 * twice that if the numbers are then rounder. */
static int choose_every(const ticking *t) {
    int least = 1, best;
    while (least < t->n && !has_room(t, least)) least++;
    best = least;
    for (int k = least; least > 1 && k <= 2 * least && k < t->n; k++)
        if (has_room(t, k) && significant_digits(t->at[k]) < significant_digits(t->at[best])) best = k;
    return best;
}

static rsh_status border_ticks(const ticking *t) {
    int every = choose_every(t), last = -t->room;
    for (int i = 0; i <= t->n; i++) {
        bool tight = t->place[i] - last < t->room || (i < t->n && t->place[t->n] - t->place[i] < t->room);
        if ((i < t->n && !is_kth(t, i, every)) || tight) continue;
        RSH_TRY(t->fn(t->ctx, t->place[i], t->at[i]));
        last = t->place[i];
    }
    return RSH_OK;
}

rsh_status rshi_ticks_each(const rshi_canvas *c, const rshi_panel *p, int direction, rshi_tick_fn fn, void *ctx) {
    const rshi_borders *e = &c->scene->along[direction];
    bool down = direction == RSHI_ROWS;
    ticking t = {.room = down ? c->format->tick_height : c->format->tick_width, .fn = fn, .ctx = ctx};
    if (e->dim < 0 || !t.room) return RSH_OK;
    keep_own_borders(&t, c->scene, p->side, direction, down ? p->row : p->column);
    return e->n == 1 ? uncut_ticks(&t) : border_ticks(&t);
}

/* ---- drawing ---- */

typedef struct labelling {
    rshi_canvas *canvas;
    const rshi_panel *panel;
    bool down;
} labelling;

static rsh_status put_tick(void *ctx, int place, int64_t index) {
    const labelling *l = ctx;
    const rshi_format *f = l->canvas->format;
    char label[32];
    snprintf(label, sizeof label, "%" PRId64, index);
    if (l->down)
        return rshi_canvas_say(l->canvas, "tick", l->panel->x - f->letter / 2, l->panel->y + place, 'e', label);
    return rshi_canvas_say(l->canvas, "tick", l->panel->x + place, l->panel->y - f->tick_height / 2, 'm', label);
}

rsh_status rshi_panel_ticks(rshi_canvas *c, const rshi_panel *p) {
    labelling down = {c, p, true}, across = {c, p, false};
    RSH_TRY(rshi_ticks_each(c, p, RSHI_ROWS, put_tick, &down));
    return rshi_ticks_each(c, p, RSHI_COLUMNS, put_tick, &across);
}
