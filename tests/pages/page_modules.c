/* modules.md: a user-defined kind of module, a group of parameters, and a model in files. */
#include <reshard/nn.h>

#include "page_ranks.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "block_1.c"

/* The first block changes an optimizer; the second saves it with its model and loads both. */
static rsh_status each(void *ctx, rsh_comm *comm) {
    rsh_module *module = NULL;
    rsh_optimizer *optimizer = NULL;
    rsh_adam_opts opts = RSH_ADAMW_OPTS_INIT;
    rsh_ckpt *c = NULL;
    double decay = 1;
    (void)ctx;
    CHECK(rsh_linear_new(2, 2, true, RSH_F32, &module));
    CHECK(rsh_adam_new(module, &opts, &optimizer));
#include "block_2.c"
    CHECK(rsh_optimizer_get_settings(optimizer, "bias", NULL, &decay));
    REQUIRE(decay == 0);
#include "block_3.c"
    CHECK(rsh_ckpt_open("step-1000", NULL, &c));
    REQUIRE(rsh_ckpt_find(c, "bias") >= 0 && rsh_ckpt_find(c, "optimizer.bias.weight_decay") >= 0);
    rsh_ckpt_free(c);
    rsh_optimizer_free(optimizer);
    rsh_module_free(module);
    return RSH_OK;
}

int main(void) {
    rsh_module *m = NULL;
    rsh_tensor *t = NULL;
    rsh_value *x = NULL, *y = NULL;
    CHECK(rsh_module_new(&twice_kind, NULL, &m));
    CHECK(rsh_tensor_zeros(RSH_F64, 1, (int64_t[]){1}, &t));
    *(double *)rsh_tensor_data(t) = 4;
    CHECK(rsh_value_adopt_tensor(t, false, &x));
    CHECK(rsh_module_forward(m, x, &y));
    REQUIRE(*(const double *)rsh_tensor_data(rsh_value_tensor(y)) == 8);
    rsh_value_free(y);
    rsh_value_free(x);
    rsh_module_free(m);
    CHECK(rsh_run(2, each, NULL));
    return 0;
}
