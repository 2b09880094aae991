/* Linear: x W' + b, on one rank or on all ranks that share the weight. */
#include <math.h>

#include "nn/impl.h"
#include "nn/layer.h"

static rsh_status linear_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    rsh_value *weight = rshn_slot_value(m, "weight"), *bias = rshn_slot_value(m, "bias");
    if (!in[0] || !weight) return rshn_fail(RSH_EVALUE, "Linear: the %s is missing", weight ? "input" : "weight");
    if (rsh_value_sharded(weight) && !rsh_value_get_kind(weight, NULL))
        return rshn_sharded_linear(in[0], weight, bias, out);
    return rsh_nn_linear(in[0], weight, bias, out);
}

static const char *const inputs[] = {"input"};
static const rsh_module_kind linear = {
    .name = "Linear", .nin = 1, .nout = 1, .inputs = inputs, .forward = linear_forward};

rsh_status rsh_linear_new(int64_t in, int64_t out, bool bias, rsh_dtype dtype, rsh_module **module) {
    NN_TRY(rshn_check_size("Linear", "in", in));
    NN_TRY(rshn_check_size("Linear", "out", out));
    rsh_module *m = NULL;
    NN_TRY(rsh_module_new(&linear, NULL, module ? &m : NULL));
    double bound = 1 / sqrt((double)in);
    rsh_status st = rshn_new_parameter(m, "weight", dtype, 2, (const int64_t[]){out, in}, RSHN_UNIFORM, bound);
    if (!st && bias) st = rshn_new_parameter(m, "bias", dtype, 1, &out, RSHN_UNIFORM, bound);
    if (st) rsh_module_free(m);
    else *module = m;
    return st;
}
