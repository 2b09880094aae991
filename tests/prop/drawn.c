/* Drawn: random descriptions, in every form of the notation. */
#include "drawn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum use { REPLICATES, CUTS, CUTS_FLAT, IS_PARTIAL } use;

/* A description under construction. */
typedef struct drawing {
    gen_rng *g;
    const drawn_wish *wish;
    drawn *d;
    rsh_layout_desc *l; /* the description in `d` */
    use use[RSH_MAX_AXES];
    int dim[RSH_MAX_AXES]; /* the dim that each axis cuts */
    bool flat;
    int64_t copies; /* number of copies of every element so far */
} drawing;

static int64_t any_axis_size(gen_rng *g, int64_t room) {
    int64_t most = gen_chance(g, 40) ? 8 : gen_chance(g, 50) ? (int64_t)sqrt((double)room) : room;
    return gen_between(g, room > 1 ? 2 : 1, most < room ? most : room);
}

static use any_use(drawing *w, int64_t size) {
    if (w->wish->op != RSH_OP_NONE && gen_chance(w->g, 10)) return IS_PARTIAL;
    if (w->copies * size <= w->wish->copies && gen_chance(w->g, 15)) {
        w->copies *= size;
        return REPLICATES;
    }
    return w->flat && gen_chance(w->g, 50) ? CUTS_FLAT : CUTS;
}

static void add_axis(drawing *w, int64_t size, use use) {
    static const char *const name[] = {"x", "y", "dp", "tp", "kv"};
    int a = w->l->naxes++;
    snprintf(w->l->axis[a].name, sizeof w->l->axis[a].name, "%s", name[a]);
    w->l->axis[a].size = size;
    w->use[a] = use;
    w->dim[a] = gen_chance(w->g, 75) ? w->wish->dim : (int)gen_below(w->g, w->wish->ndim);
    if (use == IS_PARTIAL) w->l->partial[w->l->npartial++] = a;
}

/* Draws one to three axes, and one of them as partial if needed. */
static void draw_axes(drawing *w) {
    bool partial = w->wish->op != RSH_OP_NONE;
    int64_t size[3], room = partial ? w->wish->ranks / w->wish->partial : w->wish->ranks;
    int n = (int)gen_between(w->g, 1, 3), where = partial ? (int)gen_below(w->g, n + 1) : -1;
    if (room < 1) room = 1;
    for (int i = 0; i < n; i++) {
        size[i] = i == n - 1 ? room : any_axis_size(w->g, room);
        room /= size[i];
    }
    gen_shuffle(w->g, n, size);
    for (int i = 0; i <= n; i++) {
        if (i == where) add_axis(w, w->wish->partial, IS_PARTIAL);
        if (i < n) add_axis(w, size[i], any_use(w, size[i]));
    }
}

/* Lists the axes with this use (and dim) in any order. */
static int pick_axes(const drawing *w, use use, int dim, int64_t *axis) {
    int n = 0;
    for (int a = 0; a < w->l->naxes; a++)
        if (w->use[a] == use && (use != CUTS || w->dim[a] == dim)) axis[n++] = a;
    gen_shuffle(w->g, n, axis);
    return n;
}

/* Draws a block size that gives every part several blocks, or at most one. */
static int64_t any_block(gen_rng *g, int64_t size, int64_t parts) {
    int64_t each = size / parts;
    return gen_chance(g, 60) ? gen_between(g, 1, each / 3 + 1) : gen_between(g, each + 1, each + each / 2 + 2);
}

/* Draws a cut of `size` elements along n axes.  `sizes`: room for explicit sizes; NULL: explicit sizes are not
 * allowed. */
static rsh_cut draw_cut(const drawing *w, int n, const int64_t *axis, int64_t size, bool cyclic, int64_t *sizes) {
    rsh_cut cut = {.naxes = n};
    int64_t parts = 1, way = gen_below(w->g, 8);
    for (int i = 0; i < n; i++) {
        cut.axes[i] = (int)axis[i];
        parts *= w->l->axis[axis[i]].size;
    }
    if (way == 0) cut.rule = RSH_CUT_BALANCED;
    if (way == 1) cut.rule = RSH_CUT_UNIT, cut.number = gen_between(w->g, 1, size / parts / 2 + 2);
    if ((way == 2 || way == 3) && cyclic) cut.rule = RSH_CUT_CYCLIC, cut.number = any_block(w->g, size, parts);
    if (way == 4 && sizes) {
        cut.rule = RSH_CUT_SIZES, cut.sizes = sizes, cut.nsizes = parts;
        for (int64_t i = 0; i < size; i++) sizes[gen_below(w->g, parts)]++;
    }
    return cut;
}

/* Selects some of the axes: at least `least`, and enough of them that there are not too many copies. */
static int pick_some(const drawing *w, int n, int64_t *axis, int least) {
    int64_t copies = w->copies;
    int mine = 0;
    gen_shuffle(w->g, n, axis);
    for (int i = 0; i < n; i++) {
        int64_t size = w->l->axis[axis[i]].size;
        if (copies * size <= w->wish->copies && gen_chance(w->g, 50))
            copies *= size;
        else
            axis[mine++] = axis[i];
    }
    return mine < least ? least : mine;
}

/* Draws segments such as (a|b|c)/x, or (a/(x,y)|b/x|c): some segments name fewer axes, and at least one names one.
 * Flat ranges over the latter are expensive to plan, so they are rare. */
static void draw_segments(drawing *w, int d, int n, const int64_t *axis) {
    rsh_dim *dim = &w->l->dim[d];
    rsh_segment *segment = w->d->segment[d];
    int64_t size[DRAWN_SEGMENTS], some[RSH_MAX_AXES];
    bool own = gen_chance(w->g, 60) && (!w->flat || w->wish->ranks < 100);
    dim->nsegments = (int)gen_between(w->g, 2, DRAWN_SEGMENTS);
    dim->segment = segment;
    gen_split(w->g, dim->size, dim->nsegments, size);
    int sure = (int)gen_below(w->g, dim->nsegments);
    for (int s = 0; s < dim->nsegments; s++) {
        memcpy(some, axis, sizeof some);
        int mine = own ? pick_some(w, n, some, s == sure) : 0;
        segment[s].size = size[s];
        if (mine) segment[s].cut = draw_cut(w, mine, some, size[s], true, w->d->segment_sizes[d][s]);
    }
    if (!own) dim->cut = draw_cut(w, n, axis, dim->size / dim->nsegments, true, NULL);
}

static void draw_dim(drawing *w, int d) {
    int64_t axis[RSH_MAX_AXES] = {0};
    int n = pick_axes(w, CUTS, d, axis);
    w->l->dim[d].size = w->wish->shape[d];
    if (n && !w->wish->plain && gen_chance(w->g, 25))
        draw_segments(w, d, n, axis);
    else if (n)
        w->l->dim[d].cut = draw_cut(w, n, axis, w->wish->shape[d], true, w->d->sizes[d]);
}

static void draw_flat(drawing *w) {
    int64_t axis[RSH_MAX_AXES], count = 1;
    int n = pick_axes(w, CUTS_FLAT, 0, axis);
    bool cut = false;
    for (int a = 0; a < w->l->naxes; a++) cut = cut || w->use[a] == CUTS;
    for (int d = 0; d < w->wish->ndim; d++) count *= w->wish->shape[d];
    if (n) w->l->flat = draw_cut(w, n, axis, count, false, cut ? NULL : w->d->sizes[DRAWN_DIMS]);
}

static void draw_order(drawing *w) {
    int64_t dim[DRAWN_DIMS] = {0, 1, 2};
    if (w->l->flat.naxes || !gen_chance(w->g, 20)) return;
    gen_shuffle(w->g, w->wish->ndim, dim);
    w->l->has_order = true;
    for (int d = 0; d < w->wish->ndim; d++) w->l->order[d] = (int)dim[d];
}

/* Draws ranks in order, as a range, or in any order. */
static void draw_ranks(drawing *w, int64_t n) {
    int64_t *rank = w->d->rank, way = gen_below(w->g, 10), first = gen_below(w->g, DRAWN_NAMES - n + 1);
    for (int64_t i = 0; i < DRAWN_NAMES; i++) rank[i] = i;
    if (way >= 7) {
        gen_shuffle(w->g, DRAWN_NAMES, rank);
        w->l->ranks = rank;
    } else if (way >= 4) {
        for (int64_t i = 0; i < n; i++) rank[i] = first + i;
        w->l->first_rank = first;
    }
}

static void draw_mesh(drawing *w) {
    int64_t positions = 1;
    w->flat = !w->wish->plain && gen_chance(w->g, 25);
    draw_axes(w);
    for (int d = 0; d < w->wish->ndim; d++) draw_dim(w, d);
    draw_flat(w);
    draw_order(w);
    for (int a = 0; a < w->l->naxes; a++) positions *= w->l->axis[a].size;
    draw_ranks(w, positions);
    if (w->l->npartial) w->l->op = w->wish->op;
}

/* ---- boxes ---- */

/* Cuts a random box in two, if any box can be cut. */
static bool cut_box(drawing *w) {
    rsh_box *old = &w->d->box[gen_below(w->g, w->l->nboxes)].box, *new = &w->d->box[w->l->nboxes].box;
    int d = (int)gen_below(w->g, w->wish->ndim);
    if (old->hi[d] - old->lo[d] < 2) return false;
    *new = *old;
    old->hi[d] = new->lo[d] = gen_between(w->g, old->lo[d] + 1, old->hi[d] - 1);
    w->l->nboxes++;
    return true;
}

/* Assigns a box to one rank, or to a few that are adjacent in the list. */
static void give_box(const drawing *w, int64_t b) {
    int64_t ranks = w->wish->ranks, first = gen_below(w->g, ranks), most = ranks < DRAWN_COPIES ? ranks : DRAWN_COPIES;
    rsh_ranked_box *box = &w->d->box[b];
    box->nranks = gen_chance(w->g, 20) ? gen_between(w->g, 1, most) : 1;
    box->ranks = w->d->holder[b];
    for (int64_t i = 0; i < box->nranks; i++) w->d->holder[b][i] = w->d->rank[(first + i) % ranks];
}

static void draw_boxes(drawing *w) {
    int64_t wanted = w->wish->ranks / 2 + gen_below(w->g, w->wish->ranks + 1);
    if (wanted > DRAWN_BOXES) wanted = DRAWN_BOXES;
    w->l->is_boxes = true;
    w->l->boxes = w->d->box;
    w->l->nboxes = 1;
    for (int d = 0; d < w->wish->ndim; d++) w->l->dim[d].size = w->d->box[0].box.hi[d] = w->wish->shape[d];
    for (int64_t tries = 0; w->l->nboxes < wanted && tries < 4 * wanted; tries++) cut_box(w);
    draw_ranks(w, w->wish->ranks);
    w->l->ranks = NULL, w->l->first_rank = 0;
    for (int64_t b = 0; b < w->l->nboxes; b++) give_box(w, b);
}

rsh_status drawn_new(gen_rng *g, const drawn_wish *wish, drawn *d) {
    drawing w = {.g = g, .wish = wish, .d = d, .l = &d->desc, .copies = 1};
    d->desc.dtype = wish->dtype;
    d->desc.ndim = wish->ndim;
    if (wish->op == RSH_OP_NONE && gen_chance(g, 15))
        draw_boxes(&w);
    else
        draw_mesh(&w);
    rsh_status st = rsh_layout_new(&d->desc, &d->layout);
    if (!st) drawn_know(d);
    return st;
}

rsh_status drawn_parse(const char *text, drawn *d) {
    rsh_status st = rsh_layout_parse(text, &d->layout);
    if (st) return st;
    d->desc = *rsh_layout_describe(d->layout);
    drawn_know(d);
    return RSH_OK;
}
