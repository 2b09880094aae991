/* Checkpoint: named tensors in files, and the moves between one way of cutting them and another.
 *
 * A checkpoint file is a layout whose parts lie at file offsets.  Opening one reads headers only.
 */
#ifndef RESHARD_CKPT_H
#define RESHARD_CKPT_H

#include <reshard/progress.h>
#include <reshard/shard.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- rules: which tensors a result has, what they are made of, and how they are cut ----
 *
 * A rule file has a line for each pattern of names, with a form behind it: "*.q_proj.weight
 * [_/tp%128, _]".  Lines can also rename tensors, and build them from others.  docs/checkpoint.md
 * is the grammar.
 * Rules are immutable once made: share them between threads. */
typedef struct rsh_ckpt_rules rsh_ckpt_rules;

/* Reads rules from text, or from a file.  `name` stands for the file in messages.  The caller frees
 * *out.
 * RSH_EVALUE names line, column and what was expected there; RSH_EIO if the file cannot be read;
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_ckpt_rules_parse(const char *text, const char *name, rsh_ckpt_rules **out);
RSH_API rsh_status rsh_ckpt_rules_read(const char *path, rsh_ckpt_rules **out);
/* Frees the rules.  No-op for NULL.  Local. */
RSH_API void rsh_ckpt_rules_free(rsh_ckpt_rules *r);
/* The layout that the first rule which matches `name` gives a tensor of this dtype and shape.  The
 * caller frees *out.
 * RSH_EKEY if no rule matches; otherwise as rsh_form_fill, naming the rule's line.  Local. */
RSH_API rsh_status rsh_ckpt_rules_layout(const rsh_ckpt_rules *rules, const char *name,
                                         rsh_dtype dtype, int ndim, const int64_t *shape,
                                         rsh_layout **out);

/* ---- reading ---- */

/* A checkpoint that was opened for reading.  Immutable: any thread may read from it. */
typedef struct rsh_ckpt rsh_ckpt;

/* Opens a checkpoint: a safetensors file, or a directory of one of the kinds that
 * docs/checkpoint.md lists.  Reads headers only.  `from` (may be NULL; borrowed during the call)
 * says how rank files of other tools are cut.  The caller frees *out.
 * RSH_EIO if a file cannot be read; RSH_EVALUE, naming file, tensor and byte offset, if something
 * is wrong with it; RSH_EUNSUP for what we do not read; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_ckpt_open(const char *path, const rsh_ckpt_rules *from, rsh_ckpt **out);
/* Frees the checkpoint and closes its files.  No-op for NULL.  Local. */
RSH_API void rsh_ckpt_free(rsh_ckpt *c);

/* Says in words what it is, such as "Hugging Face directory".  The string is static.  Local. */
RSH_API const char *rsh_ckpt_kind(const rsh_ckpt *c); /* NULL for NULL */

/* One tensor.  Pointers are borrowed and live as long as the checkpoint. */
typedef struct rsh_ckpt_entry {
    size_t struct_size; /* sizeof(rsh_ckpt_entry); set by the caller */
    const char *name;
    rsh_dtype dtype; /* may be storage-only */
    int ndim;
    const int64_t *shape;     /* global */
    const rsh_layout *layout; /* NULL: whole, in one file */
    bool by_rank;   /* ranks of the layout are ranks of a job; else they only number the parts */
    uint64_t bytes; /* of the tensor, once */
    const char *digest; /* as the files state it, "d2:..."; NULL: they do not */
    const char *packing; /* of quantised elements the type, "Q4_K"; NULL: elements are dtypes.  Then
                            dtype is RSH_U8 and the last size counts bytes */
    int block_elements, block_bytes; /* of quantised elements: those of a block, and its bytes */
} rsh_ckpt_entry;
#define RSH_CKPT_ENTRY_INIT {sizeof(rsh_ckpt_entry), 0, RSH_BOOL, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* The number of tensors, and tensor i, in the order in which they lie in the files.
 * RSH_EINDEX if there is no such tensor; RSH_EVALUE if *out does not start from
 * RSH_CKPT_ENTRY_INIT.  Local. */
RSH_API int64_t rsh_ckpt_ntensors(const rsh_ckpt *c);
RSH_API rsh_status rsh_ckpt_get_tensor(const rsh_ckpt *c, int64_t i, rsh_ckpt_entry *out);
/* The number of the tensor of that name, or -1.  Local. */
RSH_API int64_t rsh_ckpt_find(const rsh_ckpt *c, const char *name);

/* The number of its files, and the name (borrowed) and bytes of file i.
 * RSH_EINDEX if there is no such file.  Local. */
RSH_API int64_t rsh_ckpt_nfiles(const rsh_ckpt *c);
RSH_API rsh_status rsh_ckpt_get_file(const rsh_ckpt *c, int64_t i, const char **name,
                                     uint64_t *bytes);
/* The number of entries of its metadata, and entry i, borrowed; what describes cuts and digests is
 * left out.
 * RSH_EINDEX if there is no such entry.  Local. */
RSH_API int64_t rsh_ckpt_nmeta(const rsh_ckpt *c);
RSH_API rsh_status rsh_ckpt_get_meta(const rsh_ckpt *c, int64_t i, const char **key,
                                     const char **value);
/* The number of things in it that are no tensors, and the name of one and a few words about it,
 * borrowed.
 * RSH_EINDEX if there is no such thing.  Local. */
RSH_API int64_t rsh_ckpt_nnon_tensors(const rsh_ckpt *c);
RSH_API rsh_status rsh_ckpt_get_non_tensor(const rsh_ckpt *c, int64_t i, const char **name,
                                           const char **what);

/* Reads a box of a tensor (NULL: all of it) into memory of the caller; a stated digest is of the
 * whole tensor and is not checked: to->data is its first
 * element, to->strides those of the box's dims (NULL: dense and row-major).  Elements are not
 * converted.  Of copies one is read.
 * RSH_EINDEX if there is no such tensor or the box is not inside it; RSH_EVALUE without memory for
 * elements; RSH_EUNSUP for elements that are no whole bytes; RSH_EIO, also if a file has changed;
 * RSH_ENOMEM.  Local, from any thread. */
RSH_API rsh_status rsh_ckpt_read(const rsh_ckpt *c, int64_t tensor, const rsh_box *box,
                                 const rsh_memory *to);

/* ---- maps ---- */

/* Applies rules to an open checkpoint: *out has the tensors that the rules make, under their names,
 * and can be read, loaded and compared like any other; forms do not count except for their dtypes,
 * which dequantised tensors need.  Nothing is read but headers.  *out borrows c and the rules: free
 * it before them.
 * RSH_EVALUE names file, line and tensor if the rules do not fit the checkpoint; RSH_EUNSUP if c is
 * mapped already or a tensor needs too many boxes; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_ckpt_map(const rsh_ckpt *c, const rsh_ckpt_rules *map, rsh_ckpt **out);

/* Makes the rules that undo a map, for a checkpoint c that the map made (a few sizes come from its
 * layouts).  The caller frees *out.
 * RSH_EVALUE names the line that cannot be undone, or whose sizes are not known; RSH_ENOMEM.
 * Local. */
RSH_API rsh_status rsh_ckpt_rules_reverse(const rsh_ckpt_rules *map, const rsh_ckpt *c,
                                          rsh_ckpt_rules **out);

/* ---- converting ---- */

typedef struct rsh_convert_opts {
    size_t struct_size;    /* sizeof(rsh_convert_opts) */
    const rsh_ckpt_rules *from; /* how rank files of other tools are cut; NULL: not needed */
    const rsh_ckpt_rules *to;   /* how the result is cut; NULL: it is whole */
    uint64_t mem;          /* most bytes of buffers; 0: 256 MiB */
    int threads;           /* 0: by the machine */
    uint64_t max_shard;    /* most bytes of data in a file of a directory; 0: 5,000,000,000 for
                              whole tensors, no limit for rank files */
    bool resume;           /* go on where a run that was stopped left off */
    bool force;            /* replace what is at the target */
    bool dedup;            /* store one copy of a part that several ranks hold */
    bool drop;             /* leave out what is no tensor, instead of refusing */
    bool no_digest;        /* no digests; the system may copy bytes by itself.  Digests that the
                              source states are then checked only with `verify` */
    bool verify;           /* read source and result again and compare every element */
    int64_t ninclude, nexclude;
    const char *const *include; /* patterns of names; none: all tensors */
    const char *const *exclude; /* patterns of names that are left out */
    rsh_progress_fn progress;   /* is told bytes; may be NULL */
    void *progress_ctx;
    bool reverse; /* `from` is a map that made the source: undo it; `to` must be NULL */
    const char *format; /* of the result: "safetensors", or "gguf" for a source of GGUF files; NULL:
                           "gguf" if the target ends in ".gguf", else "safetensors" */
    int64_t max_tensors; /* most tensors in a file of a directory; 0: no limit */
} rsh_convert_opts;
#define RSH_CONVERT_OPTS_INIT                                                                      \
    { sizeof(rsh_convert_opts), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

typedef struct rsh_convert_report {
    size_t struct_size;                 /* sizeof(rsh_convert_report); set by the caller */
    int64_t tensors, files;             /* of the result */
    uint64_t source_bytes;              /* of the tensors, once */
    uint64_t target_bytes;              /* of all files of the result */
    uint64_t bytes_read, bytes_written; /* of tensors, by this run */
    uint64_t bytes_kept;                /* of the source, that an earlier run had moved */
    bool verified;                      /* opts->verify: every element of the result is right */
    int64_t converted;                  /* tensors whose dtype changed */
    int64_t digests_unchecked; /* source tensors whose stated digest was not compared with their
                                  elements: opts->no_digest without opts->verify, an unknown
                                  formula, or rules that use only a part of a tensor */
    int64_t folders; /* subdirectories of the source: files in them are not copied along */
    bool gap; /* the old target was gone for a moment: the file system cannot exchange names */
} rsh_convert_report;
#define RSH_CONVERT_REPORT_INIT                                                                    \
    { sizeof(rsh_convert_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Writes the checkpoint at `source` anew at `target`, cut as opts->to says.  Work goes on in
 * "TARGET.reshard-partial", which is then renamed: the target appears complete or not at all.
 * Whole tensors go to one file if the target ends in ".safetensors" or ".gguf", else to a
 * directory.  GGUF files get the tensors and the metadata of the source byte for byte.  opts and
 * report may be NULL.
 * RSH_EVALUE if something is wrong with the source, the rules do not fit, or the target exists;
 * RSH_EIO if reading or writing fails, or elements do not have the digest that the source states;
 * RSH_EBUSY while another process converts to the same target;
 * RSH_EUNSUP, RSH_ETYPE for dtypes that do not convert; RSH_ENOMEM.  Nothing is published then.
 * Local. */
RSH_API rsh_status rsh_ckpt_convert(const char *source, const char *target,
                                    const rsh_convert_opts *opts, rsh_convert_report *report);

/* What rsh_ckpt_convert would do, for each tensor; `rule` is -1 without rules.  Pointers are
 * borrowed until the function returns. */
typedef struct rsh_convert_step {
    const char *name;       /* of the target; of a dropped tensor its own */
    const rsh_layout *from; /* of the source, if there is one and it is not changed; NULL: whole */
    const rsh_layout *to;   /* NULL: whole */
    rsh_dtype from_dtype, to_dtype;
    int64_t rule;        /* number of the line that made it */
    const char *pattern; /* that line without its form */
    int line;            /* of the rule file */
    uint64_t bytes;      /* of the sources */
    int ndim;
    const int64_t *shape;
    int64_t nsources; /* tensors that it is made of, in the order of the line */
    const char *const *sources;
    bool dropped; /* the line leaves it out; `to` and to_dtype mean nothing */
} rsh_convert_step;
typedef int (*rsh_convert_step_fn)(void *ctx, const rsh_convert_step *step);
/* Calls fn for each target, in the order in which it is written, and then for each tensor that is
 * dropped; a non-zero return stops, which is no error.
 * Errors as for rsh_ckpt_convert, found before the first byte moves.  Local. */
RSH_API rsh_status rsh_convert_preview(const char *source, const char *target,
                                       const rsh_convert_opts *opts, rsh_convert_step_fn fn,
                                       void *ctx, rsh_convert_report *report);

/* ---- in a program: sharded tensors to files and back ---- */

typedef struct rsh_save_opts {
    size_t struct_size; /* sizeof(rsh_save_opts) */
    bool force;         /* replace what is at the path */
    bool no_digest;     /* store no digests */
    int64_t nmeta;      /* metadata of the checkpoint; "format" is "pt", whatever is given */
    const char *const *keys, *const *values; /* nmeta of each */
    const rsh_ckpt_rules *map; /* what is saved is what these rules make of the tensors; NULL: the
                                  tensors themselves.  They are first saved at
                                  "PATH.reshard-unmapped", which rank 0 then converts */
} rsh_save_opts;
#define RSH_SAVE_OPTS_INIT {sizeof(rsh_save_opts), 0, 0, 0, 0, 0, 0}

/* Saves n sharded tensors of one comm under their names, as a directory of rank files at `path`,
 * which all ranks must see: rank-00000-of-00004.safetensors and so on, with layouts and digests in
 * them.  Of parts that several ranks hold one copy is stored, by the first of them.  Tensors of
 * which a rank has several parts are stored as flat ranges.  opts may be NULL.  Every rank gives
 * the same path, names and options.
 *
 * The directory appears complete or not at all: ranks write to "PATH.reshard-partial", and when all
 * have, rank 0 renames it.  If a rank fails, all get its error and nothing is left.
 * RSH_EVALUE if n < 0, a name is missing, a name or key is given twice or not UTF-8, a tensor is on
 * another comm, or there is something at the path and opts->force is not set; RSH_EUNSUP for a
 * partial layout and for dtypes that safetensors does not have; RSH_EIO; RSH_EBUSY while another
 * process writes there.
 * Collective. */
RSH_API rsh_status rsh_ckpt_save(rsh_comm *comm, const char *path, int64_t n,
                                 const char *const *names, const rsh_sharded *const *tensors,
                                 const rsh_save_opts *opts);

typedef struct rsh_load_stats {
    size_t struct_size;    /* sizeof(rsh_load_stats); set by the caller */
    uint64_t bytes_read;   /* from files, by this rank */
    uint64_t most_scratch; /* bytes that this rank read before they were spread */
    int64_t digests_checked;   /* tensors whose stated digest is that of the elements read */
    int64_t digests_unchecked; /* tensors whose stated digest has an unknown formula */
} rsh_load_stats;
#define RSH_LOAD_STATS_INIT {sizeof(rsh_load_stats), 0, 0, 0, 0}

/* Loads n tensors of an open checkpoint into sharded tensors of the comm, whatever their layouts;
 * elements are converted where dtypes differ.  Every rank gives the checkpoint that it opened
 * (ranks that are threads may share one), the same names and tensors of the same layouts.
 *
 * Of what the ranks of a node need every byte is read once, by one of them, in large runs, and is
 * then moved to where it belongs.  Tensors are read in batches; beside them each rank needs memory
 * for its share of a batch, which is 64 MiB or its share of a single tensor.  stats may be NULL.
 * Digests that the files state are compared with the elements that were read.
 * RSH_EKEY if there is no tensor of a name; RSH_EVALUE if shapes differ or a tensor is on another
 * comm; RSH_ETYPE for dtypes that do not convert; RSH_EUNSUP for a partial layout; RSH_EIO, also if
 * elements do not have the digest that the files state.  If a call fails, elements are undefined.
 * Collective. */
RSH_API rsh_status rsh_ckpt_load(const rsh_ckpt *c, rsh_comm *comm, int64_t n,
                                 const char *const *names, rsh_sharded *const *tensors,
                                 rsh_load_stats *stats);

/* ---- comparing ---- */

/* The first difference between two checkpoints. */
typedef struct rsh_ckpt_difference {
    size_t struct_size; /* sizeof(rsh_ckpt_difference); set by the caller */
    bool found;
    char tensor[512];    /* its name, cut off if it is longer */
    char sentence[1024]; /* what differs */
    bool has_index;
    int ndim;
    int64_t index[RSH_MAX_NDIM]; /* global index of the first element that differs */
} rsh_ckpt_difference;
#define RSH_CKPT_DIFFERENCE_INIT {sizeof(rsh_ckpt_difference), 0, "", "", 0, 0, {0}}

typedef struct rsh_compare_opts {
    size_t struct_size;       /* sizeof(rsh_compare_opts) */
    bool converted;           /* convert the elements of a to the dtypes of b first */
    bool allow_missing;       /* tensors that only a has are no difference */
    uint64_t mem;             /* most bytes of buffers; 0: 256 MiB */
    int threads;              /* 0: by the machine */
    rsh_progress_fn progress; /* is told bytes; may be NULL */
    void *progress_ctx;
} rsh_compare_opts;
#define RSH_COMPARE_OPTS_INIT                                                                      \
    { sizeof(rsh_compare_opts), 0, 0, 0, 0, 0, 0 }

/* Compares every element of every tensor, all stored copies of b included, whatever the layouts.
 * opts may be NULL.  What differs is no error: see out->found.
 * RSH_EIO if reading fails; RSH_EVALUE if the options do not start from RSH_COMPARE_OPTS_INIT;
 * RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_ckpt_compare(const rsh_ckpt *a, const rsh_ckpt *b,
                                    const rsh_compare_opts *opts, rsh_ckpt_difference *out);

#ifdef __cplusplus
}
#endif
#endif
