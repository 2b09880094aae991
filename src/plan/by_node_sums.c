/* By-node sums: totals of a reduction that nodes combine first, from pairs of a source part and a destination rank.
 *
 * The contributions to a source part that lie on one node are a group.  Groups of equally many members cut the part
 * into the same slices, so what a destination takes of a slice is found once for all of them.  Ranks of one node are
 * marked pair by pair, for they meet in several stages; pairs of different nodes meet once, or are looked at.  The cost
 * grows with ranks times source parts, and with ranks times the ranks of a node.  Sources with replicas are left to the
 * walk. */
#include "plan/node_sums.h"

#include <stdlib.h>

#define MOST_WORK ((int64_t)1 << 27)
#define MOST_MARKS ((int64_t)1 << 26)

/* Members of a group in the order of their positions. */
typedef struct group {
    int64_t node, first, n; /* in `member` */
    int64_t kind;
} group;

/* Groups of one part that have equally many members. */
typedef struct kind {
    int64_t n, groups;
    int64_t taken; /* in `taken`: of each slice, elements that destinations take, every one counted */
} kind;

typedef struct part {
    int64_t first_group, ngroups, first_kind, nkinds;
    int64_t in_order; /* elements that destinations take of each contribution itself */
    bool combined;
} part;

typedef struct adding {
    rshi_sums *s;
    int64_t e, w; /* bytes of an element of a contribution, and of a result */
    part *part;   /* owned, by source part; what follows is owned too, each at most as many as contributions */
    group *group;
    kind *kind;
    int64_t *member; /* ordinals */
    int64_t *taken;
    int64_t *group_of, *number; /* by ordinal: group, or -1; and which of its members */
    int64_t *place;             /* by ordinal: among the ranks of the node at hand */
    int64_t *met;               /* of each slice of the part at hand, what the rank at hand takes */
    int64_t ngroups, nkinds, ntaken;
} adding;

/* ---- groups ---- */

typedef struct placed {
    int64_t node, rank;
    int64_t position;
} placed;

static int by_node(const void *a, const void *b) {
    const placed *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

static int64_t kind_of(adding *w, part *p, int64_t n) {
    for (int64_t k = p->first_kind; k < w->nkinds; k++)
        if (w->kind[k].n == n) return k;
    w->kind[w->nkinds++] = (kind){n, 0, w->ntaken};
    w->ntaken += n;
    return w->nkinds - 1;
}

/* Contributions first to end - 1 of `list` are on one node. */
static void add_group(adding *w, part *p, const placed *list, int64_t first, int64_t end, int64_t at) {
    group *g = &w->group[w->ngroups];
    *g = (group){list[first].node, at + first, end - first, kind_of(w, p, end - first)};
    for (int64_t i = first; i < end; i++) {
        w->member[at + i] = list[i].rank;
        w->group_of[list[i].rank] = w->ngroups;
        w->number[list[i].rank] = i - first;
    }
    w->kind[g->kind].groups++;
    w->ngroups++;
    p->ngroups++;
}

static void list_part(adding *w, int64_t number, placed *list) {
    const rshi_grouped_side *a = &w->s->a;
    part *p = &w->part[number];
    int64_t n = a->partials, first = 0;
    *p = (part){.first_group = w->ngroups, .first_kind = w->nkinds};
    for (int64_t i = 0; i < n; i++) {
        int64_t q = a->holder[a->first_holder[number * n + i]];
        list[i] = (placed){rshi_plan_node(w->s->p, w->s->p->rank[q]), q, i};
    }
    qsort(list, (size_t)n, sizeof *list, by_node);
    for (int64_t i = 1; i <= n; i++)
        if (i == n || list[i].node != list[first].node) add_group(w, p, list, first, i, number * n), first = i;
    p->nkinds = w->nkinds - p->first_kind;
    p->combined = rshi_mul_most(p->ngroups, w->w) < rshi_mul_most(n, w->e);
}

static rsh_status list_parts(adding *w) {
    const rshi_grouped_side *a = &w->s->a;
    size_t n = (size_t)a->groups + 1, ranks = (size_t)w->s->p->nranks + 1;
    placed *list = rshi_alloc((size_t)a->partials, sizeof *list);
    w->part = rshi_alloc((size_t)a->parts + 1, sizeof *w->part);
    w->group = rshi_alloc(n, sizeof *w->group);
    w->kind = rshi_alloc(n, sizeof *w->kind);
    w->member = rshi_alloc(n, sizeof *w->member);
    w->taken = rshi_calloc(n, sizeof *w->taken);
    w->met = rshi_alloc(n, sizeof *w->met);
    w->group_of = rshi_alloc(ranks, sizeof *w->group_of);
    w->number = rshi_alloc(ranks, sizeof *w->number);
    w->place = rshi_alloc(ranks, sizeof *w->place);
    bool there = list && w->part && w->group && w->kind && w->member && w->taken && w->met && w->group_of &&
                 w->number && w->place;
    for (int64_t q = 0; there && q < w->s->p->nranks; q++) w->group_of[q] = -1;
    for (int64_t i = 0; there && i < a->parts; i++) list_part(w, i, list);
    rshi_free(list);
    return there ? RSH_OK : rshi_nomem();
}

static void adding_free(adding *w) {
    rshi_free(w->part);
    rshi_free(w->group);
    rshi_free(w->kind);
    rshi_free(w->member);
    rshi_free(w->taken);
    rshi_free(w->met);
    rshi_free(w->group_of);
    rshi_free(w->number);
    rshi_free(w->place);
}

/* The group of a part that is on a node; NULL: none. */
static const group *group_on(const adding *w, const part *p, int64_t node) {
    int64_t lo = p->first_group, hi = lo + p->ngroups - 1;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (w->group[mid].node < node)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo <= hi && w->group[lo].node == node ? &w->group[lo] : NULL;
}

static const part *part_of(const adding *w, const group *g) { return &w->part[g->first / w->s->a.partials]; }

/* See rshi_node_group_has_result. */
static bool has_result(const adding *w, const group *g) {
    return part_of(w, g)->combined && (g->n > 1 || w->w != w->e);
}

/* See reads_in_order in way_by_node.c. */
static bool reads_in_order(const adding *w, const part *p, int64_t node) {
    if (!p->combined) return true;
    return p->ngroups == 1 &&
           (w->group[p->first_group].node == node || rsh_layout_dtype(w->s->pair->to) == RSH_F8E4M3);
}

/* ---- cells ---- */

static int64_t common_clips(int ndim, const rshi_clip *a, const rshi_clip *b) {
    int64_t n = 1;
    for (int d = 0; d < ndim && n; d++) {
        int64_t lo = rshi_max(a->set[d].lo, b->set[d].lo), hi = rshi_stripe_end(&a->set[d]);
        if (d == a->dim) lo = rshi_max(lo, a->lo), hi = rshi_min(hi, a->hi);
        if (d == b->dim) lo = rshi_max(lo, b->lo), hi = rshi_min(hi, b->hi);
        n *= lo < hi ? rshi_stripe_common(&a->set[d], &b->set[d], lo, hi) : 0;
    }
    return n;
}

/* Slice i of n of a source part, and the clips at hand. */
static int64_t common_slice(adding *w, int64_t number, int64_t n, int64_t i) {
    rshi_sums *s = w->s;
    int64_t sum = 0;
    for (int64_t c = s->a.first_cell[number]; c < s->a.first_cell[number + 1]; c++) {
        const rshi_stripe *cell = rshi_grouped_side_cell(&s->a, c);
        rshi_clip slice = {cell, -1, 0, 0};
        if (s->ndim) slice = rshi_cell_slice(s->ndim, cell, n, i);
        else if (i) continue; /* a single element is the first one's */
        for (int64_t k = 0; k < s->nclips; k++) sum += common_clips(s->ndim, &slice, &s->clip[k]);
    }
    s->work += s->nclips;
    return sum;
}

/* Elements of a slice of a source part. */
static int64_t slice_size(const adding *w, int64_t number, int64_t n, int64_t i) {
    const rshi_sums *s = w->s;
    int64_t sum = 0;
    for (int64_t c = s->a.first_cell[number]; c < s->a.first_cell[number + 1]; c++) {
        rshi_clip slice = {rshi_grouped_side_cell(&s->a, c), -1, 0, 0};
        if (s->ndim) slice = rshi_cell_slice(s->ndim, slice.set, n, i);
        sum += s->ndim ? rshi_clip_size(s->ndim, &slice) : i == 0;
    }
    return sum;
}

static bool is_sliced(const rshi_sums *s, int64_t target) {
    return s->ndim && rshi_grouped_side_holders(&s->b, target) > 1;
}

/* Elements that holder i of a target combines. */
static int64_t owned(const rshi_sums *s, int64_t target, int64_t i) {
    int64_t wanted = target / s->b.partials, k = rshi_grouped_side_holders(&s->b, target), n = 0;
    for (int64_t c = s->b.first_cell[wanted]; c < s->b.first_cell[wanted + 1]; c++) {
        rshi_clip slice = rshi_cell_slice(s->ndim, rshi_grouped_side_cell(&s->b, c), k, i);
        n += rshi_clip_size(s->ndim, &slice);
    }
    return n;
}

/* All that a rank combines: into s->clip. */
static rsh_status list_clips(rshi_sums *s, int64_t q) {
    s->nclips = 0;
    for (int64_t h = s->b.first_held[q]; h < s->b.first_held[q + 1]; h++) {
        int64_t target = s->b.held[h].group, wanted = target / s->b.partials;
        for (int64_t c = s->b.first_cell[wanted]; c < s->b.first_cell[wanted + 1]; c++) {
            rshi_clip clip = {rshi_grouped_side_cell(&s->b, c), -1, 0, 0};
            if (is_sliced(s, target))
                clip = rshi_cell_slice(s->ndim, clip.set, rshi_grouped_side_holders(&s->b, target), s->b.held[h].index);
            RSH_TRY(RSHI_GROW(s->clip, s->nclips + 1, &s->clips_room));
            s->clip[s->nclips++] = clip;
        }
    }
    return RSH_OK;
}

/* ---- one rank takes what it combines ---- */

static void set_mark(adding *w, int64_t from, int64_t to) {
    if (from != to) w->s->mark[w->place[from] * w->s->crew.n + w->place[to]] = 1;
}

/* What was counted as sent and received stays on the rank. */
static void keep(rshi_sums *s, int64_t q, int64_t bytes) {
    s->kept[q] += bytes;
    s->sent[q] -= bytes;
    s->received[q] -= bytes;
}

static void take_in_order(adding *w, part *p, int64_t q, const group *near, int64_t n) {
    rshi_sums *s = w->s;
    int64_t far = s->a.partials - (near ? near->n : 0);
    p->in_order += n;
    s->received[q] += s->a.partials * n * w->e;
    s->t->bytes_between_nodes += far * n * w->e;
    s->t->messages += far;
    for (int64_t i = 0; near && i < near->n; i++) {
        if (w->member[near->first + i] == q) keep(s, q, n * w->e);
        set_mark(w, w->member[near->first + i], q);
    }
}

static void take_results(adding *w, part *p, int64_t q, const group *near, int64_t n) {
    rshi_sums *s = w->s;
    int64_t far = p->ngroups - (near != NULL);
    s->received[q] += p->ngroups * n * w->w;
    s->t->bytes_between_nodes += far * n * w->w;
    for (int64_t k = p->first_kind; k < p->first_kind + p->nkinds; k++) {
        const kind *x = &w->kind[k];
        bool here = near && near->kind == k;
        for (int64_t i = 0; i < x->n; i++) {
            int64_t met = common_slice(w, p - w->part, x->n, i);
            w->taken[x->taken + i] += met;
            if (!met) continue;
            s->t->messages += x->groups - here;
            if (!here) continue;
            if (w->member[near->first + i] == q) keep(s, q, met * w->w);
            set_mark(w, w->member[near->first + i], q);
        }
    }
}

static rsh_status add_rank(adding *w, int64_t q, int64_t node) {
    rshi_sums *s = w->s;
    RSH_TRY(list_clips(s, q));
    for (int64_t i = 0; i < s->a.parts && s->nclips && !s->given_up; i++) {
        part *p = &w->part[i];
        int64_t n = common_slice(w, i, 1, 0);
        s->given_up = s->work > MOST_WORK;
        if (!n) continue;
        if (reads_in_order(w, p, node))
            take_in_order(w, p, q, group_on(w, p, node), n);
        else
            take_results(w, p, q, group_on(w, p, node), n);
    }
    return RSH_OK;
}

/* ---- inside a group ---- */

/* A rank's slice of its group's result, from the contributions of all. */
static void add_result(adding *w, int64_t q) {
    rshi_sums *s = w->s;
    const group *g = w->group_of[q] < 0 ? NULL : &w->group[w->group_of[q]];
    if (!g || !has_result(w, g)) return;
    int64_t n = slice_size(w, g->first / s->a.partials, g->n, w->number[q]);
    s->received[q] += g->n * n * w->e;
    s->sent[q] += s->a.size[g->first / s->a.partials] * w->e;
    keep(s, q, n * w->e);
    for (int64_t i = 0; i < g->n && n; i++) set_mark(w, w->member[g->first + i], q);
}

/* ---- results are passed on: see way_reduced.c ---- */

/* Does the rank give another, of another node, whose clips are at hand, some of its contribution or result? */
static bool gives(adding *w, int64_t from, int64_t to_node) {
    const group *g = w->group_of[from] < 0 ? NULL : &w->group[w->group_of[from]];
    if (!g) return false;
    int64_t number = g->first / w->s->a.partials;
    if (reads_in_order(w, &w->part[number], to_node)) return common_slice(w, number, 1, 0) > 0;
    return common_slice(w, number, g->n, w->number[from]) > 0;
}

/* Members i to j of `targets` hold the target on this node; `bytes` of rank `from`, of another node, come to one of
 * them, which passes them on. */
static rsh_status take_far(adding *w, int64_t i, int64_t j, int64_t taker, int64_t from, int64_t bytes) {
    rshi_sums *s = w->s;
    int64_t to = s->targets.member[taker].rank;
    s->sent[from] += bytes;
    s->received[to] += bytes;
    s->t->bytes_between_nodes += bytes;
    RSH_TRY(list_clips(s, to));
    s->t->messages += !gives(w, from, rshi_plan_node(s->p, s->p->rank[to]));
    for (int64_t m = i; m < j; m++) {
        if (m == taker) continue;
        s->sent[to] += bytes;
        s->received[s->targets.member[m].rank] += bytes;
        set_mark(w, to, s->targets.member[m].rank);
    }
    return RSH_OK;
}

static void take_near(adding *w, int64_t i, int64_t j, int64_t from, int64_t bytes) {
    for (int64_t m = i; m < j; m++) {
        int64_t to = w->s->targets.member[m].rank;
        if (to == from) continue;
        w->s->sent[from] += bytes;
        w->s->received[to] += bytes;
        set_mark(w, from, to);
    }
}

static rsh_status pass_on(adding *w, int64_t i, int64_t j, int64_t node) {
    rshi_sums *s = w->s;
    int64_t target = s->targets.member[i].group, k = rshi_grouped_side_holders(&s->b, target), far = 0;
    if (!is_sliced(s, target)) return RSH_OK;
    for (int64_t h = 0; h < k && !s->given_up; h++) {
        int64_t owner = s->b.holder[s->b.first_holder[target] + h], bytes = owned(s, target, h) * s->out_size;
        bool is_near = rshi_plan_node(s->p, s->p->rank[owner]) == node;
        int64_t taker = is_near ? 0 : i + far++ % (j - i);
        s->given_up = ++s->work > MOST_WORK;
        if (!bytes) continue;
        if (is_near)
            take_near(w, i, j, owner, bytes);
        else
            RSH_TRY(take_far(w, i, j, taker, owner, bytes));
    }
    return RSH_OK;
}

/* ---- nodes ---- */

static rsh_status node_room(adding *w) {
    rshi_sums *s = w->s;
    int64_t n = s->crew.n;
    s->given_up = rshi_mul_most(n, n) > MOST_MARKS;
    if (s->given_up) return RSH_OK;
    RSH_TRY(RSHI_GROW(s->mark, n * n, &s->mark_room));
    for (int64_t i = 0; i < n * n; i++) s->mark[i] = 0;
    for (int64_t i = 0; i < n; i++) w->place[rshi_crew_ordinal(&s->crew, i)] = i;
    return rshi_sums_list_members(s, &s->b, &s->targets);
}

static rsh_status add_node(adding *w, int64_t node) {
    rshi_sums *s = w->s;
    RSH_TRY(node_room(w));
    for (int64_t i = 0; i < s->crew.n && !s->given_up; i++) {
        RSH_TRY(add_rank(w, rshi_crew_ordinal(&s->crew, i), node));
        add_result(w, rshi_crew_ordinal(&s->crew, i));
    }
    for (int64_t i = 0, j; i < s->targets.n && !s->given_up; i = j) {
        j = rshi_sums_group_end(&s->targets, i);
        RSH_TRY(pass_on(w, i, j, node));
    }
    for (int64_t i = 0; i < s->crew.n * s->crew.n && !s->given_up; i++) s->t->messages += s->mark[i];
    return RSH_OK;
}

static rsh_status add_nodes(adding *w) {
    rshi_sums *s = w->s;
    const rsh_plan *p = s->p;
    rshi_progress_pass(s->w, RSHI_PASS_NODES + RSHI_PASS_FAR);
    for (int64_t i = 0; i < p->nranks && !s->given_up; i += s->crew.n) {
        RSH_TRY(rshi_progress_at(s->w, i, p->nranks));
        s->crew = (rshi_crew){p->by_node, i, 1};
        int64_t node = rshi_plan_node(p, p->rank[rshi_crew_ordinal(&s->crew, 0)]);
        while (i + s->crew.n < p->nranks &&
               rshi_plan_node(p, p->rank[rshi_crew_ordinal(&s->crew, s->crew.n)]) == node)
            s->crew.n++;
        RSH_TRY(add_node(w, node));
    }
    return RSH_OK;
}

/* What was taken of parts and slices was taken of every one of their ranks. */
static void add_sent(adding *w) {
    for (int64_t q = 0; q < w->s->p->nranks; q++) {
        if (w->group_of[q] < 0) continue;
        const group *g = &w->group[w->group_of[q]];
        const part *p = part_of(w, g);
        w->s->sent[q] += p->in_order * w->e + w->taken[w->kind[g->kind].taken + w->number[q]] * w->w;
    }
}

rsh_status rshi_sums_by_node(rshi_sums *s) {
    adding w = {.s = s, .e = (int64_t)rsh_dtype_size(rsh_layout_dtype(s->pair->from))};
    w.w = (int64_t)rsh_dtype_size(rshi_pair_accumulator(s->pair));
    s->given_up = s->a.most_holders > 1 || !s->a.single || (!s->b.single && s->b.most_holders > 1);
    if (s->given_up) return RSH_OK;
    rsh_status st = list_parts(&w);
    if (!st) st = add_nodes(&w);
    if (!st && !s->given_up) add_sent(&w);
    adding_free(&w);
    return st;
}
