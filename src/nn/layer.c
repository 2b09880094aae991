/* Layer: creates and finds parameters and children of layers. */
#include "nn/layer.h"

#include <inttypes.h>

#include "nn/deferred_init.h"
#include "nn/impl.h"

rsh_status rshn_check_size(const char *layer, const char *what, int64_t size) {
    if (size >= 1) return RSH_OK;
    return rshn_fail(RSH_EVALUE, "%s: %s must be at least 1, got %" PRId64 "", layer, what, size);
}

rsh_status rshn_new_parameter(rsh_module *m, const char *name, rsh_dtype dtype, int ndim, const int64_t *sizes,
                              rshn_fill fill, double bound) {
    if (dtype != RSH_F32 && dtype != RSH_F64)
        return rshn_fail(RSH_ETYPE, "%s: dtype must be f32 or f64, got %s", m->kind->name, rsh_dtype_name(dtype));
    if (rshn_deferring())
        return rshn_defer_parameter(m, name, dtype, ndim, sizes, (rshn_init){fill, bound, {0, 0}, -1});
    rsh_tensor *t = NULL;
    rsh_value *v = NULL;
    NN_TRY(rsh_tensor_zeros(dtype, ndim, sizes, &t));
    rsh_status st = rsh_value_adopt_tensor(t, true, &v);
    if (st) rsh_tensor_free(t);
    if (!st && fill != RSHN_ZEROS) st = rshn_fill_value(v, fill, bound);
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
