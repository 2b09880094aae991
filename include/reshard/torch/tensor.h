/* ShardedTensor: PyTorch's sharded tensor in C.
 *
 * It is an rsh_sharded of <reshard/shard.h> with a spec, properties and a process group.  The spec
 * determines the layout, and the parts are this rank's shards.  Metadata of all shards are created
 * on first use.  Results are bit for bit those of PyTorch.  This library also handles cases in
 * which PyTorch fails or crashes: arbitrary owners, several shards on a rank, empty shards, boxes
 * to boxes.  docs/torch.md maps every name.
 *
 * If a group is NULL, the default group is used.  Every function is local or collective over the
 * group, as its comment says.  If a collective call fails on one rank, every rank gets that rank's
 * status and message.  A rank that is not a member of the group gets RSH_ERUNTIME.
 *
 * Local shards are the entries of the metadata that this rank owns, in the order of the metadata,
 * including empty ones; they are dense and row-major.  Free a tensor before its group: the default
 * group cannot be destroyed while it has tensors.  The caller frees *out. */
#ifndef RESHARD_TORCH_TENSOR_H
#define RESHARD_TORCH_TENSOR_H

#include <reshard/torch/group.h>
#include <reshard/shard.h>
#include <reshard/torch/spec.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_torch_tensor rsh_torch_tensor;

/* ---- shards ---- */

/* A local tensor and its position in the whole tensor. */
typedef struct rsh_shard {
    rsh_tensor *tensor; /* owned; a view that shares the storage of the original tensor */
    rsh_shard_meta meta;
    rsh_tensor_props props; /* properties that PyTorch keeps in the tensor, such as requires_grad */
} rsh_shard;

/* Creates a shard that shares the storage of `tensor`; props may be NULL for
 * rsh_tensor_get_props(tensor).  The caller frees it with rsh_shard_clear.  RSH_EVALUE if shapes or
 * dtypes differ, or the placement is on another device than the tensor (cpu).  Local. */
RSH_API rsh_status rsh_shard_make(const rsh_tensor *tensor, const rsh_shard_meta *meta,
                                  const rsh_tensor_props *props, rsh_shard *out);
/* Does the same with metadata of the tensor's shape and placement "rank:R/cpu".  Local. */
RSH_API rsh_status rsh_shard_from_tensor(const rsh_tensor *tensor, int noffsets,
                                         const int64_t *offsets, int rank, rsh_shard *out);
/* Frees the tensor of a shard.  No-op for NULL.  Local. */
RSH_API void rsh_shard_clear(rsh_shard *s);

/* ---- creating ---- */

/* Options of the functions that create tensors. */
typedef struct rsh_torch_opts {
    size_t struct_size; /* sizeof(rsh_torch_opts) */
    rsh_tensor_props props;
    rsh_group *group;
    uint64_t seed; /* for rand and randn; each rank fills its shards in order from its own stream */
} rsh_torch_opts;
#define RSH_TORCH_OPTS_INIT {sizeof(rsh_torch_opts), RSH_TENSOR_PROPS_INIT, 0, 0}

/* Create a tensor that a spec cuts.  opts may be NULL: f32, the default group.  A rank may own no
 * shard.  `value` is one element of the dtype.
 * - RSH_EVALUE if the spec does not support the size, the shards do not cover the whole tensor, a
 *   placement is outside the group, the layout is not strided, or the memory format is not
 *   contiguous;
 * - RSH_EUNSUP if a device is not the cpu;
 * - RSH_ETYPE for random integers;
 * - RSH_ERUNTIME for requires_grad of integers, here and below.
 * Local. */
RSH_API rsh_status rsh_torch_empty(const rsh_spec *spec, int ndim, const int64_t *size,
                                   const rsh_torch_opts *opts, rsh_torch_tensor **out);
RSH_API rsh_status rsh_torch_zeros(const rsh_spec *spec, int ndim, const int64_t *size,
                                   const rsh_torch_opts *opts, rsh_torch_tensor **out);
RSH_API rsh_status rsh_torch_ones(const rsh_spec *spec, int ndim, const int64_t *size,
                                  const rsh_torch_opts *opts, rsh_torch_tensor **out);
RSH_API rsh_status rsh_torch_full(const rsh_spec *spec, int ndim, const int64_t *size,
                                  const void *value, const rsh_torch_opts *opts,
                                  rsh_torch_tensor **out);
RSH_API rsh_status rsh_torch_rand(const rsh_spec *spec, int ndim, const int64_t *size,
                                  const rsh_torch_opts *opts, rsh_torch_tensor **out);
RSH_API rsh_status rsh_torch_randn(const rsh_spec *spec, int ndim, const int64_t *size,
                                   const rsh_torch_opts *opts, rsh_torch_tensor **out);

/* Create a tensor that is cut like `t`, with these properties; props may be NULL for those of `t`
 * without requires_grad.  Errors as above.  Local. */
RSH_API rsh_status rsh_torch_empty_like(const rsh_torch_tensor *t, const rsh_tensor_props *props,
                                        rsh_torch_tensor **out);
RSH_API rsh_status rsh_torch_zeros_like(const rsh_torch_tensor *t, const rsh_tensor_props *props,
                                        rsh_torch_tensor **out);
RSH_API rsh_status rsh_torch_ones_like(const rsh_torch_tensor *t, const rsh_tensor_props *props,
                                       rsh_torch_tensor **out);
RSH_API rsh_status rsh_torch_full_like(const rsh_torch_tensor *t, const void *value,
                                       const rsh_tensor_props *props, rsh_torch_tensor **out);
RSH_API rsh_status rsh_torch_rand_like(const rsh_torch_tensor *t, const rsh_tensor_props *props,
                                       uint64_t seed, rsh_torch_tensor **out);
RSH_API rsh_status rsh_torch_randn_like(const rsh_torch_tensor *t, const rsh_tensor_props *props,
                                        uint64_t seed, rsh_torch_tensor **out);

/* Creates a tensor from the shards of all ranks, whose storage it shares.  Entries of `size` that
 * are -1 are inferred: then each rank must have one shard, stacked along dim 0 in rank order, and
 * the other entries must match.  The spec is inferred; shards are in the order of its metadata.
 * RSH_EVALUE if the shards of different ranks do not match; the message names the property and the
 * ranks.
 * Collective. */
RSH_API rsh_status rsh_torch_from_shards(int64_t n, const rsh_shard *shards, int ndim,
                                         const int64_t *size, rsh_group *group,
                                         rsh_torch_tensor **out);
/* Creates a tensor from this rank's shards and metadata of the whole tensor; if spec is NULL, it is
 * inferred.
 * RSH_ERUNTIME if n is not the number of shards that this rank has in the metadata; RSH_EVALUE if a
 * shard differs from its metadata.  Local. */
RSH_API rsh_status rsh_torch_from_shards_and_meta(int64_t n, const rsh_shard *shards,
                                                  const rsh_tensor_meta *meta, const rsh_spec *spec,
                                                  rsh_group *group, rsh_torch_tensor **out);
/* Creates a tensor from this rank's only tensor, whose storage is shared, and the spec.  A rank
 * that owns nothing may pass NULL for `local`; then props give the dtype (NULL: f32).
 * RSH_EVALUE if the tensor is not dense or has the wrong shape, the rank owns several shards, or
 * the spec does not cover the size.  Local. */
RSH_API rsh_status rsh_torch_from_tensor(const rsh_tensor *local, const rsh_tensor_props *props,
                                         const rsh_spec *spec, int ndim, const int64_t *size,
                                         rsh_group *group, rsh_torch_tensor **out);
/* PyTorch's shard_tensor: shards a whole tensor of rank `src_rank`.  Every rank passes a tensor of
 * the whole shape and dtype; only the elements of the source are used.  If the spec is of a
 * user-defined kind, its sharder (rsh_spec_kind.sharder) runs after the ranks have agreed on their
 * arguments.  It returns the same status on every rank if it only makes collective calls of this
 * library.
 * RSH_EVALUE if ranks pass different sources, specs, shapes or dtypes, or a tensor is not dense;
 * RSH_ERUNTIME if the source is outside the group; RSH_EUNSUP if the kind of spec has no sharder,
 * such as the built-in boxes (use rsh_torch_scatter).  Collective. */
struct rsh_spec_sharder {
    /* Creates the sharded tensor *out from a whole tensor on rank `src_rank`.  Collective. */
    rsh_status (*shard)(const void *self, const rsh_tensor *tensor, int src_rank, rsh_group *group,
                        rsh_torch_tensor **out);
};
RSH_API rsh_status rsh_shard_tensor(const rsh_tensor *tensor, const rsh_spec *spec, int src_rank,
                                    rsh_group *group, const rsh_tensor_props *props,
                                    rsh_torch_tensor **out);
/* Does the same with any spec that has metadata: sends each rank its shards of the source's
 * tensor.  Collective. */
RSH_API rsh_status rsh_torch_scatter(const rsh_tensor *tensor, const rsh_spec *spec, int src_rank,
                                     rsh_group *group, const rsh_tensor_props *props,
                                     rsh_torch_tensor **out);
/* Frees the tensor.  No-op for NULL.  Local. */
RSH_API void rsh_torch_free(rsh_torch_tensor *t);

/* ---- getters: local; returned pointers are borrowed and valid as long as the tensor ---- */

/* Returns metadata of all shards.  They are created on first use and then kept; NULL, with an error
 * message, if memory runs out. */
RSH_API const rsh_tensor_meta *rsh_torch_meta(const rsh_torch_tensor *t);
RSH_API const rsh_tensor_props *rsh_torch_props(const rsh_torch_tensor *t);
RSH_API const rsh_spec *rsh_torch_spec(const rsh_torch_tensor *t);
RSH_API rsh_group *rsh_torch_group(const rsh_torch_tensor *t);
/* Return the number of this rank's shards, and shard i; NULL if there is none. */
RSH_API int64_t rsh_torch_nshards(const rsh_torch_tensor *t);
RSH_API const rsh_shard *rsh_torch_shard(const rsh_torch_tensor *t, int64_t i);
/* Returns the only local tensor; RSH_EUNSUP if there is not exactly one. */
RSH_API rsh_status rsh_torch_local_tensor(const rsh_torch_tensor *t, const rsh_tensor **out);
RSH_API int rsh_torch_ndim(const rsh_torch_tensor *t); /* -1 for NULL */
/* Returns the size of a dim; negative dims count from the end.  RSH_EINDEX if there is no such
 * dim. */
RSH_API rsh_status rsh_torch_size(const rsh_torch_tensor *t, int dim, int64_t *out);
RSH_API rsh_dtype rsh_torch_dtype(const rsh_torch_tensor *t); /* RSH_DTYPE_NONE for NULL */
RSH_API bool rsh_torch_requires_grad(const rsh_torch_tensor *t);
/* Sets requires_grad for every local shard and in the metadata.  RSH_ERUNTIME if the dtype is
 * neither a float nor complex. */
RSH_API rsh_status rsh_torch_set_requires_grad(rsh_torch_tensor *t, bool on);

/* ---- operations ---- */

/* Copies the whole tensor into `out` on group rank `dst`; `out` is ignored on other ranks.  It may
 * have any strides and any dtype that the tensor's can be converted to.  A conversion needs
 * temporary memory for the whole tensor on that rank.
 * RSH_ERUNTIME if `dst` is outside the group; RSH_EVALUE if `out` is missing or its shape is
 * wrong; RSH_ETYPE for complex to real.  Collective. */
RSH_API rsh_status rsh_torch_gather(const rsh_torch_tensor *t, int dst, rsh_tensor *out);
/* Does the same on every rank, each into its own `out`.  Collective. */
RSH_API rsh_status rsh_torch_all_gather(const rsh_torch_tensor *t, rsh_tensor *out);
/* Create a tensor that is cut by another spec.  Any spec can be converted to any other.  opts may
 * be NULL.  With opts->may_alias, if the spec is unchanged, the result shares the memory of `t` and
 * nothing moves.  Collective. */
RSH_API rsh_status rsh_torch_reshard(const rsh_torch_tensor *t, const rsh_spec *to,
                                     rsh_torch_tensor **out);
RSH_API rsh_status rsh_torch_reshard_with(const rsh_torch_tensor *t, const rsh_spec *to,
                                          const rsh_plan_opts *opts, rsh_torch_tensor **out);
/* Does the same into an existing tensor of the same size, with any spec and dtype.  The comm caches
 * plans and bindings: from the second call on nothing is planned or allocated.  Collective. */
RSH_API rsh_status rsh_torch_reshard_into(const rsh_torch_tensor *t, rsh_torch_tensor *out);
/* Converts to another dtype, always in new memory.
 * RSH_ETYPE for complex to real; RSH_ERUNTIME if the tensor requires a gradient and the dtype has
 * none.  Local. */
RSH_API rsh_status rsh_torch_to(const rsh_torch_tensor *t, rsh_dtype dtype, rsh_torch_tensor **out);
/* Copies the tensor to new memory.  Local. */
RSH_API rsh_status rsh_torch_clone(const rsh_torch_tensor *t, rsh_torch_tensor **out);
/* Returns a tensor on the same memory, without requires_grad.  Local. */
RSH_API rsh_status rsh_torch_detach(const rsh_torch_tensor *t, rsh_torch_tensor **out);
/* PyTorch's copy_: copies the elements of src to dst, and converts them if the dtypes differ.
 * RSH_ERUNTIME if they are cut differently or belong to different groups; RSH_ETYPE for complex to
 * real.  Local. */
RSH_API rsh_status rsh_torch_copy(rsh_torch_tensor *dst, const rsh_torch_tensor *src);
/* Test whether all elements are equal, or close: |a-b| <= atol + rtol*|b|.  Every rank gets the
 * same answer.  Empty shards, and the order of the shards, are ignored.  Tensors of different
 * groups are not equal.  Collective. */
RSH_API rsh_status rsh_torch_equal(const rsh_torch_tensor *a, const rsh_torch_tensor *b, bool *out);
RSH_API rsh_status rsh_torch_allclose(const rsh_torch_tensor *a, const rsh_torch_tensor *b,
                                      double rtol, double atol, bool equal_nan, bool *out);

/* Save the state of one rank, and load it into the group of rsh_group_current.
 * RSH_EIO if the sink stops; RSH_ERUNTIME if group rank, global rank, group size or global size,
 * checked in this order, differ from when it was saved (the message says which), or if the bytes
 * are not a state, are truncated or corrupt; RSH_EUNSUP if the spec is of a user-defined kind: the
 * state contains only its text, so use rsh_torch_load_resharded.  Local. */
RSH_API rsh_status rsh_torch_save(const rsh_torch_tensor *t, const rsh_sink *sink);
RSH_API rsh_status rsh_torch_load(const void *data, size_t bytes, rsh_torch_tensor **out);
/* Do the same with memory that the library allocates: one object, which the caller frees with
 * rsh_objects_free; and with a file for this rank only.  If saving fails, the file is unchanged.
 * RSH_EIO if the file cannot be written or read.  Local. */
RSH_API rsh_status rsh_torch_save_object(const rsh_torch_tensor *t, rsh_objects **out);
RSH_API rsh_status rsh_torch_save_file(const rsh_torch_tensor *t, const char *path);
RSH_API rsh_status rsh_torch_load_file(const char *path, rsh_torch_tensor **out);
/* Loads states into any group with another spec.  Every rank of the current group passes the states
 * that it has (n may be 0).  Duplicates of a shard are allowed.
 * RSH_EVALUE if the states together do not cover the whole tensor.  Collective. */
RSH_API rsh_status rsh_torch_load_resharded(int64_t n, const void *const *data, const size_t *bytes,
                                            const rsh_spec *to, rsh_torch_tensor **out);

/* Writes size, dtype, spec, and this rank's shards as rsh_tensor_print writes them.
 * RSH_EIO if the sink stops.  Local. */
RSH_API rsh_status rsh_torch_print(const rsh_torch_tensor *t, const rsh_sink *sink);

/* Returns a sharded tensor of the core on the same memory, for use with plans.  Local. */
RSH_API rsh_status rsh_torch_sharded(const rsh_torch_tensor *t, rsh_sharded **out);

/* ---- the functions of torch.nn.init ----
 *
 * They write into an existing tensor of floats (RSH_ETYPE otherwise).  Random numbers depend only
 * on the seed and the global position of an element, so they do not depend on how the tensor is
 * cut, if all ranks pass the same seed.  Local. */

/* Sets each element to a uniform number from `low` to `high`.  RSH_ERUNTIME if low > high. */
RSH_API rsh_status rsh_torch_uniform(rsh_torch_tensor *t, double low, double high, uint64_t seed);
/* Sets each element to a normal number.  RSH_ERUNTIME if the standard deviation is negative. */
RSH_API rsh_status rsh_torch_normal(rsh_torch_tensor *t, double mean, double std, uint64_t seed);
/* Sets every element to `value`; for any dtype. */
RSH_API rsh_status rsh_torch_constant(rsh_torch_tensor *t, double value);

typedef enum rsh_fan { RSH_FAN_IN, RSH_FAN_OUT } rsh_fan;
typedef enum rsh_nonlinearity {
    RSH_LEAKY_RELU,
    RSH_RELU,
    RSH_TANH,
    RSH_SELU,
    RSH_LINEAR,
    RSH_SIGMOID
} rsh_nonlinearity;
/* Sets each element to a uniform number between -b and b, where b = gain * sqrt(3 / fan).  The fan
 * is that of the whole tensor: its size along dim 1 (in) or dim 0 (out), times the sizes of all
 * dims after dim 1.  `slope` is used for leaky relu only.  RSH_EVALUE if there are fewer than two
 * dims. */
RSH_API rsh_status rsh_torch_kaiming_uniform(rsh_torch_tensor *t, double slope, rsh_fan mode,
                                             rsh_nonlinearity function, uint64_t seed);

/* ---- the steps of reshard, each with PyTorch's contract ---- */

/* PyTorch's build_reshard_metadata: returns the shards of a chunk spec by rank, for specs in which
 * each of W ranks owns one chunk (RSH_EVALUE otherwise).  `by_rank` and `ranks` have W entries;
 * `ranks` may be NULL and is in placement order.  Pure. */
RSH_API rsh_status rsh_reshard_metadata(int ndim, const int64_t *size, const rsh_spec *spec, int W,
                                        rsh_shard_meta *by_rank, int *ranks);
/* PyTorch's reshuffle_local_shard: both specs cut the same dim; chunks change owners.
 * PyTorch's reshard_local_shard: the specs cut different dims (RSH_EVALUE otherwise).
 * `local` is this rank's chunk, with any strides; *out is new and dense; `by_rank` has an entry for
 * each rank of the group, as above.  Collective. */
RSH_API rsh_status rsh_reshuffle_local_shard(const rsh_tensor *local, int ndim, const int64_t *size,
                                             const rsh_spec *from, const rsh_spec *to,
                                             rsh_group *group, rsh_shard *out,
                                             rsh_shard_meta *by_rank);
RSH_API rsh_status rsh_reshard_local_shard(const rsh_tensor *local, int ndim, const int64_t *size,
                                           const rsh_spec *from, const rsh_spec *to,
                                           rsh_group *group, rsh_shard *out,
                                           rsh_shard_meta *by_rank);

/* ---- partial tensors ---- */

/* A tensor that is the element-wise reduction of the local tensors of all ranks of the group. */
typedef struct rsh_partial rsh_partial;
/* Creates a partial tensor that shares the storage of `local`.  RSH_ETYPE if the op does not exist
 * for the dtype.  Local. */
RSH_API rsh_status rsh_partial_new(const rsh_tensor *local, rsh_op op, rsh_group *group,
                                   rsh_partial **out);
RSH_API void rsh_partial_free(rsh_partial *p);
RSH_API const rsh_tensor *rsh_partial_tensor(const rsh_partial *p);
RSH_API rsh_op rsh_partial_op(const rsh_partial *p);
RSH_API rsh_group *rsh_partial_group(const rsh_partial *p);
/* Reduces the tensor and cuts it by a spec of any kind.  RSH_EUNSUP for complex.  Collective. */
RSH_API rsh_status rsh_partial_reshard(const rsh_partial *p, const rsh_spec *spec,
                                       rsh_torch_tensor **out);
/* Returns a view with dims a and b swapped.  RSH_EINDEX if there is no such dim.  Local. */
RSH_API rsh_status rsh_partial_transpose(const rsh_partial *p, int a, int b, rsh_partial **out);
/* Concatenates partial tensors along a dim, in new memory.
 * RSH_ERUNTIME if n is 0, or ops or groups differ; RSH_ETYPE if dtypes differ; RSH_EVALUE if sizes
 * along other dims differ; RSH_EINDEX if there is no such dim.  Local. */
RSH_API rsh_status rsh_partial_cat(int n, const rsh_partial *const *list, int dim,
                                   rsh_partial **out);

#ifdef __cplusplus
}
#endif
#endif
