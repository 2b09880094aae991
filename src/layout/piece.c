/* Piece: computes a rank's part as products of stripes, with their memory offsets and their other holders. */
#include "layout/impl.h"

int64_t rshi_piece_count(const rsh_layout *l, const rshi_piece *p) {
    int64_t n = 1;
    for (int d = 0; d < l->desc.ndim; d++) n *= rshi_stripe_size(&p->set[d]);
    return n;
}

void rshi_piece_place(const rsh_layout *l, const rshi_piece *p, const int64_t *S, int64_t *base, int64_t *strides) {
    *base = p->flat ? p->at[0] * S[0] : 0;
    for (int d = 0; d < l->desc.ndim; d++) {
        strides[d] = p->flat ? p->step[d] * S[0] : S[d];
        if (!p->flat) *base += p->at[d] * S[d];
    }
}

/* Copies only the dims in use, because pieces are copied for every neighbour of a rank. */
static void copy_piece(const rsh_layout *l, const rshi_piece *p, rshi_piece *out) {
    if (out == p) return;
    out->rank = p->rank;
    out->part = p->part;
    out->position = p->position;
    out->fixed = p->fixed;
    out->flat = p->flat;
    out->at[0] = p->at[0]; /* also if there are no dims */
    for (int d = 0; d < l->desc.ndim; d++) {
        out->set[d] = p->set[d];
        out->seg[d] = p->seg[d];
        out->at[d] = p->at[d];
        out->step[d] = p->step[d];
    }
}

static rsh_status push_copy(const rsh_layout *l, rshi_pieces *out, const rshi_piece *p) {
    RSH_TRY(RSHI_GROW(out->piece, out->n + 1, &out->room));
    copy_piece(l, p, &out->piece[out->n++]);
    return RSH_OK;
}

/* ---- mesh: a product of segments ---- */

static rshi_stripe segment_stripe(const rsh_layout *l, int d, int s, int64_t position) {
    const rshi_resolved_segment *g = &l->dim[d].segment[s];
    return rshi_cut_stripe(l, &g->cut, g->start, g->size, rshi_cut_coordinate(l, &g->cut, position));
}

/* Returns the local index at which segment s of dim d starts at a position. */
static int64_t segment_at(const rsh_layout *l, int d, int s, int64_t position) {
    int64_t at = 0;
    for (int i = 0; i < s; i++) {
        rshi_stripe set = segment_stripe(l, d, i, position);
        at += rshi_stripe_size(&set);
    }
    return at;
}

/* Combines the segments of dim d and the dims after it, and pushes every non-empty product. */
static rsh_status push_products(const rsh_layout *l, int d, rshi_piece *p, rshi_pieces *out) {
    if (d == l->desc.ndim) return push_copy(l, out, p);
    unsigned fixed = p->fixed;
    int64_t at = 0;
    for (int s = 0; s < l->dim[d].nsegments; s++) {
        p->seg[d] = s;
        p->set[d] = segment_stripe(l, d, s, p->position);
        p->at[d] = at;
        p->fixed = fixed | rshi_cut_axes(&l->dim[d].segment[s].cut);
        int64_t size = rshi_stripe_size(&p->set[d]);
        if (size) RSH_TRY(push_products(l, d + 1, p, out));
        at += size;
    }
    p->fixed = fixed;
    return RSH_OK;
}

/* ---- flat: a range of the flattened part of the other axes ---- */

/* Returns the indices that the flattened part has in a segment. */
static rshi_stripe flattened_stripe(const rshi_flattening *f, int d, int s) {
    return f->l->dim[d].nsegments == 1 ? f->whole[d] : segment_stripe(f->l, d, s, f->p.position);
}

/* Computes the i0-th to i1-th index of a stripe as up to three stripes: a partial first block, whole blocks, a partial
 * last block. */
static int sub_stripes(const rshi_stripe *s, int64_t i0, int64_t i1, rshi_stripe out[3]) {
    int n = 0;
    if (s->count == 1 && i0 < i1) out[n++] = rshi_stripe_range(s->lo + i0, s->lo + i1);
    while (s->count > 1 && i0 < i1) {
        int64_t block = i0 / s->len, lo = rshi_stripe_at(s, i0), whole = i1 / s->len - block;
        if (i0 % s->len == 0 && whole > 1) {
            out[n++] = (rshi_stripe){lo, s->len, s->stride, whole, s->len};
            i0 += whole * s->len;
        } else {
            int64_t end = rshi_min(i1, (block + 1) * s->len);
            out[n++] = rshi_stripe_range(lo, lo + end - i0);
            i0 = end;
        }
    }
    return n;
}

static rsh_status emit_flat_piece(rshi_flattening *f) {
    int64_t position = f->p.position, rank = f->p.rank;
    RSH_TRY(f->fn(f->ctx, &f->p));
    f->p.position = position, f->p.rank = rank;
    return RSH_OK;
}

static rsh_status push_flat_box(rshi_flattening *f, int d, int64_t offset);

/* Pushes the local indices [i0, i1) of segment s, which starts at local index `at`. */
static rsh_status push_flat_segment(rshi_flattening *f, int d, int s, int64_t at, int64_t i0, int64_t i1,
                                    int64_t offset) {
    rshi_stripe set = flattened_stripe(f, d, s), sub[3];
    int n = sub_stripes(&set, i0, i1, sub);
    f->p.seg[d] = s;
    for (int i = 0; i < n; i++) {
        f->p.set[d] = sub[i];
        if (!f->query || rshi_stripe_common(&sub[i], &f->query[d], sub[i].lo, rshi_stripe_end(&sub[i])))
            RSH_TRY(push_flat_box(f, d + 1, offset + (at + i0) * f->step[d]));
        i0 += rshi_stripe_size(&sub[i]);
    }
    return RSH_OK;
}

/* Pushes the local box as products of segments, one dim after another. */
static rsh_status push_flat_box(rshi_flattening *f, int d, int64_t offset) {
    if (d == f->l->desc.ndim) {
        f->p.at[0] = offset - f->first;
        return emit_flat_piece(f);
    }
    int64_t at = 0;
    for (int s = 0; s < f->l->dim[d].nsegments; s++) {
        rshi_stripe set = flattened_stripe(f, d, s);
        int64_t n = rshi_stripe_size(&set), i0 = rshi_max(f->lo[d] - at, 0), i1 = rshi_min(f->hi[d] - at, n);
        if (i0 < i1) RSH_TRY(push_flat_segment(f, d, s, at, i0, i1, offset));
        at += n;
    }
    return RSH_OK;
}

/* Does the stripe have an index in [lo, hi)? */
static bool stripe_meets_range(const rshi_stripe *s, int64_t lo, int64_t hi) {
    if (s->count == 1) return s->lo < hi && s->lo + s->last > lo;
    return rshi_stripe_before(s, hi) > rshi_stripe_before(s, lo);
}

/* Pushes the local box as one piece if every dim is one range. */
static rsh_status push_plain_box(rshi_flattening *f) {
    int64_t offset = -f->first;
    for (int d = 0; d < f->l->desc.ndim; d++) {
        int64_t lo = f->whole[d].lo + f->lo[d], hi = f->whole[d].lo + f->hi[d];
        f->p.set[d] = rshi_stripe_range(lo, hi);
        if (f->query && !stripe_meets_range(&f->query[d], lo, hi)) return RSH_OK;
        offset += f->lo[d] * f->step[d];
    }
    f->p.at[0] = offset;
    return emit_flat_piece(f);
}

static rsh_status push_box(rshi_flattening *f) { return f->plain ? push_plain_box(f) : push_flat_box(f, 0, 0); }

/* Pushes the elements [from, to) of dim d and the dims after it, counted below the indices already chosen.  Each dim
 * adds at most two boxes for incomplete ends, and the middle. */
static rsh_status push_flat_range(rshi_flattening *f, int d, int64_t from, int64_t to) {
    if (from >= to) return RSH_OK;
    if (d == f->l->desc.ndim) return push_box(f);
    int64_t inner = f->step[d], i0 = from / inner, i1 = to / inner, r0 = from % inner, r1 = to % inner;
    if (i0 < i1 && r0) {
        f->lo[d] = i0, f->hi[d] = i0 + 1;
        RSH_TRY(push_flat_range(f, d + 1, r0, inner));
        i0++, r0 = 0;
    }
    if (i0 < i1) {
        f->lo[d] = i0, f->hi[d] = i1;
        for (int e = d + 1; e < f->l->desc.ndim; e++) f->lo[e] = 0, f->hi[e] = f->extent[e];
        RSH_TRY(push_box(f));
        r0 = 0;
    }
    f->lo[d] = i1, f->hi[d] = i1 + 1;
    return push_flat_range(f, d + 1, r0, r1);
}

void rshi_flatten(const rsh_layout *l, int64_t position, const rshi_stripe *query, rshi_flattening *f) {
    f->l = l;
    f->query = query;
    f->total = 1;
    f->plain = true;
    f->p = (rshi_piece){.position = position, .flat = true, .fixed = l->partial | rshi_cut_axes(&l->flat)};
    for (int d = 0; d < l->desc.ndim; d++) {
        f->p.fixed |= l->dim[d].axes;
        f->extent[d] = rshi_dim_extent(l, d, position);
        f->whole[d] = segment_stripe(l, d, 0, position);
        f->plain = f->plain && l->dim[d].nsegments == 1 && f->whole[d].count <= 1;
        f->total *= f->extent[d];
    }
    rshi_cut_walk_start(l, &l->flat, 0, f->total, &f->walk);
    rshi_dense_strides(l->desc.ndim, f->extent, NULL, f->step);
    for (int d = 0; d < l->desc.ndim; d++) f->p.step[d] = f->step[d];
}

rsh_status rshi_flattening_pieces(rshi_flattening *f, int64_t position, int64_t k) {
    rshi_stripe range = rshi_cut_walk_at(&f->walk, k);
    f->p.position = position;
    f->p.rank = rshi_layout_rank_at(f->l, position);
    f->first = range.lo;
    return push_flat_range(f, 0, range.lo, rshi_stripe_end(&range));
}

/* A growing list of pieces. */
typedef struct listing {
    const rsh_layout *l;
    rshi_pieces *out; /* borrowed: the list to extend */
} listing;

static rsh_status push_piece(void *ctx, rshi_piece *p) {
    listing *to = ctx;
    return push_copy(to->l, to->out, p);
}

static rsh_status push_flat(const rsh_layout *l, int64_t position, rshi_pieces *out) {
    listing to = {l, out};
    rshi_flattening f;
    rshi_flatten(l, position, NULL, &f);
    f.fn = push_piece, f.ctx = &to;
    return rshi_flattening_pieces(&f, position, rshi_cut_coordinate(l, &l->flat, position));
}

rsh_status rshi_pieces_at(const rsh_layout *l, int64_t position, rshi_pieces *out) {
    if (!l->count) return RSH_OK;
    if (l->flat.naxes) return push_flat(l, position, out);
    rshi_piece p = {.rank = rshi_layout_rank_at(l, position), .position = position, .fixed = l->partial};
    return push_products(l, 0, &p, out);
}

/* ---- all pieces of a rank ---- */

/* Returns the index of a rank in l->entry, or -1.  Most layouts have consecutive ranks, so the index that the rank
 * would then have is tried first. */
static int64_t entry_of(const rsh_layout *l, int64_t rank) {
    int64_t i = l->nranks ? rank - l->entry[0].rank : -1;
    if (i >= 0 && i < l->nranks && l->entry[i].rank == rank) return i;
    return rshi_find(l->entry, l->nranks, sizeof *l->entry, rank);
}

static void box_piece(const rsh_layout *l, int64_t box, int64_t rank, int64_t part, rshi_piece *p) {
    *p = (rshi_piece){.rank = rank, .part = part, .position = box};
    const rsh_box *from = &l->desc.boxes[box].box;
    for (int d = 0; d < l->desc.ndim; d++) p->set[d] = rshi_stripe_range(from->lo[d], from->hi[d]);
}

static rsh_status push_boxes(const rsh_layout *l, int64_t rank, rshi_pieces *out) {
    int64_t e = entry_of(l, rank);
    if (e < 0) return RSH_OK;
    for (int64_t i = l->entry[e].value; i < l->entry[e + 1].value; i++) {
        rshi_piece p;
        box_piece(l, l->box_of[i], rank, i - l->entry[e].value, &p);
        if (rshi_piece_count(l, &p)) RSH_TRY(push_copy(l, out, &p));
    }
    return RSH_OK;
}

rsh_status rshi_layout_pieces(const rsh_layout *l, int64_t rank, rshi_piece **out, int64_t *n) {
    rshi_pieces list = {0};
    int64_t position = l->desc.is_boxes ? 0 : rshi_layout_position(l, rank);
    rsh_status st = RSH_OK;
    if (l->desc.is_boxes)
        st = push_boxes(l, rank, &list);
    else if (position >= 0)
        st = rshi_pieces_at(l, position, &list);
    if (st) {
        rshi_free(list.piece);
        return st;
    }
    *out = list.piece;
    *n = list.n;
    return RSH_OK;
}

/* ---- positions, holders ---- */

int64_t rshi_layout_position(const rsh_layout *l, int64_t rank) {
    if (l->entry) {
        int64_t e = entry_of(l, rank);
        return e < 0 || l->desc.is_boxes ? e : l->entry[e].value;
    }
    if (l->desc.is_boxes) return -1;
    int64_t position = rank - l->desc.first_rank;
    return position >= 0 && position < l->npositions ? position : -1;
}

int64_t rshi_layout_ordinal(const rsh_layout *l, int64_t rank) {
    return l->entry ? entry_of(l, rank) : rshi_layout_position(l, rank);
}

int64_t rshi_layout_rank_at(const rsh_layout *l, int64_t position) {
    if (l->desc.is_boxes) return l->entry[position].rank;
    return l->desc.ranks ? l->desc.ranks[position] : l->desc.first_rank + position;
}

int64_t rshi_piece_holders(const rsh_layout *l, const rshi_piece *p) {
    if (l->desc.is_boxes) return l->desc.boxes[p->position].nranks;
    int64_t n = 1;
    for (int a = 0; a < l->desc.naxes; a++)
        if (!(p->fixed >> a & 1)) n *= l->desc.axis[a].size;
    return n;
}

/* Returns the position that has the coordinates of number i along `axes` (last axis fastest), and those of `position`
 * along the others. */
static int64_t position_with(const rsh_layout *l, int64_t position, unsigned axes, int64_t i) {
    for (int a = l->desc.naxes - 1; a >= 0; a--) {
        if (!(axes >> a & 1)) continue;
        int64_t size = l->desc.axis[a].size;
        position += (i % size - rshi_coordinate(l, position, a)) * l->axis_step[a];
        i /= size;
    }
    return position;
}

/* Combines the coordinates of a position along `axes` into one number. */
static int64_t number_along(const rsh_layout *l, int64_t position, unsigned axes) {
    int64_t i = 0;
    for (int a = 0; a < l->desc.naxes; a++)
        if (axes >> a & 1) i = i * l->desc.axis[a].size + rshi_coordinate(l, position, a);
    return i;
}

static unsigned all_axes(const rsh_layout *l) { return (1u << l->desc.naxes) - 1; }

static int64_t holder_position(const rsh_layout *l, const rshi_piece *p, int64_t j) {
    return position_with(l, p->position, all_axes(l) & ~p->fixed, j);
}

int64_t rshi_layout_copy_offset(const rsh_layout *l, int64_t i, int64_t j) {
    return position_with(l, 0, l->partial, i) + (j ? position_with(l, 0, rshi_layout_free_axes(l), j) : 0);
}

int64_t rshi_piece_holder(const rsh_layout *l, const rshi_piece *p, int64_t j) {
    if (l->desc.is_boxes) return l->desc.boxes[p->position].ranks[j];
    return rshi_layout_rank_at(l, holder_position(l, p, j));
}

int64_t rshi_piece_holder_index(const rsh_layout *l, const rshi_piece *p, int64_t rank) {
    const rsh_ranked_box *b = l->desc.is_boxes ? &l->desc.boxes[p->position] : NULL;
    if (b) return rshi_find(b->ranks, b->nranks, sizeof *b->ranks, rank);
    int64_t position = rshi_layout_position(l, rank);
    if (position < 0) return -1;
    if (p->fixed == all_axes(l)) return position == p->position ? 0 : -1;
    for (int a = 0; a < l->desc.naxes; a++)
        if ((p->fixed >> a & 1) && rshi_coordinate(l, position, a) != rshi_coordinate(l, p->position, a)) return -1;
    return number_along(l, position, all_axes(l) & ~p->fixed);
}

/* Returns the part number of a box on a rank. */
static int64_t part_of_box(const rsh_layout *l, int64_t box, int64_t rank) {
    const rshi_rank_entry *e = &l->entry[entry_of(l, rank)];
    return rshi_find(l->box_of + e[0].value, e[1].value - e[0].value, sizeof *l->box_of, box);
}

void rshi_piece_move(const rsh_layout *l, int64_t position, rshi_piece *p) {
    p->position = position;
    p->rank = rshi_layout_rank_at(l, position);
    if (p->flat) return;
    for (int d = 0; d < l->desc.ndim; d++) p->at[d] = p->seg[d] ? segment_at(l, d, p->seg[d], position) : 0;
}

void rshi_piece_at_holder(const rsh_layout *l, const rshi_piece *p, int64_t j, rshi_piece *out) {
    copy_piece(l, p, out);
    if (l->desc.is_boxes) {
        out->rank = rshi_piece_holder(l, p, j);
        out->part = part_of_box(l, p->position, out->rank);
        return;
    }
    rshi_piece_move(l, holder_position(l, p, j), out);
}

int64_t rshi_layout_partials(const rsh_layout *l) {
    int64_t n = 1;
    for (int a = 0; a < l->desc.naxes; a++)
        if (l->partial >> a & 1) n *= l->desc.axis[a].size;
    return n;
}

int64_t rshi_piece_partial(const rsh_layout *l, const rshi_piece *p) {
    return l->desc.is_boxes ? 0 : number_along(l, p->position, l->partial);
}

void rshi_piece_at_partial(const rsh_layout *l, const rshi_piece *p, int64_t i, rshi_piece *out) {
    copy_piece(l, p, out);
    if (l->partial) rshi_piece_move(l, position_with(l, p->position, l->partial, i), out);
}

bool rshi_layout_same_partials(const rsh_layout *a, const rsh_layout *b) {
    int64_t size[2][RSH_MAX_AXES];
    int n[2] = {0, 0};
    for (int i = 0; i < a->desc.naxes; i++)
        if (a->partial >> i & 1) size[0][n[0]++] = a->desc.axis[i].size;
    for (int i = 0; i < b->desc.naxes; i++)
        if (b->partial >> i & 1) size[1][n[1]++] = b->desc.axis[i].size;
    if (n[0] != n[1]) return false;
    for (int i = 0; i < n[0]; i++)
        if (size[0][i] != size[1][i]) return false;
    return true;
}
