/* Input reshard: hooks around a module that store saved tensors as chunks. */
#include <stdlib.h>
#include <string.h>

#include <reshard/dtensor.h>
#include <reshard/nn/recompute.h>

#include "nn/kept_chunk.h"
#include "nn/impl.h"
#include "nn/module.h"

struct call;

/* A call that has not returned yet. */
typedef struct open_call {
    struct call *call; /* borrowed: the call, which the pair of hooks on the stack owns */
    int level;         /* nesting level of calls of this module */
    int depth;         /* depth of the stack of hooks before the call */
} open_call;

/* The arguments of rsh_input_reshard.  Both hooks of the module and every call hold it. */
typedef struct request {
    int refs;
    rsh_mesh *mesh;   /* held; has one dim */
    rsh_stash *stash; /* owned */
    int dim;
    bool plain, check, ahead;
    int64_t threshold;
    rsh_input_reshard_stats *stats; /* borrowed: the caller's counters, or `unread` */
    rsh_input_reshard_stats unread; /* counters that are used if the caller passes none */
    open_call *open;                /* owned */
    int64_t nopen, open_room;
} request;

/* One call of the module; the context of a pair of hooks. */
typedef struct call {
    request *asked;     /* held */
    rshn_chunk **chunk; /* owned: the chunks so far, each held until forward ends, so that later slots can share them */
    int64_t nchunks, room;
    rshn_seen own; /* serial numbers of the storages of parameters and buffers */
} call;

/* Content of a saved slot: a chunk, or the tensor itself. */
typedef struct kept {
    rshn_chunk *chunk; /* held; NULL: the tensor was not cut */
    rsh_value *left;   /* owned: the tensor that was not cut */
    uint64_t version;  /* version of `left` when it was saved */
} kept;

static void request_drop(void *ctx) {
    request *r = ctx;
    if (--r->refs) return;
    rsh_stash_free(r->stash);
    rsh_mesh_free(r->mesh);
    rshn_free(r->open);
    rshn_free(r);
}

/* Called when forward has ended, so no more slots follow. */
static void close_call(call *c) {
    for (int64_t i = 0; i < c->nchunks; i++) rshn_chunk_drop(c->chunk[i]);
    rshn_free(c->chunk);
    c->chunk = NULL;
    c->nchunks = c->room = 0;
    rshn_seen_free(&c->own);
    c->own = (rshn_seen){0};
}

static void call_drop(void *ctx) {
    call *c = ctx;
    close_call(c);
    request_drop(c->asked);
    rshn_free(c);
}

/* ---- which tensors are cut ---- */

static bool replicated(const request *r, const rsh_value *v) {
    rsh_mesh *mesh = rsh_dtensor_mesh(v);
    rsh_place place;
    if (!mesh) return !rsh_value_sharded(v) && !rsh_value_get_kind(v, NULL) && r->plain;
    return rsh_value_sharded(v) && rsh_mesh_equal(mesh, r->mesh) && !rsh_dtensor_places(v, &place) &&
           place.kind == RSH_PLACE_REPLICATE && rsh_value_nparts(v) == 1;
}

/* Returns whether a tensor is cut.  All ranks decide the same way, because only shape, strides and kind are used. */
static bool is_cut(const request *r, const rsh_value *v) {
    if (rsh_value_is_leaf(v) && rsh_value_requires_grad(v)) return false;
    if (!replicated(r, v)) return false;
    const rsh_tensor *t = rsh_value_part(v, 0);
    return rsh_tensor_count(t) >= r->threshold && rsh_stash_would_cut(r->stash, t, r->dim);
}

static const void *key_of(const rsh_tensor *t) { return (const void *)(uintptr_t)rsh_tensor_storage_serial(t); }

static bool is_own(const call *c, const rsh_tensor *t) { return rshn_seen_has(&c->own, key_of(t)); }

/* ---- comparing ranks ---- */

static rsh_status digest_of(const rsh_tensor *t, rsh_digest *out) {
    int64_t zeros[RSH_MAX_NDIM] = {0};
    const int64_t *shape = rsh_tensor_shape(t);
    NN_TRY(rsh_digest_begin(rsh_dtype_name(rsh_tensor_dtype(t)), rsh_tensor_ndim(t), shape, out));
    return rsh_digest_add_box(out, rsh_dtype_size(rsh_tensor_dtype(t)), rsh_tensor_ndim(t), shape, zeros, shape,
                              rsh_tensor_data(t), rsh_tensor_strides(t));
}

static rsh_status compare_digests(const request *r, const rsh_tensor *t) {
    rsh_digest mine = {0, 0};
    int other = 0;
    rsh_status st = digest_of(t, &mine);
    NN_TRY(rshn_ranks_compare(rsh_mesh_comm(r->mesh), st, &mine, sizeof mine, &other));
    if (!other) return RSH_OK;
    return rshn_fail(RSH_EVALUE,
                     "rsh_input_reshard: plain_is_replicated is set, but a plain %s tensor %s differs between ranks %d "
                     "and 0 of the mesh; pass equal tensors or a DTensor",
                     rsh_dtype_name(rsh_tensor_dtype(t)), rshn_shape_text(t), other);
}

/* ---- packing ---- */

static rshn_chunk *find_chunk(const call *c, const rsh_tensor *t) {
    for (int64_t i = c->nchunks - 1; i >= 0; i--)
        if (rshn_chunk_is_of(c->chunk[i], t)) return c->chunk[i];
    return NULL;
}

static rsh_status new_chunk(call *c, const rsh_value *v, rshn_chunk **out) {
    request *r = c->asked;
    if (r->check && !rsh_value_sharded(v)) NN_TRY(compare_digests(r, rsh_value_part(v, 0)));
    NN_TRY(RSHN_GROW(c->chunk, c->nchunks + 1, &c->room));
    NN_TRY(rshn_chunk_new(r->stash, rsh_mesh_comm(r->mesh), v, r->dim, out));
    c->chunk[c->nchunks++] = *out;
    r->stats->cut++;
    r->stats->bytes_kept += rsh_ticket_bytes_kept((*out)->ticket);
    r->stats->bytes_whole += rsh_ticket_bytes((*out)->ticket);
    return RSH_OK;
}

static rsh_status keep_chunk(call *c, const rsh_value *v, kept *k) {
    rshn_chunk *found = find_chunk(c, rsh_value_part(v, 0));
    if (found) c->asked->stats->shared++;
    else NN_TRY(new_chunk(c, v, &found));
    found->refs++;
    found->slots++;
    k->chunk = found;
    return RSH_OK;
}

static uint64_t version_of(const rsh_value *v) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < rsh_value_nparts(v); i++) sum += rsh_tensor_version(rsh_value_part(v, i));
    return sum;
}

static rsh_status pack_tensor(void *ctx, rsh_value *v, void **packed) {
    call *c = ctx;
    kept *k = rshn_calloc(1, sizeof *k);
    if (!k) return rshn_fail(RSH_ENOMEM, "out of memory for a saved tensor");
    bool cut = is_cut(c->asked, v) && !is_own(c, rsh_value_part(v, 0));
    rsh_status st = cut ? keep_chunk(c, v, k) : rsh_value_detach(v, &k->left);
    k->version = version_of(v);
    c->asked->stats->left += !cut;
    if (st) rshn_free(k);
    else *packed = k;
    return st;
}

/* Reads a tensor that was not cut, which is local.  A rank that fails must tell the others, which may be waiting in a
 * gather. */
static rsh_status read_left(const call *c, const kept *k, rsh_value **out) {
    uint64_t now = version_of(k->left);
    rsh_status st = now == k->version
                        ? rsh_value_detach(k->left, out)
                        : rshn_fail(RSH_ERUNTIME,
                                    "a tensor that was saved for backward has been modified: expected version %llu, "
                                    "found %llu; do not write to it between forward and backward",
                                    (unsigned long long)k->version, (unsigned long long)now);
    if (st) rsh_comm_agree(rsh_mesh_comm(c->asked->mesh), st);
    return st;
}

static rsh_status unpack_tensor(void *ctx, void *packed, rsh_value **out) {
    kept *k = packed;
    bool gathered = false;
    if (!k->chunk) return read_left(ctx, k, out);
    rsh_status st = rshn_chunk_read(k->chunk, &gathered, out);
    ((call *)ctx)->asked->stats->gathers += gathered;
    return st;
}

/* Starts the gather of a slot that backward will read next. */
static rsh_status prefetch_tensor(void *ctx, void *packed) {
    kept *k = packed;
    bool begun = false;
    if (k->chunk) NN_TRY(rshn_chunk_prefetch(k->chunk, &begun));
    ((call *)ctx)->asked->stats->prefetches += begun;
    return RSH_OK;
}

static void forget_tensor(void *ctx, void *packed) {
    kept *k = packed;
    (void)ctx;
    if (k->chunk) rshn_chunk_forget(k->chunk);
}

static void release_tensor(void *ctx, void *packed) {
    kept *k = packed;
    (void)ctx;
    rshn_chunk_drop(k->chunk);
    rsh_value_free(k->left);
    rshn_free(k);
}

/* ---- around forward ---- */

static rsh_status note_own(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    call *c = ctx;
    bool was;
    (void)path, (void)owner, (void)name;
    for (int64_t i = 0; i < rsh_value_nparts(v); i++)
        NN_TRY(rshn_seen_add(&c->own, key_of(rsh_value_part(v, i)), &was));
    return RSH_OK;
}

static rsh_status call_new(request *r, rsh_module *m, call **out) {
    call *c = rshn_calloc(1, sizeof *c);
    if (!c) return rshn_fail(RSH_ENOMEM, "out of memory for a call of %s", m->kind->name);
    c->asked = r;
    r->refs++;
    rsh_status st = rsh_module_each_parameter(m, false, note_own, c);
    if (!st) st = rsh_module_each_buffer(m, note_own, c);
    if (st) call_drop(c);
    else *out = c;
    return st;
}

static rsh_status push_hooks(void *ctx, rsh_module *m, rsh_value **in) {
    request *r = ctx;
    call *c = NULL;
    (void)in;
    rsh_stash_restart(r->stash); /* a rank that failed in its last call has packed fewer tensors than the others */
    NN_TRY(RSHN_GROW(r->open, r->nopen + 1, &r->open_room));
    NN_TRY(call_new(r, m, &c));
    open_call opened = {c, m->calls, rsh_saved_hooks_depth()};
    rsh_saved_hooks pair = {
        pack_tensor, unpack_tensor,          release_tensor, r->ahead ? prefetch_tensor : NULL, call_drop,
        c,           rsh_mesh_comm(r->mesh), forget_tensor};
    rsh_status st = rsh_saved_hooks_push(&pair);
    if (st) call_drop(c);
    else r->open[r->nopen++] = opened;
    return st;
}

/* Pops the hooks that `before` pushed, unless this call failed earlier. */
static rsh_status pop_hooks(void *ctx, rsh_module *m, rsh_value *const *in, rsh_value **out) {
    request *r = ctx;
    (void)in, (void)out;
    if (!r->nopen || r->open[r->nopen - 1].level != m->calls) return RSH_OK;
    open_call last = r->open[--r->nopen];
    if (rsh_saved_hooks_depth() <= last.depth) return RSH_OK;
    close_call(last.call);
    while (rsh_saved_hooks_depth() > last.depth) NN_TRY(rsh_saved_hooks_pop());
    return RSH_OK;
}

/* ---- the request ---- */

static rsh_status request_new(rsh_mesh *mesh, int dim, const rsh_input_reshard_opts *o, request **out) {
    request *r = rshn_calloc(1, sizeof *r);
    if (!r) return rshn_fail(RSH_ENOMEM, "out of memory for the hooks of rsh_input_reshard");
    const char *check = getenv("RESHARD_CHECK");
    r->refs = 1;
    r->mesh = rsh_mesh_hold(mesh);
    r->dim = dim;
    r->plain = o->plain_is_replicated;
    r->ahead = !o->no_prefetch;
    r->check = check && !strcmp(check, "1");
    r->threshold = o->threshold ? o->threshold : rsh_mesh_size(mesh);
    r->stats = o->stats ? o->stats : &r->unread;
    rsh_status st = rsh_stash_new(rsh_mesh_comm(mesh), &r->stash);
    if (st) request_drop(r);
    else *out = r;
    return st;
}

static rsh_status add_hooks(rsh_module *m, request *r) {
    int64_t id = 0;
    NN_TRY(rsh_module_add_pre_hook(m, push_hooks, r, request_drop, &id));
    r->refs++;
    rsh_status st = rsh_module_add_forward_hook(m, pop_hooks, r, request_drop, RSH_HOOK_ALWAYS, NULL);
    if (st) rsh_module_remove_hook(m, id);
    else r->refs++;
    return st;
}

rsh_status rsh_input_reshard(rsh_module *m, rsh_mesh *mesh, int dim, const rsh_input_reshard_opts *opts) {
    rsh_input_reshard_opts o = RSH_INPUT_RESHARD_OPTS_INIT;
    NN_READ_OPTS(opts, RSH_INPUT_RESHARD_OPTS_INIT, &o);
    request *r = NULL;
    if (!m || !mesh) return rshn_fail(RSH_EVALUE, "rsh_input_reshard: %s is NULL", m ? "mesh" : "m");
    if (rsh_mesh_ndim(mesh) != 1)
        return rshn_fail(RSH_EVALUE, "rsh_input_reshard: mesh must have 1 dim, got %d; use rsh_mesh_slice",
                         rsh_mesh_ndim(mesh));
    if (o.threshold < 0)
        return rshn_fail(RSH_EVALUE, "rsh_input_reshard: threshold must be at least 0, got %lld",
                         (long long)o.threshold);
    if (rsh_mesh_size(mesh) == 1 || !rsh_mesh_comm(mesh)) return RSH_OK;
    NN_TRY(request_new(mesh, dim, &o, &r));
    rsh_status st = add_hooks(m, r);
    request_drop(r);
    return st;
}
