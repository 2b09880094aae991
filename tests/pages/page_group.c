/* group.md: a sum over three of four ranks. */
#include <reshard/torch.h>

#include "page_ranks.h"

#include "block_1.c"

static rsh_status each(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_tensor *t = NULL;
    CHECK(rsh_tensor_zeros(RSH_F32, 1, (int64_t[]){2}, &t));
    float *x = rsh_tensor_data(t);
    x[0] = x[1] = (float)rsh_comm_rank(comm);
    rsh_status st = sum_of_three(comm, t);
    REQUIRE(st || x[1] == (rsh_comm_rank(comm) ? 6 : 0));
    rsh_tensor_free(t);
    return st;
}

int main(void) {
    CHECK(rsh_run(4, each, NULL));
    return 0;
}
