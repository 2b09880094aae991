/* Build: the only constructor of layouts.  It checks a description completely and stores it in canonical form. */
#include "layout/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK RSHI_CHECK

typedef rshi_builder builder;

static rshi_text_place single_place(int at, const char *noun) { return (rshi_text_place){at, noun, -1, -1}; }
static rshi_text_place numbered_place(int at, const char *noun, int64_t number) {
    return (rshi_text_place){at, noun, number, -1};
}
static rshi_text_place dim_place(const builder *b, int d) { return numbered_place(b->origin->dim[d], "dim", d); }

/* Returns a copy of a list; NULL: no memory. */
static void *copy_list(const void *list, int64_t n, size_t size) {
    void *copy = rshi_alloc((size_t)n, size);
    if (copy) memcpy(copy, list, (size_t)n * size);
    return copy;
}

/* ---- shape ---- */

static rsh_status check_counts(builder *b) {
    const rsh_layout_desc *desc = b->desc;
    CHECK(rsh_dtype_bits(desc->dtype), (rshi_text_place){0}, "%d is not a dtype", (int)desc->dtype);
    CHECK((unsigned)desc->ndim <= RSH_MAX_NDIM, (rshi_text_place){0}, "ndim must be 0 to %d, got %d", RSH_MAX_NDIM,
          desc->ndim);
    CHECK((unsigned)desc->naxes <= RSH_MAX_AXES, (rshi_text_place){0}, "naxes must be 0 to %d, got %d", RSH_MAX_AXES,
          desc->naxes);
    return RSH_OK;
}

/* If any size is 0, the tensor is empty, however large the other sizes are. */
rsh_status rshi_count_elements(builder *b) {
    rsh_layout *l = b->l;
    int64_t bytes;
    for (int d = 0; d < l->desc.ndim; d++)
        if (!l->shape[d]) return RSH_OK;
    bool fits = rshi_product(l->desc.ndim, l->shape, &l->count) &&
                rshi_mul(l->count, rshi_ceil_div(rsh_dtype_bits(l->desc.dtype), 8), &bytes);
    CHECK(fits, single_place(b->origin->dim[0], "shape"), "tensor is larger than 2^63 bytes");
    return RSH_OK;
}

/* ---- mesh ---- */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static bool is_name(const char *name) {
    if (!is_letter(*name)) return false;
    while (is_letter(*name) || (*name >= '0' && *name <= '9') || *name == '_') name++;
    return !*name;
}

static bool is_reserved(const char *name) {
    for (int op = 1; op < RSH_OP_COUNT; op++)
        if (!strcmp(name, rsh_op_name((rsh_op)op))) return true;
    return !strcmp(name, "on") || !strcmp(name, "boxes") || !strcmp(name, "order");
}

bool rshi_axis_can_be(const char *name) { return is_name(name) && !is_reserved(name); }

static rsh_status build_axis(builder *b, int i) {
    rsh_axis *axis = &b->l->desc.axis[i];
    rshi_text_place here = numbered_place(b->origin->axis[i], "axis", i);
    CHECK(memchr(axis->name, 0, sizeof axis->name), here, "axis name is longer than %zu characters",
          sizeof axis->name - 1);
    CHECK(is_name(axis->name), here,
          "\"%s\" is not a valid axis name; use letters, digits and _, starting with a letter", axis->name);
    CHECK(!is_reserved(axis->name), here, "\"%s\" is a reserved word and cannot name an axis", axis->name);
    for (int j = 0; j < i; j++)
        CHECK(strcmp(axis->name, b->l->desc.axis[j].name), here, "axis \"%s\" appears twice in the mesh", axis->name);
    CHECK(axis->size >= 1, here, "axis \"%s\" must have size 1 or more, got %" PRId64, axis->name, axis->size);
    return RSH_OK;
}

static rsh_status build_mesh(builder *b) {
    rsh_layout *l = b->l;
    l->desc.naxes = b->desc->naxes;
    memcpy(l->desc.axis, b->desc->axis, (size_t)l->desc.naxes * sizeof *l->desc.axis);
    for (int i = 0; i < l->desc.naxes; i++) RSH_TRY(build_axis(b, i));
    l->npositions = 1;
    for (int i = l->desc.naxes - 1; i >= 0; i--) {
        l->axis_step[i] = l->npositions;
        CHECK(rshi_mul(l->npositions, l->desc.axis[i].size, &l->npositions) && l->npositions <= RSHI_RANK_MAX + 1,
              single_place(b->origin->mesh, "mesh"), "the mesh has more than %" PRId64 " positions", RSHI_RANK_MAX + 1);
    }
    l->nranks = l->npositions;
    return RSH_OK;
}

/* Stores ranks that are not consecutive, and the positions sorted by rank. */
static rsh_status store_ranks(builder *b) {
    rsh_layout *l = b->l;
    size_t n = (size_t)l->npositions;
    l->desc.ranks = copy_list(b->desc->ranks, l->npositions, sizeof *l->desc.ranks);
    l->entry = rshi_alloc(n, sizeof *l->entry);
    if (!l->desc.ranks || !l->entry) return rshi_nomem();
    for (size_t i = 0; i < n; i++) l->entry[i] = (rshi_rank_entry){l->desc.ranks[i], (int64_t)i};
    qsort(l->entry, n, sizeof *l->entry, rshi_rank_entry_compare);
    for (size_t i = 1; i < n; i++)
        CHECK(l->entry[i - 1].rank != l->entry[i].rank, single_place(b->origin->ranks, "ranks"),
              "rank %" PRId64 " appears twice in the mesh", l->entry[i].rank);
    return RSH_OK;
}

static rsh_status check_rank(const builder *b, int64_t rank) {
    CHECK(rank >= 0 && rank <= RSHI_RANK_MAX, single_place(b->origin->ranks, "ranks"),
          "rank %" PRId64 " is not in 0..%" PRId64, rank, RSHI_RANK_MAX);
    return RSH_OK;
}

static rsh_status build_ranks(builder *b) {
    const int64_t *ranks = b->desc->ranks;
    int64_t first = ranks ? ranks[0] : b->desc->first_rank, n = b->l->npositions;
    bool consecutive = true;
    if (!ranks && !first) return RSH_OK;
    CHECK(b->l->desc.naxes, single_place(b->origin->ranks, "ranks"), "ranks require a mesh; add \"on x=4\"");
    RSH_TRY(check_rank(b, first));
    if (!ranks) RSH_TRY(check_rank(b, first + n - 1));
    for (int64_t i = 0; ranks && i < n; i++) {
        RSH_TRY(check_rank(b, ranks[i]));
        consecutive = consecutive && ranks[i] == first + i;
    }
    b->l->desc.first_rank = consecutive ? first : 0;
    return consecutive ? RSH_OK : store_ranks(b);
}

/* ---- cuts ---- */

static bool cuts_by(const rsh_cut *cut, int a) {
    for (int i = 0; i < cut->naxes; i++)
        if (cut->axes[i] == a) return true;
    return false;
}

/* Returns what axis `a` already cuts: "dim 0" or "the flat tensor". */
static const char *use_of(const rsh_layout_desc *desc, int a, char text[32]) {
    for (int d = 0; d < desc->ndim; d++) {
        bool cut = cuts_by(&desc->dim[d].cut, a);
        for (int s = 0; s < desc->dim[d].nsegments && !cut; s++) cut = cuts_by(&desc->dim[d].segment[s].cut, a);
        snprintf(text, 32, "dim %d", d);
        if (cut) return text;
    }
    return "the flat tensor";
}

/* Marks axis `a` as used; `mine` are the axes that the same cut or reduction already uses. */
static rsh_status take_axis(const builder *b, int a, rshi_text_place here, unsigned *mine) {
    CHECK(a >= 0 && a < b->l->desc.naxes, here, "axis index %d is out of range: the mesh has %d axes", a,
          b->l->desc.naxes);
    CHECK(!(*mine & 1u << a), here, "axis \"%s\" is named twice", b->l->desc.axis[a].name);
    char use[32];
    CHECK(!(b->used & 1u << a), here, "axis \"%s\" already cuts %s; an axis can be used only once",
          b->l->desc.axis[a].name, use_of(b->desc, a, use));
    *mine |= 1u << a;
    return RSH_OK;
}

/* Converts explicit sizes to parts + 1 prefix sums. */
static rsh_status build_sizes(const builder *b, const rsh_cut *from, rshi_text_place here, int64_t size,
                              rshi_resolved_cut *to) {
    CHECK(from->nsizes == to->parts, here, "expected %" PRId64 " sizes (one per part), got %" PRId64,
          to->parts, from->nsizes);
    CHECK(from->sizes, here, "sizes must not be NULL");
    to->starts = rshi_calloc((size_t)to->parts + 1, sizeof *to->starts);
    if (!to->starts) return rshi_nomem();
    for (int64_t i = 0; i < to->parts; i++) {
        CHECK(from->sizes[i] >= 0, here, "size %" PRId64 " is negative", from->sizes[i]);
        CHECK(rshi_add(to->starts[i], from->sizes[i], &to->starts[i + 1]), here,
              "sizes add up to more than 2^63");
    }
    CHECK(to->starts[to->parts] == size, here, "sizes add up to %" PRId64 ", expected %" PRId64, to->starts[to->parts],
          size);
    return RSH_OK;
}

/* Builds the cut of `size` elements; its axes are added to `taken`. */
static rsh_status build_cut(const builder *b, const rsh_cut *from, rshi_text_place here, int64_t size,
                            rshi_resolved_cut *to, unsigned *taken) {
    unsigned mine = 0;
    to->parts = 1;
    if (!from->naxes) return RSH_OK;
    CHECK(from->naxes > 0 && from->naxes <= RSH_MAX_AXES, here, "cut has an invalid number of axes: %d", from->naxes);
    for (int i = 0; i < from->naxes; i++) {
        RSH_TRY(take_axis(b, from->axes[i], here, &mine));
        to->axes[i] = from->axes[i];
        to->parts *= b->l->desc.axis[from->axes[i]].size;
    }
    *taken |= mine;
    to->naxes = from->naxes;
    CHECK((unsigned)from->rule <= RSH_CUT_SIZES, here, "%d is not a cut rule", (int)from->rule);
    to->rule = from->rule;
    if (to->rule == RSH_CUT_SIZES) return build_sizes(b, from, here, size, to);
    if (to->rule == RSH_CUT_CHUNK || to->rule == RSH_CUT_BALANCED) return RSH_OK;
    CHECK(from->number >= 1, here, "the number after \"%s\" must be 1 or more, got %" PRId64,
          to->rule == RSH_CUT_CYCLIC ? ":" : "%", from->number);
    to->number = from->number;
    return RSH_OK;
}

/* Converts a built cut to its canonical description; values that its rule does not use are omitted. */
static rsh_status describe_cut(const rshi_resolved_cut *c, rsh_cut *out) {
    int64_t *sizes;
    *out = (rsh_cut){.naxes = c->naxes, .rule = c->rule, .number = c->number};
    memcpy(out->axes, c->axes, sizeof out->axes);
    if (!c->starts) return RSH_OK;
    out->sizes = sizes = rshi_alloc((size_t)c->parts, sizeof *sizes);
    if (!sizes) return rshi_nomem();
    out->nsizes = c->parts;
    for (int64_t i = 0; i < c->parts; i++) sizes[i] = c->starts[i + 1] - c->starts[i];
    return RSH_OK;
}

/* Builds the cut of a plain dim or of the flat tensor. */
static rsh_status build_whole_cut(const builder *b, const rsh_cut *from, rshi_text_place here, int64_t size,
                                  rshi_resolved_cut *to, rsh_cut *kept_as, unsigned *taken) {
    RSH_TRY(build_cut(b, from, here, size, to, taken));
    return describe_cut(to, kept_as);
}

/* ---- dims ---- */

/* A segment without elements does not cut its dim: its axes are added to `idle` instead. */
static rsh_status build_segment(builder *b, int d, int s, unsigned *idle) {
    const rsh_segment *from = &b->desc->dim[d].segment[s];
    const rsh_cut *group = &b->desc->dim[d].cut, *cut = group->naxes ? group : &from->cut;
    rshi_resolved_dim *dim = &b->l->dim[d];
    rshi_resolved_segment *to = &dim->segment[s];
    rshi_text_place size_at = {rshi_origin_at(b->origin->segment[d], s), "segment", s, d}, cut_at = size_at;
    cut_at.at = group->naxes ? b->origin->cut[d] : rshi_origin_at(b->origin->segment_cut[d], s);

    CHECK(from->size >= 0, size_at, "size must be 0 or more, got %" PRId64, from->size);
    CHECK(!group->naxes || !from->cut.naxes, cut_at,
          "segments are cut both individually and after the parenthesis; remove one of the cuts");
    CHECK(!group->naxes || group->rule != RSH_CUT_SIZES, cut_at,
          "explicit sizes are not allowed after the parenthesis of segments; write them on each segment");
    to->start = dim->size;
    to->size = from->size;
    CHECK(rshi_add(dim->size, to->size, &dim->size), size_at, "segments add up to more than 2^63");
    return build_cut(b, cut, cut_at, to->size, &to->cut, to->size ? &dim->axes : idle);
}

/* Stores segments as they were written: each with its cut, or all with the one after the parenthesis. */
static rsh_status store_segments(builder *b, int d) {
    const rshi_resolved_dim *dim = &b->l->dim[d];
    rsh_dim *to = &b->l->desc.dim[d];
    bool group = b->desc->dim[d].cut.naxes;
    if (group || dim->nsegments == 1) RSH_TRY(describe_cut(&dim->segment->cut, &to->cut));
    if (dim->nsegments == 1) return RSH_OK;
    rsh_segment *list = rshi_calloc((size_t)dim->nsegments, sizeof *list);
    if (!list) return rshi_nomem();
    to->segment = list;
    to->nsegments = dim->nsegments;
    for (int s = 0; s < dim->nsegments; s++) {
        list[s].size = dim->segment[s].size;
        if (!group) RSH_TRY(describe_cut(&dim->segment[s].cut, &list[s].cut));
    }
    return RSH_OK;
}

static rsh_status build_group(builder *b, int d) {
    rshi_resolved_dim *dim = &b->l->dim[d];
    rshi_text_place here = dim_place(b, d);
    unsigned idle = 0;
    CHECK(b->desc->dim[d].segment, here, "segment must not be NULL");
    for (int s = 0; s < dim->nsegments; s++) RSH_TRY(build_segment(b, d, s, &idle));
    b->used |= idle;
    CHECK(dim->axes | idle, here, "no segment is cut; write the size %" PRId64 " without segments", dim->size);
    return store_segments(b, d);
}

static rsh_status build_plain_dim(builder *b, int d) {
    rshi_resolved_dim *dim = &b->l->dim[d];
    dim->size = dim->segment->size = b->desc->dim[d].size;
    CHECK(dim->size >= 0, dim_place(b, d), "size must be 0 or more, got %" PRId64, dim->size);
    return build_whole_cut(b, &b->desc->dim[d].cut, numbered_place(b->origin->cut[d], "dim", d), dim->size,
                           &dim->segment->cut, &b->l->desc.dim[d].cut, &dim->axes);
}

static rsh_status build_dim(builder *b, int d) {
    rshi_resolved_dim *dim = &b->l->dim[d];
    int n = b->desc->dim[d].nsegments;
    CHECK(n >= 0, dim_place(b, d), "nsegments must be 0 or more, got %d", n);
    dim->segment = rshi_calloc(n ? (size_t)n : 1, sizeof *dim->segment);
    if (!dim->segment) return rshi_nomem();
    dim->nsegments = n ? n : 1;
    RSH_TRY(n ? build_group(b, d) : build_plain_dim(b, d));
    b->used |= dim->axes;
    b->l->shape[d] = b->l->desc.dim[d].size = dim->size;
    return RSH_OK;
}

/* If dims are cut, parts differ in length and one list of sizes cannot fit them all, so `{}` requires uncut dims. */
static rsh_status build_flat(builder *b) {
    const rsh_cut *cut = &b->desc->flat;
    rshi_text_place here = single_place(b->origin->flat, "flat");
    if (cut->naxes) {
        CHECK(cut->rule != RSH_CUT_CYCLIC, here, "\":\" cannot be used in a flat cut");
        CHECK(!b->desc->has_order, single_place(b->origin->order, "flat"), "a flat layout cannot have an order");
        CHECK(cut->rule != RSH_CUT_SIZES || !b->used, here,
              "a flat cut by explicit sizes requires dims that are not cut");
    }
    return build_whole_cut(b, cut, here, b->l->count, &b->l->flat, &b->l->desc.flat, &b->used);
}

/* ---- partial and order ---- */

static rsh_status build_partial(builder *b) {
    const rsh_layout_desc *desc = b->desc;
    rsh_layout *l = b->l;
    rshi_text_place here = single_place(b->origin->partial, "partial");
    CHECK((unsigned)desc->op < RSH_OP_COUNT, here, "%d is not a reduction", (int)desc->op);
    CHECK(desc->npartial >= 0 && desc->npartial <= RSH_MAX_AXES, here, "npartial must be 0 to %d, got %d", RSH_MAX_AXES,
          desc->npartial);
    CHECK(!desc->npartial == !desc->op, here, "a partial layout requires both a reduction and its axes");
    if (desc->op && rsh_op_check(desc->op, desc->dtype))
        return rshi_origin_fail(b->origin, here, RSH_ETYPE, "%s", rsh_error_detail());
    for (int i = 0; i < desc->npartial; i++) RSH_TRY(take_axis(b, desc->partial[i], here, &l->partial));
    l->desc.op = desc->op;
    for (int a = 0; a < l->desc.naxes; a++)
        if (l->partial >> a & 1) l->desc.partial[l->desc.npartial++] = a;
    return RSH_OK;
}

static rsh_status build_order(builder *b) {
    rsh_layout *l = b->l;
    unsigned seen = 0;
    for (int i = 0; i < l->desc.ndim; i++) {
        int d = l->desc.order[i] = b->desc->has_order ? b->desc->order[i] : i;
        CHECK(d >= 0 && d < l->desc.ndim && !(seen & 1u << d), single_place(b->origin->order, "order"),
              "order must name each dim from 0 to %d once", l->desc.ndim - 1);
        seen |= 1u << d;
        l->desc.has_order = l->desc.has_order || d != i;
    }
    return RSH_OK;
}

/* ---- mesh and boxes ---- */

static rsh_status build_placement(builder *b) {
    RSH_TRY(build_mesh(b));
    RSH_TRY(build_ranks(b));
    for (int d = 0; d < b->l->desc.ndim; d++) RSH_TRY(build_dim(b, d));
    RSH_TRY(rshi_count_elements(b));
    RSH_TRY(build_flat(b));
    RSH_TRY(build_partial(b));
    return build_order(b);
}

static rsh_status build_all(builder *b) {
    rsh_layout *l = b->l;
    RSH_TRY(check_counts(b));
    l->desc.dtype = b->desc->dtype;
    l->desc.ndim = b->desc->ndim;
    RSH_TRY(b->desc->is_boxes ? rshi_boxes_build(b) : build_placement(b));
    rshi_text text = {0};
    rshi_layout_write(l, &text);
    l->text = text.data;
    if (text.failed) return rshi_nomem();
    l->hash = rshi_hash(text.data, text.length, 0);
    return RSH_OK;
}

rsh_status rshi_layout_build(const rsh_layout_desc *desc, const rshi_text_origin *origin, rsh_layout **out) {
    builder b = {.desc = desc, .origin = origin, .l = RSHI_NEW(rsh_layout)};
    if (!b.l) return rshi_nomem();
    atomic_init(&b.l->refs, 1);
    rsh_status st = build_all(&b);
    if (!st) *out = b.l;
    if (st) rsh_layout_free(b.l);
    return st;
}
