/* dtensor.md: a tensor is cut over the mesh and becomes whole again. */
#include "page_ranks.h"

static rsh_status each(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_tensor *tensor = NULL;
    rsh_mesh *mesh = NULL;
    rsh_value *weight = NULL, *everywhere = NULL, *plain = NULL;
    CHECK(rsh_mesh_new(comm, 1, (int64_t[]){rsh_comm_size(comm)}, NULL, NULL, &mesh));
    CHECK(rsh_tensor_zeros(RSH_F32, 2, (int64_t[]){5, 3}, &tensor));
#include "block_1.c"
    REQUIRE(plain && rsh_tensor_count(rsh_value_tensor(plain)) == 15);
    rsh_mesh *left = NULL, *right = NULL;
    rsh_value *v = NULL, *moved = NULL, *seed = NULL;
    CHECK(rsh_mesh_new(comm, 1, (int64_t[]){2}, (int64_t[]){0, 1}, NULL, &left));
    CHECK(rsh_mesh_new(comm, 1, (int64_t[]){1}, (int64_t[]){2}, NULL, &right));
    CHECK(rsh_dtensor_distribute(tensor, true, left, 1, &rows, 0, &v));
    CHECK(rsh_dtensor_full(right, 1, &rows, RSH_F32, 2, (int64_t[]){5, 3}, 1, &seed));
#include "block_2.c"
    REQUIRE(!v == !rsh_value_grad(v) && !v == (rsh_comm_rank(comm) == 2));
    rsh_value_free(v), rsh_value_free(moved), rsh_value_free(seed);
    rsh_mesh_free(right), rsh_mesh_free(left);
    rsh_value_free(plain);
    rsh_value_free(everywhere);
    rsh_value_free(weight);
    rsh_tensor_free(tensor);
    rsh_mesh_free(mesh);
    return RSH_OK;
}

int main(void) {
    CHECK(rsh_run(3, each, NULL));
    return 0;
}
