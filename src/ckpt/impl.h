/* impl: how tensors are copied between files: source and target sides, windows, blocks, the job,
 * the files of the result, the journal and publication. */
#ifndef RESHARD_CKPT_IMPL_H
#define RESHARD_CKPT_IMPL_H

#include <pthread.h>
#include <reshard/shard.h>

#include "ckpt/ckpt.h"
#include "ckpt/fds.h"
#include "copy/copy.h"

/* ---- ends: the source side or the target side of one tensor ----
 *
 * Elements smaller than a byte are counted as bytes along the last dim.  A group is one part, with
 * the files that hold a copy of it.  A piece is a product of stripes, stored with constant strides
 * in a part. */

typedef struct rshi_stored_piece {
    rshi_stripe set[RSH_MAX_NDIM]; /* global indices along each dim */
    int64_t base;                  /* offset in the part of local index 0,..,0; elements */
    int64_t stride[RSH_MAX_NDIM];  /* of local indices in the part; elements, positive */
    int64_t group;
    /* of views: row-major index and strides in the source tensor, to check its digest */
    bool checked;
    int64_t from, from_stride[RSH_MAX_NDIM];
    /* of views: elements are multiplied by scales.  Dim d of the piece is dim scale_of[d] (-1:
     * none) of the scaled tensor, and the index there is scale_first[scale_of[d]] + local index */
    int32_t scale; /* -1: none */
    int8_t scale_of[RSH_MAX_NDIM];
    int64_t scale_first[RSH_MAX_NDIM];
} rshi_stored_piece;

/* A scale for each block of a tensor. */
typedef struct rshi_scales {
    float *value; /* owned; row-major */
    int ndim;
    int64_t shape[RSH_MAX_NDIM], block[RSH_MAX_NDIM];
} rshi_scales;

typedef struct rshi_ckpt_group {
    int64_t piece, npieces;
    int64_t copy, ncopies;
    int64_t rank;   /* of the first copy */
    rsh_dtype from; /* dtype of its elements while they are copied */
} rshi_ckpt_group;

typedef struct rshi_ckpt_end {
    int ndim;
    int64_t shape[RSH_MAX_NDIM];
    size_t size;        /* bytes of an element; of the largest, if groups differ */
    rshi_stored_piece *piece; /* by group */
    int64_t npieces, pieces_room;
    rshi_ckpt_group *group;
    int64_t ngroups, groups_room;
    rshi_ckpt_part *copy; /* by group; offset of the part in each file */
    int64_t ncopies, copies_room;
    rshi_scales *scale; /* of views */
    int64_t nscales, scales_room;
} rshi_ckpt_end;

/* A tensor and the positions of its parts in files.  layout NULL: whole. */
typedef struct rshi_file_tensor {
    const char *name; /* for messages */
    rsh_dtype dtype;
    int ndim;
    const int64_t *shape;
    const rsh_layout *layout;
    const rshi_ckpt_part *parts;
    const struct rshi_ckpt_view *view; /* of a source: how it is built; NULL: it is stored */
} rshi_file_tensor;
/* The shape, with elements smaller than a byte counted as bytes. */
void rshi_file_tensor_shape(const rshi_file_tensor *stored, int64_t *shape);
/* Fills an end that was used before, or is all zero.  With `distinct` every element is listed once,
 * at its first holder; otherwise every stored copy is listed.  RSH_EUNSUP for elements smaller than
 * a byte that are cut inside bytes. */
rsh_status rshi_end_make(const rshi_file_tensor *stored, bool distinct, rshi_ckpt_end *out);
void rshi_end_free(rshi_ckpt_end *e);
bool rshi_end_converts(const rshi_ckpt_end *e, rsh_dtype to); /* must elements be converted? */
rsh_dtype rshi_moved_as(rsh_dtype dtype); /* storage-only dtypes are copied as bytes */

/* Sets *of to the first rank that holds the same part as `rank`; to -1 if that is `rank` itself, or
 * if another rank holds only some of the pieces of the part. */
rsh_status rshi_part_copy_of(const rsh_layout *l, int64_t rank, int64_t *of);

/* ---- windows: boxes of a tensor that are copied as a unit ---- */

#define RSHI_WINDOW_BYTES                                                                          \
    ((int64_t)4 << 20) /* large enough for efficient I/O, small enough for the cache */
#define RSHI_TILE_BYTES                                                                            \
    ((int64_t)64 << 20) /* for transposes, where small windows would give short runs */

typedef struct rshi_grid {
    int ndim;
    int64_t shape[RSH_MAX_NDIM], extent[RSH_MAX_NDIM]; /* of the tensor; of a window */
    int64_t n;                                         /* windows; 0 for an empty tensor */
} rshi_grid;
/* Divides a tensor into windows.  `size` is the larger element size of both sides in bytes. */
void rshi_grid_make(const rshi_file_tensor *stored, size_t size, bool tiles, rshi_grid *out);
void rshi_grid_box(const rshi_grid *g, int64_t window, rsh_box *out);

/* A block: the intersection of a window and a part, contiguous in memory.  If it is one run of the
 * part, all pieces of the group are in one block; otherwise each piece is a block. */
typedef struct rshi_ckpt_block {
    int64_t group, piece, npieces;
    int64_t lo;    /* offset in the part of its first element; elements */
    int64_t count; /* elements */
    bool dense;    /* one run in the file */
    size_t at;     /* offset in the buffer of the window; bytes */
} rshi_ckpt_block;

typedef struct rshi_blocks {
    rshi_ckpt_block *block;
    int64_t n, room;
    int64_t count;   /* elements of all blocks */
    int64_t largest; /* elements of the largest */
} rshi_blocks;
rsh_status rshi_blocks_list(const rshi_ckpt_end *e, const rsh_box *window, rshi_blocks *out);

/* A piece in the buffer of its block: local index i is at byte  bias + sum i_d * stride[d]. */
typedef struct rshi_view {
    const rshi_stored_piece *piece;
    int64_t bias, stride[RSH_MAX_NDIM];           /* bytes, from the start of the block */
    int64_t first[RSH_MAX_NDIM], n[RSH_MAX_NDIM]; /* local indices inside the window */
} rshi_view;
/* Returns false if the piece does not intersect the window. */
bool rshi_view_make(const rshi_ckpt_end *e, const rsh_box *window, const rshi_ckpt_block *b,
                    int64_t piece, size_t size, rshi_view *out);

/* Calls fn for each contiguous run of a block, in ascending order of `at`.  `offset` is in the part
 * and `at` in the block, both in elements. */
typedef rsh_status (*rshi_run_fn)(void *ctx, int64_t offset, int64_t at, int64_t count);
rsh_status rshi_block_runs(const rshi_ckpt_end *e, const rsh_box *window, const rshi_ckpt_block *b,
                           rshi_run_fn fn, void *ctx);

/* Adds the window's elements of a view to a digest. */
void rshi_view_digest(const rshi_ckpt_end *e, const rsh_box *window, const rshi_view *v,
                      const char *block, size_t size, rsh_digest *sum);

/* Adds the elements of a view to the digest of the source tensor that they come from. */
void rshi_view_source_digest(const rshi_ckpt_end *e, const rshi_view *v, const char *block,
                             size_t size, rsh_digest *sum);
/* Converts the elements of a block to dtype `to` and multiplies them by their scales. */
void rshi_block_convert(const rshi_ckpt_end *e, const rsh_box *window, const rshi_ckpt_block *b,
                        const char *raw, rsh_dtype to, char *mem);

/* ---- copying one window ---- */

#define RSHI_LEAST_MEM (UINT64_C(1) << 20) /* bytes; with less, windows would be single elements */

typedef enum rshi_window_mode {
    RSHI_WINDOW_WRITE,   /* write the destination */
    RSHI_WINDOW_CHECK,   /* read the destination back and hash it, without reading the source */
    RSHI_WINDOW_COMPARE, /* read the destination and compare it with what would be written */
    RSHI_WINDOW_DIGEST,  /* read only the source */
    RSHI_WINDOW_COPY     /* write without digest and hash, inside the kernel if possible */
} rshi_window_mode;

/* Functions that write and read the destination files. */
typedef struct rshi_files {
    rsh_status (*write)(void *ctx, int32_t file, uint64_t at, const void *bytes, size_t n);
    rsh_status (*read)(void *ctx, int32_t file, uint64_t at, void *to, size_t n);
    /* Copies from a source file inside the kernel; *done is false if the kernel cannot. */
    rsh_status (*copy)(void *ctx, const rsh_ckpt *source, int32_t from, uint64_t from_at,
                       int32_t file, uint64_t at, size_t n, bool *done);
    void *ctx;
} rshi_files;

/* The first difference that a comparison found. */
typedef struct rshi_differing {
    bool found;
    int64_t index[RSH_MAX_NDIM]; /* global */
    int64_t rank;                /* the rank whose part differs */
} rshi_differing;

/* The state and buffers of one worker thread. */
typedef struct rshi_mover {
    const rsh_ckpt *source;
    const rshi_files *files;
    rshi_window_mode mode;
    bool digest;
    rsh_dtype to;
    bool converts; /* some elements must be converted; false: bytes are copied unchanged */
    rshi_ckpt_end src, dst;
    rshi_blocks in, out;
    char *raw, *mem, *put, *seen; /* buffers: read; converted; to be written; read to compare */
    size_t raw_room, mem_room, put_room, seen_room;
    size_t budget; /* bytes of scratch */
    rshi_runs run[RSH_MAX_NDIM];
    rsh_digest sum; /* of the window, as it is written */
    rsh_digest
        source_sum; /* of the window's elements of source tensors whose digests are checked */
    uint64_t hash;  /* of the bytes that were written or read back */
    uint64_t bytes_read, bytes_written;
    rshi_differing differing;
} rshi_mover;
void rshi_mover_free(rshi_mover *m);
/* Copies one window; adds to m->sum, m->source_sum and m->hash.  The caller has filled m->src,
 * m->dst and m->to. */
rsh_status rshi_mover_window(rshi_mover *m, const rsh_box *window);

/* ---- a job: all windows of many tensors, by several threads ---- */

/* The result of one window, as the journal stores it. */
typedef struct rshi_moved {
    int64_t window;
    rsh_digest sum, source_sum;
    uint64_t hash;
} rshi_moved;

typedef struct rshi_job {
    /* set by the caller */
    const rsh_ckpt *source;
    const rshi_files *files; /* of the destination; NULL for RSHI_WINDOW_DIGEST */
    rshi_window_mode mode;
    bool digest;
    int64_t ntensors;
    /* Describes both sides of tensor i.  For RSHI_WINDOW_DIGEST only the dtype of `to` is set. */
    void (*describe)(void *ctx, int64_t tensor, rshi_file_tensor *from, rshi_file_tensor *to);
    void *ctx;
    uint64_t mem;     /* bytes of buffers of all threads */
    int threads;      /* 0: one per core, up to 8 */
    const bool *skip; /* windows to skip; NULL: none */
    /* Called with the lock held after windows are complete; may be NULL. */
    rsh_status (*done)(void *ctx, const rshi_moved *list, int64_t n);
    rsh_progress_fn progress; /* may be NULL */
    void *progress_ctx;
    /* results */
    int64_t nwindows;
    int64_t *first;  /* first window of each tensor, and at the end nwindows; owned */
    rsh_digest *sum; /* of the elements of each tensor, without dtype and shape; owned */
    rsh_digest *source_sum; /* of the elements of its source tensors, if these are checked; owned */
    uint64_t bytes;  /* source bytes of all windows */
    uint64_t bytes_read, bytes_written;
    int64_t different; /* RSHI_WINDOW_COMPARE: the first tensor that differs, or -1 */
    rshi_differing differing;
    struct rshi_job_state *state;
} rshi_job;
/* Counts windows.  The caller may set `skip` afterwards. */
rsh_status rshi_job_plan(rshi_job *j);
rsh_status rshi_job_run(rshi_job *j);
void rshi_job_free(rshi_job *j);
int64_t rshi_job_tensor(const rshi_job *j, int64_t window); /* the tensor of a window */

/* ---- digests that the files of a checkpoint state ---- */

/* Do the files state a digest of the tensor, in a known format? */
bool rshi_stated_known(const rsh_ckpt *c, int64_t tensor);
/* Compares the stated digest, if there is one, with the digest of the elements that were read
 * (without dtype and shape).  RSH_EIO with *damaged if they differ. */
rsh_status rshi_stated_compare(const rsh_ckpt *c, int64_t tensor, rsh_digest elements,
                               bool *damaged);
/* Reads these tensors and checks their stated digests.  RSH_EIO, with *damaged if a digest differs;
 * RSH_ENOMEM. */
rsh_status rshi_stated_check(const rsh_ckpt *c, int64_t n, const int64_t *tensors, uint64_t mem,
                             int threads, bool *damaged);

/* Compares the copies that several ranks store of the same elements, unless opts->no_digest is set
 * without opts->verify: rules of --from that call different parts copies would lose all but one.
 * RSH_EVALUE names the first difference; RSH_EIO; RSH_ENOMEM. */
rsh_status rshi_ckpt_check_copies(const rsh_ckpt *ckpt, const rsh_convert_opts *opts);

/* ---- the target: the files of the result and the offset of every part in them ---- */

typedef struct rshi_target_tensor {
    int64_t source; /* index in the source; equal to its own index */
    rsh_dtype dtype;
    rsh_layout *layout; /* owned; NULL: whole */
    int64_t part, nparts;
    int64_t rule; /* index of the rule that matched it; -1: whole */
} rshi_target_tensor;

typedef struct rshi_target_file {
    char *name;   /* owned */
    int64_t rank; /* -1: not a rank file */
    int64_t entry, nentries;
    uint64_t header; /* bytes before the data */
    uint64_t size;   /* of the file */
} rshi_target_file;

/* A part of a tensor in a file. */
typedef struct rshi_target_entry {
    int64_t tensor, part; /* part: index in target->parts */
    uint64_t begin, end;  /* byte offsets in the data */
} rshi_target_entry;

typedef struct rshi_target {
    const rsh_ckpt *source;
    const rsh_ckpt_rules *rules; /* NULL: whole, under the names of the source */
    bool by_rank;           /* rank files; false: whole tensors */
    const struct rshi_gguf *gguf; /* metadata of the source if the result is GGUF; else NULL */
    bool digests;           /* the headers of rank files have room for digests */
    rshi_target_tensor *tensor;
    int64_t ntensors, tensors_room;
    rshi_ckpt_part *parts;
    int64_t nparts, parts_room;
    rshi_target_file *file;
    int64_t nfiles, files_room;
    rshi_target_entry *entry; /* by file, in the order of their bytes */
    int64_t nentries, entries_room;
    int64_t nranks;
    bool index;     /* the result has a model.safetensors.index.json */
    uint64_t bytes; /* of all files */
    uint64_t hash;  /* of all headers without digests; identifies the target */
} rshi_target;

rsh_status rshi_target_make(const rsh_ckpt *source, const rsh_convert_opts *opts, const char *name,
                            rshi_target *out);
void rshi_target_free(rshi_target *t);
/* Does this target name mean one file, and not a directory? */
bool rshi_target_is_file(const char *name);
/* Writes the header of a file, including its length.  If `sums` is NULL, zeros are written in place
 * of digests. */
rsh_status rshi_target_header(const rshi_target *t, int64_t file, const rsh_digest *sums,
                              const rsh_sink *sink);
/* Does the same for a GGUF file: writes everything before the data, including zeros for
 * alignment. */
rsh_status rshi_target_gguf_header(const rshi_target *t, int64_t file, const rsh_sink *sink);
rsh_status rshi_target_index(const rshi_target *t, const rsh_sink *sink);
/* Chooses the layout of each tensor according to the rules; without rules tensors are whole. */
rsh_status rshi_target_lay_out(rshi_target *t);

/* A weight and its layout; NULL: it is whole. */
typedef struct rshi_weight {
    const char *name;
    int ndim;
    const int64_t *shape;
    const rsh_layout *layout;
} rshi_weight;
/* Makes the layout that gives every rank the scales of the blocks of its part of a weight; NULL if
 * the weight is whole.  RSH_EVALUE if shapes do not match or a cut falls inside a block; RSH_EUNSUP
 * if no layout can express it. */
rsh_status rshi_scale_layout(const rshi_weight *w, int nblocks, const int64_t *block,
                             const rshi_ckpt_tensor *scales, rsh_layout **out);

/* ---- the working directory TARGET.reshard-partial ----
 *
 * It holds `data`, which is renamed to the target at the end, and `journal`, which lists the
 * windows that are complete. */

#define RSHI_PARTIAL_SUFFIX ".reshard-partial"

/* Returns TARGET.reshard-partial, with trailing slashes of TARGET removed.  Free with rshi_free. */
rsh_status rshi_partial_home(const char *target, char **out);

typedef struct rshi_ckpt_partial {
    char *target; /* owned, like all paths here; without trailing slashes */
    char *parent; /* directory of the target */
    char *home;   /* TARGET.reshard-partial */
    char *data, *journal_path;
    bool single; /* is the target a file? */
    int journal; /* descriptor, locked; -1: none */
    uint64_t fingerprint;
    const rshi_target *files;
    rshi_fds fds; /* of the target's files */
    bool gap;     /* for a moment the target did not exist */
    bool published;
} rshi_ckpt_partial;

/* Creates and locks the working directory, or with `resume` opens the existing one.  *going is true
 * if it holds data of an earlier run with the same fingerprint.
 * RSH_EVALUE if its name is taken by something else (a link, a file, a directory of another
 * program), if the target exists and `force` is not set, if data of an earlier run is there and
 * `resume` is not set, or if that run had other arguments; RSH_EBUSY if another process uses it;
 * RSH_EIO. */
rsh_status rshi_partial_open(const char *target, const rshi_target *files, uint64_t fingerprint,
                             const rsh_convert_opts *opts, rshi_ckpt_partial *out, bool *going);
void rshi_partial_close(rshi_ckpt_partial *p);       /* removes nothing */
rsh_status rshi_partial_files(rshi_ckpt_partial *p); /* creates all files with their final sizes */
extern const rshi_files rshi_partial_io;             /* its ctx must be an rshi_ckpt_partial */
/* Writes the headers and copies the other files. */
rsh_status rshi_partial_finish(rshi_ckpt_partial *p, const rsh_digest *sums);
rsh_status rshi_partial_flush(rshi_ckpt_partial *p);
/* Renames `data` to the target.  An error after the rename (p->published) says "is complete". */
rsh_status rshi_partial_publish(rshi_ckpt_partial *p, bool force);
/* Restores an old target that was moved aside and not replaced.  RSH_EIO. */
rsh_status rshi_partial_put_back(rshi_ckpt_partial *p);
/* Restores the old target as above, then removes the working directory.  RSH_EIO. */
rsh_status rshi_partial_discard(rshi_ckpt_partial *p);
/* After an error: removes the working directory, or keeps it for --resume.  Appends to the error
 * message what is left. */
void rshi_partial_abandon(rshi_ckpt_partial *p);
void rshi_partial_keep(const rshi_ckpt_partial *p);
/* Removes a file, or a directory and its contents; links are not followed. */
rsh_status rshi_remove(const char *path);
/* Creates the directories in `root` that the relative name needs; those that exist are kept.  A
 * link in place of one is RSH_EIO. */
rsh_status rshi_make_parents(const char *root, const char *name);
rsh_status rshi_flush_directory(const char *path); /* its entries */
rsh_status rshi_flush_tree(const char *path); /* those of the directory and of all subdirectories */

/* Names of files and directories of a result, which other files of the source must not have.
 * Starts as all zero. */
typedef struct rshi_taken_names {
    rshi_name_table files, folders;
    rshi_ckpt_store store; /* names of folders */
} rshi_taken_names;
rsh_status rshi_taken_names_list(const rshi_target *t, rshi_taken_names *out); /* RSH_ENOMEM */
bool rshi_taken_names_has(const rshi_taken_names *t, const char *name);
void rshi_taken_names_free(rshi_taken_names *t);
/* Removes everything in the directory that is not a file of the result: copies of other files that
 * an interrupted run made, perhaps incomplete or of files that no longer exist.  RSH_EIO. */
rsh_status rshi_prune(const rshi_target *t, const char *path);
/* Counts other files that will be copied, and names those that will not.  RSH_ENOMEM. */
rsh_status rshi_beside_report(const rsh_ckpt *c, const rshi_target *t, rsh_convert_report *r);

/* Rejects a target whose creation would overwrite or remove a file of the source: RSH_EVALUE if one
 * of them is in the target or its working directory.  RSH_EIO. */
rsh_status rshi_check_apart(const rsh_ckpt *source, const char *target);

/* ---- the journal ---- */

rsh_status rshi_journal_start(rshi_ckpt_partial *p);
/* Is the file a journal of any job, complete or truncated? */
rsh_status rshi_journal_is_one(int fd, const char *path, bool *is);
/* Does it belong to this job?  *empty: its header is incomplete. */
rsh_status rshi_journal_same(rshi_ckpt_partial *p, bool *same, bool *empty);
rsh_status rshi_journal_add(rshi_ckpt_partial *p, const rshi_moved *list, int64_t n);
/* Calls fn for every intact record, in order. */
rsh_status rshi_journal_read(rshi_ckpt_partial *p, void (*fn)(void *ctx, const rshi_moved *m),
                             void *ctx);
/* Records that the file or directory with this inode is about to be renamed to the target. */
rsh_status rshi_journal_publishing(rshi_ckpt_partial *p, uint64_t inode);
uint64_t rshi_journal_inode(rshi_ckpt_partial *p); /* the inode recorded above; 0: none */

#endif
