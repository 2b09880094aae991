/* Norms: LayerNorm and RMSNorm. */
#include <math.h>
#include <string.h>

#include "nn/impl.h"
#include "nn/layer.h"

typedef struct norm {
    int ndim; /* number of dims that are normalized together */
    double eps;
} norm;

static rsh_status check_eps(const char *layer, double eps) {
    if (eps >= 0 && isfinite(eps)) return RSH_OK;
    return rshn_fail(RSH_EVALUE, "%s: eps must be finite and at least 0, got %.17g", layer, eps);
}

static rsh_status layer_norm(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    const norm *n = m->state;
    if (!in[0]) return rshn_fail(RSH_EVALUE, "LayerNorm: the input is missing");
    return rsh_nn_layer_norm(in[0], n->ndim, rshn_slot_value(m, "weight"), rshn_slot_value(m, "bias"), n->eps, out);
}

static rsh_status rms_norm(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    if (!in[0]) return rshn_fail(RSH_EVALUE, "RMSNorm: the input is missing");
    return rsh_nn_rms_norm(in[0], rshn_slot_value(m, "weight"), ((const norm *)m->state)->eps, out);
}

static const char *const inputs[] = {"input"};
static const rsh_module_kind layer_kind = {"LayerNorm", 1, 1, inputs, layer_norm, sizeof(norm), NULL};
static const rsh_module_kind rms_kind = {"RMSNorm", 1, 1, inputs, rms_norm, sizeof(norm), NULL};

rsh_status rsh_layer_norm_new(int ndim, const int64_t *sizes, double eps, bool affine, rsh_dtype dtype,
                              rsh_module **module) {
    if (ndim < 1 || ndim > RSH_MAX_NDIM)
        return rshn_fail(RSH_EVALUE, "LayerNorm: ndim must be 1 to %d, got %d", RSH_MAX_NDIM, ndim);
    if (!sizes) return rshn_fail(RSH_EVALUE, "LayerNorm: sizes is NULL");
    for (int d = 0; d < ndim; d++) NN_TRY(rshn_check_size("LayerNorm", "each size", sizes[d]));
    NN_TRY(check_eps("LayerNorm", eps));
    rsh_module *m = NULL;
    NN_TRY(rsh_module_new(&layer_kind, &(norm){ndim, eps}, module ? &m : NULL));
    rsh_status st = RSH_OK;
    if (affine) st = rshn_new_parameter(m, "weight", dtype, ndim, sizes, RSHN_ONES, 0);
    if (!st && affine) st = rshn_new_parameter(m, "bias", dtype, ndim, sizes, RSHN_ZEROS, 0);
    if (st) rsh_module_free(m);
    else *module = m;
    return st;
}

rsh_status rsh_rms_norm_new(int64_t size, double eps, rsh_dtype dtype, rsh_module **module) {
    NN_TRY(rshn_check_size("RMSNorm", "size", size));
    NN_TRY(check_eps("RMSNorm", eps));
    rsh_module *m = NULL;
    NN_TRY(rsh_module_new(&rms_kind, &(norm){1, eps}, module ? &m : NULL));
    rsh_status st = rshn_new_parameter(m, "weight", dtype, 1, &size, RSHN_ONES, 0);
    if (st) rsh_module_free(m);
    else *module = m;
    return st;
}
