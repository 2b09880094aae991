/* impl: the struct of a sharded tensor, for the files of this room.
 *
 * A sharded tensor contains one of the core.  The layout determines how it is cut, and the parts
 * are the local shards: the entries of the metadata that this rank owns, in the order of the
 * metadata, dense, including empty ones.  Spec and size express the same; metadata are created from
 * them on first use. */
#ifndef RESHARD_TORCH_IMPL_H
#define RESHARD_TORCH_IMPL_H

#include <reshard/torch/tensor.h>

#include "comm/comm.h"
#include "group/group.h"
#include "shard/shard.h"

struct rsh_torch_tensor {
    rsh_group *group, *world; /* borrowed; `world` counts its tensors */
    rsh_spec *spec;       /* holds a reference */
    rsh_sharded *sharded; /* owned; its comm is the group's, of which this rank is a member */
    rsh_tensor_props props;
    rsh_shard *shards;     /* owned, one for each part; their tensors are the parts */
    rsh_tensor_meta *meta; /* owned; NULL until first use */
};

/* ---- outlines ---- */

/* The description of a tensor before it has memory. */
typedef struct rshi_outline {
    rsh_group *group;
    rsh_comm *comm;
    const rsh_spec *spec; /* borrowed */
    rsh_tensor_props props;
    rsh_tensor_meta *meta; /* owned */
    rsh_layout *layout;    /* owned; part i of a rank is its shard i */
} rshi_outline;

/* Returns the given group (NULL: the default one) and its comm.  RSH_ERUNTIME if there is none, or
 * this rank is not a member. */
rsh_status rshi_group_take(rsh_group *given, rsh_group **group, rsh_comm **comm);
/* Creates and checks an outline: properties are supported, placements are in the group and on the
 * cpu, and shards tile the tensor.  Local. */
rsh_status rshi_outline_make(const rsh_spec *spec, int ndim, const int64_t *size,
                             const rsh_tensor_props *props, rsh_group *group, rshi_outline *out);
void rshi_outline_clear(rshi_outline *o);
/* Return the number of entries that this rank owns, and the first of them from `from` on (nshards:
 * none). */
int64_t rshi_outline_count_owned(const rshi_outline *o);
int64_t rshi_outline_next_owned(const rshi_outline *o, int64_t from);
/* Checks that a sharded tensor can have these properties. */
rsh_status rshi_props_check(const rsh_tensor_props *p);
/* Checks that these placements are ranks of the group, on the cpu. */
rsh_status rshi_placements_check(const rsh_tensor_meta *m, const rsh_comm *comm);

/* ---- creating ---- */

/* Creates a tensor with new memory.  Local. */
rsh_status rshi_torch_alloc(const rshi_outline *o, bool zero, rsh_torch_tensor **out);
/* Creates a tensor from these shards: for each entry that the rank owns, uses the first unused
 * shard with the same box.  Their storage is shared.  Local. */
rsh_status rshi_torch_adopt(const rshi_outline *o, int64_t n, const rsh_shard *shards,
                            rsh_torch_tensor **out);
/* Creates an outline and allocates memory. */
rsh_status rshi_torch_new(const rsh_spec *spec, int ndim, const int64_t *size,
                          const rsh_tensor_props *props, rsh_group *group, bool zero,
                          rsh_torch_tensor **out);
/* Create a tensor that is cut like `t`, with other properties: in new memory, or in the same. */
rsh_status rshi_torch_like(const rsh_torch_tensor *t, const rsh_tensor_props *props, bool zero,
                           rsh_torch_tensor **out);
rsh_status rshi_torch_share(const rsh_torch_tensor *t, const rsh_tensor_props *props,
                            rsh_torch_tensor **out);

/* ---- getters ---- */

const int64_t *rshi_torch_shape(const rsh_torch_tensor *t); /* ndim entries, borrowed */
/* Creates metadata of all shards. */
rsh_status rshi_torch_meta_new(const rsh_torch_tensor *t, rsh_tensor_meta **out);
/* Compares size, shards and owners of two tensors.  Properties, order and empty shards are
 * ignored. */
rsh_status rshi_torch_cut_alike(const rsh_torch_tensor *a, const rsh_torch_tensor *b, bool *out);
/* Finds the local shard with the box of `s`, starting at number `at` and wrapping; NULL: none. */
const rsh_shard *rshi_torch_find(const rsh_torch_tensor *t, const rsh_shard *s, int64_t at);
/* Checks that a local shard has a dense tensor of the dtype in its properties; RSH_EVALUE names
 * shard `i`. */
rsh_status rshi_shard_check(const rsh_shard *s, int64_t i);
bool rshi_same_box(const rsh_shard_meta *a, const rsh_shard_meta *b);
/* Checks overlap and coverage. */
rsh_status rshi_shards_check(int64_t n, const rsh_shard_meta *shards, int ndim,
                             const int64_t *size);
bool rshi_dtype_has_grad(rsh_dtype dtype); /* floats and complex */

#endif
