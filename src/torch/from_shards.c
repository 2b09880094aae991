/* From shards: creates a sharded tensor from the shards of all ranks, after comparing them. */
#include "torch/impl.h"

#include <stdlib.h>
#include <string.h>

/* The record that a rank sends about itself, followed by the metadata of its shards. */
typedef struct account {
    int64_t nshards;
    int32_t ndim;
    int64_t size[RSH_MAX_NDIM]; /* size of the whole tensor; -1: to be computed */
    rsh_tensor_props props;     /* properties of the rank's shards, if it has any */
} account;

/* ---- checks of this rank alone ---- */

static rsh_status check_shard(const rsh_shard *s, int64_t i, int rank) {
    long long n = (long long)i;
    RSH_REQUIRE(s->meta.has_placement, RSH_EVALUE, "shard %lld has no placement; give it a rank of the group", n);
    RSH_REQUIRE(s->meta.placement.rank == rank, RSH_EVALUE, "shard %lld is placed on rank %d, but this is rank %d", n,
                s->meta.placement.rank, rank);
    RSH_TRY(rshi_shard_check(s, i));
    RSH_REQUIRE(s->meta.placement.device.type == RSH_DEVICE_CPU, RSH_EVALUE,
                "shard %lld is in CPU memory, but its placement names another device", n);
    RSH_REQUIRE(rsh_tensor_ndim(s->tensor) == s->meta.ndim &&
                    !memcmp(rsh_tensor_shape(s->tensor), s->meta.sizes, (size_t)s->meta.ndim * sizeof *s->meta.sizes),
                RSH_EVALUE, "shard %lld does not match its metadata: the tensor's shape differs", n);
    return RSH_OK;
}

/* Returns the name of a property that differs; NULL: none. */
static const char *find_difference(const rsh_tensor_props *a, const rsh_tensor_props *b) {
    if (a->dtype != b->dtype) return "dtype";
    if (a->requires_grad != b->requires_grad) return "requires_grad";
    if (a->pin_memory != b->pin_memory) return "pin_memory";
    return a->memory_format != b->memory_format ? "memory_format" : NULL;
}

static rsh_status check_own(int64_t n, const rsh_shard *shards, int ndim, const int64_t *size, int rank) {
    RSH_REQUIRE(n >= 0 && (!n || shards), RSH_EVALUE, "the number of shards must not be negative, nor their list "
                                                      "NULL; got %lld shards%s", (long long)n,
                shards ? "" : " (NULL)");
    RSH_REQUIRE(size, RSH_EVALUE, "global size is NULL");
    RSH_REQUIRE(ndim >= 0 && ndim <= RSH_MAX_NDIM, RSH_EVALUE, "cannot have %d dims: expected 0 to %d", ndim,
                RSH_MAX_NDIM);
    for (int d = 0; d < ndim; d++)
        RSH_REQUIRE(size[d] >= -1, RSH_EVALUE, "global size must be at least -1 (-1: compute it), got %lld for dim "
                                               "%d",
                    (long long)size[d], d);
    for (int64_t i = 0; i < n; i++) RSH_TRY(check_shard(&shards[i], i, rank));
    for (int64_t i = 1; i < n; i++) {
        const char *what = find_difference(&shards[0].props, &shards[i].props);
        RSH_REQUIRE(!what, RSH_EVALUE, "shards must agree: shards 0 and %lld of rank %d differ in %s", (long long)i,
                    rank, what);
    }
    return RSH_OK;
}

static rsh_status write_account(int64_t n, const rsh_shard *shards, int ndim, const int64_t *size, char **out,
                                size_t *bytes) {
    *bytes = sizeof(account) + (size_t)n * sizeof(rsh_shard_meta);
    char *data = rshi_calloc(*bytes, 1);
    if (!data) return rshi_nomem();
    account *a = (account *)data;
    a->nshards = n;
    a->ndim = ndim;
    if (ndim) memcpy(a->size, size, (size_t)ndim * sizeof *size);
    if (n) a->props = shards[0].props;
    for (int64_t i = 0; i < n; i++) ((rsh_shard_meta *)(data + sizeof *a))[i] = shards[i].meta;
    *out = data;
    return RSH_OK;
}

/* ---- all ranks together, with the same result on each ---- */

static const account *account_of(const rsh_objects *o, int rank) { return o->data[rank]; }
static const rsh_shard_meta *shards_of(const rsh_objects *o, int rank) {
    return (const rsh_shard_meta *)((const char *)o->data[rank] + sizeof(account));
}

static rsh_status compare_accounts(const rsh_objects *o) {
    int first = -1; /* the first rank that has shards */
    const account *zero = account_of(o, 0);
    for (int r = 0; r < o->n; r++) {
        const account *a = account_of(o, r);
        RSH_REQUIRE(a->ndim == zero->ndim && !memcmp(a->size, zero->size, sizeof a->size), RSH_EVALUE,
                    "ranks must give the same global size: ranks 0 and %d differ", r);
        if (!a->nshards) continue;
        if (first < 0) first = r;
        const char *what = find_difference(&account_of(o, first)->props, &a->props);
        RSH_REQUIRE(!what, RSH_EVALUE, "shards must agree: those of ranks %d and %d differ in %s", first, r, what);
    }
    RSH_REQUIRE(first >= 0, RSH_EVALUE, "at least one rank must have a shard");
    return RSH_OK;
}

/* The whole tensor, from the data of all ranks. */
typedef struct whole {
    int64_t n;
    rsh_shard_meta *shards; /* owned: all shards by rank, then in the order in which each rank passed them */
    int ndim;
    int64_t size[RSH_MAX_NDIM];
    rsh_tensor_props props;
} whole;

static rsh_status collect_shards(const rsh_objects *o, whole *w) {
    const account *zero = account_of(o, 0);
    for (int r = 0; r < o->n; r++) w->n += account_of(o, r)->nshards;
    w->shards = rshi_alloc((size_t)w->n, sizeof *w->shards);
    if (!w->shards) return rshi_nomem();
    w->ndim = zero->ndim;
    memcpy(w->size, zero->size, sizeof w->size);
    int64_t k = 0;
    for (int r = o->n - 1; r >= 0; r--)
        if (account_of(o, r)->nshards) w->props = account_of(o, r)->props;
    for (int r = 0; r < o->n; r++)
        for (int64_t i = 0; i < account_of(o, r)->nshards; i++) w->shards[k++] = shards_of(o, r)[i];
    return RSH_OK;
}

static bool is_open(const whole *w) {
    for (int d = 0; d < w->ndim; d++)
        if (w->size[d] < 0) return true;
    return false;
}

/* Checks that sizes that the caller gave match the computed ones. */
static rsh_status check_given_size(const account *given, const whole *w) {
    for (int d = 0; d < w->ndim; d++)
        RSH_REQUIRE(given->size[d] < 0 || given->size[d] == w->size[d], RSH_EVALUE,
                    "global size is %lld along dim %d, but the shards have %lld together", (long long)given->size[d], d,
                    (long long)w->size[d]);
    return RSH_OK;
}

/* Computes size and offsets if each rank has one shard: the shards are stacked along dim 0 in rank order. */
static rsh_status stack_shards(const rsh_objects *o, whole *w) {
    for (int r = 0; r < o->n; r++)
        RSH_REQUIRE(account_of(o, r)->nshards == 1, RSH_EVALUE,
                    "computing the global size requires exactly one shard on every rank, but rank %d has %lld", r,
                    (long long)account_of(o, r)->nshards);
    RSH_REQUIRE(w->shards[0].ndim == w->ndim, RSH_EVALUE,
            "shards have %d dims, but the tensor has %d", w->shards[0].ndim,
                w->ndim);
    memcpy(w->size, w->shards[0].sizes, sizeof w->size);
    w->size[0] = 0;
    for (int64_t i = 0; i < w->n; i++) {
        memset(w->shards[i].offsets, 0, sizeof w->shards[i].offsets);
        w->shards[i].offsets[0] = w->size[0];
        RSH_REQUIRE(w->shards[i].ndim == w->ndim && rshi_add(w->size[0], w->shards[i].sizes[0], &w->size[0]),
                    RSH_EVALUE, "the shard of rank %lld does not match the others in its number of dims or its size",
                    (long long)i);
    }
    return check_given_size(account_of(o, 0), w);
}

/* Adopts the rank's shards with the computed offsets. */
static rsh_status adopt_shards(const rshi_outline *o, int64_t n, const rsh_shard *shards, const whole *w, bool stacked,
                               rsh_torch_tensor **out) {
    if (!stacked || !n) return rshi_torch_adopt(o, n, shards, out);
    rsh_shard placed = shards[0];
    placed.meta = w->shards[o->comm->rank];
    return rshi_torch_adopt(o, 1, &placed, out);
}

static rsh_status build_tensor(const rsh_objects *all, int64_t n, const rsh_shard *shards, rsh_group *group, whole *w,
                               rsh_torch_tensor **out) {
    rsh_spec *spec = NULL;
    rshi_outline o = {.spec = NULL};
    rsh_status st;
    RSH_TRY(compare_accounts(all));
    RSH_TRY(collect_shards(all, w));
    bool stacked = is_open(w);
    if (stacked) RSH_TRY(stack_shards(all, w));
    RSH_TRY(rshi_shards_check(w->n, w->shards, w->ndim, w->size));
    RSH_TRY(rsh_spec_infer(w->n, w->shards, &spec));
    RSH_GOTO(rshi_outline_make(spec, w->ndim, w->size, &w->props, group, &o));
    RSH_GOTO(adopt_shards(&o, n, shards, w, stacked, out));
out:
    rshi_outline_clear(&o);
    rsh_spec_free(spec);
    return st;
}

rsh_status rsh_torch_from_shards(int64_t n, const rsh_shard *shards, int ndim, const int64_t *size, rsh_group *group,
                              rsh_torch_tensor **out) {
    rsh_comm *comm;
    char *mine = NULL;
    size_t bytes = 0;
    rsh_objects *all = NULL;
    rsh_torch_tensor *t = NULL;
    whole w = {0};
    RSH_TRY(rshi_group_take(group, &group, &comm));
    rsh_status st = out ? check_own(n, shards, ndim, size, comm->rank)
                        : rshi_fail(RSH_EVALUE, "rsh_torch_from_shards: out is NULL");
    if (!st) st = write_account(n, shards, ndim, size, &mine, &bytes);
    RSH_GOTO(rshi_comm_open(comm, "torch_from_shards", 0, NULL, st));
    RSH_GOTO(rsh_group_all_gather_object(group, mine, bytes, &all));
    st = build_tensor(all, n, shards, group, &w, &t);
    RSH_GOTO(rshi_comm_open(comm, "torch_from_shards: result", 0, NULL, st));
    *out = t;
    t = NULL;
out:
    rsh_torch_free(t);
    rshi_free(w.shards);
    rsh_objects_free(all);
    rshi_free(mine);
    return st;
}
