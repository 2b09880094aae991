/* Ticks: indices beside a panel where its own layout is cut, as round as the cuts allow, as many as have room. */
#include "draw/impl.h"

#include <inttypes.h>
#include <stdio.h>

/* Digits up to the last that is not zero: fewer are rounder. */
static int digits(int64_t x) {
    int n = 0;
    while (x && x % 10 == 0) x /= 10;
    for (; x; x /= 10) n++;
    return n;
}

/* One of 1, 2, 5, 10, 20, 50, ..: the first whose multiples are `least` apart at least. */
static int64_t round_step(double least) {
    int64_t step = 1;
    for (int i = 0; (double)step < least && step < INT64_MAX / 10; i++) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    return step;
}

/* The borders of a panel at which its own side is cut, and both ends. */
typedef struct ticking {
    int n;   /* intervals between them */
    int gap; /* the interval with the scene's gap; -1: none */
    int64_t at[RSHI_DRAW_INTERVALS + 1];
    int place[RSHI_DRAW_INTERVALS + 1];
    int room; /* that a tick takes */
    rshi_tick_fn fn;
    void *ctx;
} ticking;

/* Does one side have different holders before and behind border i of a direction?  The ends of the dim always count. */
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

static void take_own(ticking *t, const rshi_scene *s, const rshi_side *side, int direction, const int *place) {
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

/* A dim that nobody cuts has ticks at round indices, and at its end. */
static rsh_status uncut_ticks(const ticking *t) {
    int length = t->place[1];
    int64_t size = t->at[1] - t->at[0], step = round_step((double)size * 2 * t->room / (double)rshi_max(1, length));
    for (int64_t i = 0; i < size; i += step) {
        int place = (int)((double)i / (double)size * length + 0.5);
        if (length - place >= t->room) RSH_TRY(t->fn(t->ctx, place, i));
    }
    return t->fn(t->ctx, length, size);
}

/* Is there room for every k-th border?  Counted from the nearer end if there is a gap. */
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

/* 1 if all cuts have room; otherwise the least k with room, or up to twice that if it gives rounder numbers. */
static int choose_every(const ticking *t) {
    int least = 1, best;
    while (least < t->n && !has_room(t, least)) least++;
    best = least;
    for (int k = least; least > 1 && k <= 2 * least && k < t->n; k++)
        if (has_room(t, k) && digits(t->at[k]) < digits(t->at[best])) best = k;
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
    take_own(&t, c->scene, p->side, direction, down ? p->row : p->column);
    return e->n == 1 ? uncut_ticks(&t) : border_ticks(&t);
}

/* ---- on paper ---- */

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
