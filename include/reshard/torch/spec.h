/* Spec: how a tensor is cut into shards and who owns which, as PyTorch describes it.
 *
 * A sharding spec turns sizes into metadata: a list of boxes with owners.  Two kinds are built in:
 * chunks along one dim, and a list of boxes.  Users add their own with a table of functions.  A
 * layout can express everything a spec can, and more; specs become layouts and, where a spec can
 * say it, layouts become specs.  docs/torch.md has the table of names.
 *
 * Ranks in placements are ranks of the process group, everywhere.  All functions are pure unless
 * they say otherwise.  Functions that allocate return RSH_ENOMEM if they cannot, and the caller
 * frees what they write to *out. */
#ifndef RESHARD_TORCH_SPEC_H
#define RESHARD_TORCH_SPEC_H

#include <reshard/layout.h>
#include <reshard/tensor.h>
#include <reshard/sink.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- chunks of one dim ---- */

/* ceil(n / chunks).  RSH_EVALUE if chunks < 1 or n < 0. */
RSH_API rsh_status rsh_chunk_split(int64_t n, int64_t chunks, int64_t *out);
/* Size of chunk c >= 0 where chunks have s elements: the first ones are full, at most one is
 * smaller, the rest are empty. */
RSH_API int64_t rsh_chunk_size(int64_t n, int64_t s, int64_t c);
/* Where it begins: min(s*c, n), so that empty chunks lie at the end and never outside. */
RSH_API int64_t rsh_chunk_offset(int64_t n, int64_t s, int64_t c);

/* ---- where a shard lives: its placement, as PyTorch calls it, is a remote device ---- */

/* Names of devices, as PyTorch writes them in placements.  They are parsed, printed and compared;
 * tensors live in main memory, RSH_DEVICE_CPU.
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
    char worker[RSH_WORKER_TEXT]; /* "": none.  Letters, digits, "_", "-", ".".  A worker name is
                                     parsed, printed and compared, but a tensor cannot be placed by
                                     one */
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
/* Is it a rank of a group of `size`?  RSH_EVALUE if it has no rank or one outside the group;
 * RSH_ERUNTIME if it is the name of a worker. */
RSH_API rsh_status rsh_remote_device_check(const rsh_remote_device *p, int size);

/* ---- metadata ---- */

typedef struct rsh_shard_meta {
    int ndim;
    int64_t offsets[RSH_MAX_NDIM], sizes[RSH_MAX_NDIM];
    bool has_placement;
    rsh_remote_device placement;
} rsh_shard_meta;

/* Metadata from lists; `placement` is a text, NULL for none.
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
/* The dtype of t, the rest as in RSH_TENSOR_PROPS_INIT. */
RSH_API rsh_tensor_props rsh_tensor_get_props(const rsh_tensor *t);
RSH_API bool rsh_tensor_props_equal(const rsh_tensor_props *a, const rsh_tensor_props *b);

/* Of a whole sharded tensor. */
typedef struct rsh_tensor_meta {
    int64_t nshards;
    rsh_shard_meta *shards; /* owned; chunks: in the order of placements */
    int ndim;
    int64_t size[RSH_MAX_NDIM];
    rsh_tensor_props props;
} rsh_tensor_meta;

/* `shards` are copied; props NULL: RSH_TENSOR_PROPS_INIT.  The caller frees *out.
 * RSH_EVALUE if numbers of dims differ or a number is negative.  Overlap and coverage are not
 * checked. */
RSH_API rsh_status rsh_tensor_meta_new(int64_t nshards, const rsh_shard_meta *shards, int ndim,
                                       const int64_t *size, const rsh_tensor_props *props,
                                       rsh_tensor_meta **out);
/* Copies the metadata.  The caller frees *out. */
RSH_API rsh_status rsh_tensor_meta_copy(const rsh_tensor_meta *m, rsh_tensor_meta **out);
/* Frees the metadata.  No-op for NULL. */
RSH_API void rsh_tensor_meta_free(rsh_tensor_meta *m);
/* Is everything equal, and are the shards in the same order? */
RSH_API bool rsh_tensor_meta_equal(const rsh_tensor_meta *a, const rsh_tensor_meta *b);
/* Is it the same tensor, cut the same way?  Order and empty shards do not matter. */
RSH_API bool rsh_tensor_meta_same(const rsh_tensor_meta *a, const rsh_tensor_meta *b);
/* Writes JSON; load reads it back into an equal object, which the caller frees.
 * RSH_EIO if the sink stops; RSH_ERUNTIME if the text is not such JSON, or names a memory format
 * that does not exist. */
RSH_API rsh_status rsh_tensor_meta_save(const rsh_tensor_meta *m, const rsh_sink *sink);
RSH_API rsh_status rsh_tensor_meta_load(const char *text, size_t bytes, rsh_tensor_meta **out);

/* Checks that no two shards overlap.  Empty shards overlap nothing.  100,000 boxes take well under
 * a second.
 * RSH_EVALUE if shards overlap; the sentence names the first shard that overlaps one before it, and
 * that one. */
RSH_API rsh_status rsh_shards_check_overlap(int64_t n, const rsh_shard_meta *shards);
/* Checks that shards which do not overlap are a whole tensor of this size.
 * RSH_EVALUE if numbers of dims differ, a shard (an empty one too) reaches outside, or the volumes
 * do not add up to the tensor's. */
RSH_API rsh_status rsh_shards_check_tensor(int64_t n, const rsh_shard_meta *shards, int ndim,
                                           const int64_t *size);

/* ---- specs ---- */

typedef struct rsh_spec rsh_spec;
/* How a kind shards tensors; <reshard/torch/tensor.h> describes it. */
typedef struct rsh_spec_sharder rsh_spec_sharder;

/* A kind of spec.  `self` is what the user gave to rsh_spec_new.  `build` must be there, the others
 * may be NULL.  Functions may be called by any thread that holds a spec, and give the same answer
 * each time. */
typedef struct rsh_spec_kind {
    const char *name; /* for messages; kinds of equal name are the same kind */
    rsh_status (*build)(const void *self, int ndim, const int64_t *size,
                        const rsh_tensor_props *props, rsh_tensor_meta **out);
    /* Called once, with the last reference to the spec.  NULL: `self` is borrowed and must outlive
     * the spec. */
    void (*free)(void *self);
    /* Prints the text by which two specs of this kind are compared.  NULL: all specs of the kind
     * are equal. */
    rsh_status (*print)(const void *self, const rsh_sink *sink);
    /* How rsh_shard_tensor hands out a whole tensor.  NULL: it cannot (RSH_EUNSUP). */
    const rsh_spec_sharder *sharder;
} rsh_spec_kind;

/* Specs are immutable and reference-counted.  A new one has one reference, the caller's.  Any
 * thread may take and drop references. */

/* A spec of a user's kind.  `kind` is borrowed and must outlive the spec.  On success the spec owns
 * `self` and frees it with kind->free; on failure `self` is still the caller's.
 * The caller frees *out.
 * RSH_EVALUE if the kind has no name or no `build`, or is called "chunk" or "boxes". */
RSH_API rsh_status rsh_spec_new(const rsh_spec_kind *kind, void *self, rsh_spec **out);
/* n >= 1 chunks along `dim` (negative: from the end); the position in the list is the number of the
 * chunk, the rank in it the owner.  A rank may own several chunks or none.  The caller frees *out.
 * RSH_EVALUE if n < 1. */
RSH_API rsh_status rsh_spec_chunk(int dim, int64_t n, const rsh_remote_device *placements,
                                  rsh_spec **out);
/* The same with one placement "rank:R/cpu" per entry of `ranks`; NULL: 0 to n-1.  The caller frees
 * *out. */
RSH_API rsh_status rsh_spec_chunk_ranks(int dim, int64_t n, const int *ranks, rsh_spec **out);
/* A list of boxes.  The caller frees *out.
 * RSH_EVALUE if there is none, numbers of dims differ, or boxes overlap. */
RSH_API rsh_status rsh_spec_boxes(int64_t n, const rsh_shard_meta *shards, rsh_spec **out);
/* One more reference to the same spec.  Never fails; NULL for NULL.  The caller frees the result,
 * once for every hold. */
RSH_API rsh_spec *rsh_spec_hold(const rsh_spec *s);
/* Drops one reference; the last one frees the spec.  No-op for NULL. */
RSH_API void rsh_spec_free(rsh_spec *s);

RSH_API const char *rsh_spec_kind_name(const rsh_spec *s); /* "chunk", "boxes", or the user's */
RSH_API const void *rsh_spec_self(const rsh_spec *s);      /* of a user's kind; else NULL */
/* Canonical text: "chunk(0; rank:0/cpu, rank:1/cpu)", "boxes([0,0]+[5,5] rank:0/cpu; ...)", or
 * "name(...)" with what the kind prints.  Borrowed. */
RSH_API const char *rsh_spec_text(const rsh_spec *s);
/* A chunk or boxes spec from that text.  The caller frees *out.
 * RSH_EVALUE names the column; RSH_ERUNTIME if a device does not exist. */
RSH_API rsh_status rsh_spec_parse(const char *text, rsh_spec **out);
/* Are the texts equal?  With ndim >= 0 a negative dim equals its positive counterpart; with -1 dims
 * are compared as written. */
RSH_API bool rsh_spec_equal(const rsh_spec *a, const rsh_spec *b, int ndim);

/* Of a chunk spec; RSH_EUNSUP for others. */
/* The dim, from 0 to ndim - 1.  RSH_EVALUE if the tensor has no such dim. */
RSH_API rsh_status rsh_spec_chunk_dim(const rsh_spec *s, int ndim, int *dim);
/* The placements, borrowed. */
RSH_API rsh_status rsh_spec_chunk_placements(const rsh_spec *s, int64_t *n,
                                             const rsh_remote_device **placements);
/* First position of a rank among the placements; RSH_ERUNTIME if it has none. */
RSH_API rsh_status rsh_spec_chunk_index(const rsh_spec *s, int rank, int64_t *out);
/* Start and size of the rank's first chunk of a dim of n elements over W chunks; RSH_EVALUE if it
 * has none. */
RSH_API rsh_status rsh_spec_chunk_params(const rsh_spec *s, int64_t n, int64_t W, int rank,
                                         int64_t *start, int64_t *size);

/* The shards of a tensor of this size; props NULL: RSH_TENSOR_PROPS_INIT.  Chunks: in the order of
 * placements, empty ones too.  The caller frees *out.
 * RSH_EVALUE if the spec does not fit the size; RSH_ERUNTIME if a user's kind made metadata of
 * another size or of other properties than it was asked for; or the status of that kind. */
RSH_API rsh_status rsh_spec_build(const rsh_spec *s, int ndim, const int64_t *size,
                                  const rsh_tensor_props *props, rsh_tensor_meta **out);
/* Is this list, in any order, what chunks along one dim would give, offsets and sizes exactly? Then
 * that chunk spec, else boxes; a single shard, or all at the origin, are boxes.  The caller frees
 * *out. */
RSH_API rsh_status rsh_spec_infer(int64_t n, const rsh_shard_meta *shards, rsh_spec **out);

/* The same tensor as a layout: a mesh of one axis where the shards are chunks and every rank owns
 * one, else boxes.  Part i of a rank is its shard i in the order of the metadata, also where it is
 * empty.
 * The caller frees *out.
 * RSH_EVALUE if a shard has no rank or shards do not tile the tensor; RSH_ERUNTIME for the name of
 * a worker. */
RSH_API rsh_status rsh_tensor_meta_layout(const rsh_tensor_meta *m, rsh_layout **out);
RSH_API rsh_status rsh_spec_layout(const rsh_spec *s, rsh_dtype dtype, int ndim,
                                   const int64_t *size, rsh_layout **out);
/* A layout as a spec, shards by rank unless they are chunks.  The caller frees *out.
 * RSH_EUNSUP if the layout is partial, replicated, flat or stored in another order, or a part is
 * not one box. */
RSH_API rsh_status rsh_spec_from_layout(const rsh_layout *l, rsh_spec **out);

#ifdef __cplusplus
}
#endif
#endif
