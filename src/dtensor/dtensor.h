/* dtensor: a value read as a tensor on a mesh, for the files of this room. */
#ifndef RESHARD_DTENSOR_DTENSOR_H
#define RESHARD_DTENSOR_DTENSOR_H

#include <reshard/dtensor.h>

#include "base/base.h"

/* The kind of every DTensor; what belongs to it is its mesh. */
extern const rsh_value_kind rshi_dtensor_kind;

/* The layout of a tensor on the mesh, by positions. */
static inline rsh_status rshi_dtensor_layout(const rsh_mesh *mesh, int n, const rsh_place *places,
                                             rsh_dtype dtype, int ndim, const int64_t *shape,
                                             rsh_layout **out) {
    return rsh_mesh_layout(mesh, RSH_MESH_POSITIONS, n, places, dtype, ndim, shape, out);
}

#define RSHI_PLACES_TEXT 160
/* "(S0, R, P(sum))", for sentences. */
void rshi_places_text(int n, const rsh_place *places, char text[RSHI_PLACES_TEXT]);

/* Partial placements replaced by replicated ones: what a gradient has. */
void rshi_places_unpartial(int n, const rsh_place *places, rsh_place *out);

/* RSH_EVALUE, naming the function, unless v is a DTensor. */
rsh_status rshi_dtensor_require(const char *who, const rsh_value *v);

#endif
