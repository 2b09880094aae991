/* Shares: divides the reading of a tensor among the ranks of each node.
 *
 * A part is contiguous in its file, so rows of its slowest dim are one run.  The part is cut into chunks of such rows,
 * and each chunk is read by the rank of a node that has least to read so far.  A chunk becomes one or more boxes of the
 * tensor in memory.  If a part shares only some of its elements with other parts (heads that several ranks hold), each
 * of its pieces is cut separately.  Every rank computes the same result; the cost is proportional to chunks times
 * ranks. */
#include "ckpt/shares.h"

#include <string.h>

#define CHUNK ((int64_t)1 << 20) /* bytes; one rank reads a smaller part */

typedef struct sharing {
    const rsh_ckpt *c;
    const rshi_ckpt_tensor *t;
    const rsh_layout *to;
    const rsh_comm *comm;
    int64_t *load, *memory;
    bool *needed; /* owned, by node: whether it needs the current chunk */
    int *best;    /* owned, by node: the rank that has least to read */
    rshi_shares *s;
} sharing;

/* A part or piece with constant strides in the file, which is cut into chunks. */
typedef struct unit {
    const rshi_ckpt_part *part;
    int64_t base;               /* offset of the unit in the part, in elements */
    int64_t n[RSH_MAX_NDIM];    /* extents */
    int64_t fs[RSH_MAX_NDIM];   /* strides in the file, in elements */
    const rshi_piece *piece;    /* the pieces of the unit */
    int64_t npieces;
    bool alone; /* the only piece begins at local index 0 of the unit; otherwise pieces keep their places */
} unit;

/* ---- chunks ---- */

static rsh_status add_box(sharing *x, const rsh_box *box, int64_t offset, const int64_t *strides) {
    rshi_shares *s = x->s;
    RSH_TRY(RSHI_GROW(s->box, s->nboxes + 1, &s->boxes_room));
    rshi_share_box *b = &s->box[s->nboxes++];
    *b = (rshi_share_box){.box = *box, .offset = offset * s->size};
    memcpy(b->strides, strides, (size_t)x->t->ndim * sizeof *strides);
    return RSH_OK;
}

/* The current chunk: indices [lo, hi) of dim `cut` of a unit. */
typedef struct cutting {
    sharing *x;
    const unit *u;
    const rshi_piece *p;
    int cut;
    int64_t lo, hi;
    int64_t ms[RSH_MAX_NDIM]; /* strides in memory, in elements */
    rsh_box box;
} cutting;

/* Adds the boxes of the piece's blocks in dim d and the dims after it; `offset` is their position in the chunk. */
static rsh_status add_blocks(cutting *k, int d, int64_t offset) {
    if (d == k->x->t->ndim) return add_box(k->x, &k->box, offset, k->ms);
    const rshi_stripe *s = &k->p->set[d];
    for (int64_t j = 0; j < s->count; j++) {
        int64_t local = (k->u->alone ? 0 : k->p->at[d]) + j * s->len, n = j == s->count - 1 ? s->last : s->len;
        int64_t from = d == k->cut ? rshi_max(local, k->lo) : local;
        int64_t to = d == k->cut ? rshi_min(local + n, k->hi) : local + n;
        if (from >= to) continue;
        k->box.lo[d] = s->lo + j * s->stride + (from - local);
        k->box.hi[d] = k->box.lo[d] + (to - from);
        RSH_TRY(add_blocks(k, d + 1, offset + (from - (d == k->cut ? k->lo : 0)) * k->ms[d]));
    }
    return RSH_OK;
}

/* ---- choosing readers ---- */

static rsh_status mark_nodes(void *ctx, const rshi_piece *p) {
    sharing *x = ctx;
    for (int64_t j = 0; j < rshi_piece_holders(x->to, p); j++)
        x->needed[rsh_comm_node(x->comm, (int)rshi_piece_holder(x->to, p, j))] = true;
    return RSH_OK;
}

/* Finds the nodes with a rank whose destination part overlaps the chunk. */
static rsh_status find_nodes(sharing *x, const rshi_chunk *c) {
    int nodes = rsh_comm_nnodes(x->comm);
    memset(x->needed, nodes == 1, (size_t)nodes * sizeof *x->needed);
    for (int64_t b = c->box; b < c->box + c->nboxes && nodes > 1; b++) {
        rshi_stripe query[RSH_MAX_NDIM];
        for (int d = 0; d < x->t->ndim; d++)
            query[d] = rshi_stripe_range(x->s->box[b].box.lo[d], x->s->box[b].box.hi[d]);
        RSH_TRY(rshi_layout_search(x->to, query, mark_nodes, x));
    }
    return RSH_OK;
}

static rsh_status add_reader(sharing *x, rshi_chunk *c, int rank) {
    rshi_shares *s = x->s;
    RSH_TRY(RSHI_GROW(s->reader, s->nreaders + 1, &s->readers_room));
    s->reader[s->nreaders++] = rank;
    c->nreaders++;
    x->load[rank] += c->bytes;
    if (rank != rsh_comm_rank(x->comm)) return RSH_OK;
    *x->memory = (*x->memory + 63) & ~(int64_t)63;
    c->at = *x->memory;
    *x->memory += c->bytes;
    s->bytes += c->bytes;
    s->mine += c->nboxes;
    return RSH_OK;
}

/* Chooses the rank with least to read in each node that needs the chunk. */
static rsh_status choose_readers(sharing *x, rshi_chunk *c) {
    int nodes = rsh_comm_nnodes(x->comm);
    RSH_TRY(find_nodes(x, c));
    c->reader = x->s->nreaders;
    for (int node = 0; node < nodes; node++) x->best[node] = -1;
    for (int r = 0; r < rsh_comm_size(x->comm); r++) {
        int *best = &x->best[rsh_comm_node(x->comm, r)];
        if (*best < 0 || x->load[r] < x->load[*best]) *best = r;
    }
    for (int node = 0; node < nodes; node++)
        if (x->needed[node]) RSH_TRY(add_reader(x, c, x->best[node]));
    return RSH_OK;
}

/* ---- units ---- */

static rsh_status add_chunk(cutting *k) {
    sharing *x = k->x;
    rshi_shares *s = x->s;
    const unit *u = k->u;
    RSH_TRY(RSHI_GROW(s->chunk, s->nchunks + 1, &s->chunks_room));
    rshi_chunk c = {.region = {.file = u->part->file}, .bytes = s->size, .box = s->nboxes, .at = -1};
    int64_t first = u->base + (k->cut >= 0 ? k->lo * u->fs[k->cut] : 0);
    c.region.at = u->part->at + (uint64_t)(first * s->size);
    for (int d = 0; d < x->t->ndim; d++) {
        int64_t n = d == k->cut ? k->hi - k->lo : u->n[d];
        rshi_file_region_add(&c.region, n, u->fs[d] * s->size, k->ms[d] * s->size);
        c.bytes *= n;
    }
    for (int64_t i = 0; i < u->npieces; i++) {
        k->p = &u->piece[i];
        RSH_TRY(add_blocks(k, 0, 0));
    }
    c.nboxes = s->nboxes - c.box;
    RSH_TRY(choose_readers(x, &c));
    s->chunk[s->nchunks++] = c;
    return RSH_OK;
}

/* Computes strides of a contiguous buffer in the dim order of the file.  Returns the slowest dim of more than one
 * index; -1: there is none. */
static int find_order(const unit *u, int ndim, int64_t *ms) {
    int order[RSH_MAX_NDIM], slowest = -1;
    for (int d = 0; d < ndim; d++) {
        int k = d;
        for (; k && u->fs[order[k - 1]] < u->fs[d]; k--) order[k] = order[k - 1];
        order[k] = d;
    }
    rshi_dense_strides(ndim, u->n, order, ms);
    for (int k = ndim; k--;)
        if (u->n[order[k]] > 1) slowest = order[k];
    return slowest;
}

static rsh_status cut_unit(sharing *x, const unit *u) {
    cutting k = {.x = x, .u = u};
    int64_t bytes = x->s->size, step = 1, ranks = rsh_comm_size(x->comm) / rsh_comm_nnodes(x->comm);
    for (int d = 0; d < x->t->ndim; d++) bytes *= u->n[d];
    k.cut = find_order(u, x->t->ndim, k.ms);
    if (k.cut < 0) return add_chunk(&k);
    int64_t rows = u->n[k.cut], most = rshi_min(rows, rshi_max(1, rshi_min(rshi_max(1, ranks), bytes / CHUNK)));
    step = rshi_ceil_div(rows, most);
    for (k.lo = 0; k.lo < rows; k.lo = k.hi) {
        k.hi = rshi_min(rows, k.lo + step);
        RSH_TRY(add_chunk(&k));
    }
    return RSH_OK;
}

/* ---- parts ---- */

/* Shares a part.  All of its pieces are read from this rank's copy. */
static rsh_status share_part(sharing *x, const rshi_piece *list, int64_t n, const rshi_ckpt_part *part) {
    rsh_part shape;
    unit u = {.part = part, .piece = list, .npieces = n};
    RSH_TRY(rsh_layout_part(x->t->layout, list->rank, list->part, &shape));
    memcpy(u.n, shape.shape, sizeof u.n);
    memcpy(u.fs, shape.strides, sizeof u.fs);
    return cut_unit(x, &u);
}

static rsh_status share_piece(sharing *x, const rshi_piece *p, const rshi_ckpt_part *part) {
    rsh_part shape;
    unit u = {.part = part, .piece = p, .npieces = 1, .alone = true};
    RSH_TRY(rsh_layout_part(x->t->layout, p->rank, p->part, &shape));
    rshi_piece_place(x->t->layout, p, shape.strides, &u.base, u.fs);
    for (int d = 0; d < x->t->ndim; d++) u.n[d] = rshi_stripe_size(&p->set[d]);
    return cut_unit(x, &u);
}

static rsh_status share_pieces(sharing *x, const rshi_piece *list, int64_t n, const int64_t *base, int64_t ordinal) {
    const rshi_ckpt_part *part = x->c->parts + base[ordinal] + list->part;
    int64_t first = 0;
    if (part->file < 0) return RSH_OK;
    for (int64_t i = 0; i < n; i++) first += rshi_piece_is_stored_first(x->c, x->t, &list[i], base);
    if (first == n && !list->flat) return share_part(x, list, n, part);
    for (int64_t i = 0; i < n; i++)
        if (rshi_piece_is_stored_first(x->c, x->t, &list[i], base)) RSH_TRY(share_piece(x, &list[i], part));
    return RSH_OK;
}

static rsh_status share_rank(sharing *x, int64_t ordinal, const int64_t *base) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(x->t->layout, rsh_layout_rank(x->t->layout, ordinal), &list, &n);
    for (int64_t i = 0, end; i < n && !st; i = end) {
        for (end = i + 1; end < n && list[end].part == list[i].part;) end++;
        st = share_pieces(x, list + i, end - i, base, ordinal);
    }
    rshi_free(list);
    return st;
}

static rsh_status share_whole(sharing *x) {
    rshi_piece p = {0};
    unit u = {.part = x->c->parts + x->t->part, .piece = &p, .npieces = 1, .alone = true};
    for (int d = 0; d < x->t->ndim; d++) {
        p.set[d] = rshi_stripe_range(0, x->t->shape[d]);
        u.n[d] = x->t->shape[d];
    }
    rshi_dense_strides(x->t->ndim, x->t->shape, NULL, u.fs);
    return cut_unit(x, &u);
}

/* ---- views ---- */

/* Adds a chunk: indices [lo, hi) of dim `cut` of the tensor, contiguous in memory. */
static rsh_status add_view_chunk(sharing *x, int cut, int64_t lo, int64_t hi) {
    rshi_shares *s = x->s;
    rshi_chunk c = {.bytes = s->size, .box = s->nboxes, .nboxes = 1, .at = -1, .of_view = true};
    rsh_box box = {{0}, {0}};
    int64_t n[RSH_MAX_NDIM], strides[RSH_MAX_NDIM];
    for (int d = 0; d < x->t->ndim; d++) {
        box.lo[d] = d == cut ? lo : 0;
        box.hi[d] = d == cut ? hi : x->t->shape[d];
        n[d] = box.hi[d] - box.lo[d];
        c.bytes *= n[d];
    }
    rshi_dense_strides(x->t->ndim, n, NULL, strides);
    RSH_TRY(add_box(x, &box, 0, strides));
    RSH_TRY(RSHI_GROW(s->chunk, s->nchunks + 1, &s->chunks_room));
    RSH_TRY(choose_readers(x, &c));
    s->chunk[s->nchunks++] = c;
    return RSH_OK;
}

/* Divides the first dim of more than one index among the ranks of a node. */
static rsh_status share_view(sharing *x) {
    int64_t bytes = x->s->size, ranks = rsh_comm_size(x->comm) / rsh_comm_nnodes(x->comm);
    int cut = 0;
    for (int d = 0; d < x->t->ndim; d++) bytes *= x->t->shape[d];
    while (cut < x->t->ndim && x->t->shape[cut] == 1) cut++;
    if (cut == x->t->ndim) return add_view_chunk(x, -1, 0, 0);
    int64_t rows = x->t->shape[cut], most = rshi_min(rows, rshi_max(1, rshi_min(rshi_max(1, ranks), bytes / CHUNK)));
    int64_t step = rshi_ceil_div(rows, most);
    for (int64_t lo = 0; lo < rows; lo += step) RSH_TRY(add_view_chunk(x, cut, lo, rshi_min(rows, lo + step)));
    return RSH_OK;
}

static rsh_status share_parts(sharing *x) {
    int64_t *base = NULL;
    if (x->t->view) return share_view(x);
    if (!x->t->layout) return share_whole(x);
    rsh_status st = rshi_ckpt_part_numbers(x->t, &base);
    for (int64_t i = 0; i < rsh_layout_nranks(x->t->layout) && !st; i++) st = share_rank(x, i, base);
    rshi_free(base);
    return st;
}

/* ---- the layout of the chunks on their readers ---- */

static rsh_status make_layout(const rshi_ckpt_tensor *t, rshi_shares *s) {
    rsh_ranked_box *list = rshi_alloc((size_t)s->nboxes, sizeof *list);
    rsh_layout_desc desc = {.dtype = t->dtype, .ndim = t->ndim, .is_boxes = true, .nboxes = s->nboxes, .boxes = list};
    if (!list) return rshi_nomem();
    for (int d = 0; d < t->ndim; d++) desc.dim[d].size = t->shape[d];
    for (int64_t i = 0; i < s->nchunks; i++)
        for (int64_t b = s->chunk[i].box; b < s->chunk[i].box + s->chunk[i].nboxes; b++)
            list[b] = (rsh_ranked_box){s->chunk[i].nreaders, s->reader + s->chunk[i].reader, s->box[b].box};
    rsh_status st = rsh_layout_new(&desc, &s->layout);
    rshi_free(list);
    return st;
}

rsh_status rshi_shares_make(const rsh_ckpt *c, int64_t tensor, const rsh_layout *to, const rsh_comm *comm,
                            int64_t *load, int64_t *memory, rshi_shares *out) {
    const rshi_ckpt_tensor *t = &c->tensor[tensor];
    rshi_shares s = {.size = rsh_dtype_bits(t->dtype) / 8};
    sharing x = {.c = c, .t = t, .to = to, .comm = comm, .load = load, .memory = memory, .s = &s};
    RSH_REQUIRE(rsh_dtype_bits(t->dtype) % 8 == 0, RSH_EUNSUP,
                "%s: tensor \"%.200s\": loading dtype %s is not supported", c->path, t->name, rsh_dtype_name(t->dtype));
    x.needed = rshi_alloc((size_t)rsh_comm_nnodes(comm), sizeof *x.needed);
    x.best = rshi_alloc((size_t)rsh_comm_nnodes(comm), sizeof *x.best);
    rsh_status st = x.needed && x.best ? RSH_OK : rshi_nomem();
    if (!st && rshi_ckpt_count(t)) st = share_parts(&x);
    if (!st && rshi_ckpt_count(t)) st = make_layout(t, &s);
    rshi_free(x.needed);
    rshi_free(x.best);
    if (st)
        rshi_shares_free(&s);
    else
        *out = s;
    return st;
}

void rshi_shares_free(rshi_shares *s) {
    rshi_free(s->chunk);
    rshi_free(s->box);
    rshi_free(s->reader);
    rsh_layout_free(s->layout);
    *s = (rshi_shares){0};
}
