/* Value copy: copies the elements of one value into another, for any distribution of both. */
#include "nn/state_dict.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <reshard/math.h>

#include "nn/impl.h"

static bool same_shape(const rsh_value *a, const rsh_value *b) {
    int n = rsh_value_ndim(a);
    return n == rsh_value_ndim(b) &&
           (!n || !memcmp(rsh_value_shape(a), rsh_value_shape(b), (size_t)n * sizeof(int64_t)));
}

rsh_status rshn_check_copy(const char *name, const rsh_value *from, const rsh_value *to) {
    if (!same_shape(from, to))
        return rshn_fail(RSH_ERUNTIME, "\"%s\" has shape %s, expected %s", name,
                         rshn_sizes_text(rsh_value_ndim(from), rsh_value_shape(from)),
                         rshn_sizes_text(rsh_value_ndim(to), rsh_value_shape(to)));
    if (rsh_value_sharded(from) && !rsh_value_sharded(to))
        return rshn_fail(RSH_ERUNTIME, "cannot load \"%s\": the state is distributed, but the parameter is plain",
                         name);
    if (rsh_value_sharded(from) && rsh_value_comm(from) != rsh_value_comm(to))
        return rshn_fail(RSH_ERUNTIME, "cannot load \"%s\": state and parameter must have the same comm", name);
    return rsh_dtype_check_convert(rsh_value_dtype(from), rsh_value_dtype(to));
}

/* Returns whether both values have the same cuts, in any dtype, so that their parts correspond. */
static bool same_parts(const rsh_value *a, const rsh_value *b) {
    const rsh_layout *x = rsh_value_layout(a), *y = rsh_value_layout(b);
    return x && y && rsh_layout_op(x) == rsh_layout_op(y) && rsh_layout_same_parts(x, y);
}

/* Creates a sharded tensor with the whole tensor on every rank of the comm. */
static rsh_status replicate(const rsh_value *v, rsh_comm *comm, rsh_sharded **out) {
    rsh_layout_desc desc = {.dtype = rsh_value_dtype(v), .ndim = rsh_value_ndim(v), .naxes = 1};
    for (int d = 0; d < desc.ndim; d++) desc.dim[d].size = rsh_value_shape(v)[d];
    snprintf(desc.axis[0].name, sizeof desc.axis[0].name, "r");
    desc.axis[0].size = rsh_comm_size(comm);
    rsh_layout *layout = NULL;
    NN_TRY(rsh_layout_new(&desc, &layout));
    const rsh_tensor *part = rsh_value_tensor(v);
    rsh_status st = rsh_sharded_from_tensors(comm, layout, 1, &part, out);
    rsh_layout_free(layout);
    return st;
}

/* Returns the sharded tensor for writing: rsh_reshard_into needs a destination that is not const, and the value's
 * getter returns const only for readers. */
static rsh_sharded *writable(const rsh_value *v) { return (rsh_sharded *)(uintptr_t)rsh_value_sharded(v); }

rsh_status rshn_copy_value(const rsh_value *from, const rsh_value *to) {
    rsh_comm *comm = rsh_value_comm(to);
    if (!comm || same_parts(from, to)) {
        for (int64_t i = 0; i < rsh_value_nparts(to); i++)
            NN_TRY(rsh_math_copy(rsh_value_part(from, i), rsh_value_part(to, i)));
        return RSH_OK;
    }
    if (rsh_value_sharded(from)) return rsh_reshard_into(rsh_value_sharded(from), writable(to), NULL);
    rsh_sharded *whole = NULL;
    NN_TRY(replicate(from, comm, &whole));
    rsh_status st = rsh_reshard_into(whole, writable(to), NULL);
    rsh_sharded_free(whole);
    return st;
}

/* Gives a new value the kind of the original: the state of a DTensor is a DTensor. */
static rsh_status set_same_kind(const rsh_value *v, rsh_value *made, rsh_value **out) {
    void *kind_data = NULL;
    const rsh_value_kind *kind = rsh_value_get_kind(v, &kind_data);
    rsh_status st = kind ? rsh_value_set_kind(made, kind, kind_data) : RSH_OK;
    if (st) rsh_value_free(made);
    else *out = made;
    return st;
}

rsh_status rshn_share_value(const rsh_value *v, rsh_value **out) {
    rsh_value *made = NULL;
    if (rsh_value_sharded(v)) NN_TRY(rsh_value_share_sharded(rsh_value_sharded(v), false, &made));
    else NN_TRY(rsh_value_share_tensor(rsh_value_tensor(v), false, &made));
    return set_same_kind(v, made, out);
}

rsh_status rshn_zeros_like(const rsh_value *v, rsh_value **out) {
    rsh_value *made = NULL;
    if (rsh_value_sharded(v)) {
        rsh_sharded *s = NULL;
        NN_TRY(rsh_sharded_zeros(rsh_value_comm(v), rsh_value_layout(v), &s));
        rsh_status st = rsh_value_adopt_sharded(s, false, &made);
        if (st) rsh_sharded_free(s);
        return st ? st : set_same_kind(v, made, out);
    }
    rsh_tensor *t = NULL;
    NN_TRY(rsh_tensor_zeros(rsh_value_dtype(v), rsh_value_ndim(v), rsh_value_shape(v), &t));
    rsh_status st = rsh_value_adopt_tensor(t, false, out);
    if (st) rsh_tensor_free(t);
    return st;
}
