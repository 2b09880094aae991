/* impl: how tensors move between files: ends, windows, blocks, the job, its target, journal and
 * publication. */
#ifndef RESHARD_CKPT_IMPL_H
#define RESHARD_CKPT_IMPL_H

#include <pthread.h>
#include <reshard/shard.h>

#include "ckpt/ckpt.h"
#include "ckpt/fds.h"
#include "copy/copy.h"

/* ---- ends: one tensor as it lies in files ----
 *
 * Elements are counted as they are moved: those of less than a byte as bytes along the last dim.
 * A group is one part, with the files that hold a copy of it; a piece is a product of stripes that
 * lies regularly in a part. */

typedef struct rshi_placed {
    rshi_stripe set[RSH_MAX_NDIM]; /* global indices along each dim */
    int64_t base;                  /* of local index 0,..,0 in the part; elements */
    int64_t stride[RSH_MAX_NDIM];  /* of local indices in the part; elements, positive */
    int64_t group;
    /* of views: the row-major index in the source tensor, for its digest */
    bool checked;
    int64_t from, from_stride[RSH_MAX_NDIM];
    /* of views: elements are multiplied by scales; along dim d the dim of the scaled tensor is
     * scale_of[d] (-1: none), and its index there is scale_first[scale_of[d]] + local index */
    int32_t scale; /* -1: none */
    int8_t scale_of[RSH_MAX_NDIM];
    int64_t scale_first[RSH_MAX_NDIM];
} rshi_placed;

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
    rsh_dtype from; /* of its elements, as they are moved */
} rshi_ckpt_group;

typedef struct rshi_ckpt_end {
    int ndim;
    int64_t shape[RSH_MAX_NDIM];
    size_t size;        /* bytes of an element; of the largest, if groups have several */
    rshi_placed *piece; /* by group */
    int64_t npieces, pieces_room;
    rshi_ckpt_group *group;
    int64_t ngroups, groups_room;
    rshi_ckpt_part *copy; /* by group; where the part starts in each file */
    int64_t ncopies, copies_room;
    rshi_scales *scale; /* of views */
    int64_t nscales, scales_room;
} rshi_ckpt_end;

/* How a tensor lies: layout NULL is whole.  With `distinct` every element is listed once, at its
 * first holder; otherwise every stored copy is. */
typedef struct rshi_file_tensor {
    const char *name; /* for messages */
    rsh_dtype dtype;
    int ndim;
    const int64_t *shape;
    const rsh_layout *layout;
    const rshi_ckpt_part *parts;
    const struct rshi_ckpt_view *view; /* of a source: what it is made of; NULL: stored */
} rshi_file_tensor;
/* The shape with elements counted as they are moved. */
void rshi_file_tensor_shape(const rshi_file_tensor *lie, int64_t *shape);
/* Fills an end that was used before, or is all zero.  RSH_EUNSUP for elements of less than a byte
 * that are cut inside bytes. */
rsh_status rshi_end_make(const rshi_file_tensor *lie, bool distinct, rshi_ckpt_end *out);
void rshi_end_free(rshi_ckpt_end *e);
bool rshi_end_converts(const rshi_ckpt_end *e, rsh_dtype to); /* do elements change on the way? */
rsh_dtype rshi_moved_as(rsh_dtype dtype); /* elements that are only stored move as bytes */

/* The rank that comes first of those that hold the same part; -1: `rank` itself, or it shares only
 * some of its pieces. */
rsh_status rshi_part_copy_of(const rsh_layout *l, int64_t rank, int64_t *of);

/* ---- windows: boxes of a tensor that are moved at once ---- */

#define RSHI_WINDOW_BYTES                                                                          \
    ((int64_t)4 << 20) /* of elements: enough for fast calls, little enough for caches */
#define RSHI_TILE_BYTES                                                                            \
    ((int64_t)64 << 20) /* where a transpose makes short runs of small windows */

typedef struct rshi_grid {
    int ndim;
    int64_t shape[RSH_MAX_NDIM], extent[RSH_MAX_NDIM]; /* of the tensor; of a window */
    int64_t n;                                         /* windows; 0 for an empty tensor */
} rshi_grid;
/* The windows of a tensor whose elements have at most `size` bytes on either side. */
void rshi_grid_make(const rshi_file_tensor *lie, size_t size, bool tiles, rshi_grid *out);
void rshi_grid_box(const rshi_grid *g, int64_t window, rsh_box *out);

/* A block: what a window has of a part, dense in memory.  If the part's elements follow each other,
 * all pieces of the group are in one block; else each piece is a block of its own. */
typedef struct rshi_ckpt_block {
    int64_t group, piece, npieces;
    int64_t lo;    /* offset in the part of its first element; elements */
    int64_t count; /* elements */
    bool dense;    /* one run in the file */
    size_t at;     /* where it begins in the memory of the window; bytes */
} rshi_ckpt_block;

typedef struct rshi_blocks {
    rshi_ckpt_block *block;
    int64_t n, room;
    int64_t count;   /* elements of all blocks */
    int64_t largest; /* elements of the largest */
} rshi_blocks;
rsh_status rshi_blocks_list(const rshi_ckpt_end *e, const rsh_box *window, rshi_blocks *out);

/* A piece in the memory of its block: local index i lies at  bias + sum i_d * stride[d]  bytes. */
typedef struct rshi_view {
    const rshi_placed *piece;
    int64_t bias, stride[RSH_MAX_NDIM];           /* bytes, from the block's first */
    int64_t first[RSH_MAX_NDIM], n[RSH_MAX_NDIM]; /* local indices inside the window */
} rshi_view;
/* False: nothing of it is in the window. */
bool rshi_view_make(const rshi_ckpt_end *e, const rsh_box *window, const rshi_ckpt_block *b,
                    int64_t piece, size_t size, rshi_view *out);

/* The runs of a block in its part, ascending in memory: `offset` in the part and `at` in the block,
 * both in elements. */
typedef rsh_status (*rshi_run_fn)(void *ctx, int64_t offset, int64_t at, int64_t count);
rsh_status rshi_block_runs(const rshi_ckpt_end *e, const rsh_box *window, const rshi_ckpt_block *b,
                           rshi_run_fn fn, void *ctx);

/* What the window's elements of a view add to a digest. */
void rshi_view_digest(const rshi_ckpt_end *e, const rsh_box *window, const rshi_view *v,
                      const char *block, size_t size, rsh_digest *sum);

/* What the elements of a view add to the digest of the source that they come from. */
void rshi_view_source_digest(const rshi_ckpt_end *e, const rshi_view *v, const char *block,
                             size_t size, rsh_digest *sum);
/* Elements of a block as the target has them: converted to `to`, and times their scales. */
void rshi_block_convert(const rshi_ckpt_end *e, const rsh_box *window, const rshi_ckpt_block *b,
                        const char *raw, rsh_dtype to, char *mem);

/* ---- moving one window ---- */

#define RSHI_LEAST_MEM (UINT64_C(1) << 20) /* bytes; with less, windows would be single elements */

typedef enum rshi_window_mode {
    RSHI_WINDOW_WRITE,   /* write the destination */
    RSHI_WINDOW_CHECK,   /* read the destination back and hash it; the source is not read */
    RSHI_WINDOW_COMPARE, /* read the destination and compare it with what would be written */
    RSHI_WINDOW_DIGEST,  /* read the source alone */
    RSHI_WINDOW_COPY     /* write, by the system where it can, without digest and hash */
} rshi_window_mode;

/* Where destination bytes go or come from. */
typedef struct rshi_files {
    rsh_status (*write)(void *ctx, int32_t file, uint64_t at, const void *bytes, size_t n);
    rsh_status (*read)(void *ctx, int32_t file, uint64_t at, void *to, size_t n);
    /* By the system, from a file of the source; *done is false if it cannot. */
    rsh_status (*copy)(void *ctx, const rsh_ckpt *source, int32_t from, uint64_t from_at,
                       int32_t file, uint64_t at, size_t n, bool *done);
    void *ctx;
} rshi_files;

/* The first difference that a comparison found. */
typedef struct rshi_differing {
    bool found;
    int64_t index[RSH_MAX_NDIM]; /* global */
    int64_t rank;                /* whose part differs */
} rshi_differing;

/* One worker's tools for one tensor after the other. */
typedef struct rshi_mover {
    const rsh_ckpt *source;
    const rshi_files *files;
    rshi_window_mode deed;
    bool digest;
    rsh_dtype to;
    bool converts; /* some elements change on the way; if not, bytes move as they are */
    rshi_ckpt_end src, dst;
    rshi_blocks in, out;
    char *raw, *mem, *put, *seen; /* scratch: read; converted; to be written; read to compare */
    size_t raw_room, mem_room, put_room, seen_room;
    size_t budget; /* bytes of scratch */
    rshi_runs run[RSH_MAX_NDIM];
    rsh_digest sum; /* of the window, as it is written */
    rsh_digest source_sum; /* of what it has of checked sources of a view */
    uint64_t hash;  /* of what was written, or is there */
    uint64_t bytes_read, bytes_written;
    rshi_differing differing;
} rshi_mover;
void rshi_mover_free(rshi_mover *m);
/* Ends are made and m->to is set.  Adds to sums and hash. */
rsh_status rshi_mover_window(rshi_mover *m, const rsh_box *window);

/* ---- a job: all windows of many tensors, by several threads ---- */

/* What happened to one window; the journal keeps it. */
typedef struct rshi_moved {
    int64_t window;
    rsh_digest sum, source_sum;
    uint64_t hash;
} rshi_moved;

typedef struct rshi_job {
    /* set by the caller */
    const rsh_ckpt *source;
    const rshi_files *files; /* of the destination; NULL for RSHI_WINDOW_DIGEST */
    rshi_window_mode deed;
    bool digest;
    int64_t ntensors;
    /* How tensor i lies on both sides; `to` is only set to its dtype for RSHI_WINDOW_DIGEST. */
    void (*lies)(void *ctx, int64_t tensor, rshi_file_tensor *from, rshi_file_tensor *to);
    void *ctx;
    uint64_t mem;     /* bytes of scratch for all threads */
    int threads;      /* 0: by the machine */
    const bool *skip; /* windows that need no work; NULL: none */
    /* Called with the lock held after windows are done; may be NULL. */
    rsh_status (*done)(void *ctx, const rshi_moved *list, int64_t n);
    rsh_progress_fn progress; /* may be NULL */
    void *progress_ctx;
    /* results */
    int64_t nwindows;
    int64_t *first;  /* of each tensor its first window, and behind them nwindows; owned */
    rsh_digest *sum; /* of each tensor, without what dtype and shape add; owned */
    rsh_digest *source_sum; /* of what it is made of, for checked sources of views; owned */
    uint64_t bytes;  /* of the source, in all windows */
    uint64_t bytes_read, bytes_written;
    int64_t different; /* RSHI_WINDOW_COMPARE: the first tensor that differs, or -1 */
    rshi_differing differing;
    struct rshi_job_state *state;
} rshi_job;
/* Counts windows; after it `skip` may be set. */
rsh_status rshi_job_plan(rshi_job *j);
rsh_status rshi_job_run(rshi_job *j);
void rshi_job_free(rshi_job *j);
int64_t rshi_job_tensor(const rshi_job *j, int64_t window); /* whose window it is */

/* ---- digests that the files of a checkpoint state ---- */

/* Does it state one, by a formula that we know? */
bool rshi_stated_known(const rsh_ckpt *c, int64_t tensor);
/* Compares it, if there is one, with that of the elements that were read (without what dtype and
 * shape add).  RSH_EIO with *damaged if they differ. */
rsh_status rshi_stated_compare(const rsh_ckpt *c, int64_t tensor, rsh_digest elements,
                               bool *damaged);
/* Reads these tensors for their digests alone.  RSH_EIO, with *damaged if elements are not as
 * stated; RSH_ENOMEM. */
rsh_status rshi_stated_check(const rsh_ckpt *c, int64_t n, const int64_t *tensors, uint64_t mem,
                             int threads, bool *damaged);

/* ---- the target: which files there will be, and what lies where in them ---- */

typedef struct rshi_target_tensor {
    int64_t source; /* its number in the source, which is the same */
    rsh_dtype dtype;
    rsh_layout *layout; /* owned; NULL: whole */
    int64_t part, nparts;
    int64_t rule; /* number of the rule that caught it; -1: whole */
} rshi_target_tensor;

typedef struct rshi_target_file {
    char *name;   /* owned */
    int64_t rank; /* -1: not cut by rank */
    int64_t entry, nentries;
    uint64_t header; /* bytes before the data */
    uint64_t size;   /* of the file */
} rshi_target_file;

/* A part of a tensor in a file. */
typedef struct rshi_target_entry {
    int64_t tensor, part; /* part: number in target->parts */
    uint64_t begin, end;  /* bytes of the data */
} rshi_target_entry;

typedef struct rshi_target {
    const rsh_ckpt *source;
    const rsh_ckpt_rules *rules; /* NULL: whole, under the names of the source */
    bool by_rank;           /* rank files; false: whole tensors */
    const struct rshi_gguf *gguf; /* of the source, if the result is GGUF; NULL: safetensors */
    bool digests;           /* room for digests in the headers of rank files */
    rshi_target_tensor *tensor;
    int64_t ntensors, tensors_room;
    rshi_ckpt_part *parts;
    int64_t nparts, parts_room;
    rshi_target_file *file;
    int64_t nfiles, files_room;
    rshi_target_entry *entry; /* by file, in the order of their bytes */
    int64_t nentries, entries_room;
    int64_t nranks;
    bool index;     /* is there a model.safetensors.index.json? */
    uint64_t bytes; /* of all files */
    uint64_t hash;  /* of all headers without digests: equal targets have equal hashes */
} rshi_target;

rsh_status rshi_target_make(const rsh_ckpt *source, const rsh_convert_opts *opts, const char *name,
                            rshi_target *out);
void rshi_target_free(rshi_target *t);
/* Does a target of this name hold one file, and not a directory? */
bool rshi_target_is_file(const char *name);
/* The whole header of a file, its length included; sums NULL: zeros where digests will be. */
rsh_status rshi_target_header(const rshi_target *t, int64_t file, const rsh_digest *sums,
                              const rsh_sink *sink);
/* The same for a GGUF file: up to the data, zeros for alignment included. */
rsh_status rshi_target_gguf_header(const rshi_target *t, int64_t file, const rsh_sink *sink);
rsh_status rshi_target_index(const rshi_target *t, const rsh_sink *sink);
/* Chooses a layout for each tensor: by the rules, or none. */
rsh_status rshi_target_lay_out(rshi_target *t);

/* A weight and how it is cut; layout NULL: it is whole. */
typedef struct rshi_weight {
    const char *name;
    int ndim;
    const int64_t *shape;
    const rsh_layout *layout;
} rshi_weight;
/* The layout that gives every rank the scales of the blocks of its part of a weight; NULL if the
 * weight is whole.  RSH_EVALUE if shapes do not fit, or a cut falls inside a block; RSH_EUNSUP if
 * no layout does it. */
rsh_status rshi_scale_layout(const rshi_weight *w, int nblocks, const int64_t *block,
                             const rshi_ckpt_tensor *scales, rsh_layout **out);

/* ---- the place of work: TARGET.reshard-partial, which becomes the target ----
 *
 * It holds `data`, which is renamed to the target, and `journal`, which says what of it is done. */

#define RSHI_PARTIAL_SUFFIX ".reshard-partial"

/* TARGET.reshard-partial, without slashes before the suffix; new (rshi_free). */
rsh_status rshi_partial_home(const char *target, char **out);

typedef struct rshi_ckpt_partial {
    char *target; /* owned, like all paths here; without slashes at its end */
    char *parent; /* directory of the target */
    char *home;   /* TARGET.reshard-partial */
    char *data, *journal_path;
    bool single; /* is the target a file? */
    int journal; /* descriptor, locked; -1: none */
    uint64_t fingerprint;
    const rshi_target *files;
    rshi_fds fds; /* of the target's files */
    bool gap;     /* the target was gone for a moment */
    bool published;
} rshi_ckpt_partial;

/* Takes the place of work: a new one, or with `resume` the one that is there.  *going is true if
 * there is work of an earlier run, of the same fingerprint, in it.
 * RSH_EVALUE if something else has its name (a link, a file, a directory that no run made), if
 * there is a target and `force` is not set, if work is left there and `resume` is not set, or if it
 * was another job's; RSH_EBUSY if another process is at it; RSH_EIO. */
rsh_status rshi_partial_open(const char *target, const rshi_target *files, uint64_t fingerprint,
                             const rsh_convert_opts *opts, rshi_ckpt_partial *out, bool *going);
void rshi_partial_close(rshi_ckpt_partial *p);       /* leaves everything where it is */
rsh_status rshi_partial_files(rshi_ckpt_partial *p); /* all there, of their final sizes */
extern const rshi_files rshi_partial_io;             /* ctx is to be an rshi_ckpt_partial */
rsh_status rshi_partial_finish(rshi_ckpt_partial *p,
                               const rsh_digest *sums); /* headers, other files */
rsh_status rshi_partial_flush(rshi_ckpt_partial *p);
/* RSH_EIO says "is complete" if it failed after the target had its name (p->published). */
rsh_status rshi_partial_publish(rshi_ckpt_partial *p, bool force);
/* Gives an old target that was moved aside, and not replaced, its name again; and removes the place
 * of work after that, unless it could not.  RSH_EIO. */
rsh_status rshi_partial_put_back(rshi_ckpt_partial *p);
rsh_status rshi_partial_discard(rshi_ckpt_partial *p);
/* After an error: discards the place of work, or leaves it for --resume.  The error's sentence says
 * what is left. */
void rshi_partial_abandon(rshi_ckpt_partial *p);
void rshi_partial_keep(const rshi_ckpt_partial *p);
/* Removes a file, or a directory with all that is in it; links are not followed. */
rsh_status rshi_remove(const char *path);

/* Refuses a target if publishing it would overwrite or remove a file of the source: RSH_EVALUE if
 * one of them lies in the target or its working directory.  RSH_EIO. */
rsh_status rshi_check_apart(const rsh_ckpt *source, const char *target);

/* ---- the journal ---- */

rsh_status rshi_journal_start(rshi_ckpt_partial *p);
/* Is the file a journal of any job, complete or torn? */
rsh_status rshi_journal_is_one(int fd, const char *path, bool *is);
/* Is it this job's?  RSH_OK with *same; false also for one that was never finished writing. */
rsh_status rshi_journal_same(rshi_ckpt_partial *p, bool *same, bool *empty);
rsh_status rshi_journal_add(rshi_ckpt_partial *p, const rshi_moved *list, int64_t n);
/* Every record that is whole; fn is called in their order. */
rsh_status rshi_journal_read(rshi_ckpt_partial *p, void (*fn)(void *ctx, const rshi_moved *m),
                             void *ctx);
/* The file or directory with this inode will be the target. */
rsh_status rshi_journal_publishing(rshi_ckpt_partial *p, uint64_t inode);
uint64_t rshi_journal_inode(rshi_ckpt_partial *p); /* 0: no such record */

#endif
