/* Portion: the next piece of a flow that fits into a message, packed or unpacked.
 *
 * A task is packed row by row.  It is cut along the outermost dim whose single steps fit into a message; the dims inside of that are taken whole. */
#include "shard/flow.h"

/* One piece of a task: dims 0..dim-1 at combined index `outer`, dim `dim` from i0 to i1, all of the others. */
typedef struct cut {
    const rshi_leg *leg;
    const rshi_task *task;
    int dim;
    int64_t outer, i0, i1;
    int64_t at; /* bytes from the start of the message */
} cut;

static void start_flow(const rshi_flows *f, rshi_flow *w) {
    w->leg = w->first;
    w->task = f->legs[w->first].first;
    w->outer = w->at = 0;
}

void rshi_flows_rewind(rshi_flows *f) {
    for (int64_t i = 0; i < f->n; i++) start_flow(f, &f->list[i]);
}

/* The dim to cut, and the bytes of one step along it. */
static int choose_dim(const rshi_move *m, int64_t slot, int64_t *step) {
    int d = m->nd - 1;
    while (d > 0 && *step * m->n[d] <= slot) *step *= m->n[d--];
    return d;
}

static void go_past(const rshi_flows *f, rshi_flow *w, const cut *c) {
    int64_t outer = 1;
    for (int d = 0; d < c->dim; d++) outer *= c->task->move.n[d];
    w->at = c->i1;
    if (w->at < c->task->move.n[c->dim]) return;
    w->at = 0;
    if (++w->outer < outer) return;
    w->outer = 0;
    if (++w->task < c->leg->last) return;
    if (++w->leg < w->last) w->task = f->legs[w->leg].first;
}

/* The next piece that still fits into a message of which `used` bytes are full; false: none does, or the flow has ended. */
static bool next_cut(const rshi_flows *f, const rshi_program *g, rshi_flow *w, int64_t *used, cut *c) {
    if (rshi_flow_done(w)) return false;
    c->leg = &f->legs[w->leg];
    c->task = &g->tasks[w->task];
    int64_t step = (int64_t)rsh_dtype_size(c->leg->wire);
    c->at = rshi_ceil_div(*used, step) * step;
    c->dim = choose_dim(&c->task->move, w->slot, &step);
    int64_t n = rshi_min((w->slot - c->at) / step, c->task->move.n[c->dim] - w->at);
    if (n <= 0) return false;
    c->outer = w->outer;
    c->i0 = w->at;
    c->i1 = w->at + n;
    *used = c->at + n * step;
    go_past(f, w, c);
    return true;
}

/* ---- moving ---- */

/* Strides of the piece's dims, and the bytes from the task's first element to the piece's. */
static int64_t lay_strides(const cut *c, const int64_t *strides, int64_t *out) {
    const rshi_move *m = &c->task->move;
    int64_t offset = c->i0 * strides[c->dim], outer = c->outer;
    for (int d = c->dim - 1; d >= 0; d--) {
        offset += outer % m->n[d] * strides[d];
        outer /= m->n[d];
    }
    for (int d = c->dim; d < m->nd; d++) out[d - c->dim] = strides[d];
    return offset;
}

static void lay_packed(const rshi_move *m, int64_t size, int64_t *out) {
    for (int d = m->nd - 1; d >= 0; d--) {
        out[d] = size;
        size *= m->n[d];
    }
}

static rshi_move move_of(const cut *c) {
    const rshi_move *whole = &c->task->move;
    rshi_move m = {.nd = whole->nd - c->dim, .divisor = 1};
    m.n[0] = c->i1 - c->i0;
    for (int d = 1; d < m.nd; d++) m.n[d] = whole->n[c->dim + d];
    return m;
}

static void pack(const rshi_flows *f, const cut *c, char *const *base, char *chunk) {
    const rshi_program *g = &f->out;
    int64_t number = c->task->first_source + c->leg->own, strides[RSHI_MOVE_DIMS];
    const rshi_source *s = &g->sources[number];
    rshi_move m = move_of(c);
    m.nsrc = 1;
    m.ss = strides;
    m.from = c->task->move.from;
    m.to = c->leg->wire;
    lay_packed(&m, (int64_t)rsh_dtype_size(m.to), m.ds);
    const char *src = base[s->part] + s->offset + lay_strides(c, g->strides + number * RSHI_MOVE_DIMS, strides);
    rshi_move_prepare(&m, 0);
    rshi_move_run(&m, 0, 0, m.n[0], chunk + c->at, &src);
}

int64_t rshi_flow_pack(rshi_flows *f, rshi_flow *w, char *const *base, char *chunk) {
    int64_t used = 0;
    cut c;
    while (next_cut(f, &f->out, w, &used, &c)) pack(f, &c, base, chunk);
    return used;
}

/* One source of a piece that arrives: a slot of the chunk, or this rank's own memory. */
static const char *lay_source(const rshi_flows *f, const cut *c, const rshi_move *m, int i, char *const *base, const char *chunk,
                              int64_t slot) {
    int64_t number = c->task->first_source + i, *strides = f->strides + (int64_t)i * RSHI_MOVE_DIMS;
    const rshi_source *s = &f->in.sources[number];
    if (s->part >= 0) return base[s->part] + s->offset + lay_strides(c, f->in.strides + number * RSHI_MOVE_DIMS, strides);
    lay_packed(m, (int64_t)rsh_dtype_size(m->from), strides);
    return chunk + (-1 - s->part) * slot + c->at;
}

static void unpack(const rshi_flows *f, const cut *c, char *const *base, const char *chunk, int64_t slot) {
    const rshi_task *t = c->task;
    rshi_move m = move_of(c);
    m.nsrc = t->move.nsrc;
    m.ss = f->strides;
    m.from = c->leg->wire;
    m.to = t->move.to;
    m.op = t->move.op;
    m.divisor = t->move.divisor;
    char *dst = base[t->part] + t->offset + lay_strides(c, t->move.ds, m.ds);
    for (int i = 0; i < m.nsrc; i++) f->pointers[i] = lay_source(f, c, &m, i, base, chunk, slot);
    rshi_move_prepare(&m, f->in.footprint);
    rshi_move_run(&m, 0, 0, m.n[0], dst, f->pointers);
}

void rshi_flow_unpack(rshi_flows *f, rshi_flow *w, char *const *base, const char *chunk) {
    int64_t used = 0;
    cut c;
    while (next_cut(f, &f->in, w, &used, &c)) unpack(f, &c, base, chunk, w->slot);
}
