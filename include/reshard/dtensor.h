/* DTensor: a value that is distributed over a mesh by placements.
 *
 * A DTensor is a distributed value (<reshard/grad.h>) with a mesh.  Its layout says what its
 * placements say, and its comm is the comm of the mesh.  Every redistribution is one plan, however
 * many dims the mesh has, and so is its derivative: a gradient keeps the placements that it has
 * until an op wants others.
 *
 * Functions that make a DTensor are collective over the comm of the mesh, unless they say
 * otherwise.  On a rank that is not in the mesh they return RSH_OK and a value of NULL, and a value
 * of NULL goes through all functions here as NULL.  The caller frees *out. */
#ifndef RESHARD_DTENSOR_H
#define RESHARD_DTENSOR_H

#include <reshard/grad.h>
#include <reshard/mesh.h>
#include <reshard/rule.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- making ---- */

/* Distributes a whole tensor.  Every rank gives a tensor of the same shape and dtype; the elements
 * are those of the rank at position `source` of the mesh, or with RSH_SOURCE_OWN each rank's own,
 * which must then be equal.  The result is a leaf.
 * RSH_EVALUE if the number of placements is not the mesh's, or `source` is not in the mesh;
 * RSH_EINDEX, RSH_EUNSUP, RSH_ETYPE as for rsh_mesh_layout; RSH_EMISMATCH if shapes or dtypes
 * differ; RSH_ETYPE if a gradient is required of a dtype that has none.
 * Collective over the mesh. */
#define RSH_SOURCE_OWN (-1)
RSH_API rsh_status rsh_dtensor_distribute(const rsh_tensor *t, bool requires_grad, rsh_mesh *mesh,
                                          int n, const rsh_place *places, int64_t source,
                                          rsh_value **out);

typedef struct rsh_from_local_opts {
    size_t struct_size;   /* sizeof(rsh_from_local_opts) */
    const int64_t *shape; /* of the whole; NULL: it is worked out from the sizes on all ranks */
    bool check;           /* compare what replicas hold; RSH_EVALUE on all ranks if they differ */
} rsh_from_local_opts;
#define RSH_FROM_LOCAL_OPTS_INIT {sizeof(rsh_from_local_opts), 0, 0}

/* A plain value as this rank's part.  The elements are shared.  `opts` may be NULL: zeros.  The
 * gradient comes back with these placements, partial ones replaced by replicated.
 * RSH_ERUNTIME if the value is distributed; RSH_EVALUE, naming a rank, if the sizes of the parts do
 * not go together, or if the options do not start from RSH_FROM_LOCAL_OPTS_INIT.  Collective over
 * the mesh; local if the shape is given and nothing is checked. */
RSH_API rsh_status rsh_dtensor_from_local(rsh_value *local, rsh_mesh *mesh, int n,
                                          const rsh_place *places, const rsh_from_local_opts *opts,
                                          rsh_value **out);

/* A DTensor of one number.  For random numbers fill it with rsh_sharded_uniform or
 * rsh_sharded_normal of rsh_value_sharded(*out): they are the same on every mesh.
 * RSH_EVALUE, RSH_EINDEX, RSH_EUNSUP, RSH_ETYPE as for rsh_mesh_layout; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_dtensor_full(rsh_mesh *mesh, int n, const rsh_place *places, rsh_dtype dtype,
                                    int ndim, const int64_t *shape, double number,
                                    rsh_value **out);

/* ---- questions ---- */

/* The mesh, borrowed; NULL if the value is not a DTensor.  Local. */
RSH_API rsh_mesh *rsh_dtensor_mesh(const rsh_value *v);
/* The placements, one for each dim of the mesh.  RSH_EVALUE if the value is not a DTensor.
 * Local. */
RSH_API rsh_status rsh_dtensor_places(const rsh_value *v, rsh_place *places);
/* Writes dtype, shape, placements and mesh, and this rank's part as rsh_tensor_print writes it.
 * RSH_EVALUE if the value is not a DTensor; RSH_EIO if the sink stops.  Local. */
RSH_API rsh_status rsh_dtensor_print(const rsh_value *v, const rsh_sink *sink);

/* ---- moving ---- */

/* The same tensor with other placements, and in another dtype if the last argument is not the
 * value's (RSH_DTYPE_NONE: as it is).  Equal placements move nothing.  The derivative brings the
 * gradient from the placements that it has to those of the source, partial ones replaced by
 * replicated.
 * RSH_EVALUE if the value is not a DTensor, or for a wrong number of placements; RSH_ERUNTIME if a
 * dim becomes partial that was not, or with another op; RSH_EUNSUP if ops are mixed.
 * Collective over the mesh. */
RSH_API rsh_status rsh_dtensor_redistribute(rsh_value *v, int n, const rsh_place *places,
                                            rsh_dtype dtype, rsh_value **out);
/* The same in steps: rsh_value_transit_test and rsh_value_transit_wait go on with it.  The caller
 * frees *out.  Errors as above.  Collective over the mesh. */
RSH_API rsh_status rsh_dtensor_redistribute_begin(rsh_value *v, int n, const rsh_place *places,
                                                  rsh_dtype dtype, rsh_value_transit **out);
/* The same tensor on another mesh of the same parent, of any shape and ranks.  All ranks of the
 * parent call, with both meshes; v is NULL on ranks outside `from`, and the shape comes from those
 * that have it.  `places` are for `to`; none is partial.  On ranks outside `to` the result is NULL,
 * or, if a gradient is recorded, a plain value of one element, 0: with rsh_backward of it such a
 * rank takes part when the others go back, since gradients come back from `to` to `from` in the
 * parent too.
 * RSH_EVALUE if the parents differ, v is not on `from`, or for a wrong number of placements;
 * RSH_ERUNTIME if a placement is partial; RSH_EMISMATCH if ranks ask for different things.
 * Collective over the parent. */
RSH_API rsh_status rsh_dtensor_move(rsh_value *v, rsh_mesh *from, rsh_mesh *to, int n,
                                    const rsh_place *places, rsh_dtype dtype, rsh_value **out);
/* This rank's part as a plain value, on the same elements.  `grads` are the placements that its
 * gradient has, one for each dim of the mesh; NULL: those of v.  A partial v usually wants
 * replicated ones.  Of a value of rsh_dtensor_part: the same elements, without its mark.
 * RSH_EVALUE if v is neither; RSH_EUNSUP, RSH_EINDEX as for rsh_mesh_layout.  Local. */
RSH_API rsh_status rsh_dtensor_to_local(rsh_value *v, const rsh_place *grads, rsh_value **out);
/* The same, and the value remembers whose part it is, unless every rank has the whole tensor; so do
 * values that ops compute from it.  Nobody takes such a value for replicated (rsh_input_reshard),
 * and rsh_dtensor_to_local gives the same elements without the mark.
 * Errors as above; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_dtensor_part(rsh_value *v, const rsh_place *grads, rsh_value **out);
/* The mesh of such a value, borrowed; NULL: it is none.  The layout of the DTensor that it is this
 * rank's part of, borrowed; NULL: it was computed from one.  Local. */
RSH_API rsh_mesh *rsh_dtensor_part_mesh(const rsh_value *v);
RSH_API const rsh_layout *rsh_dtensor_part_layout(const rsh_value *v);
/* The whole tensor as a plain value on every rank of the mesh; `grads` as above, after it has been
 * replicated.  The caller frees *out.
 * Errors as for rsh_dtensor_redistribute and rsh_dtensor_to_local.  Collective over the mesh. */
RSH_API rsh_status rsh_dtensor_full_tensor(rsh_value *v, const rsh_place *grads, rsh_value **out);

#ifdef __cplusplus
}
#endif
#endif
