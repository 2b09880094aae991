/* Slices: the holders of a destination piece, by node, and the slice of it that each keeps.
 *
 * A piece that several ranks hold is cut along its longest dim.  In the node cut the holders of each node have a slice
 * each, and every node has the whole piece.  Those that hold the source have none: they need nothing from others.  In
 * the cut among all, each holder has one slice of its own.  Holders on a node that has the source are left out of it:
 * what they want need not come from other nodes. */
#include "plan/slices.h"

#include <stdlib.h>

int rshi_piece_longest_dim(const rsh_layout *l, const rshi_piece *p) {
    int dim = 0;
    for (int d = 1; d < rsh_layout_ndim(l); d++)
        if (rshi_stripe_size(&p->set[d]) > rshi_stripe_size(&p->set[dim])) dim = d;
    return dim;
}

int64_t rshi_stripe_slice(const rshi_stripe *s, int64_t n, int64_t i) {
    int64_t size = rshi_stripe_size(s), start = rshi_slice_start(size, n, i);
    return start < size ? rshi_stripe_at(s, start) : rshi_stripe_end(s);
}

/* ---- holders by node ---- */

static int by_node(const void *a, const void *b) {
    const rshi_member *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->holder > y->holder) - (x->holder < y->holder);
}

/* Mostly they come in order: meshes count up node by node. */
static void sort_members(rshi_crews *c) {
    bool in_order = true;
    for (int64_t i = 1; i < c->n && in_order; i++) in_order = c->member[i - 1].node <= c->member[i].node;
    if (!in_order) qsort(c->member, (size_t)c->n, sizeof *c->member, by_node);
}

static void form_crews(rshi_crews *c) {
    for (int64_t i = 0, n; i < c->n; i += n) {
        for (n = 1; i + n < c->n && c->member[i + n].node == c->member[i].node;) n++;
        for (int64_t k = 0; k < n; k++) {
            c->member[i + k].first = i, c->member[i + k].crew = n;
            c->place[c->member[i + k].holder] = i + k;
        }
    }
}

static rsh_status list_members(const rsh_plan *p, const rsh_layout *to, rshi_crews *c) {
    c->n = rshi_piece_holders(to, &c->b);
    RSH_TRY(RSHI_GROW(c->member, c->n, &c->member_room));
    RSH_TRY(RSHI_GROW(c->place, c->n, &c->place_room));
    for (int64_t i = 0; i < c->n; i++) {
        int64_t rank = rshi_piece_holder(to, &c->b, i);
        c->member[i] = (rshi_member){p->several_nodes ? rshi_plan_node(p, rank) : 0, i, rank, 0, 0};
    }
    sort_members(c);
    form_crews(c);
    return RSH_OK;
}

rsh_status rshi_crews_find(rshi_walk *w, int64_t tensor, const rshi_piece *b, const rshi_crews **out) {
    const rsh_layout *to = w->p->pair[tensor].to;
    rshi_piece first;
    if (!w->crews) {
        if (!(w->crews = RSHI_NEW(rshi_crews))) return rshi_nomem();
        w->crews->tensor = -1;
    }
    rshi_crews *c = w->crews;
    rshi_piece_at_holder(to, b, 0, &first);
    *out = c;
    if (c->tensor == tensor && rshi_same_piece(to, &c->b, &first)) return RSH_OK;
    c->tensor = -1; /* not complete */
    c->b = first;
    c->dim = rshi_piece_longest_dim(to, b);
    c->serial++;
    RSH_TRY(list_members(w->p, to, c));
    c->tensor = tensor;
    return RSH_OK;
}

const rshi_member *rshi_crews_member(const rshi_crews *c, int64_t holder) { return &c->member[c->place[holder]]; }

/* ---- teams ---- */

const rshi_member *rshi_team_member(const rshi_node_team *t, int64_t i) {
    return &t->crews->member[t->list ? t->list[i] : t->first + i];
}

int64_t rshi_team_index(const rshi_node_team *t, int64_t holder) {
    int64_t member = t->crews->place[holder], i = 0;
    if (!t->list) return member >= t->first && member < t->first + t->n ? member - t->first : -1;
    while (i < t->n && t->list[i] != member) i++;
    return i < t->n ? i : -1;
}

static bool holds_source(const rshi_region *r, int64_t rank) {
    return rshi_piece_holder_index(r->pair->from, r->a, rank) >= 0;
}

rsh_status rshi_team_find(rshi_walk *w, const rshi_region *r, const rshi_crews *c, int64_t me, rshi_node_team *out) {
    const rshi_member *m = rshi_crews_member(c, me);
    *out = (rshi_node_team){c, m->crew, m->first, NULL, c->place[me] - m->first};
    if (r->pair->reduce || !w->p->several_nodes || !rshi_holders_on(w->p, r->pair->from, r->a, m->node)) return RSH_OK;
    RSH_TRY(RSHI_GROW(w->team, m->crew, &w->team_room));
    out->list = w->team;
    out->n = 0, out->me = -1;
    for (int64_t i = m->first; i < m->first + m->crew; i++) {
        if (holds_source(r, c->member[i].rank)) continue;
        if (c->member[i].holder == me) out->me = out->n;
        w->team[out->n++] = i;
    }
    return RSH_OK;
}

/* ---- holders near a source ---- */

static rsh_status list_near(const rsh_plan *p, const rsh_layout *from, const rshi_crews *c, rshi_near *near) {
    int64_t n = rshi_piece_holders(from, &near->a);
    near->n = 0;
    RSH_TRY(RSHI_GROW(near->node, n, &near->node_room));
    RSH_TRY(RSHI_GROW(near->holder, c->n, &near->holder_room));
    for (int64_t i = 0; i < n; i++) near->node[i] = rshi_plan_node(p, rshi_piece_holder(from, &near->a, i));
    qsort(near->node, (size_t)n, sizeof *near->node, rshi_compare_int64);
    for (int64_t h = 0; h < c->n; h++)
        if (rshi_find(near->node, n, sizeof *near->node, rshi_crews_member(c, h)->node) >= 0)
            near->holder[near->n++] = h;
    return RSH_OK;
}

rsh_status rshi_near_find(rshi_walk *w, const rshi_region *r, const rshi_crews *c, const rshi_near **out) {
    if (!w->near) {
        if (!(w->near = RSHI_NEW(rshi_near))) return rshi_nomem();
        w->near->serial = -1;
    }
    rshi_near *near = w->near;
    *out = near;
    if (near->serial == c->serial && rshi_same_piece(r->pair->from, &near->a, r->a)) return RSH_OK;
    near->serial = -1; /* not complete */
    near->a = *r->a;
    near->n = 0;
    if (!r->pair->reduce && w->p->several_nodes) RSH_TRY(list_near(w->p, r->pair->from, c, near));
    near->serial = c->serial;
    return RSH_OK;
}

/* How many near holders come before holder number h. */
static int64_t near_before(const rshi_near *near, int64_t h) {
    int64_t lo = 0, hi = near->n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (near->holder[mid] < h)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool rshi_near_has(const rshi_near *near, int64_t h) {
    int64_t i = near_before(near, h);
    return i < near->n && near->holder[i] == h;
}

/* The holder that is number q among those that are not near. */
static int64_t far_holder(const rshi_near *near, int64_t q) {
    int64_t lo = 0, hi = near->n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (near->holder[mid] - mid <= q)
            lo = mid + 1;
        else
            hi = mid;
    }
    return q + lo;
}

/* ---- the two cuts ---- */

/* Large regions are cut one by one, so that each of a team takes equally much of each.  Of small ones each takes those
 * in its slice of the whole piece. */
static bool is_cut_alone(const rshi_region *r, int64_t n) {
    return r->bytes / n >= RSHI_SLICE_BYTES && r->hi - r->lo >= 8 * n;
}

static int64_t slice_at(const rshi_stripe *s, int64_t n, int64_t x) {
    return rshi_slice_at(rshi_stripe_size(s), n, rshi_stripe_before(s, x));
}

rshi_range rshi_node_slice(const rshi_region *r, const rshi_crews *c, int64_t n, int64_t i) {
    const rshi_stripe whole = rshi_stripe_range(r->lo, r->hi), *s = is_cut_alone(r, n) ? &whole : &c->b.set[c->dim];
    return (rshi_range){rshi_stripe_slice(s, n, i), rshi_stripe_slice(s, n, i + 1)};
}

int64_t rshi_node_slice_at(const rshi_region *r, const rshi_crews *c, int64_t n, int64_t x) {
    const rshi_stripe whole = rshi_stripe_range(r->lo, r->hi);
    return slice_at(is_cut_alone(r, n) ? &whole : &c->b.set[c->dim], n, x);
}

/* Reductions have a slice for every holder.  Copies have no slices that are too small, and at least two. */
rshi_all_cut rshi_all_cut_of(const rshi_region *r, const rshi_crews *c, const rshi_near *near) {
    rshi_all_cut cut = {c, near, c->n - near->n, 0};
    int64_t bytes = rshi_mul_most(rshi_piece_count(r->pair->to, &c->b), r->pair->wire_size);
    cut.slices = r->pair->reduce ? cut.owners : rshi_min(cut.owners, bytes / RSHI_SLICE_BYTES);
    if (!r->pair->reduce && cut.slices < 2) cut.slices = 0;
    return cut;
}

rshi_range rshi_all_slice(const rshi_all_cut *cut, int64_t i) {
    const rshi_stripe *s = &cut->crews->b.set[cut->crews->dim];
    return (rshi_range){rshi_stripe_slice(s, cut->slices, i), rshi_stripe_slice(s, cut->slices, i + 1)};
}

int64_t rshi_all_slice_at(const rshi_all_cut *cut, int64_t x) {
    return slice_at(&cut->crews->b.set[cut->crews->dim], cut->slices, x);
}

int64_t rshi_all_owner(const rshi_all_cut *cut, int64_t i) {
    return far_holder(cut->near, i * cut->owners / cut->slices);
}

int64_t rshi_all_slice_of(const rshi_all_cut *cut, int64_t holder) {
    if (rshi_near_has(cut->near, holder) || !cut->owners) return -1;
    int64_t q = holder - near_before(cut->near, holder), i = rshi_ceil_div(q * cut->slices, cut->owners);
    return i < cut->slices && i * cut->owners / cut->slices == q ? i : -1;
}

void rshi_crews_free(rshi_crews *c) {
    if (c) rshi_free(c->member), rshi_free(c->place);
    rshi_free(c);
}

void rshi_near_free(rshi_near *near) {
    if (near) rshi_free(near->node), rshi_free(near->holder);
    rshi_free(near);
}
