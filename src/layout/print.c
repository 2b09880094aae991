/* Print: the canonical text of a layout. */
#include "layout/impl.h"

#include <inttypes.h>
#include <string.h>

/* Appends a number; `separator` precedes every item except the first. */
static void add_number(rshi_text *t, int64_t i, const char *separator, int64_t number) {
    rshi_text_add(t, "%s%" PRId64, i ? separator : "", number);
}

static void write_cut(const rsh_layout *l, const rsh_cut *c, rshi_text *t) {
    if (!c->naxes) return;
    rshi_text_add(t, c->naxes > 1 ? "/(" : "/");
    for (int i = 0; i < c->naxes; i++) rshi_text_add(t, "%s%s", i ? "," : "", l->desc.axis[c->axes[i]].name);
    if (c->naxes > 1) rshi_text_add(t, ")");
    if (c->rule == RSH_CUT_BALANCED) rshi_text_add(t, "~");
    if (c->rule == RSH_CUT_CYCLIC) rshi_text_add(t, ":%" PRId64, c->number);
    if (c->rule == RSH_CUT_UNIT) rshi_text_add(t, "%%%" PRId64, c->number);
    if (c->rule != RSH_CUT_SIZES) return;
    rshi_text_add(t, "{");
    for (int64_t i = 0; i < c->nsizes; i++) add_number(t, i, ",", c->sizes[i]);
    rshi_text_add(t, "}");
}

static void write_dim(const rsh_layout *l, const rsh_dim *dim, rshi_text *t) {
    if (dim->nsegments) rshi_text_add(t, "(");
    for (int s = 0; s < dim->nsegments; s++) {
        add_number(t, s, "|", dim->segment[s].size);
        write_cut(l, &dim->segment[s].cut, t);
    }
    if (dim->nsegments) rshi_text_add(t, ")");
    else rshi_text_add(t, "%" PRId64, dim->size);
    write_cut(l, &dim->cut, t);
}

static void write_ranks(const rsh_layout *l, rshi_text *t) {
    int64_t first = l->desc.first_rank;
    if (first) rshi_text_add(t, "@%" PRId64 "-%" PRId64, first, first + l->npositions - 1);
    if (!l->desc.ranks) return;
    rshi_text_add(t, "@[");
    for (int64_t i = 0; i < l->npositions; i++) add_number(t, i, ",", l->desc.ranks[i]);
    rshi_text_add(t, "]");
}

static void write_mesh(const rsh_layout *l, rshi_text *t) {
    if (!l->desc.naxes) return;
    for (int i = 0; i < l->desc.naxes; i++)
        rshi_text_add(t, "%s%s=%" PRId64, i ? "," : " on ", l->desc.axis[i].name, l->desc.axis[i].size);
    write_ranks(l, t);
}

static void write_partial(const rsh_layout *l, rshi_text *t) {
    if (!l->desc.npartial) return;
    rshi_text_add(t, " %s(", rsh_op_name(l->desc.op));
    for (int i = 0; i < l->desc.npartial; i++)
        rshi_text_add(t, "%s%s", i ? "," : "", l->desc.axis[l->desc.partial[i]].name);
    rshi_text_add(t, ")");
}

static void write_order(const rsh_layout *l, rshi_text *t) {
    if (!l->desc.has_order) return;
    rshi_text_add(t, " order(");
    for (int i = 0; i < l->desc.ndim; i++) add_number(t, i, ",", l->desc.order[i]);
    rshi_text_add(t, ")");
}

static void write_box(const rsh_layout *l, const rsh_ranked_box *box, rshi_text *t) {
    rshi_text_add(t, " ");
    for (int64_t i = 0; i < box->nranks; i++) add_number(t, i, ",", box->ranks[i]);
    rshi_text_add(t, ":[");
    for (int d = 0; d < l->desc.ndim; d++)
        rshi_text_add(t, "%s%" PRId64 ":%" PRId64, d ? "," : "", box->box.lo[d], box->box.hi[d]);
    rshi_text_add(t, "]");
}

static void write_boxes(const rsh_layout *l, rshi_text *t) {
    for (int d = 0; d < l->desc.ndim; d++) add_number(t, d, ", ", l->shape[d]);
    rshi_text_add(t, "] boxes");
    for (int64_t i = 0; i < l->desc.nboxes; i++) write_box(l, &l->desc.boxes[i], t);
}

static void write_placement(const rsh_layout *l, rshi_text *t) {
    for (int d = 0; d < l->desc.ndim; d++) {
        if (d) rshi_text_add(t, ", ");
        write_dim(l, &l->desc.dim[d], t);
    }
    rshi_text_add(t, "]");
    write_cut(l, &l->desc.flat, t);
    write_mesh(l, t);
    write_partial(l, t);
    write_order(l, t);
}

void rshi_layout_write(const rsh_layout *l, rshi_text *t) {
    rshi_text_add(t, "%s[", rsh_dtype_name(l->desc.dtype));
    if (l->desc.is_boxes)
        write_boxes(l, t);
    else
        write_placement(l, t);
}
