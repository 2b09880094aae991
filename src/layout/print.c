/* Print: what a layout says of itself: its canonical text with all that rests on it (equality, hash, copy), and plain
 * facts. */
#include "layout/impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* `separator` before every item but the first. */
static void add_number(rshi_text *t, int64_t i, const char *separator, int64_t number) {
    rshi_text_add(t, "%s%" PRId64, i ? separator : "", number);
}

static void write_cut(const rsh_layout *l, const rshi_cut *c, rshi_text *t) {
    if (!c->naxes) return;
    rshi_text_add(t, c->naxes > 1 ? "/(" : "/");
    for (int i = 0; i < c->naxes; i++) rshi_text_add(t, "%s%s", i ? "," : "", l->axis[c->axes[i]].name);
    if (c->naxes > 1) rshi_text_add(t, ")");
    if (c->rule == RSH_RULE_BALANCED) rshi_text_add(t, "~");
    if (c->rule == RSH_RULE_CYCLIC) rshi_text_add(t, ":%" PRId64, c->number);
    if (c->rule == RSH_RULE_UNIT) rshi_text_add(t, "%%%" PRId64, c->number);
    if (c->rule != RSH_RULE_SIZES) return;
    rshi_text_add(t, "{");
    for (int64_t i = 0; i < c->parts; i++) add_number(t, i, ",", c->starts[i + 1] - c->starts[i]);
    rshi_text_add(t, "}");
}

static void write_dim(const rsh_layout *l, const rshi_dim *dim, rshi_text *t) {
    if (dim->nsegments > 1) rshi_text_add(t, "(");
    for (int s = 0; s < dim->nsegments; s++) {
        add_number(t, s, "|", dim->segment[s].size);
        if (!dim->group_cut) write_cut(l, &dim->segment[s].cut, t);
    }
    if (dim->nsegments > 1) rshi_text_add(t, ")");
    if (dim->group_cut) write_cut(l, &dim->segment->cut, t);
}

static void write_ranks(const rsh_layout *l, rshi_text *t) {
    if (!l->ranks && l->first_rank)
        rshi_text_add(t, "@%" PRId64 "-%" PRId64, l->first_rank, l->first_rank + l->npositions - 1);
    if (!l->ranks) return;
    rshi_text_add(t, "@[");
    for (int64_t i = 0; i < l->npositions; i++) add_number(t, i, ",", l->ranks[i]);
    rshi_text_add(t, "]");
}

static void write_mesh(const rsh_layout *l, rshi_text *t) {
    if (!l->naxes) return;
    for (int i = 0; i < l->naxes; i++)
        rshi_text_add(t, "%s%s=%" PRId64, i ? "," : " on ", l->axis[i].name, l->axis[i].size);
    write_ranks(l, t);
}

static void write_partial(const rsh_layout *l, rshi_text *t) {
    const char *before = "(";
    if (!l->partial) return;
    rshi_text_add(t, " %s", rsh_op_name(l->op));
    for (int i = 0; i < l->naxes; i++) {
        if (!(l->partial & 1u << i)) continue;
        rshi_text_add(t, "%s%s", before, l->axis[i].name);
        before = ",";
    }
    rshi_text_add(t, ")");
}

static void write_order(const rsh_layout *l, rshi_text *t) {
    if (!l->has_order) return;
    rshi_text_add(t, " order(");
    for (int i = 0; i < l->ndim; i++) add_number(t, i, ",", l->order[i]);
    rshi_text_add(t, ")");
}

static void write_box(const rsh_layout *l, const rshi_ranked_box *box, rshi_text *t) {
    rshi_text_add(t, " ");
    for (int64_t i = 0; i < box->nranks; i++) add_number(t, i, ",", box->ranks[i]);
    rshi_text_add(t, ":[");
    for (int d = 0; d < l->ndim; d++)
        rshi_text_add(t, "%s%" PRId64 ":%" PRId64, d ? "," : "", box->box.lo[d], box->box.hi[d]);
    rshi_text_add(t, "]");
}

static void write_boxes(const rsh_layout *l, rshi_text *t) {
    for (int d = 0; d < l->ndim; d++) add_number(t, d, ", ", l->shape[d]);
    rshi_text_add(t, "] boxes");
    for (int64_t i = 0; i < l->nboxes; i++) write_box(l, &l->boxes[i], t);
}

static void write_placement(const rsh_layout *l, rshi_text *t) {
    for (int d = 0; d < l->ndim; d++) {
        if (d) rshi_text_add(t, ", ");
        write_dim(l, &l->dim[d], t);
    }
    rshi_text_add(t, "]");
    write_cut(l, &l->flat, t);
    write_mesh(l, t);
    write_partial(l, t);
    write_order(l, t);
}

void rshi_layout_write(const rsh_layout *l, rshi_text *t) {
    rshi_text_add(t, "%s[", rsh_dtype_name(l->dtype));
    if (l->is_boxes)
        write_boxes(l, t);
    else
        write_placement(l, t);
}

const char *rsh_layout_text(const rsh_layout *l) { return l ? l->text : NULL; }
uint64_t rsh_layout_hash(const rsh_layout *l) { return l ? l->hash : 0; }

bool rsh_layout_equal(const rsh_layout *a, const rsh_layout *b) {
    return a && b && a->hash == b->hash && !strcmp(a->text, b->text);
}

rsh_status rsh_layout_copy(const rsh_layout *l, rsh_layout **out) {
    RSH_NEEDS(l);
    return rsh_layout_parse(l->text, out);
}

/* ---- plain facts ---- */

rsh_dtype rsh_layout_dtype(const rsh_layout *l) { return l ? l->dtype : RSH_DTYPE_COUNT; }
int rsh_layout_ndim(const rsh_layout *l) { return l ? l->ndim : -1; }
const int64_t *rsh_layout_shape(const rsh_layout *l) { return l ? l->shape : NULL; }
int64_t rsh_layout_count(const rsh_layout *l) { return l ? l->count : 0; }
rsh_op rsh_layout_op(const rsh_layout *l) { return l ? l->op : RSH_OP_NONE; }
int64_t rsh_layout_nranks(const rsh_layout *l) { return l ? l->nranks : 0; }

int64_t rsh_layout_rank(const rsh_layout *l, int64_t i) {
    if (!l || i < 0 || i >= l->nranks) return -1;
    return l->entry ? l->entry[i].rank : l->first_rank + i;
}

static int compare_ranks(const void *x, const void *y) {
    const rshi_rank_entry *a = x, *b = y;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

int64_t rsh_layout_nparts(const rsh_layout *l, int64_t rank) {
    if (!l) return 0;
    if (!l->entry) return rank >= l->first_rank && rank - l->first_rank < l->nranks;
    rshi_rank_entry key = {rank, 0};
    const rshi_rank_entry *found = bsearch(&key, l->entry, (size_t)l->nranks, sizeof key, compare_ranks);
    if (!found) return 0;
    return l->is_boxes ? found[1].value - found[0].value : 1;
}
