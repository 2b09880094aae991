/* kept_chunk: what a rank keeps of a tensor that all ranks of a mesh have. */
#ifndef RESHARD_NN_KEPT_CHUNK_H
#define RESHARD_NN_KEPT_CHUNK_H

#include <reshard/grad.h>
#include <reshard/mesh.h>

/* A pair of layouts for tensors of one form: cut along a dim, and whole on every rank. */
typedef struct rshn_cutting {
    rsh_dtype dtype;
    int ndim, dim;
    int64_t shape[RSH_MAX_NDIM];
    rsh_layout *cut, *whole; /* owned */
} rshn_cutting;

/* Layouts by form, so that a training loop makes them once. */
typedef struct rshn_cuttings {
    rsh_mesh *mesh;     /* held: of one dim */
    rshn_cutting *list; /* owned */
    int64_t n, room;
} rshn_cuttings;
void rshn_cuttings_end(rshn_cuttings *c);

/* A chunk remembers what it was cut from, so that the whole comes back as it was. */
typedef struct rshn_chunk {
    int refs;
    int slots, unread; /* slots that keep it; those that will still read `full` */
    uint64_t serial, version; /* of the storage it was cut from */
    const void *data;
    rsh_dtype dtype;
    int ndim;
    int64_t shape[RSH_MAX_NDIM], strides[RSH_MAX_NDIM];
    int64_t restored[RSH_MAX_NDIM]; /* strides of what comes back: in that order, without gaps */
    rsh_sharded *mine;              /* owned: dims in the order in which they lie in memory */
    rsh_layout *whole;              /* owned: of the gathered tensor, in that order too */
    rsh_comm *comm;                 /* borrowed: of the mesh */
    rsh_layout *layout;             /* owned: of a DTensor; NULL: it was plain */
    const rsh_reading *reading;     /* of a DTensor */
    void *what;                     /* held through the reading */
    rsh_value *full;                /* owned: gathered, while further slots will read it */
} rshn_chunk;

/* Copies this rank's chunk along `dim` (from 0) of a value's tensor; with one reference. */
rsh_status rshn_chunk_new(rshn_cuttings *c, const rsh_value *v, int dim, rshn_chunk **out);
void rshn_chunk_drop(rshn_chunk *c); /* no-op for NULL */
/* Was it cut from these very elements? */
bool rshn_chunk_is_of(const rshn_chunk *c, const rsh_tensor *t);
/* The bytes that it keeps, and those of the whole. */
uint64_t rshn_chunk_bytes(const rshn_chunk *c);
uint64_t rshn_chunk_whole_bytes(const rshn_chunk *c);
/* The value as it was.  Of `slots` reads the first gathers, which is collective over the mesh; the
 * others share what it gave. */
rsh_status rshn_chunk_read(rshn_chunk *c, bool *gathered, rsh_value **out);

#endif
