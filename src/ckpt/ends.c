/* Ends: lists the pieces of one tensor and where they are stored in files. */
#include "ckpt/view_pieces.h"

#include <string.h>

typedef struct making {
    const rshi_file_tensor *stored;
    rshi_ckpt_end *e;
    bool distinct;
    int bits; /* bits of an element; if fewer than 8, pieces are converted to units of a byte */
} making;

void rshi_end_free_scales(rshi_ckpt_end *e) {
    for (int64_t i = 0; i < e->nscales; i++) rshi_free(e->scale[i].value);
    e->nscales = 0;
}

void rshi_end_free(rshi_ckpt_end *e) {
    rshi_end_free_scales(e);
    rshi_free(e->scale);
    rshi_free(e->piece);
    rshi_free(e->group);
    rshi_free(e->copy);
    *e = (rshi_ckpt_end){0};
}

rsh_dtype rshi_moved_as(rsh_dtype dtype) { return rsh_dtype_size(dtype) ? dtype : RSH_U8; }

bool rshi_end_converts(const rshi_ckpt_end *e, rsh_dtype to) {
    for (int64_t i = 0; i < e->ngroups; i++)
        if (e->group[i].from != to) return true;
    return e->nscales > 0;
}

/* ---- elements smaller than a byte ---- */

static bool bits_to_bytes(int64_t *x, int bits) {
    bool whole = *x * bits % 8 == 0;
    *x = *x * bits / 8;
    return whole;
}

static bool stripe_to_bytes(rshi_stripe *s, int bits) {
    bool lo = bits_to_bytes(&s->lo, bits), len = bits_to_bytes(&s->len, bits), last = bits_to_bytes(&s->last, bits),
         stride = true;
    if (s->count > 1)
        stride = bits_to_bytes(&s->stride, bits);
    else
        s->stride = s->len;
    return lo && len && last && stride;
}

static rsh_status piece_to_bytes(const making *m, rshi_stored_piece *p) {
    int last = m->stored->ndim - 1;
    bool whole = bits_to_bytes(&p->base, m->bits);
    if (last >= 0) {
        whole = whole && (p->stride[last] == 1 || rshi_stripe_size(&p->set[last]) <= 1);
        whole &= stripe_to_bytes(&p->set[last], m->bits);
        p->stride[last] = 1;
    }
    for (int d = 0; d < last; d++) whole &= bits_to_bytes(&p->stride[d], m->bits) || rshi_stripe_size(&p->set[d]) <= 1;
    RSH_REQUIRE(whole, RSH_EUNSUP,
                "tensor \"%.200s\": a cut of %s elements falls inside a byte; the last dim and its parts must have a "
                "whole number of bytes",
                m->stored->name, rsh_dtype_name(m->stored->dtype));
    return RSH_OK;
}

/* ---- pieces ---- */

static rsh_status add_piece(making *m, const rshi_stored_piece *p) {
    rshi_ckpt_end *e = m->e;
    RSH_TRY(RSHI_GROW(e->piece, e->npieces + 1, &e->pieces_room));
    e->piece[e->npieces] = *p;
    e->piece[e->npieces].group = e->ngroups;
    e->piece[e->npieces].scale = -1;
    if (m->bits % 8) RSH_TRY(piece_to_bytes(m, &e->piece[e->npieces]));
    e->npieces++;
    return RSH_OK;
}

static rsh_status add_copy(rshi_ckpt_end *e, const rshi_ckpt_part *part) {
    RSH_TRY(RSHI_GROW(e->copy, e->ncopies + 1, &e->copies_room));
    e->copy[e->ncopies++] = *part;
    return RSH_OK;
}

/* Makes a group of the pieces and copies that were added after these indices. */
static rsh_status add_group(making *m, int64_t piece, int64_t copy, int64_t rank) {
    rshi_ckpt_end *e = m->e;
    if (piece == e->npieces) {
        e->ncopies = copy;
        return RSH_OK;
    }
    RSH_TRY(RSHI_GROW(e->group, e->ngroups + 1, &e->groups_room));
    e->group[e->ngroups++] =
        (rshi_ckpt_group){piece, e->npieces - piece, copy, e->ncopies - copy, rank, rshi_moved_as(m->stored->dtype)};
    return RSH_OK;
}

static rsh_status add_whole(making *m) {
    const rshi_file_tensor *stored = m->stored;
    rshi_stored_piece p = {.base = 0};
    for (int d = 0; d < stored->ndim; d++) {
        p.set[d] = rshi_stripe_range(0, stored->shape[d]);
        if (!stored->shape[d]) return RSH_OK;
    }
    rshi_dense_strides(stored->ndim, stored->shape, NULL, p.stride);
    RSH_TRY(add_copy(m->e, stored->parts));
    if (m->bits % 8) { /* the part is not cut, so it is one run of bytes */
        int64_t bytes = m->bits;
        for (int d = 0; d < stored->ndim; d++) bytes *= stored->shape[d];
        int64_t row = stored->ndim ? stored->shape[stored->ndim - 1] * m->bits : bytes;
        RSH_REQUIRE(row % 8 == 0, RSH_EUNSUP,
                    "tensor \"%.200s\": rows of %s elements must have a whole number of bytes", stored->name,
                    rsh_dtype_name(stored->dtype));
    }
    RSH_TRY(add_piece(m, &p));
    return add_group(m, 0, 0, 0);
}

/* ---- parts of a layout ---- */

static rsh_status add_layout_piece(making *m, const rshi_piece *p) {
    const rsh_layout *l = m->stored->layout;
    rshi_stored_piece stored = {.base = 0};
    rsh_part part;
    RSH_TRY(rsh_layout_part(l, p->rank, p->part, &part));
    memcpy(stored.set, p->set, sizeof stored.set);
    rshi_piece_place(l, p, part.strides, &stored.base, stored.stride);
    return add_piece(m, &stored);
}

/* Is this the first of several ranks that hold the piece? */
static bool is_first(const rsh_layout *l, const rshi_piece *p) {
    return rshi_piece_holder_index(l, p, p->rank) == 0 && (!rshi_layout_irregular(l) || rshi_piece_first_copy(l, p));
}

static rsh_status add_pieces(making *m, const rshi_piece *list, int64_t n, int64_t rank, int64_t number) {
    const rshi_ckpt_part *parts = m->stored->parts + number;
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < n && !st;) {
        int64_t part = list[i].part, piece = m->e->npieces, copy = m->e->ncopies;
        st = add_copy(m->e, &parts[part]);
        for (; i < n && list[i].part == part && !st; i++)
            if (!m->distinct || is_first(m->stored->layout, &list[i])) st = add_layout_piece(m, &list[i]);
        if (!st) st = add_group(m, piece, copy, rank);
    }
    return st;
}

/* Returns the first rank that holds the same part; -1: `rank` itself. */
static int64_t copied_from(const rsh_layout *l, const rshi_piece *list, int64_t n, int64_t rank) {
    int64_t first = -1;
    rsh_part mine, its;
    if (rshi_layout_irregular(l) || rsh_layout_nparts(l, rank) != 1) return -1;
    for (int64_t i = 0; i < n; i++) {
        int64_t holder = rshi_piece_holder(l, &list[i], 0);
        if (i && holder != first) return -1;
        first = holder;
    }
    if (first < 0 || first == rank || rsh_layout_part(l, rank, 0, &mine) || rsh_layout_part(l, first, 0, &its))
        return -1;
    return mine.count == its.count ? first : -1;
}

rsh_status rshi_part_copy_of(const rsh_layout *l, int64_t rank, int64_t *of) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    RSH_TRY(rshi_layout_pieces(l, rank, &list, &n));
    *of = copied_from(l, list, n, rank);
    rshi_free(list);
    return RSH_OK;
}

/* A part that equals a part of an earlier rank, and so is one more copy of that part's group.  The copies of a group
 * are adjacent in e->copy, so they are collected first and then merged by append_copies. */
typedef struct copying {
    int64_t of; /* the rank that has the copy */
    rshi_ckpt_part part;
} copying;

static rsh_status append_copies(rshi_ckpt_end *e, const copying *list, int64_t n) {
    rshi_ckpt_part *all = rshi_alloc((size_t)(e->ncopies + n), sizeof *all);
    int64_t used = 0;
    if (!all) return rshi_nomem();
    for (int64_t g = 0; g < e->ngroups; g++) {
        rshi_ckpt_group *group = &e->group[g];
        int64_t start = used;
        for (int64_t i = 0; i < group->ncopies; i++) all[used++] = e->copy[group->copy + i];
        for (int64_t i = 0; i < n; i++)
            if (list[i].of == group->rank) all[used++] = list[i].part;
        group->copy = start;
        group->ncopies = used - start;
    }
    rshi_free(e->copy);
    e->copy = all;
    e->copies_room = e->ncopies + n;
    e->ncopies = used;
    return RSH_OK;
}

typedef struct walking {
    copying *copies;
    int64_t ncopies, room;
    int64_t number; /* index of the rank's first part in the list of parts */
} walking;

static rsh_status add_rank(making *m, walking *w, int64_t rank) {
    const rsh_layout *l = m->stored->layout;
    rshi_piece *list = NULL;
    int64_t n = 0;
    RSH_TRY(rshi_layout_pieces(l, rank, &list, &n));
    const rshi_ckpt_part *part = m->stored->parts + w->number;
    int64_t of = m->distinct || !n ? -1 : copied_from(l, list, n, rank);
    rsh_status st = RSH_OK;
    if (of >= 0 && part->file >= 0) {
        st = RSHI_GROW(w->copies, w->ncopies + 1, &w->room);
        if (!st) w->copies[w->ncopies++] = (copying){of, *part};
    } else if (of < 0 && n) {
        st = add_pieces(m, list, n, rank, w->number);
    }
    w->number += rsh_layout_nparts(l, rank);
    rshi_free(list);
    return st;
}

static rsh_status add_ranks(making *m) {
    const rsh_layout *l = m->stored->layout;
    walking w = {0};
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < rsh_layout_nranks(l) && !st; i++) st = add_rank(m, &w, rsh_layout_rank(l, i));
    if (!st && w.ncopies) st = append_copies(m->e, w.copies, w.ncopies);
    rshi_free(w.copies);
    return st;
}

void rshi_file_tensor_shape(const rshi_file_tensor *stored, int64_t *shape) {
    int bits = rsh_dtype_bits(stored->dtype);
    for (int d = 0; d < stored->ndim; d++) shape[d] = stored->shape[d];
    if (bits % 8 && stored->ndim) shape[stored->ndim - 1] = stored->shape[stored->ndim - 1] * bits / 8;
}

rsh_status rshi_end_make(const rshi_file_tensor *stored, bool distinct, rshi_ckpt_end *out) {
    making m = {stored, out, distinct, rsh_dtype_bits(stored->dtype)};
    out->npieces = out->ngroups = out->ncopies = 0;
    rshi_end_free_scales(out);
    out->ndim = stored->ndim;
    out->size = m.bits < 8 ? 1 : (size_t)m.bits / 8;
    rshi_file_tensor_shape(stored, out->shape);
    return stored->layout ? add_ranks(&m) : add_whole(&m);
}
