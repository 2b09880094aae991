/* from-scalapack-and-mpi.md: a loop that binds once. */
#include "page_ranks.h"

static rsh_status each(void *ctx, rsh_comm *comm) {
    rsh_layout *const *layout = ctx, *from = layout[0], *to = layout[1];
    rsh_plan *plan = NULL;
    rsh_exec *exec = NULL;
    rsh_status st = RSH_OK;
    enum { lld_a = 100, lld_b = 120, steps = 3 };
    double *a = calloc(lld_a * 60, sizeof *a), *b = calloc(lld_b * 60, sizeof *b);
    REQUIRE(a && b);
#include "block_2.c"
    REQUIRE(plan && exec && !st);
    rsh_exec_free(exec);
    rsh_plan_free(plan);
    free(b);
    free(a);
    return st;
}

int main(void) {
    rsh_layout *layout[2] = {NULL, NULL};
    CHECK(rsh_layout_parse("f64[100/p:8, 60/q:8] on p=2,q=2 order(1,0)", &layout[0]));
    CHECK(rsh_layout_parse("f64[100/p:6, 60/q:6] on p=4,q=1 order(1,0)", &layout[1]));
    CHECK(rsh_run(4, each, layout));
    rsh_layout_free(layout[1]);
    rsh_layout_free(layout[0]);
    return 0;
}
