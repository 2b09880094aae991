/* Random: a thread's seed and call counter, and functions that fill values with random numbers. */
#include <reshard/nn/random.h>

#include <reshard/math.h>

#include <math.h>

#include "nn/impl.h"

static _Thread_local rsh_random_state mine;

rsh_random_state rsh_random_get_state(void) { return mine; }

rsh_random_state rsh_random_set_state(rsh_random_state state) {
    rsh_random_state was = mine;
    mine = state;
    return was;
}

void rsh_random_seed(uint64_t seed) { mine = (rsh_random_state){seed, 0}; }

rsh_random_state rsh_random_next_state(void) {
    rsh_random_state now = mine;
    mine.call++;
    return now;
}

/* Mixes seed and call number into one seed, so that the numbers of successive calls are independent. */
static uint64_t seed_of(rsh_random_state s) {
    uint64_t x = s.seed + 0x9e3779b97f4a7c15u * (s.call + 1);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Computes x = x * scale + shift for a row of n elements. */
static void scale_row(rsh_dtype dtype, char *row, int64_t n, int64_t stride, double scale, double shift) {
    for (int64_t i = 0; i < n; i++, row += stride) {
        if (dtype == RSH_F32) *(float *)row = (float)(*(float *)row * scale + shift);
        else *(double *)row = *(double *)row * scale + shift;
    }
}

static void scale_dims(const rsh_tensor *t, int d, char *at, double scale, double shift) {
    rsh_dtype dtype = rsh_tensor_dtype(t);
    int64_t step = (int64_t)rsh_dtype_size(dtype), n = d < rsh_tensor_ndim(t) ? rsh_tensor_shape(t)[d] : 1;
    int64_t stride = d < rsh_tensor_ndim(t) ? rsh_tensor_strides(t)[d] * step : 0;
    if (d >= rsh_tensor_ndim(t) - 1) scale_row(dtype, at, n, stride, scale, shift);
    else
        for (int64_t i = 0; i < n; i++) scale_dims(t, d + 1, at + i * stride, scale, shift);
}

static rsh_status draw_standard(rsh_value *v, bool normal, uint64_t seed) {
    const rsh_sharded *s = rsh_value_sharded(v);
    if (s) return normal ? rsh_sharded_normal(s, seed) : rsh_sharded_uniform(s, seed);
    rsh_random from = {.seed = seed};
    const rsh_tensor *t = rsh_value_tensor(v);
    return normal ? rsh_math_normal(t, &from) : rsh_math_uniform(t, &from);
}

static rsh_status fill_random(rsh_value *v, bool normal, double scale, double shift) {
    rsh_dtype dtype = rsh_value_dtype(v);
    if (!v) return rshn_fail(RSH_EVALUE, "cannot draw random numbers: v is NULL");
    if (dtype != RSH_F32 && dtype != RSH_F64)
        return rshn_fail(RSH_ETYPE, "random numbers: dtype must be f32 or f64, got %s", rsh_dtype_name(dtype));
    if (!isfinite(scale) || !isfinite(shift))
        return rshn_fail(RSH_EVALUE, "random numbers: bounds, mean and deviation must be finite");
    NN_TRY(draw_standard(v, normal, seed_of(rsh_random_next_state())));
    for (int64_t i = 0; i < rsh_value_nparts(v); i++) {
        const rsh_tensor *part = rsh_value_part(v, i);
        if (rsh_tensor_count(part)) scale_dims(part, 0, rsh_tensor_data(part), scale, shift);
        rsh_tensor_bump_version(part);
    }
    return RSH_OK;
}

rsh_status rsh_random_uniform(rsh_value *v, double lo, double hi) { return fill_random(v, false, hi - lo, lo); }
rsh_status rsh_random_normal(rsh_value *v, double mean, double deviation) {
    return fill_random(v, true, deviation, mean);
}
