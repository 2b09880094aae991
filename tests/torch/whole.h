/* whole: what tests of sharded tensors share: ranks with a default group on every engine, and an
 * oracle on whole tensors.
 *
 * The bytes of an element follow from its index in the whole tensor, so what a rank must hold is
 * known from the box alone.  The oracle computes cuts without the library. */
#ifndef RESHARD_TESTS_ST_WHOLE_H
#define RESHARD_TESTS_ST_WHOLE_H

#include "comm/ranks.h"

#include <reshard/torch.h>

/* ---- ranks ---- */

typedef struct in_group {
    rsh_rank_fn fn;
    void *ctx;
} in_group;

static inline rsh_status rank_in_group(void *ctx, rsh_comm *comm) {
    const in_group *g = ctx;
    RSH_TRY(rsh_group_init(comm));
    rsh_status st = g->fn(g->ctx, comm);
    if (!st) st = rsh_group_destroy();
    return st;
}

/* Runs fn on n threads, on n processes, and on n ranks that alternate between two nodes with
 * messages between them. */
static inline void run_engines(int n, rsh_rank_fn fn, void *ctx) {
    in_group g = {fn, ctx};
    rsh_status st = rsh_run(n, rank_in_group, &g);
    if (st) fail_msg("%d threads: %s: %s", n, rsh_status_name(st), rsh_error_detail());
    st = rsh_run_shm(n, rank_in_group, &g);
    if (st) fail_msg("%d processes: %s: %s", n, rsh_status_name(st), rsh_error_detail());
    int node[16];
    for (int r = 0; r < n; r++) node[r] = r % 2;
    st = run_on_nodes(n, node, rank_in_group, &g);
    if (st) fail_msg("%d ranks on nodes: %s: %s", n, rsh_status_name(st), rsh_error_detail());
}

/* ---- the oracle ---- */

enum { MOST_PIECES = 64 };

typedef struct piece {
    int64_t lo[RSH_MAX_NDIM], n[RSH_MAX_NDIM];
    int rank;
} piece;

/* A tensor and how it is to be cut. */
typedef struct cutting {
    rsh_dtype dtype;
    int ndim;
    int64_t size[RSH_MAX_NDIM];
    int npieces;
    piece pieces[MOST_PIECES]; /* in the order of the metadata */
} cutting;

static inline cutting cut_chunks(rsh_dtype dtype, int ndim, const int64_t *size, int dim, int k,
                                 const int *ranks) {
    cutting c = {.dtype = dtype, .ndim = ndim, .npieces = k};
    if (dim < 0) dim += ndim;
    for (int d = 0; d < ndim; d++) c.size[d] = size[d];
    int64_t each = 0;
    while (each * k < size[dim]) each++;
    for (int i = 0; i < k; i++) {
        piece *p = &c.pieces[i];
        p->rank = ranks ? ranks[i] : i;
        for (int d = 0; d < ndim; d++) p->n[d] = size[d];
        int64_t lo = 0, left = size[dim];
        for (int j = 0; j < i; j++) {
            int64_t step = left < each ? left : each;
            lo += step;
            left -= step;
        }
        p->lo[dim] = lo;
        p->n[dim] = left < each ? left : each;
    }
    return c;
}

static inline unsigned char byte_at(int64_t index, int byte) {
    uint64_t z = (uint64_t)index * 0x9e3779b97f4a7c15u + (uint64_t)byte * 0xbf58476d1ce4e5b9u;
    return (unsigned char)((z ^ (z >> 29)) * 0x94d049bb133111ebu >> 56);
}

/* Visits the elements of a box in row-major order: writes the expected values, or counts the wrong
 * ones. */
static inline int64_t walk_box(const cutting *c, const piece *p, unsigned char *data, bool write) {
    int64_t at[RSH_MAX_NDIM] = {0}, wrong = 0;
    size_t item = rsh_dtype_size(c->dtype);
    for (int d = 0; d < c->ndim; d++)
        if (!p->n[d]) return 0;
    for (;;) {
        int64_t index = 0;
        for (int d = 0; d < c->ndim; d++) index = index * c->size[d] + p->lo[d] + at[d];
        bool bad = false;
        for (size_t b = 0; b < item; b++, data++) {
            if (write) *data = byte_at(index, (int)b);
            bad |= *data != byte_at(index, (int)b);
        }
        wrong += bad;
        int d = c->ndim - 1;
        while (d >= 0 && ++at[d] == p->n[d]) at[d--] = 0;
        if (d < 0) return wrong;
    }
}

static inline int64_t count_of(const cutting *c, const piece *p) {
    int64_t n = 1;
    for (int d = 0; d < c->ndim; d++) n *= p->n[d];
    return n;
}

/* Creates the whole tensor with its expected values. */
static inline rsh_status make_whole(const cutting *c, rsh_tensor **out) {
    piece all = {.rank = 0};
    memcpy(all.n, c->size, sizeof all.n);
    RSH_TRY(rsh_tensor_empty(c->dtype, c->ndim, c->size, out));
    walk_box(c, &all, rsh_tensor_data(*out), true);
    return RSH_OK;
}

static inline rsh_status check_whole(const cutting *c, const rsh_tensor *t) {
    piece all = {.rank = 0};
    memcpy(all.n, c->size, sizeof all.n);
    CHECK(!walk_box(c, &all, rsh_tensor_data(t), false));
    return RSH_OK;
}

static inline bool is_piece(const rsh_shard_meta *m, const cutting *c, const piece *p) {
    bool same = m->ndim == c->ndim && m->has_placement && m->placement.rank == p->rank;
    for (int d = 0; same && d < c->ndim; d++)
        same = m->offsets[d] == p->lo[d] && m->sizes[d] == p->n[d];
    return same;
}

/* Checks the metadata of all shards, and the number and metadata of this rank's shards. */
static inline rsh_status check_form(const rsh_torch_tensor *t, const cutting *c, int rank) {
    const rsh_tensor_meta *m = rsh_torch_meta(t);
    int64_t k = 0;
    CHECK(m->nshards == c->npieces && m->ndim == c->ndim && m->props.dtype == c->dtype);
    for (int d = 0; d < c->ndim; d++) CHECK(m->size[d] == c->size[d]);
    for (int i = 0; i < c->npieces; i++) {
        CHECK(is_piece(&m->shards[i], c, &c->pieces[i]));
        if (c->pieces[i].rank != rank) continue;
        const rsh_shard *s = rsh_torch_shard(t, k++);
        CHECK(s && is_piece(&s->meta, c, &c->pieces[i]) && rsh_tensor_dense(s->tensor));
        CHECK(rsh_tensor_count(s->tensor) == count_of(c, &c->pieces[i]) &&
              rsh_tensor_dtype(s->tensor) == c->dtype);
        for (int d = 0; d < c->ndim; d++)
            CHECK(rsh_tensor_shape(s->tensor)[d] == c->pieces[i].n[d]);
    }
    CHECK(rsh_torch_nshards(t) == k && !rsh_torch_shard(t, k));
    return RSH_OK;
}

/* Checks everything that a rank knows: metadata and elements. */
static inline rsh_status check_st(const rsh_torch_tensor *t, const cutting *c, int rank) {
    int64_t k = 0;
    RSH_TRY(check_form(t, c, rank));
    for (int i = 0; i < c->npieces; i++)
        if (c->pieces[i].rank == rank)
            CHECK(!walk_box(c, &c->pieces[i], rsh_tensor_data(rsh_torch_shard(t, k++)->tensor),
                            false));
    return RSH_OK;
}

static inline void fill_st(const rsh_torch_tensor *t, const cutting *c, int rank) {
    int64_t k = 0;
    for (int i = 0; i < c->npieces; i++)
        if (c->pieces[i].rank == rank)
            walk_box(c, &c->pieces[i], rsh_tensor_data(rsh_torch_shard(t, k++)->tensor), true);
}

/* ---- constructors ---- */

static inline rsh_status box_meta(const cutting *c, const piece *p, rsh_shard_meta *out) {
    char text[32];
    snprintf(text, sizeof text, "rank:%d/cpu", p->rank);
    return rsh_shard_meta_make(c->ndim, p->lo, c->ndim, p->n, text, out);
}

static inline rsh_status boxes_spec(const cutting *c, rsh_spec **out) {
    rsh_shard_meta list[MOST_PIECES];
    for (int i = 0; i < c->npieces; i++) RSH_TRY(box_meta(c, &c->pieces[i], &list[i]));
    return rsh_spec_boxes(c->npieces, list, out);
}

/* Creates a tensor that a spec cuts, with its expected values. */
static inline rsh_status make_filled(const rsh_spec *spec, const cutting *c, rsh_group *g,
                                     rsh_torch_tensor **out) {
    rsh_torch_opts o = RSH_TORCH_OPTS_INIT;
    o.props.dtype = c->dtype;
    o.group = g;
    RSH_TRY(rsh_torch_empty(spec, c->ndim, c->size, &o, out));
    fill_st(*out, c, rsh_group_rank(g));
    return RSH_OK;
}

/* Writes the n-th permutation of 0..k-1 in lexicographic order. */
static inline void permutation(int k, int n, int *out) {
    bool used[16] = {false};
    int left = 1;
    for (int i = 2; i < k; i++) left *= i;
    for (int i = 0; i < k; i++) {
        int skip = n / left, r = 0;
        n %= left;
        if (i + 1 < k) left /= k - 1 - i;
        for (;; r++)
            if (!used[r] && !skip--) break;
        used[r] = true;
        out[i] = r;
    }
}

#endif
