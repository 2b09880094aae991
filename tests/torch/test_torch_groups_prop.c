/* Random tensors of 0 to 4 dims in random groups: cut, resharded, gathered into memory with any strides, saved in one
 * group and loaded in another of a different size; and random numbers that are reduced and cut.  Every step is compared
 * with the oracle on whole tensors. */
#include "kept.h"
#include "whole.h"

enum { MOST_ELEMENTS = 600 };

static int64_t below(uint64_t *seed, int64_t n) { return (int64_t)(draw(seed) % (uint64_t)n); }

/* ---- random choices, the same on every rank ---- */

typedef struct members {
    int n, ranks[8]; /* ascending ranks */
    rsh_group *group;
} members;

static rsh_status random_group(uint64_t *seed, int world, members *m) {
    int mixed[8];
    *m = (members){.n = 0};
    for (int r = 0; r < world; r++)
        if (below(seed, 3)) m->ranks[m->n++] = r;
    if (!m->n) m->ranks[m->n++] = (int)below(seed, world);
    for (int i = 0; i < m->n; i++) mixed[i] = m->ranks[m->n - 1 - i];
    return rsh_group_new(m->n, mixed, &m->group);
}

static void random_shape(uint64_t *seed, cutting *whole) {
    int64_t n;
    do {
        n = 1;
        whole->ndim = (int)below(seed, 5);
        for (int d = 0; d < whole->ndim; d++) n *= whole->size[d] = below(seed, 10);
    } while (n > MOST_ELEMENTS);
}

/* Halves pieces at random places; a tensor without dims stays one piece. */
static void random_pieces(uint64_t *seed, int ranks, cutting *c) {
    c->npieces = 1;
    c->pieces[0] = (piece){.rank = (int)below(seed, ranks)};
    memcpy(c->pieces[0].n, c->size, sizeof c->size);
    for (int64_t k = c->ndim ? below(seed, 9) : 0; k--;) {
        piece *p = &c->pieces[below(seed, c->npieces)], *q = &c->pieces[c->npieces++];
        int d = (int)below(seed, c->ndim);
        int64_t at = below(seed, p->n[d] + 1);
        *q = *p;
        q->lo[d] += at, q->n[d] -= at, p->n[d] = at;
        q->rank = (int)below(seed, ranks);
    }
}

static rsh_status random_spec(uint64_t *seed, const cutting *whole, int ranks, cutting *c, rsh_spec **out) {
    *c = *whole;
    if (!whole->ndim || below(seed, 2)) {
        random_pieces(seed, ranks, c);
        return boxes_spec(c, out);
    }
    int n = 1 + (int)below(seed, 2 * ranks), owners[16], dim = (int)below(seed, whole->ndim);
    for (int i = 0; i < n; i++) owners[i] = (int)below(seed, ranks);
    *c = cut_chunks(whole->dtype, whole->ndim, whole->size, dim, n, owners);
    return rsh_spec_chunk_ranks(dim, n, owners, out);
}

/* ---- one group ---- */

/* Gathers into a tensor whose dims are in reverse order in memory. */
static rsh_status check_gather(const rsh_torch_tensor *t, const cutting *c, int dst, int me) {
    int64_t strides[RSH_MAX_NDIM], n = 1;
    rsh_tensor *room = NULL, *out = NULL, *dense = NULL;
    for (int d = 0; d < c->ndim; d++) strides[d] = n, n *= c->size[d] + 1;
    if (me == dst) {
        RSH_TRY(rsh_tensor_zeros(c->dtype, 1, &n, &room));
        RSH_TRY(rsh_tensor_view(room, 0, c->ndim, c->size, strides, &out));
    }
    RSH_TRY(rsh_torch_gather(t, dst, out));
    if (out) {
        piece all = {.rank = 0};
        memcpy(all.n, c->size, sizeof all.n);
        RSH_TRY(rsh_tensor_empty(c->dtype, c->ndim, c->size, &dense));
        size_t item = rsh_dtype_size(c->dtype);
        for (int64_t i = 0, left; i < rsh_tensor_count(dense); i++) {
            int64_t at = 0;
            left = i;
            for (int d = c->ndim - 1; d >= 0; d--) at += left % c->size[d] * strides[d], left /= c->size[d];
            memcpy((char *)rsh_tensor_data(dense) + (size_t)i * item, (char *)rsh_tensor_data(room) + (size_t)at * item,
                   item);
        }
        CHECK(!walk_box(c, &all, rsh_tensor_data(dense), false));
    }
    rsh_tensor_free(dense), rsh_tensor_free(out), rsh_tensor_free(room);
    return RSH_OK;
}

/* Cuts, reshards and gathers; then saves the state of a member. */
static rsh_status move_around(const members *m, const cutting *whole, const cutting c[2], rsh_spec *const spec[2],
                              int src, int dst, bytes *state) {
    int me = rsh_group_rank(m->group);
    rsh_tensor *x;
    rsh_torch_tensor *a, *b, *copy;
    bool same;
    RSH_TRY(make_whole(whole, &x));
    if (me != src && rsh_tensor_count(x))
        memset(rsh_tensor_data(x), 0, (size_t)rsh_tensor_count(x) * rsh_dtype_size(whole->dtype));
    RSH_TRY(rsh_torch_scatter(x, spec[0], src, m->group, NULL, &a));
    RSH_TRY(check_st(a, &c[0], me));
    RSH_TRY(rsh_torch_reshard(a, spec[1], &b));
    RSH_TRY(check_st(b, &c[1], me));
    RSH_TRY(check_gather(b, whole, dst, me));
    RSH_TRY(rsh_torch_clone(b, &copy));
    RSH_TRY(rsh_torch_equal(b, copy, &same));
    CHECK(same || whole->dtype >= RSH_F16); /* random bytes may be NaN */
    RSH_TRY(rsh_torch_save(b, &(rsh_sink){keep, state}));
    rsh_torch_free(a), rsh_torch_free(b), rsh_torch_free(copy);
    rsh_tensor_free(x);
    return RSH_OK;
}

/* ---- from group to group ---- */

/* Loads the states of the first group in the second: state i goes to member i, modulo the size of the group, and some
 * states also go to another member. */
static rsh_status load(const members *from, const members *to, const rsh_objects *all, const cutting *c,
                       const rsh_spec *spec) {
    const void *data[8];
    size_t n[8];
    int me = rsh_group_rank(to->group), k = 0;
    rsh_torch_tensor *t;
    for (int i = 0; i < from->n; i++)
        if (i % to->n == me || (i + 1) % (to->n + 1) == me)
            data[k] = all->data[from->ranks[i]], n[k++] = all->bytes[from->ranks[i]];
    RSH_TRY(rsh_group_enter(to->group));
    rsh_status st = rsh_torch_load_resharded(k, data, n, spec, &t);
    rsh_group_leave();
    RSH_TRY(st);
    RSH_TRY(check_st(t, c, me));
    rsh_torch_free(t);
    return RSH_OK;
}

static rsh_status one_case(uint64_t seed, rsh_comm *comm) {
    members m[2];
    cutting whole = {.dtype = (rsh_dtype)below(&seed, RSH_NDTYPES)}, c[3];
    rsh_spec *spec[3];
    bytes state = {NULL, 0};
    rsh_objects *all;
    random_shape(&seed, &whole);
    for (int i = 0; i < 2; i++) RSH_TRY(random_group(&seed, rsh_comm_size(comm), &m[i]));
    for (int i = 0; i < 3; i++) RSH_TRY(random_spec(&seed, &whole, m[i / 2].n, &c[i], &spec[i]));
    int src = (int)below(&seed, m[0].n), dst = (int)below(&seed, m[0].n);
    if (rsh_group_rank(m[0].group) >= 0) RSH_TRY(move_around(&m[0], &whole, c, spec, src, dst, &state));
    RSH_TRY(rsh_group_all_gather_object(NULL, state.data, state.n, &all));
    if (rsh_group_rank(m[1].group) >= 0) RSH_TRY(load(&m[0], &m[1], all, &c[2], spec[2]));
    rsh_objects_free(all);
    free(state.data);
    for (int i = 0; i < 3; i++) rsh_spec_free(spec[i]);
    for (int i = 0; i < 2; i++) rsh_group_free(m[i].group);
    return RSH_OK;
}

/* ---- reductions ---- */

/* Returns what rank r contributes at an index: small numbers, so that nothing overflows. */
static int64_t brought(uint64_t seed, int64_t index, int r) {
    seed ^= (uint64_t)index * 64 + (uint64_t)r;
    return 1 + below(&seed, 3);
}

static int64_t combined(uint64_t seed, int64_t index, int ranks, rsh_op op) {
    int64_t x = brought(seed, index, 0);
    for (int r = 1; r < ranks; r++) {
        int64_t y = brought(seed, index, r);
        switch (op) {
        case RSH_OP_SUM: x += y; break;
        case RSH_OP_PROD: x *= y; break;
        case RSH_OP_MIN: x = y < x ? y : x; break;
        case RSH_OP_MAX: x = y > x ? y : x; break;
        case RSH_OP_BAND: x &= y; break;
        case RSH_OP_BOR: x |= y; break;
        default: x ^= y;
        }
    }
    return x;
}

static void put(rsh_dtype dtype, void *data, int64_t i, int64_t value) {
    if (dtype == RSH_I64) ((int64_t *)data)[i] = value;
    else if (dtype == RSH_F32) ((float *)data)[i] = (float)value;
    else if (dtype == RSH_F64) ((double *)data)[i] = (double)value;
    else ((int16_t *)data)[i] = (int16_t)value;
}

/* Compares the elements of a piece, in row-major order, with those of the whole tensor. */
static rsh_status check_piece(const cutting *c, const piece *p, const char *whole, const char *data) {
    int64_t n = count_of(c, p);
    size_t item = rsh_dtype_size(c->dtype);
    for (int64_t i = 0; i < n; i++) {
        int64_t left = i, index = 0, step = 1;
        for (int d = c->ndim - 1; d >= 0; d--) {
            index += (p->lo[d] + left % p->n[d]) * step;
            left /= p->n[d];
            step *= c->size[d];
        }
        CHECK(!memcmp(data + (size_t)i * item, whole + (size_t)index * item, item));
    }
    return RSH_OK;
}

static rsh_status one_reduction(uint64_t seed, rsh_comm *comm) {
    static const rsh_dtype dtypes[] = {RSH_I64, RSH_I16, RSH_F32, RSH_F64};
    static const rsh_op ops[] = {RSH_OP_SUM, RSH_OP_PROD, RSH_OP_MIN, RSH_OP_MAX, RSH_OP_BAND, RSH_OP_BOR, RSH_OP_BXOR};
    int k = (int)below(&seed, 4), n = rsh_comm_size(comm), me = rsh_comm_rank(comm);
    rsh_op op = ops[below(&seed, k < 2 ? 7 : 4)];
    cutting whole = {.dtype = dtypes[k]}, c;
    rsh_spec *spec;
    rsh_tensor *x, *expected;
    rsh_partial *p;
    rsh_torch_tensor *t;
    random_shape(&seed, &whole);
    RSH_TRY(random_spec(&seed, &whole, n, &c, &spec));
    RSH_TRY(rsh_tensor_empty(whole.dtype, whole.ndim, whole.size, &x));
    RSH_TRY(rsh_tensor_empty(whole.dtype, whole.ndim, whole.size, &expected));
    for (int64_t i = 0; i < rsh_tensor_count(x); i++) {
        put(whole.dtype, rsh_tensor_data(x), i, brought(seed, i, me));
        put(whole.dtype, rsh_tensor_data(expected), i, combined(seed, i, n, op));
    }
    RSH_TRY(rsh_partial_new(x, op, NULL, &p));
    RSH_TRY(rsh_partial_reshard(p, spec, &t));
    RSH_TRY(check_form(t, &c, me));
    for (int i = 0, mine = 0; i < c.npieces; i++)
        if (c.pieces[i].rank == me)
            RSH_TRY(check_piece(&c, &c.pieces[i], rsh_tensor_data(expected),
                                rsh_tensor_data(rsh_torch_shard(t, mine++)->tensor)));
    rsh_torch_free(t);
    rsh_partial_free(p);
    rsh_tensor_free(x), rsh_tensor_free(expected);
    rsh_spec_free(spec);
    return RSH_OK;
}

/* ---- many cases ---- */

typedef struct many {
    uint64_t seed;
    int cases;
    rsh_status (*one)(uint64_t seed, rsh_comm *comm);
} many;

static rsh_status many_cases(void *ctx, rsh_comm *comm) {
    const many *m = ctx;
    for (int i = 0; i < m->cases; i++) {
        rsh_status st = m->one(m->seed + (uint64_t)i, comm);
        if (st) {
            char was[512];
            snprintf(was, sizeof was, "%s", rsh_error_detail());
            return rshi_fail(st, "case %d: %s", i, was);
        }
    }
    return RSH_OK;
}

static void run_many(rsh_status (*one)(uint64_t seed, rsh_comm *comm), uint64_t seed) {
    const char *text = getenv("RESHARD_CASES");
    many m = {seed, text ? atoi(text) : 20, one};
    for (int n = 1; n <= 6; n++) {
        m.seed += 1000003;
        run_engines(n, many_cases, &m);
    }
}

static void tensors_of_one_group_are_cut_moved_saved_and_loaded_in_another(void **state) {
    (void)state;
    run_many(one_case, test_seed(11));
}

static void reducing_and_cutting_is_cutting_what_was_reduced(void **state) {
    (void)state;
    run_many(one_reduction, test_seed(13));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_one_group_are_cut_moved_saved_and_loaded_in_another),
        cmocka_unit_test(reducing_and_cutting_is_cutting_what_was_reduced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
