/* impl: what the files of the room know about a sharded tensor.
 *
 * A tensor is one of the core, whose layout says how it is cut and whose parts are the local
 * shards: those entries of the metadata that this rank owns, in the order of the metadata, dense,
 * empty ones too.  The spec and the size say the same; metadata are made from them when somebody
 * asks. */
#ifndef RESHARD_TORCH_IMPL_H
#define RESHARD_TORCH_IMPL_H

#include <reshard/torch/tensor.h>

#include "comm/comm.h"
#include "group/group.h"
#include "shard/shard.h"

struct rsh_torch_tensor {
    rsh_group *group, *world; /* borrowed; `world` counts its tensors */
    rsh_spec *spec;       /* a reference of its own */
    rsh_sharded *sharded; /* owned; its comm is the group's, of which this rank is a member */
    rsh_tensor_props props;
    rsh_shard *shards;     /* owned, one for each part; their tensors are the parts */
    rsh_tensor_meta *meta; /* owned; NULL until somebody asks */
};

/* ---- outlines ---- */

/* What a tensor will be, before it has memory. */
typedef struct rshi_outline {
    rsh_group *group;
    rsh_comm *comm;
    const rsh_spec *spec; /* borrowed */
    rsh_tensor_props props;
    rsh_tensor_meta *meta; /* owned */
    rsh_layout *layout;    /* owned: part i of a rank is its shard i */
} rshi_outline;

/* The group meant (NULL: the default one) and its comm.  RSH_ERUNTIME: there is none, or this rank
 * is no member. */
rsh_status rshi_group_take(rsh_group *given, rsh_group **group, rsh_comm **comm);
/* Checked: properties that can be had, placements inside the group, memory of the cpu, shards that
 * tile the tensor.  Local. */
rsh_status rshi_outline_make(const rsh_spec *spec, int ndim, const int64_t *size,
                             const rsh_tensor_props *props, rsh_group *group, rshi_outline *out);
void rshi_outline_clear(rshi_outline *o);
/* The entries that this rank owns: how many, and the first from `from` on (the index after the
 * last: none). */
int64_t rshi_outline_count_owned(const rshi_outline *o);
int64_t rshi_outline_next_owned(const rshi_outline *o, int64_t from);
/* Properties that a sharded tensor can have? */
rsh_status rshi_props_check(const rsh_tensor_props *p);
/* Are these placements ranks of the group, with memory of the cpu? */
rsh_status rshi_placements_check(const rsh_tensor_meta *m, const rsh_comm *comm);

/* ---- making ---- */

/* A tensor with new memory.  Local. */
rsh_status rshi_torch_alloc(const rshi_outline *o, bool zero, rsh_torch_tensor **out);
/* A tensor of these shards: for each entry that the rank owns the first one of equal box that is
 * not yet taken.  Their storage is shared.  Local. */
rsh_status rshi_torch_adopt(const rshi_outline *o, int64_t n, const rsh_shard *shards,
                            rsh_torch_tensor **out);
/* An outline, and new memory. */
rsh_status rshi_torch_new(const rsh_spec *spec, int ndim, const int64_t *size,
                          const rsh_tensor_props *props, rsh_group *group, bool zero,
                          rsh_torch_tensor **out);
/* Cut like `t`, with other properties: in new memory, and in the same memory. */
rsh_status rshi_torch_like(const rsh_torch_tensor *t, const rsh_tensor_props *props, bool zero,
                           rsh_torch_tensor **out);
rsh_status rshi_torch_share(const rsh_torch_tensor *t, const rsh_tensor_props *props,
                            rsh_torch_tensor **out);

/* ---- asking ---- */

const int64_t *rshi_torch_shape(const rsh_torch_tensor *t); /* ndim entries, borrowed */
/* New metadata of all shards. */
rsh_status rshi_torch_meta_new(const rsh_torch_tensor *t, rsh_tensor_meta **out);
/* Have both the same size and the same shards with the same owners?  Properties, order and empty
 * shards do not matter. */
rsh_status rshi_torch_cut_alike(const rsh_torch_tensor *a, const rsh_torch_tensor *b, bool *out);
/* The local shard with the box of `s`, looked for from number `at` on and around; NULL: none. */
const rsh_shard *rshi_torch_find(const rsh_torch_tensor *t, const rsh_shard *s, int64_t at);
/* Can this be a local shard at all?  A tensor, dense, of the dtype that the properties say;
 * RSH_EVALUE names shard `i`. */
rsh_status rshi_shard_check(const rsh_shard *s, int64_t i);
bool rshi_same_box(const rsh_shard_meta *a, const rsh_shard_meta *b);
/* Overlap and coverage. */
rsh_status rshi_shards_check(int64_t n, const rsh_shard_meta *shards, int ndim,
                             const int64_t *size);
bool rshi_dtype_has_grad(rsh_dtype dtype); /* floats and complex */

#endif
