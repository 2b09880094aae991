/* Value: elements, and the op that computed them. */
#include "grad/impl.h"

#include <reshard/math.h>

bool rshi_differentiable(rsh_dtype dtype) { return dtype == RSH_F32 || dtype == RSH_F64; }

static rsh_status check_dtype(rsh_dtype dtype, bool requires_grad) {
    RSH_REQUIRE(!requires_grad || rshi_differentiable(dtype), RSH_ETYPE,
                "a value that requires a gradient must be f32 or f64, got %s", rsh_dtype_name(dtype));
    return RSH_OK;
}

/* ---- creating ---- */

rsh_value *rshi_value_new(rshi_payload *p) {
    rshi_tape *tape = rshi_tape_mine();
    rsh_value *v = tape ? rshi_shelf_take(&tape->values, sizeof *v) : NULL;
    if (v) *v = (rsh_value){.refs = 1, .payload = p};
    return v;
}

static rsh_status new_leaf(rsh_tensor *t, rsh_sharded *s, bool requires_grad, rsh_value **out) {
    RSH_TRY(check_dtype(t ? rsh_tensor_dtype(t) : rsh_layout_dtype(s->layout), requires_grad));
    rshi_payload *p = rshi_payload_new(t, s);
    rsh_value *v = p ? rshi_value_new(p) : NULL;
    if (!v) {
        if (p) rshi_payload_block_give(p);
        return rshi_nomem();
    }
    v->requires_grad = requires_grad;
    *out = v;
    return RSH_OK;
}

rsh_status rsh_value_adopt_tensor(rsh_tensor *t, bool requires_grad, rsh_value **out) {
    RSH_NEEDS(t);
    RSH_NEEDS(out);
    return new_leaf(t, NULL, requires_grad, out);
}

rsh_status rsh_value_adopt_sharded(rsh_sharded *s, bool requires_grad, rsh_value **out) {
    RSH_NEEDS(s);
    RSH_NEEDS(out);
    return new_leaf(NULL, s, requires_grad, out);
}

rsh_status rsh_value_share_tensor(const rsh_tensor *t, bool requires_grad, rsh_value **out) {
    RSH_NEEDS(t);
    RSH_NEEDS(out);
    rsh_tensor *view;
    RSH_TRY(rsh_tensor_view(t, 0, rsh_tensor_ndim(t), rsh_tensor_shape(t), rsh_tensor_strides(t), &view));
    rsh_status st = new_leaf(view, NULL, requires_grad, out);
    if (st) rsh_tensor_free(view);
    return st;
}

rsh_status rsh_value_share_sharded(const rsh_sharded *s, bool requires_grad, rsh_value **out) {
    RSH_NEEDS(s);
    RSH_NEEDS(out);
    rsh_sharded *same;
    RSH_TRY(rsh_sharded_from_tensors(s->comm, s->layout, s->nparts, (const rsh_tensor *const *)s->part, &same));
    rsh_status st = new_leaf(NULL, same, requires_grad, out);
    if (st) rsh_sharded_free(same);
    return st;
}

rsh_status rsh_value_detach(const rsh_value *v, rsh_value **out) {
    RSH_NEEDS(v);
    RSH_NEEDS(out);
    rsh_value *leaf = rshi_value_new(v->payload);
    if (!leaf) return rshi_nomem();
    rshi_payload_hold(v->payload);
    *out = leaf;
    return RSH_OK;
}

rsh_value *rsh_value_hold(rsh_value *v) {
    if (v) v->refs++;
    return v;
}

void rsh_value_free(rsh_value *v) {
    if (!v || --v->refs) return;
    rshi_payload_drop(v->payload);
    rsh_value_free(v->grad);
    rsh_value_free(v->pending);
    rshi_entry *node = v->node;
    rshi_value_block_give(v);
    rshi_entry_drop(node);
}

/* ---- getters ---- */

int64_t rsh_value_nparts(const rsh_value *v) { return v ? rshi_payload_nparts(v->payload) : 0; }

const rsh_tensor *rsh_value_part(const rsh_value *v, int64_t part) {
    return v && part >= 0 && part < rsh_value_nparts(v) ? rshi_payload_part(v->payload, part) : NULL;
}

const rsh_tensor *rsh_value_tensor(const rsh_value *v) {
    return v && rshi_payload_nparts(v->payload) == 1 ? rshi_payload_part(v->payload, 0) : NULL;
}

const rsh_sharded *rsh_value_sharded(const rsh_value *v) { return v ? v->payload->sharded : NULL; }
const rsh_layout *rsh_value_layout(const rsh_value *v) { return rsh_sharded_layout(rsh_value_sharded(v)); }
rsh_comm *rsh_value_comm(const rsh_value *v) { return rsh_sharded_comm(rsh_value_sharded(v)); }

rsh_dtype rsh_value_dtype(const rsh_value *v) {
    const rsh_layout *l = rsh_value_layout(v);
    return l ? rsh_layout_dtype(l) : rsh_tensor_dtype(rsh_value_part(v, 0));
}

int rsh_value_ndim(const rsh_value *v) {
    const rsh_layout *l = rsh_value_layout(v);
    return l ? rsh_layout_ndim(l) : rsh_tensor_ndim(rsh_value_part(v, 0));
}

const int64_t *rsh_value_shape(const rsh_value *v) {
    const rsh_layout *l = rsh_value_layout(v);
    return l ? rsh_layout_shape(l) : rsh_tensor_shape(rsh_value_part(v, 0));
}

bool rsh_value_requires_grad(const rsh_value *v) { return v && v->requires_grad; }
bool rsh_value_is_leaf(const rsh_value *v) { return v && !v->node; }

rsh_status rsh_value_set_requires_grad(rsh_value *v, bool requires_grad) {
    RSH_NEEDS(v);
    RSH_REQUIRE(!v->node, RSH_ERUNTIME,
                "cannot set requires_grad of an output of %s: it follows from the inputs; call rsh_value_detach first",
                v->node->op->name);
    RSH_TRY(check_dtype(rsh_value_dtype(v), requires_grad));
    v->requires_grad = requires_grad;
    return RSH_OK;
}

rsh_status rsh_value_set_kind(rsh_value *v, const rsh_value_kind *kind, void *kind_data) {
    RSH_NEEDS(v);
    RSH_REQUIRE(!kind || kind->apply, RSH_EVALUE, "rsh_value_set_kind: the kind must have an `apply` function");
    rshi_payload_set_kind(v->payload, kind, kind ? kind_data : NULL);
    return RSH_OK;
}

const rsh_value_kind *rsh_value_get_kind(const rsh_value *v, void **kind_data) {
    if (v && v->payload->kind && kind_data) *kind_data = v->payload->kind_data;
    return v ? v->payload->kind : NULL;
}

/* ---- the gradient of a leaf ---- */

rsh_value *rsh_value_grad(const rsh_value *v) { return v ? v->grad : NULL; }

rsh_status rsh_value_set_grad(rsh_value *v, rsh_value *grad) {
    RSH_NEEDS(v);
    RSH_REQUIRE(!v->node, RSH_ERUNTIME, "cannot set the gradient of an output of %s: only leaves have gradients",
                v->node->op->name);
    if (grad) RSH_TRY(rshi_gradient_check(v, grad, "set_grad", "the gradient"));
    rsh_value_hold(grad);
    rsh_value_free(v->grad);
    v->grad = grad;
    return RSH_OK;
}

rsh_status rsh_value_zero_grad(rsh_value *v) {
    RSH_NEEDS(v);
    for (int64_t i = 0; i < rsh_value_nparts(v->grad); i++)
        RSH_TRY(rsh_math_fill_number(rsh_value_part(v->grad, i), 0));
    return RSH_OK;
}
