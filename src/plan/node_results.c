/* Node results: what each node combines in scratch, before nodes exchange anything.
 *
 * All ranks of a group hold a contribution to the same source piece.  The piece is cut along its longest dim into
 * one portion per rank, and in stage 0 every rank combines its portion.  A rank's scratch holds its portions
 * densely, one piece after another, so every rank can compute where the portions of others lie. */
#include "plan/impl.h"

/* One rank of a group, at one of its source pieces. */
typedef struct member {
    const rsh_plan *p;
    const rshi_pair *pair;
    const rshi_piece *a;            /* at this rank */
    const rshi_node_groups *groups; /* borrowed from the walk */
    const rshi_node_group *group;   /* the rank's group; NULL: it combines nothing */
    int64_t number;                 /* index of the rank in its group */
} member;

/* ---- portions ---- */

static int64_t longest_extent(const rsh_layout *l, const rshi_piece *a, int *dim) {
    *dim = rshi_piece_longest_dim(l, a);
    return rsh_layout_ndim(l) ? rshi_stripe_size(&a->set[*dim]) : 1;
}

rshi_portion rshi_portion_of(const rsh_layout *l, const rshi_piece *a, int64_t n, int64_t i) {
    rshi_portion s;
    int64_t extent = longest_extent(l, a, &s.dim);
    s.start = rshi_even_start(extent, n, i);
    s.end = rshi_even_start(extent, n, i + 1);
    return s;
}

int64_t rshi_portion_at(const rsh_layout *l, const rshi_piece *a, int64_t n, int64_t i) {
    int dim;
    return rshi_even_part_at(longest_extent(l, a, &dim), n, i);
}

static int64_t portion_extent(const rshi_piece *a, const rshi_portion *s, int d) {
    return d == s->dim ? s->end - s->start : rshi_stripe_size(&a->set[d]);
}

static int64_t portion_count(const rsh_layout *l, const rshi_piece *a, const rshi_portion *s) {
    int64_t n = 1;
    if (!rsh_layout_ndim(l)) return s->end - s->start;
    for (int d = 0; d < rsh_layout_ndim(l); d++) n *= portion_extent(a, s, d);
    return n;
}

/* ---- a rank and its group ---- */

static void find_group(member *m) {
    int64_t own = rshi_piece_partial(m->pair->from, m->a);
    m->group = &m->groups->group[m->groups->group_of[own]];
    m->number = rshi_find(m->group->position, m->group->n, sizeof own, own);
}

/* A group of one needs scratch only if its contribution is widened. */
bool rshi_node_group_has_result(const rshi_pair *pair, const rshi_node_groups *g, const rshi_node_group *group) {
    return g->combined && (group->n > 1 || rshi_pair_accumulator(pair) != rsh_layout_dtype(pair->from));
}

static rsh_status member_init(member *m, rshi_walk *w, int64_t tensor, const rshi_piece *a) {
    const rshi_pair *pair = &w->p->pair[tensor];
    *m = (member){.p = w->p, .pair = pair, .a = a};
    if (pair->from_overlaps && !rshi_piece_first_copy(pair->from, a)) return RSH_OK; /* it is not read */
    RSH_TRY(rshi_walk_groups(w, tensor, a, rshi_piece_holder_index(pair->from, a, a->rank), &m->groups));
    find_group(m);
    if (!rshi_node_group_has_result(pair, m->groups, m->group)) m->group = NULL;
    return RSH_OK;
}

static rsh_status piece_scratch(rshi_walk *w, int64_t tensor, const rshi_piece *a, int64_t *count) {
    const rsh_layout *from = w->p->pair[tensor].from;
    member m;
    *count = 0;
    RSH_TRY(member_init(&m, w, tensor, a));
    if (!m.group) return RSH_OK;
    rshi_portion s = rshi_portion_of(from, a, m.group->n, m.number);
    *count = portion_count(from, a, &s);
    return RSH_OK;
}

/* Counts the elements of scratch for the pieces of a rank that precede `until`; NULL: for all of them. */
static rsh_status scratch_with(rshi_walk *w, const rshi_pair *pair, int64_t rank, const rshi_piece *until,
                               int64_t *count) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    *count = 0;
    if (until && rshi_layout_plain(pair->from)) return RSH_OK; /* there is one piece per rank */
    rsh_status st = rshi_layout_pieces(pair->from, rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        int64_t more;
        if (until && list[i].part == until->part && rshi_same_start(pair->from, &list[i], until)) break;
        st = piece_scratch(w, pair - w->p->pair, &list[i], &more);
        if (!st) *count += more;
    }
    rshi_free(list);
    return st;
}

static rsh_status scratch_before(const rsh_plan *p, const rshi_pair *pair, int64_t rank, const rshi_piece *until,
                                 int64_t *count) {
    rshi_walk walk = {.p = p};
    rsh_status st = scratch_with(&walk, pair, rank, until, count);
    rshi_walk_free(&walk);
    return st;
}

static rsh_status count_held(const rsh_layout *l, int64_t rank, int64_t *count) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    RSH_TRY(rshi_layout_pieces(l, rank, &list, &n));
    for (int64_t i = 0; i < n; i++) *count += rshi_piece_count(l, &list[i]);
    rshi_free(list);
    return RSH_OK;
}

bool rshi_plan_has_scratch(const rsh_plan *p) { return p->scratch_bytes > 0; }

rsh_status rshi_plan_scratch(const rsh_plan *p, int64_t tensor, int64_t rank, int64_t *count) {
    *count = 0;
    if (!p->pair[tensor].by_node || p->pair[tensor].transposed) return RSH_OK;
    return scratch_before(p, &p->pair[tensor], rank, NULL, count);
}

/* Larger plans get a bound.  For replicas, a search per rank finds out whether results are read. */
#define MOST_CONTRIBUTIONS ((int64_t)1 << 22) /* of all ranks together */
#define MOST_WITH_REPLICAS ((int64_t)1 << 12) /* ranks */

rsh_status rshi_pair_most_scratch(const rsh_plan *p, int64_t t, int64_t *bytes) {
    const rsh_layout *from = p->pair[t].from;
    rshi_walk walk = {.p = p};
    rsh_status st = RSH_OK;
    int64_t n = rsh_layout_nranks(from);
    bool exact = rshi_mul_most(n, p->pair[t].contributions) <= MOST_CONTRIBUTIONS &&
                 (n <= MOST_WITH_REPLICAS || !rshi_layout_has_replicas(from));
    *bytes = 0;
    for (int64_t i = 0; i < n && !st; i++) {
        int64_t rank = rsh_layout_rank(from, i), count = 0;
        st = exact ? scratch_with(&walk, &p->pair[t], rank, NULL, &count) : count_held(from, rank, &count);
        *bytes = rshi_max(*bytes, rshi_scratch_end(0, count, rshi_pair_accumulator(&p->pair[t])));
    }
    rshi_walk_free(&walk);
    return st;
}

rsh_status rshi_plan_scratch_bytes(const rsh_plan *p, int64_t rank, int64_t *bytes) {
    *bytes = 0;
    for (int64_t t = 0; t < p->n; t++) {
        int64_t count;
        RSH_TRY(rshi_plan_scratch(p, t, rank, &count));
        *bytes = rshi_scratch_end(*bytes, count, rshi_pair_accumulator(&p->pair[t]));
    }
    return RSH_OK;
}

/* ---- pieces in scratch ---- */

rsh_status rshi_node_result_piece(const rsh_plan *p, const rshi_pair *pair, const rshi_piece *a, const rshi_portion *s,
                                  rshi_piece *out) {
    int64_t before, step = 1;
    RSH_TRY(scratch_before(p, pair, a->rank, a, &before));
    *out = *a;
    out->part = RSHI_SCRATCH;
    out->flat = true;
    for (int d = rsh_layout_ndim(pair->from) - 1; d >= 0; d--) {
        out->step[d] = step;
        step *= portion_extent(a, s, d);
    }
    out->at[0] = before - (rsh_layout_ndim(pair->from) ? s->start * out->step[s->dim] : 0);
    return RSH_OK;
}

/* ---- edges of stage 0 ---- */

/* Lists the group's contributions, at the same replica, in ascending position. */
static rshi_piece *list_sources(const member *m, rshi_walk *w) {
    const rsh_layout *from = m->pair->from;
    rshi_piece *src = rshi_walk_source_room(w, m->group->n);
    for (int64_t i = 0; src && i < m->group->n; i++) {
        rshi_piece_at_partial(from, m->a, m->group->position[i], &src[i]);
        rshi_piece_at_holder(from, &src[i], m->groups->replica, &src[i]);
    }
    return src;
}

/* Emits the edge by which rank number `number` of the group combines its portion. */
static rsh_status emit_portion(const member *m, int64_t tensor, int64_t number, rshi_walk *w) {
    const rsh_layout *from = m->pair->from;
    rshi_portion s = rshi_portion_of(from, m->a, m->group->n, number);
    rshi_piece *src, dst;
    if (!portion_count(from, m->a, &s)) return RSH_OK;
    if (!(src = list_sources(m, w))) return RSH_ENOMEM;
    RSH_TRY(rshi_node_result_piece(m->p, m->pair, &src[number], &s, &dst));
    rshi_edge e = {.tensor = tensor, .src_layout = from, .dst_layout = from, .dst = &dst, .with = src, .src = src};
    e.nsrc = m->group->n;
    e.op = rsh_layout_op(from) == RSH_OP_AVG ? RSH_OP_SUM : rsh_layout_op(from);
    e.divisor = 1;
    e.src_dtype = rsh_layout_dtype(from);
    e.dst_dtype = rshi_pair_accumulator(m->pair);
    e.wire_size = (int64_t)rsh_dtype_size(e.src_dtype);
    for (int d = 0; d < rsh_layout_ndim(from); d++) e.lo[d] = dst.set[d].lo, e.hi[d] = rshi_stripe_end(&dst.set[d]);
    if (rsh_layout_ndim(from)) {
        e.lo[s.dim] = rshi_stripe_at(&dst.set[s.dim], s.start);
        e.hi[s.dim] = rshi_stripe_at(&dst.set[s.dim], s.end - 1) + 1;
    }
    return rshi_emit_edge(w, &e);
}

/* Emits the edge of the rank's own portion of a source piece or, for sends, those of the others' portions. */
static rsh_status piece_edges(rshi_walk *w, int64_t tensor, const rshi_piece *a) {
    member m;
    RSH_TRY(member_init(&m, w, tensor, a));
    for (int64_t i = 0; m.group && i < m.group->n; i++)
        if ((i != m.number) == w->sends) RSH_TRY(emit_portion(&m, tensor, i, w));
    return RSH_OK;
}

rsh_status rshi_node_result_edges(rshi_walk *w, int64_t tensor) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    if (!w->p->pair[tensor].by_node) return RSH_OK;
    rsh_status st = rshi_layout_pieces(w->p->pair[tensor].from, w->rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) st = piece_edges(w, tensor, &list[i]);
    rshi_free(list);
    return st;
}
