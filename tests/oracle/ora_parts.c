/* Parts: finds the elements that every rank holds, by asking for each element at each mesh position. */
#include "oracle.h"

#include <stdlib.h>
#include <string.h>

int64_t ora_linear(const ora_layout *l, const int64_t *index) {
    int64_t n = 0;
    for (int d = 0; d < l->ndim; d++) n = n * l->shape[d] + index[d];
    return n;
}

void ora_unravel(const ora_layout *l, int64_t element, int64_t *index) {
    for (int d = l->ndim - 1; d >= 0; d--) {
        index[d] = element % l->shape[d];
        element /= l->shape[d];
    }
}

/* Returns how many of n elements the k-th of p parts gets under the chunk rule. */
static int64_t chunk_share(int64_t n, int64_t p, int64_t k) {
    int64_t each = (n + p - 1) / p, left = n, share = 0;
    for (int64_t i = 0; i <= k; i++) {
        share = left < each ? left : each;
        left -= share;
    }
    return share;
}

/* All parts get the same number; the remaining elements go to the first parts, one each. */
static int64_t balanced_share(int64_t n, int64_t p, int64_t k) { return n / p + (k < n % p ? 1 : 0); }

/* Units are distributed by the chunk rule; the last unit may be short. */
static int64_t unit_share(int64_t n, int64_t unit, int64_t p, int64_t k) {
    int64_t units = (n + unit - 1) / unit, before = 0;
    for (int64_t i = 0; i < k; i++) before += chunk_share(units, p, i);
    int64_t lo = before * unit, hi = (before + chunk_share(units, p, k)) * unit;
    return (hi < n ? hi : n) - (lo < n ? lo : n);
}

static int64_t share(const ora_cut *cut, int64_t n, int64_t p, int64_t k) {
    if (cut->rule == '~') return balanced_share(n, p, k);
    return cut->rule == '%' ? unit_share(n, cut->number, p, k) : chunk_share(n, p, k);
}

/* Cuts [0, n) along the first axis, the result along the next axis, and so on. */
static bool nested_holds(const ora_layout *l, const ora_cut *cut, int64_t n, int64_t i, const int64_t *coordinate) {
    int64_t lo = 0, len = n;
    for (int a = 0; a < cut->naxes; a++) {
        int64_t p = l->axis_size[cut->axis[a]], k = coordinate[cut->axis[a]], at = lo;
        for (int64_t j = 0; j < k; j++) at += share(cut, len, p, j);
        len = share(cut, len, p, k);
        lo = at;
    }
    return lo <= i && i < lo + len;
}

bool ora_cut_holds(const ora_layout *l, const ora_cut *cut, int64_t n, int64_t i, const int64_t *coordinate) {
    if (cut->rule != ':' && cut->rule != '{') return nested_holds(l, cut, n, i, coordinate);
    int64_t together = 1, position = 0, lo = 0;
    for (int a = 0; a < cut->naxes; a++) {
        together *= l->axis_size[cut->axis[a]];
        position = position * l->axis_size[cut->axis[a]] + coordinate[cut->axis[a]];
    }
    if (cut->rule == ':') return i / cut->number % together == position;
    for (int64_t j = 0; j < position; j++) lo += cut->sizes[j];
    return lo <= i && i < lo + cut->sizes[position];
}

bool ora_dim_holds(const ora_layout *l, int d, int64_t i, const int64_t *coordinate) {
    const ora_dim *dim = &l->dim[d];
    int s = 0;
    while (i >= dim->segment[s].size) i -= dim->segment[s++].size;
    return ora_cut_holds(l, &dim->segment[s].cut, dim->segment[s].size, i, coordinate);
}

static bool cuts_hold(const ora_layout *l, const int64_t *index, const int64_t *coordinate) {
    for (int d = 0; d < l->ndim; d++)
        if (!ora_dim_holds(l, d, index[d], coordinate)) return false;
    return true;
}

/* Advances to the next index, with the dims in `order` and the last of them fastest. */
static void step(const ora_layout *l, int64_t *index) {
    for (int i = l->ndim - 1; i >= 0; i--) {
        int d = l->order[i];
        if (++index[d] < l->shape[d]) return;
        index[d] = 0;
    }
}

static int64_t *new_list(int64_t n) {
    int64_t *list = malloc(sizeof *list * (size_t)(n + 1));
    if (!list) abort();
    return list;
}

static void collect(const ora_layout *l, const int64_t *coordinate, ora_part *part) {
    int64_t index[ORA_MAX] = {0};
    part->element = new_list(l->count);
    for (int64_t i = 0; i < l->count; i++, step(l, index))
        if (cuts_hold(l, index, coordinate)) part->element[part->count++] = ora_linear(l, index);
    part->ndim = l->ndim;
    memcpy(part->order, l->order, sizeof part->order);
    for (int d = 0; d < l->ndim; d++)
        for (int64_t i = 0; i < l->shape[d]; i++) part->shape[d] += ora_dim_holds(l, d, i, coordinate);
}

static void flatten(const ora_layout *l, const int64_t *coordinate, ora_part *part) {
    int64_t n = part->count, *all = part->element;
    part->element = new_list(n);
    part->count = 0;
    for (int64_t i = 0; i < n; i++)
        if (ora_cut_holds(l, &l->flat, n, i, coordinate)) part->element[part->count++] = all[i];
    free(all);
    part->ndim = 1;
    part->order[0] = 0;
    part->shape[0] = part->count;
}

static void mesh_part(const ora_layout *l, int64_t position, ora_part *part) {
    int64_t coordinate[ORA_MAX] = {0}, rest = position;
    for (int a = l->naxes - 1; a >= 0; a--) {
        coordinate[a] = rest % l->axis_size[a];
        rest /= l->axis_size[a];
    }
    part->rank = l->rank_of[position];
    for (int a = 0; a < l->naxes; a++)
        if (l->is_partial[a]) part->partial = part->partial * l->axis_size[a] + coordinate[a];
    collect(l, coordinate, part);
    if (l->flat.naxes) flatten(l, coordinate, part);
}

static void box_part(const ora_layout *l, const ora_box *box, ora_part *part) {
    int64_t index[ORA_MAX] = {0};
    part->rank = box->rank;
    part->ndim = l->ndim;
    for (int d = 0; d < l->ndim; d++) {
        part->order[d] = d;
        part->shape[d] = box->hi[d] - box->lo[d];
    }
    part->element = new_list(l->count);
    for (int64_t i = 0; i < l->count; i++, step(l, index)) {
        bool inside = true;
        for (int d = 0; d < l->ndim; d++) inside = inside && box->lo[d] <= index[d] && index[d] < box->hi[d];
        if (inside) part->element[part->count++] = ora_linear(l, index);
    }
}

/* Sorts parts by rank, keeping the order within a rank, and numbers them. */
static void sort_parts(ora_layout *l) {
    for (int64_t i = 1; i < l->nparts; i++)
        for (int64_t j = i; j > 0 && l->part[j - 1].rank > l->part[j].rank; j--) {
            ora_part swap = l->part[j];
            l->part[j] = l->part[j - 1];
            l->part[j - 1] = swap;
        }
    for (int64_t i = 1; i < l->nparts; i++)
        if (l->part[i].rank == l->part[i - 1].rank) l->part[i].number = l->part[i - 1].number + 1;
}

void ora_fill_parts(ora_layout *l) {
    l->nparts = l->is_boxes ? l->nboxes : l->npositions;
    l->part = calloc((size_t)l->nparts + 1, sizeof *l->part);
    if (!l->part) abort();
    for (int64_t i = 0; i < l->nparts; i++) {
        if (l->is_boxes)
            box_part(l, &l->box[i], &l->part[i]);
        else
            mesh_part(l, i, &l->part[i]);
    }
    sort_parts(l);
}

bool ora_has_rank(const ora_layout *l, int64_t rank) {
    for (int64_t i = 0; i < l->nparts; i++)
        if (l->part[i].rank == rank) return true;
    return false;
}

bool ora_rank_holds(const ora_layout *l, int64_t rank, int64_t element) {
    for (int64_t i = 0; i < l->nparts; i++) {
        if (l->part[i].rank != rank) continue;
        for (int64_t j = 0; j < l->part[i].count; j++)
            if (l->part[i].element[j] == element) return true;
    }
    return false;
}

bool ora_same_parts(const ora_layout *a, const ora_layout *b) {
    if (a->nparts != b->nparts) return false;
    for (int64_t i = 0; i < a->nparts; i++) {
        const ora_part *p = &a->part[i], *q = &b->part[i];
        if (p->rank != q->rank || p->count != q->count) return false;
        if (memcmp(p->element, q->element, sizeof *p->element * (size_t)p->count) != 0) return false;
    }
    return true;
}
