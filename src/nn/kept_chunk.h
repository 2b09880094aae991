/* kept_chunk: what a rank keeps of a value that all ranks of a mesh have. */
#ifndef RESHARD_NN_KEPT_CHUNK_H
#define RESHARD_NN_KEPT_CHUNK_H

#include <reshard/grad.h>
#include <reshard/stash.h>

/* A chunk remembers what it was cut from, so that the whole comes back as it was. */
typedef struct rshn_chunk {
    int refs;
    int slots, unread; /* slots that keep it; those that will still read `full` */
    uint64_t serial, version; /* of the storage it was cut from */
    const void *data;
    rsh_dtype dtype;
    int ndim;
    int64_t shape[RSH_MAX_NDIM], strides[RSH_MAX_NDIM];
    rsh_ticket *ticket;         /* owned */
    rsh_comm *comm;             /* borrowed: of the mesh */
    rsh_layout *layout;         /* owned: of a DTensor; NULL: it was plain */
    const rsh_value_kind *kind; /* of a DTensor */
    void *kind_data;            /* held through the kind */
    rsh_value *full;            /* owned: gathered, while further slots will read it */
} rshn_chunk;

/* Packs a value's only tensor, which the stash cuts along `dim`; with one reference. */
rsh_status rshn_chunk_new(rsh_stash *stash, rsh_comm *comm, const rsh_value *v, int dim,
                          rshn_chunk **out);
void rshn_chunk_drop(rshn_chunk *c); /* no-op for NULL */
/* Was it cut from these very elements? */
bool rshn_chunk_is_of(const rshn_chunk *c, const rsh_tensor *t);
/* Begins the gather of the next read, unless that has been done (*begun: it was done now);
 * collective over the mesh. */
rsh_status rshn_chunk_prefetch(rshn_chunk *c, bool *begun);
/* Ends it, if there will be no such read; on all ranks. */
void rshn_chunk_forget(rshn_chunk *c);
/* The value as it was.  Of `slots` reads the first gathers, which is collective over the mesh; the
 * others share what it gave. */
rsh_status rshn_chunk_read(rshn_chunk *c, bool *gathered, rsh_value **out);

#endif
