/* dtensor: shared by the files of this room: the kind of DTensors and their layouts. */
#ifndef RESHARD_DTENSOR_DTENSOR_H
#define RESHARD_DTENSOR_DTENSOR_H

#include <reshard/dtensor.h>

#include "base/base.h"

/* The kind of every DTensor; its data are the mesh. */
extern const rsh_value_kind rshi_dtensor_kind;

/* Returns the layout of a tensor on the mesh, in positions. */
static inline rsh_status rshi_dtensor_layout(const rsh_mesh *mesh, int n, const rsh_place *places,
                                             rsh_dtype dtype, int ndim, const int64_t *shape,
                                             rsh_layout **out) {
    return rsh_mesh_layout(mesh, RSH_MESH_POSITIONS, n, places, dtype, ndim, shape, out);
}

#define RSHI_PLACES_TEXT 160
/* Writes "(S0, R, P(sum))" for error messages. */
void rshi_places_text(int n, const rsh_place *places, char text[RSHI_PLACES_TEXT]);

/* Replaces partial placements by replicated ones, as for a gradient. */
void rshi_places_unpartial(int n, const rsh_place *places, rsh_place *out);

/* Returns RSH_EVALUE, naming the function, unless v is a DTensor. */
rsh_status rshi_dtensor_require(const char *who, const rsh_value *v);

#endif
