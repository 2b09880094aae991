/* Hooks: functions that run before and after a module's forward, and around its state dicts. */
#include "nn/module.h"

#include "nn/impl.h"

rsh_status rshn_hook_add(rsh_module *m, const rshn_hook *hook, int64_t *id) {
    if (!m || !hook->fn) return rshn_fail(RSH_EVALUE, "cannot add a hook: %s is NULL", m ? "fn" : "m");
    NN_TRY(RSHN_GROW(m->hook, m->nhooks + 1, &m->hook_room));
    m->hook[m->nhooks] = *hook;
    m->hook[m->nhooks++].id = m->next_hook;
    if (id) *id = m->next_hook;
    m->next_hook++;
    return RSH_OK;
}

rsh_status rsh_module_add_pre_hook(rsh_module *m, rsh_pre_hook_fn fn, void *ctx, void (*drop)(void *ctx), int64_t *id) {
    return rshn_hook_add(m, &(rshn_hook){.kind = RSHN_PRE, .fn = (void (*)(void))fn, .ctx = ctx, .drop = drop}, id);
}

rsh_status rsh_module_add_forward_hook(rsh_module *m, rsh_forward_hook_fn fn, void *ctx, void (*drop)(void *ctx),
                                       rsh_hook_when when, int64_t *id) {
    if (when != RSH_HOOK_ON_SUCCESS && when != RSH_HOOK_ALWAYS)
        return rshn_fail(RSH_EVALUE, "rsh_module_add_forward_hook: unknown value %d for `when`", (int)when);
    rshn_hook hook = {.kind = RSHN_FORWARD, .when = when, .fn = (void (*)(void))fn, .ctx = ctx, .drop = drop};
    return rshn_hook_add(m, &hook, id);
}

rsh_status rsh_module_remove_hook(rsh_module *m, int64_t id) {
    if (!m) return rshn_fail(RSH_EVALUE, "rsh_module_remove_hook: m is NULL");
    if (m->calls)
        return rshn_fail(RSH_EBUSY, "cannot remove a hook of %s during a call of it; remove it afterwards",
                         m->kind->name);
    for (int64_t i = 0; i < m->nhooks; i++) {
        if (m->hook[i].id != id) continue;
        rshn_hook gone = m->hook[i];
        m->nhooks--;
        for (int64_t j = i; j < m->nhooks; j++) m->hook[j] = m->hook[j + 1];
        if (gone.drop) gone.drop(gone.ctx);
        return RSH_OK;
    }
    return rshn_fail(RSH_EKEY, "%s has no hook %lld", m->kind->name, (long long)id);
}
