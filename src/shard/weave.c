/* Weave: finds tasks that together fill a range of the destination, by their offsets in it.
 *
 * Tasks with the same steps in the same part are sorted by offset.  The tasks of one weave then follow each other
 * without a gap, up to the second row of the first task. */
#include "shard/weave.h"

#include <stdlib.h>

static int by_steps(const void *a, const void *b, void *ctx) {
    const rshi_task *tasks = ctx, *s = &tasks[*(const int64_t *)a], *t = &tasks[*(const int64_t *)b];
    if (s->stage != t->stage) return s->stage - t->stage;
    if (s->part != t->part) return s->part < t->part ? -1 : 1;
    int order = rshi_move_compare_steps(&s->move, &t->move);
    if (order) return order;
    return (s->offset > t->offset) - (s->offset < t->offset);
}

static bool same_steps(const rshi_task *s, const rshi_task *t) {
    return s->stage == t->stage && s->part == t->part && !rshi_move_compare_steps(&s->move, &t->move);
}

static int64_t row_bytes(const rshi_task *t) { return t->move.n[t->move.nd - 1] * t->move.unit; }

/* Returns the number of tasks list[0], list[1], ... that follow each other; 0: they do not fill a round. */
static int length_of(const rshi_task *tasks, const int64_t *list, int64_t n) {
    const rshi_task *first = &tasks[list[0]];
    int64_t end = first->offset + row_bytes(first), round = first->move.ds[first->move.nd - 2];
    int k = 1;
    for (; k < n && k < RSHI_WEAVE_MOST && end < first->offset + round; k++) {
        const rshi_task *t = &tasks[list[k]];
        if (!same_steps(first, t) || t->offset != end) return 0;
        end += row_bytes(t);
    }
    return end == first->offset + round ? k : 0;
}

/* Removes the first `count` rows of every plane from a task. */
static void remove_rows(rshi_program *g, rshi_task *t, int64_t count) {
    rshi_move *m = &t->move;
    int d = m->nd - 2;
    t->offset += count * m->ds[d];
    g->sources[t->first_source].offset += count * m->ss[d];
    m->n[d] -= count;
    if (!m->n[d]) m->kernel = RSHI_KERNEL_NONE;
}

/* Makes room for sources, strides and rows of a new task. */
static rsh_status grow_for_weave(rshi_program *g, int n) {
    RSH_TRY(RSHI_GROW(g->tasks, g->ntasks + 1, &g->tasks_room));
    RSH_TRY(RSHI_GROW(g->sources, g->nsources + n, &g->sources_room));
    return RSHI_GROW(g->woven, g->nwoven + 1, &g->woven_room);
}

static rsh_status weave_tasks(rshi_program *g, const int64_t *list, int n) {
    const rshi_move *moves[RSHI_WEAVE_MOST];
    int64_t count;
    RSH_TRY(grow_for_weave(g, n));
    rshi_woven *w = g->woven[g->nwoven] = rshi_alloc(1, sizeof *w);
    if (!w) return rshi_nomem();
    g->nwoven++;
    rshi_task t = g->tasks[list[0]];
    for (int k = 0; k < n; k++) moves[k] = &g->tasks[list[k]].move;
    if (!rshi_move_weave(moves, n, &t.move, w->runs, w->strides, &count)) return RSH_OK;
    t.first_source = g->nsources;
    for (int k = 0; k < n; k++) {
        g->sources[g->nsources++] = g->sources[g->tasks[list[k]].first_source];
        remove_rows(g, &g->tasks[list[k]], count + (k < t.move.tail));
    }
    g->tasks[g->ntasks++] = t;
    g->most_sources = rshi_max(g->most_sources, n);
    return RSH_OK;
}

static rsh_status weave_list(rshi_program *g, int64_t *list, int64_t n) {
    qsort_r(list, (size_t)n, sizeof *list, by_steps, g->tasks);
    for (int64_t i = 0; i < n;) {
        int length = length_of(g->tasks, list + i, n - i);
        if (length > 1) RSH_TRY(weave_tasks(g, list + i, length));
        i += length > 1 ? length : 1;
    }
    return RSH_OK;
}

rsh_status rshi_program_weave(rshi_program *g) {
    int64_t n = 0, *list = rshi_alloc((size_t)g->ntasks, sizeof *list);
    if (!list) return rshi_nomem();
    for (int64_t i = 0; i < g->ntasks; i++)
        if (rshi_move_weavable(&g->tasks[i].move)) list[n++] = i;
    rsh_status st = n > 1 ? weave_list(g, list, n) : RSH_OK;
    rshi_free(list);
    return st;
}
