/* Init: the functions of torch.nn.init on an existing tensor.
 *
 * Numbers are drawn by global position, so they do not depend on how a tensor is cut. */
#include "torch/impl.h"

#include <math.h>

#include "math/math.h"

static rsh_status check_floats(const rsh_torch_tensor *t, const char *name) {
    RSH_REQUIRE(t, RSH_EVALUE, "%s: sharded tensor is NULL", name);
    rsh_dtype dtype = rsh_torch_dtype(t);
    bool floats = rshi_dtype_has_grad(dtype) && dtype != RSH_C64 && dtype != RSH_C128;
    RSH_REQUIRE(floats, RSH_ETYPE, "%s: dtype must be a float, got %s", name, rsh_dtype_name(dtype));
    return RSH_OK;
}

static rsh_status draw_uniform(rsh_torch_tensor *t, double low, double high, uint64_t seed) {
    return rshi_sharded_draw(t->sharded, &(rshi_numbers){.seed = seed, .scale = high - low, .shift = low});
}

rsh_status rsh_torch_uniform(rsh_torch_tensor *t, double low, double high, uint64_t seed) {
    RSH_TRY(check_floats(t, "uniform"));
    RSH_REQUIRE(isfinite(high - low) && low <= high, RSH_ERUNTIME,
                "uniform: expected finite bounds with low <= high, got %g and %g", low, high);
    return draw_uniform(t, low, high, seed);
}

rsh_status rsh_torch_normal(rsh_torch_tensor *t, double mean, double std, uint64_t seed) {
    RSH_TRY(check_floats(t, "normal"));
    RSH_REQUIRE(std >= 0, RSH_ERUNTIME, "normal: standard deviation must not be negative, got %g", std);
    return rshi_sharded_draw(t->sharded, &(rshi_numbers){.normal = true, .seed = seed, .scale = std, .shift = mean});
}

rsh_status rsh_torch_constant(rsh_torch_tensor *t, double value) {
    RSH_REQUIRE(t, RSH_EVALUE, "constant: sharded tensor is NULL");
    for (int64_t i = 0; i < t->sharded->nparts; i++) RSH_TRY(rsh_math_fill_number(t->sharded->part[i], value));
    return RSH_OK;
}

/* ---- kaiming ---- */

static rsh_status find_gain(rsh_nonlinearity function, double slope, double *out) {
    switch (function) {
    case RSH_LEAKY_RELU: *out = sqrt(2 / (1 + slope * slope)); return RSH_OK;
    case RSH_RELU: *out = sqrt(2); return RSH_OK;
    case RSH_TANH: *out = 5.0 / 3; return RSH_OK;
    case RSH_SELU: *out = 0.75; return RSH_OK;
    case RSH_LINEAR:
    case RSH_SIGMOID: *out = 1; return RSH_OK;
    }
    return rshi_fail(RSH_EVALUE, "kaiming_uniform: unknown nonlinearity %d", (int)function);
}

/* Computes the inputs or outputs of one unit: dim 1 or dim 0 of the whole tensor, times all dims after dim 1. */
static rsh_status find_fan(const rsh_torch_tensor *t, rsh_fan mode, double *out) {
    int ndim = rsh_torch_ndim(t);
    RSH_REQUIRE(mode == RSH_FAN_IN || mode == RSH_FAN_OUT, RSH_EVALUE, "kaiming_uniform: unknown fan mode %d",
                (int)mode);
    RSH_REQUIRE(ndim >= 2, RSH_EVALUE, "kaiming_uniform: the tensor must have at least 2 dims, got %d", ndim);
    *out = (double)rshi_torch_shape(t)[mode == RSH_FAN_IN ? 1 : 0];
    for (int d = 2; d < ndim; d++) *out *= (double)rshi_torch_shape(t)[d];
    return RSH_OK;
}

rsh_status rsh_torch_kaiming_uniform(rsh_torch_tensor *t, double slope, rsh_fan mode, rsh_nonlinearity function,
                                     uint64_t seed) {
    double gain = 0, fan = 0;
    RSH_TRY(check_floats(t, "kaiming_uniform"));
    RSH_TRY(find_gain(function, slope, &gain));
    RSH_TRY(find_fan(t, mode, &fan));
    double bound = fan > 0 ? gain * sqrt(3 / fan) : 0;
    return draw_uniform(t, -bound, bound, seed);
}
