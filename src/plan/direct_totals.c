/* Direct totals: what the ranks of a direct chain send and receive, computed without edges.
 *
 * For each node, the parts that its ranks need are compared with the parts that its ranks hold.  Everything else
 * comes from other nodes.  A source part with one holder sends each of its elements once for every rank that needs
 * it.  If parts have several holders, cell_coverage.c counts for each holder the elements that it serves.  Messages
 * are pairs of parts that overlap (count_overlaps.c).  The cost grows with the number of ranks and the ranks of a
 * node, not with pairs of ranks.  This file repeats the serving rule of serve.c for whole parts: own copy, then
 * holders on the node, then all holders.  tests/prop/test_totals_prop.c compares the result with the edges. */
#include "plan/totals.h"

#include <stdlib.h>

typedef struct direct {
    const rsh_plan *p;
    const rshi_pair *pair;
    int64_t size; /* bytes of an element that is sent */
    rshi_grouped_side a, b;
    int64_t turns; /* number of holders of each source part */
    rshi_overlap_counter *meeting;
    int64_t *needed_on_node; /* owned: elements that ranks on the same node need, by source group and turn */
    int64_t *mark;           /* owned, by source group: the last node on which it was seen */
    int64_t *group_here;     /* owned: the source groups on the current node */
    int64_t *holders_here;   /* owned, by source group: its holders on the current node */
    int64_t ngroups, node;
    int64_t between, messages;
    rshi_rank_bytes *bytes; /* in elements until add_bytes */
} direct;

/* ---- which pairs are supported ---- */

static bool even_holders(const rshi_grouped_side *h) { return h->least_holders == h->most_holders || !h->most_holders; }

static bool fits(const rshi_pair *pair) {
    if (pair->split || pair->by_node || pair->from_overlaps || pair->to_overlaps) return false;
    if (pair->chain != RSHI_CHAIN_DIRECT) return false;
    return rshi_grouped_side_fits(pair->from) && rshi_grouped_side_fits(pair->to);
}

static bool sides_fit(const direct *s) {
    return s->a.single && s->b.single && even_holders(&s->a) && even_holders(&s->b) && s->a.most_holders > 0;
}

/* ---- one destination rank and one source group ---- */

static int64_t common(const direct *s, int64_t a, int64_t b) {
    int64_t n = 0;
    for (int64_t i = s->a.first_cell[a]; i < s->a.first_cell[a + 1]; i++)
        for (int64_t k = s->b.first_cell[b]; k < s->b.first_cell[b + 1]; k++)
            n += rshi_cells_common(s->a.ndim, rshi_grouped_side_cell(&s->a, i), rshi_grouped_side_cell(&s->b, k));
    return n;
}

/* Does a destination at that partial position read the group? */
static bool reads(const direct *s, int64_t group, int64_t partial) {
    int64_t i = group % s->a.partials;
    return s->pair->reduce || (s->pair->keep ? i == partial : i == 0);
}

/* Returns the holder that serves, given its number among the holders on the current node. */
static int64_t holder_here(const direct *s, int64_t group, int64_t number) {
    for (int64_t i = s->a.first_holder[group];; i++) {
        int64_t rank = s->p->rank[s->a.holder[i]];
        if (rshi_plan_node(s->p, rank) == s->node && number-- == 0) return s->a.holder[i];
    }
}

static void add_from_node(direct *s, int64_t q, int64_t group, int64_t part, bool own, int64_t *on_node) {
    int64_t n = common(s, group / s->a.partials, part), turn = s->b.turn[q];
    if (!n) return;
    *on_node += n;
    s->needed_on_node[group * s->turns + rshi_candidate_at_turn(turn, s->turns)] += n;
    if (own) {
        s->bytes->kept[q] += n;
        s->messages--;
        return;
    }
    s->bytes->received[q] += n;
    s->bytes->sent[holder_here(s, group, rshi_candidate_at_turn(turn, s->holders_here[group]))] += n;
}

/* ---- node by node ---- */

static void list_groups(direct *s, const rshi_node_ranks *c, int64_t stamp) {
    s->ngroups = 0;
    for (int64_t i = 0; i < c->n; i++) {
        int64_t group = s->a.group_of[rshi_node_ranks_ordinal(c, i)];
        if (group < 0 || !s->a.size[group / s->a.partials]) continue;
        if (s->mark[group] != stamp) {
            s->mark[group] = stamp;
            s->holders_here[group] = 0;
            s->group_here[s->ngroups++] = group;
        }
        s->holders_here[group]++;
    }
}

/* Adds everything that the rank needs: from itself, from its node, and from other nodes. */
static void add_rank(direct *s, int64_t q) {
    int64_t needed = s->b.group_of[q], held = s->a.group_of[q], on_node = 0;
    if (needed < 0) return;
    int64_t part = needed / s->b.partials, partial = needed % s->b.partials;
    for (int64_t i = 0; i < s->ngroups; i++)
        if (reads(s, s->group_here[i], partial))
            add_from_node(s, q, s->group_here[i], part, held == s->group_here[i], &on_node);
    int64_t far = s->b.size[part] * s->pair->contributions - on_node;
    s->bytes->received[q] += far;
    if (s->p->several_nodes) s->between += far;
}

static rsh_status add_nodes(direct *s, rshi_progress *w) {
    const rsh_plan *p = s->p;
    int64_t stamp = 0;
    for (int64_t i = 0, n; i < p->nranks; i += n) {
        rshi_node_ranks c = {p->node_order, i, 1};
        s->node = rshi_plan_node(p, p->rank[rshi_node_ranks_ordinal(&c, 0)]);
        while (p->several_nodes && i + c.n < p->nranks &&
               rshi_plan_node(p, p->rank[rshi_node_ranks_ordinal(&c, c.n)]) == s->node)
            c.n++;
        n = c.n;
        RSH_TRY(rshi_progress_at(w, i, p->nranks));
        list_groups(s, &c, ++stamp);
        for (int64_t k = 0; k < c.n; k++) add_rank(s, rshi_node_ranks_ordinal(&c, k));
    }
    return RSH_OK;
}

/* ---- to other nodes ---- */

/* The number of ranks that read each element of a source group. */
static int64_t readers(const direct *s) {
    int64_t positions = s->pair->keep || s->pair->fill_others ? 1 : s->b.partials;
    return s->b.most_holders * positions;
}

static void add_far_of_single(direct *s) {
    int64_t n = readers(s);
    for (int64_t g = 0; g < s->a.groups; g++)
        if (reads(s, g, g % s->a.partials))
            s->bytes->sent[s->a.holder[s->a.first_holder[g]]] +=
                n * s->a.size[g / s->a.partials] - s->needed_on_node[g];
}

static void add_needs(direct *s, rshi_coverage *m) {
    for (int64_t q = 0; q < s->p->nranks; q++) {
        int64_t group = s->b.group_of[q];
        if (group < 0) continue;
        int64_t part = group / s->b.partials, kept = s->pair->keep ? group % s->b.partials : 0;
        int64_t class_ = kept * s->turns + rshi_candidate_at_turn(s->b.turn[q], s->turns);
        for (int64_t c = s->b.first_cell[part]; c < s->b.first_cell[part + 1]; c++)
            rshi_coverage_add(m, class_, rshi_grouped_side_cell(&s->b, c));
    }
    rshi_coverage_finish(m);
}

static void add_far_by_turn(direct *s, const rshi_coverage *m) {
    for (int64_t g = 0; g < s->a.groups; g++) {
        int64_t part = g / s->a.partials, kept = s->pair->keep ? g % s->a.partials : 0;
        if (!s->a.size[part] || !reads(s, g, g % s->a.partials)) continue;
        for (int64_t j = 0; j < s->turns; j++) {
            int64_t n = -s->needed_on_node[g * s->turns + j];
            for (int64_t c = s->a.first_cell[part]; c < s->a.first_cell[part + 1]; c++)
                n += rshi_coverage_of(m, kept * s->turns + j, rshi_grouped_side_cell(&s->a, c));
            s->bytes->sent[s->a.holder[s->a.first_holder[g] + j]] += n;
        }
    }
}

static rsh_status add_far(direct *s, bool *done) {
    rshi_coverage *m = NULL;
    int64_t classes = s->turns * (s->pair->keep ? s->b.partials : 1);
    if (s->turns == 1) {
        add_far_of_single(s);
        return RSH_OK;
    }
    if (s->a.product)
        RSH_TRY(rshi_coverage_new(&s->a, false, classes, &m));
    else if (s->b.product)
        RSH_TRY(rshi_coverage_new(&s->b, true, classes, &m));
    *done = m != NULL;
    if (!m) return RSH_OK;
    add_needs(s, m);
    add_far_by_turn(s, m);
    rshi_coverage_free(m);
    return RSH_OK;
}

/* ---- messages ---- */

/* Counts pairs of a source part and a destination part that overlap.  The side that is enumerated is the one that is
 * no product, if there is one. */
static rsh_status count_messages(direct *s, rshi_progress *w) {
    bool flips = !s->a.product && s->b.product;
    const rshi_grouped_side *h = flips ? &s->a : &s->b;
    int64_t each = s->pair->keep ? s->b.most_holders * s->b.partials : readers(s) * s->pair->contributions;
    RSH_TRY(rshi_overlap_counter_new(flips ? &s->b : &s->a, &s->meeting));
    for (int64_t part = 0; part < h->parts; part++) {
        int64_t n = h->first_cell[part + 1] - h->first_cell[part], met;
        RSH_TRY(rshi_progress_at(w, part, h->parts));
        if (!n) continue;
        RSH_TRY(rshi_count_overlaps(s->meeting, rshi_grouped_side_cell(h, h->first_cell[part]), n, &met));
        s->messages += met * each;
    }
    return RSH_OK;
}

/* ---- */

static rsh_status make_room(direct *s) {
    size_t groups = (size_t)s->a.groups + 1;
    s->turns = rshi_max(1, s->a.most_holders);
    s->needed_on_node = rshi_calloc(groups * (size_t)s->turns, sizeof *s->needed_on_node);
    s->mark = rshi_calloc(groups, sizeof *s->mark);
    s->group_here = rshi_alloc(groups, sizeof *s->group_here);
    s->holders_here = rshi_alloc(groups, sizeof *s->holders_here);
    return s->needed_on_node && s->mark && s->group_here && s->holders_here ? RSH_OK : rshi_nomem();
}

static void direct_free(direct *s) {
    rshi_grouped_side_free(&s->a);
    rshi_grouped_side_free(&s->b);
    rshi_overlap_counter_free(s->meeting);
    rshi_free(s->needed_on_node);
    rshi_free(s->mark);
    rshi_free(s->group_here);
    rshi_free(s->holders_here);
}

static rsh_status add_up(direct *s, rshi_progress *w, bool *done) {
    RSH_TRY(rshi_grouped_side_make(s->p, s->pair->from, false, w, &s->a));
    RSH_TRY(rshi_grouped_side_make(s->p, s->pair->to, s->pair->fill_others, w, &s->b));
    *done = sides_fit(s);
    if (!*done) return RSH_OK;
    RSH_TRY(make_room(s));
    rshi_progress_pass(w, RSHI_PASS_NODES);
    RSH_TRY(add_nodes(s, w));
    rshi_progress_pass(w, RSHI_PASS_FAR);
    RSH_TRY(add_far(s, done));
    return *done ? count_messages(s, w) : RSH_OK;
}

/* A transposed map moves elements of the destination, and swaps sends and receives. */
static void add_bytes(const direct *s, rshi_rank_bytes *out) {
    const int64_t *sent = s->bytes->sent, *received = s->bytes->received;
    for (int64_t q = 0; q < s->p->nranks; q++) {
        out->sent[q] += s->size * (s->pair->transposed ? received : sent)[q];
        out->received[q] += s->size * (s->pair->transposed ? sent : received)[q];
        out->kept[q] += s->size * s->bytes->kept[q];
    }
}

rsh_status rshi_direct_totals(const rsh_plan *p, int64_t tensor, rshi_progress *w, rsh_plan_totals *t,
                              rshi_rank_bytes *out, bool *done) {
    const rshi_pair *pair = &p->pair[tensor];
    rshi_rank_bytes bytes = {0};
    direct s = {.p = p, .pair = pair, .size = pair->wire_size, .bytes = &bytes};
    rsh_status st = RSH_OK;
    *done = fits(pair);
    if (!*done) return RSH_OK;
    RSH_TRY(rshi_progress_begin(w, RSHI_PASS_DIRECT));
    if (pair->transposed) s.size = (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to));
    st = rshi_rank_bytes_new(p, &bytes);
    if (!st) st = add_up(&s, w, done);
    if (!st && *done) {
        add_bytes(&s, out);
        t->bytes_between_nodes += s.size * s.between;
        t->messages += s.messages;
    }
    rshi_rank_bytes_free(&bytes);
    direct_free(&s);
    return st;
}
