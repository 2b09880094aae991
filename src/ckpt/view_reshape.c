/* View reshape: divides a piece into pieces of the reshaped view.
 *
 * Old and new dims are divided into groups of equal products; a group of one dim on both sides is unchanged.  In other
 * groups the piece is divided into runs of the flattened group with a constant stride, and each run into boxes of the
 * new dims: a partial first row, whole rows, a partial last row. */
#include "ckpt/view_pieces.h"

#include <string.h>

typedef struct dim_group {
    int old_from, old_to, new_from, new_to;
} dim_group;

typedef struct reshaping {
    rshi_piece_list *b;
    const rshi_ckpt_view *v;    /* the reshaped view */
    const int64_t *old;         /* sizes before the reshape */
    const rshi_stored_piece *p; /* a piece of the view before the reshape */
    dim_group group[2 * RSH_MAX_NDIM];
    int ngroups;
} reshaping;

/* A run of a flattened group: element i is at offset base + i * stride of the part. */
typedef struct flat_run {
    int64_t at, n, base, stride, from, from_stride;
} flat_run;

/* ---- groups ---- */

static void list_groups(reshaping *r, int old_ndim) {
    int i = 0, j = 0;
    while (i < old_ndim || j < r->v->ndim) {
        dim_group g = {i, i, j, j};
        int64_t a = 1, b = 1;
        do {
            if (i < old_ndim && (a <= b || j == r->v->ndim))
                a *= r->old[i++];
            else
                b *= r->v->shape[j++];
        } while (a != b);
        while (i == g.old_from + 1 && j == g.new_from && j < r->v->ndim && r->v->shape[j] == 1) j++;
        g.old_to = i;
        g.new_to = j;
        r->group[r->ngroups++] = g;
    }
}

static rsh_status reshape_group(reshaping *r, int g, const rshi_stored_piece *q);

/* ---- a run to boxes ---- */

typedef struct boxing {
    reshaping *r;
    int g;
    const rshi_stored_piece *q;
    const flat_run *run;
    rshi_stripe set[RSH_MAX_NDIM];
} boxing;

static int64_t row_of(const reshaping *r, const dim_group *g, int d) {
    int64_t row = 1;
    for (int e = d + 1; e < g->new_to; e++) row *= r->v->shape[e];
    return row;
}

/* Adds a complete box, which starts at element `at` of the flattened group. */
static rsh_status add_box(const boxing *x, int64_t at) {
    const dim_group *g = &x->r->group[x->g];
    rshi_stored_piece q = *x->q;
    q.base += x->run->base + (at - x->run->at) * x->run->stride;
    q.from += x->run->from + (at - x->run->at) * x->run->from_stride;
    for (int d = g->new_from; d < g->new_to; d++) {
        int64_t row = row_of(x->r, g, d);
        q.set[d] = x->set[d];
        q.stride[d] = rshi_stripe_size(&x->set[d]) > 1 ? row * x->run->stride : 1;
        q.from_stride[d] = row * x->run->from_stride;
    }
    return reshape_group(x->r, x->g + 1, &q);
}

static rsh_status add_rows(boxing *x, int d, int64_t base, int64_t lo, int64_t hi) {
    const dim_group *g = &x->r->group[x->g];
    int64_t row = row_of(x->r, g, d);
    x->set[d] = rshi_stripe_range(lo, hi);
    for (int e = d + 1; e < g->new_to; e++) x->set[e] = rshi_stripe_range(0, x->r->v->shape[e]);
    return add_box(x, base + lo * row);
}

/* Adds elements [first, end) of the flattened dims from d on, whose first element is `base`. */
static rsh_status add_span(boxing *x, int d, int64_t base, int64_t first, int64_t end) {
    int64_t row = row_of(x->r, &x->r->group[x->g], d), a = first / row, b = end / row;
    if (first >= end) return RSH_OK;
    if (row == 1) return add_rows(x, d, base, first, end);
    if (a == b) {
        x->set[d] = rshi_stripe_range(a, a + 1);
        return add_span(x, d + 1, base + a * row, first % row, end % row);
    }
    if (first % row) {
        x->set[d] = rshi_stripe_range(a, a + 1);
        RSH_TRY(add_span(x, d + 1, base + a * row, first % row, row));
        a++;
    }
    if (a < b) RSH_TRY(add_rows(x, d, base, a, b));
    x->set[d] = rshi_stripe_range(b, b + 1);
    return add_span(x, d + 1, base + b * row, 0, end % row);
}

static rsh_status add_run(reshaping *r, int g, const rshi_stored_piece *q, const flat_run *run) {
    boxing x = {.r = r, .g = g, .q = q, .run = run};
    const dim_group *group = &r->group[g];
    if (group->new_from == group->new_to) { /* remove dims of one index */
        rshi_stored_piece next = *q;
        next.base += run->base;
        next.from += run->from;
        return reshape_group(r, g + 1, &next);
    }
    return add_span(&x, group->new_from, 0, run->at, run->at + run->n);
}

/* ---- a piece to runs ---- */

/* Returns whether dim d and later dims have a constant stride in row-major order, given that the dims after d have
 * one. */
static bool extends_stride(const reshaping *r, const dim_group *g, int d) {
    const rshi_stored_piece *p = r->p;
    const rshi_stripe *s = &p->set[d + 1];
    int e = d + 1;
    if (s->count != 1 || s->last != r->old[d + 1]) return false;
    while (e < g->old_to && r->old[e] == 1) e++;
    if (e == g->old_to || rshi_stripe_size(&p->set[d]) == 1) return true;
    return p->stride[d] == p->stride[e] * r->old[e] && p->from_stride[d] == p->from_stride[e] * r->old[e];
}

/* Returns the first dim of the group such that, from it on, the elements have a constant stride. */
static int first_regular(const reshaping *r, const dim_group *g) {
    int d = g->old_to - 1;
    while (d > g->old_from && extends_stride(r, g, d - 1)) d--;
    return d;
}

/* Sets the stride of the flattened dims from d on. */
static void set_run_strides(const reshaping *r, const dim_group *g, int d, flat_run *run) {
    for (int e = g->old_to; e-- > d;) {
        if (rshi_stripe_size(&r->p->set[e]) == 1) continue;
        run->stride = r->p->stride[e];
        run->from_stride = r->p->from_stride[e];
        return;
    }
    run->stride = 1;
}

/* Visits every index of the dims before `regular`, and every block of that dim. */
static rsh_status walk_runs(reshaping *r, int g, const rshi_stored_piece *q, int d, int regular, flat_run run) {
    const dim_group *group = &r->group[g];
    const rshi_stripe *s = &r->p->set[d];
    int64_t row = 1, local = 0;
    for (int e = d + 1; e < group->old_to; e++) row *= r->old[e];
    for (int64_t j = 0; j < s->count; j++) {
        int64_t n = j == s->count - 1 ? s->last : s->len, lo = s->lo + j * s->stride;
        for (int64_t i = 0; i < n; i += d == regular ? n : 1) {
            flat_run next = run;
            next.at += (lo + i) * row;
            next.base += (local + i) * r->p->stride[d];
            next.from += (local + i) * r->p->from_stride[d];
            next.n = n * row;
            RSH_TRY(d == regular ? add_run(r, g, q, &next) : walk_runs(r, g, q, d + 1, regular, next));
        }
        local += n;
    }
    return RSH_OK;
}

/* ---- all groups ---- */

static rsh_status keep_dim(reshaping *r, int g, const rshi_stored_piece *q) {
    const dim_group *group = &r->group[g];
    rshi_stored_piece next = *q;
    next.set[group->new_from] = r->p->set[group->old_from];
    next.stride[group->new_from] = r->p->stride[group->old_from];
    next.from_stride[group->new_from] = r->p->from_stride[group->old_from];
    return reshape_group(r, g + 1, &next);
}

static rsh_status reshape_group(reshaping *r, int g, const rshi_stored_piece *q) {
    const dim_group *group = &r->group[g];
    flat_run run = {0};
    if (g == r->ngroups) return rshi_pieces_add(r->b, q);
    if (group->old_to - group->old_from == 1 && group->new_to - group->new_from == 1) return keep_dim(r, g, q);
    if (group->old_from == group->old_to) { /* add dims of one index */
        run.n = run.stride = 1;
        return add_run(r, g, q, &run);
    }
    int regular = first_regular(r, group);
    set_run_strides(r, group, regular, &run);
    return walk_runs(r, g, q, group->old_from, regular, run);
}

/* Reshapes a piece with a single scale. */
static rsh_status reshape_one(rshi_piece_list *b, const rshi_ckpt_view *v, const rshi_stored_piece *p) {
    reshaping r = {.b = b, .v = v, .old = v->part[0]->shape, .p = p};
    rshi_stored_piece q = *p;
    list_groups(&r, v->part[0]->ndim);
    for (int d = 0; d < RSH_MAX_NDIM; d++) q.scale_of[d] = -1;
    return reshape_group(&r, 0, &q);
}

/* Cuts the piece along dim d and later dims where its scale changes, and reshapes the parts. */
static rsh_status cut_scales(rshi_piece_list *b, const rshi_ckpt_view *v, const rshi_stored_piece *p, int d) {
    if (p->scale < 0 || d == v->part[0]->ndim) return reshape_one(b, v, p);
    if (p->scale_of[d] < 0) return cut_scales(b, v, p, d + 1);
    int64_t block = b->e->scale[p->scale].block[p->scale_of[d]], local = 0;
    for (int64_t j = 0; j < p->set[d].count; j++) {
        const rshi_stripe *s = &p->set[d];
        int64_t n = j == s->count - 1 ? s->last : s->len, lo = s->lo + j * s->stride;
        for (int64_t i = 0, k; i < n; i += k, local += k) {
            int64_t first = p->scale_first[p->scale_of[d]] + local;
            k = rshi_min(n - i, block - first % block);
            rshi_stored_piece q = rshi_piece_from(p, d, local, rshi_stripe_range(lo + i, lo + i + k));
            RSH_TRY(cut_scales(b, v, &q, d + 1));
        }
    }
    return RSH_OK;
}

rsh_status rshi_reshape_piece(rshi_piece_list *b, const rshi_ckpt_view *v, const rshi_stored_piece *p) {
    return cut_scales(b, v, p, 0);
}
