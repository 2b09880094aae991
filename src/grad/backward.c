/* Backward: visits the ops of a graph, latest op first.
 *
 * Every op is newer than the ops that computed its inputs.  So the pending op with the highest number has all its
 * gradients, because no op that is visited later can reach it.  Ranks that created the same ops visit them in the same
 * order.  Leaves get their gradients only when the whole backward has succeeded on all ranks. */
#include "grad/impl.h"

#include <stdio.h>

typedef struct walking {
    uint64_t number; /* number of this backward */
    bool retain;
    rshi_entry *heap; /* held, with all entries below it: the pending entries, highest number first; NULL: none */
    rsh_value **leaf; /* owned: the leaves, each held, in the order in which they were reached */
    int64_t nleaf, leaf_room;
    rsh_comm **comm; /* owned; comms of collective ops visited so far */
    int64_t ncomm, comm_room;
    rsh_comm **told; /* owned; comms whose ranks know that this rank has failed */
    int64_t ntold, told_room;
    rsh_status status;              /* error of this rank; the walk continues, to tell the other ranks */
    char detail[RSHI_DETAIL_BYTES]; /* its message */
} walking;

/* ---- pending entries ---- */

/* A pairing heap: entries are linked to each other, so it needs no memory.  A rank that has run out of memory can still
 * continue and tell the others. */
static rshi_entry *meld(rshi_entry *a, rshi_entry *b) {
    if (!a || !b) return a ? a : b;
    rshi_entry *top = a->number > b->number ? a : b, *below = top == a ? b : a;
    below->sibling = top->child;
    top->child = below;
    return top;
}

static rsh_status push_entry(walking *w, rshi_entry *n) {
    if (n->walk == w->number) return RSH_OK;
    RSH_REQUIRE(!n->walk, RSH_ERUNTIME, "nested backward: the graph is already used by the outer backward, at %s",
                n->op->name);
    n->walk = w->number;
    n->child = n->sibling = NULL;
    w->heap = meld(w->heap, rshi_entry_hold(n));
    return RSH_OK;
}

/* Melds neighbours first, then the pairs from the last to the first: log n steps on average. */
static rshi_entry *pop_entry(walking *w) {
    rshi_entry *top = w->heap, *pairs = NULL, *rest = NULL;
    for (rshi_entry *a = top->child, *next; a; a = next) {
        rshi_entry *b = a->sibling;
        next = b ? b->sibling : NULL;
        a->sibling = NULL;
        if (b) b->sibling = NULL;
        rshi_entry *pair = meld(a, b);
        pair->sibling = pairs;
        pairs = pair;
    }
    for (rshi_entry *next; pairs; pairs = next) {
        next = pairs->sibling;
        pairs->sibling = NULL;
        rest = meld(rest, pairs);
    }
    w->heap = rest;
    return top;
}

static rsh_status reach_leaf(walking *w, rsh_value *leaf) {
    if (leaf->walk == w->number) return RSH_OK;
    RSH_REQUIRE(!leaf->walk, RSH_ERUNTIME, "nested backward: a leaf is already used by the outer backward");
    RSH_TRY(RSHI_GROW(w->leaf, w->nleaf + 1, &w->leaf_room));
    leaf->walk = w->number;
    w->leaf[w->nleaf++] = rsh_value_hold(leaf);
    return RSH_OK;
}

/* ---- passing on gradients ---- */

/* Adds g to the gradient of output `out`; takes ownership of g. */
static rsh_status deliver_to_node(rshi_entry *n, int out, rsh_value *g, const char *who) {
    rsh_status st = rshi_profile_match_shape(&n->out[out].form, g, who, "the gradient of an input");
    if (st) {
        rsh_value_free(g);
        return st;
    }
    return rshi_gradient_add(&n->out[out].value, g);
}

static rsh_status deliver_to_leaf(rsh_value *leaf, rsh_value *g, const char *who) {
    rshi_profile form;
    rshi_profile_of(leaf->payload, &form);
    rsh_status st = rshi_profile_match_shape(&form, g, who, "the gradient of an input");
    rshi_profile_end(&form);
    if (st) {
        rsh_value_free(g);
        return st;
    }
    return rshi_gradient_add(&leaf->pending, g);
}

static rsh_status follow_link(walking *w, rshi_input *e) {
    if (e->node) return push_entry(w, e->node);
    return e->leaf ? reach_leaf(w, e->leaf) : RSH_OK;
}

/* Visits every op behind this one, even without a gradient, because its collective calls must be made. */
static rsh_status follow_all(walking *w, rshi_entry *n) {
    rsh_status st = RSH_OK;
    for (int i = 0; i < n->nin; i++) {
        rsh_status one = follow_link(w, &n->edge[i]);
        if (!st) st = one;
    }
    return st;
}

/* ---- one op ---- */

static bool has_gradient(const rshi_entry *n) {
    for (int i = 0; i < n->nout; i++)
        if (n->out[i].value) return true;
    return false;
}

static rsh_status run_part(rshi_entry *n) {
    RSH_TRY(n->op->backward(n));
    if (!n->tensors) return RSH_OK;
    for (int i = 0; i < n->nin; i++) {
        n->tensors[i * n->nparts + n->part] = n->edge[i].tensor;
        n->edge[i].tensor = NULL;
    }
    return RSH_OK;
}

static rsh_status run_parts(rshi_entry *n) {
    rsh_status st = RSH_OK;
    for (n->part = 0; n->part < n->nparts && !st; n->part++) st = run_part(n);
    n->part = 0;
    return st;
}

/* A plain input is used in every part, so its gradient is the sum of the gradients of the parts. */
static rsh_status sum_parts(rshi_entry *n, rsh_tensor **parts, rsh_value **out) {
    for (int64_t p = 0; p < n->nparts; p++) {
        rsh_value *g = NULL;
        if (!parts[p]) continue;
        RSH_TRY(rshi_parts_assemble(n->op->name, NULL, NULL, 1, &parts[p], &g));
        RSH_TRY(rshi_gradient_add(out, g));
    }
    return RSH_OK;
}

/* Returns the gradient that backward set for input i, as a value; NULL: none. */
static rsh_status collect_gradient(rshi_entry *n, int i, rsh_value **out) {
    rshi_input *e = &n->edge[i];
    rsh_tensor **parts = n->tensors ? n->tensors + i * n->nparts : &e->tensor;
    *out = e->value;
    e->value = NULL;
    if (*out || (n->nparts ? !parts[0] : !e->grad_layout)) return RSH_OK;
    if (!e->grad_layout) return sum_parts(n, parts, out);
    return rshi_parts_assemble(n->op->name, n->comm, e->grad_layout, n->nparts, parts, out);
}

static rsh_status deliver_gradient(rshi_entry *n, int i) {
    rshi_input *e = &n->edge[i];
    rsh_value *g = NULL;
    rsh_status st = collect_gradient(n, i, &g);
    if (st) rsh_value_free(g);
    if (st || !g) return st;
    return e->node ? deliver_to_node(e->node, e->out, g, n->op->name) : deliver_to_leaf(e->leaf, g, n->op->name);
}

static rsh_status bring_output_gradients(rshi_entry *n) {
    for (int i = 0; i < n->nout && !n->op->any_gradient; i++) {
        rshi_output *o = &n->out[i];
        if (o->value) RSH_TRY(rshi_gradient_bring(&o->value, o->grad_layout));
    }
    return RSH_OK;
}

static rsh_status run_backward(rshi_entry *n) {
    RSH_REQUIRE(n->op->backward, RSH_EUNSUP,
                "%s has no derivative; detach its inputs or do not call backward through it", n->op->name);
    RSH_TRY(bring_output_gradients(n));
    if (n->nparts > 1) {
        n->tensors = rshi_calloc((size_t)(n->nparts * n->nin), sizeof *n->tensors);
        if (!n->tensors) return rshi_nomem();
    }
    n->phase = RSHI_BACKWARD;
    rsh_comm *comm = n->op->comm ? n->op->comm(n->attrs) : NULL;
    uint64_t calls = rshi_calls_of(comm);
    rsh_status st = run_parts(n);
    if (st) rshi_tape_note_failure(rshi_tape_mine(), comm, calls);
    RSH_TRY(st);
    for (int i = 0; i < n->nin; i++) RSH_TRY(deliver_gradient(n, i));
    return RSH_OK;
}

/* Removes all data of this backward from the node, after success or failure. */
static void clear_entry(rshi_entry *n) {
    for (int i = 0; n->tensors && i < n->nin * n->nparts; i++) rsh_tensor_free(n->tensors[i]);
    rshi_free(n->tensors);
    n->tensors = NULL;
    for (int i = 0; i < n->nin; i++) {
        rsh_tensor_free(n->edge[i].tensor);
        rsh_value_free(n->edge[i].value);
        n->edge[i].tensor = NULL;
        n->edge[i].value = NULL;
    }
    for (int i = 0; i < n->nout; i++) {
        rsh_value_free(n->out[i].value);
        n->out[i].value = NULL;
    }
    rshi_slots_forget(n);
    n->phase = RSHI_IDLE;
    n->walk = 0;
}

/* ---- telling other ranks of errors ---- */

static rsh_status add_comm(rsh_comm ***list, int64_t *n, int64_t *room, rsh_comm *comm) {
    for (int64_t i = 0; i < *n; i++)
        if ((*list)[i] == comm) return RSH_OK;
    RSH_TRY(RSHI_GROW(*list, *n + 1, room));
    (*list)[(*n)++] = comm;
    return RSH_OK;
}

static bool knows(const walking *w, const rsh_comm *comm) {
    for (int64_t i = 0; i < w->ntold; i++)
        if (w->told[i] == comm) return true;
    return false;
}

/* Tells the other ranks of the comm, which are or will be in a collective call, that this rank has failed.  This rank's
 * status ends that call. */
static void tell_comm(walking *w, rsh_comm *comm) {
    if (!comm || knows(w, comm)) return;
    rshi_set_detail(w->detail);
    rsh_comm_agree(comm, w->status);
    /* if memory has run out, the comm is not recorded and will be told again */
    add_comm(&w->told, &w->ntold, &w->told_room, comm);
}

/* Tells the comms of the op.  Its prefetches must end before any other comm is told, because a rank that learns of the
 * error ends its own prefetches at once. */
static void tell_comms_of(walking *w, rshi_entry *n) {
    for (int i = 0; i < n->nslots; i++)
        if (n->slot[i].pair) tell_comm(w, n->slot[i].pair->hooks.comm);
    rshi_slots_forget(n);
    if (n->op->comm) tell_comm(w, n->op->comm(n->attrs));
    if (n->moved) tell_comm(w, n->comm);
}

/* Tells the other ranks that this rank has failed in the op; only then can prefetches that were not read end. */
static void tell_prefetched(walking *w, const rshi_entry *n) {
    for (int i = 0; i < n->nslots && w->status; i++)
        if (rshi_slot_is_ahead(&n->slot[i])) tell_comm(w, n->slot[i].pair->hooks.comm);
}

/* Records an error of this rank.  If it occurred in a collective call, all ranks of that comm know it already. */
static void record_error(walking *w, rsh_status st) {
    rshi_tape *tape = rshi_tape_mine();
    if (st && tape->failed_on) add_comm(&w->told, &w->ntold, &w->told_room, tape->failed_on);
    tape->failed_on = NULL;
    if (!st || w->status) return;
    w->status = st;
    snprintf(w->detail, sizeof w->detail, "%s", rsh_error_detail());
}

/* ---- the walk ---- */

static rsh_status note_comms(walking *w, rshi_entry *n) {
    rsh_comm *comm = n->op->comm ? n->op->comm(n->attrs) : NULL;
    if (comm) RSH_TRY(add_comm(&w->comm, &w->ncomm, &w->comm_room, comm));
    if (n->moved && n->comm) RSH_TRY(add_comm(&w->comm, &w->ncomm, &w->comm_room, n->comm));
    for (int i = 0; i < n->nslots; i++)
        if (n->slot[i].pair && n->slot[i].pair->hooks.comm)
            RSH_TRY(add_comm(&w->comm, &w->ncomm, &w->comm_room, n->slot[i].pair->hooks.comm));
    return RSH_OK;
}

/* Does everything that must happen before the op's own backward. */
static rsh_status prepare_entry(walking *w, rshi_entry *n) {
    RSH_REQUIRE(!n->used, RSH_ERUNTIME,
                "cannot run backward through %s again: its saved tensors were released; pass RSH_RETAIN_GRAPH to the "
                "first backward",
                n->op->name);
    rsh_status noted = note_comms(w, n);
    RSH_TRY(follow_all(w, n));
    RSH_TRY(noted);
    return w->heap ? rshi_slots_prefetch(w->heap) : RSH_OK;
}

static void visit_entry(walking *w, rshi_entry *n) {
    record_error(w, prepare_entry(w, n));
    if (w->status) {
        if (!n->used) tell_comms_of(w, n); /* other ranks will make its collective calls */
        return;
    }
    if (has_gradient(n) || n->op->comm) record_error(w, run_backward(n));
    tell_prefetched(w, n);
    if (w->status && n->op->comm) tell_comm(w, n->op->comm(n->attrs)); /* the other ranks are in the op's backward */
}

static void visit_next(walking *w) {
    rshi_entry *n = pop_entry(w);
    if (!w->status) {
        visit_entry(w, n);
    } else if (!n->used) {
        tell_comms_of(w, n);
        follow_all(w, n);
    }
    clear_entry(n);
    if (!w->retain || w->status) rshi_entry_release(n);
    rshi_entry_drop(n);
}

/* ---- leaves ---- */

/* Prepares the new gradient of a leaf, with everything that can fail: moves it to the leaf's layout, and to separate
 * memory if the leaf has no gradient yet. */
static rsh_status prepare_leaf(rsh_value *leaf) {
    if (!leaf->pending) return RSH_OK;
    RSH_TRY(rshi_gradient_bring_to(&leaf->pending, leaf));
    return leaf->grad ? RSH_OK : rshi_gradient_own(&leaf->pending);
}

static void prepare_leaves(walking *w) {
    for (int64_t i = 0; i < w->nleaf && !w->status; i++) record_error(w, prepare_leaf(w->leaf[i]));
}

static void settle_leaf(rsh_value *leaf) {
    if (!leaf->pending) return;
    if (leaf->grad) rshi_gradient_add_into(leaf->grad, leaf->pending);
    else leaf->grad = rsh_value_hold(leaf->pending);
    rshi_payload_set_kind(leaf->grad->payload, leaf->payload->kind, leaf->payload->kind_data);
}

static void settle_leaves(walking *w) {
    for (int64_t i = 0; i < w->ncomm; i++) {
        if (knows(w, w->comm[i])) continue;
        if (w->status) rshi_set_detail(w->detail);
        record_error(w, rsh_comm_agree(w->comm[i], w->status));
    }
    for (int64_t i = 0; i < w->nleaf; i++) {
        if (!w->status) settle_leaf(w->leaf[i]);
        w->leaf[i]->walk = 0;
        rsh_value_free(w->leaf[i]->pending);
        w->leaf[i]->pending = NULL;
        rsh_value_free(w->leaf[i]);
    }
}

/* ---- the start ---- */

static rsh_status ones_for(const rsh_value *v, rsh_value **out) {
    int64_t count = 1;
    for (int d = 0; d < rsh_value_ndim(v); d++) count *= rsh_value_shape(v)[d];
    RSH_REQUIRE(count == 1, RSH_EVALUE,
                "backward: the value has %lld elements, so a seed is required; only values with 1 element need none",
                (long long)count);
    return rshi_gradient_ones(v, out);
}

static rsh_status check_start(const rsh_value *v, const rsh_value *seed) {
    RSH_REQUIRE(v, RSH_EVALUE, "backward: v is NULL");
    RSH_REQUIRE(v->requires_grad, RSH_ERUNTIME, "backward: the value requires no gradient and has no history");
    if (!seed) return RSH_OK;
    return rshi_gradient_check(v, seed, "backward", "the seed");
}

static rsh_status start_at(walking *w, rsh_value *v, rsh_value *seed) {
    rsh_value *g = NULL;
    RSH_TRY(v->node ? push_entry(w, v->node) : reach_leaf(w, v));
    if (seed) RSH_TRY(rshi_gradient_seed(v, seed, &g));
    else
        RSH_TRY(ones_for(v, &g));
    return v->node ? deliver_to_node(v->node, v->out, g, "backward") : deliver_to_leaf(v, g, "backward");
}

static void free_walking(walking *w) {
    rshi_free(w->leaf);
    rshi_free(w->comm);
    rshi_free(w->told);
}

rsh_status rsh_backward_many(int n, rsh_value *const *v, rsh_value *const *seeds, unsigned flags) {
    RSH_REQUIRE(n > 0 && v, RSH_EVALUE, "backward: at least 1 value is required, got %d", n);
    RSH_REQUIRE(!(flags & ~(unsigned)RSH_RETAIN_GRAPH), RSH_EVALUE, "backward: unknown flags %u", flags);
    for (int i = 0; i < n; i++) RSH_TRY(check_start(v[i], seeds ? seeds[i] : NULL));
    rshi_tape *tape = rshi_tape_mine();
    if (!tape) return rshi_nomem();
    walking w = {.number = ++tape->walks, .retain = flags & RSH_RETAIN_GRAPH, .detail = ""};
    tape->failed_on = NULL; /* a read of a saved slot outside of backward may have set this */
    bool was = rsh_grad_enable(false);
    for (int i = 0; i < n && !w.status; i++) record_error(&w, start_at(&w, v[i], seeds ? seeds[i] : NULL));
    while (w.heap) visit_next(&w);
    prepare_leaves(&w);
    settle_leaves(&w);
    rsh_grad_enable(was);
    free_walking(&w);
    if (w.status) rshi_set_detail(w.detail); /* later calls may have set another message */
    return w.status;
}

rsh_status rsh_backward(rsh_value *v, rsh_value *seed, unsigned flags) {
    return rsh_backward_many(1, &v, seed ? &seed : NULL, flags);
}
