/* Lines: meshes of one dim, whole tensors placed on them, and tests on several numbers of ranks. */
#ifndef TESTS_NN_LINES_H
#define TESTS_NN_LINES_H

#include "nn/placed_values.h"

static inline rsh_status line_of(rsh_comm *c, rsh_mesh **out) {
    int64_t size = rsh_comm_size(c);
    return rsh_mesh_new(c, 1, &size, NULL, NULL, out);
}

static inline rsh_status placed(rsh_mesh *m, const rsh_value *whole, const rsh_place *places,
                                rsh_value **out) {
    return rsh_dtensor_distribute(rsh_value_tensor(whole), rsh_value_requires_grad(whole), m,
                                  rsh_mesh_ndim(m), places, RSH_SOURCE_OWN, out);
}

static inline void run_on(int from, int to, rsh_rank_fn fn) {
    for (int n = from; n <= to; n++) {
        rsh_status st = rsh_run(n, fn, NULL);
        if (st) fail_msg("%d ranks: %s: %s", n, rsh_status_name(st), rsh_error_detail());
    }
}

#endif
