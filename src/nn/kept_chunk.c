/* Chunk: a value in the stash, shared by all slots that saved it. */
#include "nn/kept_chunk.h"

#include <string.h>

#include "nn/impl.h"
#include "nn/module.h"

/* Records the tensor that the chunk is cut from. */
static void record_source(rshn_chunk *c, const rsh_value *v, const rsh_tensor *t) {
    size_t bytes = (size_t)rsh_tensor_ndim(t) * sizeof *c->shape;
    c->serial = rsh_tensor_storage_serial(t);
    c->version = rsh_tensor_version(t);
    c->data = rsh_tensor_data(t);
    c->dtype = rsh_tensor_dtype(t);
    c->ndim = rsh_tensor_ndim(t);
    memcpy(c->shape, rsh_tensor_shape(t), bytes);
    memcpy(c->strides, rsh_tensor_strides(t), bytes);
    c->layout = rsh_layout_hold(rsh_value_layout(v));
    c->kind = rsh_value_get_kind(v, &c->kind_data);
    if (c->kind && c->kind->hold) c->kind->hold(c->kind_data);
}

rsh_status rshn_chunk_new(rsh_stash *stash, rsh_comm *comm, const rsh_value *v, int dim, rshn_chunk **out) {
    rshn_chunk *c = rshn_calloc(1, sizeof *c);
    if (!c) return rshn_fail(RSH_ENOMEM, "out of memory for a chunk of a saved tensor");
    c->refs = 1;
    c->comm = comm;
    record_source(c, v, rsh_value_part(v, 0));
    rsh_status st = rsh_stash_pack(stash, rsh_value_part(v, 0), dim, &c->ticket);
    if (st) rshn_chunk_drop(c);
    else *out = c;
    return st;
}

void rshn_chunk_drop(rshn_chunk *c) {
    if (!c || --c->refs) return;
    rsh_ticket_free(c->ticket);
    rsh_layout_free(c->layout);
    if (c->kind && c->kind->drop) c->kind->drop(c->kind_data);
    rsh_value_free(c->full);
    rshn_free(c);
}

bool rshn_chunk_is_of(const rshn_chunk *c, const rsh_tensor *t) {
    size_t bytes = (size_t)c->ndim * sizeof *c->shape;
    return c->serial == rsh_tensor_storage_serial(t) && c->version == rsh_tensor_version(t) &&
           c->data == rsh_tensor_data(t) && c->dtype == rsh_tensor_dtype(t) && c->ndim == rsh_tensor_ndim(t) &&
           !memcmp(c->shape, rsh_tensor_shape(t), bytes) && !memcmp(c->strides, rsh_tensor_strides(t), bytes);
}

/* ---- unpacking ---- */

/* Converts t to a value; takes ownership of t, even if it fails. */
static rsh_status as_value(const rshn_chunk *c, rsh_tensor *t, rsh_value **out) {
    rsh_status st;
    if (!c->layout) {
        st = rsh_value_adopt_tensor(t, false, out);
        if (st) rsh_tensor_free(t);
        return st;
    }
    rsh_sharded *s = NULL;
    st = rsh_sharded_from_tensors(c->comm, c->layout, 1, (const rsh_tensor *[]){t}, &s);
    rsh_tensor_free(t);
    NN_TRY(st);
    st = rsh_value_adopt_sharded(s, false, out);
    if (st) rsh_sharded_free(s);
    return st ? st : rsh_value_set_kind(*out, c->kind, c->kind_data);
}

static rsh_status gather_value(const rshn_chunk *c, rsh_value **out) {
    rsh_tensor *t = NULL;
    NN_TRY(rsh_stash_unpack(c->ticket, &t));
    rsh_status st = as_value(c, t, out);
    if (st) rsh_comm_agree(c->comm, st); /* the other ranks have completed the gather and continue */
    return st;
}

rsh_status rshn_chunk_prefetch(rshn_chunk *c, bool *begun) {
    *begun = !c->full && !rsh_ticket_is_begun(c->ticket);
    return *begun ? rsh_stash_prefetch(c->ticket) : RSH_OK;
}

void rshn_chunk_forget(rshn_chunk *c) { rsh_stash_forget(c->ticket); }

rsh_status rshn_chunk_read(rshn_chunk *c, bool *gathered, rsh_value **out) {
    *gathered = !c->full;
    if (!c->full) {
        c->unread = c->slots;
        NN_TRY(gather_value(c, &c->full));
    }
    if (--c->unread > 0) return rsh_value_detach(c->full, out);
    *out = c->full;
    c->full = NULL;
    return RSH_OK;
}
