/* Random state: saves and loads the seed and the call number of a thread as a state dict. */
#include <reshard/nn/random.h>

#include <string.h>

#include "nn/impl.h"

static const char entry[] = "random";

static rsh_status make_value(rsh_random_state state, rsh_value **out) {
    rsh_tensor *t = NULL;
    NN_TRY(rsh_tensor_empty(RSH_I64, 1, &(int64_t){2}, &t));
    memcpy(rsh_tensor_data(t), (const uint64_t[]){state.seed, state.call}, 2 * sizeof(uint64_t));
    rsh_status st = rsh_value_adopt_tensor(t, false, out);
    if (st) rsh_tensor_free(t);
    return st;
}

rsh_status rsh_random_state_dict(rsh_state_dict **out) {
    if (!out) return rshn_fail(RSH_EVALUE, "rsh_random_state_dict: out is NULL");
    rsh_state_dict *d = NULL;
    rsh_value *v = NULL;
    NN_TRY(rsh_state_dict_new(&d));
    rsh_status st = make_value(rsh_random_get_state(), &v);
    if (!st) st = rsh_state_dict_set(d, entry, v);
    rsh_value_free(v);
    if (st) rsh_state_dict_free(d);
    else *out = d;
    return st;
}

rsh_status rsh_random_load_state_dict(const rsh_state_dict *d) {
    if (!d) return rshn_fail(RSH_EVALUE, "rsh_random_load_state_dict: d is NULL");
    const rsh_value *v = rsh_state_dict_find(d, entry);
    const rsh_tensor *t = v && !rsh_value_sharded(v) ? rsh_value_tensor(v) : NULL;
    if (!t || rsh_tensor_dtype(t) != RSH_I64 || rsh_tensor_ndim(t) != 1 || rsh_tensor_shape(t)[0] != 2)
        return rshn_fail(RSH_ERUNTIME, "the state dict must have an entry \"%s\", an i64 [2]", entry);
    const int64_t *at = rsh_tensor_data(t);
    rsh_random_set_state((rsh_random_state){(uint64_t)at[0], (uint64_t)at[rsh_tensor_strides(t)[0]]});
    return RSH_OK;
}
