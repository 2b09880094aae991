/* Backward: the walk through a graph, latest op first.
 *
 * Every op was created after the ops that made its inputs.  So the op with the highest number among those that wait has
 * all its gradients: nothing that comes later can reach it.  Ranks that created the same ops walk in the same order.
 * Leaves get their gradients only when the whole walk has succeeded on all ranks. */
#include "grad/impl.h"

#include <stdio.h>

typedef struct walking {
    uint64_t number; /* of this walk */
    bool retain;
    rshi_entry *heap; /* held, as all below it: those that wait, the highest number first; NULL: none */
    rsh_value **leaf; /* owned, each held: in the order in which they were reached */
    int64_t nleaf, leaf_room;
    rsh_comm **comm; /* owned: of collective ops met so far */
    int64_t ncomm, comm_room;
    rsh_comm **told; /* owned: those that know that this rank has failed */
    int64_t ntold, told_room;
    rsh_status status; /* why this rank has failed; the walk goes on to tell others */
    char detail[RSHI_DETAIL_BYTES]; /* its sentence */
} walking;

/* ---- those that wait ---- */

/* A pairing heap: entries are linked to one another, so that waiting takes no memory.  A rank that has run out of it
 * can still walk on and tell the others. */
static rshi_entry *meld(rshi_entry *a, rshi_entry *b) {
    if (!a || !b) return a ? a : b;
    rshi_entry *top = a->number > b->number ? a : b, *below = top == a ? b : a;
    below->sibling = top->child;
    top->child = below;
    return top;
}

static rsh_status push(walking *w, rshi_entry *n) {
    if (n->walk == w->number) return RSH_OK;
    RSH_REQUIRE(!n->walk, RSH_ERUNTIME, "a backward inside another one comes to the same graph, at %s", n->op->name);
    n->walk = w->number;
    n->child = n->sibling = NULL;
    w->heap = meld(w->heap, rshi_entry_hold(n));
    return RSH_OK;
}

/* Neighbours are melded first, then the pairs from the last to the first: log n steps on average. */
static rshi_entry *pop(walking *w) {
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
    RSH_REQUIRE(!leaf->walk, RSH_ERUNTIME, "a backward inside another one comes to the same leaf");
    RSH_TRY(RSHI_GROW(w->leaf, w->nleaf + 1, &w->leaf_room));
    leaf->walk = w->number;
    w->leaf[w->nleaf++] = rsh_value_hold(leaf);
    return RSH_OK;
}

/* ---- gradients on their way ---- */

/* Takes g over. */
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

static rsh_status follow(walking *w, rshi_input *e) {
    if (e->node) return push(w, e->node);
    return e->leaf ? reach_leaf(w, e->leaf) : RSH_OK;
}

/* Every op behind this one is visited, with a gradient or without: its collective calls must be made. */
static rsh_status follow_all(walking *w, rshi_entry *n) {
    rsh_status st = RSH_OK;
    for (int i = 0; i < n->nin; i++) {
        rsh_status one = follow(w, &n->edge[i]);
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

/* A plain input went into every part: its gradient is the sum of what the parts gave. */
static rsh_status sum_parts(rshi_entry *n, rsh_tensor **parts, rsh_value **out) {
    for (int64_t p = 0; p < n->nparts; p++) {
        rsh_value *g = NULL;
        if (!parts[p]) continue;
        RSH_TRY(rshi_parts_assemble(n->op->name, NULL, NULL, 1, &parts[p], &g));
        RSH_TRY(rshi_gradient_add(out, g));
    }
    return RSH_OK;
}

/* The gradient that backward gave input i, as a value; NULL: none. */
static rsh_status take_given(rshi_entry *n, int i, rsh_value **out) {
    rshi_input *e = &n->edge[i];
    rsh_tensor **parts = n->tensors ? n->tensors + i * n->nparts : &e->tensor;
    *out = e->value;
    e->value = NULL;
    if (*out || (n->nparts ? !parts[0] : !e->grad_layout)) return RSH_OK;
    if (!e->grad_layout) return sum_parts(n, parts, out);
    return rshi_parts_assemble(n->op->name, n->comm, e->grad_layout, n->nparts, parts, out);
}

static rsh_status deliver(rshi_entry *n, int i) {
    rshi_input *e = &n->edge[i];
    rsh_value *g = NULL;
    rsh_status st = take_given(n, i, &g);
    if (st) rsh_value_free(g);
    if (st || !g) return st;
    return e->node ? deliver_to_node(e->node, e->out, g, n->op->name) : deliver_to_leaf(e->leaf, g, n->op->name);
}

static rsh_status bring_all(rshi_entry *n) {
    for (int i = 0; i < n->nout && !n->op->any_gradient; i++) {
        rshi_output *o = &n->out[i];
        if (o->value) RSH_TRY(rshi_gradient_bring(&o->value, o->grad_layout));
    }
    return RSH_OK;
}

static rsh_status run(rshi_entry *n) {
    RSH_REQUIRE(n->op->backward, RSH_EUNSUP, "%s has no derivative", n->op->name);
    RSH_TRY(bring_all(n));
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
    for (int i = 0; i < n->nin; i++) RSH_TRY(deliver(n, i));
    return RSH_OK;
}

/* Whatever happened, the node has nothing left of this walk. */
static void clean(rshi_entry *n) {
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

/* ---- failing together ---- */

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

/* The other ranks of the comm are in a collective call, or will be: this rank's refusal ends it. */
static void tell(walking *w, rsh_comm *comm) {
    if (!comm || knows(w, comm)) return;
    rshi_set_detail(w->detail);
    rsh_comm_agree(comm, w->status);
    add_comm(&w->told, &w->ntold, &w->told_room, comm); /* without room, it is told again */
}

/* What was begun for the op ends before any other comm is told: a rank that has heard ends it at once. */
static void tell_of(walking *w, rshi_entry *n) {
    for (int i = 0; i < n->nslots; i++)
        if (n->slot[i].pair) tell(w, n->slot[i].pair->hooks.comm);
    rshi_slots_forget(n);
    if (n->op->comm) tell(w, n->op->comm(n->attrs));
    if (n->moved) tell(w, n->comm);
}

/* This rank has failed in the op: others must know before what was begun for it and not read can end. */
static void tell_of_begun(walking *w, const rshi_entry *n) {
    for (int i = 0; i < n->nslots && w->status; i++)
        if (rshi_slot_is_ahead(&n->slot[i])) tell(w, n->slot[i].pair->hooks.comm);
}

/* This rank has failed: alone, or in a collective call, and then all ranks of that comm know. */
static void failed(walking *w, rsh_status st) {
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

/* All that comes before the op itself. */
static rsh_status enter(walking *w, rshi_entry *n) {
    RSH_REQUIRE(!n->used, RSH_ERUNTIME,
                "a second backward through %s: the first one released what it had saved; retain the graph then",
                n->op->name);
    rsh_status noted = note_comms(w, n);
    RSH_TRY(follow_all(w, n));
    RSH_TRY(noted);
    return w->heap ? rshi_slots_prefetch(w->heap) : RSH_OK;
}

static void visit(walking *w, rshi_entry *n) {
    failed(w, enter(w, n));
    if (w->status) {
        if (!n->used) tell_of(w, n); /* other ranks go on to its collective calls */
        return;
    }
    if (has_gradient(n) || n->op->comm) failed(w, run(n));
    tell_of_begun(w, n);
    if (w->status && n->op->comm) tell(w, n->op->comm(n->attrs)); /* in whose backward the others are */
}

static void step(walking *w) {
    rshi_entry *n = pop(w);
    if (!w->status) {
        visit(w, n);
    } else if (!n->used) {
        tell_of(w, n);
        follow_all(w, n);
    }
    clean(n);
    if (!w->retain || w->status) rshi_entry_release(n);
    rshi_entry_drop(n);
}

/* ---- leaves ---- */

/* All that may fail: the gradient in the leaf's layout, and in memory of its own if the leaf has none yet. */
static rsh_status prepare_leaf(rsh_value *leaf) {
    if (!leaf->pending) return RSH_OK;
    RSH_TRY(rshi_gradient_bring_to(&leaf->pending, leaf));
    return leaf->grad ? RSH_OK : rshi_gradient_own(&leaf->pending);
}

static void prepare_leaves(walking *w) {
    for (int64_t i = 0; i < w->nleaf && !w->status; i++) failed(w, prepare_leaf(w->leaf[i]));
}

static void settle_leaf(rsh_value *leaf) {
    if (!leaf->pending) return;
    if (leaf->grad) rshi_gradient_add_into(leaf->grad, leaf->pending);
    else leaf->grad = rsh_value_hold(leaf->pending);
    rshi_payload_set_kind(leaf->grad->payload, leaf->payload->kind, leaf->payload->kind_data);
}

static void settle(walking *w) {
    for (int64_t i = 0; i < w->ncomm; i++) {
        if (knows(w, w->comm[i])) continue;
        if (w->status) rshi_set_detail(w->detail);
        failed(w, rsh_comm_agree(w->comm[i], w->status));
    }
    for (int64_t i = 0; i < w->nleaf; i++) {
        if (!w->status) settle_leaf(w->leaf[i]);
        w->leaf[i]->walk = 0;
        rsh_value_free(w->leaf[i]->pending);
        w->leaf[i]->pending = NULL;
        rsh_value_free(w->leaf[i]);
    }
}

/* ---- where it begins ---- */

static rsh_status ones(const rsh_value *v, rsh_value **out) {
    int64_t count = 1;
    for (int d = 0; d < rsh_value_ndim(v); d++) count *= rsh_value_shape(v)[d];
    RSH_REQUIRE(count == 1, RSH_EVALUE, "backward of a value of %lld elements needs a seed", (long long)count);
    return rshi_gradient_ones(v, out);
}

static rsh_status check_start(const rsh_value *v, const rsh_value *seed) {
    RSH_REQUIRE(v, RSH_EVALUE, "backward of NULL");
    RSH_REQUIRE(v->requires_grad, RSH_ERUNTIME, "backward of a value that requires no gradient and has no history");
    if (!seed) return RSH_OK;
    return rshi_gradient_check(v, seed, "backward", "the seed");
}

static rsh_status start(walking *w, rsh_value *v, rsh_value *seed) {
    rsh_value *g = NULL;
    RSH_TRY(v->node ? push(w, v->node) : reach_leaf(w, v));
    if (seed) RSH_TRY(rshi_gradient_seed(v, seed, &g));
    else RSH_TRY(ones(v, &g));
    return v->node ? deliver_to_node(v->node, v->out, g, "backward") : deliver_to_leaf(v, g, "backward");
}

static void end(walking *w) {
    rshi_free(w->leaf);
    rshi_free(w->comm);
    rshi_free(w->told);
}

rsh_status rsh_backward_many(int n, rsh_value *const *v, rsh_value *const *seeds, unsigned flags) {
    RSH_REQUIRE(n > 0 && v, RSH_EVALUE, "backward of %d values", n);
    RSH_REQUIRE(!(flags & ~(unsigned)RSH_RETAIN_GRAPH), RSH_EVALUE, "backward with flags %u", flags);
    for (int i = 0; i < n; i++) RSH_TRY(check_start(v[i], seeds ? seeds[i] : NULL));
    rshi_tape *tape = rshi_tape_mine();
    if (!tape) return rshi_nomem();
    walking w = {.number = ++tape->walks, .retain = flags & RSH_RETAIN_GRAPH, .detail = ""};
    tape->failed_on = NULL; /* of a read of a saved slot outside of any backward */
    bool was = rsh_grad_enable(false);
    for (int i = 0; i < n && !w.status; i++) failed(&w, start(&w, v[i], seeds ? seeds[i] : NULL));
    while (w.heap) step(&w);
    prepare_leaves(&w);
    settle(&w);
    rsh_grad_enable(was);
    end(&w);
    if (w.status) rshi_set_detail(w.detail); /* what came after may have left others */
    return w.status;
}

rsh_status rsh_backward(rsh_value *v, rsh_value *seed, unsigned flags) {
    return rsh_backward_many(1, &v, seed ? &seed : NULL, flags);
}
