/* mesh: what the files of this room share. */
#ifndef RESHARD_MESH_IMPL_H
#define RESHARD_MESH_IMPL_H

#include <stdatomic.h>

#include "comm/comm.h"
#include "mesh/mesh.h"

/* What a layout was asked for with; compared as bytes. */
typedef struct rshi_asked_layout {
    int64_t numbers, dtype, ndim;
    int64_t shape[RSH_MAX_NDIM];
    rsh_place places[RSH_MAX_AXES];
} rshi_asked_layout;

#define RSHI_KNOWN 64
typedef struct rshi_known {
    rshi_asked_layout question;
    rsh_layout *layout;             /* held; NULL: nothing is here */
    bool has_places;                /* the way back was asked for too */
    rsh_place places[RSH_MAX_AXES]; /* and what came */
} rshi_known;

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
    rshi_known *known;   /* owned, RSHI_KNOWN of them: layouts made lately; NULL: none */
    uint64_t next_known; /* which of them is replaced next */
};

/* A handle of these ranks, without comms.  RSH_EVALUE, RSH_ERUNTIME as rsh_mesh_new; RSH_ENOMEM. */
rsh_status rshi_mesh_handle(rsh_comm *parent, int ndim, const int64_t *shape, const int64_t *ranks,
                            const char *const *names, rsh_mesh **out);
/* Frees what the handle owns, its comms too.  No-op for NULL. */
void rshi_mesh_destroy(rsh_mesh *m);

/* The layout of an earlier question, borrowed; NULL: it was not asked lately. */
rsh_layout *rshi_known_layout(const rsh_mesh *m, rsh_mesh_numbering numbers, int n,
                              const rsh_place *places, rsh_dtype dtype, int ndim,
                              const int64_t *shape);
void rshi_known_add(const rsh_mesh *m, rsh_mesh_numbering numbers, int n, const rsh_place *places,
                    rsh_dtype dtype, int ndim, const int64_t *shape, rsh_layout *layout);
/* The entry of that very layout; NULL: none. */
rshi_known *rshi_known_of(const rsh_mesh *m, rsh_mesh_numbering numbers, const rsh_layout *layout);
void rshi_known_free(rsh_mesh *m);

#endif
