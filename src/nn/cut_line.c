/* Cut line: if a row is cut over ranks, these ranks reduce some numbers of each row, with one plan.
 *
 * The numbers form a tensor of their own.  It is cut like the value, except along the rows, where it is partial.
 * Redistributing it to replicated reduces the numbers among exactly those ranks. */
#include "nn/cut_line.h"

static bool is_cut(const rsh_layout_desc *d, unsigned dims) {
    for (int i = 0; i < d->ndim; i++)
        if (dims >> i & 1 && (d->dim[i].cut.naxes || d->dim[i].nsegments)) return true;
    return d->is_boxes || d->flat.naxes;
}

static rsh_status check_axes(const rsh_layout *layout) {
    const rsh_layout_desc *d = rsh_layout_describe(layout);
    bool plain = !d->is_boxes && !d->flat.naxes && !d->op;
    for (int i = 0; i < d->ndim; i++) plain = plain && !d->dim[i].nsegments;
    if (plain) return RSH_OK;
    return rshn_fail(RSH_EUNSUP,
                     "cannot reduce over rows: layout \"%.200s\" must be cut by mesh axes and not be "
                     "partial",
                     rsh_layout_text(layout));
}

rsh_status rshn_line_of(rsh_comm *comm, const rsh_layout *layout, unsigned dims, rshn_line *out) {
    *out = (rshn_line){.comm = NULL};
    if (!comm || !layout || !is_cut(rsh_layout_describe(layout), dims)) return RSH_OK;
    NN_TRY(check_axes(layout));
    *out = (rshn_line){comm, rsh_layout_hold(layout), dims};
    return RSH_OK;
}

rsh_status rshn_line_of_input(const rsh_grad_call *c, int i, unsigned dims, rshn_line *out) {
    const rsh_value *v = rsh_call_input_value(c, i);
    return rshn_line_of(rsh_value_comm(v), rsh_value_layout(v), dims, out);
}

void rshn_line_end(rshn_line *l) {
    rsh_layout_free(l->layout);
    *l = (rshn_line){.comm = NULL};
}

/* ---- reducing ---- */

/* Creates the layout of the numbers: partial along the axes that cut rows, or without these axes. */
static rsh_status numbers_layout(const rshn_line *l, rsh_op op, const rsh_tensor *part, rsh_layout **out) {
    rsh_layout_desc d = *rsh_layout_describe(l->layout);
    d.dtype = rsh_tensor_dtype(part);
    d.op = op;
    for (int i = 0; i < d.ndim; i++) {
        if (!(l->dims >> i & 1)) continue;
        for (int a = 0; op && a < d.dim[i].cut.naxes; a++) d.partial[d.npartial++] = d.dim[i].cut.axes[a];
        d.dim[i] = (rsh_dim){.size = rsh_tensor_shape(part)[i]};
    }
    return rsh_layout_new(&d, out);
}

static rsh_status wrap_numbers(const rshn_line *l, rsh_op op, const rsh_tensor *part, rsh_sharded **from) {
    rsh_layout *layout = NULL;
    NN_TRY(numbers_layout(l, op, part, &layout));
    rsh_status st = rsh_sharded_from_tensors(l->comm, layout, 1, &part, from);
    rsh_layout_free(layout);
    return st;
}

static rsh_status make_output(const rshn_line *l, const rsh_tensor *part, rsh_sharded **to, rsh_tensor **out) {
    rsh_layout *layout = NULL;
    NN_TRY(numbers_layout(l, RSH_OP_NONE, part, &layout));
    rsh_status st = rsh_sharded_empty(l->comm, layout, to);
    rsh_layout_free(layout);
    return st ? st : rshn_alias(rsh_sharded_part(*to, 0), out);
}

rsh_status rshn_line_combine(const rshn_line *l, rsh_status status, rsh_op op, rsh_tensor *part, rsh_tensor **out) {
    rsh_sharded *from = NULL, *to = NULL;
    rsh_tensor *all = NULL;
    if (!l->comm) {
        if (!status) *out = part;
        else rsh_tensor_free(part);
        return status;
    }
    rsh_status st = status ? status : wrap_numbers(l, op, part, &from);
    if (!st) st = make_output(l, part, &to, &all);
    st = st ? rsh_comm_agree(l->comm, st) : rsh_reshard_into(from, to, NULL);
    if (!st) *out = all;
    else rsh_tensor_free(all);
    rsh_sharded_free(from);
    rsh_sharded_free(to);
    rsh_tensor_free(part);
    return st;
}
