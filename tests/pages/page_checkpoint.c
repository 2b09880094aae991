/* checkpoint.md: one block saves, loads and reads a box, on ranks with two rows each. */
#include "page_ranks.h"

static rsh_status each(void *ctx, rsh_comm *comm) {
    enum { n = 1 };
    const char *const names[n] = {"embed"};
    rsh_sharded *tensors[n] = {NULL};
    const rsh_sharded *const *saved = (const rsh_sharded *const *)tensors;
    rsh_ckpt *c = NULL;
    float read[3] = {0, 0, 0};
    rsh_memory memory = {read, NULL};
    rsh_box box = {.lo = {1, 0}, .hi = {2, 3}};
    CHECK(rsh_sharded_zeros(comm, ctx, &tensors[0]));
    CHECK(rsh_sharded_uniform(tensors[0], 1));
#include "block_1.c"
    REQUIRE(c && (read[0] != 0 || read[1] != 0));
    rsh_ckpt_free(c);
    rsh_sharded_free(tensors[0]);
    return RSH_OK;
}

int main(void) {
    rsh_layout *layout = NULL;
    CHECK(rsh_layout_parse("f32[4/x, 3] on x=2", &layout));
    CHECK(rsh_run(2, each, layout));
    rsh_layout_free(layout);
    return 0;
}
