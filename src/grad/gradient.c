/* Gradient: adds, copies and reshards gradients. */
#include "grad/impl.h"

#include "math/math.h"

/* The dims of two tensors, merged if both can be traversed as one. */
typedef struct walk {
    int ndim;
    int64_t n[RSH_MAX_NDIM], to[RSH_MAX_NDIM], from[RSH_MAX_NDIM]; /* sizes and strides, outermost first */
} walk;

static void merge_dim(walk *w, int64_t n, int64_t to, int64_t from) {
    int last = w->ndim - 1;
    if (n == 1) return;
    if (last >= 0 && w->to[last] == n * to && w->from[last] == n * from) {
        w->n[last] *= n;
        w->to[last] = to;
        w->from[last] = from;
        return;
    }
    w->n[w->ndim] = n;
    w->to[w->ndim] = to;
    w->from[w->ndim++] = from;
}

#define ADD_ROW(type)                                                                                                  \
    static void add_##type(void *into, const void *from, int64_t n, int64_t to_step, int64_t from_step) {              \
        type *a = into;                                                                                                \
        const type *b = from;                                                                                          \
        if (to_step == 1 && from_step == 1)                                                                            \
            for (int64_t i = 0; i < n; i++) a[i] += b[i];                                                              \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) a[i * to_step] += b[i * from_step];                                        \
    }
ADD_ROW(float)
ADD_ROW(double)

#define SCALE_ALL(type)                                                                                                \
    static void scale_##type(void *at, int64_t n, double by) {                                                         \
        type *a = at;                                                                                                  \
        for (int64_t i = 0; i < n; i++) a[i] = (type)(a[i] * by);                                                      \
    }
SCALE_ALL(float)
SCALE_ALL(double)

void rshi_scale_elements(const rsh_tensor *t, double by) {
    (rsh_tensor_dtype(t) == RSH_F64 ? scale_double : scale_float)(rsh_tensor_data(t), rsh_tensor_count(t), by);
}

#define SHARE ((int64_t)32768) /* elements per task */

/* An addition of dense tensors, whose elements the threads of the pool share. */
typedef struct adding {
    char *into;
    const char *from;
    int64_t n;
    bool wide;
} adding;

static void add_share(void *ctx, int64_t i, int worker) {
    const adding *a = ctx;
    int64_t first = i * SHARE, bytes = a->wide ? 8 : 4;
    (void)worker;
    (a->wide ? add_double : add_float)(a->into + first * bytes, a->from + first * bytes,
                                       rshi_min(SHARE, a->n - first), 1, 1);
}

static void add_dense(bool wide, char *into, const char *from, int64_t n) {
    rshi_tape *tape = rshi_tape_mine();
    adding a = {into, from, n, wide};
    rsh_pool_run(n > SHARE && tape ? tape->pool : NULL, rshi_ceil_div(n, SHARE), add_share, &a);
}

static void add_walk(const walk *w, int d, bool wide, char *into, const char *from) {
    int64_t bytes = wide ? 8 : 4;
    int64_t n = w->n[d], to = w->to[d], step = w->from[d];
    if (d == w->ndim - 1) {
        (wide ? add_double : add_float)(into, from, n, to, step);
        return;
    }
    for (int64_t i = 0; i < n; i++) add_walk(w, d + 1, wide, into + i * to * bytes, from + i * step * bytes);
}

static void add_elements(const rsh_tensor *into, const rsh_tensor *from) {
    walk w = {0};
    if (!rsh_tensor_count(into)) return;
    for (int d = 0; d < rsh_tensor_ndim(into); d++)
        merge_dim(&w, rsh_tensor_shape(into)[d], rsh_tensor_strides(into)[d], rsh_tensor_strides(from)[d]);
    bool wide = rsh_tensor_dtype(into) == RSH_F64, dense = !w.ndim || (w.ndim == 1 && w.to[0] == 1 && w.from[0] == 1);
    if (dense) add_dense(wide, rsh_tensor_data(into), rsh_tensor_data(from), rsh_tensor_count(into));
    else add_walk(&w, 0, wide, rsh_tensor_data(into), rsh_tensor_data(from));
    rsh_tensor_bump_version(into);
}

/* ---- values ---- */

/* Returns whether nothing else uses the elements, so that they may change in place. */
static bool is_own(const rsh_value *g) {
    if (g->refs > 1 || !rshi_payload_alone(g->payload)) return false;
    for (int64_t i = 0; i < rsh_value_nparts(g); i++)
        if (!rsh_tensor_dense(rsh_value_part(g, i))) return false;
    return true;
}

/* ---- layouts ---- */

rsh_status rshi_gradient_layout(const rsh_value *v, rsh_layout **out) {
    const rsh_layout *l = rsh_value_layout(v);
    *out = NULL;
    return l ? rshi_tape_unpartial(l, out) : RSH_OK;
}

rsh_status rshi_gradient_check(const rsh_value *v, const rsh_value *g, const char *who, const char *what) {
    rshi_profile form;
    const rsh_layout *l = rsh_value_layout(v);
    rshi_profile_of(v->payload, &form);
    if (l && rsh_layout_op(l) && rsh_value_layout(g) && !rsh_layout_equal(l, rsh_value_layout(g))) {
        rshi_profile_end(&form);
        RSH_TRY(rshi_gradient_layout(v, &form.layout));
    }
    rsh_status st = rshi_profile_match(&form, g, who, what);
    rshi_profile_end(&form);
    return st;
}

/* Creates a value with the same parts under another layout. */
static rsh_status with_layout(const rsh_sharded *s, const rsh_layout *layout, rsh_value **out) {
    rsh_sharded *same;
    RSH_TRY(rsh_sharded_from_tensors(s->comm, layout, s->nparts, (const rsh_tensor *const *)s->part, &same));
    rsh_status st = rsh_value_adopt_sharded(same, false, out);
    if (st) rsh_sharded_free(same);
    return st;
}

rsh_status rshi_gradient_seed(const rsh_value *v, const rsh_value *seed, rsh_value **out) {
    const rsh_layout *l = rsh_value_layout(seed);
    rsh_layout *wanted = NULL;
    if (!l || !rsh_layout_op(l)) return rsh_value_detach(seed, out);
    RSH_TRY(rshi_gradient_layout(v, &wanted));
    rsh_status st = with_layout(rsh_value_sharded(seed), wanted, out);
    rsh_layout_free(wanted);
    return st;
}

/* ---- new memory ---- */

static rsh_status new_tensor(const rsh_value *v, rsh_value **out) {
    rsh_tensor *t;
    RSH_TRY(rsh_tensor_empty(rsh_value_dtype(v), rsh_value_ndim(v), rsh_value_shape(v), &t));
    rsh_status st = rsh_value_adopt_tensor(t, false, out);
    if (st) rsh_tensor_free(t);
    return st;
}

static rsh_status new_sharded(rsh_comm *comm, const rsh_layout *layout, rsh_value **out) {
    rsh_sharded *s;
    RSH_TRY(rsh_sharded_empty(comm, layout, &s));
    rsh_status st = rsh_value_adopt_sharded(s, false, out);
    if (st) rsh_sharded_free(s);
    return st;
}

/* Creates a value of v's shape and dtype; if layout is NULL, it is plain. */
static rsh_status new_like(const rsh_value *v, const rsh_layout *layout, rsh_value **out) {
    return layout ? new_sharded(rsh_value_comm(v), layout, out) : new_tensor(v, out);
}

rsh_status rshi_gradient_ones(const rsh_value *v, rsh_value **out) {
    rsh_layout *layout = NULL;
    RSH_TRY(rshi_gradient_layout(v, &layout));
    rsh_status st = new_like(v, layout, out);
    rsh_layout_free(layout);
    RSH_TRY(st);
    for (int64_t i = 0; i < rsh_value_nparts(*out); i++) rsh_math_fill_number(rsh_value_part(*out, i), 1);
    return RSH_OK;
}

rsh_status rshi_gradient_own(rsh_value **g) {
    rsh_value *mine;
    if (is_own(*g)) return RSH_OK;
    RSH_TRY(new_like(*g, rsh_value_layout(*g), &mine)); /* a partial gradient stays partial */
    for (int64_t i = 0; i < rsh_value_nparts(mine); i++) rshi_math_copy(rsh_value_part(*g, i), rsh_value_part(mine, i));
    rsh_value_free(*g);
    *g = mine;
    return RSH_OK;
}

void rshi_gradient_add_into(const rsh_value *into, const rsh_value *g) {
    for (int64_t i = 0; i < rsh_value_nparts(into); i++)
        add_elements(rsh_value_part(into, i), rsh_value_part(g, i));
}

/* Adds a gradient of a value.  If two gradients of it have different layouts, the later one is moved to the layout of
 * the first. */
static rsh_status add_gradient(rsh_value **sum, rsh_value **g) {
    RSH_TRY(rshi_gradient_bring(g, rsh_value_layout(*sum)));
    if (!is_own(*sum) && is_own(*g)) { /* a + b and b + a have the same bits */
        rsh_value *other = *sum;
        *sum = *g;
        *g = other;
    }
    RSH_TRY(rshi_gradient_own(sum));
    rshi_gradient_add_into(*sum, *g);
    return RSH_OK;
}

rsh_status rshi_gradient_add(rsh_value **sum, rsh_value *g) {
    if (!*sum) {
        *sum = g;
        return RSH_OK;
    }
    rsh_status st = add_gradient(sum, &g);
    rsh_value_free(g);
    return st;
}

rsh_status rshi_gradient_bring(rsh_value **g, const rsh_layout *layout) {
    const rsh_layout *from = rsh_value_layout(*g);
    if (!layout || !from || from == layout || rsh_layout_equal(from, layout)) return RSH_OK;
    rsh_sharded *moved;
    rsh_value *v;
    uint64_t calls = rshi_calls_of(rsh_value_comm(*g));
    rsh_status st = rsh_reshard((*g)->payload->sharded, layout, NULL, &moved);
    if (st) rshi_tape_note_failure(rshi_tape_mine(), rsh_value_comm(*g), calls);
    RSH_TRY(st);
    st = rsh_value_adopt_sharded(moved, false, &v);
    if (st) {
        rsh_sharded_free(moved);
        return st;
    }
    rsh_value_free(*g);
    *g = v;
    return RSH_OK;
}

rsh_status rshi_gradient_bring_to(rsh_value **g, const rsh_value *v) {
    rsh_layout *layout = NULL;
    RSH_TRY(rshi_gradient_layout(v, &layout));
    rsh_status st = rshi_gradient_bring(g, layout);
    rsh_layout_free(layout);
    return st;
}
