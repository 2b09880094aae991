/* Digest: one number for the values of a tensor and where they stand, whatever the layout.
 *
 * The sum modulo 2^128 over all elements of a mix of global row-major index and element bits; sums do not care who adds
 * what, so each rank adds up the elements of which it is the first holder and the ranks' sums are added. */
#include "copy/copy.h"
#include "shard/shard.h"
#include "shard/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_digest(rsh_digest *sum, rsh_digest d) {
    sum->lo += d.lo;
    sum->hi += d.hi + (sum->lo < d.lo);
}

typedef struct walk {
    const rsh_layout *l;
    const rshi_piece *p;
    int64_t stride[RSH_MAX_NDIM]; /* bytes, local */
    int64_t global[RSH_MAX_NDIM]; /* row-major strides of the tensor */
    size_t size;
    rsh_digest sum;
} walk;

static void add_dims(walk *w, int d, const char *at, uint64_t index) {
    if (d == rsh_layout_ndim(w->l)) {
        rshi_mix_run(at, 0, w->size, 1, index, &w->sum.hi, &w->sum.lo);
        return;
    }
    const rshi_stripe *s = &w->p->set[d];
    bool last = d == rsh_layout_ndim(w->l) - 1;
    for (int64_t j = 0, i = 0; j < s->count; j++) {
        int64_t n = j == s->count - 1 ? s->last : s->len, lo = s->lo + j * s->stride;
        if (last)
            rshi_mix_run(at + i * w->stride[d], w->stride[d], w->size, n, index + (uint64_t)lo, &w->sum.hi, &w->sum.lo);
        for (int64_t k = 0; k < n && !last; k++)
            add_dims(w, d + 1, at + (i + k) * w->stride[d], index + (uint64_t)((lo + k) * w->global[d]));
        i += n;
    }
}

/* Does this rank count the piece? */
static bool counts(const rsh_layout *l, const rshi_piece *p) {
    return rshi_piece_holder_index(l, p, p->rank) == 0 && (!rshi_layout_irregular(l) || rshi_piece_first_copy(l, p));
}

static void add_piece(const rsh_layout *l, const rshi_piece *p, const rshi_part_memory *part, rsh_digest *sum) {
    walk w = {.l = l, .p = p, .size = rsh_dtype_size(rsh_layout_dtype(l))};
    int64_t base;
    rshi_dense_strides(rsh_layout_ndim(l), rsh_layout_shape(l), NULL, w.global);
    rshi_piece_place(l, p, part->strides, &base, w.stride);
    for (int d = 0; d < rsh_layout_ndim(l); d++) w.stride[d] *= (int64_t)w.size;
    add_dims(&w, 0, part->data + base * (int64_t)w.size, 0);
    add_digest(sum, w.sum);
}

/* All pieces of one rank; `memory` lists its parts. */
static rsh_status add_rank(const rsh_layout *l, int64_t rank, const rsh_memory *memory, rsh_digest *sum) {
    rshi_piece *list = NULL;
    int64_t n = 0;
    rsh_status st = rshi_layout_pieces(l, rank, &list, &n);
    for (int64_t i = 0; i < n && !st; i++) {
        rshi_part_memory part;
        if (!counts(l, &list[i])) continue;
        st = rshi_part_take(l, rank, list[i].part, &memory[list[i].part], &part);
        if (!st) add_piece(l, &list[i], &part, sum);
    }
    rshi_free(list);
    return st;
}

/* Dtype and shape count too: as elements beyond every possible index. */
static void add_header(const rsh_layout *l, rsh_digest *sum) {
    uint64_t word[1 + RSH_MAX_NDIM] = {(uint64_t)rsh_layout_dtype(l)};
    for (int d = 0; d < rsh_layout_ndim(l); d++) word[1 + d] = (uint64_t)rsh_layout_shape(l)[d];
    rshi_mix_run((const char *)word, sizeof *word, sizeof *word, 1 + rsh_layout_ndim(l), UINT64_C(1) << 63, &sum->hi,
                 &sum->lo);
}

static rsh_status check(const rsh_layout *l) {
    RSH_REQUIRE(!rsh_layout_op(l), RSH_EUNSUP, "a partial tensor has no digest before it is reduced: %.300s",
                rsh_layout_text(l));
    return rsh_dtype_check_convert(rsh_layout_dtype(l), rsh_layout_dtype(l)); /* not storage-only */
}

rsh_status rsh_digest_local(const rsh_layout *layout, const rsh_memory *parts, rsh_digest *out) {
    RSH_NEEDS(parts);
    RSH_NEEDS(layout);
    RSH_NEEDS(out);
    rsh_digest sum = {0, 0};
    RSH_TRY(check(layout));
    for (int64_t i = 0; i < rsh_layout_nranks(layout); i++) {
        int64_t rank = rsh_layout_rank(layout, i);
        RSH_TRY(add_rank(layout, rank, parts, &sum));
        parts += rsh_layout_nparts(layout, rank);
    }
    add_header(layout, &sum);
    *out = sum;
    return RSH_OK;
}

static rsh_status own_sum(const rsh_sharded *s, rsh_digest *sum) {
    RSH_TRY(check(s->layout));
    rsh_memory *memory = rshi_alloc((size_t)s->nparts, sizeof *memory);
    if (!memory) return rshi_nomem();
    rshi_sharded_memory(s, memory);
    rsh_status st = add_rank(s->layout, s->comm->rank, memory, sum);
    rshi_free(memory);
    return st;
}

rsh_status rsh_sharded_digest(const rsh_sharded *s, rsh_digest *out) {
    RSH_REQUIRE(s, RSH_EVALUE, "no sharded tensor");
    rsh_digest mine = {0, 0}, sum = {0, 0}, *all = rshi_alloc((size_t)s->comm->size, sizeof *all);
    rsh_status st = all ? own_sum(s, &mine) : rshi_nomem();
    if (!out) st = rshi_fail(RSH_EVALUE, "a digest with NULL for the result");
    st = rshi_comm_open(s->comm, "digest", rsh_layout_hash(s->layout), rsh_layout_text(s->layout), st);
    if (!st) st = rshi_comm_verdict(s->comm, s->comm->ops->allgather(s->comm, &mine, all, sizeof mine));
    for (int r = 0; r < s->comm->size && !st; r++) add_digest(&sum, all[r]);
    rshi_free(all);
    if (st) return st;
    add_header(s->layout, &sum);
    *out = sum;
    return RSH_OK;
}

void rsh_digest_text(rsh_digest d, char text[RSH_DIGEST_TEXT]) {
    if (text) snprintf(text, RSH_DIGEST_TEXT, "d1:%016" PRIx64 "%016" PRIx64, d.hi, d.lo);
}
