/* Totals: exact sums of one pair of layouts, without looking at edges.
 *
 * What is near, on the rank itself or on its node, is compared cell by cell (node_sums.c).  What comes from afar is all
 * that is wanted less what is near.  A source that is held once sends each of its elements as often as it is wanted:
 * the same number for all, or a measure over the destinations (measure.c); holders that take turns have a measure for
 * each turn.  Messages are the parts that meet (encounter.c), less those that are near.  The cost grows with ranks and
 * with the ranks of a node, not with pairs of ranks. */
#include "plan/node_sums.h"

#include <stdlib.h>

static bool fits(const rsh_plan *p, const rshi_pair *pair) {
    if (pair->slice || pair->spread || (pair->by_node && p->adjoint)) return false;
    return rshi_grouped_side_fits(pair->from) && rshi_grouped_side_fits(pair->to);
}

/* ---- making and freeing ---- */

static void sums_free(rshi_sums *s) {
    rshi_grouped_side_free(&s->a);
    rshi_grouped_side_free(&s->b);
    rshi_encounter_free(s->meeting);
    rshi_free(s->sent);
    rshi_free(s->received);
    rshi_free(s->kept);
    rshi_free(s->weight);
    rshi_free(s->brick);
    rshi_free(s->met);
    rshi_free(s->sources.member);
    rshi_free(s->targets.member);
    rshi_free(s->mark);
    rshi_free(s->at);
    rshi_free(s->cut_of);
    rshi_free(s->near);
    rshi_free(s->clip);
    rshi_free(s->tick);
    rshi_free(s->begins);
    rshi_free(s->shared);
    rshi_free(s->heard);
}

static rsh_status sums_room(rshi_sums *s) {
    size_t ranks = (size_t)s->p->nranks + 1;
    s->sent = rshi_calloc(ranks, sizeof *s->sent);
    s->received = rshi_calloc(ranks, sizeof *s->received);
    s->kept = rshi_calloc(ranks, sizeof *s->kept);
    s->weight = rshi_calloc((size_t)s->b.groups + 1, sizeof *s->weight);
    s->met = rshi_alloc((size_t)s->b.parts + 1, sizeof *s->met);
    s->tick = rshi_calloc((size_t)s->a.groups + 1, sizeof *s->tick);
    s->begins = rshi_calloc((size_t)s->a.groups + 1, sizeof *s->begins);
    s->heard = rshi_calloc(ranks, sizeof *s->heard);
    if (!s->sent || !s->received || !s->kept || !s->weight || !s->met || !s->tick || !s->begins || !s->heard)
        return rshi_nomem();
    for (int64_t i = 0; i < s->b.parts; i++) s->met[i] = -1;
    return RSH_OK;
}

static bool has_several_nodes(const rsh_plan *p) {
    for (int64_t q = 1; q < p->nranks && rshi_plan_has_nodes(p); q++)
        if (rshi_plan_node(p, p->rank[q]) != rshi_plan_node(p, p->rank[0])) return true;
    return false;
}

/* How the parts of this pair are best counted. */
static void choose_ways(rshi_sums *s) {
    const rshi_pair *pair = s->pair;
    int64_t e = (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to));
    bool boxes = rsh_layout_describe(s->a.l)->is_boxes;
    s->nodes = has_several_nodes(s->p);
    s->relays = s->nodes && s->ndim && !pair->reduce && !pair->keep && e <= pair->wire_size;
    s->clips = s->b.most_holders > 1 && (s->relays || pair->reduce);
    bool to_boxes = rsh_layout_describe(s->b.l)->is_boxes;
    s->flips = !s->a.product && s->a.single && !to_boxes && !s->clips && (!boxes || s->a.most_holders <= 1);
    s->boxes = boxes;
    s->looks = boxes && !s->flips && !(s->a.single && s->a.most_holders <= 1 && s->b.product);
    s->classes = s->a.most_holders * (pair->keep ? s->b.partials : 1);
    s->given_up = s->p->adjoint && s->clips; /* who took what of others cannot be seen from here */
}

/* The transposed map moves elements of the destination, and what was received is sent. */
static rsh_status sums_init(rshi_sums *s, const rsh_plan *p, const rshi_pair *pair, rshi_progress *w,
                            rsh_plan_totals *t) {
    *s = (rshi_sums){.p = p, .pair = pair, .ndim = rsh_layout_ndim(pair->to), .size = pair->wire_size};
    s->t = t;
    s->w = w;
    s->out_size = (int64_t)rsh_dtype_size(rsh_layout_dtype(pair->to));
    if (p->adjoint) s->size = s->out_size;
    RSH_TRY(rshi_grouped_side_make(p, pair->from, false, w, &s->a));
    RSH_TRY(rshi_grouped_side_make(p, pair->to, pair->fill_others, w, &s->b));
    choose_ways(s);
    RSH_TRY(sums_room(s));
    return rshi_encounter_new(s->flips ? &s->b : &s->a, &s->meeting);
}

/* ---- node by node ---- */

static rsh_status add_nodes(rshi_sums *s) {
    const rsh_plan *p = s->p;
    rshi_progress_pass(s->w, RSHI_PASS_NODES);
    for (int64_t i = 0; i < p->nranks && !s->given_up; i += s->crew.n) {
        RSH_TRY(rshi_progress_at(s->w, i, p->nranks));
        s->node++;
        s->crew = (rshi_crew){p->by_node, i, 1};
        int64_t node = rshi_plan_node(p, p->rank[rshi_crew_ordinal(&s->crew, 0)]);
        while (s->nodes && i + s->crew.n < p->nranks &&
               rshi_plan_node(p, p->rank[rshi_crew_ordinal(&s->crew, s->crew.n)]) == node)
            s->crew.n++;
        RSH_TRY(rshi_sums_add_node(s));
    }
    return RSH_OK;
}

/* ---- messages from the sources' side ---- */

static rsh_status count_flipped(rshi_sums *s) {
    const rshi_grouped_side *a = &s->a, *b = &s->b;
    int64_t each = b->most_holders * (s->pair->keep ? a->partials : s->pair->contributions);
    if (!s->pair->keep && !s->pair->fill_others) each *= b->partials;
    for (int64_t part = 0; part < a->parts; part++) {
        RSH_TRY(rshi_progress_at(s->w, part, a->parts));
        int64_t n = a->first_cell[part + 1] - a->first_cell[part], met;
        if (!n) continue;
        RSH_TRY(RSHI_GROW(s->clip, n, &s->clips_room));
        for (int64_t c = 0; c < n; c++)
            s->clip[c] = (rshi_clip){rshi_grouped_side_cell(a, a->first_cell[part] + c), -1, 0, 0};
        RSH_TRY(rshi_encounter_count(s->meeting, s->clip, n, &met));
        s->t->messages += met * each;
    }
    return RSH_OK;
}

/* ---- what sources send to afar ---- */

/* How often a destination part is fetched, at partial position i where each moves on its own. */
static int64_t weight_of(const rshi_sums *s, int64_t part, int64_t i) {
    int64_t n = 0;
    if (s->pair->keep) return s->weight[part * s->b.partials + i];
    for (int64_t k = 0; k < s->b.partials; k++) n += s->weight[part * s->b.partials + k];
    return n;
}

static bool is_even(const rshi_sums *s, int64_t *weight) {
    *weight = -1;
    for (int64_t part = 0; part < s->b.parts; part++)
        for (int64_t i = 0; i < (s->pair->keep ? s->b.partials : 1) && s->b.size[part]; i++) {
            int64_t w = weight_of(s, part, i);
            if (*weight >= 0 && w != *weight) return false;
            *weight = w;
        }
    return true;
}

static void add_even(rshi_sums *s, int64_t weight) {
    for (int64_t g = 0; g < s->a.groups; g++)
        if (s->a.size[g / s->a.partials])
            s->sent[s->a.holder[s->a.first_holder[g]]] += weight * s->a.size[g / s->a.partials] * s->size;
}

static void measure_weights(const rshi_sums *s, rshi_measure *m) {
    for (int64_t part = 0; part < s->b.parts; part++)
        for (int64_t c = s->b.first_cell[part]; c < s->b.first_cell[part + 1]; c++) {
            rshi_clip cell = {rshi_grouped_side_cell(&s->b, c), -1, 0, 0};
            for (int64_t i = 0; i < (s->pair->keep ? s->b.partials : 1); i++)
                rshi_measure_add(m, i, &cell, weight_of(s, part, i));
        }
}

static int by_cell(const void *a, const void *b) {
    const rshi_brick *x = a, *y = b;
    if (x->cell.set != y->cell.set) return x->cell.set < y->cell.set ? -1 : 1;
    if (x->class_ != y->class_) return x->class_ < y->class_ ? -1 : 1;
    if (x->cell.dim != y->cell.dim) return x->cell.dim < y->cell.dim ? -1 : 1;
    if (x->cell.lo != y->cell.lo) return x->cell.lo < y->cell.lo ? -1 : 1;
    return (x->cell.hi > y->cell.hi) - (x->cell.hi < y->cell.hi);
}

static void measure_bricks(rshi_sums *s, rshi_measure *m) {
    rshi_brick *list = s->brick;
    if (s->nbricks) qsort(list, (size_t)s->nbricks, sizeof *list, by_cell);
    for (int64_t i = 0, n; i < s->nbricks; i += n) {
        for (n = 1; i + n < s->nbricks && !by_cell(&list[i], &list[i + n]);) n++;
        rshi_measure_add(m, list[i].class_, &list[i].cell, n);
    }
}

static void add_measured(rshi_sums *s, const rshi_measure *m) {
    int64_t k = s->a.most_holders;
    for (int64_t part = 0; part < s->a.parts; part++)
        for (int64_t i = 0; i < s->a.partials; i++)
            for (int64_t j = 0; j < k && s->a.size[part]; j++) {
                int64_t n = 0;
                for (int64_t c = s->a.first_cell[part]; c < s->a.first_cell[part + 1]; c++)
                    n += rshi_measure_of(m, (s->pair->keep ? i * k : 0) + j, rshi_grouped_side_cell(&s->a, c));
                s->sent[s->a.holder[s->a.first_holder[part * s->a.partials + i] + j]] += n * s->size;
            }
}

static rsh_status add_far(rshi_sums *s) {
    bool turns = s->a.most_holders > 1;
    rshi_measure *m = NULL;
    int64_t weight;
    if (s->looks || !s->a.most_holders) return RSH_OK;
    if (!turns && is_even(s, &weight)) {
        add_even(s, weight);
        return RSH_OK;
    }
    if (s->a.product)
        RSH_TRY(rshi_measure_new(&s->a, false, s->classes, &m));
    else if (s->b.product && !(turns && s->clips))
        RSH_TRY(rshi_measure_new(&s->b, true, s->classes, &m));
    if (!m) {
        s->given_up = true;
        return RSH_OK;
    }
    if (turns)
        measure_bricks(s, m);
    else
        measure_weights(s, m);
    rshi_measure_settle(m);
    add_measured(s, m);
    rshi_measure_free(m);
    return RSH_OK;
}

/* ---- one pair of layouts ---- */

static rsh_status add_pair(rshi_sums *s) {
    if (s->pair->by_node) return rshi_sums_by_node(s);
    if (!s->given_up) RSH_TRY(add_nodes(s));
    rshi_progress_pass(s->w, RSHI_PASS_FAR);
    if (s->flips && !s->given_up) RSH_TRY(count_flipped(s));
    if (!s->given_up) RSH_TRY(add_far(s));
    return s->given_up ? RSH_OK : rshi_sums_add_gathers(s);
}

/* ---- all tensors ---- */

typedef struct adding {
    const rsh_plan *p;
    rshi_progress *w;
    rshi_rank_bytes *bytes; /* of all tensors */
    int64_t *same;          /* owned, by tensor: how many have these layouts; 0: counted with an earlier one */
    int64_t different;
    bool done;
    rsh_plan_totals t;
} adding;

static bool same_pair(const rshi_pair *a, const rshi_pair *b) {
    return a->slice == b->slice && a->spread == b->spread && rsh_layout_equal(a->from, b->from) &&
           rsh_layout_equal(a->to, b->to);
}

/* Many tensors of a model have the same layouts. */
static void find_same(adding *w) {
    for (int64_t i = 0; i < w->p->n; i++) {
        int64_t k = 0;
        while (k < i && !(w->same[k] && same_pair(&w->p->pair[k], &w->p->pair[i]))) k++;
        w->same[k]++;
        w->different += k == i;
    }
}

/* `times` tensors have these sums. */
static void add_sums(adding *w, const rshi_sums *s, int64_t times) {
    const int64_t *sent = w->p->adjoint ? s->received : s->sent, *received = w->p->adjoint ? s->sent : s->received;
    for (int64_t q = 0; q < w->p->nranks; q++) {
        w->bytes->sent[q] += times * sent[q];
        w->bytes->received[q] += times * received[q];
        w->bytes->kept[q] += times * s->kept[q];
    }
    if (s->nodes) w->t.bytes_between_nodes += times * s->t->bytes_between_nodes;
    w->t.messages += s->t->messages;
}

static rsh_status add_tensor(adding *w, int64_t tensor) {
    const rshi_pair *pair = &w->p->pair[tensor];
    rshi_sums s;
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    if (!rsh_layout_count(pair->to)) return RSH_OK;
    w->done = fits(w->p, pair);
    if (!w->done) return RSH_OK;
    rsh_status st = sums_init(&s, w->p, pair, w->w, &t);
    if (!st) st = add_pair(&s);
    w->done = !st && !s.given_up;
    if (w->done) add_sums(w, &s, w->same[tensor]);
    sums_free(&s);
    return st;
}

/* Ranks exchange something if they do so for any tensor: where several are different, neighbours are counted. */
static rsh_status count_messages(adding *w) {
    if (w->different > 1 && w->t.messages) return rshi_plan_count_pairs(w->p, w->same, w->w, &w->t.messages);
    return RSH_OK;
}

static void finish(adding *w, rsh_plan_totals *t) {
    w->t.tensor_bytes = t->tensor_bytes;
    for (int64_t q = 0; q < w->p->nranks; q++) {
        w->t.bytes_moved += w->bytes->received[q];
        w->t.bytes_local += w->bytes->kept[q];
        w->t.max_recv = rshi_max(w->t.max_recv, w->bytes->received[q]);
        w->t.max_send = rshi_max(w->t.max_send, w->bytes->sent[q]);
    }
    *t = w->t;
}

/* Units of work for a rank. */
static uint64_t work_of(const adding *w) {
    return (uint64_t)w->different * RSHI_PASS_SUMS + (w->different > 1 ? RSHI_PASS_SHARES : 0);
}

rsh_status rshi_totals_by_sums(const rsh_plan *p, rshi_progress *progress, rsh_plan_totals *t, rshi_rank_bytes *bytes,
                               bool *done) {
    adding w = {.p = p, .w = progress, .bytes = bytes, .done = true};
    rsh_status st = RSH_OK;
    w.same = rshi_calloc((size_t)p->n + 1, sizeof *w.same);
    if (!w.same) st = rshi_nomem();
    if (!st) find_same(&w);
    if (!st) st = rshi_progress_begin(progress, work_of(&w));
    for (int64_t i = 0; i < p->n && w.done && !st; i++)
        if (w.same[i]) st = add_tensor(&w, i);
    if (!st && w.done) st = count_messages(&w);
    *done = !st && w.done;
    if (*done) finish(&w, t);
    rshi_free(w.same);
    return st;
}
