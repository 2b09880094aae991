/* Current: the stack of meshes that this thread has made current. */
#include "mesh/impl.h"

static _Thread_local struct {
    rsh_mesh **mesh; /* held */
    int64_t n, room;
} stack;

rsh_status rsh_mesh_push(rsh_mesh *m) {
    RSH_NEEDS(m);
    RSH_TRY(RSHI_GROW(stack.mesh, stack.n + 1, &stack.room));
    stack.mesh[stack.n++] = rsh_mesh_hold(m);
    return RSH_OK;
}

rsh_status rsh_mesh_pop(void) {
    RSH_REQUIRE(stack.n, RSH_ERUNTIME, "rsh_mesh_pop: this thread has no current mesh; call rsh_mesh_push first");
    rsh_mesh_free(stack.mesh[--stack.n]);
    if (stack.n) return RSH_OK;
    rshi_free(stack.mesh); /* a thread without current meshes holds no memory */
    stack.mesh = NULL;
    stack.room = 0;
    return RSH_OK;
}

rsh_status rsh_mesh_current(rsh_mesh **out) {
    RSH_NEEDS(out);
    RSH_REQUIRE(stack.n, RSH_ERUNTIME, "this thread has no current mesh; call rsh_mesh_push first");
    *out = stack.mesh[stack.n - 1];
    return RSH_OK;
}
