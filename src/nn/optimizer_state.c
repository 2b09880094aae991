/* Optimizer state: out as a state dict, and in again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/impl.h"
#include "nn/optim.h"
#include "nn/state_dict.h"

static rsh_status entry_name(const rshn_trained *t, const char *what, char *name, size_t room) {
    if (snprintf(name, room, "%s.%s", t->path, what) < (int)room) return RSH_OK;
    return rshn_fail(RSH_EVALUE, "the path \"%s\" is too long for a state dict", t->path);
}

/* ---- out ---- */

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
    return set_number(d, name, t->step);
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

/* ---- in ---- */

/* The parameter and slot that a name means; slot == nslots is the number of steps. */
static bool find_slot(const rsh_optimizer *o, const char *name, int64_t *which, int *slot) {
    const char *dot = strrchr(name, '.');
    for (int64_t i = 0; dot && i < o->n; i++) {
        const char *path = o->trained[i].path;
        if (strlen(path) != (size_t)(dot - name) || strncmp(path, name, (size_t)(dot - name))) continue;
        *which = i;
        for (*slot = 0; *slot < o->kind->nslots; ++*slot)
            if (!strcmp(dot + 1, o->kind->slot_names[*slot])) return true;
        return !strcmp(dot + 1, "step");
    }
    return false;
}

static rsh_status check_number(const char *name, const rsh_value *v) {
    if (rsh_value_ndim(v) == 0 && rsh_value_dtype(v) == RSH_F64 && rsh_value_tensor(v)) return RSH_OK;
    return rshn_fail(RSH_ERUNTIME, "\"%s\" is not a number: an f64 without dims is", name);
}

static rsh_status check_entry(const rsh_optimizer *o, const char *name, const rsh_value *v) {
    int64_t which;
    int slot;
    if (!strcmp(name, "lr")) return check_number(name, v);
    if (!find_slot(o, name, &which, &slot))
        return rshn_fail(RSH_ERUNTIME, "the state of an optimizer has no \"%s\"", name);
    return slot == o->kind->nslots ? check_number(name, v) : rshn_check_copy(name, v, o->trained[which].parameter);
}

static double number(const rsh_value *v) { return *(const double *)rsh_tensor_data(rsh_value_tensor(v)); }

/* New values for all slots that the dict has, before any of them is put in place. */
static rsh_status load_slots(const rsh_optimizer *o, const rsh_state_dict *d, rshn_trained *fresh) {
    for (int64_t i = 0; i < rsh_state_dict_count(d); i++) {
        const char *name = rsh_state_dict_name(d, i);
        rsh_value *v = rsh_state_dict_value(d, i);
        int64_t which;
        int slot;
        if (!find_slot(o, name, &which, &slot)) continue; /* "lr" */
        if (slot == o->kind->nslots) fresh[which].step = number(v);
        else {
            NN_TRY(rshn_zeros_like(o->trained[which].parameter, &fresh[which].slot[slot]));
            NN_TRY(rshn_copy_value(v, fresh[which].slot[slot]));
        }
    }
    return RSH_OK;
}

/* Exchanges the state; what was there is then freed with `fresh`. */
static void put_in_place(rsh_optimizer *o, rshn_trained *fresh) {
    for (int64_t i = 0; i < o->n; i++) {
        for (int k = 0; k < o->kind->nslots; k++) {
            rsh_value *old = o->trained[i].slot[k];
            o->trained[i].slot[k] = fresh[i].slot[k];
            fresh[i].slot[k] = old;
        }
        o->trained[i].step = fresh[i].step;
    }
}

static rsh_comm *any_comm(const rsh_optimizer *o) {
    for (int64_t i = 0; i < o->n; i++)
        if (rsh_value_comm(o->trained[i].parameter)) return rsh_value_comm(o->trained[i].parameter);
    return NULL;
}

rsh_status rsh_optimizer_load_state_dict(rsh_optimizer *o, const rsh_state_dict *d) {
    if (!o) return rshn_fail(RSH_EVALUE, "rsh_optimizer_load_state_dict: o is NULL");
    rsh_comm *comm = any_comm(o);
    rshn_trained *fresh = rshn_calloc((size_t)o->n, sizeof *fresh);
    rsh_status st = fresh ? RSH_OK : rshn_fail(RSH_ENOMEM, "no memory to load the state of an optimizer");
    if (!st && !d) st = rshn_fail(RSH_EVALUE, "rsh_optimizer_load_state_dict: d is NULL");
    for (int64_t i = 0; !st && i < rsh_state_dict_count(d); i++)
        st = check_entry(o, rsh_state_dict_name(d, i), rsh_state_dict_value(d, i));
    if (comm) st = rsh_comm_agree(comm, st);
    if (!st) st = load_slots(o, d, fresh);
    if (comm) st = rsh_comm_agree(comm, st);
    if (!st) {
        put_in_place(o, fresh);
        const rsh_value *lr = rsh_state_dict_find(d, "lr");
        if (lr) o->lr = number(lr);
    }
    for (int64_t i = 0; fresh && i < o->n; i++)
        for (int k = 0; k < RSHN_MOST_SLOTS; k++) rsh_value_free(fresh[i].slot[k]);
    rshn_free(fresh);
    return st;
}
