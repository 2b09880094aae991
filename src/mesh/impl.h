/* mesh: shared by the files of this room. */
#ifndef RESHARD_MESH_IMPL_H
#define RESHARD_MESH_IMPL_H

#include <stdatomic.h>

#include "comm/comm.h"
#include "mesh/mesh.h"

/* The arguments of rsh_mesh_layout; compared as bytes. */
typedef struct rshi_asked_layout {
    int64_t numbers, dtype, ndim;
    int64_t shape[RSH_MAX_NDIM];
    rsh_place places[RSH_MAX_AXES];
} rshi_asked_layout;

#define RSHI_KNOWN 64
typedef struct rshi_known {
    rshi_asked_layout question;
    rsh_layout *layout;             /* held; NULL: unused */
    bool has_places;                /* `places` is set */
    rsh_place places[RSH_MAX_AXES]; /* the layout converted back to placements */
} rshi_known;

struct rsh_mesh {
    atomic_int refs;
    rsh_comm *parent; /* borrowed */
    rsh_mesh *whole;  /* held; the mesh of which this is a slice, if the slice uses its comms; NULL:
                         none */
    int ndim;
    int64_t shape[RSH_MAX_AXES];
    int64_t size;                     /* product of shape */
    int64_t *ranks;                   /* [size], owned; ranks of the parent, row-major */
    char *names[RSH_MAX_AXES];        /* owned; NULL: the mesh has no names */
    rsh_axis axis[RSH_MAX_AXES];      /* names of its dims in layouts on this mesh */
    int64_t position;                 /* of this rank, row-major; -1: not in the mesh */
    int64_t coordinate[RSH_MAX_AXES]; /* position in each dim */
    rsh_comm *comm;                   /* NULL: this rank is not in the mesh */
    rsh_comm *line[RSH_MAX_AXES];     /* for each dim: the comm of the ranks that differ from this
                                         rank only in that coordinate */
    bool owns_comm, owns_line[RSH_MAX_AXES];
    rshi_mesh_notes notes;
    rshi_known *known;   /* owned, RSHI_KNOWN entries: cache of recent layouts; NULL: empty */
    uint64_t next_known; /* index of the entry to replace next */
};

/* Creates a handle without comms.  RSH_EVALUE, RSH_ERUNTIME as rsh_mesh_new; RSH_ENOMEM. */
rsh_status rshi_mesh_handle(rsh_comm *parent, int ndim, const int64_t *shape, const int64_t *ranks,
                            const char *const *names, rsh_mesh **out);
/* Frees everything that the handle owns, including its comms.  No-op for NULL. */
void rshi_mesh_destroy(rsh_mesh *m);

/* Returns a cached layout, borrowed; NULL: not in the cache. */
rsh_layout *rshi_known_layout(const rsh_mesh *m, rsh_mesh_numbering numbers, int n,
                              const rsh_place *places, rsh_dtype dtype, int ndim,
                              const int64_t *shape);
void rshi_known_add(const rsh_mesh *m, rsh_mesh_numbering numbers, int n, const rsh_place *places,
                    rsh_dtype dtype, int ndim, const int64_t *shape, rsh_layout *layout);
/* Returns the cache entry of this layout; NULL: none. */
rshi_known *rshi_known_of(const rsh_mesh *m, rsh_mesh_numbering numbers, const rsh_layout *layout);
void rshi_known_free(rsh_mesh *m);

#endif
