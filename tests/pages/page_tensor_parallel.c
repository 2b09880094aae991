/* tensor_parallel.md: a plan for the blocks of a model, on three ranks. */
#include <reshard/nn.h>

#include "page_ranks.h"

static const rsh_module_kind holder = {.name = "Model"};

static rsh_status make(rsh_module **out) {
    rsh_module *block = NULL, *blocks = NULL;
    rsh_attention_opts opts = {sizeof opts, .width = 12, .heads = 3, .bias = true, .causal = true};
    CHECK(rsh_module_new(&holder, NULL, out));
    CHECK(rsh_transformer_block_new(&opts, 24, RSH_F32, &block));
    CHECK(rsh_sequential_new(1, &block, &blocks));
    CHECK(rsh_module_set_child(*out, "blocks", blocks));
    rsh_module_free(block);
    rsh_module_free(blocks);
    return RSH_OK;
}

static rsh_status each(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_module *model = NULL, *up = NULL;
    rsh_mesh *mesh = NULL;
    rsh_value *weight = NULL;
    CHECK(rsh_mesh_new(comm, 1, (int64_t[]){rsh_comm_size(comm)}, NULL, NULL, &mesh));
    CHECK(make(&model));
#include "block_1.c"
    CHECK(rsh_module_submodule(model, "blocks.0.up", &up));
    CHECK(rsh_module_parameter(up, "weight", &weight));
    REQUIRE(rsh_tensor_shape(rsh_value_part(weight, 0))[0] == 8);
    rsh_module_free(model);
    rsh_mesh_free(mesh);
    return RSH_OK;
}

int main(void) {
    CHECK(rsh_run(3, each, NULL));
    return 0;
}
