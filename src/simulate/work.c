/* Work: estimates the memory cost of one transfer.
 *
 * The loops of a transfer, sorted by their stride in the destination, show how many bytes are contiguous on both sides:
 * a run.  If the fastest loop of the destination is not that of the source, the copy is a transpose. */
#include "simulate/impl.h"

#include <stdlib.h>

/* One loop: the number of iterations, and its strides in elements on both sides. */
typedef struct loop {
    int64_t n, dst, src;
} loop;

typedef struct loops {
    loop loop[RSH_MAX_LOOPS];
    int n;
} loops;

void rshi_work_add(rshi_work *w, const rshi_work *more, double weight) {
    w->copied += weight * more->copied;
    w->transposed += weight * more->transposed;
    w->combined += weight * more->combined;
    w->runs += weight * more->runs;
    w->written += weight * more->written;
}

double rshi_work_seconds(const rshi_work *w, const rsh_machine *m) {
    return (w->copied + w->runs * m->run_bytes) / m->memory + w->transposed / m->transposed +
           w->combined / m->combined;
}

/* ---- loops ---- */

/* Computes the strides of the loops at one end, in a contiguous part. */
static rsh_status end_strides(const rsh_plan *p, const rsh_transfer *t, const rsh_transfer_end *end, int64_t *rounds) {
    const rsh_layout *l = end->in_dst ? rshi_plan_dst(p, t->tensor) : rshi_plan_src(p, t->tensor);
    int64_t offset, dense = 1;
    rsh_part part;
    if (end->in_scratch) return rsh_transfer_offsets(t, end, &dense, &offset, rounds);
    RSH_TRY(rsh_layout_part(l, end->rank, end->part, &part));
    return rsh_transfer_offsets(t, end, part.strides, &offset, rounds);
}

/* Computes the strides of the loops in a message, which is row-major. */
static void packed_strides(const rsh_transfer *t, int64_t *rounds) {
    int64_t step = 1;
    for (int i = t->nloops - 1; i >= 0; i--) {
        rounds[i] = step;
        step *= t->n[i];
    }
}

static int by_destination(const void *a, const void *b) {
    int64_t x = llabs(((const loop *)a)->dst), y = llabs(((const loop *)b)->dst);
    return (x > y) - (x < y);
}

static loops sorted_loops(const rsh_transfer *t, const int64_t *dst, const int64_t *src) {
    loops l = {.n = 0};
    for (int i = 0; i < t->nloops; i++)
        if (t->n[i] > 1) l.loop[l.n++] = (loop){t->n[i], dst[i], src[i]};
    qsort(l.loop, (size_t)l.n, sizeof *l.loop, by_destination);
    return l;
}

/* Returns the number of elements of a run. */
static int64_t run_of(const loops *l) {
    int64_t run = 1;
    for (int i = 0; i < l->n && l->loop[i].dst == run && l->loop[i].src == run; i++) run *= l->loop[i].n;
    return run;
}

static bool is_transposed(const loops *l) {
    int fastest = 0;
    for (int i = 1; i < l->n; i++)
        if (llabs(l->loop[i].src) < llabs(l->loop[fastest].src)) fastest = i;
    return l->n > 1 && fastest > 0 && run_of(l) == 1;
}

/* ---- work ---- */

/* Computes the work of copying or combining nsrc sources, with elements of `from` bytes, to elements of `to` bytes. */
static rshi_work work_of(const loops *l, int64_t count, int64_t nsrc, int64_t from, int64_t to, bool combined) {
    rshi_work w = {.written = (double)count * (double)to};
    double half = ((double)nsrc * (double)from + (double)to) * (double)count / 2;
    if (combined)
        w.combined = half;
    else if (is_transposed(l))
        w.transposed = half;
    else
        w.copied = half;
    if (!w.transposed) w.runs = (double)count / (double)run_of(l) * (double)rshi_max(nsrc, 1);
    return w;
}

rsh_status rshi_work_of_move(const rsh_plan *p, const rsh_transfer *t, rshi_work *out) {
    int64_t dst[RSH_MAX_LOOPS], src[RSH_MAX_LOOPS];
    RSH_TRY(end_strides(p, t, &t->dst, dst));
    RSH_TRY(end_strides(p, t, t->nsrc ? &t->src[0] : &t->dst, src));
    loops l = sorted_loops(t, dst, src);
    *out = work_of(&l, t->count, t->nsrc, (int64_t)rsh_dtype_size(t->from), (int64_t)rsh_dtype_size(t->to),
                   t->nsrc > 1);
    return RSH_OK;
}

rsh_status rshi_work_of_packing(const rsh_plan *p, const rsh_transfer *t, int64_t i, rshi_work *out) {
    int64_t dst[RSH_MAX_LOOPS], src[RSH_MAX_LOOPS];
    packed_strides(t, dst);
    RSH_TRY(end_strides(p, t, &t->src[i], src));
    loops l = sorted_loops(t, dst, src);
    *out = work_of(&l, t->count, 1, (int64_t)rsh_dtype_size(t->from), t->element_bytes, false);
    return RSH_OK;
}

rsh_status rshi_work_of_unpacking(const rsh_plan *p, const rsh_transfer *t, rshi_work *out) {
    int64_t dst[RSH_MAX_LOOPS], src[RSH_MAX_LOOPS];
    RSH_TRY(end_strides(p, t, &t->dst, dst));
    packed_strides(t, src);
    loops l = sorted_loops(t, dst, src);
    *out = work_of(&l, t->count, t->nsrc, t->element_bytes, (int64_t)rsh_dtype_size(t->to), t->nsrc > 1);
    return RSH_OK;
}
