/* Form: a layout with holes, which are filled from the dtype and shape of a tensor. */
#include "layout/draft.h"

#include <inttypes.h>
#include <string.h>

struct rsh_form {
    rshi_draft draft;
    char *text; /* owned: the text as written, to which the draft's positions refer */
};

/* ---- filling ---- */

typedef struct filling {
    rshi_text_origin origin;
    rsh_layout_desc desc;
    rsh_segment *segment[RSH_MAX_NDIM]; /* owned: the lists of segments in which a hole was filled */
    /* for each dim the sizes of its segments, or NULL; the list itself may be NULL */
    const int64_t *const *sizes;
    bool loose;                         /* if a dim has several holes, all except the last may be 0 */
} filling;

#define CHECK(f, condition, at_, ...)                                                                                  \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return rshi_origin_fail(&(f)->origin, (rshi_text_place){.at = (at_)}, RSH_EVALUE, __VA_ARGS__);            \
    } while (0)

static int64_t sum_of_sizes(const rsh_cut *cut) {
    int64_t sum = 0;
    for (int64_t i = 0; i < cut->nsizes; i++)
        if (!rshi_add(sum, cut->sizes[i], &sum)) return INT64_MAX;
    return sum;
}

/* Returns the sum of all segments that are not holes; INT64_MAX on overflow. */
static int64_t known_sum(const rsh_dim *dim, int *hole, int *holes) {
    int64_t sum = 0;
    *hole = -1;
    *holes = 0;
    for (int s = 0; s < dim->nsegments; s++) {
        if (dim->segment[s].size == RSH_HOLE)
            *hole = s, ++*holes;
        else if (!rshi_add(sum, dim->segment[s].size, &sum))
            return INT64_MAX;
    }
    return sum;
}

/* If one segment is a hole, it gets the rest of the dim. */
static rsh_status fill_segments(filling *f, int d, int64_t size) {
    rsh_dim *dim = &f->desc.dim[d];
    int hole, holes;
    int64_t known = known_sum(dim, &hole, &holes);
    const int64_t *sizes = f->sizes && holes == dim->nsegments ? f->sizes[d] : NULL;
    CHECK(f, known <= size && (hole >= 0 || known == size), f->origin.dim[d],
          "the segments add up to %" PRId64 "%s, but dim %d of the tensor has size %" PRId64, known,
          hole >= 0 ? " without the _" : "", d, size);
    if (hole < 0) return RSH_OK;
    CHECK(f, holes == 1 || sizes || f->loose, f->origin.dim[d],
          "dim %d has %d segments of size _; only one can be inferred", d, holes);
    rsh_segment *list = rshi_alloc((size_t)dim->nsegments, sizeof *list);
    if (!list) return rshi_nomem();
    memcpy(list, dim->segment, (size_t)dim->nsegments * sizeof *list);
    for (int s = 0; s < dim->nsegments; s++)
        if (list[s].size == RSH_HOLE)
            list[s].size = sizes ? sizes[s] : holes > 1 ? sum_of_sizes(&list[s].cut) : size - known;
    dim->segment = f->segment[d] = list;
    return RSH_OK;
}

static rsh_status fill_dim(filling *f, int d, int64_t size) {
    rsh_dim *dim = &f->desc.dim[d];
    if (dim->nsegments) return fill_segments(f, d, size);
    CHECK(f, dim->size == RSH_HOLE || dim->size == size, f->origin.dim[d],
          "size %" PRId64 " does not match dim %d of the tensor, which has size %" PRId64, dim->size, d, size);
    dim->size = size;
    return RSH_OK;
}

static rsh_status fill_dims(filling *f, int ndim, const int64_t *shape) {
    rsh_layout_desc *desc = &f->desc;
    for (int d = 0; desc->ndim == RSH_HOLE && d < ndim; d++) desc->dim[d].size = RSH_HOLE;
    if (desc->ndim == RSH_HOLE) desc->ndim = ndim;
    CHECK(f, desc->ndim == ndim, desc->ndim ? f->origin.dim[0] : 1, "tensor has %d dims, but the form has %d", ndim,
          desc->ndim);
    for (int d = 0; d < ndim; d++) RSH_TRY(fill_dim(f, d, shape[d]));
    return RSH_OK;
}

static rsh_status fill_form(filling *with, const rsh_form *form, rsh_dtype dtype, int ndim, const int64_t *shape,
                       rsh_text_error *error, rsh_layout **out) {
    filling f = *with;
    rsh_status st;
    f.origin = form->draft.origin;
    f.desc = form->draft.desc;
    f.origin.error = error;
    if (!form->draft.has_dtype) f.desc.dtype = dtype;
    RSH_GOTO(fill_dims(&f, ndim, shape));
    RSH_GOTO(rshi_layout_build(&f.desc, &f.origin, out));
out:
    for (int d = 0; d < RSH_MAX_NDIM; d++) rshi_free(f.segment[d]);
    return st;
}

static rsh_status check_tensor(const rsh_form *form, int ndim, const int64_t *shape, rsh_layout **out) {
    RSH_REQUIRE(form && (shape || !ndim) && out, RSH_EVALUE, "rsh_form_fill: form, shape and out must not be NULL");
    RSH_REQUIRE((unsigned)ndim <= RSH_MAX_NDIM, RSH_EVALUE, "form: tensor has %d dims, at most %d are supported", ndim,
                RSH_MAX_NDIM);
    for (int d = 0; d < ndim; d++)
        RSH_REQUIRE(shape[d] >= 0, RSH_EVALUE, "form: dim %d of the tensor has a negative size %" PRId64, d, shape[d]);
    return RSH_OK;
}

rsh_status rsh_form_fill(const rsh_form *form, rsh_dtype dtype, int ndim, const int64_t *shape, rsh_text_error *error,
                         rsh_layout **out) {
    return rshi_form_fill_segments(form, dtype, ndim, shape, NULL, error, out);
}

rsh_status rshi_form_fill_segments(const rsh_form *form, rsh_dtype dtype, int ndim, const int64_t *shape,
                                   const int64_t *const *sizes, rsh_text_error *error, rsh_layout **out) {
    rsh_text_error found = {.sentence = rsh_error_detail()};
    filling f = {.sizes = sizes};
    rsh_status st = check_tensor(form, ndim, shape, out);
    if (!st) st = fill_form(&f, form, dtype, ndim, shape, &found, out);
    if (st && error) *error = found;
    return st;
}

/* ---- validation: fills the form for a tensor that matches it, if there is one ---- */

static int64_t end_of_boxes(const rsh_layout_desc *desc, int d) {
    int64_t end = 0;
    for (int64_t i = 0; i < desc->nboxes; i++) end = rshi_max(end, desc->boxes[i].box.hi[d]);
    return end;
}

static int64_t suitable_size(const rsh_layout_desc *desc, int d) {
    const rsh_dim *dim = &desc->dim[d];
    int hole, holes;
    if (dim->nsegments) {
        int64_t sum = known_sum(dim, &hole, &holes);
        for (int i = 0; i < dim->nsegments; i++)
            if (dim->segment[i].size == RSH_HOLE && !rshi_add(sum, sum_of_sizes(&dim->segment[i].cut), &sum))
                return INT64_MAX;
        return sum;
    }
    if (dim->size != RSH_HOLE) return dim->size;
    return desc->is_boxes ? end_of_boxes(desc, d) : sum_of_sizes(&dim->cut);
}

/* Finds a shape for the explicit sizes of a flat cut, which determine the number of elements: one hole gets all
 * elements, the others get 1. */
static void suit_flat_sizes(const rsh_layout_desc *desc, int64_t *shape) {
    int64_t left = sum_of_sizes(&desc->flat);
    int hole = -1;
    for (int d = 0; d < desc->ndim; d++) {
        if (desc->dim[d].size == RSH_HOLE) {
            shape[d] = 1;
            hole = d;
        } else if (shape[d]) {
            left /= shape[d];
        }
    }
    if (hole >= 0) shape[hole] = left;
}

static int suitable_shape(const rsh_layout_desc *desc, int64_t *shape) {
    shape[0] = sum_of_sizes(&desc->flat);
    if (desc->ndim == RSH_HOLE) return 1;
    for (int d = 0; d < desc->ndim; d++) shape[d] = suitable_size(desc, d);
    if (desc->flat.naxes && desc->flat.rule == RSH_CUT_SIZES) suit_flat_sizes(desc, shape);
    return desc->ndim;
}

/* Checks that some tensor matches the form. */
static rsh_status check_form(const rsh_form *form, rsh_text_error *error) {
    const rsh_layout_desc *desc = &form->draft.desc;
    int64_t shape[RSH_MAX_NDIM];
    int ndim = suitable_shape(desc, shape);
    rsh_layout *l = NULL;
    rsh_dtype smallest = desc->op == RSH_OP_AVG ? RSH_F16 : RSH_U8; /* the smallest dtype that supports the op */
    filling f = {.loose = true};
    rsh_status st = fill_form(&f, form, smallest, ndim, shape, error, &l);
    rsh_layout_free(l);
    return st;
}

/* ---- forms ---- */

static rsh_status parse_form(const char *text, const rsh_layout_desc *mesh, rsh_text_error *error, rsh_form **out) {
    RSH_REQUIRE(text && out, RSH_EVALUE, "rsh_form_parse: text and out must not be NULL");
    rsh_form *form = RSHI_NEW(rsh_form);
    size_t bytes = strlen(text) + 1;
    rsh_status st;
    if (!form) return rshi_nomem();
    form->text = rshi_alloc(bytes, 1);
    RSH_GOTO(form->text ? RSH_OK : rshi_nomem());
    memcpy(form->text, text, bytes);
    form->draft.origin.error = error;
    RSH_GOTO(rshi_draft_parse(&form->draft, form->text, true, mesh));
    RSH_GOTO(check_form(form, error));
    form->draft.origin.error = NULL;
    *out = form;
out:
    if (st) rsh_form_free(form);
    return st;
}

rsh_status rsh_form_parse(const char *text, const rsh_layout_desc *mesh, rsh_text_error *error, rsh_form **out) {
    rsh_text_error found = {.sentence = rsh_error_detail()};
    rsh_status st = parse_form(text, mesh, &found, out);
    if (st && error) *error = found;
    return st;
}

void rsh_form_free(rsh_form *form) {
    if (!form) return;
    rshi_draft_release(&form->draft);
    rshi_free(form->text);
    rshi_free(form);
}

const rsh_layout_desc *rsh_form_describe(const rsh_form *form) { return form ? &form->draft.desc : NULL; }
const char *rsh_form_text(const rsh_form *form) { return form ? form->text : NULL; }
bool rsh_form_has_dtype(const rsh_form *form) { return form && form->draft.has_dtype; }
