/* probes: shared by tests of rsh_input_reshard: a mesh of all ranks, a small model, and a module
 * that saves its inputs. */
#ifndef RESHARD_TESTS_NN_PROBES_H
#define RESHARD_TESTS_NN_PROBES_H

#include "models.h"

#include <reshard/dtensor.h>
#include <reshard/nn/recompute.h>

#define ROWS 8
#define WIDTH 10
#define HIDDEN 16
#define INPUT_OPTS(...) (&(rsh_input_reshard_opts){sizeof(rsh_input_reshard_opts), __VA_ARGS__})

static inline int64_t ceiling(int64_t n, int64_t w) { return (n + w - 1) / w; }

static inline rsh_status line(rsh_mesh **out) {
    int64_t size = rsh_group_size(NULL);
    return rsh_mesh_new(rsh_group_comm(NULL), 1, &size, NULL, NULL, out);
}

/* Runs fn on 1 to 4 ranks. */
static inline void run_all(rsh_status (*fn)(void *ctx)) {
    for (int n = 1; n <= 4; n++) run_groups(n, fn, NULL);
}

static inline rsh_status mlp(rsh_module **out) {
    rsh_module *part[3];
    rsh_random_seed(3);
    TRY(rsh_linear_new(WIDTH, HIDDEN, true, RSH_F32, &part[0]));
    TRY(rsh_relu_new(&part[1]));
    TRY(rsh_linear_new(HIDDEN, WIDTH, true, RSH_F32, &part[2]));
    return sequence(3, part, out);
}

/* ---- a module that saves what it is given, and gives it back ---- */

typedef struct probe {
    rsh_saved *slot[4];
    int n;
    bool fail;
    rsh_module *inner; /* called after saving; NULL: none */
} probe;

static inline rsh_status probe_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    probe *p = *(probe **)rsh_module_state(m);
    for (int i = 0; i < 3; i++)
        if (in[i]) TRY(rsh_saved_new(in[i], &p->slot[p->n++]));
    if (p->fail) return rsh_fail(RSH_EIO, "the probe fails");
    if (p->inner) return rsh_module_forward(p->inner, in[0], out);
    *out = rsh_value_hold(in[0]);
    return RSH_OK;
}
static const rsh_module_kind probe_kind = {
    "Probe", 3, 1, NULL, probe_forward, sizeof(probe *), NULL};

static inline rsh_status probe_new(probe *p, rsh_mesh *mesh, int dim,
                                   const rsh_input_reshard_opts *opts, rsh_module **out) {
    TRY(rsh_module_new(&probe_kind, &p, out));
    return rsh_input_reshard(*out, mesh, dim, opts);
}
static inline rsh_status probe_call(rsh_module *m, int n, rsh_value *const *in) {
    rsh_value *out = NULL;
    TRY(rsh_module_call(m, n, in, &out));
    rsh_value_free(out);
    return RSH_OK;
}
static inline void probe_end(probe *p) {
    while (p->n) rsh_saved_free(p->slot[--p->n]);
}

/* Checks that the restored tensor has the same elements, shape, dtype and order of dims in
 * memory. */
static inline rsh_status comes_back(const rsh_saved *s, const rsh_value *v) {
    rsh_value *back = NULL;
    TRY(rsh_saved_read(s, &back));
    TRY(same_bits(back, v));
    CHECK(rsh_value_requires_grad(back) == false);
    CHECK(rsh_tensor_dense(rsh_value_part(back, 0)) == rsh_tensor_dense(rsh_value_part(v, 0)));
    rsh_value_free(back);
    return RSH_OK;
}

#endif
