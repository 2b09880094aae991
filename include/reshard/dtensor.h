/* DTensor: a value that is distributed over a mesh by placements.
 *
 * A DTensor is a distributed value (<reshard/grad.h>) with a mesh.  Its layout expresses its
 * placements, and its comm is the comm of the mesh.  Every redistribution is a single plan, for any
 * number of mesh dims, and so is its derivative.  A gradient keeps its placements until an op needs
 * others.
 *
 * Functions that create a DTensor are collective over the comm of the mesh, unless they say
 * otherwise.  On a rank that is not in the mesh they return RSH_OK and NULL, and all functions here
 * accept NULL as such a value and return NULL for it.  The caller frees *out. */
#ifndef RESHARD_DTENSOR_H
#define RESHARD_DTENSOR_H

#include <reshard/grad.h>
#include <reshard/mesh.h>
#include <reshard/rule.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- creating ---- */

/* Distributes a whole tensor.  Every rank passes a tensor of the same shape and dtype.  The
 * elements are taken from the rank at position `source` of the mesh, or with RSH_SOURCE_OWN from
 * each rank's own tensor; these must then be equal.  The result is a leaf.
 * RSH_EVALUE if the number of placements is not the number of mesh dims, or `source` is not in the
 * mesh; RSH_EINDEX, RSH_EUNSUP, RSH_ETYPE as for rsh_mesh_layout; RSH_EMISMATCH if shapes or dtypes
 * differ; RSH_ETYPE if a gradient is required and the dtype is neither f32 nor f64.
 * Collective over the mesh. */
#define RSH_SOURCE_OWN (-1)
RSH_API rsh_status rsh_dtensor_distribute(const rsh_tensor *t, bool requires_grad, rsh_mesh *mesh,
                                          int n, const rsh_place *places, int64_t source,
                                          rsh_value **out);

typedef struct rsh_from_local_opts {
    size_t struct_size;   /* sizeof(rsh_from_local_opts) */
    const int64_t *shape; /* of the whole tensor; NULL: computed from the sizes on all ranks */
    bool check;           /* compare replicas; if they differ, return RSH_EVALUE on all ranks */
} rsh_from_local_opts;
#define RSH_FROM_LOCAL_OPTS_INIT {sizeof(rsh_from_local_opts), 0, 0}

/* Creates a DTensor from plain values, each of which is its rank's part.  The elements are shared.
 * `opts` may be NULL.  The gradient has the same placements; partial ones are treated as
 * replicated.  RSH_ERUNTIME if the value is distributed; RSH_EVALUE, naming a rank, if the sizes of
 * the parts do not match, or if the options do not start from RSH_FROM_LOCAL_OPTS_INIT.  Collective
 * over the mesh; local if the shape is given and `check` is false. */
RSH_API rsh_status rsh_dtensor_from_local(rsh_value *local, rsh_mesh *mesh, int n,
                                          const rsh_place *places, const rsh_from_local_opts *opts,
                                          rsh_value **out);

/* Creates a DTensor in which every element is `number`.  For random numbers, fill it with
 * rsh_sharded_uniform or rsh_sharded_normal of rsh_value_sharded(*out): they are the same on every
 * mesh.
 * RSH_EVALUE, RSH_EINDEX, RSH_EUNSUP, RSH_ETYPE as for rsh_mesh_layout; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_dtensor_full(rsh_mesh *mesh, int n, const rsh_place *places, rsh_dtype dtype,
                                    int ndim, const int64_t *shape, double number,
                                    rsh_value **out);

/* ---- getters ---- */

/* Returns the mesh, borrowed; NULL if the value is not a DTensor.  Local. */
RSH_API rsh_mesh *rsh_dtensor_mesh(const rsh_value *v);
/* Returns the placements, one for each dim of the mesh.  RSH_EVALUE if the value is not a DTensor.
 * Local. */
RSH_API rsh_status rsh_dtensor_places(const rsh_value *v, rsh_place *places);
/* Writes dtype, shape, placements and mesh, and this rank's part as rsh_tensor_print writes it.
 * RSH_EVALUE if the value is not a DTensor; RSH_EIO if the sink stops.  Local. */
RSH_API rsh_status rsh_dtensor_print(const rsh_value *v, const rsh_sink *sink);

/* ---- moving ---- */

/* Redistributes a tensor to other placements, and converts it to `dtype` (RSH_DTYPE_NONE: no
 * conversion).  Equal placements move nothing.  The derivative moves the gradient from its current
 * placements to those of the source; partial ones are treated as replicated.
 * RSH_EVALUE if the value is not a DTensor, or the number of placements is wrong; RSH_ERUNTIME if a
 * dim would become partial, or partial with another op; RSH_EUNSUP if ops are mixed.
 * Collective over the mesh. */
RSH_API rsh_status rsh_dtensor_redistribute(rsh_value *v, int n, const rsh_place *places,
                                            rsh_dtype dtype, rsh_value **out);
/* Does the same in steps; continue with rsh_value_transit_test and rsh_value_transit_wait.  The
 * caller frees *out.  Errors as above.  Collective over the mesh. */
RSH_API rsh_status rsh_dtensor_redistribute_begin(rsh_value *v, int n, const rsh_place *places,
                                                  rsh_dtype dtype, rsh_value_transit **out);
/* Moves a tensor to another mesh with the same parent; the two meshes may have any shapes and
 * ranks.  All ranks of the parent call it, with both meshes.  v is NULL on ranks outside `from`;
 * they learn the shape from the others.  `places` are for `to` and must not be partial.  On ranks
 * outside `to` the result is NULL or, if a gradient is recorded, a plain value with one element, 0.
 * Such a rank must call rsh_backward on that value when the others run backward, because gradients
 * move back through the parent.
 * RSH_EVALUE if the parents differ, v is not on `from`, or the number of placements is wrong;
 * RSH_ERUNTIME if a placement is partial; RSH_EMISMATCH if ranks pass different arguments.
 * Collective over the parent. */
RSH_API rsh_status rsh_dtensor_move(rsh_value *v, rsh_mesh *from, rsh_mesh *to, int n,
                                    const rsh_place *places, rsh_dtype dtype, rsh_value **out);
/* Returns this rank's part as a plain value on the same elements.  `grads` are the placements of
 * its gradient, one for each dim of the mesh; NULL: those of v.  If v is partial, the gradient is
 * usually replicated.  v may also be a result of rsh_dtensor_part: then the mark is removed.
 * RSH_EVALUE if v is neither; RSH_EUNSUP, RSH_EINDEX as for rsh_mesh_layout.  Local. */
RSH_API rsh_status rsh_dtensor_to_local(rsh_value *v, const rsh_place *grads, rsh_value **out);
/* Does the same, but marks the value as a part of the DTensor, unless every rank has the whole
 * tensor.  Values that ops compute from it are marked too.  A marked value is never treated as
 * replicated (rsh_input_reshard).  rsh_dtensor_to_local removes the mark.
 * Errors as above; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_dtensor_part(rsh_value *v, const rsh_place *grads, rsh_value **out);
/* Return the mesh of a marked value, borrowed, or NULL if it is not marked; and the layout of its
 * DTensor, borrowed, or NULL if the value was computed from a part.  Local. */
RSH_API rsh_mesh *rsh_dtensor_part_mesh(const rsh_value *v);
RSH_API const rsh_layout *rsh_dtensor_part_layout(const rsh_value *v);
/* Returns the whole tensor as a plain value on every rank of the mesh.  `grads` are the placements
 * of its gradient, as above.  The caller frees *out.
 * Errors of rsh_dtensor_redistribute and rsh_dtensor_to_local.  Collective over the mesh. */
RSH_API rsh_status rsh_dtensor_full_tensor(rsh_value *v, const rsh_place *grads, rsh_value **out);

#ifdef __cplusplus
}
#endif
#endif
