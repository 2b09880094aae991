/* Node sums: what the ranks of one node keep, give one another and fetch from afar.
 *
 * Who is near follows from the node alone: a source group with a holder on the node serves all of the node's ranks from
 * there.  Everything else comes from afar: all that meets a destination, less what is near.  So only groups of one node
 * are compared with one another.  Without nodes every rank is a node of its own here. */
#include "plan/node_sums.h"

#include <stdlib.h>

#define MOST_MARKS ((int64_t)1 << 26)
#define FEW_SOURCES 256 /* boxes of a node that are compared one by one; more are looked up */

/* ---- cells ---- */

static int longest_dim(int ndim, const rshi_stripe *cell) {
    int dim = 0;
    for (int d = 1; d < ndim; d++)
        if (rshi_stripe_size(&cell[d]) > rshi_stripe_size(&cell[dim])) dim = d;
    return dim;
}

rshi_clip rshi_cell_slice(int ndim, const rshi_stripe *cell, int64_t n, int64_t i) {
    int dim = longest_dim(ndim, cell);
    return (rshi_clip){cell, dim, rshi_stripe_slice(&cell[dim], n, i), rshi_stripe_slice(&cell[dim], n, i + 1)};
}

int64_t rshi_clip_size(int ndim, const rshi_clip *c) {
    int64_t n = 1;
    for (int d = 0; d < ndim; d++)
        n *= d == c->dim ? rshi_stripe_before(&c->set[d], c->hi) - rshi_stripe_before(&c->set[d], c->lo)
                         : rshi_stripe_size(&c->set[d]);
    return n;
}

/* Elements that a source group and the clipped cells of a destination have in common. */
static int64_t common(const rshi_sums *s, int64_t source, const rshi_clip *clip, int64_t n) {
    int64_t part = source / s->a.partials, sum = 0;
    for (int64_t i = s->a.first_cell[part]; i < s->a.first_cell[part + 1]; i++)
        for (int64_t j = 0; j < n; j++) sum += rshi_clip_common(s->ndim, rshi_grouped_side_cell(&s->a, i), &clip[j]);
    return sum;
}

/* ---- who is on the node ---- */

static int by_group(const void *a, const void *b) {
    const rshi_member *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

rsh_status rshi_sums_list_members(const rshi_sums *s, const rshi_grouped_side *side, rshi_list *list) {
    bool in_order = true;
    list->n = 0;
    for (int64_t i = 0; i < s->crew.n; i++) {
        int64_t q = rshi_crew_ordinal(&s->crew, i), first = side->first_held[q], end = side->first_held[q + 1];
        RSH_TRY(RSHI_GROW(list->member, list->n + end - first, &list->room));
        for (int64_t h = first; h < end; h++, list->n++) {
            list->member[list->n] = (rshi_member){side->held[h].group, side->held[h].index, q, i};
            in_order = in_order && (!list->n || by_group(&list->member[list->n - 1], &list->member[list->n]) < 0);
        }
    }
    if (!in_order) qsort(list->member, (size_t)list->n, sizeof *list->member, by_group);
    return RSH_OK;
}

int64_t rshi_sums_group_end(const rshi_list *list, int64_t i) {
    int64_t j = i + 1;
    while (j < list->n && list->member[j].group == list->member[i].group) j++;
    return j;
}

static void set_mark(rshi_sums *s, const rshi_member *from, const rshi_member *to) {
    if (s->nodes) s->mark[from->place * s->crew.n + to->place] = 1;
}

/* ---- cells of the rank at hand ---- */

static rsh_status add_clip(rshi_sums *s, rshi_clip c) {
    RSH_TRY(RSHI_GROW(s->clip, s->nclips + 1, &s->clips_room));
    s->clip[s->nclips++] = c;
    return RSH_OK;
}

static bool is_sliced(const rshi_sums *s, int64_t target) {
    return s->ndim && s->pair->reduce && rshi_grouped_side_holders(&s->b, target) > 1;
}

/* What member i of `targets`, number `number` of its group on this node, fetches for its group: all cells, its slice of
 * each, or what lies between its cuts. */
static rsh_status add_fetched(rshi_sums *s, int64_t i, int64_t number, int64_t count) {
    const rshi_member *m = &s->targets.member[i];
    int64_t part = m->group / s->b.partials, at = s->cut_of[i];
    bool sliced = is_sliced(s, m->group);
    for (int64_t c = s->b.first_cell[part]; c < s->b.first_cell[part + 1]; c++) {
        const rshi_stripe *cell = rshi_grouped_side_cell(&s->b, c);
        rshi_clip clip = {cell, -1, 0, 0};
        if (sliced) clip = rshi_cell_slice(s->ndim, cell, rshi_grouped_side_holders(&s->b, m->group), m->index);
        if (at >= 0) {
            clip.dim = longest_dim(s->ndim, cell);
            clip.lo = s->at[at + number], clip.hi = s->at[at + number + 1];
            at += count + 1;
        }
        RSH_TRY(add_clip(s, clip));
    }
    return RSH_OK;
}

/* ---- near ---- */

static bool go_together(const rshi_sums *s, int64_t source, int64_t target) {
    return !s->pair->keep || source % s->a.partials == target % s->b.partials;
}

/* Members i to j of `sources` hold n elements that the target wants: it has them itself, or one of these gives them. */
static void give(rshi_sums *s, int64_t i, int64_t j, const rshi_member *target, int64_t n) {
    for (int64_t k = i; k < j; k++)
        if (s->sources.member[k].rank == target->rank) {
            s->kept[target->rank] += n * s->size;
            s->received[target->rank] -= n * s->size;
            return;
        }
    const rshi_member *giver = &s->sources.member[i + s->b.turn[target->rank] % (j - i)];
    s->sent[giver->rank] += n * s->size;
    set_mark(s, giver, target);
}

/* What would have been fetched from afar, and by turn from which holder, is not. */
static void take_off(rshi_sums *s, int64_t source, int64_t turn, int64_t n) {
    if (s->looks) return;
    int64_t k = rshi_grouped_side_holders(&s->a, source);
    s->sent[s->a.holder[s->a.first_holder[source] + turn % k]] -= n * s->size;
}

static rsh_status add_brick(rshi_sums *s, int64_t target, int64_t turn, const rshi_clip *cell) {
    int64_t k = s->a.most_holders, partial = s->pair->keep ? target % s->b.partials : 0;
    RSH_TRY(RSHI_GROW(s->brick, s->nbricks + 1, &s->bricks_room));
    s->brick[s->nbricks++] = (rshi_brick){partial * k + turn % k, 1, *cell};
    return RSH_OK;
}

/* The cells in s->clip are fetched from afar by a rank whose turn it is. */
static rsh_status add_bricks(rshi_sums *s, int64_t target, int64_t turn) {
    if (s->looks || s->a.most_holders <= 1) return RSH_OK;
    for (int64_t c = 0; c < s->nclips; c++) RSH_TRY(add_brick(s, target, turn, &s->clip[c]));
    return RSH_OK;
}

/* As in serve.c, and for what is relayed in way_relayed.c. */
static int64_t turn_of(const rshi_sums *s, const rshi_member *m, bool relayed) {
    bool counts_parts = relayed && !rsh_layout_describe(s->b.l)->is_boxes;
    return s->b.turn[m->rank] + (counts_parts ? m->group / s->b.partials : 0);
}

/* ---- what sources of the node have of the clips at hand ---- */

static rsh_status add_shared(rshi_sums *s, int64_t first, int64_t n) {
    if (!n) return RSH_OK;
    RSH_TRY(RSHI_GROW(s->shared, s->nshared + 1, &s->shared_room));
    s->shared[s->nshared++] = (rshi_shared){first, rshi_sums_group_end(&s->sources, first), n};
    return RSH_OK;
}

typedef struct looking {
    rshi_sums *s;
    const rshi_clip *clip;
    int64_t rank, turn; /* of the rank that fetches */
} looking;

static rsh_status add_near_box(void *ctx, int64_t box) {
    looking *w = ctx;
    rshi_sums *s = w->s;
    if (s->tick[box] != s->node) return RSH_OK;
    int64_t n = rshi_clip_common(s->ndim, rshi_grouped_side_cell(&s->a, s->a.first_cell[box]), w->clip);
    return add_shared(s, s->begins[box], n);
}

/* Boxes that meet the clips. */
static rsh_status look_up(rshi_sums *s, int64_t rank, int64_t turn, rshi_box_fn fn) {
    for (int64_t c = 0; c < s->nclips; c++) {
        looking w = {s, &s->clip[c], rank, turn};
        rshi_stripe query[RSH_MAX_NDIM];
        rshi_clip_hull(s->ndim, w.clip, query);
        RSH_TRY(rshi_boxes_meeting(s->a.l, query, fn, &w));
    }
    return RSH_OK;
}

static rsh_status list_shared(rshi_sums *s, int64_t target) {
    s->nshared = 0;
    if (s->boxes && s->sources.n > FEW_SOURCES) return look_up(s, 0, 0, add_near_box);
    for (int64_t x = 0; x < s->sources.n; x = rshi_sums_group_end(&s->sources, x)) {
        int64_t source = s->sources.member[x].group;
        if (go_together(s, source, target)) RSH_TRY(add_shared(s, x, common(s, source, s->clip, s->nclips)));
    }
    return RSH_OK;
}

/* ---- one destination group: members i to j of `targets` ---- */

/* Every member fetches what is not near for itself: all of the group's cells, or its slice of them. */
static rsh_status add_each(rshi_sums *s, int64_t i, int64_t j) {
    int64_t target = s->targets.member[i].group;
    s->weight[target] = is_sliced(s, target) ? 1 : s->weight[target] + j - i;
    for (int64_t m = i; m < j; m++) {
        const rshi_member *to = &s->targets.member[m];
        int64_t turn = s->b.turn[to->rank], far = 0;
        if (m == i || is_sliced(s, target)) {
            s->nclips = 0;
            RSH_TRY(add_fetched(s, m, m - i, j - i));
            RSH_TRY(list_shared(s, target));
        }
        for (int64_t c = 0; c < s->nclips; c++) far += rshi_clip_size(s->ndim, &s->clip[c]);
        far *= s->pair->contributions;
        s->received[to->rank] += far * s->size;
        RSH_TRY(add_bricks(s, target, turn));
        for (int64_t k = 0; k < s->nshared; k++) {
            const rshi_shared *both = &s->shared[k];
            far -= both->n;
            give(s, both->first, both->end, to, both->n);
            take_off(s, s->sources.member[both->first].group, turn, both->n);
        }
        s->t->bytes_between_nodes += far * s->size;
    }
    return RSH_OK;
}

/* Near parts of a cell of the group, along its longest dim. */
static rsh_status list_near(rshi_sums *s, const rshi_stripe *cell, int dim, int64_t *n) {
    *n = 0;
    for (int64_t x = 0; x < s->sources.n; x = rshi_sums_group_end(&s->sources, x)) {
        int64_t part = s->sources.member[x].group / s->a.partials;
        for (int64_t i = s->a.first_cell[part]; i < s->a.first_cell[part + 1]; i++) {
            const rshi_stripe *a = rshi_grouped_side_cell(&s->a, i);
            rshi_clip whole = {cell, -1, 0, 0};
            int64_t both = rshi_clip_common(s->ndim, a, &whole);
            if (!both) continue;
            RSH_TRY(RSHI_GROW(s->near, *n + 1, &s->near_room));
            int64_t along = rshi_stripe_common(&a[dim], &cell[dim], a[dim].lo, rshi_stripe_end(&a[dim]));
            s->near[(*n)++] = (rshi_near){a[dim], both / along};
        }
    }
    return RSH_OK;
}

/* Cuts of every cell: count + 1 numbers each. */
static rsh_status cut_cells(rshi_sums *s, int64_t i, int64_t count) {
    int64_t part = s->targets.member[i].group / s->b.partials, n;
    for (int64_t m = i; m < i + count; m++) s->cut_of[m] = s->nat;
    for (int64_t c = s->b.first_cell[part]; c < s->b.first_cell[part + 1]; c++) {
        const rshi_stripe *cell = rshi_grouped_side_cell(&s->b, c);
        int dim = longest_dim(s->ndim, cell);
        int64_t across = 1;
        for (int d = 0; d < s->ndim; d++)
            if (d != dim) across *= rshi_stripe_size(&cell[d]);
        n = 0;
        if (!rshi_relay_is_even(s->pair, cell, s->crew.n)) RSH_TRY(list_near(s, cell, dim, &n));
        RSH_TRY(RSHI_GROW(s->at, s->nat + count + 1, &s->at_room));
        RSH_TRY(rshi_far_cuts(&cell[dim], across, s->near, n, count, s->at + s->nat));
        s->nat += count + 1;
    }
    return RSH_OK;
}

/* One member fetches its range for all, and passes it on. */
static rsh_status add_owner(rshi_sums *s, int64_t i, int64_t j, int64_t m) {
    const rshi_member *owner = &s->targets.member[m];
    int64_t target = owner->group, far = 0, turn = turn_of(s, owner, true);
    s->nclips = 0;
    RSH_TRY(add_fetched(s, m, m - i, j - i));
    for (int64_t c = 0; c < s->nclips; c++) far += rshi_clip_size(s->ndim, &s->clip[c]);
    RSH_TRY(add_bricks(s, target, turn));
    RSH_TRY(list_shared(s, target));
    for (int64_t k = 0; k < s->nshared; k++) {
        far -= s->shared[k].n;
        take_off(s, s->sources.member[s->shared[k].first].group, turn, s->shared[k].n);
    }
    s->t->bytes_between_nodes += far * s->size;
    s->sent[owner->rank] += (j - i - 1) * far * s->size;
    for (int64_t to = i; to < j && far; to++)
        if (to != m) set_mark(s, owner, &s->targets.member[to]);
    return RSH_OK;
}

static rsh_status add_relayed(rshi_sums *s, int64_t i, int64_t j) {
    int64_t target = s->targets.member[i].group, part = target / s->b.partials;
    RSH_TRY(cut_cells(s, i, j - i));
    s->weight[target]++;
    for (int64_t m = i; m < j; m++) {
        s->received[s->targets.member[m].rank] += s->b.size[part] * s->size;
        RSH_TRY(add_owner(s, i, j, m));
    }
    s->nclips = 0;
    for (int64_t c = s->b.first_cell[part]; c < s->b.first_cell[part + 1]; c++)
        RSH_TRY(add_clip(s, (rshi_clip){rshi_grouped_side_cell(&s->b, c), -1, 0, 0}));
    RSH_TRY(list_shared(s, target));
    for (int64_t k = 0; k < s->nshared; k++)
        for (int64_t m = i; m < j; m++)
            give(s, s->shared[k].first, s->shared[k].end, &s->targets.member[m], s->shared[k].n);
    return RSH_OK;
}

static rsh_status add_group(rshi_sums *s, int64_t i, int64_t j) {
    for (int64_t m = i; m < j; m++) s->cut_of[m] = -1;
    return s->relays && j - i > 1 ? add_relayed(s, i, j) : add_each(s, i, j);
}

/* ---- messages from afar ---- */

/* A box that is fetched from, if it is not near. */
static rsh_status look_at(void *ctx, int64_t box) {
    looking *w = ctx;
    rshi_sums *s = w->s;
    if (s->tick[box] == s->node) return RSH_OK; /* near */
    int64_t n = rshi_clip_common(s->ndim, rshi_grouped_side_cell(&s->a, s->a.first_cell[box]), w->clip);
    if (!n) return RSH_OK;
    int64_t from = s->a.holder[s->a.first_holder[box] + w->turn % rshi_grouped_side_holders(&s->a, box)];
    s->sent[from] += n * s->size;
    s->t->messages += s->heard[from] != w->rank + 1;
    s->heard[from] = w->rank + 1;
    return RSH_OK;
}

/* Sources of the node that what a rank fetches would come from if they were not near. */
static rsh_status count_near(rshi_sums *s, int64_t i, int64_t *n) {
    RSH_TRY(list_shared(s, s->targets.member[i].group));
    *n = s->nshared;
    return RSH_OK;
}

/* Parts of the sources that meet the clips; what meets all of a part is remembered. */
static rsh_status count_met(rshi_sums *s, int64_t i, bool whole, int64_t *n) {
    int64_t *known = whole && s->b.single ? &s->met[s->targets.member[i].group / s->b.partials] : NULL;
    if (known && *known >= 0) {
        *n = *known;
        return RSH_OK;
    }
    RSH_TRY(rshi_encounter_count(s->meeting, s->clip, s->nclips, n));
    if (known) *known = *n;
    return RSH_OK;
}

typedef struct fetching {
    int64_t place, at, number, count; /* of the rank; among targets; among those of its group on the node */
} fetching;

static int by_place(const void *a, const void *b) {
    const fetching *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Members i to j of the list are one rank: all that it fetches together. */
static rsh_status count_rank(rshi_sums *s, const fetching *list, int64_t n) {
    bool whole = true;
    int64_t met;
    s->nclips = 0;
    for (int64_t k = 0; k < n; k++) {
        RSH_TRY(add_fetched(s, list[k].at, list[k].number, list[k].count));
        whole = whole && s->cut_of[list[k].at] < 0 && !is_sliced(s, s->targets.member[list[k].at].group);
    }
    if (s->looks) {
        const rshi_member *m = &s->targets.member[list->at];
        return look_up(s, m->rank, turn_of(s, m, s->cut_of[list->at] >= 0), look_at);
    }
    if (!s->flips) {
        RSH_TRY(count_met(s, list->at, whole, &met));
        s->t->messages += met * s->pair->contributions;
    }
    RSH_TRY(count_near(s, list->at, &met));
    s->t->messages -= met;
    return RSH_OK;
}

static rsh_status count_messages(rshi_sums *s) {
    fetching *list = rshi_alloc((size_t)s->targets.n + 1, sizeof *list);
    rsh_status st = list ? RSH_OK : rshi_nomem();
    for (int64_t i = 0, j; i < s->targets.n && !st; i = j) {
        j = rshi_sums_group_end(&s->targets, i);
        for (int64_t m = i; m < j; m++) list[m] = (fetching){s->targets.member[m].place, m, m - i, j - i};
    }
    if (!st && s->targets.n) qsort(list, (size_t)s->targets.n, sizeof *list, by_place);
    for (int64_t i = 0, n; i < s->targets.n && !st; i += n) {
        for (n = 1; i + n < s->targets.n && list[i + n].place == list[i].place;) n++;
        st = count_rank(s, list + i, n);
    }
    rshi_free(list);
    return st;
}

/* ---- the node ---- */

static rsh_status node_room(rshi_sums *s) {
    int64_t n = s->crew.n, marks = s->nodes ? n * n : 0;
    if (marks > MOST_MARKS) {
        s->given_up = true;
        return RSH_OK;
    }
    RSH_TRY(RSHI_GROW(s->mark, marks, &s->mark_room));
    for (int64_t i = 0; i < marks; i++) s->mark[i] = 0;
    RSH_TRY(RSHI_GROW(s->cut_of, s->targets.n, &s->cut_of_room));
    s->nat = 0;
    for (int64_t x = s->sources.n - 1; x >= 0; x--) {
        s->tick[s->sources.member[x].group] = s->node;
        s->begins[s->sources.member[x].group] = x;
    }
    return RSH_OK;
}

/* Owners of a result pass their slices on to the other ranks of the node. */
static void mark_slices(rshi_sums *s, int64_t i, int64_t j) {
    int64_t target = s->targets.member[i].group, part = target / s->b.partials,
            k = rshi_grouped_side_holders(&s->b, target);
    if (!is_sliced(s, target)) return;
    for (int64_t m = i; m < j; m++) {
        int64_t n = 0;
        for (int64_t c = s->b.first_cell[part]; c < s->b.first_cell[part + 1]; c++) {
            rshi_clip slice = rshi_cell_slice(s->ndim, rshi_grouped_side_cell(&s->b, c), k, s->targets.member[m].index);
            n += rshi_clip_size(s->ndim, &slice);
        }
        for (int64_t to = i; to < j && n; to++)
            if (to != m) set_mark(s, &s->targets.member[m], &s->targets.member[to]);
    }
}

rsh_status rshi_sums_add_node(rshi_sums *s) {
    RSH_TRY(rshi_sums_list_members(s, &s->a, &s->sources));
    RSH_TRY(rshi_sums_list_members(s, &s->b, &s->targets));
    RSH_TRY(node_room(s));
    if (s->given_up) return RSH_OK;
    for (int64_t i = 0, j; i < s->targets.n; i = j) {
        j = rshi_sums_group_end(&s->targets, i);
        RSH_TRY(add_group(s, i, j));
        mark_slices(s, i, j);
    }
    RSH_TRY(count_messages(s));
    for (int64_t i = 0; i < s->crew.n && s->nodes; i++)
        for (int64_t j = 0; j < s->crew.n; j++) s->t->messages += s->mark[i * s->crew.n + j];
    return RSH_OK;
}
