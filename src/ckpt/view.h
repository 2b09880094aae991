/* View: a tensor that is built from others.
 *
 * A view is a tree of operations, whose leaves are tensors of a checkpoint.  The tree is allocated
 * in a store and freed with it. */
#ifndef RESHARD_CKPT_VIEW_H
#define RESHARD_CKPT_VIEW_H

#include "ckpt/ckpt.h"

typedef enum rshi_view_op {
    RSHI_VIEW_SOURCE,     /* a tensor of the checkpoint */
    RSHI_VIEW_CAT,        /* parts joined along dim */
    RSHI_VIEW_STACK,      /* parts along a new dim */
    RSHI_VIEW_INTERLEAVE, /* `groups` blocks of each part, alternating along dim */
    RSHI_VIEW_PERMUTE,    /* dim d of the view is dim order[d] of the part */
    RSHI_VIEW_RANGE,      /* indices [lo, lo + size) of dim */
    RSHI_VIEW_BLOCKS,     /* indices [lo, lo + size) of every `period` indices of dim */
    RSHI_VIEW_SELECT,     /* index lo of dim; the dim is removed */
    RSHI_VIEW_RESHAPE,    /* the same elements in row-major order */
    RSHI_VIEW_DEQUANTISE  /* part[0] times part[1], which has a scale for each block; f32 */
} rshi_view_op;

typedef struct rshi_ckpt_view rshi_ckpt_view;
struct rshi_ckpt_view {
    rshi_view_op op;
    rsh_dtype dtype;
    int ndim;
    int64_t shape[RSH_MAX_NDIM];
    int64_t source; /* of SOURCE: index of the tensor */
    bool checked;   /* of SOURCE: its stated digest is checked */
    int dim;
    int64_t groups, lo, size, period;
    int order[RSH_MAX_NDIM];
    int64_t block[RSH_MAX_NDIM];
    int64_t nparts;
    const rshi_ckpt_view **part;
    const rshi_ckpt_view *cat[RSH_MAX_NDIM]; /* the CAT that made a dim; NULL: none */
};

/* Each of these makes a view in the store.  RSH_EVALUE if shapes or dtypes do not match; RSH_EUNSUP
 * for elements smaller than a byte; RSH_ENOMEM.  A dim of -1 is the last. */
rsh_status rshi_view_source(rshi_ckpt_store *s, const rsh_ckpt *c, int64_t tensor,
                            rshi_ckpt_view **out);
/* If nsizes > 0, sizes[i] is the size that part i must have along dim. */
rsh_status rshi_view_cat(rshi_ckpt_store *s, int64_t dim, int64_t n, rshi_ckpt_view *const *parts,
                         int64_t nsizes, const int64_t *sizes, rshi_ckpt_view **out);
rsh_status rshi_view_stack(rshi_ckpt_store *s, int64_t dim, int64_t n, rshi_ckpt_view *const *parts,
                           rshi_ckpt_view **out);
/* If nsizes > 0, sizes[i] is the size that a block of part i must have. */
rsh_status rshi_view_interleave(rshi_ckpt_store *s, int64_t dim, int64_t groups, int64_t n,
                                rshi_ckpt_view *const *parts, int64_t nsizes, const int64_t *sizes,
                                rshi_ckpt_view **out);
rsh_status rshi_view_permute(rshi_ckpt_store *s, const rshi_ckpt_view *x, int64_t n,
                             const int64_t *order, rshi_ckpt_view **out);
rsh_status rshi_view_transpose(rshi_ckpt_store *s, const rshi_ckpt_view *x, rshi_ckpt_view **out);
rsh_status rshi_view_range(rshi_ckpt_store *s, const rshi_ckpt_view *x, int64_t dim, int64_t lo,
                           int64_t hi, rshi_ckpt_view **out);
rsh_status rshi_view_reshape(rshi_ckpt_store *s, const rshi_ckpt_view *x, int64_t n,
                             const int64_t *shape, rshi_ckpt_view **out);
rsh_status rshi_view_dequantise(rshi_ckpt_store *s, const rshi_ckpt_view *x,
                                const rshi_ckpt_view *scale, int64_t n, const int64_t *block,
                                rshi_ckpt_view **out);
/* Makes part i of n.  sizes NULL: equal parts. */
rsh_status rshi_view_split(rshi_ckpt_store *s, const rshi_ckpt_view *x, int64_t dim, int64_t n,
                           const int64_t *sizes, int64_t i, rshi_ckpt_view **out);
rsh_status rshi_view_select(rshi_ckpt_store *s, const rshi_ckpt_view *x, int64_t dim, int64_t i,
                            rshi_ckpt_view **out);
rsh_status rshi_view_deinterleave(rshi_ckpt_store *s, const rshi_ckpt_view *x, int64_t dim,
                                  int64_t groups, int64_t n, const int64_t *sizes, int64_t i,
                                  rshi_ckpt_view **out);

/* Writes dtype and shape, such as "f32[4, 3]". */
void rshi_shape_text(rsh_dtype dtype, int ndim, const int64_t *shape, char *text, size_t room);
#define RSHI_SHAPE_TEXT 260

/* ---- finding the elements of a view in files ---- */

struct rshi_ckpt_end;
/* Fills an end with the pieces of a view of c (of its base, if c is mapped): one group for each
 * part of each source.  Reads scales.  RSH_EUNSUP if there are more pieces than RSHI_MOST_PIECES;
 * RSH_EIO if scales cannot be read. */
rsh_status rshi_view_end(const rsh_ckpt *c, const rshi_ckpt_view *v, const char *name,
                         struct rshi_ckpt_end *out);
#define RSHI_MOST_PIECES 65536
/* Checks that rshi_view_end would succeed, without reading anything. */
rsh_status rshi_view_check(const rsh_ckpt *c, const rshi_ckpt_view *v, const char *name);
/* Does the view permute the dims of a source?  Then its rows are short runs in files. */
bool rshi_view_is_turned(const rshi_ckpt_view *v);

/* Calls fn for each source of the view, in the order of its operands. */
typedef void (*rshi_leaf_fn)(void *ctx, int64_t source);
void rshi_view_leaves(const rshi_ckpt_view *v, rshi_leaf_fn fn, void *ctx);

#endif
