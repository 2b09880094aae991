/* nn.md: a layer, a loss, and the gradient of the weight. */
#include <reshard/nn.h>

#include "page_ranks.h"

static rsh_value *leaf(rsh_dtype dtype, int ndim, const int64_t *shape, bool grad) {
    rsh_tensor *t = NULL;
    rsh_value *v = NULL;
    CHECK(rsh_tensor_zeros(dtype, ndim, shape, &t));
    CHECK(rsh_value_adopt_tensor(t, grad, &v));
    return v;
}

static rsh_status each(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_value *x = leaf(RSH_F32, 2, (int64_t[]){3, 4}, false), *weight = leaf(RSH_F32, 2, (int64_t[]){5, 4}, true);
    rsh_value *bias = leaf(RSH_F32, 1, (int64_t[]){5}, true), *target = leaf(RSH_I64, 1, (int64_t[]){3}, false);
    rsh_value *h = NULL, *y = NULL, *loss = NULL;
#include "block_1.c"
    REQUIRE(loss && rsh_value_grad(weight));
    rsh_value *all[] = {x, weight, bias, target, h, y, loss};
    for (int i = 0; i < 7; i++) rsh_value_free(all[i]);
    return RSH_OK;
}

int main(void) {
    CHECK(rsh_run(1, each, NULL));
    return 0;
}
