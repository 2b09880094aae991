/* mesh.md: a mesh of 2 x 4 ranks. */
#include "page_ranks.h"

static rsh_status each(void *ctx, rsh_comm *comm) {
    (void)ctx;
#include "block_1.c"
    REQUIRE(mesh && rsh_mesh_size(mesh) == 8 && rsh_mesh_coordinate(mesh)[1] == rsh_comm_rank(comm) % 4);
    rsh_mesh_free(mesh);
    return RSH_OK;
}

int main(void) {
    CHECK(rsh_run(8, each, NULL));
    return 0;
}
