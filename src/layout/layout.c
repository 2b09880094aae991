/* Layout: construction from descriptions and texts, and reference counting. */
#include "layout/impl.h"

#include "layout/draft.h"

rsh_status rsh_layout_new(const rsh_layout_desc *desc, rsh_layout **out) {
    static const rshi_text_origin code;
    RSH_REQUIRE(desc && out, RSH_EVALUE, "layout: desc and out must not be NULL");
    return rshi_layout_build(desc, &code, out);
}

static rsh_status parse_layout(const char *text, rsh_text_error *error, rsh_layout **out) {
    RSH_REQUIRE(text && out, RSH_EVALUE, "layout: text and out must not be NULL");
    rshi_draft draft = {.origin = {.error = error}};
    rsh_status st = rshi_draft_parse(&draft, text, false, NULL);
    if (!st) st = rshi_layout_build(&draft.desc, &draft.origin, out);
    rshi_draft_release(&draft);
    return st;
}

rsh_status rsh_layout_parse_at(const char *text, rsh_text_error *error, rsh_layout **out) {
    rsh_text_error found = {.sentence = rsh_error_detail()};
    rsh_status st = parse_layout(text, &found, out);
    if (st && error) *error = found;
    return st;
}

rsh_status rsh_layout_parse(const char *text, rsh_layout **out) { return rsh_layout_parse_at(text, NULL, out); }

/* No mesh can describe "rank 3 only", so a box is used. */
rsh_status rsh_layout_whole(rsh_dtype dtype, int ndim, const int64_t *shape, int64_t rank, rsh_layout **out) {
    RSH_REQUIRE((shape || !ndim) && out, RSH_EVALUE, "layout: shape and out must not be NULL");
    rsh_ranked_box box = {.nranks = 1, .ranks = &rank};
    rsh_layout_desc desc = {.dtype = dtype, .ndim = ndim, .is_boxes = rank != 0, .nboxes = 1, .boxes = &box};
    for (int d = 0; d < ndim && d < RSH_MAX_NDIM; d++) desc.dim[d].size = box.box.hi[d] = shape[d];
    return rsh_layout_new(&desc, out);
}

rsh_layout *rsh_layout_hold(const rsh_layout *l) {
    rsh_layout *held = (rsh_layout *)l; /* the count of references is the only member that ever changes */
    if (held) atomic_fetch_add_explicit(&held->refs, 1, memory_order_relaxed); /* the caller holds another reference */
    return held;
}

static void free_dim(rsh_layout *l, int d) {
    for (int s = 0; s < l->dim[d].nsegments; s++) rshi_free(l->dim[d].segment[s].cut.starts);
    rshi_free(l->dim[d].segment);
    for (int s = 0; s < l->desc.dim[d].nsegments; s++) rshi_free((void *)l->desc.dim[d].segment[s].cut.sizes);
    rshi_free((void *)l->desc.dim[d].segment);
    rshi_free((void *)l->desc.dim[d].cut.sizes);
}

void rsh_layout_free(rsh_layout *l) {
    if (!l || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1) return;
    for (int d = 0; d < RSH_MAX_NDIM; d++) free_dim(l, d);
    rshi_free(l->flat.starts);
    rshi_free((void *)l->desc.flat.sizes);
    rshi_free((void *)l->desc.ranks);
    rshi_free((void *)l->desc.boxes);
    rshi_free(l->box_ranks);
    rshi_free(l->box_of);
    rshi_free(l->by_place);
    rshi_free(l->bounds);
    rshi_free(l->entry);
    rshi_free(l->text);
    rshi_free(l);
}
