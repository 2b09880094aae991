/* Module: creates, calls and frees modules. */
#include "nn/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/impl.h"
#include "nn/recompute.h"

static const rsh_module_kind no_kind = {.name = "?"};

static rsh_status check_kind(const rsh_module_kind *k) {
    if (!k || !k->name) return rshn_fail(RSH_EVALUE, "rsh_module_new: %s", k ? "the kind has no name" : "kind is NULL");
    if (k->nin < 0 || k->nout < 0 || k->nin > RSHN_MOST_VALUES || k->nout > RSHN_MOST_VALUES)
        return rshn_fail(RSH_EVALUE, "%s: numbers of inputs and outputs must be 0 to %d, got %d and %d", k->name,
                         RSHN_MOST_VALUES, k->nin, k->nout);
    return RSH_OK;
}

rsh_status rsh_module_new(const rsh_module_kind *kind, const void *state, rsh_module **out) {
    NN_TRY(check_kind(kind));
    if (!out) return rshn_fail(RSH_EVALUE, "rsh_module_new: out is NULL");
    rsh_module *m = rshn_calloc(1, sizeof *m);
    void *copy = rshn_calloc(1, kind->state_bytes ? kind->state_bytes : 1);
    if (!m || !copy) {
        rshn_free(m);
        rshn_free(copy);
        return rshn_fail(RSH_ENOMEM, "out of memory for a %s", kind->name);
    }
    if (state) memcpy(copy, state, kind->state_bytes);
    *m = (rsh_module){.refs = 1, .kind = kind, .state = copy, .training = true};
    *out = m;
    return RSH_OK;
}

rsh_module *rsh_module_hold(rsh_module *m) {
    if (m) m->refs++;
    return m;
}

void rsh_module_free(rsh_module *m) {
    if (!m || --m->refs) return;
    for (int64_t i = 0; i < m->nhooks; i++)
        if (m->hook[i].drop) m->hook[i].drop(m->hook[i].ctx);
    for (int64_t i = 0; i < m->nslots; i++) rshn_slot_clear(&m->slot[i]);
    if (m->kind->drop) m->kind->drop(m->state);
    rshn_free(m->hook);
    rshn_free(m->slot);
    rshn_free(m->state);
    rshn_free(m);
}

const rsh_module_kind *rsh_module_get_kind(const rsh_module *m) { return m ? m->kind : NULL; }
void *rsh_module_state(const rsh_module *m) { return m ? m->state : NULL; }
bool rsh_module_training(const rsh_module *m) { return m && m->training; }

/* ---- inputs ---- */

static rsh_status place_named(const rsh_module_kind *k, const rsh_named_input *named, rsh_value **in) {
    for (int i = 0; named->name && k->inputs && i < k->nin; i++) {
        if (strcmp(k->inputs[i], named->name)) continue;
        if (in[i]) return rshn_fail(RSH_EVALUE, "%s: input \"%s\" is given twice", k->name, named->name);
        in[i] = rsh_value_hold(named->value);
        return RSH_OK;
    }
    return rshn_fail(RSH_EKEY, "%s has no input \"%s\"", k->name, named->name ? named->name : "(NULL)");
}

static void free_values(int n, rsh_value **v) {
    for (int i = 0; i < n; i++) rsh_value_free(v[i]);
}

/* Collects references to all inputs, in the order of the kind. */
static rsh_status collect_inputs(const rsh_module_kind *k, int nin, rsh_value *const *in, int nnamed,
                                 const rsh_named_input *named, rsh_value **all) {
    if (nin < 0 || nin > k->nin)
        return rshn_fail(RSH_EVALUE, "%s: expected at most %d inputs, got %d", k->name, k->nin, nin);
    if (nin && !in) return rshn_fail(RSH_EVALUE, "%s: the list of inputs is NULL", k->name);
    if (nnamed && !named) return rshn_fail(RSH_EVALUE, "%s: the list of named inputs is NULL", k->name);
    for (int i = 0; i < nin; i++) all[i] = rsh_value_hold(in[i]);
    rsh_status st = RSH_OK;
    for (int i = 0; !st && i < nnamed; i++) st = place_named(k, &named[i], all);
    if (st) free_values(k->nin, all);
    return st;
}

/* ---- the call ---- */

static rsh_status run_pre_hooks(rsh_module *m, rsh_value **in) {
    for (int64_t i = 0; i < m->nhooks; i++)
        if (m->hook[i].kind == RSHN_PRE) NN_TRY(((rsh_pre_hook_fn)m->hook[i].fn)(m->hook[i].ctx, m, in));
    return RSH_OK;
}

static rsh_status check_filled(const rsh_module *m) {
    for (int64_t i = 0; i < m->nslots; i++)
        if (m->slot[i].init)
            return rshn_fail(RSH_ERUNTIME,
                             "parameter \"%s\" of %s is still deferred; call rsh_module_materialize "
                             "first",
                             m->slot[i].name, m->kind->name);
    return RSH_OK;
}

static rsh_status run_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    NN_TRY(check_filled(m));
    if (!m->kind->forward) return rshn_fail(RSH_EUNSUP, "%s has no forward function", m->kind->name);
    rsh_status st = (m->recompute ? rshn_recompute_forward : m->kind->forward)(m, in, out);
    for (int i = 0; !st && i < m->kind->nout; i++)
        if (!out[i]) st = rshn_fail(RSH_ERUNTIME, "%s: the forward function did not set output %d", m->kind->name, i);
    return st;
}

/* Runs the hooks of a call. *done counts the hooks that have run, including one that failed. */
static rsh_status run_hooks(rsh_module *m, rsh_value *const *in, rsh_value **out, int64_t *done) {
    for (int64_t i = 0; i < m->nhooks; i++) {
        if (m->hook[i].kind != RSHN_FORWARD) continue;
        *done = i + 1;
        NN_TRY(((rsh_forward_hook_fn)m->hook[i].fn)(m->hook[i].ctx, m, in, out));
    }
    return RSH_OK;
}

/* After a failure, runs the remaining RSH_HOOK_ALWAYS hooks.  The error message is kept. */
static rsh_status fail_call(rsh_module *m, rsh_status st, rsh_value *const *in, rsh_value **out, int64_t done) {
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s", rsh_error_detail());
    free_values(m->kind->nout, out);
    for (int i = 0; i < m->kind->nout; i++) out[i] = NULL;
    for (int64_t i = done; i < m->nhooks; i++) {
        const rshn_hook *h = &m->hook[i];
        if (h->kind != RSHN_FORWARD || h->when != RSH_HOOK_ALWAYS) continue;
        ((rsh_forward_hook_fn)h->fn)(h->ctx, m, in, out);
        free_values(m->kind->nout, out);
        for (int o = 0; o < m->kind->nout; o++) out[o] = NULL;
    }
    return rshn_fail(st, "%s", sentence);
}

rsh_status rsh_module_call_named(rsh_module *m, int nin, rsh_value *const *in, int nnamed,
                                 const rsh_named_input *named, rsh_value **out) {
    if (!m || !out) return rshn_fail(RSH_EVALUE, "rsh_module_call: %s is NULL", m ? "out" : "m");
    rsh_value *all[RSHN_MOST_VALUES] = {0}, *got[RSHN_MOST_VALUES] = {0};
    int64_t done = 0;
    NN_TRY(collect_inputs(m->kind, nin, in, nnamed, named, all));
    rsh_module_hold(m); /* a hook may remove the module from its tree */
    m->calls++;
    rsh_status st = run_pre_hooks(m, all);
    if (!st) st = run_forward(m, all, got);
    if (!st) st = run_hooks(m, all, got, &done);
    if (st) st = fail_call(m, st, all, got, done);
    m->calls--;
    for (int i = 0; !st && i < m->kind->nout; i++) out[i] = got[i];
    free_values(m->kind->nin, all);
    rsh_module_free(m);
    return st;
}

rsh_status rsh_module_call(rsh_module *m, int nin, rsh_value *const *in, rsh_value **out) {
    return rsh_module_call_named(m, nin, in, 0, NULL, out);
}

rsh_status rsh_module_forward(rsh_module *m, rsh_value *in, rsh_value **out) {
    const rsh_module_kind *k = m ? m->kind : &no_kind;
    if (!in) return rshn_fail(RSH_EVALUE, "%s: in is NULL", k->name);
    if (m && k->nout != 1)
        return rshn_fail(RSH_EVALUE,
                         "%s: rsh_module_forward needs a module with one output, this "
                         "one has %d; use rsh_module_call",
                         k->name, k->nout);
    return rsh_module_call(m, 1, &in, out);
}
