/* Checkpoint: reads, converts, saves and loads named tensors in files.
 *
 * A tensor in a checkpoint is a layout whose parts are stored at file offsets.  Opening a
 * checkpoint reads headers only.  rsh_ckpt_convert rewrites a checkpoint with different layouts;
 * rsh_ckpt_save and rsh_ckpt_load move sharded tensors to files and back.
 */
#ifndef RESHARD_CKPT_H
#define RESHARD_CKPT_H

#include <reshard/progress.h>
#include <reshard/shard.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- rules: which tensors the result has, how they are built and how they are cut ----
 *
 * Each line of a rule file has a name pattern and a form (a layout without sizes), such as
 * "*.q_proj.weight [_/tp%128, _]".  Lines can also rename tensors and build them from others.
 * docs/checkpoint.md describes the grammar.
 * Rules are immutable; threads may share them. */
typedef struct rsh_ckpt_rules rsh_ckpt_rules;

/* Parses rules from a text, or reads them from a file.  `name` is the file name in messages.  The
 * caller frees *out.
 * RSH_EVALUE, naming line and column, for a syntax error; RSH_EIO if the file cannot be read;
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_ckpt_rules_parse(const char *text, const char *name, rsh_ckpt_rules **out);
RSH_API rsh_status rsh_ckpt_rules_read(const char *path, rsh_ckpt_rules **out);
/* Frees the rules.  No-op for NULL.  Local. */
RSH_API void rsh_ckpt_rules_free(rsh_ckpt_rules *r);
/* Makes the layout that the rules give a tensor of this name, dtype and shape.  The first rule that
 * matches `name` is used.  The caller frees *out.
 * RSH_EKEY if no rule matches; otherwise the errors of rsh_form_fill, naming the rule's line.
 * Local. */
RSH_API rsh_status rsh_ckpt_rules_layout(const rsh_ckpt_rules *rules, const char *name,
                                         rsh_dtype dtype, int ndim, const int64_t *shape,
                                         rsh_layout **out);

/* ---- reading ---- */

/* A checkpoint that is open for reading.  Immutable; any thread may read from it. */
typedef struct rsh_ckpt rsh_ckpt;

/* Opens a checkpoint: a file or directory in one of the formats that docs/checkpoint.md lists.
 * Reads headers only.  `from` (may be NULL; borrowed during the call) describes how rank files of
 * other tools are cut.  The caller frees *out.
 * RSH_EIO if a file cannot be read; RSH_EVALUE, naming file, tensor and byte offset, if a file is
 * malformed; RSH_EUNSUP for an unsupported format; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_ckpt_open(const char *path, const rsh_ckpt_rules *from, rsh_ckpt **out);
/* Frees the checkpoint and closes its files.  No-op for NULL.  Local. */
RSH_API void rsh_ckpt_free(rsh_ckpt *c);

/* Returns the name of its format, such as "Hugging Face directory".  The string is static.
 * Local. */
RSH_API const char *rsh_ckpt_kind(const rsh_ckpt *c); /* NULL for NULL */

/* One tensor.  Pointers are borrowed and live as long as the checkpoint. */
typedef struct rsh_ckpt_entry {
    size_t struct_size; /* sizeof(rsh_ckpt_entry); set by the caller */
    const char *name;
    rsh_dtype dtype; /* may be storage-only */
    int ndim;
    const int64_t *shape;     /* global */
    const rsh_layout *layout; /* NULL: whole, in one file */
    bool by_rank;   /* ranks of the layout are ranks of a job; false: they only number the parts */
    uint64_t bytes; /* of the whole tensor, not counting copies */
    const char *digest; /* the digest that the files state, "d2:..."; NULL: none */
    const char *packing; /* the type of quantised elements, "Q4_K"; NULL: not quantised.  dtype of a
                            quantised tensor is RSH_U8 and its last size counts bytes */
    int block_elements, block_bytes; /* of a quantised tensor: elements and bytes of a block */
} rsh_ckpt_entry;
#define RSH_CKPT_ENTRY_INIT {sizeof(rsh_ckpt_entry), 0, RSH_BOOL, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* Returns the number of tensors, and tensor i in file order.
 * RSH_EINDEX if there is no such tensor; RSH_EVALUE if *out does not start from
 * RSH_CKPT_ENTRY_INIT.  Local. */
RSH_API int64_t rsh_ckpt_ntensors(const rsh_ckpt *c);
RSH_API rsh_status rsh_ckpt_get_tensor(const rsh_ckpt *c, int64_t i, rsh_ckpt_entry *out);
/* Returns the index of the tensor with that name, or -1.  Local. */
RSH_API int64_t rsh_ckpt_find(const rsh_ckpt *c, const char *name);

/* Returns the number of its files, and the name (borrowed) and size of file i.
 * RSH_EINDEX if there is no such file.  Local. */
RSH_API int64_t rsh_ckpt_nfiles(const rsh_ckpt *c);
RSH_API rsh_status rsh_ckpt_get_file(const rsh_ckpt *c, int64_t i, const char **name,
                                     uint64_t *bytes);
/* Returns the number of metadata entries, and entry i (borrowed).  Entries that describe layouts
 * and digests are omitted.  RSH_EINDEX if there is no such entry.  Local. */
RSH_API int64_t rsh_ckpt_nmeta(const rsh_ckpt *c);
RSH_API rsh_status rsh_ckpt_get_meta(const rsh_ckpt *c, int64_t i, const char **key,
                                     const char **value);
/* Returns the number of non-tensor entries, and the name and a short description of entry i
 * (borrowed).
 * RSH_EINDEX if there is no such entry.  Local. */
RSH_API int64_t rsh_ckpt_nnon_tensors(const rsh_ckpt *c);
RSH_API rsh_status rsh_ckpt_get_non_tensor(const rsh_ckpt *c, int64_t i, const char **name,
                                           const char **what);

/* Reads a box of a tensor (NULL: all of it) into memory of the caller.  to->data receives the first
 * element of the box; to->strides are the strides of its dims (NULL: contiguous and row-major).
 * Elements are not converted.  If parts are stored several times, one copy is read.  A stated
 * digest is not checked.  RSH_EINDEX if there is no such tensor or the box is not inside it;
 * RSH_EVALUE if to->data is NULL and the box is not empty; RSH_EUNSUP for elements smaller than a
 * byte; RSH_EIO, also if a file has changed; RSH_ENOMEM.  Local, from any thread. */
RSH_API rsh_status rsh_ckpt_read(const rsh_ckpt *c, int64_t tensor, const rsh_box *box,
                                 const rsh_memory *to);

/* ---- maps ---- */

/* Applies rules to an open checkpoint.  *out has the tensors that the rules make and can be read,
 * loaded and compared like any other checkpoint.  Forms are ignored, except for their dtypes, which
 * dequantised tensors need.  Reads headers only.  *out borrows c and the rules: free it before
 * them.  RSH_EVALUE, naming file, line and tensor, if the rules do not match the checkpoint;
 * RSH_EUNSUP if c is already mapped or a tensor needs too many boxes; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_ckpt_map(const rsh_ckpt *c, const rsh_ckpt_rules *map, rsh_ckpt **out);

/* Makes the rules that undo `map`.  c is a checkpoint that was made with it; sizes that `map` does
 * not state are taken from its layouts.  The caller frees *out.
 * RSH_EVALUE names the line that cannot be undone, or whose sizes are unknown; RSH_ENOMEM.
 * Local. */
RSH_API rsh_status rsh_ckpt_rules_reverse(const rsh_ckpt_rules *map, const rsh_ckpt *c,
                                          rsh_ckpt_rules **out);

/* ---- converting ---- */

typedef struct rsh_convert_opts {
    size_t struct_size;    /* sizeof(rsh_convert_opts) */
    const rsh_ckpt_rules *from; /* layouts of rank files of other tools; NULL: not needed */
    const rsh_ckpt_rules *to;   /* layouts of the result; NULL: whole tensors */
    uint64_t mem;          /* limit of buffer memory in bytes; 0: 256 MiB */
    int threads;           /* 0: one per core, up to 8 */
    uint64_t max_shard;    /* limit of tensor bytes per file of a directory; 0: 5,000,000,000 for
                              whole tensors, no limit for rank files */
    bool resume;           /* continue an interrupted run */
    bool force;            /* replace an existing file, checkpoint or empty directory */
    bool dedup;            /* store one copy of a part that several ranks hold */
    bool drop;             /* omit non-tensor entries instead of failing */
    bool no_digest;        /* compute no digests; the kernel may then copy bytes directly.  Digests
                              that the source states are checked only with `verify` */
    bool verify;           /* read source and result again and compare every element */
    int64_t ninclude, nexclude;
    const char *const *include; /* name patterns of tensors to convert; none: all */
    const char *const *exclude; /* name patterns of tensors to omit; each pattern must match some */
    rsh_progress_fn progress;   /* receives bytes done and bytes in total; may be NULL */
    void *progress_ctx;
    bool reverse; /* undo the rules `from`, which made the source; `to` must be NULL */
    const char *format; /* of the result: "safetensors" or, if the source is GGUF, "gguf"; NULL:
                           "gguf" if the target ends in ".gguf", otherwise "safetensors" */
    int64_t max_tensors; /* limit of tensors in each file of a directory; 0: no limit */
} rsh_convert_opts;
#define RSH_CONVERT_OPTS_INIT                                                                      \
    { sizeof(rsh_convert_opts), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

typedef struct rsh_convert_report {
    size_t struct_size;                 /* sizeof(rsh_convert_report); set by the caller */
    int64_t tensors, files;             /* of the result */
    uint64_t source_bytes;              /* of the source tensors, not counting copies */
    uint64_t target_bytes;              /* of all files of the result */
    uint64_t bytes_read, bytes_written; /* tensor bytes, by this run */
    uint64_t bytes_kept; /* source bytes that an interrupted run had already converted */
    bool verified;                      /* with opts->verify: every element was compared */
    int64_t converted;                  /* number of tensors whose dtype changed */
    int64_t digests_unchecked; /* source tensors whose stated digest was not checked: with
                                  opts->no_digest and without opts->verify, if its format is
                                  unknown, or if rules use only a part of the tensor */
    int64_t left_files; /* files and directories of the source that are not copied, though other
                           files are: weights in other files, hidden directories, and links to
                           directories or out of the source */
    bool gap; /* for a moment no target existed, as the file system cannot swap two names */
    int64_t copied_files;  /* other files of the source (config.json), also in subdirectories */
    uint64_t copied_bytes; /* of these files */
    int64_t left_named;    /* number of names in `left`, at most 3 */
    char left[512];        /* names of the first of left_files, each with a reason */
} rsh_convert_report;
#define RSH_CONVERT_REPORT_INIT                                                                    \
    { sizeof(rsh_convert_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "" }

/* Rewrites the checkpoint `source` as `target`, with the layouts of opts->to.  Data is written to
 * "TARGET.reshard-partial" and renamed at the end, so the target is never incomplete.  Whole
 * tensors go to one file if the target ends in ".safetensors" or ".gguf", otherwise to a directory.
 * GGUF results contain the tensors and metadata of the source byte for byte.  opts and
 * report may be NULL.
 * RSH_EVALUE if the source is malformed, the rules do not match it, or the target exists;
 * RSH_EIO if reading or writing fails, or a digest that the source states is wrong;
 * RSH_EBUSY while another process converts to the same target;
 * RSH_EUNSUP for unsupported sources and layouts; RSH_ETYPE for dtypes that cannot be converted;
 * RSH_ENOMEM.  After an error there is no new target.  Local. */
RSH_API rsh_status rsh_ckpt_convert(const char *source, const char *target,
                                    const rsh_convert_opts *opts, rsh_convert_report *report);

/* What rsh_ckpt_convert would do with one tensor.  Pointers are borrowed until the callback
 * returns. */
typedef struct rsh_convert_step {
    const char *name;       /* of the target; of a dropped tensor its source name */
    const rsh_layout *from; /* of a single unchanged source; NULL: whole, or built by rules */
    const rsh_layout *to;   /* NULL: whole */
    rsh_dtype from_dtype, to_dtype;
    int64_t rule;        /* index of the rule that matched; -1: there are no rules */
    const char *pattern; /* that rule without its form */
    int line;            /* line number in the rule file */
    uint64_t bytes;      /* of its source tensors */
    int ndim;
    const int64_t *shape;
    int64_t nsources; /* number of source tensors, listed in the order of the rule */
    const char *const *sources;
    bool dropped; /* the tensor is omitted; `to` and `to_dtype` are undefined */
} rsh_convert_step;
typedef int (*rsh_convert_step_fn)(void *ctx, const rsh_convert_step *step);
/* Calls fn for each target tensor in the order of writing, then for each dropped tensor, and writes
 * nothing.  If fn returns non-zero, the function stops and returns RSH_OK.
 * Returns the errors that rsh_ckpt_convert finds before it writes.  Local. */
RSH_API rsh_status rsh_convert_preview(const char *source, const char *target,
                                       const rsh_convert_opts *opts, rsh_convert_step_fn fn,
                                       void *ctx, rsh_convert_report *report);

/* ---- saving and loading sharded tensors ---- */

typedef struct rsh_save_opts {
    size_t struct_size; /* sizeof(rsh_save_opts) */
    bool force;         /* replace an existing checkpoint */
    bool no_digest;     /* store no digests */
    int64_t nmeta;      /* number of metadata entries; the key "format" is always "pt" */
    const char *const *keys, *const *values; /* nmeta of each */
    const rsh_ckpt_rules *map; /* rules applied to the tensors before saving; NULL: none.  The
                                  tensors are first saved at "PATH.reshard-unmapped", which rank 0
                                  then converts */
} rsh_save_opts;
#define RSH_SAVE_OPTS_INIT {sizeof(rsh_save_opts), 0, 0, 0, 0, 0, 0}

/* Saves n sharded tensors of one comm as a directory of rank files at `path`, on a file system that
 * all ranks share: rank-00000-of-00004.safetensors and so on, with layouts and digests in their
 * headers.  A part that several ranks hold is stored once, by the first of them.  If a rank has
 * several parts of a tensor, they are stored as flat ranges.  opts may be NULL.  Every rank passes
 * the same path, names and options.
 *
 * The directory is never incomplete: ranks write to "PATH.reshard-partial", which rank 0 renames
 * when all are done.  If a rank fails, all ranks return its error and the files are removed.
 * RSH_EVALUE if n < 0, a name is missing, a name or key is duplicate or not UTF-8, a tensor is on
 * another comm, or the path exists and opts->force is not set; RSH_EUNSUP for a partial layout and
 * for dtypes that safetensors does not have; RSH_EIO; RSH_EBUSY while another process writes there.
 * Collective. */
RSH_API rsh_status rsh_ckpt_save(rsh_comm *comm, const char *path, int64_t n,
                                 const char *const *names, const rsh_sharded *const *tensors,
                                 const rsh_save_opts *opts);

typedef struct rsh_load_stats {
    size_t struct_size;    /* sizeof(rsh_load_stats); set by the caller */
    uint64_t bytes_read;   /* from files, by this rank */
    uint64_t most_scratch; /* largest buffer in bytes that this rank read into */
    int64_t digests_checked;   /* tensors whose stated digest was checked */
    int64_t digests_unchecked; /* tensors whose stated digest has an unknown format */
} rsh_load_stats;
#define RSH_LOAD_STATS_INIT {sizeof(rsh_load_stats), 0, 0, 0, 0}

/* Loads n tensors of an open checkpoint into sharded tensors of the comm.  Layouts may differ;
 * elements are converted if dtypes differ.  Every rank passes the checkpoint that it opened
 * (threads may share one), the same names, and tensors of the same layouts.
 *
 * Each byte that a node needs is read by one rank of the node, in large runs, and the data is then
 * redistributed.  Tensors are read in batches: each rank needs a buffer for its share of a batch,
 * which is 64 MiB or its share of one tensor, if that is larger.  stats may be NULL.  Digests that
 * the files state are checked.
 * RSH_EKEY if there is no tensor of that name; RSH_EVALUE if shapes differ or a tensor is on
 * another comm; RSH_ETYPE for dtypes that cannot be converted; RSH_EUNSUP for a partial layout;
 * RSH_EIO, also if a stated digest is wrong.  If a call fails, elements are undefined.
 * Collective. */
RSH_API rsh_status rsh_ckpt_load(const rsh_ckpt *c, rsh_comm *comm, int64_t n,
                                 const char *const *names, rsh_sharded *const *tensors,
                                 rsh_load_stats *stats);

/* ---- comparing ---- */

/* The first difference between two checkpoints. */
typedef struct rsh_ckpt_difference {
    size_t struct_size; /* sizeof(rsh_ckpt_difference); set by the caller */
    bool found;
    char tensor[512];    /* its name, truncated if it is longer */
    char sentence[1024]; /* a message that says what differs */
    bool has_index;
    int ndim;
    int64_t index[RSH_MAX_NDIM]; /* global index of the first element that differs */
} rsh_ckpt_difference;
#define RSH_CKPT_DIFFERENCE_INIT {sizeof(rsh_ckpt_difference), 0, "", "", 0, 0, {0}}

typedef struct rsh_compare_opts {
    size_t struct_size;       /* sizeof(rsh_compare_opts) */
    bool converted;           /* convert the elements of a to the dtypes of b first */
    bool allow_missing;       /* ignore tensors that only a has */
    uint64_t mem;             /* limit of buffer memory in bytes; 0: 256 MiB */
    int threads;              /* 0: one per core, up to 8 */
    rsh_progress_fn progress; /* receives bytes done and bytes in total; may be NULL */
    void *progress_ctx;
} rsh_compare_opts;
#define RSH_COMPARE_OPTS_INIT                                                                      \
    { sizeof(rsh_compare_opts), 0, 0, 0, 0, 0, 0 }

/* Compares every element of every tensor, including all stored copies of b.  Layouts may differ.
 * opts may be NULL.  A difference is not an error: out->found is true and the call returns RSH_OK.
 * RSH_EIO if reading fails; RSH_EVALUE if the options do not start from RSH_COMPARE_OPTS_INIT;
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_ckpt_compare(const rsh_ckpt *a, const rsh_ckpt *b,
                                    const rsh_compare_opts *opts, rsh_ckpt_difference *out);

#ifdef __cplusplus
}
#endif
#endif
