/* Mesh: the ranks of a comm as an array of one or more dims, and what each of these dims does to a
 * tensor: shard it, replicate it, or hold partial values of it.
 *
 * A mesh names ranks of its parent comm, in any order.  It has a comm of its own, in which ranks
 * are ordered by coordinate, and one comm for each of its dims: the line of ranks through this
 * rank.  Ranks of the parent that are not in the mesh have a handle too, without comms.
 *
 * A mesh is immutable and reference-counted; one thread, the rank that made it, uses it.  The
 * parent comm is borrowed and must outlive the mesh.  Every rank of the parent makes and frees its
 * meshes in the same order. */
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

/* Makes a mesh of ranks of the parent.  `ranks` has one rank for each position of the mesh in
 * row-major order (the last dim is the fastest), each rank at most once; NULL: ranks 0, 1, 2, ...
 * `names` has one name per dim, or is NULL.  All ranks give the same arguments.  The caller frees
 * *out.
 * RSH_ERUNTIME if the mesh has more ranks than the parent, or a name is missing or given twice;
 * RSH_EVALUE if ndim or a size is out of range, or a rank is outside the parent or given twice;
 * RSH_EMISMATCH if ranks ask for different meshes.  Collective over the parent. */
RSH_API rsh_status rsh_mesh_new(rsh_comm *parent, int ndim, const int64_t *shape,
                                const int64_t *ranks, const char *const *names, rsh_mesh **out);
/* One more reference to the same mesh.  Never fails; NULL for NULL.  The caller frees the result,
 * once for every hold.  Local. */
RSH_API rsh_mesh *rsh_mesh_hold(const rsh_mesh *m);
/* Drops one reference; the last one frees the mesh and its comms.  No-op for NULL.  Local; on a
 * wire (mpi) collective, as rsh_comm_free. */
RSH_API void rsh_mesh_free(rsh_mesh *m);

/* The part of the mesh that varies along the named dims only and contains this rank; a rank that is
 * not in the mesh gets a mesh that it is not in.  Names are in the order of the mesh.  A slice by
 * one name, or by all, uses comms that the mesh has; other slices make comms.  The parent of the
 * slice is the parent of the mesh.  The caller frees *out.
 * RSH_ERUNTIME if the mesh has no names; RSH_EKEY for a name that it does not have, or names in
 * another order.  Local for one name or all; otherwise collective over the parent. */
RSH_API rsh_status rsh_mesh_slice(rsh_mesh *m, int n, const char *const *names, rsh_mesh **out);

/* ---- questions: local ---- */

/* Number of dims, and of ranks: in all, and along a dim.  -1 for NULL or a dim that is not there.
 * Local. */
RSH_API int rsh_mesh_ndim(const rsh_mesh *m);
RSH_API int64_t rsh_mesh_size(const rsh_mesh *m);
RSH_API int64_t rsh_mesh_dim_size(const rsh_mesh *m, int dim);
/* The sizes of all dims, and the ranks of the parent in row-major order.  Borrowed.  Local. */
RSH_API const int64_t *rsh_mesh_shape(const rsh_mesh *m);
RSH_API const int64_t *rsh_mesh_ranks(const rsh_mesh *m);
/* The name of a dim, borrowed; NULL if the mesh has no names.  Local. */
RSH_API const char *rsh_mesh_dim_name(const rsh_mesh *m, int dim);
/* The dim of a name.  RSH_EKEY if no dim has it.  Local. */
RSH_API rsh_status rsh_mesh_find_dim(const rsh_mesh *m, const char *name, int *dim);
/* This rank's position in each dim, borrowed; NULL if this rank is not in the mesh.  Local. */
RSH_API const int64_t *rsh_mesh_coordinate(const rsh_mesh *m);
/* The comm of the whole mesh, in which the rank at row-major position i is rank i; and of a dim, in
 * which the rank at coordinate i is rank i.  Borrowed; NULL if this rank is not in the mesh.
 * Local. */
RSH_API rsh_comm *rsh_mesh_comm(const rsh_mesh *m);
RSH_API rsh_comm *rsh_mesh_dim_comm(const rsh_mesh *m, int dim);
/* The comm that the mesh was made from, borrowed.  Local. */
RSH_API rsh_comm *rsh_mesh_parent(const rsh_mesh *m);
/* Have they the same parent, shape, ranks and names?  Local. */
RSH_API bool rsh_mesh_equal(const rsh_mesh *a, const rsh_mesh *b);

/* ---- the current mesh: a stack for each thread ---- */

/* Makes a mesh current until the matching pop, and holds it as long.  RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_mesh_push(rsh_mesh *m);
/* Ends the latest push and drops its reference.  RSH_ERUNTIME if no mesh is current.  Local. */
RSH_API rsh_status rsh_mesh_pop(void);
/* The mesh pushed last, borrowed.  RSH_ERUNTIME if no mesh is current.  Local. */
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

/* Which rank numbers a layout of a mesh has. */
typedef enum rsh_mesh_numbering {
    RSH_MESH_POSITIONS, /* 0 to size-1: ranks of rsh_mesh_comm */
    RSH_MESH_PARENT     /* ranks of rsh_mesh_parent, for moves between meshes */
} rsh_mesh_numbering;

/* The layout of a tensor with one placement for each dim of the mesh, applied from the first dim to
 * the last: where several dims shard one dim of the tensor, the later one cuts the chunk that the
 * earlier one leaves.  Axes have the names of the mesh where the notation can spell them, else m0,
 * m1, ...  The caller frees *out.
 * RSH_EVALUE if `n` is not the mesh's number of dims; RSH_EINDEX if a sharded dim is not there;
 * RSH_EUNSUP if partial placements have different ops; RSH_ETYPE if the op does not exist for the
 * dtype; RSH_ENOMEM.  Pure. */
RSH_API rsh_status rsh_mesh_layout(const rsh_mesh *m, rsh_mesh_numbering numbers, int n,
                                   const rsh_place *places, rsh_dtype dtype, int ndim,
                                   const int64_t *shape, rsh_layout **out);
/* The other way round: the placements of a layout on this mesh, where it has any; `places` has room
 * for one per dim of the mesh.
 * RSH_EUNSUP, naming what, if the layout has other axes, rank numbers, cuts or an order that
 * placements cannot say.  Pure. */
RSH_API rsh_status rsh_mesh_places(const rsh_mesh *m, rsh_mesh_numbering numbers,
                                   const rsh_layout *layout, rsh_place *places);
/* Are two lists of n placements equal?  Negative dims count from the end of ndim dims.  Pure. */
RSH_API bool rsh_places_equal(int ndim, int n, const rsh_place *a, const rsh_place *b);
/* Writes placements as text, "(S0, R, P(sum))".  RSH_EIO if the sink stops.  Pure. */
RSH_API rsh_status rsh_places_print(int n, const rsh_place *places, const rsh_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
