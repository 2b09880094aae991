/* impl: what the files of the room know about a sharded tensor.
 *
 * A tensor's local shards are those entries of its metadata that this rank owns, in the order of
 * the metadata, and dense.  The layout says the same as the metadata in the terms of the core,
 * which moves all data; its parts are the shards in the same order, except that an empty shard may
 * have none. */
#ifndef RESHARD_TORCH_IMPL_H
#define RESHARD_TORCH_IMPL_H

#include <reshard/torch/tensor.h>

#include "comm/comm.h"
#include "shard/shard.h"

struct rsh_torch_tensor {
    rsh_group *group;
    rsh_comm *comm; /* of the group: this rank is a member */
    rsh_spec *spec; /* owned, like all that follows */
    rsh_tensor_meta *meta;
    int64_t nshards;
    rsh_shard *shards;
    rsh_sharded *core; /* the same shards as the core sees them; NULL until somebody asks */
};

/* ---- groups ---- */

/* The group meant (NULL: the default one) and its comm.  RSH_ERUNTIME: there is none, or this rank
 * is no member. */
rsh_status rshi_group_take(rsh_group *given, rsh_group **group, rsh_comm **comm);

/* ---- making ---- */

/* A tensor without shards yet: spec and metadata, checked: props that can be had, placements inside
 * the group, memory of the cpu.  Local. */
rsh_status rshi_torch_form(const rsh_spec *spec, int ndim, const int64_t *size,
                        const rsh_tensor_props *props, rsh_group *group, rsh_torch_tensor **out);
/* Are these placements ranks of the group, with memory of the cpu? */
rsh_status rshi_placements_check(const rsh_tensor_meta *m, const rsh_comm *comm);
/* New memory for all shards of a form.  Local. */
rsh_status rshi_torch_alloc(rsh_torch_tensor *t, bool zero);
/* Both in one. */
rsh_status rshi_torch_new(const rsh_spec *spec, int ndim, const int64_t *size,
                          const rsh_tensor_props *props, rsh_group *group, bool zero,
                          rsh_torch_tensor **out);
/* The entries that this rank owns: how many, and the i-th from `from` on (the index after the last:
 * none). */
int64_t rshi_torch_count_owned(const rsh_torch_tensor *t);
int64_t rshi_torch_next_owned(const rsh_torch_tensor *t, int64_t from);
/* Room for the shards of a form, all of them empty values. */
rsh_status rshi_torch_room(rsh_torch_tensor *t);
/* Give a form these shards: for each entry that the rank owns the first one of equal box that is
 * not yet taken.  Their storage is shared. */
rsh_status rshi_torch_adopt(rsh_torch_tensor *t, int64_t n, const rsh_shard *shards);
/* The local shard with the box of `s`, looked for from number `at` on and around; NULL: none. */
const rsh_shard *rshi_torch_find(const rsh_torch_tensor *t, const rsh_shard *s, int64_t at);
/* Can this be a local shard at all?  A tensor, dense, of the dtype that the properties say;
 * RSH_EVALUE names shard `i`. */
rsh_status rshi_shard_check(const rsh_shard *s, int64_t i);
bool rshi_same_box(const rsh_shard_meta *a, const rsh_shard_meta *b);
/* Overlap and coverage. */
rsh_status rshi_shards_check(int64_t n, const rsh_shard_meta *shards, int ndim,
                             const int64_t *size);

/* ---- the core's view ---- */

/* A sharded tensor on the same storage; lent.  Found once and kept. */
rsh_status rshi_torch_core(const rsh_torch_tensor *t, rsh_sharded **out);
/* A tensor as the only part of this rank, or with NULL a rank that has none; its storage is shared.
 */
rsh_status rshi_sharded_of(rsh_comm *comm, const rsh_layout *layout, const rsh_tensor *part,
                           rsh_sharded **out);

bool rshi_dtype_has_grad(rsh_dtype dtype); /* floats and complex */

#endif
