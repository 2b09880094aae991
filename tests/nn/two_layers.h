/* two_layers: shared by tests of sharded modules: two Linears with a GELU in between, and access to
 * parameters by path. */
#ifndef RESHARD_TESTS_NN_TWO_LAYERS_H
#define RESHARD_TESTS_NN_TWO_LAYERS_H

#include "models.h"

static inline rsh_status chunks(int dim, int n, const int *ranks, rsh_spec **out) {
    return rsh_spec_chunk_ranks(dim, n, ranks, out);
}

/* y = fc2(gelu(fc1(x))) */
static inline rsh_status mlp_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    rsh_module *fc1 = NULL, *fc2 = NULL;
    rsh_value *h = NULL, *g = NULL;
    TRY(rsh_module_child(m, "fc1", &fc1));
    TRY(rsh_module_child(m, "fc2", &fc2));
    TRY(rsh_module_forward(fc1, in[0], &h));
    rsh_status st = rsh_nn_gelu(h, RSH_GELU_ERF, &g);
    if (!st) st = rsh_module_forward(fc2, g, out);
    rsh_value_free(h);
    rsh_value_free(g);
    return st;
}
static const rsh_module_kind mlp_kind = {
    .name = "Mlp", .nin = 1, .nout = 1, .forward = mlp_forward};

static inline rsh_status make_mlp(const int64_t *sizes, rsh_dtype dtype, rsh_module **out) {
    rsh_module *fc1 = NULL, *fc2 = NULL;
    rsh_random_seed(3);
    TRY(rsh_module_new(&mlp_kind, NULL, out));
    TRY(rsh_linear_new(sizes[0], sizes[1], true, dtype, &fc1));
    TRY(rsh_linear_new(sizes[1], sizes[2], true, dtype, &fc2));
    TRY(rsh_module_set_child(*out, "fc1", fc1));
    TRY(rsh_module_set_child(*out, "fc2", fc2));
    rsh_module_free(fc1);
    rsh_module_free(fc2);
    return RSH_OK;
}

static inline rsh_status parameter(rsh_module *m, const char *path, rsh_value **out) {
    rsh_module *owner = NULL;
    const char *name = NULL;
    TRY(rsh_module_owner(m, path, &owner, &name));
    return rsh_module_parameter(owner, name, out);
}

#endif
