/* Call: the application of an op, as its functions see it. */
#include "grad/impl.h"

int rsh_call_nin(const rsh_grad_call *c) { return c ? c->nin : 0; }
int rsh_call_nout(const rsh_grad_call *c) { return c ? c->nout : 0; }
void *rsh_call_attrs(const rsh_grad_call *c) { return c ? c->attrs : NULL; }
int64_t rsh_call_part(const rsh_grad_call *c) { return c ? c->part : 0; }

static bool has_in(const rsh_grad_call *c, int i) { return c && i >= 0 && i < c->nin; }
static bool has_out(const rsh_grad_call *c, int i) { return c && i >= 0 && i < c->nout; }

bool rsh_call_needs_input_grad(const rsh_grad_call *c, int i) {
    if (!has_in(c, i) || !c->recorded) return false;
    const rshi_input *e = &c->edge[i];
    return c->phase == RSHI_FORWARD ? rsh_value_requires_grad(e->value) : e->node || e->leaf;
}

static rsh_status check_in(const rsh_grad_call *c, int i) {
    RSH_NEEDS(c);
    RSH_REQUIRE(has_in(c, i), RSH_EINDEX, "%s: input %d does not exist, there are %d inputs", c->op->name, i, c->nin);
    return RSH_OK;
}

static rsh_status check_out(const rsh_grad_call *c, int i) {
    RSH_NEEDS(c);
    RSH_REQUIRE(has_out(c, i), RSH_EINDEX, "%s: output %d does not exist, there are %d outputs", c->op->name, i,
                c->nout);
    return RSH_OK;
}

/* ---- forward ---- */

const rsh_value *rsh_call_input_value(const rsh_grad_call *c, int i) {
    return has_in(c, i) && c->phase == RSHI_FORWARD ? c->edge[i].value : NULL;
}

const rsh_tensor *rsh_call_input(const rsh_grad_call *c, int i) {
    const rsh_value *v = rsh_call_input_value(c, i);
    return v ? rshi_payload_part(v->payload, c->part) : NULL;
}

const rsh_layout *rsh_call_output_layout(const rsh_grad_call *c, int i) {
    return has_out(c, i) ? c->out[i].form.layout : NULL;
}

rsh_status rsh_call_set_output(rsh_grad_call *c, int i, rsh_tensor *t) {
    rsh_status st = check_out(c, i);
    if (!st && (!t || c->out[i].tensor || c->out[i].value || c->phase != RSHI_FORWARD))
        st = rshi_fail(RSH_EVALUE, "%s: cannot set output %d: %s", c->op->name, i,
                       t ? "each output can be set only once, and only in forward" : "the argument is NULL");
    if (st) rsh_tensor_free(t);
    else c->out[i].tensor = t;
    return st;
}

rsh_status rsh_call_set_output_value(rsh_grad_call *c, int i, rsh_value *v) {
    rsh_status st = check_out(c, i);
    if (!st && (!v || c->out[i].tensor || c->out[i].value || c->phase != RSHI_FORWARD))
        st = rshi_fail(RSH_EVALUE, "%s: cannot set output %d: %s", c->op->name, i,
                       v ? "each output can be set only once, and only in forward" : "the argument is NULL");
    if (!st && (v->refs > 1 || v->node))
        st = rshi_fail(RSH_EVALUE, "%s: cannot set output %d: the value is in use elsewhere", c->op->name, i);
    if (st) rsh_value_free(v);
    else c->out[i].value = v;
    return st;
}

rsh_status rsh_call_mark_non_differentiable(rsh_grad_call *c, int i) {
    RSH_TRY(check_out(c, i));
    c->out[i].no_grad = true;
    return RSH_OK;
}

rsh_status rsh_call_save_input(rsh_grad_call *c, int i) {
    RSH_TRY(check_in(c, i));
    return rshi_slot_add(c, RSHI_SLOT_IN, i, NULL);
}

rsh_status rsh_call_save_output(rsh_grad_call *c, int i) {
    RSH_TRY(check_out(c, i));
    return rshi_slot_add(c, RSHI_SLOT_OUT, i, NULL);
}

rsh_status rsh_call_save(rsh_grad_call *c, rsh_tensor *t) {
    if (!c || !t) {
        rsh_tensor_free(t);
        return rshi_fail(RSH_EVALUE, "rsh_call_save: %s is NULL", c ? "t" : "c");
    }
    return rshi_slot_add(c, RSHI_SLOT_TENSOR, 0, t);
}

/* ---- backward ---- */

const rsh_value *rsh_call_output_grad_value(const rsh_grad_call *c, int i) {
    return has_out(c, i) && c->phase == RSHI_BACKWARD ? c->out[i].value : NULL;
}

const rsh_tensor *rsh_call_output_grad(const rsh_grad_call *c, int i) {
    const rsh_value *v = rsh_call_output_grad_value(c, i);
    return v ? rshi_payload_part(v->payload, c->part) : NULL;
}

static rsh_status check_given(const rsh_grad_call *c, int i, const void *what) {
    RSH_TRY(check_in(c, i));
    RSH_REQUIRE(what && !c->edge[i].tensor && !c->edge[i].value && c->phase == RSHI_BACKWARD, RSH_EVALUE,
                "%s: cannot set the gradient of input %d: %s", c->op->name, i,
                what ? "each gradient can be set only once, and only in backward" : "the argument is NULL");
    return RSH_OK;
}

rsh_status rsh_call_set_input_grad(rsh_grad_call *c, int i, rsh_tensor *t) {
    rsh_status st = check_given(c, i, t);
    if (st || !rsh_call_needs_input_grad(c, i)) rsh_tensor_free(t);
    else c->edge[i].tensor = t;
    return st;
}

rsh_status rsh_call_set_input_grad_value(rsh_grad_call *c, int i, rsh_value *v) {
    rsh_status st = check_given(c, i, v);
    if (st || !rsh_call_needs_input_grad(c, i)) rsh_value_free(v);
    else c->edge[i].value = v;
    return st;
}

/* Every part passes the same value, so only the first one is used. */
rsh_status rsh_call_pass_grad(rsh_grad_call *c, int i, int j) {
    RSH_TRY(check_in(c, i));
    RSH_TRY(check_out(c, j));
    if (c->part || !rsh_call_needs_input_grad(c, i)) return RSH_OK;
    RSH_TRY(check_given(c, i, c));
    c->edge[i].value = rsh_value_hold(c->out[j].value);
    return RSH_OK;
}
