/* mesh: what the files of this room share. */
#ifndef RESHARD_MESH_IMPL_H
#define RESHARD_MESH_IMPL_H

#include <stdatomic.h>

#include "comm/comm.h"
#include "mesh/mesh.h"

struct rsh_mesh {
    atomic_int refs;
    rsh_comm *parent; /* borrowed */
    rsh_mesh *whole;  /* held: the mesh whose slice this is and whose comms it uses; NULL: none */
    int ndim;
    int64_t shape[RSH_MAX_AXES];
    int64_t size;                     /* product of shape */
    int64_t *ranks;                   /* [size], owned: ranks of the parent, row-major */
    char *names[RSH_MAX_AXES];        /* owned; NULL: the mesh has no names */
    rsh_axis axis[RSH_MAX_AXES];      /* as layouts on this mesh name its dims */
    int64_t position;                 /* of this rank, row-major; -1: not in the mesh */
    int64_t coordinate[RSH_MAX_AXES]; /* the same by dims */
    rsh_comm *comm;                   /* NULL: this rank is not in the mesh */
    rsh_comm *line[RSH_MAX_AXES];     /* by dim: the ranks that differ in its coordinate only */
    bool owns_comm, owns_line[RSH_MAX_AXES];
    rshi_mesh_notes notes;
};

/* A handle of these ranks, without comms.  RSH_EVALUE, RSH_ERUNTIME as rsh_mesh_new; RSH_ENOMEM. */
rsh_status rshi_mesh_handle(rsh_comm *parent, int ndim, const int64_t *shape, const int64_t *ranks,
                            const char *const *names, rsh_mesh **out);
/* Frees what the handle owns, its comms too.  No-op for NULL. */
void rshi_mesh_destroy(rsh_mesh *m);

#endif
