/* Recompute: a module call that keeps only its inputs, and runs forward again in backward.
 *
 * In the first run a pair of hooks replaces each tensor that an op saves by its number.  The first unpack starts the
 * second run, in which another pair of hooks keeps the saved tensors under the same numbers.  Backward never follows
 * the graph of the second run. */
#include "nn/recompute.h"

#include <reshard/nn/random.h>
#include <reshard/nn/recompute.h>

#include "nn/impl.h"

/* A tensor that an op inside the module has saved. */
typedef struct inside {
    uint64_t serial, version; /* serial number and version of a parameter's storage in the first run */
    rsh_value *value;         /* owned; from the second run; NULL: not run yet, or already read */
} inside;

/* State of one call.  It exists as long as a slot of its pair of hooks. */
typedef struct again {
    rsh_module *m; /* held */
    rsh_saved *in[RSHN_MOST_VALUES];       /* owned: the saved inputs; NULL: the input is missing */
    bool requires_grad[RSHN_MOST_VALUES];
    rsh_random_state random; /* random state before the first run */
    bool *training;          /* owned; modes of the modules of the tree, in the order of a walk */
    int64_t ntraining, training_room, at; /* number and capacity of `training`; at: position of the current walk */
    inside *slot;            /* owned */
    int64_t n, room, seen;   /* number and capacity of `slot`; seen: tensors saved so far in the second run */
    rsh_comm *comm;          /* borrowed: comm of the second run's collective calls; NULL: none */
} again;

static void drop_values(again *a) {
    for (int64_t i = 0; i < a->n; i++) {
        rsh_value_free(a->slot[i].value);
        a->slot[i].value = NULL;
    }
}

static void free_again(void *ctx) {
    again *a = ctx;
    drop_values(a);
    for (int i = 0; i < RSHN_MOST_VALUES; i++) rsh_saved_free(a->in[i]);
    rshn_free(a->slot);
    rshn_free(a->training);
    rsh_module_free(a->m);
    rshn_free(a);
}

/* ---- training modes ---- */

static rsh_status note_training(void *ctx, const char *path, rsh_module *m) {
    again *a = ctx;
    (void)path;
    NN_TRY(RSHN_GROW(a->training, a->ntraining + 1, &a->training_room));
    a->training[a->ntraining++] = m->training;
    return RSH_OK;
}

static rsh_status swap_module_training(void *ctx, const char *path, rsh_module *m) {
    again *a = ctx;
    (void)path;
    if (a->at >= a->ntraining) return RSH_OK;
    bool was = m->training;
    m->training = a->training[a->at];
    a->training[a->at++] = was;
    return RSH_OK;
}

/* Swaps the current modes with those of the first run. */
static rsh_status swap_training(again *a) {
    a->at = 0;
    return rsh_module_each_module(a->m, swap_module_training, a);
}

/* ---- the second run ---- */

/* Checks that a parameter has not changed.  An optimizer step between the two runs would silently give wrong
 * gradients. */
static rsh_status check_unchanged(const again *a, const inside *s, const rsh_value *v) {
    const rsh_tensor *t = rsh_value_part(v, 0);
    if (!s->serial || s->serial != rsh_tensor_storage_serial(t) || s->version == rsh_tensor_version(t)) return RSH_OK;
    return rshn_fail(RSH_ERUNTIME,
                     "%s: cannot recompute: a parameter was modified after forward, expected version %llu, found %llu",
                     a->m->kind->name, (unsigned long long)s->version, (unsigned long long)rsh_tensor_version(t));
}

static rsh_status keep_value(void *ctx, rsh_value *v, void **packed) {
    again *a = ctx;
    int64_t i = a->seen++;
    *packed = NULL;
    if (i >= a->n) return RSH_OK; /* the first run saved fewer tensors, so no slot reads this one */
    NN_TRY(check_unchanged(a, &a->slot[i], v));
    return rsh_value_detach(v, &a->slot[i].value);
}

static rsh_status refuse_unpack(void *ctx, void *packed, rsh_value **out) {
    (void)packed, (void)out;
    return rshn_fail(RSH_ERUNTIME, "%s: backward was called inside a forward that recomputes, which is not supported",
                     ((again *)ctx)->m->kind->name);
}

static rsh_status read_inputs(again *a, rsh_value **in) {
    for (int i = 0; i < a->m->kind->nin; i++) {
        rsh_value *v = NULL;
        if (!a->in[i]) continue;
        NN_TRY(rsh_saved_read(a->in[i], &v));
        rsh_status st = rsh_value_detach(v, &in[i]);
        rsh_value_free(v);
        NN_TRY(st);
        NN_TRY(rsh_value_set_requires_grad(in[i], a->requires_grad[i]));
    }
    return RSH_OK;
}

static void free_values(int n, rsh_value **v) {
    for (int i = 0; i < n; i++) rsh_value_free(v[i]);
}

static rsh_status run_inside(again *a, rsh_value *const *in) {
    rsh_value *out[RSHN_MOST_VALUES] = {0};
    int depth = rsh_saved_hooks_depth();
    NN_TRY(rsh_saved_hooks_push(&(rsh_saved_hooks){.pack = keep_value, .unpack = refuse_unpack, .ctx = a}));
    rsh_status st = a->m->kind->forward(a->m, in, out);
    while (rsh_saved_hooks_depth() > depth) rsh_saved_hooks_pop();
    if (!st) free_values(a->m->kind->nout, out);
    return st;
}

/* Runs forward with the recording switch, random state and training modes of the first run. */
static rsh_status run_as_before(again *a, rsh_value *const *in) {
    NN_TRY(swap_training(a));
    bool recording = rsh_grad_enable(true);
    rsh_random_state random = rsh_random_set_state(a->random);
    rsh_status st = run_inside(a, in);
    rsh_random_set_state(random);
    rsh_grad_enable(recording);
    rsh_status back = swap_training(a);
    return st ? st : back;
}

/* Runs forward again.  Ranks agree before the run, to learn of a rank that has failed earlier in backward, and after
 * it, so that either all ranks have the values or none has. */
static rsh_status run_again(again *a) {
    rsh_value *in[RSHN_MOST_VALUES] = {0};
    if (a->comm) NN_TRY(rsh_comm_agree(a->comm, RSH_OK));
    drop_values(a);
    a->seen = 0;
    rsh_status st = read_inputs(a, in);
    if (!st) st = run_as_before(a, in);
    if (!st && a->seen < a->n)
        st = rshn_fail(RSH_ERUNTIME,
                       "%s: the second run of forward saved %lld tensors, the first run %lld; forward "
                       "must do the same each time",
                       a->m->kind->name, (long long)a->seen, (long long)a->n);
    free_values(RSHN_MOST_VALUES, in);
    return a->comm ? rsh_comm_agree(a->comm, st) : st;
}

/* ---- the first run ---- */

static rsh_status keep_number(void *ctx, rsh_value *v, void **packed) {
    again *a = ctx;
    bool parameter = rsh_value_is_leaf(v) && rsh_value_requires_grad(v) && rsh_value_nparts(v);
    const rsh_tensor *t = rsh_value_part(v, 0);
    NN_TRY(RSHN_GROW(a->slot, a->n + 1, &a->room));
    a->slot[a->n] = (inside){.serial = parameter ? rsh_tensor_storage_serial(t) : 0, .version = rsh_tensor_version(t)};
    *packed = (void *)(intptr_t)a->n++;
    return RSH_OK;
}

/* Returns a value of the second run.  Every value can be read once; a second backward runs forward again. */
static rsh_status unpack_value(void *ctx, void *packed, rsh_value **out) {
    again *a = ctx;
    inside *s = &a->slot[(intptr_t)packed];
    if (!s->value) NN_TRY(run_again(a));
    *out = s->value;
    s->value = NULL;
    return RSH_OK;
}

/* Prefetches the inputs if the second run has not happened yet. */
static rsh_status prefetch_inputs(void *ctx, void *packed) {
    again *a = ctx;
    if (a->slot[(intptr_t)packed].value) return RSH_OK;
    for (int i = 0; i < a->m->kind->nin; i++)
        if (a->in[i]) NN_TRY(rsh_saved_prefetch(a->in[i]));
    return RSH_OK;
}

static void forget_inputs(void *ctx, void *packed) {
    again *a = ctx;
    (void)packed;
    for (int i = 0; i < a->m->kind->nin; i++) rsh_saved_forget(a->in[i]);
}

/* Frees a value of the second run if its slot is released without having been read. */
static void release_slot(void *ctx, void *packed) {
    inside *s = &((again *)ctx)->slot[(intptr_t)packed];
    rsh_value_free(s->value);
    s->value = NULL;
}

static rsh_status find_comm(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    again *a = ctx;
    (void)path, (void)owner, (void)name;
    if (!a->comm) a->comm = rsh_value_comm(v);
    return RSH_OK;
}

/* Finds the comm of the first collective call of the second run: that of packed inputs, otherwise that of distributed
 * inputs or parameters.  Ranks that have failed in backward report their error on this comm. */
static rsh_status note_comm(again *a, rsh_value *const *in) {
    for (int i = 0; !a->comm && i < a->m->kind->nin; i++) a->comm = rsh_saved_comm(a->in[i]);
    for (int i = 0; !a->comm && i < a->m->kind->nin; i++) a->comm = in[i] ? rsh_value_comm(in[i]) : NULL;
    return a->comm ? RSH_OK : rsh_module_each_parameter(a->m, false, find_comm, a);
}

static rsh_status save_inputs(again *a, rsh_value *const *in) {
    for (int i = 0; i < a->m->kind->nin; i++) {
        if (!in[i]) continue;
        a->requires_grad[i] = rsh_value_requires_grad(in[i]);
        NN_TRY(rsh_saved_new(in[i], &a->in[i]));
    }
    NN_TRY(rsh_module_each_module(a->m, note_training, a));
    return note_comm(a, in);
}

static rsh_status begin_call(rsh_module *m, rsh_value *const *in, again **out) {
    again *a = rshn_calloc(1, sizeof *a);
    if (!a) return rshn_fail(RSH_ENOMEM, "out of memory for a call of %s", m->kind->name);
    a->m = rsh_module_hold(m);
    a->random = rsh_random_get_state();
    rsh_status st = save_inputs(a, in);
    rsh_saved_hooks pair = {keep_number, unpack_value, release_slot, prefetch_inputs, free_again,
                            a,           a->comm,      forget_inputs};
    if (!st) st = rsh_saved_hooks_push(&pair);
    if (st)
        free_again(a);
    else *out = a;
    return st;
}

rsh_status rshn_recompute_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    if (!rsh_grad_enabled()) return m->kind->forward(m, in, out);
    again *a = NULL;
    int depth = rsh_saved_hooks_depth();
    NN_TRY(begin_call(m, in, &a));
    rsh_status st = m->kind->forward(m, in, out);
    while (rsh_saved_hooks_depth() > depth) rsh_saved_hooks_pop();
    return st;
}

rsh_status rsh_recompute(rsh_module *m) {
    if (!m) return rshn_fail(RSH_EVALUE, "rsh_recompute: m is NULL");
    m->recompute = true;
    return RSH_OK;
}
