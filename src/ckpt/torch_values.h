/* torch_values: finds the tensors of torch.save files, with their names and the boxes of whole
 * tensors that they represent. */
#ifndef RESHARD_CKPT_TORCH_VALUES_H
#define RESHARD_CKPT_TORCH_VALUES_H

#include "ckpt/archive.h"

/* A box of a whole tensor that a rank saved. */
typedef struct rshi_torch_box {
    int ndim;
    int64_t shape[RSH_MAX_NDIM];  /* of the whole tensor */
    int64_t offset[RSH_MAX_NDIM]; /* of the box */
    rshi_saved_tensor local;      /* its elements */
} rshi_torch_box;

/* Is the value a DTensor or a ShardedTensor? */
bool rshi_torch_is_sharded(const rshi_pickle_value *v);
/* Calls fn for each box that the value has on this rank.  rank -1: unknown; then only tensors on a
 * single rank can be read.  RSH_EUNSUP for partial and unknown placements; RSH_EVALUE; RSH_EIO. */
typedef rsh_status (*rshi_torch_box_fn)(void *ctx, const rshi_torch_box *box);
rsh_status rshi_torch_boxes(const rshi_torch_file *s, const rshi_pickle_value *v, int64_t rank,
                            rshi_torch_box_fn fn, void *ctx);

/* Callbacks for the values of a file; one of them is called for each value that is not a dict or
 * list of others. */
typedef struct rshi_torch_visitor {
    rsh_status (*tensor)(void *ctx, const char *name, const rshi_pickle_value *v);
    rsh_status (*other)(void *ctx, const char *name, const char *what);
    void *ctx;
} rshi_torch_visitor;
/* Visits all values of the file.  Names are the keys of nested dicts and the indices of lists,
 * joined by dots; `stem` is the name of a value that is not in a dict.  RSH_EVALUE if values are
 * nested too deep or refer to each other too often. */
rsh_status rshi_torch_walk(const rshi_torch_file *s, const char *stem,
                           const rshi_torch_visitor *to);

/* ---- adding tensors to a checkpoint ---- */

typedef struct rshi_torch_gathering {
    rsh_ckpt *c;
    struct rshi_torch_plain *plain; /* owned: tensors without placements */
    int64_t nplain, room;
    rshi_name_table others; /* non-tensor entries that are already listed */
    rshi_ckpt_store store;
    /* the current file */
    const rshi_torch_file *saved;
    int32_t file;
    int64_t rank;
    const char *prefix; /* of names: "model." or "" */
} rshi_torch_gathering;

/* Reads a file; `rank` as for rshi_torch_boxes. */
rsh_status rshi_torch_gather(rshi_torch_gathering *g, const char *directory, const char *name,
                             int64_t rank, const char *prefix, int32_t *file);
/* Called after the last file: adds the plain tensors.  A tensor that differs between ranks is
 * listed as a non-tensor entry instead. */
rsh_status rshi_torch_finish(rshi_torch_gathering *g);
void rshi_torch_gathering_free(rshi_torch_gathering *g);

/* Calls fn for each plain tensor of a file of the checkpoint, and lists the non-tensor entries
 * whose names are not yet in `others`.  RSH_EUNSUP for sharded tensors. */
typedef rsh_status (*rshi_torch_plain_fn)(void *ctx, const char *name, const rshi_pickle_value *v,
                                          const rshi_saved_tensor *t);
rsh_status rshi_torch_each_plain(rsh_ckpt *c, int32_t file, rshi_name_table *others,
                                 rshi_torch_plain_fn fn, void *ctx);

/* Adds a torch.save file and its tensors, each of which is whole. */
rsh_status rshi_ckpt_add_torch(rsh_ckpt *c, const char *directory, const char *name, int32_t *file);
bool rshi_ckpt_is_torch(const char *directory, const char *name); /* by its first bytes */

#endif
