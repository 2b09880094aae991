/* Layout: which rank holds which part of a global tensor.
 *
 * One line of text describes a layout: "f32[4096/tp, 11008] on dp=2,tp=4".  docs/notation.md has
 * the grammar and its meaning.  A layout is immutable: share it between threads, hash it, compare
 * it.  Everything here is pure. */
#ifndef RESHARD_LAYOUT_H
#define RESHARD_LAYOUT_H

#include <stdbool.h>

#include <reshard/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_layout rsh_layout;

/* The position and cause of a syntax error in a text.  Written by a call that fails, if the caller
 * passed a pointer to one. */
typedef struct rsh_text_error {
    int line, column; /* from 1; columns are bytes.  Both are 0 if the error has no position, for
                         instance when memory runs out */
    const char *sentence; /* the error message without "layout:LINE:COLUMN: "; borrowed until the
                             next failure on this thread */
} rsh_text_error;

/* ---- descriptions: layouts as structs ---- */

typedef enum rsh_cut_rule {
    RSH_CUT_CHUNK,    /* /x     parts of ceil(n/p) */
    RSH_CUT_BALANCED, /* /x~    sizes differ by at most one, larger first */
    RSH_CUT_CYCLIC,   /* /x:b   blocks of b dealt round robin */
    RSH_CUT_UNIT,     /* /x%u   cuts only at multiples of u */
    RSH_CUT_SIZES     /* /x{..} explicit sizes */
} rsh_cut_rule;

typedef struct rsh_cut {
    int naxes;               /* 0: not cut */
    int axes[RSH_MAX_AXES];  /* indices into rsh_layout_desc.axis, outermost first */
    rsh_cut_rule rule;
    int64_t number;          /* block size of RSH_CUT_CYCLIC, unit of RSH_CUT_UNIT */
    const int64_t *sizes;    /* of RSH_CUT_SIZES: one per part */
    int64_t nsizes;
} rsh_cut;

typedef struct rsh_segment {
    int64_t size;
    rsh_cut cut;
} rsh_segment;

typedef struct rsh_dim {
    int64_t size;               /* of a plain dim; ignored if there are segments, which add up */
    rsh_cut cut;                /* of the dim, or of every segment */
    int nsegments;              /* 0: a plain dim */
    const rsh_segment *segment; /* nsegments of them */
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
    const int64_t *ranks; /* nranks of them */
    rsh_box box;
} rsh_ranked_box;

/* A zeroed description is "bool[]".  A function that takes a description reads its lists during the
 * call only.  In a description that a layout or form returns, the lists live as long as that layout
 * or form. */
typedef struct rsh_layout_desc {
    rsh_dtype dtype;
    int ndim;
    rsh_dim dim[RSH_MAX_NDIM];
    rsh_cut flat;
    int naxes; /* 0: no mesh, rank 0 alone */
    rsh_axis axis[RSH_MAX_AXES];
    int64_t first_rank;   /* position i is rank first_rank + i if `ranks` is NULL */
    const int64_t *ranks; /* the rank of each position; NULL: consecutive */
    rsh_op op;            /* RSH_OP_NONE: not partial */
    int npartial;
    int partial[RSH_MAX_AXES];
    bool has_order;
    int order[RSH_MAX_NDIM]; /* dims from slowest to fastest */
    bool is_boxes; /* if true, only dtype, ndim, dim[].size and the boxes are used */
    int64_t nboxes;
    const rsh_ranked_box *boxes;
} rsh_layout_desc;

/* ---- layouts: construction and ownership ----
 *
 * Layouts are reference-counted.  A new one has one reference, the caller's.  Any thread may take
 * and drop references.  A layout may outlive every object that was made from it. */

/* Make a layout from text.  rsh_layout_parse_at also writes *error when it fails; error may be
 * NULL.  The caller frees *out.
 * RSH_EVALUE, with line, column and what was expected there; RSH_ETYPE if the op does not exist for
 * the dtype; RSH_ENOMEM. */
RSH_API rsh_status rsh_layout_parse(const char *text, rsh_layout **out);
RSH_API rsh_status rsh_layout_parse_at(const char *text, rsh_text_error *error, rsh_layout **out);

/* Makes a layout from a description, which must pass the same checks as a text.  The description is
 * copied.  The caller frees *out.
 * RSH_EVALUE, naming the dim, axis, segment or box; RSH_ETYPE if the op does not exist for the
 * dtype; RSH_ENOMEM. */
RSH_API rsh_status rsh_layout_new(const rsh_layout_desc *desc, rsh_layout **out);

/* Makes a layout that holds the whole tensor, dense and row-major, on one rank.  The caller frees
 * *out.
 * RSH_EVALUE if shape or rank are out of range; RSH_ENOMEM. */
RSH_API rsh_status rsh_layout_whole(rsh_dtype dtype, int ndim, const int64_t *shape, int64_t rank,
                                    rsh_layout **out);

/* Adds a reference and returns the same layout; NULL for NULL.  Never fails.  The caller frees the
 * result, once for every hold. */
RSH_API rsh_layout *rsh_layout_hold(const rsh_layout *l);

/* Drops one reference; the last one frees the layout.  No-op for NULL. */
RSH_API void rsh_layout_free(rsh_layout *l);

/* ---- layouts: getters ----
 *
 * Returned pointers are borrowed and live as long as the layout. */

/* Returns the description from which rsh_layout_new makes an equal layout, in canonical form: a dim
 * with one segment is a plain dim, `ranks` is set only if they are not consecutive, partial axes
 * are in mesh order, an order is set only if it is not the default, boxes are in canonical order.
 * Nothing is copied. */
RSH_API const rsh_layout_desc *rsh_layout_describe(const rsh_layout *l);

/* Returns the canonical text, which parses back to an equal layout. */
RSH_API const char *rsh_layout_text(const rsh_layout *l);
/* Return whether two layouts have the same canonical text, and a hash of that text. */
RSH_API bool rsh_layout_equal(const rsh_layout *a, const rsh_layout *b);
RSH_API uint64_t rsh_layout_hash(const rsh_layout *l);
/* Returns whether every rank holds the same elements in the same order.  True for `6/x~` and `6/x`
 * on x=3.  Dtypes are not compared.  Equal layouts are recognised at once; others cost up to one
 * step for each run of consecutive elements of every rank. */
RSH_API bool rsh_layout_same_parts(const rsh_layout *a, const rsh_layout *b);

RSH_API rsh_dtype rsh_layout_dtype(const rsh_layout *l); /* RSH_DTYPE_NONE for NULL */
RSH_API int rsh_layout_ndim(const rsh_layout *l);        /* -1 for NULL */
RSH_API const int64_t *rsh_layout_shape(const rsh_layout *l);
RSH_API int64_t rsh_layout_count(const rsh_layout *l); /* elements of the global tensor */
RSH_API rsh_op rsh_layout_op(const rsh_layout *l);     /* RSH_OP_NONE: not partial */

/* Return the number of ranks that appear in the layout, and the i-th of them in ascending order; -1
 * if there is no such rank. */
RSH_API int64_t rsh_layout_nranks(const rsh_layout *l);
RSH_API int64_t rsh_layout_rank(const rsh_layout *l, int64_t i);

/* Returns the number of parts of one rank: 1 on a mesh, the number of its boxes otherwise, and 0
 * for a rank that is not in the layout. */
RSH_API int64_t rsh_layout_nparts(const rsh_layout *l, int64_t rank);

typedef struct rsh_part {
    int ndim;                      /* 1 for a flat layout */
    int64_t shape[RSH_MAX_NDIM];   /* local */
    int64_t strides[RSH_MAX_NDIM]; /* in elements, of the dense part in its `order` */
    int64_t count;                 /* elements */
} rsh_part;
/* Writes shape and strides of a part.
 * RSH_EINDEX if the rank has no such part. */
RSH_API rsh_status rsh_layout_part(const rsh_layout *l, int64_t rank, int64_t part, rsh_part *out);

/* Calls fn for the boxes of the global tensor that make up a part, in order of their local offset.
 * `offset` is the position of the box's first element in the dense part, `strides` are the element
 * strides of the box there.  If fn returns non-zero, the loop ends and the function returns RSH_OK.
 * RSH_EINDEX if the rank has no such part; RSH_ENOMEM. */
typedef int (*rsh_box_fn)(void *ctx, const rsh_box *box, int64_t offset, const int64_t *strides);
RSH_API rsh_status rsh_layout_each_box(const rsh_layout *l, int64_t rank, int64_t part,
                                       rsh_box_fn fn, void *ctx);

/* Calls fn for the index set of one dim of a part, as half-open ranges in ascending order.  If fn
 * returns non-zero, the loop ends and the function returns RSH_OK.
 * RSH_EINDEX if the rank has no such part or the tensor no such dim; RSH_EUNSUP for flat
 * layouts. */
typedef int (*rsh_range_fn)(void *ctx, int64_t lo, int64_t hi);
RSH_API rsh_status rsh_layout_each_range(const rsh_layout *l, int64_t rank, int64_t part, int dim,
                                         rsh_range_fn fn, void *ctx);

/* Convert a global index to the offset in the dense part, and back.
 * RSH_EINDEX if the rank has no such part or the part no such offset; RSH_EKEY if the part does not
 * hold the index. */
RSH_API rsh_status rsh_layout_local_offset(const rsh_layout *l, int64_t rank, int64_t part,
                                           const int64_t *index, int64_t *offset);
RSH_API rsh_status rsh_layout_global_index(const rsh_layout *l, int64_t rank, int64_t part,
                                           int64_t offset, int64_t *index);

/* ---- forms: layouts with holes ----
 *
 * A form is the notation with `_` for a size or "[...]" for a whole shape, and with an optional
 * dtype: "[_/tp%128, _]", "[(4096|_)/tp, _]", "bf16[...] on tp=4@0-3".  The missing values are
 * taken from a given tensor, so one form describes the layouts of many tensors.  A form is
 * immutable: share it between threads. */
typedef struct rsh_form rsh_form;

/* In the description of a form: a dim or segment has this size if it is `_`, and ndim has this
 * value if the shape is "[...]". */
#define RSH_HOLE (-1)

/* Makes a form from text.  If the text has no "on", the form is on the mesh that `mesh` describes
 * (its naxes, axis, first_rank and ranks; borrowed during the call), or on rank 0 if mesh is NULL.
 * error may be NULL.  The caller frees *out.
 * RSH_EVALUE, RSH_ETYPE and *error as for rsh_layout_parse_at, also if no tensor could match the
 * form; RSH_ENOMEM. */
RSH_API rsh_status rsh_form_parse(const char *text, const rsh_layout_desc *mesh,
                                  rsh_text_error *error, rsh_form **out);

/* Frees the form.  No-op for NULL. */
RSH_API void rsh_form_free(rsh_form *f);

/* Return the description with its holes, and the text as it was written.  Borrowed; both live as
 * long as the form. */
RSH_API const rsh_layout_desc *rsh_form_describe(const rsh_form *f);
RSH_API const char *rsh_form_text(const rsh_form *f);
/* Returns whether the form names a dtype.  If not, ignore the dtype of its description. */
RSH_API bool rsh_form_has_dtype(const rsh_form *f);

/* Makes the layout of a tensor of this dtype and shape.  A dtype that the form names takes
 * precedence.  error may be NULL.  The caller frees *out.
 * RSH_EVALUE if the form's sizes or number of dims differ from the tensor's, or if several segments
 * of one dim are `_`; otherwise fails as the text without holes would, at the same position;
 * RSH_ENOMEM. */
RSH_API rsh_status rsh_form_fill(const rsh_form *f, rsh_dtype dtype, int ndim, const int64_t *shape,
                                 rsh_text_error *error, rsh_layout **out);

#ifdef __cplusplus
}
#endif
#endif
