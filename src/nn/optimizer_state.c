/* Optimizer state: creates a state dict and loads one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/impl.h"
#include "nn/optim.h"
#include "nn/state_dict.h"

static rsh_status entry_name(const rshn_trained *t, const char *what, char *name, size_t room) {
    if (snprintf(name, room, "%s.%s", t->path, what) < (int)room) return RSH_OK;
    return rshn_fail(RSH_EVALUE, "path \"%s\" is too long for a state dict; shorten it", t->path);
}

/* ---- saving ---- */

static rsh_status set_number(rsh_state_dict *d, const char *name, double number) {
    rsh_tensor *t = NULL;
    rsh_value *v = NULL;
    NN_TRY(rshn_number(RSH_F64, number, &t));
    rsh_status st = rsh_value_adopt_tensor(t, false, &v);
    if (st) rsh_tensor_free(t);
    else st = rsh_state_dict_set(d, name, v);
    rsh_value_free(v);
    return st;
}

static rsh_status set_slots(const rsh_optimizer *o, const rshn_trained *t, rsh_state_dict *d) {
    char name[1100];
    for (int k = 0; k < o->kind->nslots; k++) {
        if (!t->slot[k]) continue;
        NN_TRY(entry_name(t, o->kind->slot_names[k], name, sizeof name));
        NN_TRY(rsh_state_dict_set(d, name, t->slot[k]));
    }
    NN_TRY(entry_name(t, "step", name, sizeof name));
    NN_TRY(set_number(d, name, t->step));
    if (!t->grouped) return RSH_OK;
    NN_TRY(entry_name(t, "lr_scale", name, sizeof name));
    NN_TRY(set_number(d, name, t->lr_scale));
    NN_TRY(entry_name(t, "weight_decay", name, sizeof name));
    return set_number(d, name, t->weight_decay);
}

rsh_status rsh_optimizer_state_dict(const rsh_optimizer *o, rsh_state_dict **out) {
    if (!o || !out) return rshn_fail(RSH_EVALUE, "rsh_optimizer_state_dict: %s is NULL", o ? "out" : "o");
    rsh_state_dict *d = NULL;
    NN_TRY(rsh_state_dict_new(&d));
    rsh_status st = set_number(d, "lr", o->lr);
    for (int64_t i = 0; !st && i < o->n; i++) st = set_slots(o, &o->trained[i], d);
    if (st) rsh_state_dict_free(d);
    else *out = d;
    return st;
}

/* ---- loading ---- */

static double number(const rsh_value *v) { return *(const double *)rsh_tensor_data(rsh_value_tensor(v)); }

/* Returns the named number in a parameter's state; NULL if there is none. */
static double *find_number(rshn_trained *t, const char *word) {
    if (!strcmp(word, "step")) return &t->step;
    if (!strcmp(word, "lr_scale")) return &t->lr_scale;
    return strcmp(word, "weight_decay") ? NULL : &t->weight_decay;
}

/* Finds the parameter to which a name belongs, and the word after its path; -1: none. */
static int64_t find_parameter(const rsh_optimizer *o, const char *name, const char **word) {
    const char *dot = strrchr(name, '.');
    for (int64_t i = 0; dot && i < o->n; i++) {
        const char *path = o->trained[i].path;
        if (strlen(path) != (size_t)(dot - name) || strncmp(path, name, (size_t)(dot - name))) continue;
        *word = dot + 1;
        return i;
    }
    return -1;
}

static int find_slot(const rsh_optimizer *o, const char *word) {
    for (int k = 0; k < o->kind->nslots; k++)
        if (!strcmp(word, o->kind->slot_names[k])) return k;
    return -1;
}

rshn_state_entry rshn_optimizer_entry(const rsh_optimizer *o, const char *name, const rsh_value **like) {
    const char *word = NULL;
    int64_t i = find_parameter(o, name, &word);
    if (i < 0) return strcmp(name, "lr") ? RSHN_STATE_UNKNOWN : RSHN_STATE_NUMBER;
    *like = o->trained[i].parameter;
    if (find_slot(o, word) >= 0) return RSHN_STATE_SLOT;
    return find_number(&o->trained[i], word) ? RSHN_STATE_NUMBER : RSHN_STATE_UNKNOWN;
}

static rsh_status check_number(const char *name, const rsh_value *v) {
    if (rsh_value_ndim(v) == 0 && rsh_value_dtype(v) == RSH_F64 && rsh_value_tensor(v)) return RSH_OK;
    return rshn_fail(RSH_ERUNTIME, "optimizer state \"%s\" must be a 0-D f64", name);
}

static rsh_status check_entry(const rsh_optimizer *o, const char *name, const rsh_value *v) {
    const rsh_value *like = NULL;
    switch (rshn_optimizer_entry(o, name, &like)) {
    case RSHN_STATE_NUMBER: return check_number(name, v);
    case RSHN_STATE_SLOT: return rshn_check_copy(name, v, like);
    case RSHN_STATE_UNKNOWN: break;
    }
    return rshn_fail(RSH_ERUNTIME, "unexpected entry \"%s\" in the state of an optimizer", name);
}

rsh_status rshn_optimizer_each_needed(const rsh_optimizer *o, const rsh_state_dict *d,
                                      void (*fn)(void *ctx, const char *name), void *ctx) {
    char name[1100];
    fn(ctx, "lr");
    for (int64_t i = 0; i < o->n; i++) {
        const rshn_trained *t = &o->trained[i];
        NN_TRY(entry_name(t, "step", name, sizeof name));
        fn(ctx, name);
        const rsh_value *step = rsh_state_dict_find(d, name);
        for (int k = 0; step && number(step) > 0 && k < o->kind->nslots; k++) {
            if (!o->kind->needs(o, k)) continue;
            NN_TRY(entry_name(t, o->kind->slot_names[k], name, sizeof name));
            fn(ctx, name);
        }
    }
    return RSH_OK;
}

/* Holds a value of the dict, or copies it to a new value like the parameter. */
static rsh_status load_slot(const rshn_trained *t, rsh_value *v, bool copies, rsh_value **out) {
    if (!copies) return *out = rsh_value_hold(v), RSH_OK;
    NN_TRY(rshn_zeros_like(t->parameter, out));
    return rshn_copy_value(v, *out);
}

static rsh_status load_entry(const rsh_optimizer *o, const char *name, rsh_value *v, bool copies, rshn_trained *fresh) {
    const char *word = NULL;
    int64_t i = find_parameter(o, name, &word);
    if (i < 0) return RSH_OK; /* a setting of the optimizer, such as "lr" */
    int slot = find_slot(o, word);
    if (slot >= 0) return load_slot(&o->trained[i], v, copies, &fresh[i].slot[slot]);
    *find_number(&fresh[i], word) = number(v);
    if (strcmp(word, "step")) fresh[i].grouped = true;
    return RSH_OK;
}

/* Creates the state after loading.  Settings that the dict lacks are kept; other missing state is that of a new
 * optimizer. */
static rsh_status new_state(const rsh_optimizer *o, const rsh_state_dict *d, bool copies, rshn_trained **fresh) {
    *fresh = rshn_calloc((size_t)o->n, sizeof **fresh);
    if (!*fresh) return rshn_fail(RSH_ENOMEM, "out of memory: cannot load the state of an optimizer");
    for (int64_t i = 0; i < o->n; i++) {
        (*fresh)[i].lr_scale = o->trained[i].lr_scale;
        (*fresh)[i].weight_decay = o->trained[i].weight_decay;
        (*fresh)[i].grouped = o->trained[i].grouped;
    }
    for (int64_t i = 0; i < rsh_state_dict_count(d); i++)
        NN_TRY(load_entry(o, rsh_state_dict_name(d, i), rsh_state_dict_value(d, i), copies, *fresh));
    return RSH_OK;
}

rsh_status rshn_optimizer_prepare(const rsh_optimizer *o, const rsh_state_dict *d, rshn_trained **fresh) {
    return new_state(o, d, false, fresh);
}

/* Swaps old and new state; the old state is then freed with `fresh`. */
void rshn_optimizer_commit(rsh_optimizer *o, const rsh_state_dict *d, rshn_trained *fresh) {
    for (int64_t i = 0; i < o->n; i++) {
        rshn_trained *t = &o->trained[i], *f = &fresh[i];
        for (int k = 0; k < o->kind->nslots; k++) {
            rsh_value *old = t->slot[k];
            t->slot[k] = f->slot[k];
            f->slot[k] = old;
        }
        t->step = f->step;
        t->lr_scale = f->lr_scale;
        t->weight_decay = f->weight_decay;
        t->grouped = f->grouped;
    }
    const rsh_value *lr = rsh_state_dict_find(d, "lr");
    if (lr) o->lr = number(lr);
}

void rshn_optimizer_discard(const rsh_optimizer *o, rshn_trained *fresh) {
    for (int64_t i = 0; fresh && i < o->n; i++)
        for (int k = 0; k < RSHN_MOST_SLOTS; k++) rsh_value_free(fresh[i].slot[k]);
    rshn_free(fresh);
}

static rsh_comm *any_comm(const rsh_optimizer *o) {
    for (int64_t i = 0; i < o->n; i++)
        if (rsh_value_comm(o->trained[i].parameter)) return rsh_value_comm(o->trained[i].parameter);
    return NULL;
}

rsh_status rsh_optimizer_load_state_dict(rsh_optimizer *o, const rsh_state_dict *d) {
    if (!o) return rshn_fail(RSH_EVALUE, "rsh_optimizer_load_state_dict: o is NULL");
    rsh_comm *comm = any_comm(o);
    rshn_trained *fresh = NULL;
    rsh_status st = d ? RSH_OK : rshn_fail(RSH_EVALUE, "rsh_optimizer_load_state_dict: d is NULL");
    for (int64_t i = 0; !st && i < rsh_state_dict_count(d); i++)
        st = check_entry(o, rsh_state_dict_name(d, i), rsh_state_dict_value(d, i));
    if (comm) st = rsh_comm_agree(comm, st);
    if (!st) st = new_state(o, d, true, &fresh);
    if (comm) st = rsh_comm_agree(comm, st);
    if (!st) rshn_optimizer_commit(o, d, fresh);
    rshn_optimizer_discard(o, fresh);
    return st;
}
