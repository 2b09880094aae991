/* Direct sums: what the ranks of a direct chain send and receive, without looking at edges.
 *
 * What a rank holds itself, or a rank of its node, is compared part by part, node by node.  What comes from other nodes
 * is all that is wanted, less that.  A source that is held once sends each of its elements as often as it is wanted.
 * Holders that take turns have a measure for each turn (measure.c).  Messages are the parts that meet (encounter.c).
 * The cost grows with ranks and with the ranks of a node, not with pairs of ranks.  The serving rule is repeated here
 * for whole parts; the tests compare the sums with the edges. */
#include "plan/sums.h"

#include <stdlib.h>

typedef struct sums {
    const rsh_plan *p;
    const rshi_pair *pair;
    int64_t size; /* bytes of an element on its way */
    rshi_grouped_side a, b;
    int64_t turns; /* holders of each source part */
    rshi_encounter *meeting;
    int64_t *near;      /* owned: elements of each source group, by turn, that ranks near it want */
    int64_t *mark;      /* owned, by source group: the node that it was last seen on */
    int64_t *at;        /* owned: source groups of the node at hand */
    int64_t *on_node;   /* owned, by source group: its holders on the node at hand */
    rshi_clip *clip;    /* owned */
    int64_t clips_room;
    int64_t groups_here, node;
    int64_t between, messages;
    rshi_rank_bytes *bytes; /* elements, for now */
} sums;

/* ---- which pairs can be added up ---- */

static bool even_holders(const rshi_grouped_side *h) { return h->least_holders == h->most_holders || !h->most_holders; }

static bool fits(const rshi_pair *pair) {
    if (pair->slice || pair->by_node || pair->irregular || pair->odd) return false;
    if (pair->chain != RSHI_CHAIN_DIRECT) return false;
    return rshi_grouped_side_fits(pair->from) && rshi_grouped_side_fits(pair->to);
}

static bool halves_fit(const sums *s) {
    return s->a.single && s->b.single && even_holders(&s->a) && even_holders(&s->b) && s->a.most_holders > 0;
}

/* ---- one destination rank and one source group ---- */

static int64_t common(const sums *s, int64_t a, int64_t b) {
    int64_t n = 0;
    for (int64_t i = s->a.first_cell[a]; i < s->a.first_cell[a + 1]; i++)
        for (int64_t k = s->b.first_cell[b]; k < s->b.first_cell[b + 1]; k++) {
            rshi_clip c = {rshi_grouped_side_cell(&s->b, k), -1, 0, 0};
            n += rshi_clip_common(s->a.ndim, rshi_grouped_side_cell(&s->a, i), &c);
        }
    return n;
}

/* Does a destination at that partial position read the group? */
static bool reads(const sums *s, int64_t group, int64_t partial) {
    int64_t i = group % s->a.partials;
    return s->pair->reduce || (s->pair->keep ? i == partial : i == 0);
}

/* Which holder of the group, of those on the node, serves at that turn. */
static int64_t near_holder(const sums *s, int64_t group, int64_t number) {
    for (int64_t i = s->a.first_holder[group];; i++) {
        int64_t rank = s->p->rank[s->a.holder[i]];
        if (rshi_plan_node(s->p, rank) == s->node && number-- == 0) return s->a.holder[i];
    }
}

static void add_near(sums *s, int64_t q, int64_t group, int64_t part, bool own, int64_t *near) {
    int64_t n = common(s, group / s->a.partials, part), turn = s->b.turn[q];
    if (!n) return;
    *near += n;
    s->near[group * s->turns + turn % s->turns] += n;
    if (own) {
        s->bytes->kept[q] += n;
        s->messages--;
        return;
    }
    s->bytes->received[q] += n;
    s->bytes->sent[near_holder(s, group, turn % s->on_node[group])] += n;
}

/* ---- node by node ---- */

static const rshi_held *held_by(const rshi_grouped_side *h, int64_t q) {
    return h->first_held[q + 1] > h->first_held[q] ? &h->held[h->first_held[q]] : NULL;
}

static void list_groups(sums *s, const rshi_crew *c, int64_t stamp) {
    s->groups_here = 0;
    for (int64_t i = 0; i < c->n; i++) {
        const rshi_held *h = held_by(&s->a, rshi_crew_ordinal(c, i));
        if (!h || !s->a.size[h->group / s->a.partials]) continue;
        if (s->mark[h->group] != stamp) {
            s->mark[h->group] = stamp;
            s->on_node[h->group] = 0;
            s->at[s->groups_here++] = h->group;
        }
        s->on_node[h->group]++;
    }
}

/* Everything that the rank wants: from itself, from its node, and the rest. */
static void add_rank(sums *s, int64_t q) {
    const rshi_held *want = held_by(&s->b, q), *have = held_by(&s->a, q);
    if (!want) return;
    int64_t part = want->group / s->b.partials, partial = want->group % s->b.partials, near = 0;
    for (int64_t i = 0; i < s->groups_here; i++)
        if (reads(s, s->at[i], partial)) add_near(s, q, s->at[i], part, have && have->group == s->at[i], &near);
    int64_t far = s->b.size[part] * s->pair->contributions - near;
    s->bytes->received[q] += far;
    if (s->p->several_nodes) s->between += far;
}

static rsh_status add_nodes(sums *s, rshi_progress *w) {
    const rsh_plan *p = s->p;
    int64_t stamp = 0;
    for (int64_t i = 0, n; i < p->nranks; i += n) {
        rshi_crew c = {p->by_node, i, 1};
        s->node = rshi_plan_node(p, p->rank[rshi_crew_ordinal(&c, 0)]);
        while (p->several_nodes && i + c.n < p->nranks &&
               rshi_plan_node(p, p->rank[rshi_crew_ordinal(&c, c.n)]) == s->node)
            c.n++;
        n = c.n;
        RSH_TRY(rshi_progress_at(w, i, p->nranks));
        list_groups(s, &c, ++stamp);
        for (int64_t k = 0; k < c.n; k++) add_rank(s, rshi_crew_ordinal(&c, k));
    }
    return RSH_OK;
}

/* ---- to other nodes ---- */

/* Ranks that read each element of a source group. */
static int64_t readers(const sums *s) {
    int64_t positions = s->pair->keep || s->pair->fill_others ? 1 : s->b.partials;
    return s->b.most_holders * positions;
}

static void add_far_of_single(sums *s) {
    int64_t n = readers(s);
    for (int64_t g = 0; g < s->a.groups; g++)
        if (reads(s, g, g % s->a.partials))
            s->bytes->sent[s->a.holder[s->a.first_holder[g]]] += n * s->a.size[g / s->a.partials] - s->near[g];
}

static void measure_wants(sums *s, rshi_measure *m) {
    for (int64_t q = 0; q < s->p->nranks; q++) {
        const rshi_held *want = held_by(&s->b, q);
        if (!want) continue;
        int64_t part = want->group / s->b.partials, kept = s->pair->keep ? want->group % s->b.partials : 0;
        for (int64_t c = s->b.first_cell[part]; c < s->b.first_cell[part + 1]; c++) {
            rshi_clip cell = {rshi_grouped_side_cell(&s->b, c), -1, 0, 0};
            rshi_measure_add(m, kept * s->turns + s->b.turn[q] % s->turns, &cell, 1);
        }
    }
    rshi_measure_settle(m);
}

static void add_measured(sums *s, const rshi_measure *m) {
    for (int64_t g = 0; g < s->a.groups; g++) {
        int64_t part = g / s->a.partials, kept = s->pair->keep ? g % s->a.partials : 0;
        if (!s->a.size[part] || !reads(s, g, g % s->a.partials)) continue;
        for (int64_t j = 0; j < s->turns; j++) {
            int64_t n = -s->near[g * s->turns + j];
            for (int64_t c = s->a.first_cell[part]; c < s->a.first_cell[part + 1]; c++)
                n += rshi_measure_of(m, kept * s->turns + j, rshi_grouped_side_cell(&s->a, c));
            s->bytes->sent[s->a.holder[s->a.first_holder[g] + j]] += n;
        }
    }
}

static rsh_status add_far(sums *s, bool *done) {
    rshi_measure *m = NULL;
    int64_t classes = s->turns * (s->pair->keep ? s->b.partials : 1);
    if (s->turns == 1) {
        add_far_of_single(s);
        return RSH_OK;
    }
    if (s->a.product)
        RSH_TRY(rshi_measure_new(&s->a, false, classes, &m));
    else if (s->b.product)
        RSH_TRY(rshi_measure_new(&s->b, true, classes, &m));
    *done = m != NULL;
    if (!m) return RSH_OK;
    measure_wants(s, m);
    add_measured(s, m);
    rshi_measure_free(m);
    return RSH_OK;
}

/* ---- messages ---- */

/* Pairs of a part of one side and a part of the other that meet, counted from the side that is no product. */
static rsh_status count_messages(sums *s, rshi_progress *w) {
    bool flips = !s->a.product && s->b.product;
    const rshi_grouped_side *h = flips ? &s->a : &s->b;
    int64_t each = s->pair->keep ? s->b.most_holders * s->b.partials : readers(s) * s->pair->contributions;
    RSH_TRY(rshi_encounter_new(flips ? &s->b : &s->a, &s->meeting));
    for (int64_t part = 0; part < h->parts; part++) {
        int64_t n = h->first_cell[part + 1] - h->first_cell[part], met;
        RSH_TRY(rshi_progress_at(w, part, h->parts));
        if (!n) continue;
        RSH_TRY(RSHI_GROW(s->clip, n, &s->clips_room));
        for (int64_t c = 0; c < n; c++)
            s->clip[c] = (rshi_clip){rshi_grouped_side_cell(h, h->first_cell[part] + c), -1, 0, 0};
        RSH_TRY(rshi_encounter_count(s->meeting, s->clip, n, &met));
        s->messages += met * each;
    }
    return RSH_OK;
}

/* ---- */

static rsh_status make_room(sums *s) {
    size_t groups = (size_t)s->a.groups + 1;
    s->turns = rshi_max(1, s->a.most_holders);
    s->near = rshi_calloc(groups * (size_t)s->turns, sizeof *s->near);
    s->mark = rshi_calloc(groups, sizeof *s->mark);
    s->at = rshi_alloc(groups, sizeof *s->at);
    s->on_node = rshi_alloc(groups, sizeof *s->on_node);
    return s->near && s->mark && s->at && s->on_node ? RSH_OK : rshi_nomem();
}

static void sums_free(sums *s) {
    rshi_grouped_side_free(&s->a);
    rshi_grouped_side_free(&s->b);
    rshi_encounter_free(s->meeting);
    rshi_free(s->near);
    rshi_free(s->mark);
    rshi_free(s->at);
    rshi_free(s->on_node);
    rshi_free(s->clip);
}

static rsh_status add_up(sums *s, rshi_progress *w, bool *done) {
    RSH_TRY(rshi_grouped_side_make(s->p, s->pair->from, false, w, &s->a));
    RSH_TRY(rshi_grouped_side_make(s->p, s->pair->to, s->pair->fill_others, w, &s->b));
    *done = halves_fit(s);
    if (!*done) return RSH_OK;
    RSH_TRY(make_room(s));
    rshi_progress_pass(w, RSHI_PASS_NODES);
    RSH_TRY(add_nodes(s, w));
    rshi_progress_pass(w, RSHI_PASS_FAR);
    RSH_TRY(add_far(s, done));
    return *done ? count_messages(s, w) : RSH_OK;
}

/* The transposed map moves elements of the destination, and what was received is sent. */
static void add_bytes(const sums *s, rshi_rank_bytes *out) {
    const int64_t *sent = s->bytes->sent, *received = s->bytes->received;
    for (int64_t q = 0; q < s->p->nranks; q++) {
        out->sent[q] += s->size * (s->pair->transposed ? received : sent)[q];
        out->received[q] += s->size * (s->pair->transposed ? sent : received)[q];
        out->kept[q] += s->size * s->bytes->kept[q];
    }
}

rsh_status rshi_sums_of_pair(const rsh_plan *p, int64_t tensor, rshi_progress *w, rsh_plan_totals *t,
                             rshi_rank_bytes *out, bool *done) {
    const rshi_pair *pair = &p->pair[tensor];
    rshi_rank_bytes bytes = {0};
    sums s = {.p = p, .pair = pair, .size = pair->wire_size, .bytes = &bytes};
    rsh_status st = RSH_OK;
    *done = fits(pair);
    if (!*done) return RSH_OK;
    RSH_TRY(rshi_progress_begin(w, RSHI_PASS_SUMS));
    if (pair->transposed) s.size = (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to));
    st = rshi_rank_bytes_new(p, &bytes);
    if (!st) st = add_up(&s, w, done);
    if (!st && *done) {
        add_bytes(&s, out);
        t->bytes_between_nodes += s.size * s.between;
        t->messages += s.messages;
    }
    rshi_rank_bytes_free(&bytes);
    sums_free(&s);
    return st;
}
