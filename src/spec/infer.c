/* Infer: finds out whether a list of shards are chunks along one dim.
 *
 * Sorted by offset along that dim, the shards must have exactly the offsets and sizes of chunks.  Along the other dims
 * they all begin at 0 and have the same size.  Chunks at the end may be empty. */
#include "spec/impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct along {
    const rsh_shard_meta *shards;
    int dim;
} along;

static int by_offset(const void *x, const void *y, void *ctx) {
    const along *a = ctx;
    int64_t i = *(const int64_t *)x, j = *(const int64_t *)y;
    int64_t p = a->shards[i].offsets[a->dim], q = a->shards[j].offsets[a->dim];
    return p != q ? (p > q) - (p < q) : (i > j) - (i < j);
}

int64_t *rshi_order_along(int64_t n, const rsh_shard_meta *shards, int dim) {
    int64_t *order = rshi_alloc((size_t)n, sizeof *order);
    along a = {shards, dim};
    for (int64_t i = 0; order && i < n; i++) order[i] = i;
    if (order) qsort_r(order, (size_t)n, sizeof *order, by_offset, &a);
    return order;
}

bool rshi_chunks_match(int64_t n, const rsh_shard_meta *shards, const int64_t *order, int dim, const int64_t *size) {
    int64_t s = rshi_ceil_div(size[dim], n);
    for (int64_t i = 0; i < n; i++) {
        const rsh_shard_meta *m = &shards[order[i]];
        for (int d = 0; d < m->ndim; d++) {
            int64_t offset = d == dim ? rsh_chunk_offset(size[d], s, i) : 0,
                    extent = d == dim ? rsh_chunk_size(size[d], s, i) : size[d];
            if (m->offsets[d] != offset || m->sizes[d] != extent) return false;
        }
    }
    return true;
}

/* Returns the only dim along which some shard has a nonzero offset; -1: none, or several, or a shard has no
 * placement. */
static int find_dim(int64_t n, const rsh_shard_meta *shards) {
    int dim = -1;
    for (int64_t i = 0; i < n; i++) {
        if (!shards[i].has_placement) return -1;
        for (int d = 0; d < shards[i].ndim; d++) {
            if (!shards[i].offsets[d]) continue;
            if (dim >= 0 && dim != d) return -1;
            dim = d;
        }
    }
    return dim;
}

/* Computes the size of the tensor whose chunks the shards would be; false if dim would exceed 2^63 elements. */
static bool find_size(int64_t n, const rsh_shard_meta *shards, int dim, int64_t *size) {
    memcpy(size, shards->sizes, sizeof shards->sizes);
    size[dim] = 0;
    for (int64_t i = 0; i < n; i++)
        if (!rshi_add(size[dim], shards[i].sizes[dim], &size[dim])) return false;
    return true;
}

static rsh_status make_chunk(int64_t n, const rsh_shard_meta *shards, const int64_t *order, int dim, rsh_spec **out) {
    rsh_remote_device *owners = rshi_alloc((size_t)n, sizeof *owners);
    if (!owners) return rshi_nomem();
    for (int64_t i = 0; i < n; i++) owners[i] = shards[order[i]].placement;
    rsh_status st = rsh_spec_chunk(dim, n, owners, out);
    rshi_free(owners);
    return st;
}

static rsh_status check_list(int64_t n, const rsh_shard_meta *shards) {
    RSH_REQUIRE(n >= 1 && shards, RSH_EVALUE, "cannot infer a spec from %lld shards%s", (long long)n,
                n >= 1 ? " (NULL)" : ": at least one is required");
    for (int64_t i = 0; i < n; i++) {
        RSH_TRY(rshi_shard_meta_check(&shards[i], i));
        RSH_REQUIRE(shards[i].ndim == shards->ndim, RSH_EVALUE,
                    "shards must have the same number of dims: shard %lld has %d, shard 0 has %d", (long long)i,
                    shards[i].ndim, shards->ndim);
    }
    return RSH_OK;
}

rsh_status rsh_spec_infer(int64_t n, const rsh_shard_meta *shards, rsh_spec **out) {
    int64_t size[RSH_MAX_NDIM];
    RSH_REQUIRE(out, RSH_EVALUE, "spec: out is NULL");
    RSH_TRY(check_list(n, shards));
    int dim = find_dim(n, shards);
    if (dim < 0 || !find_size(n, shards, dim, size)) return rsh_spec_boxes(n, shards, out);
    int64_t *order = rshi_order_along(n, shards, dim);
    if (!order) return rshi_nomem();
    rsh_status st = rshi_chunks_match(n, shards, order, dim, size) ? make_chunk(n, shards, order, dim, out)
                                                                   : rsh_spec_boxes(n, shards, out);
    rshi_free(order);
    return st;
}
