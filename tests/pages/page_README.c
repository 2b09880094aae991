/* README.md: rows to columns of PyTorch's sharded tensors. */
#include <reshard/torch.h>

#include "page_ranks.h"

static rsh_status each(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int rank = rsh_comm_rank(comm);
    rsh_tensor *matrix = NULL, *whole = NULL;
    rsh_spec *rows = NULL, *columns = NULL;
    rsh_torch_tensor *a = NULL, *b = NULL;
    const int owners[] = {2, 3, 1, 0};
    CHECK(rsh_group_init(comm));
    CHECK(rsh_tensor_zeros(RSH_F32, 2, (int64_t[]){5, 6}, &matrix));
    CHECK(rsh_tensor_zeros(RSH_F32, 2, (int64_t[]){5, 6}, &whole));
    for (int i = 0; i < 30; i++) ((float *)rsh_tensor_data(matrix))[i] = rank ? -1.0f : (float)i;
#include "block_2.c"
    for (int i = 0; i < 30; i++) REQUIRE(((float *)rsh_tensor_data(whole))[i] == (rank == 2 ? (float)i : 0));
    rsh_torch_free(b);
    rsh_torch_free(a);
    rsh_spec_free(columns);
    rsh_spec_free(rows);
    rsh_tensor_free(whole);
    rsh_tensor_free(matrix);
    return rsh_group_destroy();
}

int main(void) {
    CHECK(rsh_run(4, each, NULL));
    return 0;
}
