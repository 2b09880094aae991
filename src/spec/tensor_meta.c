/* Tensor meta: the size and properties of a whole sharded tensor, and the list of its shards. */
#include "spec/spec.h"

#include <stdlib.h>
#include <string.h>

/* ---- properties ---- */

rsh_tensor_props rsh_tensor_get_props(const rsh_tensor *t) {
    rsh_tensor_props p = RSH_TENSOR_PROPS_INIT;
    p.dtype = rsh_tensor_dtype(t);
    return p;
}

bool rsh_tensor_props_equal(const rsh_tensor_props *a, const rsh_tensor_props *b) {
    return a && b && a->dtype == b->dtype && a->layout == b->layout && a->requires_grad == b->requires_grad &&
           a->memory_format == b->memory_format && a->pin_memory == b->pin_memory;
}

/* Checks the properties, except for the memory format, which is checked when it is saved or loaded. */
static rsh_status check_props(const rsh_tensor_props *p) {
    RSH_REQUIRE((unsigned)p->dtype < RSH_NDTYPES, RSH_EVALUE, "unknown dtype %d", (int)p->dtype);
    RSH_REQUIRE(p->layout == RSH_STRIDED || p->layout == RSH_SPARSE, RSH_EVALUE, "unknown storage layout %d",
                (int)p->layout);
    return RSH_OK;
}

/* ---- creating ---- */

static rsh_status check_shards(int64_t n, const rsh_shard_meta *shards, int ndim) {
    RSH_REQUIRE(n >= 0 && (!n || shards), RSH_EVALUE, "the number of shards must not be negative, nor their list "
                                                      "NULL; got %lld shards%s", (long long)n,
                shards ? "" : " (NULL)");
    for (int64_t i = 0; i < n; i++) {
        RSH_TRY(rshi_shard_meta_check(&shards[i], i));
        RSH_REQUIRE(shards[i].ndim == ndim, RSH_EVALUE, "shard %lld has %d dims, expected %d as in the tensor",
                    (long long)i,
                    shards[i].ndim, ndim);
    }
    return RSH_OK;
}

rsh_status rsh_tensor_meta_new(int64_t nshards, const rsh_shard_meta *shards, int ndim, const int64_t *size,
                               const rsh_tensor_props *props, rsh_tensor_meta **out) {
    const rsh_tensor_props usual = RSH_TENSOR_PROPS_INIT;
    RSH_REQUIRE(out, RSH_EVALUE, "metadata: out is NULL");
    if (!props) props = &usual;
    RSH_TRY(rshi_size_check(ndim, size));
    RSH_TRY(check_props(props));
    RSH_TRY(check_shards(nshards, shards, ndim));
    rsh_tensor_meta *m = RSHI_NEW(rsh_tensor_meta);
    if (m) m->shards = rshi_alloc((size_t)nshards, sizeof *m->shards);
    if (!m || !m->shards) {
        rshi_free(m);
        return rshi_nomem();
    }
    m->nshards = nshards;
    if (nshards) memcpy(m->shards, shards, (size_t)nshards * sizeof *shards);
    m->ndim = ndim;
    if (ndim) memcpy(m->size, size, (size_t)ndim * sizeof *size);
    m->props = *props;
    *out = m;
    return RSH_OK;
}

rsh_status rsh_tensor_meta_copy(const rsh_tensor_meta *m, rsh_tensor_meta **out) {
    RSH_REQUIRE(m, RSH_EVALUE, "cannot copy metadata: it is NULL");
    return rsh_tensor_meta_new(m->nshards, m->shards, m->ndim, m->size, &m->props, out);
}

void rsh_tensor_meta_free(rsh_tensor_meta *m) {
    if (!m) return;
    rshi_free(m->shards);
    rshi_free(m);
}

/* ---- comparing ---- */

static bool same_whole(const rsh_tensor_meta *a, const rsh_tensor_meta *b) {
    if (!a || !b || a->ndim != b->ndim || !rsh_tensor_props_equal(&a->props, &b->props)) return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->size[d] != b->size[d]) return false;
    return true;
}

bool rsh_tensor_meta_equal(const rsh_tensor_meta *a, const rsh_tensor_meta *b) {
    if (!same_whole(a, b) || a->nshards != b->nshards) return false;
    for (int64_t i = 0; i < a->nshards; i++)
        if (!rsh_shard_meta_equal(&a->shards[i], &b->shards[i])) return false;
    return true;
}

static int compare_numbers(int64_t a, int64_t b) { return a < b ? -1 : a > b; }

static int compare_placements(const rsh_remote_device *a, const rsh_remote_device *b) {
    int c = compare_numbers(a->rank, b->rank);
    if (!c) c = compare_numbers(a->device.type, b->device.type);
    if (!c) c = compare_numbers(a->device.index, b->device.index);
    return c ? c : strncmp(a->worker, b->worker, RSH_WORKER_TEXT);
}

/* Compares shards in a total order.  The arguments are pointers to pointers. */
static int compare_shards(const void *x, const void *y) {
    const rsh_shard_meta *a = *(const rsh_shard_meta *const *)x, *b = *(const rsh_shard_meta *const *)y;
    int c = compare_numbers(a->ndim, b->ndim);
    for (int d = 0; d < a->ndim && !c; d++) c = compare_numbers(a->offsets[d], b->offsets[d]);
    for (int d = 0; d < a->ndim && !c; d++) c = compare_numbers(a->sizes[d], b->sizes[d]);
    if (!c) c = compare_numbers(a->has_placement, b->has_placement);
    return c || !a->has_placement ? c : compare_placements(&a->placement, &b->placement);
}

/* Returns the first nonempty shard from i on; if there is none, nshards. */
static int64_t next_full(const rsh_tensor_meta *m, int64_t i) {
    while (i < m->nshards && rshi_shard_empty(&m->shards[i])) i++;
    return i;
}

static bool same_in_order(const rsh_tensor_meta *a, const rsh_tensor_meta *b) {
    int64_t i = next_full(a, 0), j = next_full(b, 0);
    while (i < a->nshards && j < b->nshards && rsh_shard_meta_equal(&a->shards[i], &b->shards[j])) {
        i = next_full(a, i + 1);
        j = next_full(b, j + 1);
    }
    return i == a->nshards && j == b->nshards;
}

/* Returns the nonempty shards in sorted order, and their number; NULL if memory runs out. */
static const rsh_shard_meta **sorted_shards(const rsh_tensor_meta *m, int64_t *n) {
    const rsh_shard_meta **list = rshi_alloc((size_t)m->nshards, sizeof *list);
    if (!list) return NULL;
    *n = 0;
    for (int64_t i = next_full(m, 0); i < m->nshards; i = next_full(m, i + 1)) list[(*n)++] = &m->shards[i];
    qsort(list, (size_t)*n, sizeof *list, compare_shards);
    return list;
}

static int64_t count_equal(const rsh_tensor_meta *m, const rsh_shard_meta *shard) {
    int64_t n = 0;
    for (int64_t i = 0; i < m->nshards; i++) n += rsh_shard_meta_equal(&m->shards[i], shard);
    return n;
}

/* Compares how often each shard is in both lists: slow, but needs no memory. */
static bool same_counts(const rsh_tensor_meta *a, const rsh_tensor_meta *b) {
    for (int side = 0; side < 2; side++) {
        const rsh_tensor_meta *m = side ? b : a;
        for (int64_t i = next_full(m, 0); i < m->nshards; i = next_full(m, i + 1))
            if (count_equal(a, &m->shards[i]) != count_equal(b, &m->shards[i])) return false;
    }
    return true;
}

static bool same_sorted(const rsh_tensor_meta *a, const rsh_tensor_meta *b) {
    int64_t na = 0, nb = 0;
    const rsh_shard_meta **x = sorted_shards(a, &na), **y = x ? sorted_shards(b, &nb) : NULL;
    bool same = na == nb;
    if (!y) same = same_counts(a, b);
    for (int64_t i = 0; y && same && i < na; i++) same = !compare_shards(&x[i], &y[i]);
    rshi_free(x);
    rshi_free(y);
    return same;
}

bool rsh_tensor_meta_same(const rsh_tensor_meta *a, const rsh_tensor_meta *b) {
    return same_whole(a, b) && (same_in_order(a, b) || same_sorted(a, b));
}
