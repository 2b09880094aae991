/* Hooks: this thread's stack of hooks that pack and unpack saved tensors. */
#include "grad/impl.h"

#include <string.h>

rshi_hooks *rshi_hooks_top(void) {
    rshi_tape *t = rshi_tape_mine();
    return t && t->depth ? t->stack[t->depth - 1] : NULL;
}

void rshi_hooks_drop(rshi_hooks *p) {
    if (!p || --p->refs) return;
    if (p->hooks.drop) p->hooks.drop(p->hooks.ctx);
    rshi_free(p);
}

rsh_status rsh_saved_hooks_push(const rsh_saved_hooks *hooks) {
    RSH_NEEDS(hooks);
    RSH_REQUIRE(hooks->pack && hooks->unpack, RSH_EVALUE, "rsh_saved_hooks_push: %s is NULL",
                hooks->pack ? "unpack" : "pack");
    rshi_tape *t = rshi_tape_mine();
    if (!t) return rshi_nomem();
    RSH_REQUIRE(!t->disabled, RSH_ERUNTIME, "%s", t->disabled);
    RSH_TRY(RSHI_GROW(t->stack, t->depth + 1, &t->room));
    rshi_hooks *p = RSHI_NEW(rshi_hooks);
    if (!p) return rshi_nomem();
    *p = (rshi_hooks){.refs = 1, .hooks = *hooks};
    t->stack[t->depth++] = p;
    return RSH_OK;
}

rsh_status rsh_saved_hooks_pop(void) {
    rshi_tape *t = rshi_tape_mine();
    RSH_REQUIRE(t && t->depth, RSH_ERUNTIME, "no hooks for saved tensors are pushed on this thread");
    rshi_hooks_drop(t->stack[--t->depth]);
    return RSH_OK;
}

int rsh_saved_hooks_depth(void) {
    rshi_tape *t = rshi_tape_mine();
    return t ? (int)t->depth : 0;
}

rsh_status rsh_saved_hooks_disable(const char *message) {
    rshi_tape *t = rshi_tape_mine();
    if (!t) return rshi_nomem();
    RSH_REQUIRE(!message || !t->depth, RSH_ERUNTIME,
                "cannot disable hooks for saved tensors: %lld pairs are pushed on this thread; pop them first",
                (long long)t->depth);
    size_t bytes = message ? strlen(message) + 1 : 0;
    char *copy = message ? rshi_alloc(1, bytes) : NULL;
    if (message && !copy) return rshi_nomem();
    if (message) memcpy(copy, message, bytes);
    rshi_free(t->disabled);
    t->disabled = copy;
    return RSH_OK;
}
