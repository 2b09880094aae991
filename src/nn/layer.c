/* Layer: parameters and children of layers, made and found. */
#include "nn/layer.h"

#include <inttypes.h>

#include <reshard/math.h>
#include <reshard/nn/random.h>

#include "nn/impl.h"

rsh_status rshn_check_size(const char *layer, const char *what, int64_t size) {
    if (size >= 1) return RSH_OK;
    return rshn_fail(RSH_EVALUE, "%s: %s is %" PRId64 "; at least 1 is needed", layer, what, size);
}

static rsh_status fill_value(rsh_value *v, rshn_fill fill, double bound) {
    switch (fill) {
        case RSHN_ZEROS: return RSH_OK;
        case RSHN_ONES: return rsh_math_fill_number(rsh_value_tensor(v), 1);
        case RSHN_UNIFORM: return rsh_random_uniform(v, -bound, bound);
        case RSHN_NORMAL: return rsh_random_normal(v, 0, 1);
    }
    return RSH_OK;
}

rsh_status rshn_new_parameter(rsh_module *m, const char *name, rsh_dtype dtype, int ndim, const int64_t *sizes,
                              rshn_fill fill, double bound) {
    if (dtype != RSH_F32 && dtype != RSH_F64)
        return rshn_fail(RSH_ETYPE, "%s of %s; parameters are f32 or f64", m->kind->name, rsh_dtype_name(dtype));
    rsh_tensor *t = NULL;
    rsh_value *v = NULL;
    NN_TRY(rsh_tensor_zeros(dtype, ndim, sizes, &t));
    rsh_status st = rsh_value_take(t, true, &v);
    if (st) rsh_tensor_free(t);
    if (!st) st = fill_value(v, fill, bound);
    if (!st) st = rsh_module_set_parameter(m, name, v);
    rsh_value_free(v);
    return st;
}

rsh_status rshn_give_child(rsh_module *m, const char *name, rsh_module **child) {
    rsh_status st = rsh_module_set_child(m, name, *child);
    rsh_module_free(*child);
    *child = NULL;
    return st;
}

rsh_value *rshn_slot_value(const rsh_module *m, const char *name) {
    const rshn_slot *s = rshn_slot_find(m, name);
    return s ? s->value : NULL;
}

rsh_module *rshn_slot_child(const rsh_module *m, const char *name) {
    const rshn_slot *s = rshn_slot_find(m, name);
    return s ? s->child : NULL;
}
