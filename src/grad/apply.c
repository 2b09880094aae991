/* Apply: applies an op to values and records the links that backward follows. */
#include "grad/impl.h"

/* ---- distributed inputs: they have one comm, and a number of parts that the op supports ---- */

static rsh_status find_comm(rshi_entry *n) {
    for (int i = 0; i < n->nin; i++) {
        rsh_comm *c = rsh_value_comm(n->edge[i].value);
        RSH_REQUIRE(!c || !n->comm || c == n->comm, RSH_EVALUE, "%s: inputs must have the same comm", n->op->name);
        if (c) n->comm = c;
    }
    return RSH_OK;
}

static rsh_status find_parts(rshi_entry *n) {
    int64_t nparts = -1;
    if (n->op->parts == RSH_PARTS_ANY) return RSH_OK;
    for (int i = 0; i < n->nin; i++) {
        const rsh_sharded *s = rsh_value_sharded(n->edge[i].value);
        if (!s) continue;
        RSH_REQUIRE(n->op->parts == RSH_PARTS_EACH || s->nparts == 1, RSH_EUNSUP,
                    "%s: every rank must have 1 part, but rank %d has %lld in layout \"%.300s\"", n->op->name,
                    s->comm->rank, (long long)s->nparts, rsh_layout_text(s->layout));
        RSH_REQUIRE(nparts < 0 || nparts == s->nparts, RSH_EVALUE,
                    "%s: inputs must have the same number of parts, got %lld and %lld", n->op->name, (long long)nparts,
                    (long long)s->nparts);
        nparts = s->nparts;
    }
    if (nparts >= 0) n->nparts = nparts;
    return RSH_OK;
}

/* Calls the op's own layouts function.  The caller provides the lists of `io`. */
static rsh_status take_layouts(rshi_entry *n, rsh_grad_layouts *io) {
    rsh_status st = n->op->layouts(io);
    for (int i = 0; i < n->nin; i++) n->edge[i].grad_layout = io->grad_in[i];
    for (int i = 0; i < n->nout; i++) {
        n->out[i].form.layout = io->out[i];
        n->out[i].grad_layout = io->grad_out[i];
    }
    return st;
}

static rsh_status ask_layouts(rshi_entry *n, rsh_value *const *in) {
    if (!n->op->layouts && n->op->parts == RSH_PARTS_ANY) return RSH_OK;
    RSH_REQUIRE(n->op->layouts, RSH_EUNSUP, "%s: distributed inputs are not supported", n->op->name);
    size_t lists = 2 * (size_t)(n->nin + n->nout);
    const void **room = rshi_calloc(lists, sizeof *room);
    if (!room) return rshi_nomem();
    const rsh_layout **layouts = (const rsh_layout **)room;
    for (int i = 0; i < n->nin; i++) layouts[i] = rsh_value_layout(in[i]);
    rsh_grad_layouts io = {.attrs = n->attrs, .nin = n->nin, .nout = n->nout, .in = layouts};
    io.values = (const rsh_value *const *)in;
    io.grad_in = (rsh_layout **)(room + n->nin);
    io.out = io.grad_in + n->nin;
    io.grad_out = io.out + n->nout;
    rsh_status st = take_layouts(n, &io);
    rshi_free(room);
    return st;
}

static void take_given_layouts(rshi_entry *n, const rsh_grad_apply_opts *as) {
    if (as->comm) n->comm = as->comm;
    n->moved = as->kind != NULL;
    for (int i = 0; i < n->nin && as->grad_in; i++) n->edge[i].grad_layout = rsh_layout_hold(as->grad_in[i]);
    for (int i = 0; i < n->nout && as->out; i++) n->out[i].form.layout = rsh_layout_hold(as->out[i]);
    for (int i = 0; i < n->nout && as->grad_out; i++) n->out[i].grad_layout = rsh_layout_hold(as->grad_out[i]);
}

static rsh_status set_layouts(rshi_entry *n, rsh_value *const *in, const rsh_grad_apply_opts *as) {
    RSH_TRY(find_comm(n));
    if (as) take_given_layouts(n, as);
    else RSH_TRY(ask_layouts(n, in));
    RSH_TRY(find_parts(n));
    if (n->nparts < 2) return RSH_OK;
    n->tensors = rshi_calloc((size_t)(n->nparts * n->nout), sizeof *n->tensors);
    return n->tensors ? RSH_OK : rshi_nomem();
}

/* ---- forward ---- */

static rsh_status check_outputs(const rshi_entry *n) {
    for (int i = 0; i < n->nout; i++)
        RSH_REQUIRE(n->out[i].tensor || n->out[i].value, RSH_EVALUE, "%s: forward did not set output %d", n->op->name,
                    i);
    return RSH_OK;
}

static rsh_status run_part(rshi_entry *n) {
    n->saving = 0;
    RSH_TRY(n->op->forward(n));
    RSH_TRY(check_outputs(n));
    if (!n->tensors) return RSH_OK;
    for (int i = 0; i < n->nout; i++) {
        n->tensors[i * n->nparts + n->part] = n->out[i].tensor;
        n->out[i].tensor = NULL;
    }
    return RSH_OK;
}

static rsh_status run_forward(rshi_entry *n) {
    bool was = rsh_grad_enable(false);
    rsh_status st = RSH_OK;
    n->phase = RSHI_FORWARD;
    for (n->part = 0; n->part < n->nparts && !st; n->part++) st = run_part(n);
    n->part = 0;
    rsh_grad_enable(was);
    return st;
}

/* Makes a value from what forward has set. */
static rsh_status settle_output(rshi_entry *n, int i) {
    rshi_output *o = &n->out[i];
    if (o->value) return RSH_OK;
    rsh_tensor **parts = n->tensors ? n->tensors + i * n->nparts : &o->tensor;
    return rshi_parts_assemble(n->op->name, n->comm, o->form.layout, n->nparts, parts, &o->value);
}

static rsh_status settle_outputs(rshi_entry *n, const rsh_grad_apply_opts *as) {
    for (int i = 0; i < n->nout; i++) {
        RSH_TRY(settle_output(n, i));
        if (as && as->kind) rshi_payload_set_kind(n->out[i].value->payload, as->kind, as->kind_data);
    }
    return RSH_OK;
}

/* ---- links ---- */

/* Every contribution to a partial value has its own gradient.  These are not reduced, so the layout of the gradient is
 * replicated. */
static rsh_status describe_input(rshi_input *e) {
    if (e->grad_layout || !rsh_value_requires_grad(e->value)) return RSH_OK;
    return rshi_gradient_layout(e->value, &e->grad_layout);
}

static rsh_status describe_output(rshi_output *o) {
    rsh_layout_free(o->form.layout); /* the layout that the rule returned; the value may have another dtype */
    rshi_profile_of(o->value->payload, &o->form);
    o->no_grad |= !rshi_differentiable(o->form.dtype);
    return o->grad_layout || o->no_grad ? RSH_OK : rshi_gradient_layout(o->value, &o->grad_layout);
}

static void link_input(rshi_input *e) {
    rsh_value *v = e->value;
    e->value = NULL;
    if (!rsh_value_requires_grad(v)) return;
    e->node = rshi_entry_hold(v->node);
    e->leaf = v->node ? NULL : rsh_value_hold(v);
    e->out = v->out;
}

static void link_output(rshi_entry *n, int i) {
    rsh_value *v = n->out[i].value;
    if (n->out[i].no_grad) return;
    v->requires_grad = true;
    v->node = rshi_entry_hold(n);
    v->out = i;
}

/* Records the links of the op.  Everything that can fail comes first. */
static rsh_status record_links(rshi_entry *n) {
    if (!n->recorded) return RSH_OK;
    RSH_TRY(rshi_slots_fill(n));
    for (int i = 0; i < n->nin; i++) RSH_TRY(describe_input(&n->edge[i]));
    for (int i = 0; i < n->nout; i++) RSH_TRY(describe_output(&n->out[i]));
    for (int i = 0; i < n->nin; i++) link_input(&n->edge[i]);
    for (int i = 0; i < n->nout; i++) link_output(n, i);
    return RSH_OK;
}

/* ---- the call ---- */

static rsh_status check_arguments(const rsh_grad_op *op, int nin, rsh_value *const *in, int nout, rsh_value **out) {
    RSH_REQUIRE(op && op->forward, RSH_EVALUE, "rsh_grad_apply: op and its forward function must not be NULL");
    RSH_REQUIRE(nin >= 0 && (!nin || in) && nout > 0 && out, RSH_EVALUE,
                "%s: an op needs at least 0 inputs and 1 output, in lists that are not NULL; got %d inputs%s and %d "
                "outputs%s", op->name, nin,
                nin > 0 && !in ? " (NULL)" : "", nout, nout > 0 && !out ? " (NULL)" : "");
    return RSH_OK;
}

static void begin_call(rshi_entry *n, rsh_value *const *in) {
    bool needed = false;
    for (int i = 0; i < n->nin; i++) {
        n->edge[i].value = in[i];
        needed |= rsh_value_requires_grad(in[i]);
    }
    n->recorded = needed && rsh_grad_enabled();
}

static bool any_distributed(int nin, rsh_value *const *in) {
    for (int i = 0; i < nin; i++)
        if (in[i] && in[i]->payload->sharded) return true;
    return false;
}

/* Cleans up after a call, successful or not. */
static void end_call(rshi_entry *n) {
    for (int i = 0; n->tensors && i < n->nout * n->nparts; i++) rsh_tensor_free(n->tensors[i]);
    rshi_free(n->tensors);
    n->tensors = NULL;
    for (int i = 0; i < n->nin; i++) n->edge[i].value = NULL;
    for (int i = 0; i < n->nout; i++) {
        rsh_tensor_free(n->out[i].tensor);
        n->out[i].tensor = NULL;
    }
    n->phase = RSHI_IDLE;
}

static void move_outputs(rshi_entry *n, rsh_value **out) {
    for (int i = 0; i < n->nout; i++) {
        out[i] = n->out[i].value;
        n->out[i].value = NULL;
    }
}

static rsh_status apply_op(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in, int nout,
                           const rsh_grad_apply_opts *as, rsh_value **out) {
    rshi_entry *n = rshi_entry_new(op, attrs, nin, nout);
    if (!n) return rshi_nomem();
    rsh_status st;
    begin_call(n, in);
    if (as || any_distributed(nin, in)) RSH_GOTO(set_layouts(n, in, as));
    RSH_GOTO(run_forward(n));
    RSH_GOTO(settle_outputs(n, as));
    RSH_GOTO(record_links(n));
    move_outputs(n, out);
out:
    end_call(n);
    rshi_entry_drop(n);
    return st;
}

/* Returns the kind of the first input that has one. */
static const rsh_value_kind *find_kind(int nin, rsh_value *const *in) {
    for (int i = 0; i < nin; i++)
        if (in[i] && in[i]->payload->kind) return in[i]->payload->kind;
    return NULL;
}

rsh_status rsh_grad_apply(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in, int nout,
                          rsh_value **out) {
    RSH_TRY(check_arguments(op, nin, in, nout, out));
    const rsh_value_kind *kind = find_kind(nin, in);
    return kind ? kind->apply(op, attrs, nin, in, nout, out) : apply_op(op, attrs, nin, in, nout, NULL, out);
}

rsh_status rsh_grad_apply_with(const rsh_grad_op *op, const void *attrs, int nin, rsh_value *const *in, int nout,
                               const rsh_grad_apply_opts *opts, rsh_value **out) {
    RSH_TRY(check_arguments(op, nin, in, nout, out));
    RSH_NEEDS(opts);
    rsh_grad_apply_opts o = RSH_GRAD_APPLY_OPTS_INIT;
    RSH_TRY(RSHI_READ_OPTIONS(opts, RSH_GRAD_APPLY_OPTS_INIT, &o));
    RSH_REQUIRE(!o.kind || o.kind->apply, RSH_EVALUE, "%s: the kind of the outputs must have an `apply` function",
                op->name);
    return apply_op(op, attrs, nin, in, nout, &o, out);
}
