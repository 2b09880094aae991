/* Names: the slots of a module, and paths through a tree. */
#include "nn/module.h"

#include <stdlib.h>
#include <string.h>

#include "nn/impl.h"

static const char *const kinds[] = {"parameter", "buffer", "child"};

rsh_status rshn_grow(void **list, int64_t n, int64_t *room, size_t size) {
    if (n <= *room) return RSH_OK;
    int64_t more = n < 2 * *room ? 2 * *room : n < 4 ? 4 : n;
    void *grown = rshn_realloc(*list, (size_t)more * size);
    if (!grown) return rshn_fail(RSH_ENOMEM, "out of memory for a list of %lld items", (long long)more);
    *list = grown;
    *room = more;
    return RSH_OK;
}

rshn_slot *rshn_slot_find(const rsh_module *m, const char *name) {
    for (int64_t i = 0; i < m->nslots; i++)
        if (!strcmp(m->slot[i].name, name)) return &m->slot[i];
    return NULL;
}

/* Clears the kind of the gradient, which belonged to the old value. */
static void forget_ranks(rshn_slot *s) {
    rshn_ranks_drop(s->ranks);
    s->ranks = NULL;
    s->grad = RSH_GRAD_AUTO;
}

void rshn_slots_exchange(rsh_module *m, const rsh_value *old, rsh_value *value, rshn_ranks *ranks) {
    for (int64_t i = 0; i < m->nslots; i++) {
        rshn_slot *s = &m->slot[i];
        if (s->child) rshn_slots_exchange(s->child, old, value, ranks);
        if (s->kind == RSHN_CHILD || s->value != old) continue;
        rsh_value_free(s->value);
        s->value = rsh_value_hold(value);
        if (ranks == s->ranks) continue; /* the ranks did not change, so the kind of the gradient stays valid */
        forget_ranks(s);
        s->ranks = rshn_ranks_hold(ranks);
    }
}

void rshn_slot_clear(rshn_slot *s) {
    rshn_free(s->init);
    rshn_ranks_drop(s->ranks);
    rsh_value_free(s->value);
    rsh_module_free(s->child);
    rshn_free(s->name);
}

/* ---- setting ---- */

static rsh_status check_name(const rsh_module *m, const char *name, rshn_slot_kind kind) {
    if (!m || !name) return rshn_fail(RSH_EVALUE, "cannot set a %s: %s is NULL", kinds[kind], m ? "name" : "m");
    if (!*name) return rshn_fail(RSH_EKEY, "cannot set a %s of %s: the name is empty", kinds[kind], m->kind->name);
    if (strchr(name, '.'))
        return rshn_fail(RSH_EKEY, "cannot set %s \"%s\": a name must not contain dots", kinds[kind], name);
    const rshn_slot *there = rshn_slot_find(m, name);
    if (there && there->kind != kind)
        return rshn_fail(RSH_EKEY, "cannot set \"%s\" of %s: it is already a %s, not a %s", name, m->kind->name,
                         kinds[there->kind], kinds[kind]);
    return RSH_OK;
}

/* Returns the slot with this name, and creates it if necessary. */
static rsh_status find_or_add_slot(rsh_module *m, const char *name, rshn_slot_kind kind, rshn_slot **out) {
    *out = rshn_slot_find(m, name);
    if (*out) return RSH_OK;
    NN_TRY(RSHN_GROW(m->slot, m->nslots + 1, &m->slot_room));
    char *copy = rshn_duplicate(name);
    if (!copy) return rshn_fail(RSH_ENOMEM, "out of memory for the name \"%s\"", name);
    *out = &m->slot[m->nslots++];
    **out = (rshn_slot){.kind = kind, .name = copy};
    return RSH_OK;
}

static rsh_status set_value(rsh_module *m, const char *name, rshn_slot_kind kind, rsh_value *value, bool persistent) {
    rshn_slot *slot = NULL;
    NN_TRY(check_name(m, name, kind));
    if (value && !rsh_value_is_leaf(value))
        return rshn_fail(RSH_EVALUE, "%s \"%s\" must be a leaf, but it is the output of an op; use rsh_value_detach",
                         kinds[kind], name);
    NN_TRY(find_or_add_slot(m, name, kind, &slot));
    rsh_value_hold(value);
    rsh_value_free(slot->value);
    rshn_free(slot->init);
    slot->init = NULL;
    forget_ranks(slot);
    slot->value = value;
    slot->persistent = persistent;
    return RSH_OK;
}

rsh_status rsh_module_set_parameter(rsh_module *m, const char *name, rsh_value *value) {
    return set_value(m, name, RSHN_PARAMETER, value, true);
}

rsh_status rsh_module_set_buffer(rsh_module *m, const char *name, rsh_value *value, bool persistent) {
    return set_value(m, name, RSHN_BUFFER, value, persistent);
}

static bool contains(const rsh_module *m, const rsh_module *sought) {
    if (m == sought) return true;
    for (int64_t i = 0; i < m->nslots; i++)
        if (m->slot[i].child && contains(m->slot[i].child, sought)) return true;
    return false;
}

rsh_status rsh_module_set_child(rsh_module *m, const char *name, rsh_module *child) {
    rshn_slot *slot = NULL;
    NN_TRY(check_name(m, name, RSHN_CHILD));
    if (child && contains(child, m))
        return rshn_fail(RSH_EVALUE, "child \"%s\" of %s contains that module; a tree cannot have cycles", name,
                         m->kind->name);
    NN_TRY(find_or_add_slot(m, name, RSHN_CHILD, &slot));
    rsh_module_hold(child);
    rsh_module_free(slot->child);
    slot->child = child;
    return RSH_OK;
}

/* ---- getting ---- */

static rsh_status find_slot_of_kind(const rsh_module *m, const char *name, rshn_slot_kind kind, const rshn_slot **out) {
    if (!m || !name) return rshn_fail(RSH_EVALUE, "cannot get a %s: %s is NULL", kinds[kind], m ? "name" : "m");
    *out = rshn_slot_find(m, name);
    if (!*out || (*out)->kind != kind)
        return rshn_fail(RSH_EATTR, "%s has no %s \"%s\"%s%s", m->kind->name, kinds[kind], name,
                         *out ? "; it is a " : "", *out ? kinds[(*out)->kind] : "");
    return RSH_OK;
}

static rsh_status get_value(const rsh_module *m, const char *name, rshn_slot_kind kind, rsh_value **out) {
    const rshn_slot *slot = NULL;
    if (!out) return rshn_fail(RSH_EVALUE, "cannot get a %s: out is NULL", kinds[kind]);
    NN_TRY(find_slot_of_kind(m, name, kind, &slot));
    *out = slot->value;
    return RSH_OK;
}

rsh_status rsh_module_parameter(const rsh_module *m, const char *name, rsh_value **out) {
    return get_value(m, name, RSHN_PARAMETER, out);
}

rsh_status rsh_module_buffer(const rsh_module *m, const char *name, rsh_value **out) {
    return get_value(m, name, RSHN_BUFFER, out);
}

rsh_status rsh_module_child(const rsh_module *m, const char *name, rsh_module **out) {
    const rshn_slot *slot = NULL;
    if (!out) return rshn_fail(RSH_EVALUE, "rsh_module_child: out is NULL");
    NN_TRY(find_slot_of_kind(m, name, RSHN_CHILD, &slot));
    *out = slot->child;
    return RSH_OK;
}

/* ---- paths ---- */

/* Returns the child whose name is the first `length` bytes of `step`. */
static rsh_module *step_down(const rsh_module *m, const char *step, size_t length) {
    for (int64_t i = 0; i < m->nslots; i++) {
        const rshn_slot *s = &m->slot[i];
        if (s->child && strlen(s->name) == length && !strncmp(s->name, step, length)) return s->child;
    }
    return NULL;
}

/* Follows the first `length` bytes of the path. */
static rsh_status follow_path(rsh_module *m, const char *path, size_t length, rsh_module **out) {
    for (size_t at = 0; at < length;) {
        size_t step = strcspn(path + at, ".");
        if (step > length - at) step = length - at;
        rsh_module *child = step_down(m, path + at, step);
        if (!child)
            return rshn_fail(RSH_EATTR, "path \"%.*s\": %s has no module \"%.*s\"", (int)length, path, m->kind->name,
                             (int)step, path + at);
        m = child;
        at += step + 1;
    }
    *out = m;
    return RSH_OK;
}

rsh_status rsh_module_submodule(rsh_module *m, const char *path, rsh_module **out) {
    if (!m || !path || !out)
        return rshn_fail(RSH_EVALUE, "rsh_module_submodule: %s is NULL", !m ? "m" : path ? "out" : "path");
    size_t length = strlen(path);
    if (length && path[length - 1] == '.') return rshn_fail(RSH_EATTR, "path \"%s\" must not end with a dot", path);
    return follow_path(m, path, length, out);
}

rsh_status rsh_module_owner(rsh_module *m, const char *path, rsh_module **owner, const char **name) {
    if (!m || !path || !owner || !name)
        return rshn_fail(RSH_EVALUE, "rsh_module_owner: %s is NULL",
                         !m ? "m" : !path ? "path" : owner ? "name" : "owner");
    const char *dot = strrchr(path, '.');
    NN_TRY(follow_path(m, path, dot ? (size_t)(dot - path) : 0, owner));
    *name = dot ? dot + 1 : path;
    return RSH_OK;
}
