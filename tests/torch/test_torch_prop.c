/* Random tensors with random specs: cut, resharded twice and gathered; every step is compared with the oracle on whole
 * tensors. */
#include "kept.h"
#include "whole.h"

/* ---- random cuts, the same on every rank ---- */

static int64_t below(uint64_t *seed, int64_t n) { return (int64_t)(draw(seed) % (uint64_t)n); }

/* Splits one piece of the list at a random place of a random dim, or does nothing. */
static void split(cutting *c, uint64_t *seed, int ranks) {
    piece *p = &c->pieces[below(seed, c->npieces)];
    int d = (int)below(seed, c->ndim);
    if (c->npieces == MOST_PIECES) return;
    int64_t at = below(seed, p->n[d] + 1); /* 0 and the full length leave an empty piece */
    piece *q = &c->pieces[c->npieces++];
    *q = *p;
    q->lo[d] += at;
    q->n[d] -= at;
    p->n[d] = at;
    q->rank = (int)below(seed, ranks);
}

static void shuffle(cutting *c, uint64_t *seed) {
    for (int i = c->npieces - 1; i > 0; i--) {
        int k = (int)below(seed, i + 1);
        piece p = c->pieces[i];
        c->pieces[i] = c->pieces[k];
        c->pieces[k] = p;
    }
}

/* A user-defined kind: metadata are exactly the list of pieces, but are created by `build`. */
static rsh_status tiles_build(const void *self, int ndim, const int64_t *size, const rsh_tensor_props *props,
                              rsh_tensor_meta **out) {
    const cutting *c = self;
    rsh_shard_meta list[MOST_PIECES];
    for (int i = 0; i < c->npieces; i++) RSH_TRY(box_meta(c, &c->pieces[i], &list[i]));
    return rsh_tensor_meta_new(c->npieces, list, ndim, size, props, out);
}
static const rsh_spec_kind tiles = {.name = "tiles", .build = tiles_build, .free = free};
static rsh_status tiles_spec(const cutting *c, rsh_spec **out) {
    cutting *own = malloc(sizeof *own);
    memcpy(own, c, sizeof *own);
    return rsh_spec_new(&tiles, own, out);
}

static rsh_status random_spec(const cutting *whole, uint64_t *seed, int ranks, cutting *c, rsh_spec **out) {
    int kind = (int)below(seed, 3);
    if (kind == 0) {
        int n = 1 + (int)below(seed, 2 * ranks), owners[16], dim = (int)below(seed, whole->ndim);
        for (int i = 0; i < n; i++) owners[i] = (int)below(seed, ranks);
        *c = cut_chunks(whole->dtype, whole->ndim, whole->size, dim, n, owners);
        return rsh_spec_chunk_ranks(below(seed, 2) ? dim : dim - whole->ndim, n, owners, out);
    }
    *c = *whole;
    c->npieces = 1;
    c->pieces[0] = (piece){.rank = (int)below(seed, ranks)};
    memcpy(c->pieces[0].n, whole->size, sizeof whole->size);
    for (int64_t k = below(seed, 8); k--;) split(c, seed, ranks);
    shuffle(c, seed);
    return kind == 1 ? boxes_spec(c, out) : tiles_spec(c, out);
}

static rsh_status check_gather(const rsh_torch_tensor *t, const cutting *c, int dst, rsh_comm *comm) {
    rsh_tensor *whole = NULL;
    if (rsh_comm_rank(comm) == dst) RSH_TRY(rsh_tensor_empty(c->dtype, c->ndim, c->size, &whole));
    RSH_TRY(rsh_torch_gather(t, dst, whole));
    if (whole) RSH_TRY(check_whole(c, whole));
    rsh_tensor_free(whole);
    return RSH_OK;
}

/* Creates a tensor from the pieces of this rank as shards, the last one first, with an inferred spec; gathers it. */
static rsh_status from_pieces(const cutting *c, int dst, rsh_comm *comm) {
    rsh_shard list[MOST_PIECES] = {{0}};
    int n = 0;
    rsh_torch_tensor *t;
    for (int i = c->npieces - 1; i >= 0; i--) {
        rsh_tensor *x;
        if (c->pieces[i].rank != rsh_comm_rank(comm)) continue;
        RSH_TRY(rsh_tensor_empty(c->dtype, c->ndim, c->pieces[i].n, &x));
        walk_box(c, &c->pieces[i], rsh_tensor_data(x), true);
        RSH_TRY(rsh_shard_from_tensor(x, c->ndim, c->pieces[i].lo, c->pieces[i].rank, &list[n++]));
        rsh_tensor_free(x);
    }
    RSH_TRY(rsh_torch_from_shards(n, list, c->ndim, c->size, NULL, &t));
    CHECK(rsh_torch_nshards(t) == n && rsh_torch_meta(t)->nshards == c->npieces);
    RSH_TRY(check_gather(t, c, dst, comm));
    rsh_torch_free(t);
    for (int i = 0; i < n; i++) rsh_shard_clear(&list[i]);
    return RSH_OK;
}

/* Saves, passes each state to the next rank, and loads with another spec. */
static rsh_status save_and_load(const rsh_torch_tensor *t, const rsh_spec *to, const cutting *c, rsh_comm *comm) {
    int me = rsh_comm_rank(comm), n = rsh_comm_size(comm);
    bytes b = {NULL, 0};
    rsh_objects *all;
    rsh_torch_tensor *back;
    RSH_TRY(rsh_torch_save(t, &(rsh_sink){keep, &b}));
    RSH_TRY(rsh_group_all_gather_object(NULL, b.data, b.n, &all));
    const void *next = all->data[(me + 1) % n];
    RSH_TRY(rsh_torch_load_resharded(1, &next, &all->bytes[(me + 1) % n], to, &back));
    RSH_TRY(check_st(back, c, me));
    rsh_torch_free(back);
    rsh_objects_free(all);
    free(b.data);
    return RSH_OK;
}

static rsh_status one_case(uint64_t seed, rsh_comm *comm) {
    int n = rsh_comm_size(comm), me = rsh_comm_rank(comm);
    cutting whole = {.dtype = (rsh_dtype)below(&seed, RSH_NDTYPES), .ndim = 1 + (int)below(&seed, 3)}, c[3];
    rsh_spec *spec[3];
    rsh_tensor *x;
    rsh_torch_tensor *t[3], *into;
    rsh_torch_opts o = RSH_TORCH_OPTS_INIT;
    for (int d = 0; d < whole.ndim; d++) whole.size[d] = below(&seed, 2 * n + 2);
    for (int i = 0; i < 3; i++) RSH_TRY(random_spec(&whole, &seed, n, &c[i], &spec[i]));
    int src = (int)below(&seed, n), dst = (int)below(&seed, n);
    RSH_TRY(make_whole(&whole, &x));
    RSH_TRY(rsh_torch_scatter(x, spec[0], src, NULL, NULL, &t[0]));
    rsh_tensor_free(x);
    RSH_TRY(check_st(t[0], &c[0], me));
    RSH_TRY(rsh_torch_reshard(t[0], spec[1], &t[1]));
    RSH_TRY(check_st(t[1], &c[1], me));
    RSH_TRY(rsh_torch_reshard(t[1], spec[2], &t[2]));
    RSH_TRY(check_st(t[2], &c[2], me));
    RSH_TRY(check_gather(t[2], &c[2], dst, comm));
    o.props.dtype = whole.dtype;
    RSH_TRY(rsh_torch_empty(spec[0], whole.ndim, whole.size, &o, &into));
    RSH_TRY(rsh_torch_reshard_into(t[2], into));
    RSH_TRY(check_st(into, &c[0], me));
    RSH_TRY(check_st(t[0], &c[0], me));
    RSH_TRY(from_pieces(&c[1], dst, comm));
    RSH_TRY(save_and_load(t[1], spec[2], &c[2], comm));
    rsh_torch_free(into);
    for (int i = 0; i < 3; i++) {
        rsh_torch_free(t[i]);
        rsh_spec_free(spec[i]);
    }
    return RSH_OK;
}

typedef struct many {
    uint64_t seed;
    int cases;
} many;

static rsh_status many_cases(void *ctx, rsh_comm *comm) {
    const many *m = ctx;
    for (int i = 0; i < m->cases; i++) {
        rsh_status st = one_case(m->seed + (uint64_t)i, comm);
        if (st) {
            char was[512];
            snprintf(was, sizeof was, "%s", rsh_error_detail());
            return rshi_fail(st, "case %d: %s", i, was);
        }
    }
    return RSH_OK;
}

static void any_spec_to_any_spec_and_gather_gives_the_tensor_back(void **state) {
    (void)state;
    const char *text = getenv("RESHARD_CASES");
    many m = {test_seed(7), text ? atoi(text) : 25};
    for (int n = 1; n <= 5; n++) {
        m.seed += 1000003;
        run_engines(n, many_cases, &m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_spec_to_any_spec_and_gather_gives_the_tensor_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
