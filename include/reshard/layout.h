/* Layout: which rank holds which part of a global tensor.
 *
 * One line of text says it all: "f32[4096/tp, 11008] on dp=2,tp=4" (docs/notation.md is the grammar
 * and its meaning). A layout is immutable once made: share it between threads, hash it, compare it.
 * Everything here is pure. */
#ifndef RESHARD_LAYOUT_H
#define RESHARD_LAYOUT_H

#include <stdbool.h>

#include <reshard/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_layout rsh_layout;

/* From text.  RSH_EVALUE (RSH_ETYPE for an op that the dtype does not have) names line, column and
 * what was expected. */
RSH_API rsh_status rsh_layout_parse(const char *text, rsh_layout **out);

/* From code: the same things as values.  A zeroed rsh_layout_desc is "bool[]". */
typedef enum rsh_rule {
    RSH_RULE_CHUNK,    /* /x     parts of ceil(n/p) */
    RSH_RULE_BALANCED, /* /x~    sizes differ by at most one, larger first */
    RSH_RULE_CYCLIC,   /* /x:b   blocks of b dealt round robin */
    RSH_RULE_UNIT,     /* /x%u   cuts only at multiples of u */
    RSH_RULE_SIZES     /* /x{..} explicit sizes */
} rsh_rule;

typedef struct rsh_cut {
    int naxes;               /* 0: not cut */
    int axes[RSH_MAX_AXES];  /* indices into rsh_layout_desc.axis, outermost first */
    rsh_rule rule;
    int64_t number;          /* of RSH_RULE_CYCLIC and RSH_RULE_UNIT */
    const int64_t *sizes;    /* of RSH_RULE_SIZES, borrowed during the call */
    int64_t nsizes;
} rsh_cut;

typedef struct rsh_segment {
    int64_t size;
    rsh_cut cut;
} rsh_segment;

typedef struct rsh_dim {
    int64_t size;               /* used when nsegments is 0 */
    rsh_cut cut;                /* of the dim, or of every segment */
    int nsegments;              /* 0: a plain dim */
    const rsh_segment *segment; /* borrowed during the call */
} rsh_dim;

typedef struct rsh_axis {
    char name[32];
    int64_t size;
} rsh_axis;

typedef struct rsh_box {
    int64_t lo[RSH_MAX_NDIM], hi[RSH_MAX_NDIM]; /* half-open */
} rsh_box;

typedef struct rsh_ranked_box {
    int64_t nranks;
    const int64_t *ranks; /* borrowed during the call */
    rsh_box box;
} rsh_ranked_box;

typedef struct rsh_layout_desc {
    rsh_dtype dtype;
    int ndim;
    rsh_dim dim[RSH_MAX_NDIM];
    rsh_cut flat;
    int naxes;
    rsh_axis axis[RSH_MAX_AXES];
    const int64_t *ranks; /* in position order, NULL: 0, 1, 2, ...; borrowed during the call */
    rsh_op op;            /* RSH_OP_NONE: not partial */
    int npartial;
    int partial[RSH_MAX_AXES];
    bool has_order;
    int order[RSH_MAX_NDIM];
    bool is_boxes; /* then only dtype, ndim and dim[].size count beside the boxes */
    int64_t nboxes;
    const rsh_ranked_box *boxes; /* borrowed during the call */
} rsh_layout_desc;

RSH_API rsh_status rsh_layout_new(const rsh_layout_desc *desc, rsh_layout **out);

/* The whole tensor, dense and row-major, on one rank. */
RSH_API rsh_status rsh_layout_whole(rsh_dtype dtype, int ndim, const int64_t *shape, int64_t rank,
                                    rsh_layout **out);

RSH_API rsh_status rsh_layout_copy(const rsh_layout *l, rsh_layout **out);
RSH_API void rsh_layout_free(rsh_layout *l);

/* Canonical text; parses back to an equal layout.  Borrowed. */
RSH_API const char *rsh_layout_text(const rsh_layout *l);
RSH_API bool rsh_layout_equal(const rsh_layout *a,
                              const rsh_layout *b); /* the same canonical text */
RSH_API uint64_t rsh_layout_hash(const rsh_layout *l);
/* Does every rank hold the same elements in the same order?  `6/x~` and `6/x` on x=3 do. */
RSH_API bool rsh_layout_same_parts(const rsh_layout *a, const rsh_layout *b);

RSH_API rsh_dtype rsh_layout_dtype(const rsh_layout *l); /* RSH_DTYPE_COUNT for NULL */
RSH_API int rsh_layout_ndim(const rsh_layout *l);        /* -1 for NULL */
RSH_API const int64_t *rsh_layout_shape(const rsh_layout *l);
RSH_API int64_t rsh_layout_count(const rsh_layout *l); /* elements of the global tensor */
RSH_API rsh_op rsh_layout_op(const rsh_layout *l);     /* RSH_OP_NONE: not partial */

/* The ranks that appear in the layout, ascending; rsh_layout_rank(l, i) is the i-th, or -1. */
RSH_API int64_t rsh_layout_nranks(const rsh_layout *l);
RSH_API int64_t rsh_layout_rank(const rsh_layout *l, int64_t i);

/* Parts of one rank: 1 on a mesh, as many as it has boxes, 0 for a rank that is not in the layout.
 */
RSH_API int64_t rsh_layout_nparts(const rsh_layout *l, int64_t rank);

typedef struct rsh_part {
    int ndim;                      /* 1 for a flat layout */
    int64_t shape[RSH_MAX_NDIM];   /* local */
    int64_t strides[RSH_MAX_NDIM]; /* in elements, of the dense part in its `order` */
    int64_t count;                 /* elements */
} rsh_part;
/* RSH_EINDEX if the rank has no such part. */
RSH_API rsh_status rsh_layout_part(const rsh_layout *l, int64_t rank, int64_t part, rsh_part *out);

/* The boxes of the global tensor that make up a part, in order of their local offset.  `offset` is
 * where the box's first element lies in the dense part, `strides` the element strides of the box
 * there.  A non-zero return of fn stops the walk. */
typedef int (*rsh_box_fn)(void *ctx, const rsh_box *box, int64_t offset, const int64_t *strides);
RSH_API rsh_status rsh_layout_boxes(const rsh_layout *l, int64_t rank, int64_t part, rsh_box_fn fn,
                                    void *ctx);

/* The index set of one dim of a part, as half-open ranges in ascending order (not for flat layouts:
 * RSH_EUNSUP). */
typedef int (*rsh_range_fn)(void *ctx, int64_t lo, int64_t hi);
RSH_API rsh_status rsh_layout_index_set(const rsh_layout *l, int64_t rank, int64_t part, int dim,
                                        rsh_range_fn fn, void *ctx);

/* Offset in the dense part of a global index (RSH_EKEY if the part does not hold it), and back
 * (RSH_EINDEX). */
RSH_API rsh_status rsh_layout_local_offset(const rsh_layout *l, int64_t rank, int64_t part,
                                           const int64_t *index, int64_t *offset);
RSH_API rsh_status rsh_layout_global_index(const rsh_layout *l, int64_t rank, int64_t part,
                                           int64_t offset, int64_t *index);

#ifdef __cplusplus
}
#endif
#endif
