/* Dropout: sets elements to 0 at random, depending on their global positions.
 *
 * The random numbers are a second input, so that they are cut like x.  Slot 0 is the mask, one byte per element. */
#include "nn/impl.h"

#include <reshard/math.h>

#include <stdatomic.h>

enum { GRAIN = 16384 };

typedef struct drop_attrs {
    double p;
} drop_attrs;

typedef struct dropping {
    const rshn_kernels *k;
    const char *u, *x;
    char *y;
    uint8_t *mask;
    size_t item;
    double p, scale;
} dropping;

static void drop_range(void *ctx, int64_t lo, int64_t hi) {
    const dropping *d = ctx;
    size_t at = (size_t)lo * d->item;
    if (d->u) d->k->keep(d->u + at, d->p, d->mask + lo, hi - lo);
    d->k->drop(d->mask + lo, d->x + at, d->scale, d->y + at, hi - lo);
}

/* Computes y from x and the mask.  If u is not NULL, computes the mask from u first. */
static rsh_status apply_mask(double p, const rsh_tensor *u, const rsh_tensor *x, const rsh_tensor *mask,
                             rsh_tensor **y) {
    rsh_tensor *dense = NULL, *numbers = NULL;
    rsh_status st;
    NN_GOTO(rshn_dense(x, &dense));
    if (u) NN_GOTO(rshn_dense(u, &numbers));
    NN_GOTO(rsh_tensor_empty(rsh_tensor_dtype(x), rsh_tensor_ndim(x), rsh_tensor_shape(x), y));
    dropping d = {.k = rshn_kernels_of(rsh_tensor_dtype(x)), .x = rsh_tensor_data(dense), .y = rsh_tensor_data(*y)};
    d.u = u ? rsh_tensor_data(numbers) : NULL;
    d.mask = rsh_tensor_data(mask);
    d.item = rsh_dtype_size(rsh_tensor_dtype(x));
    d.p = p;
    d.scale = p < 1 ? 1 / (1 - p) : 0;
    rshn_spread(rsh_tensor_count(x), GRAIN, drop_range, &d);
out:
    rsh_tensor_free(dense);
    rsh_tensor_free(numbers);
    return st;
}

static rsh_status dropout_forward(rsh_grad_call *c) {
    const drop_attrs *a = rsh_call_attrs(c);
    const rsh_tensor *x = rsh_call_input(c, 0);
    rsh_tensor *mask = NULL, *y = NULL;
    NN_TRY(rsh_tensor_empty(RSH_U8, rsh_tensor_ndim(x), rsh_tensor_shape(x), &mask));
    rsh_status st = apply_mask(a->p, rsh_call_input(c, 1), x, mask, &y);
    if (!st) st = rsh_call_set_output(c, 0, y);
    if (!st) return rsh_call_save(c, mask);
    rsh_tensor_free(mask);
    return st;
}

static rsh_status dropout_backward(rsh_grad_call *c) {
    const drop_attrs *a = rsh_call_attrs(c);
    const rsh_tensor *saved = NULL;
    rsh_tensor *mask = NULL, *gx = NULL;
    NN_TRY(rsh_call_saved(c, 0, &saved));
    NN_TRY(rshn_dense(saved, &mask));
    rsh_status st = apply_mask(a->p, NULL, rsh_call_output_grad(c, 0), mask, &gx);
    rsh_tensor_free(mask);
    return st ? st : rsh_call_set_input_grad(c, 0, gx);
}

/* Returns a different seed for every call. */
static uint64_t seed_of(uint64_t seed, uint64_t call) {
    uint64_t z = seed + (call + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 29);
}

typedef struct numbering {
    const rsh_tensor *u;
    uint64_t seed;
    atomic_bool failed; /* set if memory has run out on a thread */
} numbering;

static void number_range(void *ctx, int64_t lo, int64_t hi) {
    numbering *n = ctx;
    rsh_tensor *part = NULL;
    rsh_random from = {.seed = n->seed, .first = (uint64_t)lo};
    int64_t count = hi - lo;
    rsh_status st = rsh_tensor_view(n->u, lo, 1, &count, NULL, &part);
    if (!st) st = rsh_math_uniform(part, &from);
    rsh_tensor_free(part);
    if (st) n->failed = true;
}

static rsh_status local_numbers(const rsh_value *x, uint64_t seed, rsh_value **out) {
    rsh_tensor *u = NULL;
    NN_TRY(rsh_tensor_empty(rsh_value_dtype(x), rsh_value_ndim(x), rsh_value_shape(x), &u));
    numbering n = {.u = u, .seed = seed};
    rshn_spread(rsh_tensor_count(u), GRAIN, number_range, &n);
    rsh_status st = n.failed ? rshn_fail(RSH_ENOMEM, "dropout: out of memory for random numbers") : RSH_OK;
    if (!st) st = rsh_value_adopt_tensor(u, false, out);
    if (st) rsh_tensor_free(u);
    return st;
}

/* Creates the layout of the random numbers: if x is partial, they are replicated along the partial axes. */
static rsh_status numbers_layout(const rsh_value *x, rsh_layout **out) {
    rsh_layout_desc desc = *rsh_layout_describe(rsh_value_layout(x));
    if (!desc.op) {
        *out = rsh_layout_hold(rsh_value_layout(x));
        return RSH_OK;
    }
    desc.op = RSH_OP_NONE;
    desc.npartial = 0;
    return rsh_layout_new(&desc, out);
}

static rsh_status sharded_numbers(const rsh_value *x, uint64_t seed, rsh_value **out) {
    rsh_sharded *u = NULL;
    rsh_layout *layout = NULL;
    void *kind_data = NULL;
    const rsh_value_kind *kind = rsh_value_get_kind(x, &kind_data);
    NN_TRY(numbers_layout(x, &layout));
    rsh_status st = rsh_sharded_empty(rsh_value_comm(x), layout, &u);
    rsh_layout_free(layout);
    if (!st) st = rsh_sharded_uniform(u, seed);
    if (!st) st = rsh_value_adopt_sharded(u, false, out);
    if (st) rsh_sharded_free(u);
    return st ? st : rsh_value_set_kind(*out, kind, kind_data);
}

rsh_status rsh_nn_dropout(rsh_value *x, double p, uint64_t seed, uint64_t call, rsh_value **out) {
    static const rsh_grad_op op = {.name = "dropout",
                                   .forward = dropout_forward,
                                   .backward = dropout_backward,
                                   .layouts = rsh_grad_same_layout,
                                   .parts = RSH_PARTS_EACH,
                                   .attr_bytes = sizeof(drop_attrs),
                                   .placements = &rshn_straight_rule};
    drop_attrs a = {p};
    rsh_value *u = NULL;
    if (!x || !out) return rshn_fail(RSH_EVALUE, "dropout: %s is NULL", x ? "out" : "x");
    if (!(p >= 0 && p <= 1)) return rshn_fail(RSH_EVALUE, "dropout: p must be 0 to 1, got %g", p);
    rsh_dtype dtype = rsh_value_dtype(x);
    if (dtype != RSH_F32 && dtype != RSH_F64)
        return rshn_fail(RSH_ETYPE, "dropout: dtype must be f32 or f64, got %s", rsh_dtype_name(dtype));
    seed = seed_of(seed, call);
    NN_TRY(rsh_value_sharded(x) ? sharded_numbers(x, seed, &u) : local_numbers(x, seed, &u));
    rsh_status st = rshn_apply(&op, &a, 2, 2, (rsh_value *[]){x, u}, out);
    rsh_value_free(u);
    return st;
}
