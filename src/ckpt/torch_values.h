/* torch_values: the tensors of files that torch.save wrote, by name, and where they lie in whole
 * tensors. */
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
/* Calls fn for each box that the value has on this rank; rank -1: not known, so that only tensors
 * of one rank can be read.  RSH_EUNSUP for partial placements and what we do not know; RSH_EVALUE;
 * RSH_EIO. */
typedef rsh_status (*rshi_torch_box_fn)(void *ctx, const rshi_torch_box *box);
rsh_status rshi_torch_boxes(const rshi_torch_file *s, const rshi_pickle_value *v, int64_t rank,
                            rshi_torch_box_fn fn, void *ctx);

/* One value that is not a dict or list of others.  Exactly one of the two is called for each. */
typedef struct rshi_torch_visitor {
    rsh_status (*tensor)(void *ctx, const char *name, const rshi_pickle_value *v);
    rsh_status (*other)(void *ctx, const char *name, const char *what);
    void *ctx;
} rshi_torch_visitor;
/* All values of the file; keys of nested dicts and indices of lists are joined by dots.  `stem` is
 * the name of a value that is not in a dict.  RSH_EVALUE for values that refer to one another too
 * often or too deep. */
rsh_status rshi_torch_walk(const rshi_torch_file *s, const char *stem,
                           const rshi_torch_visitor *to);

/* ---- adding what was found to a checkpoint ---- */

typedef struct rshi_torch_gathering {
    rsh_ckpt *c;
    struct rshi_torch_plain *plain; /* owned: tensors that say nothing about ranks */
    int64_t nplain, room;
    rshi_name_table others; /* names that are listed already */
    rshi_ckpt_store store;
    /* the file at hand */
    const rshi_torch_file *saved;
    int32_t file;
    int64_t rank;
    const char *prefix; /* of names: "model." or "" */
} rshi_torch_gathering;

/* Reads a file; `rank` as for rshi_torch_boxes. */
rsh_status rshi_torch_gather(rshi_torch_gathering *g, const char *directory, const char *name,
                             int64_t rank, const char *prefix, int32_t *file);
/* After the last file: adds the plain tensors.  Those that several ranks saved must have equal
 * elements; others are listed and left out. */
rsh_status rshi_torch_finish(rshi_torch_gathering *g);
void rshi_torch_gathering_free(rshi_torch_gathering *g);

/* A file of torch.save with its tensors, which are whole. */
rsh_status rshi_ckpt_add_torch(rsh_ckpt *c, const char *directory, const char *name, int32_t *file);
bool rshi_ckpt_is_torch(const char *directory, const char *name); /* by its first bytes */

#endif
