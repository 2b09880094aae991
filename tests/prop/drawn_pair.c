/* Drawn pairs: two random layouts of one shape in which a rank has many neighbours. */
#include "drawn.h"

#include <math.h>

enum { MOST_IN_ROW = 50000 }; /* most elements of a 1-D tensor */

/* Draws a shape with about `room` elements in one to three dims, of which dim[0] and dim[1] are long. */
static void any_shape(gen_rng *g, int64_t room, drawn_wish *w, int64_t dim[DRAWN_DIMS]) {
    w->ndim = gen_chance(g, 15) ? 1 : gen_chance(g, 65) ? 2 : 3;
    for (int d = 0; d < DRAWN_DIMS; d++) dim[d] = d;
    gen_shuffle(g, w->ndim, dim);
    if (w->ndim == 1) {
        w->shape[0] = room < MOST_IN_ROW ? room : MOST_IN_ROW;
        return;
    }
    if (w->ndim == 3) room /= w->shape[dim[2]] = gen_between(g, 1, 12);
    int64_t side = (int64_t)sqrt((double)room);
    w->shape[dim[0]] = gen_between(g, side / 3 + 1, 2 * side);
    w->shape[dim[1]] = room / w->shape[dim[0]] + 1;
}

/* Draws numbers of ranks: hundreds to thousands on one side, and as many, other or only a few ranks on the other
 * side. */
static void any_rank_counts(gen_rng *g, int64_t most, drawn_wish *a, drawn_wish *b) {
    int64_t least = most < 400 ? most / 2 : 200, many = gen_between(g, least, most);
    int64_t way = gen_below(g, 10), other = gen_between(g, least, most);
    if (way < 2) other = many;
    if (way >= 6) other = gen_between(g, 1, way < 8 ? 32 : least);
    bool swap = gen_chance(g, 50);
    a->ranks = swap ? other : many;
    b->ranks = swap ? many : other;
}

static int64_t any_partial(gen_rng *g, int64_t ranks) {
    int64_t n = gen_chance(g, 50) ? gen_between(g, 2, 16) : gen_between(g, 2, ranks);
    return n < ranks ? n : ranks;
}

/* Draws ops: in most cases contributions are combined; otherwise the destination is partial as well, or alone. */
static void any_ops(gen_rng *g, drawn_wish *from, drawn_wish *to) {
    static const rsh_op ops[] = {RSH_OP_SUM, RSH_OP_SUM, RSH_OP_AVG, RSH_OP_MAX, RSH_OP_PROD};
    rsh_op op = ops[gen_below(g, 5)];
    int64_t way = gen_below(g, 10);
    if (way > 0) from->op = op, from->partial = any_partial(g, from->ranks);
    if (way > 0 && way < 6) return;
    to->op = op, to->partial = any_partial(g, to->ranks);
    if (way > 7 && from->partial <= to->ranks) to->partial = from->partial;
}

/* Most axes cut the same dim on both sides, or cut different dims, as in rows to columns. */
rsh_status drawn_pair(gen_rng *g, const drawn_pair_wish *w, drawn *from, drawn *to) {
    static const rsh_dtype dtypes[] = {RSH_F32, RSH_F32, RSH_F64, RSH_BF16};
    drawn_wish a = {.dtype = dtypes[gen_below(g, 4)], .copies = w->copies, .plain = w->plain};
    int64_t dim[DRAWN_DIMS];
    any_shape(g, gen_between(g, w->elements / 8, w->elements), &a, dim);
    int long_one = a.ndim > 1 && gen_chance(g, 50);
    a.dim = (int)dim[long_one];
    drawn_wish b = a;
    if (a.ndim > 1 && gen_chance(g, w->crossed)) b.dim = (int)dim[!long_one];
    if (gen_chance(g, 25)) b.dtype = dtypes[gen_below(g, 4)];
    any_rank_counts(g, w->ranks, &a, &b);
    if (w->partial) any_ops(g, &a, &b);
    rsh_status st = drawn_new(g, &a, from);
    return st ? st : drawn_new(g, &b, to);
}

bool drawn_has_same_partials(const drawn *from, const drawn *to) {
    const rsh_layout_desc *a = &from->desc, *b = &to->desc;
    bool same = a->op != RSH_OP_NONE && a->op == b->op && a->npartial == b->npartial;
    for (int i = 0; i < a->npartial && same; i++) same = a->axis[a->partial[i]].size == b->axis[b->partial[i]].size;
    return same;
}
