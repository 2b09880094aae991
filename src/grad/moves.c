/* Moves: reshard as an op, and conversions between plain and distributed values.
 *
 * Forward and backward use the comm's caches, so a training loop plans and binds only in its first step. */
#include "grad/impl.h"

#include <string.h>

#include "layout/layout.h"
#include "math/math.h"

/* These ops concern layouts only, so the kinds of their inputs do not replace them. */
static const rsh_grad_apply_opts as_it_is = RSH_GRAD_APPLY_OPTS_INIT;

/* ---- reshard ---- */

typedef struct moving {
    rsh_layout *from, *to; /* held by the copy of the attributes in the entry */
    rsh_comm *comm;
    rsh_derivative how;
    rsh_plan_opts opts;
    bool *opened;         /* forward only: set when errors of this rank reach the other ranks */
    rsh_sharded *arrived; /* forward only, borrowed: the result of a move in steps; NULL: move now */
} moving;

static rsh_comm *reshard_comm(const void *attrs) { return ((const moving *)attrs)->comm; }

static void reshard_drop(void *attrs) {
    moving *m = attrs;
    rsh_layout_free(m->from);
    rsh_layout_free(m->to);
}

static rsh_status out_sharded(rsh_grad_call *c, rsh_sharded *s) {
    rsh_value *v;
    rsh_status st = rsh_value_adopt_sharded(s, false, &v);
    if (!st) return rsh_call_set_output_value(c, 0, v);
    rsh_sharded_free(s);
    return st;
}

static rsh_status reshard_forward(rsh_grad_call *c) {
    moving *m = rsh_call_attrs(c);
    rsh_sharded *s;
    m->from = rsh_layout_hold(m->from);
    m->to = rsh_layout_hold(m->to);
    *m->opened = true;
    m->opened = NULL;
    if (m->arrived) s = m->arrived;
    else RSH_TRY(rsh_reshard(rsh_value_sharded(rsh_call_input_value(c, 0)), m->to, &m->opts, &s));
    m->arrived = NULL;
    m->opts.node_of = NULL; /* belongs to the caller and is valid for this call only; backward asks the comm */
    m->opts.nnode_of = 0;
    m->opts.may_alias = false; /* the gradient may be changed in place, which must not change the source */
    return out_sharded(c, s);
}

/* Returns the number of contributions, by which avg divides. */
static double ncontributions(const rsh_layout *l) {
    const rsh_layout_desc *d = rsh_layout_describe(l);
    double n = 1;
    for (int i = 0; d->op == RSH_OP_AVG && i < d->npartial; i++) n *= (double)d->axis[d->partial[i]].size;
    return n;
}

static void scale_parts(const rsh_sharded *s, double by) {
    for (int64_t i = 0; i < s->nparts && by != 1; i++) rshi_scale_elements(s->part[i], by);
}

static rsh_status check_linear(const rsh_layout *l) {
    rsh_op op = rsh_layout_op(l);
    RSH_REQUIRE(!op || op == RSH_OP_SUM || op == RSH_OP_AVG, RSH_EUNSUP,
                "reshard: reduction %s has no derivative; use sum or avg", rsh_op_name(op));
    return RSH_OK;
}

/* Moves the gradient to the source's layout.  Every contribution to a sum gets the whole gradient. */
static rsh_status reshard_back(const moving *m, const rsh_sharded *g, rsh_sharded **out) {
    rsh_layout *to = NULL;
    rsh_status st = check_linear(m->from);
    if (!st) st = check_linear(m->to);
    if (!st) st = rshi_tape_unpartial(m->from, &to);
    if (st) return rsh_comm_agree(m->comm, st);
    st = rsh_reshard(g, to, &m->opts, out);
    rsh_layout_free(to);
    if (!st) scale_parts(*out, ncontributions(m->to) / ncontributions(m->from));
    return st;
}

/* Applies the adjoint.  The result has the parts of `from` and gets the layout of a gradient. */
static rsh_status apply_adjoint(const moving *m, const rsh_sharded *g, rsh_sharded **out) {
    rsh_layout *layout = NULL;
    rsh_status st = rshi_tape_unpartial(m->from, &layout);
    if (st) return rsh_comm_agree(m->comm, st);
    st = rshi_reshard_adjoint(m->comm, "reshard", g, m->from, m->to, &m->opts, out);
    if (st) {
        rsh_layout_free(layout);
        return st;
    }
    rsh_layout_free((*out)->layout);
    (*out)->layout = layout;
    return RSH_OK;
}

/* Moves the gradient to the parts of `to`, which the adjoint requires, and applies the adjoint. */
static rsh_status reshard_adjoint(const moving *m, const rsh_sharded *g, rsh_sharded **out) {
    rsh_layout *to = NULL;
    rsh_sharded *brought = NULL;
    rsh_status st = rshi_tape_unpartial(m->to, &to);
    if (st) return rsh_comm_agree(m->comm, st);
    if (!rsh_layout_equal(g->layout, to)) st = rsh_reshard(g, to, NULL, &brought);
    rsh_layout_free(to);
    if (!st) st = apply_adjoint(m, brought ? brought : g, out);
    rsh_sharded_free(brought);
    return st;
}

static rsh_status reshard_gradient(const moving *m, const rsh_sharded *g, rsh_sharded **out) {
    return (m->how == RSH_DERIVATIVE_BACKWARD ? reshard_back : reshard_adjoint)(m, g, out);
}

/* Creates zeros for a missing gradient. */
static rsh_status zeros_for(const moving *m, rsh_sharded **out) {
    rsh_layout *layout = NULL;
    rsh_status st = rshi_tape_unpartial(m->to, &layout);
    if (!st) st = rsh_sharded_zeros(m->comm, layout, out);
    rsh_layout_free(layout);
    return st ? rsh_comm_agree(m->comm, st) : RSH_OK;
}

static rsh_status reshard_backward(rsh_grad_call *c) {
    const moving *m = rsh_call_attrs(c);
    const rsh_value *g = rsh_call_output_grad_value(c, 0);
    rsh_sharded *zeros = NULL, *s = NULL;
    rsh_value *v = NULL;
    if (!g) RSH_TRY(zeros_for(m, &zeros));
    rsh_status st = reshard_gradient(m, g ? rsh_value_sharded(g) : zeros, &s);
    rsh_sharded_free(zeros);
    if (!st) st = rsh_value_adopt_sharded(s, false, &v);
    if (st) rsh_sharded_free(s);
    return st ? st : rsh_call_set_input_grad_value(c, 0, v);
}

static const rsh_grad_op reshard_op = {.name = "reshard",
                                       .forward = reshard_forward,
                                       .backward = reshard_backward,
                                       .parts = RSH_PARTS_ANY,
                                       .attr_bytes = sizeof(moving),
                                       .drop = reshard_drop,
                                       .comm = reshard_comm,
                                       .any_gradient = true};

rsh_status rshi_reshard_check(const rsh_value *v, const rsh_layout *to, rsh_derivative how, const void *out) {
    RSH_REQUIRE(to && out, RSH_EVALUE, "reshard: layout and out must not be NULL");
    RSH_REQUIRE(how == RSH_DERIVATIVE_ADJOINT || how == RSH_DERIVATIVE_BACKWARD, RSH_EVALUE,
                "reshard: unknown derivative %d", (int)how);
    RSH_REQUIRE(!v->requires_grad || !rsh_grad_enabled() || rshi_differentiable(rsh_layout_dtype(to)), RSH_EUNSUP,
                "reshard: cannot record a gradient through dtype %s; use f32 or f64",
                rsh_dtype_name(rsh_layout_dtype(to)));
    return RSH_OK;
}

/* Takes ownership of `arrived`, unless it fails. */
static rsh_status apply_reshard(rsh_value *v, const rsh_layout *to, rsh_derivative how, const rsh_plan_opts *opts,
                                rsh_sharded *arrived, bool *opened, rsh_value **out) {
    moving m = {.from = (rsh_layout *)rsh_value_layout(v), .to = (rsh_layout *)to, .comm = rsh_value_comm(v)};
    m.how = how;
    m.opened = opened;
    m.arrived = arrived;
    m.opts = (rsh_plan_opts)RSH_PLAN_OPTS_INIT;
    if (RSHI_READ_OPTIONS(opts, RSH_PLAN_OPTS_INIT, &m.opts))
        m.opts.struct_size = 0; /* makes the move fail, which reports the error on all ranks */
    return rsh_grad_apply_with(&reshard_op, &m, 1, &v, 1, &as_it_is, out);
}

rsh_status rsh_value_reshard(rsh_value *v, const rsh_layout *to, rsh_derivative how, const rsh_plan_opts *opts,
                             rsh_value **out) {
    RSH_REQUIRE(v && rsh_value_sharded(v), RSH_EVALUE, "reshard: v %s", v ? "must be distributed" : "is NULL");
    bool opened = false;
    rsh_status st = rshi_reshard_check(v, to, how, out);
    if (!st) st = apply_reshard(v, to, how, opts, NULL, &opened, out);
    return st && !opened ? rsh_comm_agree(rsh_value_comm(v), st) : st;
}

rsh_status rshi_reshard_arrived(rsh_value *v, const rsh_layout *to, rsh_derivative how, const rsh_plan_opts *opts,
                                rsh_sharded *arrived, rsh_value **out) {
    bool opened = false;
    rsh_status st = apply_reshard(v, to, how, opts, arrived, &opened, out);
    if (st && !opened) rsh_sharded_free(arrived);
    return st;
}

/* ---- from and to plain values ---- */

typedef struct tagging {
    rsh_comm *comm;
    const rsh_layout *layout; /* in forward only */
} tagging;

static rsh_status tag_forward(rsh_grad_call *c) {
    tagging *t = rsh_call_attrs(c);
    const rsh_tensor *in = rsh_call_input(c, 0);
    rsh_sharded *s;
    RSH_TRY(rsh_sharded_from_tensors(t->comm, t->layout, 1, &in, &s));
    t->layout = NULL;
    return out_sharded(c, s);
}

/* Creates a view of the same elements. */
static rsh_status new_view(const rsh_tensor *t, rsh_tensor **out) {
    return rsh_tensor_view(t, 0, rsh_tensor_ndim(t), rsh_tensor_shape(t), rsh_tensor_strides(t), out);
}

static rsh_status pass_view(rsh_grad_call *c) {
    rsh_tensor *t;
    RSH_TRY(new_view(rsh_call_output_grad(c, 0), &t));
    return rsh_call_set_input_grad(c, 0, t);
}

static const rsh_grad_op tag_op = {.name = "tag",
                                   .forward = tag_forward,
                                   .backward = pass_view,
                                   .parts = RSH_PARTS_ANY,
                                   .attr_bytes = sizeof(tagging)};

rsh_status rsh_value_from_local(rsh_value *v, rsh_comm *comm, const rsh_layout *layout, rsh_value **out) {
    RSH_NEEDS(v);
    RSH_NEEDS(out);
    RSH_REQUIRE(!rsh_value_sharded(v), RSH_EVALUE,
                "rsh_value_from_local: the value must be plain, but it has layout \"%.300s\"",
                rsh_layout_text(rsh_value_layout(v)));
    RSH_REQUIRE(comm && layout, RSH_EVALUE, "rsh_value_from_local: comm and layout must not be NULL");
    return rsh_grad_apply_with(&tag_op, &(tagging){comm, layout}, 1, &v, 1, &as_it_is, out);
}

static rsh_status untag_forward(rsh_grad_call *c) {
    rsh_tensor *t;
    RSH_TRY(new_view(rsh_call_input(c, 0), &t));
    return rsh_call_set_output(c, 0, t);
}

static const rsh_grad_op untag_op = {.name = "untag", .forward = untag_forward, .backward = pass_view};

rsh_status rsh_value_to_local(rsh_value *v, rsh_value **out) {
    RSH_NEEDS(v);
    RSH_NEEDS(out);
    return rsh_grad_apply_with(&untag_op, NULL, 1, &v, 1, &as_it_is, out);
}
