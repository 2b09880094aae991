/* Adjoint: plans of the transposed map, and plans for gradients.
 *
 * If no element of `from` has replicas, every contribution goes to every rank that needs the result.  Then the
 * transpose is a move as well: from the layout `to`, whose copies become contributions to a sum, to the layout
 * `from`, whose contributions become copies of the result.  It is planned like any other move.  Otherwise the
 * transpose depends on which replica served which rank, and transposed.c finds that out. */
#include "plan/impl.h"

/* Returns the options of p; node_of is borrowed. */
static rsh_plan_opts same_opts(const rsh_plan *p) {
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    o.node_of = p->node_of;
    o.nnode_of = p->nnode_of;
    o.ranks_per_node = p->ranks_per_node;
    o.reduce = p->reduce;
    o.messages = p->messages;
    o.has_max_scratch = p->has_ceiling;
    o.max_scratch_bytes = (uint64_t)p->ceiling;
    return o;
}

static bool differentiable_dtype(rsh_dtype t) {
    return t == RSH_F16 || t == RSH_BF16 || t == RSH_F32 || t == RSH_F64 || t == RSH_F8E4M3 || t == RSH_F8E5M2 ||
           t == RSH_C64 || t == RSH_C128;
}

/* Copies, sum and avg are linear maps; so are conversions between floats.  The transpose adds up copies, and bool has
 * no sums. */
static rsh_status check_linear(const rshi_pair *pair) {
    rsh_op a = rsh_layout_op(pair->src), b = rsh_layout_op(pair->dst), op = a ? a : b;
    rsh_dtype f = rsh_layout_dtype(pair->src), t = rsh_layout_dtype(pair->dst);
    RSH_REQUIRE(!op || op == RSH_OP_SUM || op == RSH_OP_AVG, RSH_EUNSUP, "%s is not a linear map and has no transpose",
                rsh_op_name(op));
    RSH_REQUIRE(f == t || (differentiable_dtype(f) && differentiable_dtype(t)), RSH_EUNSUP,
                "the conversion from %s to %s is not one between floats and has no transpose", rsh_dtype_name(f),
                rsh_dtype_name(t));
    RSH_REQUIRE(f != RSH_BOOL || !rshi_layout_has_replicas(pair->to), RSH_EUNSUP,
                "bool values cannot be added, so a copy of it to several ranks has no transpose: use u8");
    return rsh_dtype_check_convert(t, f);
}

/* ---- the transpose as a move between layouts ---- */

static bool reverse_is_a_move(const rshi_pair *pair) {
    if (pair->fill_others || rshi_layout_has_replicas(pair->from)) return false;
    if (rsh_layout_dtype(pair->to) == RSH_BOOL && !pair->keep) return false; /* bool has no sums */
    return !rshi_layout_has_replicas(pair->to) || (!pair->keep && rshi_layout_has_groups(pair->to));
}

/* A pair that keeps its positions is simply reversed. */
static rsh_status make_reverse_move(rshi_pair *pair) {
    rsh_layout *from = NULL, *to = NULL;
    int64_t divisor = pair->divisor;
    if (pair->keep)
        from = rsh_layout_hold(pair->to), to = rsh_layout_hold(pair->from);
    else {
        RSH_TRY(rshi_layout_unpartial(pair->from, &to));
        rsh_status st = rshi_layout_sum_copies(pair->to, &from);
        if (st) rsh_layout_free(to);
        RSH_TRY(st);
    }
    rsh_layout_free(pair->from);
    rsh_layout_free(pair->to);
    pair->from = from, pair->to = to;
    RSH_TRY(rshi_pair_derive(pair));
    pair->divisor = divisor;
    if (divisor > 1) /* elements are divided before they are converted */
        pair->wire_size = (int64_t)rsh_dtype_size(rsh_layout_dtype(from));
    return RSH_OK;
}

rsh_status rshi_pair_transpose(rshi_pair *pair) {
    rsh_layout *src = pair->src;
    pair->src = pair->dst, pair->dst = src;
    pair->transposed = !reverse_is_a_move(pair);
    return pair->transposed ? RSH_OK : make_reverse_move(pair);
}

/* ---- plans ---- */

static rsh_status check_linear_plan(const rsh_plan *p) {
    for (int64_t t = 0; t < p->n; t++) RSH_TRY(check_linear(&p->pair[t]));
    return RSH_OK;
}

rsh_status rsh_plan_adjoint(const rsh_plan *p, rsh_plan **out) {
    RSH_NEEDS(p);
    RSH_NEEDS(out);
    const rsh_layout **list = rshi_alloc((size_t)(2 * p->n), sizeof *list);
    if (!list) return rshi_nomem();
    for (int64_t t = 0; t < p->n; t++) {
        const rshi_pair *pair = &p->pair[t];
        list[t] = p->adjoint ? pair->dst : pair->src, list[p->n + t] = p->adjoint ? pair->src : pair->dst;
    }
    rsh_plan_opts o = same_opts(p);
    rsh_status st = check_linear_plan(p);
    if (!st) st = rshi_plan_make(p->n, list, list + p->n, &o, !p->adjoint, out);
    rshi_free(list);
    return st;
}

rsh_status rsh_plan_backward(const rsh_plan *p, rsh_plan **out) {
    RSH_NEEDS(p);
    RSH_NEEDS(out);
    RSH_REQUIRE(!p->adjoint, RSH_EUNSUP, "an adjoint plan has no backward: use the plan itself");
    rsh_layout **to = rshi_calloc((size_t)p->n, sizeof *to);
    const rsh_layout **from = rshi_alloc((size_t)p->n, sizeof *from);
    rsh_plan_opts o = same_opts(p);
    rsh_status st = to && from ? RSH_OK : rshi_nomem();
    if (st) goto out;
    RSH_GOTO(check_linear_plan(p));
    for (int64_t t = 0; t < p->n; t++) {
        from[t] = p->pair[t].to;
        RSH_GOTO(rshi_layout_unpartial(p->pair[t].from, &to[t]));
    }
    RSH_GOTO(rsh_plan_new_many(p->n, from, (const rsh_layout *const *)to, &o, out));
out:
    for (int64_t t = 0; to && t < p->n; t++) rsh_layout_free(to[t]);
    rshi_free(to);
    rshi_free(from);
    return st;
}
