/* Deferred init: a deferred parameter is one element, repeated with stride 0.  After the tree has been cut, the
 * parameter gets memory for its part, and the elements that it would have had without deferring. */
#include "nn/deferred_init.h"

#include <string.h>

#include <reshard/math.h>

#include "nn/impl.h"
#include "nn/state_dict.h"

static _Thread_local bool deferring;

bool rsh_layers_defer_init(bool on) {
    bool was = deferring;
    deferring = on;
    return was;
}

bool rshn_deferring(void) { return deferring; }

/* ---- making ---- */

static rsh_status tensor_without_memory(rsh_dtype dtype, int ndim, const int64_t *sizes, rsh_tensor **out) {
    int64_t one = 1, strides[RSH_MAX_NDIM] = {0};
    rsh_tensor *single = NULL;
    NN_TRY(rsh_tensor_zeros(dtype, 1, &one, &single));
    rsh_status st = rsh_tensor_view(single, 0, ndim, sizes, strides, out);
    rsh_tensor_free(single);
    return st;
}

rsh_status rshn_defer_parameter(rsh_module *m, const char *name, rsh_dtype dtype, int ndim, const int64_t *sizes,
                                rshn_init init) {
    rsh_tensor *t = NULL;
    rsh_value *v = NULL;
    rshn_init *kept = rshn_malloc(sizeof *kept);
    rsh_status st =
        kept ? tensor_without_memory(dtype, ndim, sizes, &t) : rshn_fail(RSH_ENOMEM, "out of memory for a parameter");
    if (!st) st = rsh_value_adopt_tensor(t, true, &v);
    if (st) rsh_tensor_free(t);
    if (!st) st = rsh_module_set_parameter(m, name, v);
    rsh_value_free(v);
    if (st) {
        rshn_free(kept);
        return st;
    }
    if (init.fill == RSHN_UNIFORM || init.fill == RSHN_NORMAL) init.random = rsh_random_next_state();
    *kept = init;
    rshn_slot_find(m, name)->init = kept;
    return RSH_OK;
}

bool rshn_is_deferred(const rsh_value *v) {
    const rsh_tensor *t = rsh_value_sharded(v) ? NULL : rsh_value_tensor(v);
    for (int d = 0; t && d < rsh_tensor_ndim(t); d++)
        if (rsh_tensor_strides(t)[d]) return false;
    return t && rsh_tensor_ndim(t);
}

/* ---- filling ---- */

rsh_status rshn_fill_value(rsh_value *v, rshn_fill fill, double bound) {
    if (fill == RSHN_UNIFORM) return rsh_random_uniform(v, -bound, bound);
    if (fill == RSHN_NORMAL) return rsh_random_normal(v, 0, 1);
    for (int64_t i = 0; i < rsh_value_nparts(v); i++)
        NN_TRY(rsh_math_fill_number(rsh_value_part(v, i), fill == RSHN_ONES));
    return RSH_OK;
}

/* Searches for a row of the whole tensor among the rows of a part. */
typedef struct row_search {
    int64_t row, before; /* row: the row to find; before: number of earlier rows in the part */
    bool found;
} row_search;

static int search_range(void *ctx, int64_t lo, int64_t hi) {
    row_search *s = ctx;
    s->found = s->row >= lo && s->row < hi;
    s->before += s->found ? s->row - lo : hi - lo;
    return s->found;
}

rsh_status rshn_clear_row(const rsh_value *v, int64_t row) {
    row_search s = {row, 0, false};
    const rsh_layout *l = rsh_value_layout(v);
    if (l)
        NN_TRY(rsh_layout_each_range(l, rsh_comm_rank(rsh_value_comm(v)), 0, 0, search_range, &s));
    else
        s = (row_search){row, row, true};
    if (!s.found) return RSH_OK;
    const rsh_tensor *t = rsh_value_part(v, 0);
    size_t bytes = (size_t)rsh_tensor_shape(t)[1] * rsh_dtype_size(rsh_tensor_dtype(t));
    memset((char *)rsh_tensor_data(t) + (size_t)s.before * bytes, 0, bytes);
    rsh_tensor_bump_version(t);
    return RSH_OK;
}

/* ---- a whole tree ---- */

static rsh_status allocate_slot(rsh_module *root, rshn_slot *slot) {
    rsh_value *fresh = NULL;
    rsh_value *old = rsh_value_hold(slot->value);
    rsh_status st = rshn_zeros_like(old, &fresh);
    if (!st) st = rsh_value_set_requires_grad(fresh, rsh_value_requires_grad(old));
    if (!st) rshn_slots_exchange(root, old, fresh, slot->ranks);
    rsh_value_free(old);
    rsh_value_free(fresh);
    return st;
}

static rsh_status init_slot(rsh_module *root, rshn_slot *slot) {
    const rshn_init *init = slot->init;
    if (rshn_is_deferred(slot->value)) NN_TRY(allocate_slot(root, slot));
    rsh_random_state was = rsh_random_set_state(init->random);
    rsh_status st = rshn_fill_value(slot->value, init->fill, init->bound);
    rsh_random_set_state(was);
    if (!st && init->zero_row >= 0) st = rshn_clear_row(slot->value, init->zero_row);
    if (st) return st;
    rshn_free(slot->init);
    slot->init = NULL;
    return RSH_OK;
}

static rsh_status init_module(void *ctx, const char *path, rsh_module *m) {
    (void)path;
    for (int64_t i = 0; i < m->nslots; i++)
        if (m->slot[i].init) NN_TRY(init_slot(ctx, &m->slot[i]));
    return RSH_OK;
}

rsh_status rsh_module_materialize(rsh_module *m) {
    if (!m) return rshn_fail(RSH_EVALUE, "rsh_module_materialize: m is NULL");
    return rsh_module_each_module(m, init_module, m);
}
