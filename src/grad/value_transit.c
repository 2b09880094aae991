/* Value transit: a reshard of a value in steps; it becomes part of the graph when it is complete. */
#include "grad/grad.h"

#include "grad/impl.h"

struct rsh_value_transit {
    rsh_value *v;         /* held: the source, or the result if nothing moves; NULL: neither */
    rsh_transit *transit; /* owned; NULL: nothing moves */
    rsh_layout *to;       /* held: layout of the result */
    rsh_derivative how;
    rsh_plan_opts opts;
    const rsh_value_kind *kind; /* kind of the result; NULL: none */
    void *kind_data;            /* held through the kind */
};

static rsh_value_transit *new_transit(rsh_value *v) {
    rsh_value_transit *t = RSHI_NEW(rsh_value_transit);
    if (t) *t = (rsh_value_transit){.v = rsh_value_hold(v), .opts = RSH_PLAN_OPTS_INIT};
    if (!t) rshi_nomem();
    return t;
}

rsh_status rshi_value_transit_new_done(rsh_value *v, rsh_value_transit **out) {
    rsh_value_transit *t = new_transit(v);
    if (!t) return RSH_ENOMEM;
    *out = t;
    return RSH_OK;
}

/* Records what backward needs. */
static void record_arguments(rsh_value_transit *t, const rsh_layout *to, rsh_derivative how,
                             const rsh_plan_opts *opts) {
    t->to = rsh_layout_hold(to);
    t->how = how;
    (void)RSHI_READ_OPTIONS(opts, RSH_PLAN_OPTS_INIT,
                            &t->opts); /* cannot fail, because the move has already read these options */
    t->opts.node_of = NULL;            /* belongs to the caller and is valid for this call only */
    t->opts.nnode_of = 0;
}

rsh_status rsh_value_reshard_begin(rsh_value *v, const rsh_layout *to, rsh_derivative how, const rsh_plan_opts *opts,
                                   rsh_value_transit **out) {
    RSH_REQUIRE(v && rsh_value_sharded(v), RSH_EVALUE, "reshard: v %s", v ? "must be distributed" : "is NULL");
    rsh_status st = rshi_reshard_check(v, to, how, out);
    rsh_value_transit *t = st ? NULL : new_transit(v);
    if (!st && !t) st = RSH_ENOMEM;
    rsh_transit *transit = NULL;
    st = rshi_transit_begin(rsh_value_comm(v), &(rshi_call){.name = "reshard"}, st, rsh_value_sharded(v), to, opts,
                            &transit);
    if (st) {
        rsh_value_transit_free(t);
        return st;
    }
    t->transit = transit;
    record_arguments(t, to, how, opts);
    *out = t;
    return RSH_OK;
}

void rshi_value_transit_set_kind(rsh_value_transit *t, const rsh_value_kind *kind, void *kind_data) {
    if (kind && kind->hold) kind->hold(kind_data);
    if (t->kind && t->kind->drop) t->kind->drop(t->kind_data);
    t->kind = kind;
    t->kind_data = kind_data;
}

rsh_status rsh_value_transit_test(rsh_value_transit *t, bool *done) {
    RSH_NEEDS(t);
    RSH_NEEDS(done);
    *done = true;
    return t->transit ? rsh_transit_test(t->transit, done) : RSH_OK;
}

static rsh_status complete_move(rsh_value_transit *t, rsh_value **out) {
    rsh_sharded *arrived = NULL;
    rsh_value *v = NULL;
    RSH_TRY(rsh_transit_wait(t->transit, &arrived));
    RSH_TRY(rshi_reshard_arrived(t->v, t->to, t->how, &t->opts, arrived, &v));
    rsh_status st = t->kind ? rsh_value_set_kind(v, t->kind, t->kind_data) : RSH_OK;
    if (st) rsh_value_free(v);
    else *out = v;
    return st;
}

rsh_status rsh_value_transit_wait(rsh_value_transit *t, rsh_value **out) {
    RSH_NEEDS(t);
    RSH_NEEDS(out);
    if (t->transit) return complete_move(t, out);
    *out = rsh_value_hold(t->v);
    return RSH_OK;
}

void rsh_value_transit_free(rsh_value_transit *t) {
    if (!t) return;
    rsh_transit_free(t->transit);
    rsh_value_free(t->v);
    rsh_layout_free(t->to);
    if (t->kind && t->kind->drop) t->kind->drop(t->kind_data);
    rshi_free(t);
}
