/* Ticks: writes indices next to a panel, as many as fit, preferring round numbers. */
#include "draw/impl.h"

#include <inttypes.h>
#include <stdio.h>

/* The number of digits without trailing zeros; a rounder number has fewer. */
static int significant_digits(int64_t x) {
    int n = 0;
    while (x && x % 10 == 0) x /= 10;
    for (; x; x /= 10) n++;
    return n;
}

/* The first of 1, 2, 5, 10, 20, 50, .. that is at least `least`. */
static int64_t round_step(double least) {
    int64_t step = 1;
    for (int i = 0; (double)step < least && step < INT64_MAX / 10; i++) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    return step;
}

typedef struct ticking {
    const rshi_borders *borders;
    const int *place; /* positions of the borders */
    int room;         /* space of a tick */
    rshi_tick_fn fn;
    void *ctx;
} ticking;

/* Writes ticks at round indices and at the end, for a dim that is not cut. */
static rsh_status uncut_ticks(const ticking *t) {
    int length = t->place[1];
    int64_t size = rshi_borders_span(t->borders),
            step = round_step((double)size * 2 * t->room / (double)rshi_max(1, length));
    for (int64_t i = 0; i < size; i += step) {
        int place = (int)((double)i / (double)size * length + 0.5);
        if (length - place >= t->room) RSH_TRY(t->fn(t->ctx, place, i));
    }
    return t->fn(t->ctx, length, size);
}

/* Is border i one of every k?  After a gap, borders are counted from the end. */
static bool is_kth(const rshi_borders *e, int i, int k) { return (e->gap >= 0 && i > e->gap ? e->n - i : i) % k == 0; }

static bool has_room(const rshi_borders *e, const int *place, int k, int room) {
    int last = -room;
    for (int i = 0; i < e->n; i++) {
        if (!is_kth(e, i, k)) continue;
        if (place[i] - last < room && i != e->gap + 1) return false;
        last = place[i];
    }
    return true;
}

/* The smallest k for which every k-th index fits, or up to twice that if the numbers are rounder. */
static int choose_every(const rshi_borders *e, const int *place, int room) {
    int least = 1, best;
    while (least < e->n && !has_room(e, place, least, room)) least++;
    best = least;
    for (int k = least; k <= 2 * least && k < e->n; k++)
        if (has_room(e, place, k, room) && significant_digits(e->at[k]) < significant_digits(e->at[best])) best = k;
    return best;
}

static rsh_status border_ticks(const ticking *t) {
    const rshi_borders *e = t->borders;
    int every = choose_every(e, t->place, t->room), last = -t->room;
    for (int i = 0; i <= e->n; i++) {
        bool tight = t->place[i] - last < t->room || (i < e->n && t->place[e->n] - t->place[i] < t->room);
        if ((i < e->n && !is_kth(e, i, every)) || tight) continue;
        RSH_TRY(t->fn(t->ctx, t->place[i], e->at[i]));
        last = t->place[i];
    }
    return RSH_OK;
}

rsh_status rshi_ticks_each(const rshi_format *f, const rshi_borders *e, const int *place, bool down, rshi_tick_fn fn,
                           void *ctx) {
    ticking t = {e, place, down ? f->tick_height : f->tick_width, fn, ctx};
    if (e->dim < 0 || !t.room) return RSH_OK;
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
    RSH_TRY(rshi_ticks_each(c->format, &c->scene->along[RSHI_ROWS], p->row, true, put_tick, &down));
    return rshi_ticks_each(c->format, &c->scene->along[RSHI_COLUMNS], p->column, false, put_tick, &across);
}
