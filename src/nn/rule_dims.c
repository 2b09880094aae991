/* Rule dims: helpers that the placement rules of ops share. */
#include "nn/impl.h"

void rshn_rule_letter(rsh_rule_tensor *t, int d, int letter) { t->letter[d] = (signed char)letter; }

void rshn_rule_add_dim(rsh_rule_tensor *t, int64_t size, int letter) {
    t->shape[t->ndim] = size;
    rshn_rule_letter(t, t->ndim++, letter);
}

void rshn_rule_same(rsh_rule_tensor *in, rsh_rule_tensor *out) {
    for (int d = 0; d < in->ndim; d++) {
        rshn_rule_letter(in, d, d);
        rshn_rule_add_dim(out, in->shape[d], d);
    }
}

void rshn_rule_range(rsh_rule_tensor *t, int d, int64_t start, int64_t of) {
    t->start[d] = start;
    t->of[d] = of;
}

static rsh_status linear_pointwise(rsh_rule_dims *io) {
    io->in[0].term = 0;
    return rsh_rule_pointwise(io);
}

const rsh_placement_rule rshn_curved_rule = {rsh_rule_pointwise};
const rsh_placement_rule rshn_straight_rule = {linear_pointwise};

/* ---- in forward ---- */

/* Returns the comm of the distributed inputs; NULL if there is none. */
static rsh_comm *comm_of(const rsh_grad_call *c) {
    rsh_comm *comm = NULL;
    for (int i = 0; !comm && i < rsh_call_nin(c); i++) comm = rsh_value_comm(rsh_call_input_value(c, i));
    return comm;
}

rsh_status rshn_own_sizes(const rsh_grad_call *c, int i, const rshn_sizes *whole, rshn_sizes *out) {
    const rsh_layout *l = rsh_call_output_layout(c, i);
    rsh_part part;
    *out = *whole;
    if (!l) return RSH_OK;
    NN_TRY(rsh_layout_part(l, rsh_comm_rank(comm_of(c)), 0, &part));
    for (int d = 0; d < out->n; d++) out->at[d] = part.shape[d];
    return RSH_OK;
}

rsh_status rshn_own_start(const rsh_grad_call *c, int i, int d, int64_t *out) {
    const rsh_value *v = rsh_call_input_value(c, i);
    int64_t index[RSH_MAX_NDIM];
    *out = 0;
    if (!rsh_value_sharded(v) || !rsh_tensor_count(rsh_call_input(c, i))) return RSH_OK;
    NN_TRY(rsh_layout_global_index(rsh_value_layout(v), rsh_comm_rank(rsh_value_comm(v)), 0, 0, index));
    *out = index[d];
    return RSH_OK;
}

int64_t rshn_whole_count(const rsh_grad_call *c, int i, unsigned dims) {
    const rsh_value *v = rsh_call_input_value(c, i);
    int64_t n = 1;
    for (int d = 0; d < rsh_value_ndim(v); d++)
        if (dims >> d & 1) n *= rsh_value_shape(v)[d];
    return n;
}
