/* Build: the one constructor of layouts.  It checks a description completely before anyone sees the layout. */
#include "layout/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


typedef struct builder {
    const rsh_layout_desc *desc;
    const rshi_where *where; /* never NULL; all columns 0 when the description came from code */
    rsh_layout *l;
    unsigned used; /* bit set of the axes that cut or are partial */
} builder;

/* What an error is about: a column if there is a text, else in words. */
typedef struct place {
    int column;
    char words[40];
} place;

static place at(int column, const char *format, ...) __attribute__((format(printf, 2, 3)));
static place at(int column, const char *format, ...) {
    place p = {.column = column};
    va_list args;
    va_start(args, format);
    vsnprintf(p.words, sizeof p.words, format, args);
    va_end(args);
    return p;
}

static int column_of(const int *columns, int64_t i) { return columns ? columns[i] : 0; }

static rsh_status fail(const builder *b, place p, rsh_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static rsh_status fail(const builder *b, place p, rsh_status status, const char *format, ...) {
    char sentence[RSHI_DETAIL_BYTES / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    if (p.column) return rshi_fail(status, "%s:%d:%d: %s", b->where->name, b->where->line, p.column, sentence);
    return rshi_fail(status, "layout: %s%s%s", p.words, *p.words ? ": " : "", sentence);
}

/* For functions with a builder `b`. */
#define CHECK(condition, place, ...)                                                                                   \
    do {                                                                                                               \
        if (!(condition)) return fail(b, (place), RSH_EVALUE, __VA_ARGS__);                                            \
    } while (0)

/* ---- shape ---- */

static rsh_status check_counts(builder *b) {
    const rsh_layout_desc *desc = b->desc;
    CHECK((unsigned)desc->dtype < RSH_DTYPE_COUNT, (place){0}, "%d is not a dtype", (int)desc->dtype);
    CHECK((unsigned)desc->ndim <= RSH_MAX_NDIM, (place){0}, "%d dims; at most %d", desc->ndim, RSH_MAX_NDIM);
    CHECK((unsigned)desc->naxes <= RSH_MAX_AXES, (place){0}, "%d axes; at most %d", desc->naxes, RSH_MAX_AXES);
    return RSH_OK;
}

/* A size of 0 anywhere makes the tensor empty, however large the other sizes are. */
static rsh_status count_elements(builder *b) {
    rsh_layout *l = b->l;
    int64_t bytes;
    for (int d = 0; d < l->ndim; d++)
        if (!l->shape[d]) return RSH_OK;
    CHECK(rshi_product(l->ndim, l->shape, &l->count) && rshi_mul(l->count, (int64_t)rsh_dtype_size(l->dtype), &bytes),
          at(b->where->dim[0], "shape"), "the tensor has more bytes than 64 bits can count");
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

static rsh_status build_axis(builder *b, int i) {
    rsh_axis *axis = &b->l->axis[i];
    place here = at(b->where->axis[i], "axis %d", i);
    CHECK(memchr(axis->name, 0, sizeof axis->name), here, "its name is longer than %zu characters",
          sizeof axis->name - 1);
    CHECK(is_name(axis->name), here, "\"%s\" is not a name: letters, digits and _, a letter first", axis->name);
    CHECK(!is_reserved(axis->name), here, "\"%s\" has a meaning of its own and cannot name an axis", axis->name);
    for (int j = 0; j < i; j++)
        CHECK(strcmp(axis->name, b->l->axis[j].name), here, "axis \"%s\" stands twice in the mesh", axis->name);
    CHECK(axis->size >= 1, here, "axis \"%s\" has size %" PRId64 "; at least 1 is needed", axis->name, axis->size);
    return RSH_OK;
}

static rsh_status build_mesh(builder *b) {
    rsh_layout *l = b->l;
    l->naxes = b->desc->naxes;
    memcpy(l->axis, b->desc->axis, (size_t)l->naxes * sizeof *l->axis);
    for (int i = 0; i < l->naxes; i++) RSH_TRY(build_axis(b, i));
    l->npositions = 1;
    for (int i = l->naxes - 1; i >= 0; i--) {
        l->axis_step[i] = l->npositions;
        CHECK(rshi_mul(l->npositions, l->axis[i].size, &l->npositions) && l->npositions <= RSHI_RANK_MAX + 1,
              at(b->where->mesh, "mesh"), "the mesh has more than %" PRId64 " positions", RSHI_RANK_MAX + 1);
    }
    l->nranks = l->npositions;
    return RSH_OK;
}

/* Ranks that do not ascend one by one are kept, with the positions sorted by rank beside them. */
static rsh_status keep_ranks(builder *b, const int64_t *ranks) {
    rsh_layout *l = b->l;
    size_t n = (size_t)l->npositions;
    l->ranks = rshi_alloc(n, sizeof *l->ranks);
    l->entry = rshi_alloc(n, sizeof *l->entry);
    if (!l->ranks || !l->entry) return rshi_nomem();
    for (size_t i = 0; i < n; i++) {
        l->ranks[i] = ranks[i];
        l->entry[i] = (rshi_rank_entry){ranks[i], (int64_t)i};
    }
    qsort(l->entry, n, sizeof *l->entry, rshi_rank_entry_compare);
    for (size_t i = 1; i < n; i++)
        CHECK(l->entry[i - 1].rank != l->entry[i].rank, at(b->where->ranks, "ranks"),
              "rank %" PRId64 " stands twice in the mesh", l->entry[i].rank);
    return RSH_OK;
}

static rsh_status build_ranks(builder *b) {
    const int64_t *ranks = b->desc->ranks;
    if (!ranks) return RSH_OK;
    CHECK(b->l->naxes, at(b->where->ranks, "ranks"), "ranks without a mesh");
    bool consecutive = true;
    for (int64_t i = 0; i < b->l->npositions; i++) {
        CHECK(ranks[i] >= 0 && ranks[i] <= RSHI_RANK_MAX, at(b->where->ranks, "ranks"),
              "rank %" PRId64 " is not in 0..2147483647", ranks[i]);
        consecutive = consecutive && ranks[i] == ranks[0] + i;
    }
    b->l->first_rank = consecutive ? ranks[0] : 0;
    return consecutive ? RSH_OK : keep_ranks(b, ranks);
}

/* ---- cuts ---- */

/* Take axis `a` for one use; `mine` are the axes that this use has already. */
static rsh_status take_axis(const builder *b, int a, place here, unsigned *mine) {
    CHECK(a >= 0 && a < b->l->naxes, here, "axis %d is not one of the %d of the mesh", a, b->l->naxes);
    CHECK(!(*mine & 1u << a), here, "axis \"%s\" is named twice", b->l->axis[a].name);
    CHECK(!(b->used & 1u << a), here, "axis \"%s\" is used already: it cuts one dim or the flat tensor, or is partial",
          b->l->axis[a].name);
    *mine |= 1u << a;
    return RSH_OK;
}

/* Explicit sizes as parts + 1 prefix sums. */
static rsh_status build_sizes(const builder *b, const rsh_cut *from, place here, int64_t size, rshi_cut *to) {
    CHECK(from->nsizes == to->parts, here, "%" PRId64 " sizes for %" PRId64 " parts", from->nsizes, to->parts);
    CHECK(from->sizes, here, "the sizes are NULL");
    to->starts = rshi_calloc((size_t)to->parts + 1, sizeof *to->starts);
    if (!to->starts) return rshi_nomem();
    for (int64_t i = 0; i < to->parts; i++) {
        CHECK(from->sizes[i] >= 0, here, "size %" PRId64 " is negative", from->sizes[i]);
        CHECK(rshi_add(to->starts[i], from->sizes[i], &to->starts[i + 1]), here,
              "the sizes add up to more than 64 bits");
    }
    CHECK(to->starts[to->parts] == size, here, "the sizes add up to %" PRId64 ", not %" PRId64, to->starts[to->parts],
          size);
    return RSH_OK;
}

/* Cut of `size` elements; the axes it takes are added to `taken`. */
static rsh_status build_cut(const builder *b, const rsh_cut *from, place here, int64_t size, rshi_cut *to,
                            unsigned *taken) {
    unsigned mine = 0;
    to->parts = 1;
    if (!from->naxes) return RSH_OK;
    CHECK(from->naxes > 0 && from->naxes <= RSH_MAX_AXES, here, "a cut of %d axes", from->naxes);
    for (int i = 0; i < from->naxes; i++) {
        RSH_TRY(take_axis(b, from->axes[i], here, &mine));
        to->axes[i] = from->axes[i];
        to->parts *= b->l->axis[from->axes[i]].size;
    }
    *taken |= mine;
    to->naxes = from->naxes;
    CHECK((unsigned)from->rule <= RSH_RULE_SIZES, here, "%d is not a rule", (int)from->rule);
    to->rule = from->rule;
    if (to->rule == RSH_RULE_SIZES) return build_sizes(b, from, here, size, to);
    if (to->rule == RSH_RULE_CHUNK || to->rule == RSH_RULE_BALANCED) return RSH_OK;
    CHECK(from->number >= 1, here, "the number after \"%s\" is %" PRId64 "; at least 1 is needed",
          to->rule == RSH_RULE_CYCLIC ? ":" : "%", from->number);
    to->number = from->number;
    return RSH_OK;
}

/* ---- dims ---- */

static rsh_status build_segment(builder *b, int d, int s) {
    const rsh_segment *from = &b->desc->dim[d].segment[s];
    const rsh_cut *group = &b->desc->dim[d].cut, *cut = group->naxes ? group : &from->cut;
    rshi_dim *dim = &b->l->dim[d];
    rshi_segment *to = &dim->segment[s];
    place size_at = at(column_of(b->where->segment[d], s), "segment %d of dim %d", s, d);
    place cut_at = size_at;
    cut_at.column = group->naxes ? b->where->cut[d] : column_of(b->where->segment_cut[d], s);

    CHECK(from->size >= 0, size_at, "its size is %" PRId64, from->size);
    CHECK(!group->naxes || !from->cut.naxes, cut_at, "cut on a segment and again after the parenthesis");
    CHECK(!cut->naxes || cut->rule != RSH_RULE_SIZES, cut_at, "explicit sizes do not go with segments");
    to->start = dim->size;
    to->size = from->size;
    CHECK(rshi_add(dim->size, to->size, &dim->size), size_at, "the segments add up to more than 64 bits");
    return build_cut(b, cut, cut_at, to->size, &to->cut, &dim->axes);
}

static rsh_status build_group(builder *b, int d) {
    rshi_dim *dim = &b->l->dim[d];
    place here = at(b->where->dim[d], "dim %d", d);
    CHECK(b->desc->dim[d].segment, here, "the segments are NULL");
    dim->group_cut = dim->nsegments > 1 && b->desc->dim[d].cut.naxes;
    for (int s = 0; s < dim->nsegments; s++) RSH_TRY(build_segment(b, d, s));
    CHECK(dim->axes, here, "no segment is cut: write the size %" PRId64 " without segments", dim->size);
    return RSH_OK;
}

static rsh_status build_plain_dim(builder *b, int d) {
    rshi_dim *dim = &b->l->dim[d];
    dim->size = dim->segment->size = b->desc->dim[d].size;
    CHECK(dim->size >= 0, at(b->where->dim[d], "dim %d", d), "its size is %" PRId64, dim->size);
    return build_cut(b, &b->desc->dim[d].cut, at(b->where->cut[d], "dim %d", d), dim->size, &dim->segment->cut,
                     &dim->axes);
}

static rsh_status build_dim(builder *b, int d) {
    rshi_dim *dim = &b->l->dim[d];
    int n = b->desc->dim[d].nsegments;
    CHECK(n >= 0, at(b->where->dim[d], "dim %d", d), "%d segments", n);
    dim->segment = rshi_calloc(n ? (size_t)n : 1, sizeof *dim->segment);
    if (!dim->segment) return rshi_nomem();
    dim->nsegments = n ? n : 1;
    RSH_TRY(n ? build_group(b, d) : build_plain_dim(b, d));
    b->used |= dim->axes;
    b->l->shape[d] = dim->size;
    return RSH_OK;
}

/* Parts of other cuts differ in length, and one list of sizes cannot fit them all: `{}` is for dims that are whole. */
static rsh_status build_flat(builder *b) {
    const rsh_cut *cut = &b->desc->flat;
    place here = at(b->where->flat, "flat");
    if (cut->naxes) {
        CHECK(cut->rule != RSH_RULE_CYCLIC, here, "\":\" does not go with a flat cut");
        CHECK(!b->desc->has_order, at(b->where->order, "flat"), "order does not go with a flat cut");
        CHECK(cut->rule != RSH_RULE_SIZES || !b->used, here, "explicit sizes of a flat cut need dims that are not cut");
    }
    return build_cut(b, cut, here, b->l->count, &b->l->flat, &b->used);
}

/* ---- partial and order ---- */

static rsh_status build_partial(builder *b) {
    const rsh_layout_desc *desc = b->desc;
    place here = at(b->where->partial, "partial");
    CHECK((unsigned)desc->op < RSH_OP_COUNT, here, "%d is not a reduction", (int)desc->op);
    CHECK(desc->npartial >= 0 && desc->npartial <= RSH_MAX_AXES, here, "%d axes", desc->npartial);
    CHECK(!desc->npartial == !desc->op, here, "a reduction and its axes go together");
    if (rsh_op_check(desc->op, desc->dtype)) return fail(b, here, RSH_ETYPE, "%s", rsh_error_detail());
    for (int i = 0; i < desc->npartial; i++) RSH_TRY(take_axis(b, desc->partial[i], here, &b->l->partial));
    b->l->op = desc->op;
    return RSH_OK;
}

static rsh_status build_order(builder *b) {
    rsh_layout *l = b->l;
    unsigned seen = 0;
    for (int i = 0; i < l->ndim; i++) {
        int d = l->order[i] = b->desc->has_order ? b->desc->order[i] : i;
        CHECK(d >= 0 && d < l->ndim && !(seen & 1u << d), at(b->where->order, "order"),
              "an order names each dim from 0 to %d once", l->ndim - 1);
        seen |= 1u << d;
        l->has_order = l->has_order || d != i;
    }
    return RSH_OK;
}

/* ---- boxes ---- */

static int compare_numbers(const void *x, const void *y) {
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return a < b ? -1 : a > b;
}

static rsh_status check_box(const builder *b, const rsh_ranked_box *from, place here) {
    CHECK(from->nranks >= 1 && from->ranks, here, "a box without ranks");
    for (int d = 0; d < b->l->ndim; d++) {
        int64_t lo = from->box.lo[d], hi = from->box.hi[d];
        CHECK(lo <= hi, here, "range %" PRId64 ":%" PRId64 " of dim %d runs backwards", lo, hi, d);
        CHECK(lo >= 0 && hi <= b->l->shape[d], here, "range %" PRId64 ":%" PRId64 " leaves dim %d of size %" PRId64, lo,
              hi, d, b->l->shape[d]);
    }
    return RSH_OK;
}

static rsh_status build_box(builder *b, int64_t i) {
    const rsh_ranked_box *from = &b->desc->boxes[i];
    rshi_ranked_box *to = &b->l->boxes[i];
    place here = at(column_of(b->where->box, i), "box %" PRId64, i);
    RSH_TRY(check_box(b, from, here));
    to->box = from->box;
    to->nranks = from->nranks;
    to->ranks = rshi_alloc((size_t)to->nranks, sizeof *to->ranks);
    if (!to->ranks) return rshi_nomem();
    memcpy(to->ranks, from->ranks, (size_t)to->nranks * sizeof *to->ranks);
    qsort(to->ranks, (size_t)to->nranks, sizeof *to->ranks, compare_numbers);
    for (int64_t k = 0; k < to->nranks; k++) {
        CHECK(to->ranks[k] >= 0 && to->ranks[k] <= RSHI_RANK_MAX, here, "rank %" PRId64 " is not in 0..2147483647",
              to->ranks[k]);
        CHECK(!k || to->ranks[k - 1] != to->ranks[k], here, "rank %" PRId64 " stands twice in one box", to->ranks[k]);
    }
    return RSH_OK;
}

/* ---- both forms ---- */

static rsh_status build_boxes(builder *b) {
    rsh_layout *l = b->l;
    l->is_boxes = true;
    for (int d = 0; d < l->ndim; d++) {
        l->shape[d] = b->desc->dim[d].size;
        CHECK(l->shape[d] >= 0, at(b->where->dim[d], "dim %d", d), "its size is %" PRId64, l->shape[d]);
    }
    RSH_TRY(count_elements(b));
    bool listed = b->desc->nboxes > 0 ? b->desc->boxes != NULL : b->desc->nboxes == 0;
    CHECK(listed, at(b->where->boxes, "boxes"), "%" PRId64 " of them, but no list", b->desc->nboxes);
    l->boxes = rshi_calloc((size_t)b->desc->nboxes, sizeof *l->boxes);
    if (!l->boxes) return rshi_nomem();
    l->nboxes = b->desc->nboxes;
    for (int64_t i = 0; i < l->nboxes; i++) RSH_TRY(build_box(b, i));
    RSH_TRY(rshi_boxes_check(l, b->where));
    RSH_TRY(rshi_boxes_arrange(l));
    return rshi_boxes_index(l);
}

static rsh_status build_placement(builder *b) {
    RSH_TRY(build_mesh(b));
    RSH_TRY(build_ranks(b));
    for (int d = 0; d < b->l->ndim; d++) RSH_TRY(build_dim(b, d));
    RSH_TRY(count_elements(b));
    RSH_TRY(build_flat(b));
    RSH_TRY(build_partial(b));
    return build_order(b);
}

static rsh_status build_all(builder *b) {
    rsh_layout *l = b->l;
    RSH_TRY(check_counts(b));
    l->dtype = b->desc->dtype;
    l->ndim = b->desc->ndim;
    RSH_TRY(b->desc->is_boxes ? build_boxes(b) : build_placement(b));
    rshi_text text = {0};
    rshi_layout_write(l, &text);
    l->text = text.data;
    if (text.failed) return rshi_nomem();
    l->hash = rshi_hash(text.data, text.length, 0);
    return RSH_OK;
}

rsh_status rshi_layout_build(const rsh_layout_desc *desc, const rshi_where *where, rsh_layout **out) {
    static const rshi_where nowhere;
    builder b = {.desc = desc, .where = where ? where : &nowhere, .l = RSHI_NEW(rsh_layout)};
    if (!b.l) return rshi_nomem();
    rsh_status st = build_all(&b);
    if (!st) *out = b.l;
    if (st) rsh_layout_free(b.l);
    return st;
}

rsh_status rsh_layout_new(const rsh_layout_desc *desc, rsh_layout **out) {
    RSH_REQUIRE(desc && out, RSH_EVALUE, "layout: desc and out must not be NULL");
    return rshi_layout_build(desc, NULL, out);
}

/* The notation has no mesh to say "rank 3 alone"; one box does. */
rsh_status rsh_layout_whole(rsh_dtype dtype, int ndim, const int64_t *shape, int64_t rank, rsh_layout **out) {
    RSH_REQUIRE((shape || !ndim) && out, RSH_EVALUE, "layout: shape and out must not be NULL");
    rsh_ranked_box box = {.nranks = 1, .ranks = &rank};
    rsh_layout_desc desc = {.dtype = dtype, .ndim = ndim, .is_boxes = rank != 0, .nboxes = 1, .boxes = &box};
    for (int d = 0; d < ndim && d < RSH_MAX_NDIM; d++) desc.dim[d].size = box.box.hi[d] = shape[d];
    return rsh_layout_new(&desc, out);
}

void rsh_layout_free(rsh_layout *l) {
    if (!l) return;
    for (int d = 0; d < l->ndim; d++) {
        for (int s = 0; s < l->dim[d].nsegments; s++) rshi_free(l->dim[d].segment[s].cut.starts);
        rshi_free(l->dim[d].segment);
    }
    for (int64_t i = 0; i < l->nboxes; i++) rshi_free(l->boxes[i].ranks);
    rshi_free(l->flat.starts);
    rshi_free(l->ranks);
    rshi_free(l->boxes);
    rshi_free(l->box_of);
    rshi_free(l->by_start);
    rshi_free(l->reach);
    rshi_free(l->entry);
    rshi_free(l->text);
    rshi_free(l);
}
