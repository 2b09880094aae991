/* Spec: how a tensor is cut into shards and which rank owns each, as PyTorch describes it.
 *
 * A sharding spec turns a tensor size into metadata: a list of boxes with owners.  Two kinds are
 * built in: chunks along one dim, and a list of boxes.  Users add their own with a table of
 * functions.  A layout can express everything a spec can, and more.  Specs can be converted to
 * layouts, and layouts to specs if a spec can express them.  docs/torch.md has the table of names.
 *
 * Ranks in placements are always ranks of the process group.  All functions are pure unless their
 * comment says otherwise.  Functions that allocate return RSH_ENOMEM if memory runs out, and the
 * caller frees *out. */
#ifndef RESHARD_TORCH_SPEC_H
#define RESHARD_TORCH_SPEC_H

#include <reshard/layout.h>
#include <reshard/tensor.h>
#include <reshard/sink.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- chunks of one dim ---- */

/* Returns the size of full chunks, ceil(n / chunks).  RSH_EVALUE if chunks < 1 or n < 0. */
RSH_API rsh_status rsh_chunk_split(int64_t n, int64_t chunks, int64_t *out);
/* Returns the size of chunk c >= 0 if full chunks have s elements: the first chunks are full, at
 * most one is smaller, and the rest are empty. */
RSH_API int64_t rsh_chunk_size(int64_t n, int64_t s, int64_t c);
/* Returns the start of chunk c, min(s*c, n): empty chunks begin at the end of the dim. */
RSH_API int64_t rsh_chunk_offset(int64_t n, int64_t s, int64_t c);

/* ---- placements: PyTorch's remote devices ---- */

/* Device names that PyTorch uses in placements.  They are parsed, printed and compared, but all
 * tensors are in main memory, RSH_DEVICE_CPU.
 * X(name, text) */
#define RSH_DEVICE_MAP(X)                                                                          \
    X(CPU, "cpu") X(CUDA, "cuda") X(MKLDNN, "mkldnn") X(OPENGL, "opengl") X(OPENCL, "opencl")      \
        X(IDEEP, "ideep") X(HIP, "hip") X(VE, "ve") X(FPGA, "fpga") X(ORT, "ort") X(XLA, "xla")    \
            X(LAZY, "lazy") X(VULKAN, "vulkan") X(MPS, "mps") X(META, "meta") X(HPU, "hpu")        \
                X(XPU, "xpu") X(IPU, "ipu")

typedef enum rsh_device_type {
#define RSH_DEVICE_ENUM(name, text) RSH_DEVICE_##name,
    RSH_DEVICE_MAP(RSH_DEVICE_ENUM)
#undef RSH_DEVICE_ENUM
        RSH_DEVICE_COUNT
} rsh_device_type;

typedef struct rsh_device {
    rsh_device_type type;
    int index; /* -1: none */
} rsh_device;

/* Parses "cpu", "cuda:1".  RSH_ERUNTIME if there is no such device. */
RSH_API rsh_status rsh_device_parse(const char *text, rsh_device *out);

#define RSH_WORKER_TEXT 64
#define RSH_REMOTE_DEVICE_TEXT 128

typedef struct rsh_remote_device {
    char worker[RSH_WORKER_TEXT]; /* "": none.  Letters, digits, "_", "-", ".".  Worker names are
                                     parsed, printed and compared, but tensors cannot be placed on
                                     a worker */
    int rank;                     /* -1: none */
    rsh_device device;
} rsh_remote_device;

/* Parses "rank:3/cpu", "rank:3", "cpu", "trainer0/cuda:0", "trainer0".
 * RSH_EVALUE if the text is malformed; RSH_ERUNTIME if the device after the slash does not
 * exist. */
RSH_API rsh_status rsh_remote_device_parse(const char *text, rsh_remote_device *out);
RSH_API void rsh_remote_device_print(const rsh_remote_device *p,
                                     char text[RSH_REMOTE_DEVICE_TEXT]); /* "" for NULL */
RSH_API bool rsh_remote_device_equal(const rsh_remote_device *a, const rsh_remote_device *b);
/* Checks that a placement is a rank of a group of `size` ranks.  RSH_EVALUE if it has no rank or
 * one outside the group; RSH_ERUNTIME if it is the name of a worker. */
RSH_API rsh_status rsh_remote_device_check(const rsh_remote_device *p, int size);

/* ---- metadata ---- */

typedef struct rsh_shard_meta {
    int ndim;
    int64_t offsets[RSH_MAX_NDIM], sizes[RSH_MAX_NDIM];
    bool has_placement;
    rsh_remote_device placement;
} rsh_shard_meta;

/* Creates metadata from lists; `placement` is parsed, or NULL for none.
 * RSH_EVALUE if the lists differ in length or a number is negative. */
RSH_API rsh_status rsh_shard_meta_make(int noffsets, const int64_t *offsets, int nsizes,
                                       const int64_t *sizes, const char *placement,
                                       rsh_shard_meta *out);
RSH_API bool rsh_shard_meta_equal(const rsh_shard_meta *a, const rsh_shard_meta *b);
RSH_API int64_t rsh_shard_meta_count(const rsh_shard_meta *m); /* elements */

typedef enum rsh_storage_layout { RSH_STRIDED, RSH_SPARSE } rsh_storage_layout;
typedef enum rsh_memory_format {
    RSH_CONTIGUOUS,
    RSH_CHANNELS_LAST,
    RSH_PRESERVE
} rsh_memory_format;

typedef struct rsh_tensor_props {
    rsh_dtype dtype;
    rsh_storage_layout layout;
    bool requires_grad;
    rsh_memory_format memory_format;
    bool pin_memory; /* a flag only */
} rsh_tensor_props;
#define RSH_TENSOR_PROPS_INIT {RSH_F32, RSH_STRIDED, 0, RSH_CONTIGUOUS, 0}
/* Returns the dtype of t with the other members of RSH_TENSOR_PROPS_INIT. */
RSH_API rsh_tensor_props rsh_tensor_get_props(const rsh_tensor *t);
RSH_API bool rsh_tensor_props_equal(const rsh_tensor_props *a, const rsh_tensor_props *b);

/* Metadata of a whole sharded tensor. */
typedef struct rsh_tensor_meta {
    int64_t nshards;
    rsh_shard_meta *shards; /* owned; chunks are in the order of placements */
    int ndim;
    int64_t size[RSH_MAX_NDIM];
    rsh_tensor_props props;
} rsh_tensor_meta;

/* Creates metadata.  `shards` is copied; props may be NULL for RSH_TENSOR_PROPS_INIT.  The caller
 * frees *out.
 * RSH_EVALUE if numbers of dims differ or a number is negative.  Overlap and coverage are not
 * checked. */
RSH_API rsh_status rsh_tensor_meta_new(int64_t nshards, const rsh_shard_meta *shards, int ndim,
                                       const int64_t *size, const rsh_tensor_props *props,
                                       rsh_tensor_meta **out);
/* Copies the metadata.  The caller frees *out. */
RSH_API rsh_status rsh_tensor_meta_copy(const rsh_tensor_meta *m, rsh_tensor_meta **out);
/* Frees the metadata.  No-op for NULL. */
RSH_API void rsh_tensor_meta_free(rsh_tensor_meta *m);
/* Returns whether everything is equal, including the order of the shards. */
RSH_API bool rsh_tensor_meta_equal(const rsh_tensor_meta *a, const rsh_tensor_meta *b);
/* Returns whether both describe the same tensor, cut the same way.  Empty shards, and the order of
 * the shards, are ignored. */
RSH_API bool rsh_tensor_meta_same(const rsh_tensor_meta *a, const rsh_tensor_meta *b);
/* Write metadata as JSON, and read it back into an equal object, which the caller frees.
 * RSH_EIO if the sink stops; RSH_ERUNTIME if the text is not such JSON, or has an unknown memory
 * format. */
RSH_API rsh_status rsh_tensor_meta_save(const rsh_tensor_meta *m, const rsh_sink *sink);
RSH_API rsh_status rsh_tensor_meta_load(const char *text, size_t bytes, rsh_tensor_meta **out);

/* Checks that no two shards overlap.  Empty shards never overlap.  100,000 boxes take well under a
 * second.
 * RSH_EVALUE if shards overlap; the message names the first shard that overlaps an earlier one, and
 * this earlier one. */
RSH_API rsh_status rsh_shards_check_overlap(int64_t n, const rsh_shard_meta *shards);
/* Checks that shards which do not overlap cover a whole tensor of this size.
 * RSH_EVALUE if numbers of dims differ, a shard, even an empty one, exceeds the tensor, or the
 * volumes do not add up to that of the tensor. */
RSH_API rsh_status rsh_shards_check_tensor(int64_t n, const rsh_shard_meta *shards, int ndim,
                                           const int64_t *size);

/* ---- specs ---- */

typedef struct rsh_spec rsh_spec;
/* How a kind shards tensors; see <reshard/torch/tensor.h>. */
typedef struct rsh_spec_sharder rsh_spec_sharder;

/* A kind of spec.  `self` is the pointer that the user gave to rsh_spec_new.  `build` is required,
 * the others may be NULL.  Any thread that holds a spec may call these functions; they must give
 * the same result each time. */
typedef struct rsh_spec_kind {
    const char *name; /* used in error messages; kinds with the same name are the same kind */
    rsh_status (*build)(const void *self, int ndim, const int64_t *size,
                        const rsh_tensor_props *props, rsh_tensor_meta **out);
    /* Called once, with the last reference to the spec.  NULL: `self` is borrowed and must outlive
     * the spec. */
    void (*free)(void *self);
    /* Prints the text by which two specs of this kind are compared.  NULL: all specs of the kind
     * are equal. */
    rsh_status (*print)(const void *self, const rsh_sink *sink);
    /* How rsh_shard_tensor distributes a whole tensor.  NULL: it returns RSH_EUNSUP. */
    const rsh_spec_sharder *sharder;
} rsh_spec_kind;

/* Specs are immutable and reference-counted.  A new spec has one reference, which the caller owns.
 * Any thread may add and drop references. */

/* Creates a spec of a user-defined kind.  `kind` is borrowed and must outlive the spec.  On success
 * the spec owns `self` and frees it with kind->free; on failure the caller still owns `self`.
 * The caller frees *out.
 * RSH_EVALUE if the kind has no name or no `build`, or is called "chunk" or "boxes". */
RSH_API rsh_status rsh_spec_new(const rsh_spec_kind *kind, void *self, rsh_spec **out);
/* Creates a spec of n >= 1 chunks along `dim` (negative: from the end).  Chunk i belongs to the
 * rank in placements[i].  A rank may own several chunks or none.  The caller frees *out.
 * RSH_EVALUE if n < 1. */
RSH_API rsh_status rsh_spec_chunk(int dim, int64_t n, const rsh_remote_device *placements,
                                  rsh_spec **out);
/* Does the same with one placement "rank:R/cpu" per entry of `ranks`; NULL: 0 to n-1.  The
 * caller frees *out. */
RSH_API rsh_status rsh_spec_chunk_ranks(int dim, int64_t n, const int *ranks, rsh_spec **out);
/* Creates a spec from a list of boxes.  The caller frees *out.
 * RSH_EVALUE if the list is empty, numbers of dims differ, or boxes overlap. */
RSH_API rsh_status rsh_spec_boxes(int64_t n, const rsh_shard_meta *shards, rsh_spec **out);
/* Adds a reference and returns the same spec, or NULL for NULL.  Never fails.  The caller calls
 * rsh_spec_free once for every hold. */
RSH_API rsh_spec *rsh_spec_hold(const rsh_spec *s);
/* Drops one reference; the last one frees the spec.  No-op for NULL. */
RSH_API void rsh_spec_free(rsh_spec *s);

RSH_API const char *rsh_spec_kind_name(const rsh_spec *s); /* "chunk", "boxes", or the user's */
RSH_API const void *rsh_spec_self(const rsh_spec *s);      /* NULL if the kind is built in */
/* Returns the canonical text, borrowed: "chunk(0; rank:0/cpu, rank:1/cpu)",
 * "boxes([0,0]+[5,5] rank:0/cpu; ...)", or "name(...)" with the text that the kind prints. */
RSH_API const char *rsh_spec_text(const rsh_spec *s);
/* Parses such a text of a chunk or boxes spec.  The caller frees *out.
 * RSH_EVALUE if the text is malformed; the message names the column.  RSH_ERUNTIME
 * if a device does not exist. */
RSH_API rsh_status rsh_spec_parse(const char *text, rsh_spec **out);
/* Returns whether the texts are equal.  With ndim >= 0 a negative dim equals its positive
 * counterpart; with -1 dims are compared as written. */
RSH_API bool rsh_spec_equal(const rsh_spec *a, const rsh_spec *b, int ndim);

/* The following functions are for chunk specs and return RSH_EUNSUP for others. */
/* Returns the dim, from 0 to ndim - 1.  RSH_EVALUE if the tensor has no such dim. */
RSH_API rsh_status rsh_spec_chunk_dim(const rsh_spec *s, int ndim, int *dim);
/* Returns the placements, borrowed. */
RSH_API rsh_status rsh_spec_chunk_placements(const rsh_spec *s, int64_t *n,
                                             const rsh_remote_device **placements);
/* Returns the first position of a rank among the placements; RSH_ERUNTIME if it has none. */
RSH_API rsh_status rsh_spec_chunk_index(const rsh_spec *s, int rank, int64_t *out);
/* Returns start and size of the rank's first chunk of a dim of n elements in W chunks; RSH_EVALUE
 * if it has none. */
RSH_API rsh_status rsh_spec_chunk_params(const rsh_spec *s, int64_t n, int64_t W, int rank,
                                         int64_t *start, int64_t *size);

/* Returns the shards of a tensor of this size; props may be NULL for RSH_TENSOR_PROPS_INIT.  Chunks
 * are in the order of placements, including empty ones.  The caller frees *out.
 * RSH_EVALUE if the spec does not fit the size; RSH_ERUNTIME if a user-defined kind returns
 * metadata with another size or other properties than requested; errors of that kind. */
RSH_API rsh_status rsh_spec_build(const rsh_spec *s, int ndim, const int64_t *size,
                                  const rsh_tensor_props *props, rsh_tensor_meta **out);
/* Infers a spec from shards in any order: a chunk spec if offsets and sizes are exactly those of
 * chunks along one dim, otherwise boxes.  A single shard, or shards that are all at the origin,
 * give boxes.  The caller frees *out. */
RSH_API rsh_status rsh_spec_infer(int64_t n, const rsh_shard_meta *shards, rsh_spec **out);

/* Convert metadata, or a spec, to a layout: a mesh with one axis if the shards are chunks and every
 * rank owns one, otherwise boxes.  Part i of a rank is its shard i in the order of the metadata,
 * including empty shards.
 * The caller frees *out.
 * RSH_EVALUE if a shard has no rank or shards do not tile the tensor; RSH_ERUNTIME if a placement
 * is the name of a worker. */
RSH_API rsh_status rsh_tensor_meta_layout(const rsh_tensor_meta *m, rsh_layout **out);
RSH_API rsh_status rsh_spec_layout(const rsh_spec *s, rsh_dtype dtype, int ndim,
                                   const int64_t *size, rsh_layout **out);
/* Converts a layout to a spec; shards are ordered by rank unless they are chunks.  The caller frees
 * *out.
 * RSH_EUNSUP if the layout is partial, replicated, flat or stored in another order, or if a part is
 * not a single box. */
RSH_API rsh_status rsh_spec_from_layout(const rsh_layout *l, rsh_spec **out);

#ifdef __cplusplus
}
#endif
#endif
