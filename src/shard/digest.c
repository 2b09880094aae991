/* Digest: a number that depends on the values of a tensor and their positions, but not on the layout.
 *
 * It is a sum over all elements of a contribution that depends on the global row-major index (copy/mix.c).  Each rank
 * adds the elements of which it is the first holder, and the ranks' sums are added. */
#include "copy/copy.h"
#include "shard/shard.h"
#include "shard/memory.h"

typedef struct walk {
    const rsh_layout *l;
    const rshi_piece *p;
    int64_t stride[RSH_MAX_NDIM]; /* strides of the part in bytes */
    int64_t global[RSH_MAX_NDIM]; /* row-major strides of the whole tensor */
    int last;                     /* the dims after this one are whole and dense, so they continue its runs */
    size_t size;
    rsh_digest sum;
} walk;

/* Adds n indices of dim `last`; the first one has global index `index`. */
static void add_run(walk *w, const char *at, int64_t n, uint64_t index) {
    int64_t inner = w->global[w->last], step = inner == 1 ? w->stride[w->last] : (int64_t)w->size;
    rshi_mix_run(at, step, w->size, n * inner, index, &w->sum.hi, &w->sum.lo);
}

static void add_dims(walk *w, int d, const char *at, uint64_t index) {
    const rshi_stripe *s = &w->p->set[d];
    for (int64_t j = 0, i = 0; j < s->count; j++) {
        int64_t n = j == s->count - 1 ? s->last : s->len, lo = s->lo + j * s->stride;
        if (d == w->last) add_run(w, at + i * w->stride[d], n, index + (uint64_t)(lo * w->global[d]));
        for (int64_t k = 0; k < n && d < w->last; k++)
            add_dims(w, d + 1, at + (i + k) * w->stride[d], index + (uint64_t)((lo + k) * w->global[d]));
        i += n;
    }
}

/* Returns the last dim that needs a loop. */
static int find_last(const walk *w) {
    const int64_t *shape = rsh_layout_shape(w->l);
    int d = rsh_layout_ndim(w->l) - 1;
    while (d > 0 && rshi_stripe_size(&w->p->set[d]) == shape[d] && w->stride[d] == w->global[d] * (int64_t)w->size &&
           w->stride[d - 1] == w->global[d - 1] * (int64_t)w->size)
        d--;
    return d;
}

/* Returns whether this rank counts the piece; only its first holder does. */
static bool counts_piece(const rsh_layout *l, const rshi_piece *p) {
    return rshi_piece_holder_index(l, p, p->rank) == 0 && (!rshi_layout_irregular(l) || rshi_piece_first_copy(l, p));
}

static void add_piece(const rsh_layout *l, const rshi_piece *p, const rshi_part_memory *part, rsh_digest *sum) {
    walk w = {.l = l, .p = p, .size = rsh_dtype_size(rsh_layout_dtype(l))};
    int64_t base;
    rshi_dense_strides(rsh_layout_ndim(l), rsh_layout_shape(l), NULL, w.global);
    rshi_piece_place(l, p, part->strides, &base, w.stride);
    for (int d = 0; d < rsh_layout_ndim(l); d++) w.stride[d] *= (int64_t)w.size;
    const char *at = part->data + base * (int64_t)w.size;
    w.last = find_last(&w);
    if (w.last >= 0) add_dims(&w, 0, at, 0);
    else rshi_mix_run(at, 0, w.size, 1, 0, &w.sum.hi, &w.sum.lo);
    rsh_digest_merge(sum, w.sum);
}

/* Adds all pieces of one rank; `memory` lists its parts. */
static rsh_status add_rank(const rsh_layout *l, int64_t rank, const rsh_memory *memory, rsh_digest *sum) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(l, rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        rshi_part_memory part;
        if (!counts_piece(l, &list[i])) continue;
        st = rshi_part_take(l, rank, list[i].part, &memory[list[i].part], &part);
        if (!st) add_piece(l, &list[i], &part, sum);
    }
    rshi_free(list);
    return st;
}

static rsh_status begin_digest(const rsh_layout *l, rsh_digest *sum) {
    return rsh_digest_begin(rsh_dtype_name(rsh_layout_dtype(l)), rsh_layout_ndim(l), rsh_layout_shape(l), sum);
}

static rsh_status check_digestible(const rsh_layout *l) {
    RSH_REQUIRE(!rsh_layout_op(l), RSH_EUNSUP, "a partial tensor has no digest; reduce it first: \"%.300s\"",
                rsh_layout_text(l));
    return rsh_dtype_check_convert(rsh_layout_dtype(l), rsh_layout_dtype(l)); /* fails for storage-only dtypes */
}

rsh_status rsh_digest_local(const rsh_layout *layout, const rsh_memory *parts, rsh_digest *out) {
    RSH_NEEDS(parts);
    RSH_NEEDS(layout);
    RSH_NEEDS(out);
    rsh_digest sum;
    RSH_TRY(check_digestible(layout));
    RSH_TRY(begin_digest(layout, &sum));
    for (int64_t i = 0; i < rsh_layout_nranks(layout); i++) {
        int64_t rank = rsh_layout_rank(layout, i);
        RSH_TRY(add_rank(layout, rank, parts, &sum));
        parts += rsh_layout_nparts(layout, rank);
    }
    *out = sum;
    return RSH_OK;
}

static rsh_status sum_own_parts(const rsh_sharded *s, rsh_digest *sum) {
    RSH_TRY(check_digestible(s->layout));
    rsh_memory *memory = rshi_alloc((size_t)s->nparts, sizeof *memory);
    if (!memory) return rshi_nomem();
    rshi_sharded_memory(s, memory);
    rsh_status st = add_rank(s->layout, s->comm->rank, memory, sum);
    rshi_free(memory);
    return st;
}

rsh_status rsh_sharded_digest(const rsh_sharded *s, rsh_digest *out) {
    RSH_REQUIRE(s, RSH_EVALUE, "sharded tensor is NULL");
    rsh_digest mine = {0, 0}, sum, *all = rshi_alloc((size_t)s->comm->size, sizeof *all);
    rsh_status st = all ? sum_own_parts(s, &mine) : rshi_nomem();
    if (!out) st = rshi_fail(RSH_EVALUE, "digest: out is NULL");
    st = rshi_comm_open(s->comm, "digest", rsh_layout_hash(s->layout), rsh_layout_text(s->layout), st);
    if (!st) st = rshi_comm_verdict(s->comm, s->comm->ops->allgather(s->comm, &mine, all, sizeof mine));
    if (!st) st = begin_digest(s->layout, &sum);
    for (int r = 0; r < s->comm->size && !st; r++) rsh_digest_merge(&sum, all[r]);
    rshi_free(all);
    if (!st) *out = sum;
    return st;
}
