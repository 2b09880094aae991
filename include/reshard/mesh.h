/* Mesh: arranges ranks of a comm in an array of one or more dims.  Each dim shards a tensor,
 * replicates it, or holds partial values of it.
 *
 * A mesh contains ranks of its parent comm, in any order.  It has a comm for all its ranks, ordered
 * by coordinate, and one comm for each dim: the ranks that differ from this rank only in that
 * coordinate.  Ranks of the parent that are not in the mesh also get a handle, without comms.
 *
 * A mesh is immutable and reference-counted.  It belongs to one thread, the rank that created it.
 * The parent comm is borrowed and must outlive the mesh.  Every rank of the parent must create and
 * free its meshes in the same order. */
#ifndef RESHARD_MESH_H
#define RESHARD_MESH_H

#include <reshard/comm.h>
#include <reshard/layout.h>
#include <reshard/sink.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_mesh rsh_mesh;

/* ---- meshes ---- */

/* Creates a mesh of ranks of the parent.  `ranks` has one rank for each position of the mesh in
 * row-major order (the last dim varies fastest), each rank at most once; NULL: ranks 0, 1, 2, ...
 * `names` has one name per dim, or is NULL.  All ranks must pass the same arguments.  The caller
 * frees *out.
 * RSH_ERUNTIME if the mesh has more ranks than the parent, or a name is missing or given twice;
 * RSH_EVALUE if ndim or a size is out of range, or a rank is outside the parent or given twice;
 * RSH_EMISMATCH if ranks pass different arguments.  Collective over the parent. */
RSH_API rsh_status rsh_mesh_new(rsh_comm *parent, int ndim, const int64_t *shape,
                                const int64_t *ranks, const char *const *names, rsh_mesh **out);
/* Adds a reference and returns the same mesh, or NULL for NULL.  Never fails.  The caller calls
 * rsh_mesh_free once for every hold.  Local. */
RSH_API rsh_mesh *rsh_mesh_hold(const rsh_mesh *m);
/* Drops one reference; the last one frees the mesh and its comms.  No-op for NULL.  Local; with MPI
 * collective, like rsh_comm_free. */
RSH_API void rsh_mesh_free(rsh_mesh *m);

/* Creates a mesh of the named dims: the ranks that have this rank's coordinates in all other dims.
 * A rank that is not in the mesh gets a mesh that does not contain it.  Names must be in the order
 * of the mesh.  A slice by one name, or by all names, uses existing comms of the mesh; other slices
 * create comms.  The slice has the same parent as the mesh.  The caller frees *out.
 * RSH_ERUNTIME if the mesh has no names; RSH_EKEY if a name is unknown or out of order.  Local for
 * one name or all; otherwise collective over the parent. */
RSH_API rsh_status rsh_mesh_slice(rsh_mesh *m, int n, const char *const *names, rsh_mesh **out);

/* ---- getters: local ---- */

/* Return the number of dims, the number of ranks, and the size of a dim; -1 for NULL or if there is
 * no such dim.  Local. */
RSH_API int rsh_mesh_ndim(const rsh_mesh *m);
RSH_API int64_t rsh_mesh_size(const rsh_mesh *m);
RSH_API int64_t rsh_mesh_dim_size(const rsh_mesh *m, int dim);
/* Return the sizes of all dims, and the parent's ranks in row-major order.  Borrowed.  Local. */
RSH_API const int64_t *rsh_mesh_shape(const rsh_mesh *m);
RSH_API const int64_t *rsh_mesh_ranks(const rsh_mesh *m);
/* Returns the name of a dim, borrowed; NULL if the mesh has no names.  Local. */
RSH_API const char *rsh_mesh_dim_name(const rsh_mesh *m, int dim);
/* Finds the dim with this name.  RSH_EKEY if there is none.  Local. */
RSH_API rsh_status rsh_mesh_find_dim(const rsh_mesh *m, const char *name, int *dim);
/* Returns this rank's coordinate in each dim, borrowed; NULL if this rank is not in the mesh.
 * Local. */
RSH_API const int64_t *rsh_mesh_coordinate(const rsh_mesh *m);
/* Return the comm of the whole mesh, whose rank i is at row-major position i, and the comm of a
 * dim, whose rank i is at coordinate i.  Borrowed; NULL if this rank is not in the mesh.  Local. */
RSH_API rsh_comm *rsh_mesh_comm(const rsh_mesh *m);
RSH_API rsh_comm *rsh_mesh_dim_comm(const rsh_mesh *m, int dim);
/* Returns the parent comm, borrowed.  Local. */
RSH_API rsh_comm *rsh_mesh_parent(const rsh_mesh *m);
/* Returns whether two meshes have the same parent, shape, ranks and names.  Local. */
RSH_API bool rsh_mesh_equal(const rsh_mesh *a, const rsh_mesh *b);

/* ---- the current mesh: a stack for each thread ---- */

/* Makes a mesh current until the matching pop, and holds it until then.  RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_mesh_push(rsh_mesh *m);
/* Undoes the latest push.  RSH_ERUNTIME if no mesh is current.  Local. */
RSH_API rsh_status rsh_mesh_pop(void);
/* Returns the mesh that was pushed last, borrowed.  RSH_ERUNTIME if no mesh is current.  Local. */
RSH_API rsh_status rsh_mesh_current(rsh_mesh **out);

/* ---- placements: what each dim of a mesh does to a tensor ---- */

typedef enum rsh_place_kind {
    RSH_PLACE_REPLICATE, /* every coordinate has the same elements */
    RSH_PLACE_SHARD,     /* coordinate i has chunk i of a dim of the tensor */
    RSH_PLACE_PARTIAL    /* the value is the reduction over the coordinates */
} rsh_place_kind;

typedef struct rsh_place {
    rsh_place_kind kind;
    int dim;   /* of RSH_PLACE_SHARD; negative: from the end */
    rsh_op op; /* of RSH_PLACE_PARTIAL */
} rsh_place;

static inline rsh_place rsh_place_replicate(void) {
    rsh_place p = {RSH_PLACE_REPLICATE, 0, RSH_OP_NONE};
    return p;
}
static inline rsh_place rsh_place_shard(int dim) {
    rsh_place p = {RSH_PLACE_SHARD, 0, RSH_OP_NONE};
    p.dim = dim;
    return p;
}
static inline rsh_place rsh_place_partial(rsh_op op) {
    rsh_place p = {RSH_PLACE_PARTIAL, 0, RSH_OP_NONE};
    p.op = op;
    return p;
}

/* Which rank numbers the layout of a mesh uses. */
typedef enum rsh_mesh_numbering {
    RSH_MESH_POSITIONS, /* 0 to size-1: ranks of rsh_mesh_comm */
    RSH_MESH_PARENT     /* ranks of rsh_mesh_parent, for moves between meshes */
} rsh_mesh_numbering;

/* Creates the layout of a tensor with one placement for each dim of the mesh.  Placements are
 * applied from the first dim to the last: if several dims shard one dim of the tensor, the later
 * one cuts the chunk of the earlier one.  Axes have the names of the mesh if the notation allows
 * them, otherwise m0, m1, ...  The caller frees *out.
 * RSH_EVALUE if `n` is not the mesh's number of dims; RSH_EINDEX if a sharded dim does not exist;
 * RSH_EUNSUP if partial placements have different ops; RSH_ETYPE if the op does not exist for the
 * dtype; RSH_ENOMEM.  Pure. */
RSH_API rsh_status rsh_mesh_layout(const rsh_mesh *m, rsh_mesh_numbering numbers, int n,
                                   const rsh_place *places, rsh_dtype dtype, int ndim,
                                   const int64_t *shape, rsh_layout **out);
/* Converts a layout to placements on this mesh.  `places` has room for one per dim of the mesh.
 * RSH_EUNSUP if the layout has other axes, rank numbers or cuts, or an order that placements cannot
 * express; the message says which.  Pure. */
RSH_API rsh_status rsh_mesh_places(const rsh_mesh *m, rsh_mesh_numbering numbers,
                                   const rsh_layout *layout, rsh_place *places);
/* Returns whether two lists of n placements are equal for a tensor with ndim dims; negative dims
 * count from the end.  Pure. */
RSH_API bool rsh_places_equal(int ndim, int n, const rsh_place *a, const rsh_place *b);
/* Writes placements as text, "(S0, R, P(sum))".  RSH_EIO if the sink stops.  Pure. */
RSH_API rsh_status rsh_places_print(int n, const rsh_place *places, const rsh_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
