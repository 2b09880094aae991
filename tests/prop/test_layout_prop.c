/* Layouts compared with the oracle: canonical text, parts that tile the tensor, and every getter of a part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "prop.h"

typedef struct both {
    rsh_layout *l;
    ora_layout *o;
} both;

static bool both_new(prop_case *c, const char *text, both *b) {
    b->o = ora_parse(text);
    PROP_OK(c, rsh_layout_parse(text, &b->l));
    return true;
}

static void both_free(both *b) {
    rsh_layout_free(b->l);
    ora_free(b->o);
    *b = (both){0};
}

/* Draws a layout of any form; one of four is partial. */
static void any_layout(prop_case *c) {
    char other[GEN_TEXT];
    gen_pair_wish w = {30, 30, true, true, 12, false};
    gen_pair(&c->rng, &w, c->from, other);
}

static bool says_what_was_written(prop_case *c, const both *b) {
    PROP(c, (int)rsh_layout_dtype(b->l) == (int)b->o->dtype, "dtype is %s", rsh_dtype_name(rsh_layout_dtype(b->l)));
    PROP(c, (int)rsh_layout_op(b->l) == (int)b->o->op, "op is %s", rsh_op_name(rsh_layout_op(b->l)));
    PROP(c, rsh_layout_ndim(b->l) == b->o->ndim, "ndim is %d", rsh_layout_ndim(b->l));
    PROP(c, rsh_layout_count(b->l) == b->o->count, "count is %lld", (long long)rsh_layout_count(b->l));
    for (int d = 0; d < b->o->ndim; d++)
        PROP(c, rsh_layout_shape(b->l)[d] == b->o->shape[d], "shape[%d] is %lld", d,
             (long long)rsh_layout_shape(b->l)[d]);
    return true;
}

static bool has_the_ranks(prop_case *c, const both *b) {
    int64_t n = 0;
    for (int64_t i = 0; i < b->o->nparts; i++) {
        const ora_part *p = &b->o->part[i];
        if (p->number == 0) {
            PROP(c, n < rsh_layout_nranks(b->l), "only %lld ranks", (long long)n);
            PROP(c, rsh_layout_rank(b->l, n) == p->rank, "rank %lld is %lld", (long long)n,
                 (long long)rsh_layout_rank(b->l, n));
            n++;
        }
        PROP(c, rsh_layout_nparts(b->l, p->rank) > p->number, "rank %lld has too few parts", (long long)p->rank);
    }
    PROP(c, rsh_layout_nranks(b->l) == n, "%lld ranks, not %lld", (long long)rsh_layout_nranks(b->l), (long long)n);
    for (int64_t r = 0; r < GEN_MAX_ROLES + 2; r++)
        PROP(c, ora_has_rank(b->o, r) || rsh_layout_nparts(b->l, r) == 0, "rank %lld should hold nothing",
             (long long)r);
    return true;
}

static bool has_shape_and_strides(prop_case *c, const both *b, const ora_part *p) {
    rsh_part part;
    int64_t stride = 1;
    PROP_OK(c, rsh_layout_part(b->l, p->rank, p->number, &part));
    PROP(c, part.count == p->count, "rank %lld: count %lld, not %lld", (long long)p->rank, (long long)part.count,
         (long long)p->count);
    PROP(c, part.ndim == p->ndim, "rank %lld: ndim %d, not %d", (long long)p->rank, part.ndim, p->ndim);
    for (int i = p->ndim - 1; i >= 0; i--) {
        int d = p->order[i];
        PROP(c, part.shape[d] == p->shape[d], "rank %lld: shape[%d] is %lld, not %lld", (long long)p->rank, d,
             (long long)part.shape[d], (long long)p->shape[d]);
        PROP(c, p->count == 0 || p->shape[d] == 1 || part.strides[d] == stride,
             "rank %lld: strides[%d] is %lld, not %lld", (long long)p->rank, d, (long long)part.strides[d],
             (long long)stride);
        stride *= p->shape[d];
    }
    return true;
}

static bool finds_every_element(prop_case *c, const both *b, const ora_part *p) {
    int64_t index[ORA_MAX], offset;
    for (int64_t i = 0; i < p->count; i++) {
        PROP_OK(c, rsh_layout_global_index(b->l, p->rank, p->number, i, index));
        PROP(c, ora_linear(b->o, index) == p->element[i], "rank %lld offset %lld is element %lld, not %lld",
             (long long)p->rank, (long long)i, (long long)ora_linear(b->o, index), (long long)p->element[i]);
        ora_unravel(b->o, p->element[i], index);
        PROP_OK(c, rsh_layout_local_offset(b->l, p->rank, p->number, index, &offset));
        PROP(c, offset == i, "rank %lld: element %lld at %lld, not %lld", (long long)p->rank, (long long)p->element[i],
             (long long)offset, (long long)i);
    }
    PROP(c, rsh_layout_global_index(b->l, p->rank, p->number, p->count, index) == RSH_EINDEX,
         "an offset past the end is taken");
    return true;
}

static bool refuses_elements_of_others(prop_case *c, const both *b, const ora_part *p) {
    char *mine = prop_alloc((size_t)b->o->count);
    int64_t index[ORA_MAX], offset, wrong = -1;
    for (int64_t i = 0; i < p->count; i++) mine[p->element[i]] = 1;
    for (int64_t e = 0; e < b->o->count && wrong < 0; e++) {
        ora_unravel(b->o, e, index);
        if (!mine[e] && rsh_layout_local_offset(b->l, p->rank, p->number, index, &offset) != RSH_EKEY) wrong = e;
    }
    free(mine);
    PROP(c, wrong < 0, "rank %lld says that it holds element %lld", (long long)p->rank, (long long)wrong);
    return true;
}

typedef struct box_walk {
    const ora_layout *o;
    const ora_part *p;
    int64_t seen, last_offset;
    bool wrong;
} box_walk;

static int check_box(void *ctx, const rsh_box *box, int64_t offset, const int64_t *strides) {
    box_walk *w = ctx;
    int64_t index[ORA_MAX], at = offset;
    memcpy(index, box->lo, sizeof index);
    w->wrong = w->wrong || offset <= w->last_offset;
    w->last_offset = offset;
    for (int d = 0; d < w->o->ndim; d++) w->wrong = w->wrong || box->lo[d] >= box->hi[d];
    while (!w->wrong) {
        w->wrong = at < 0 || at >= w->p->count || w->p->element[at] != ora_linear(w->o, index);
        w->seen++;
        int d = w->o->ndim - 1;
        for (; d >= 0; d--) {
            at += strides[d];
            if (++index[d] < box->hi[d]) break;
            at -= strides[d] * (box->hi[d] - box->lo[d]);
            index[d] = box->lo[d];
        }
        if (d < 0) break;
    }
    return w->wrong;
}

static bool is_made_of_its_boxes(prop_case *c, const both *b, const ora_part *p) {
    box_walk w = {b->o, p, 0, -1, false};
    PROP_OK(c, rsh_layout_each_box(b->l, p->rank, p->number, check_box, &w));
    PROP(c, !w.wrong, "rank %lld: a box at offset %lld is empty, out of order or elsewhere", (long long)p->rank,
         (long long)w.last_offset);
    PROP(c, w.seen == p->count, "rank %lld: boxes hold %lld of %lld", (long long)p->rank, (long long)w.seen,
         (long long)p->count);
    return true;
}

typedef struct range_walk {
    char in[2048];
    int64_t end, size, length;
    bool wrong;
} range_walk;

static int check_range(void *ctx, int64_t lo, int64_t hi) {
    range_walk *w = ctx;
    w->wrong = w->wrong || lo < w->end || hi <= lo || hi > w->length;
    if (w->wrong) return 1;
    memset(w->in + lo, 1, (size_t)(hi - lo));
    w->size += hi - lo;
    w->end = hi;
    return 0;
}

static bool has_the_index_set(prop_case *c, const both *b, const ora_part *p, int d) {
    range_walk w = {.length = b->o->shape[d]};
    int64_t index[ORA_MAX];
    rsh_status status = rsh_layout_each_range(b->l, p->rank, p->number, d, check_range, &w);
    if (b->o->flat.naxes) {
        PROP(c, status == RSH_EUNSUP, "a flat part has an index set");
        return true;
    }
    PROP(c, status == RSH_OK && !w.wrong, "rank %lld dim %d: %s, or a range out of order", (long long)p->rank, d,
         rsh_status_name(status));
    PROP(c, w.size == p->shape[d], "rank %lld dim %d: %lld indices", (long long)p->rank, d, (long long)w.size);
    for (int64_t i = 0; i < p->count; i++) {
        ora_unravel(b->o, p->element[i], index);
        PROP(c, w.in[index[d]], "rank %lld dim %d: index %lld is missing", (long long)p->rank, d, (long long)index[d]);
    }
    return true;
}

static bool every_part_is_the_oracles(prop_case *c, const both *b) {
    rsh_part none;
    for (int64_t i = 0; i < b->o->nparts; i++) {
        const ora_part *p = &b->o->part[i];
        if (!has_shape_and_strides(c, b, p) || !finds_every_element(c, b, p)) return false;
        if (!refuses_elements_of_others(c, b, p) || !is_made_of_its_boxes(c, b, p)) return false;
        for (int d = 0; d < b->o->ndim; d++)
            if (!has_the_index_set(c, b, p, d)) return false;
        PROP(c, rsh_layout_part(b->l, p->rank, rsh_layout_nparts(b->l, p->rank), &none) == RSH_EINDEX,
             "one part too many");
    }
    return true;
}

static bool parts(prop_case *c) {
    both b = {0};
    any_layout(c);
    bool ok = both_new(c, c->from, &b) && says_what_was_written(c, &b) && has_the_ranks(c, &b) &&
              every_part_is_the_oracles(c, &b);
    both_free(&b);
    return ok;
}

static bool same_text(prop_case *c, const rsh_layout *a, const char *spelling) {
    rsh_layout *b = NULL;
    PROP_OK(c, rsh_layout_parse(spelling, &b));
    bool same = !strcmp(rsh_layout_text(a), rsh_layout_text(b)) && rsh_layout_equal(a, b) &&
                rsh_layout_hash(a) == rsh_layout_hash(b) && rsh_layout_same_parts(a, b);
    if (!same) prop_say(c, "\"%s\" becomes \"%.600s\"", spelling, rsh_layout_text(b));
    rsh_layout_free(b);
    return same;
}

static bool text_keeps_the_parts(prop_case *c, const both *b) {
    ora_layout *printed = ora_parse(rsh_layout_text(b->l));
    bool same = ora_same_parts(b->o, printed) && b->o->dtype == printed->dtype && b->o->op == printed->op;
    for (int64_t i = 0; same && i < printed->nparts; i++) same = printed->part[i].partial == b->o->part[i].partial;
    ora_free(printed);
    PROP(c, same, "the canonical text means something else: %.1000s", rsh_layout_text(b->l));
    return true;
}

static bool describes_itself(prop_case *c, const rsh_layout *l) {
    rsh_layout *again = NULL;
    PROP_OK(c, rsh_layout_new(rsh_layout_describe(l), &again));
    bool same = rsh_layout_equal(l, again) && rsh_layout_same_parts(l, again) &&
                !strcmp(rsh_layout_text(l), rsh_layout_text(again));
    if (!same) prop_say(c, "its description makes %.1000s", rsh_layout_text(again));
    rsh_layout_free(again);
    return same;
}

static bool round_trip(prop_case *c) {
    both b = {0};
    char spelling[2 * GEN_TEXT], canonical[2 * GEN_TEXT];
    any_layout(c);
    bool ok = both_new(c, c->from, &b) && text_keeps_the_parts(c, &b) && describes_itself(c, b.l);
    if (ok) {
        strncpy(canonical, rsh_layout_text(b.l), sizeof canonical - 1);
        canonical[sizeof canonical - 1] = 0;
        gen_respell(&c->rng, c->from, spelling);
        ok = same_text(c, b.l, canonical) && same_text(c, b.l, spelling);
    }
    both_free(&b);
    return ok;
}

static rsh_cut cut_of(const ora_cut *o) {
    rsh_cut cut = {.naxes = o->naxes, .number = o->number, .sizes = o->sizes, .nsizes = o->nsizes};
    const char *rules = "~:%{", *at = o->rule ? strchr(rules, o->rule) : NULL;
    memcpy(cut.axes, o->axis, sizeof cut.axes);
    cut.rule = at ? (rsh_cut_rule)(RSH_CUT_BALANCED + (at - rules)) : RSH_CUT_CHUNK;
    return cut;
}

typedef struct built {
    rsh_layout_desc desc;
    rsh_segment segment[ORA_MAX][ORA_MAX_SEGMENTS];
    rsh_ranked_box box[GEN_MAX_BOXES * GEN_MAX_ROLES];
    int64_t rank[GEN_MAX_BOXES * GEN_MAX_ROLES];
} built;

static void describe_dims(const ora_layout *o, built *b) {
    for (int d = 0; d < o->ndim; d++) {
        const ora_dim *dim = &o->dim[d];
        b->desc.dim[d].size = o->shape[d];
        if (dim->nsegments == 1) {
            b->desc.dim[d].cut = cut_of(&dim->segment[0].cut);
            continue;
        }
        for (int s = 0; s < dim->nsegments; s++)
            b->segment[d][s] = (rsh_segment){dim->segment[s].size, cut_of(&dim->segment[s].cut)};
        b->desc.dim[d].nsegments = dim->nsegments;
        b->desc.dim[d].segment = b->segment[d];
    }
}

static void describe_mesh(const ora_layout *o, built *b) {
    rsh_layout_desc *desc = &b->desc;
    desc->flat = cut_of(&o->flat);
    desc->naxes = o->naxes;
    desc->ranks = o->naxes ? o->rank_of : NULL;
    desc->op = (rsh_op)o->op;
    for (int a = 0; a < o->naxes; a++) {
        memcpy(desc->axis[a].name, o->axis[a], sizeof desc->axis[a].name);
        desc->axis[a].size = o->axis_size[a];
        if (o->is_partial[a]) desc->partial[desc->npartial++] = a;
    }
    desc->has_order = !o->flat.naxes && o->ndim > 0;
    memcpy(desc->order, o->order, sizeof desc->order);
}

static bool same_box(const ora_box *a, const ora_box *b) {
    return !memcmp(a->lo, b->lo, sizeof a->lo) && !memcmp(a->hi, b->hi, sizeof a->hi);
}

static bool stands_in(const rsh_ranked_box *box, int64_t rank) {
    for (int64_t k = 0; k < box->nranks; k++)
        if (box->ranks[k] == rank) return true;
    return false;
}

/* Describes boxes.  Adjacent entries of the oracle with the same box were written as one box on several ranks; if a
 * rank has it twice, as two boxes. */
static void describe_boxes(const ora_layout *o, built *b) {
    b->desc.is_boxes = true;
    b->desc.boxes = b->box;
    for (int64_t i = 0; i < o->nboxes; i++) {
        rsh_ranked_box *box = &b->box[b->desc.nboxes];
        b->rank[i] = o->box[i].rank;
        if (i > 0 && same_box(&o->box[i], &o->box[i - 1]) && !stands_in(box - 1, o->box[i].rank)) {
            box[-1].nranks++;
            continue;
        }
        b->desc.nboxes++;
        box->nranks = 1;
        box->ranks = &b->rank[i];
        memcpy(box->box.lo, o->box[i].lo, sizeof box->box.lo);
        memcpy(box->box.hi, o->box[i].hi, sizeof box->box.hi);
    }
}

static bool built_like_written(prop_case *c, const both *b, const built *what) {
    rsh_layout *made = NULL;
    PROP_OK(c, rsh_layout_new(&what->desc, &made));
    bool same = rsh_layout_same_parts(made, b->l), ok = same;
    if (!same) prop_say(c, "built from values it is %.1000s", rsh_layout_text(made));
    ok = ok && same_text(c, made, rsh_layout_text(made));
    rsh_layout_free(made);
    return ok;
}

static bool from_values(prop_case *c) {
    both b = {0};
    any_layout(c);
    bool ok = both_new(c, c->from, &b);
    if (ok) {
        built *what = prop_alloc(sizeof *what);
        what->desc.dtype = (rsh_dtype)b.o->dtype;
        what->desc.ndim = b.o->ndim;
        describe_dims(b.o, what);
        if (b.o->is_boxes)
            describe_boxes(b.o, what);
        else
            describe_mesh(b.o, what);
        ok = built_like_written(c, &b, what);
        free(what);
    }
    both_free(&b);
    return ok;
}

/* Compares the elements of every rank, one part after the other: what it holds, however it is split. */
static bool same_holdings(const ora_layout *a, const ora_layout *b) {
    for (int64_t r = 0; r < GEN_MAX_ROLES; r++) {
        int64_t i = 0, j = 0, x = 0, y = 0;
        for (;;) {
            while (i < a->nparts && (a->part[i].rank != r || x == a->part[i].count)) i++, x = 0;
            while (j < b->nparts && (b->part[j].rank != r || y == b->part[j].count)) j++, y = 0;
            if (i == a->nparts || j == b->nparts) break;
            if (a->part[i].element[x++] != b->part[j].element[y++]) return false;
        }
        if (i != a->nparts || j != b->nparts) return false;
    }
    return true;
}

/* Draws layouts that are so small that two of them often hold the same elements. */
static void small_pair(prop_case *c) {
    gen_wish w = {
        .shape = {.ndim = (int)gen_between(&c->rng, 1, 2)}, .dtype = ORA_F32, .max_ranks = 3, .replicas = true};
    const int64_t rank[] = {0, 1, 2, 3};
    gen_layout l;
    for (int d = 0; d < w.shape.ndim; d++) w.shape.size[d] = gen_between(&c->rng, 1, 4);
    gen_any_layout(&c->rng, &w, &l);
    gen_text(&l, rank, c->from);
    gen_any_layout(&c->rng, &w, &l);
    gen_text(&l, rank, c->to);
}

static bool same_parts_check(prop_case *c, const both *a, const both *b) {
    bool strict = ora_same_parts(a->o, b->o), found = rsh_layout_same_parts(a->l, b->l);
    /* with empty parts or other boundaries either answer is allowed */
    if (strict != same_holdings(a->o, b->o)) return true;
    PROP(c, found == strict, "same_parts says %d, the oracle %d", found, strict);
    PROP(c, rsh_layout_same_parts(b->l, a->l) == found, "same_parts is not symmetric");
    PROP(c, rsh_layout_equal(a->l, b->l) == !strcmp(rsh_layout_text(a->l), rsh_layout_text(b->l)),
         "equal is not equal text");
    PROP(c, !rsh_layout_equal(a->l, b->l) || rsh_layout_hash(a->l) == rsh_layout_hash(b->l),
         "equal layouts, other hash");
    return true;
}

static bool sameness(prop_case *c) {
    both a = {0}, b = {0};
    small_pair(c);
    bool ok = both_new(c, c->from, &a) && both_new(c, c->to, &b) && same_parts_check(c, &a, &b);
    both_free(&a);
    both_free(&b);
    return ok;
}

static void parts_are_those_of_the_oracle(void **state) { (void)state; prop_run("parts", 1000, parts); }
static void canonical_text_parses_back_to_the_same_layout(void **state) {
    (void)state;
    prop_run("round_trip", 800, round_trip);
}
static void a_layout_from_values_equals_the_one_from_text(void **state) {
    (void)state;
    prop_run("from_values", 400, from_values);
}
static void same_parts_asks_what_ranks_hold(void **state) { (void)state; prop_run("sameness", 600, sameness); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_those_of_the_oracle),
        cmocka_unit_test(canonical_text_parses_back_to_the_same_layout),
        cmocka_unit_test(a_layout_from_values_equals_the_one_from_text),
        cmocka_unit_test(same_parts_asks_what_ranks_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
