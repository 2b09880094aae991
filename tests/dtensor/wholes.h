/* wholes: tensors whose elements depend on their global index, so that any part can be checked. */
#ifndef RESHARD_TESTS_DTENSOR_WHOLES_H
#define RESHARD_TESTS_DTENSOR_WHOLES_H

#include "../comm/ranks.h"
#include "../tensor/element_at.h"
#include "dtensor/dtensor.h"

/* ---- numbers: element i of a tensor has the value i + 1 ---- */

static inline rsh_status make_whole(rsh_dtype dtype, int ndim, const int64_t *shape,
                                    rsh_tensor **out) {
    RSH_TRY(rsh_tensor_empty(dtype, ndim, shape, out));
    for (int64_t i = 0; i < rsh_tensor_count(*out); i++) {
        if (dtype == RSH_F32) ((float *)rsh_tensor_data(*out))[i] = (float)(i + 1);
        else ((double *)rsh_tensor_data(*out))[i] = (double)(i + 1);
    }
    return RSH_OK;
}

/* Checks that each element of this rank's part is `times` the number for its global index. */
static inline rsh_status holds(const rsh_value *v, double times) {
    const rsh_layout *l = rsh_value_layout(v);
    const rsh_tensor *t = rsh_value_tensor(v);
    const int64_t *shape = rsh_value_shape(v);
    CHECK(t);
    for (int64_t i = 0; i < rsh_tensor_count(t); i++) {
        int64_t index[RSH_MAX_NDIM], flat = 0;
        RSH_TRY(rsh_layout_global_index(l, rsh_comm_rank(rsh_value_comm(v)), 0, i, index));
        for (int d = 0; d < rsh_value_ndim(v); d++) flat = flat * shape[d] + index[d];
        CHECK(at(t, i) == times * (double)(flat + 1));
    }
    return RSH_OK;
}

/* Creates a leaf with the whole tensor. */
static inline rsh_status local_whole(rsh_dtype dtype, int ndim, const int64_t *shape,
                                     rsh_value **out) {
    rsh_tensor *t = NULL;
    RSH_TRY(make_whole(dtype, ndim, shape, &t));
    return rsh_value_adopt_tensor(t, true, out);
}

static inline rsh_status gradient_has(const rsh_value *g, const rsh_place *expected, double value) {
    rsh_place places[3];
    RSH_TRY(rsh_dtensor_places(g, places));
    CHECK(rsh_places_equal(2, rsh_mesh_ndim(rsh_dtensor_mesh(g)), places, expected));
    for (int64_t i = 0; i < rsh_tensor_count(rsh_value_tensor(g)); i++)
        CHECK(at(rsh_value_tensor(g), i) == value);
    return RSH_OK;
}

#endif
