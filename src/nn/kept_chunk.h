/* kept_chunk: a rank's chunk of a value that is replicated on a mesh. */
#ifndef RESHARD_NN_KEPT_CHUNK_H
#define RESHARD_NN_KEPT_CHUNK_H

#include <reshard/grad.h>
#include <reshard/stash.h>

/* A chunk records what it was cut from, so that the whole value can be restored. */
typedef struct rshn_chunk {
    int refs;
    int slots, unread; /* slots that share it; how many of them have not read `full` yet */
    uint64_t serial, version; /* of the storage that it was cut from */
    const void *data;
    rsh_dtype dtype;
    int ndim;
    int64_t shape[RSH_MAX_NDIM], strides[RSH_MAX_NDIM];
    rsh_ticket *ticket;         /* owned */
    rsh_comm *comm;             /* borrowed; comm of the mesh */
    rsh_layout *layout;         /* owned; of a DTensor; NULL: the value was plain */
    const rsh_value_kind *kind; /* of a DTensor */
    void *kind_data;            /* held through the kind */
    rsh_value *full;            /* owned; the gathered value, until all slots have read it */
} rshn_chunk;

/* Packs a value's only tensor, which the stash cuts along `dim`.  The result has one reference. */
rsh_status rshn_chunk_new(rsh_stash *stash, rsh_comm *comm, const rsh_value *v, int dim,
                          rshn_chunk **out);
void rshn_chunk_drop(rshn_chunk *c); /* no-op for NULL */
/* Returns whether the chunk was cut from these elements. */
bool rshn_chunk_is_of(const rshn_chunk *c, const rsh_tensor *t);
/* Starts the gather of the next read, unless it was already started; *begun tells whether this call
 * started it.  Collective over the mesh. */
rsh_status rshn_chunk_prefetch(rshn_chunk *c, bool *begun);
/* Discards a prefetch that will not be read; on all ranks. */
void rshn_chunk_forget(rshn_chunk *c);
/* Restores the value.  The first of `slots` reads gathers it, which is collective over the mesh;
 * the others share the result. */
rsh_status rshn_chunk_read(rshn_chunk *c, bool *gathered, rsh_value **out);

#endif
