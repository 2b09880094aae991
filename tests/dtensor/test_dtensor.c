/* DTensor: redistribution on meshes of one to three dims compared with whole tensors, gradients, and DTensors made from
 * parts. */
#include <inttypes.h>

#include "wholes.h"

/* Makes a DTensor of the numbers.  If a placement is partial, uses from_local, because every rank then contributes the
 * whole tensor. */
static rsh_status spread(rsh_mesh *m, const rsh_place *places, int ndim, const int64_t *shape, rsh_value **leaf,
                         rsh_value **out, double *times) {
    rsh_place start[RSH_MAX_AXES];
    int n = rsh_mesh_ndim(m);
    rsh_value *first = NULL;
    *times = 1;
    for (int i = 0; i < n; i++) {
        start[i] = places[i].kind == RSH_PLACE_PARTIAL ? places[i] : rsh_place_replicate();
        if (places[i].kind == RSH_PLACE_PARTIAL) *times *= (double)rsh_mesh_dim_size(m, i);
    }
    RSH_TRY(local_whole(RSH_F64, ndim, shape, leaf));
    RSH_TRY(rsh_dtensor_from_local(*leaf, m, n, start, NULL, &first));
    rsh_status st = rsh_dtensor_redistribute(first, n, places, RSH_DTYPE_NONE, out);
    rsh_value_free(first);
    return st;
}

/* ---- every placement to every placement ---- */

typedef struct sweep {
    int ndim; /* number of dims of the mesh */
    int64_t shape[3];
    uint64_t seed;
    int tenth; /* one pair in so many is drawn */
    bool all_sizes;
} sweep;

static rsh_place place_of(int number) {
    return number == 0   ? rsh_place_replicate()
           : number == 3 ? rsh_place_partial(RSH_OP_SUM)
                         : rsh_place_shard(number - 1);
}

/* Converts digit i of the number, in base `base`, to a placement. */
static void places_of(int n, int number, int base, rsh_place *out) {
    for (int i = 0; i < n; i++, number /= base) out[i] = place_of(number % base);
}

/* Checks one pair: from, to, the whole tensor again, and the gradient of the sum, which is 1 everywhere. */
static rsh_status one_pair(rsh_mesh *m, const rsh_place *from, const rsh_place *to, const int64_t *size) {
    rsh_value *leaf = NULL, *a = NULL, *b = NULL, *whole = NULL, *seed = NULL;
    double times;
    int n = rsh_mesh_ndim(m);
    rsh_place now[3];
    RSH_TRY(spread(m, from, 2, size, &leaf, &a, &times));
    RSH_TRY(rsh_dtensor_redistribute(a, n, to, RSH_DTYPE_NONE, &b));
    RSH_TRY(rsh_dtensor_places(b, now));
    CHECK(rsh_places_equal(2, n, now, to));
    RSH_TRY(holds(b, times));
    RSH_TRY(rsh_dtensor_full_tensor(b, NULL, &whole));
    for (int64_t i = 0; i < size[0] * size[1]; i++) CHECK(at(rsh_value_tensor(whole), i) == times * (double)(i + 1));
    rsh_tensor *ones = NULL;
    RSH_TRY(make_whole(RSH_F64, 2, size, &ones));
    RSH_TRY(rsh_value_adopt_tensor(ones, false, &seed));
    RSH_TRY(rsh_backward(whole, seed, 0)); /* the gradient of element i is i + 1, on every rank's own copy */
    CHECK(rsh_value_grad(leaf));
    for (int64_t i = 0; i < size[0] * size[1]; i++)
        CHECK(at(rsh_value_tensor(rsh_value_grad(leaf)), i) == (double)(i + 1));
    rsh_value_free(leaf), rsh_value_free(a), rsh_value_free(b), rsh_value_free(whole), rsh_value_free(seed);
    return RSH_OK;
}

/* Tests a random size from 1 to 9, or all of them. */
static rsh_status sweep_sizes(rsh_mesh *m, const rsh_place *from, const rsh_place *to, const sweep *s, uint64_t *rng) {
    int64_t size[2] = {1 + (int64_t)(draw(rng) % 9), 1 + (int64_t)(draw(rng) % 9)};
    if (!s->all_sizes) return draw(rng) % (uint64_t)s->tenth ? RSH_OK : one_pair(m, from, to, size);
    for (size[0] = 1; size[0] <= 9; size[0]++)
        for (size[1] = 1; size[1] <= 9; size[1]++) RSH_TRY(one_pair(m, from, to, size));
    return RSH_OK;
}

static rsh_status sweep_pairs(void *ctx, rsh_comm *c) {
    const sweep *s = ctx;
    rsh_mesh *m = NULL;
    uint64_t rng = s->seed;
    int froms = 1, tos = 1;
    RSH_TRY(rsh_mesh_new(c, s->ndim, s->shape, NULL, NULL, &m));
    for (int i = 0; i < s->ndim; i++) froms *= 4, tos *= 3;
    for (int f = 0; f < froms; f++)
        for (int t = 0; t < tos; t++) {
            rsh_place from[3], to[3];
            places_of(s->ndim, f, 4, from);
            places_of(s->ndim, t, 3, to);
            RSH_TRY(sweep_sizes(m, from, to, s, &rng));
        }
    rsh_mesh_free(m);
    return RSH_OK;
}

/* Tests a random tenth of all pairs, fewer over wires; with RESHARD_ALL every pair, on threads in every size. */
static void every_placement_goes_to_every_other(void **state) {
    (void)state;
    sweep s[] = {{1, {4}, 0, 1, false}, {2, {2, 2}, 0, 2, false}, {2, {4, 2}, 0, 10, false},
                 {3, {2, 2, 2}, 0, 10, false}};
    uint64_t seed = test_seed(USUAL_SEED);
    bool all = getenv("RESHARD_ALL") != NULL;
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) {
        s[i].seed = seed + i;
        if (here->wire) s[i].tenth *= 4;
        if (all) s[i].tenth = 1;
        s[i].all_sizes = all && !here->wire;
        int n = 1;
        for (int d = 0; d < s[i].ndim; d++) n *= (int)s[i].shape[d];
        run_ranks(n, sweep_pairs, &s[i]);
    }
}

/* Tests every pair on 4x2 in one size; over wires a random quarter of them. */
static rsh_status d13(void *ctx, rsh_comm *c) {
    uint64_t rng = *(uint64_t *)ctx;
    rsh_mesh *m = NULL;
    RSH_TRY(rsh_mesh_new(c, 2, (const int64_t[]){4, 2}, NULL, NULL, &m));
    for (int i = 0; i < 16 * 9; i++) {
        rsh_place from[2], to[2];
        places_of(2, i % 16, 4, from);
        places_of(2, i / 16, 3, to);
        if (!here->wire || draw(&rng) % 4 == 0) RSH_TRY(one_pair(m, from, to, (const int64_t[]){16, 24}));
    }
    rsh_mesh_free(m);
    return RSH_OK;
}
static void D13_every_placement_on_a_mesh_of_4_by_2(void **state) {
    (void)state;
    uint64_t seed = test_seed(USUAL_SEED);
    run_ranks(8, d13, &seed);
}

/* ---- the scenarios ---- */

static const int64_t sizes[6][2] = {{12, 3}, {13, 3}, {14, 3}, {3, 12}, {3, 13}, {3, 14}};

/* Moves a leaf with these placements; the gradient of ones must come back with the leaf's placements. */
static rsh_status there_and_back(rsh_mesh *m, rsh_place from, rsh_place to, const int64_t *size) {
    rsh_tensor *t = NULL;
    rsh_value *leaf = NULL, *moved = NULL, *seed = NULL;
    RSH_TRY(make_whole(RSH_F32, 2, size, &t));
    RSH_TRY(rsh_dtensor_distribute(t, true, m, 1, &from, 0, &leaf));
    RSH_TRY(holds(leaf, 1));
    RSH_TRY(rsh_dtensor_redistribute(leaf, 1, &to, RSH_DTYPE_NONE, &moved));
    RSH_TRY(holds(moved, 1));
    RSH_TRY(rsh_dtensor_full(m, 1, &to, RSH_F32, 2, size, 1, &seed));
    RSH_TRY(rsh_backward(moved, seed, 0));
    RSH_TRY(gradient_has(rsh_value_grad(leaf), &from, 1));
    rsh_tensor_free(t);
    rsh_value_free(leaf), rsh_value_free(moved), rsh_value_free(seed);
    return RSH_OK;
}

static rsh_status d1_to_d3(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){4}, NULL, NULL, &m));
    for (int i = 0; i < 6; i++) {
        rsh_place shard = rsh_place_shard(i / 3), whole = rsh_place_replicate();
        RSH_TRY(there_and_back(m, shard, whole, sizes[i])); /* D1 */
        RSH_TRY(there_and_back(m, whole, whole, sizes[i])); /* D2 */
        RSH_TRY(there_and_back(m, whole, shard, sizes[i])); /* D3 */
    }
    rsh_mesh_free(m);
    return RSH_OK;
}
static void D1_D2_D3_shards_and_replicas(void **state) {
    (void)state;
    run_ranks(4, d1_to_d3, NULL);
}

static rsh_status d4_d6(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){4}, NULL, NULL, &m));
    for (int i = 0; i < 6; i++)
        for (int to_shard = 0; to_shard < 2; to_shard++) {
            rsh_place partial = rsh_place_partial(RSH_OP_SUM),
                      to = to_shard ? rsh_place_shard(i / 3) : rsh_place_replicate();
            rsh_value *leaf = NULL, *p = NULL, *moved = NULL, *seed = NULL;
            RSH_TRY(local_whole(RSH_F32, 2, sizes[i], &leaf));
            RSH_TRY(rsh_dtensor_from_local(leaf, m, 1, &partial, NULL, &p));
            RSH_TRY(rsh_dtensor_redistribute(p, 1, &to, RSH_DTYPE_NONE, &moved));
            RSH_TRY(holds(moved, 4));
            RSH_TRY(rsh_dtensor_full(m, 1, &to, RSH_F32, 2, sizes[i], 1, &seed));
            RSH_TRY(rsh_backward(moved, seed, 0)); /* local gradients are 1 on every rank, because nothing is divided */
            const rsh_tensor *g = rsh_value_tensor(rsh_value_grad(leaf));
            for (int64_t k = 0; k < rsh_tensor_count(g); k++) CHECK(at(g, k) == 1);
            rsh_value_free(leaf), rsh_value_free(p), rsh_value_free(moved), rsh_value_free(seed);
        }
    rsh_mesh_free(m);
    return RSH_OK;
}
static void D4_D6_partial_values_are_reduced(void **state) {
    (void)state;
    run_ranks(4, d4_d6, NULL);
}

static rsh_status d5_d11(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    const rsh_place R = rsh_place_replicate(), S0 = rsh_place_shard(0), S1 = rsh_place_shard(1),
                    P = rsh_place_partial(RSH_OP_SUM), X = rsh_place_partial(RSH_OP_PROD);
    const struct rule {
        rsh_place from[2], to[2];
        bool allowed;
    } rules[] = {{{P, S0}, {P, S0}, true}, {{P, S0}, {P, S1}, true},  {{S0, P}, {R, P}, true},
                 {{S0, X}, {R, X}, true},  {{P, P}, {R, P}, true},    {{S0, R}, {S0, P}, false},
                 {{S0, R}, {R, P}, false}, {{S0, S1}, {R, P}, false}, {{S0, X}, {R, P}, false},
                 {{R, R}, {P, R}, false}};
    RSH_TRY(rsh_mesh_new(c, 2, (const int64_t[]){2, 2}, NULL, NULL, &m));
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        rsh_value *v = NULL, *moved = NULL;
        RSH_TRY(rsh_dtensor_full(m, 2, rules[i].from, RSH_F64, 2, (const int64_t[]){4, 4}, 3, &v));
        rsh_status st = rsh_dtensor_redistribute(v, 2, rules[i].to, RSH_DTYPE_NONE, &moved);
        CHECK(st == (rules[i].allowed ? RSH_OK : RSH_ERUNTIME));
        if (rules[i].allowed) { /* the value is the same, even if it is still to be reduced */
            rsh_value *a = NULL, *b = NULL;
            RSH_TRY(rsh_dtensor_full_tensor(v, NULL, &a));
            RSH_TRY(rsh_dtensor_full_tensor(moved, NULL, &b));
            for (int64_t k = 0; k < 16; k++) CHECK(at(rsh_value_tensor(a), k) == at(rsh_value_tensor(b), k));
            rsh_value_free(a), rsh_value_free(b);
        }
        rsh_value_free(v), rsh_value_free(moved);
    }
    rsh_mesh_free(m);
    return RSH_OK;
}
static void D5_D11_a_dim_does_not_become_partial(void **state) {
    (void)state;
    run_ranks(4, d5_d11, NULL);
}

static rsh_status d7_d8(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    rsh_tensor *t = NULL;
    rsh_value *v = NULL, *whole = NULL, *same = NULL;
    RSH_TRY(rsh_mesh_new(c, 2, (const int64_t[]){2, 2}, NULL, NULL, &m));
    const int64_t uneven[4][2] = {{10, 5}, {9, 5}, {3, 5}, {1, 3}};
    for (int i = 0; i < 4; i++)
        for (int d = 0; d < 2; d++) { /* D8 */
            rsh_place places[2] = {rsh_place_shard(0), rsh_place_shard(d)};
            RSH_TRY(make_whole(RSH_F64, 2, uneven[i], &t));
            RSH_TRY(rsh_dtensor_distribute(t, false, m, 2, places, 3, &v));
            RSH_TRY(rsh_dtensor_full_tensor(v, NULL, &whole));
            for (int64_t k = 0; k < rsh_tensor_count(t); k++) CHECK(at(rsh_value_tensor(whole), k) == (double)(k + 1));
            rsh_tensor_free(t);
            rsh_value_free(v), rsh_value_free(whole);
        }
    rsh_place minus[2] = {rsh_place_shard(-1), rsh_place_replicate()}, now[2]; /* D7 */
    RSH_TRY(rsh_dtensor_full(m, 2, minus, RSH_F32, 2, (const int64_t[]){12, 3}, 0, &v));
    RSH_TRY(rsh_dtensor_places(v, now));
    CHECK(now[0].kind == RSH_PLACE_SHARD && now[0].dim == 1);
    RSH_TRY(rsh_dtensor_redistribute(v, 2, minus, RSH_DTYPE_NONE, &same)); /* no element moves */
    CHECK(same == v);
    rsh_value_free(v), rsh_value_free(same);
    rsh_mesh_free(m);
    return RSH_OK;
}
static void D7_D8_negative_dims_and_uneven_sizes(void **state) {
    (void)state;
    run_ranks(4, d7_d8, NULL);
}

/* A plain gradient that differs between ranks is partial; with the hint it is summed. */
static rsh_status d10_d14(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    rsh_tensor *t = NULL;
    rsh_value *leaf = NULL, *local = NULL, *wide = NULL, *seed = NULL;
    const int64_t size[2] = {12, 3};
    const rsh_place R = rsh_place_replicate(), P = rsh_place_partial(RSH_OP_SUM), S = rsh_place_shard(0);
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){4}, NULL, NULL, &m));
    RSH_TRY(make_whole(RSH_F64, 2, size, &t));
    RSH_TRY(rsh_dtensor_distribute(t, true, m, 1, &R, 0, &leaf));
    RSH_TRY(rsh_dtensor_to_local(leaf, &P, &local));
    rsh_tensor *mine = NULL;
    RSH_TRY(rsh_tensor_empty(RSH_F64, 2, size, &mine));
    for (int i = 0; i < 36; i++) ((double *)rsh_tensor_data(mine))[i] = rsh_comm_rank(c) + 1;
    RSH_TRY(rsh_value_adopt_tensor(mine, false, &seed));
    RSH_TRY(rsh_backward(local, seed, 0));
    RSH_TRY(gradient_has(rsh_value_grad(leaf), &R, 10));
    rsh_tensor_free(t);
    rsh_value_free(leaf), rsh_value_free(local), rsh_value_free(seed);
    RSH_TRY(make_whole(RSH_F32, 2, size, &t)); /* D14: converts on the way; gradients have the first dtype */
    RSH_TRY(rsh_dtensor_distribute(t, true, m, 1, &S, RSH_SOURCE_OWN, &leaf));
    RSH_TRY(rsh_dtensor_redistribute(leaf, 1, &R, RSH_F64, &wide));
    CHECK(rsh_value_dtype(wide) == RSH_F64);
    RSH_TRY(holds(wide, 1));
    RSH_TRY(rsh_dtensor_full(m, 1, &R, RSH_F64, 2, size, 2, &seed));
    RSH_TRY(rsh_backward(wide, seed, 0));
    CHECK(rsh_value_dtype(rsh_value_grad(leaf)) == RSH_F32);
    RSH_TRY(gradient_has(rsh_value_grad(leaf), &S, 2));
    rsh_tensor_free(t);
    rsh_value_free(leaf), rsh_value_free(wide), rsh_value_free(seed);
    rsh_mesh_free(m);
    return RSH_OK;
}
static void D10_D14_gradient_hints_and_dtypes(void **state) {
    (void)state;
    run_ranks(4, d10_d14, NULL);
}

/* ---- DTensors made from parts ---- */

static rsh_status uneven_parts(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    int me = rsh_comm_rank(c);
    rsh_value *local = NULL, *v = NULL;
    const rsh_place S = rsh_place_shard(0), R = rsh_place_replicate();
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){3}, NULL, NULL, &m));
    if (me == 3) { /* not in the mesh: every function returns an empty result */
        RSH_TRY(rsh_dtensor_from_local(NULL, m, 1, &S, NULL, &v));
        CHECK(!v);
        RSH_TRY(rsh_dtensor_redistribute(NULL, 1, &R, RSH_DTYPE_NONE, &v));
        RSH_TRY(rsh_dtensor_full_tensor(NULL, NULL, &v));
        CHECK(!v);
        rsh_mesh_free(m);
        return RSH_OK;
    }
    int64_t mine[2] = {me == 2 ? 1 : 2, 4}; /* 5 rows on 3 ranks: sizes are exchanged, not computed by multiplication */
    RSH_TRY(local_whole(RSH_F32, 2, mine, &local));
    RSH_TRY(rsh_dtensor_from_local(local, m, 1, &S, NULL, &v));
    CHECK(rsh_value_shape(v)[0] == 5 && rsh_value_shape(v)[1] == 4);
    CHECK(rsh_tensor_data(rsh_value_tensor(v)) == rsh_tensor_data(rsh_value_tensor(local)));
    rsh_value_free(v);
    v = NULL;
    rsh_value_free(local);
    mine[0] = me == 1 ? 3 : 1; /* these sizes are not those of chunks */
    RSH_TRY(local_whole(RSH_F32, 2, mine, &local));
    CHECK_STATUS(RSH_EVALUE, rsh_dtensor_from_local(local, m, 1, &S, NULL, &v));
    CHECK(!v);
    rsh_from_local_opts check = {sizeof check, .check = true};
    /* tensors of different sizes are not replicas */
    CHECK_STATUS(RSH_EVALUE, rsh_dtensor_from_local(local, m, 1, &R, &check, &v));
    rsh_value_free(local);
    RSH_TRY(local_whole(RSH_F32, 2, (const int64_t[]){2, 2}, &local));
    RSH_TRY(rsh_dtensor_from_local(local, m, 1, &R, &check, &v));
    rsh_value_free(v);
    v = NULL;
    if (me == 1) ((float *)rsh_tensor_data(rsh_value_tensor(local)))[3] = 7;
    CHECK_STATUS(RSH_EVALUE, rsh_dtensor_from_local(local, m, 1, &R, &check, &v)); /* an error on every rank */
    CHECK_SAYS("replicas");
    rsh_value_free(local);
    rsh_mesh_free(m);
    return RSH_OK;
}
static void parts_of_ones_own_are_checked_and_worked_out(void **state) {
    (void)state;
    run_ranks(4, uneven_parts, NULL);
}

/* ---- errors ---- */

static rsh_status twice_forward(rsh_grad_call *call) {
    rsh_tensor *t = NULL;
    const rsh_tensor *in = rsh_call_input(call, 0);
    RSH_TRY(rsh_tensor_empty(rsh_tensor_dtype(in), rsh_tensor_ndim(in), rsh_tensor_shape(in), &t));
    for (int64_t i = 0; i < rsh_tensor_count(in); i++) ((double *)rsh_tensor_data(t))[i] = 2 * at(in, i);
    return rsh_call_set_output(call, 0, t);
}
static const rsh_grad_op pointwise = {
    .name = "twice", .forward = twice_forward, .layouts = rsh_grad_same_layout, .parts = RSH_PARTS_EACH};
static const rsh_grad_op other = {.name = "turn", .forward = twice_forward};

static rsh_status ops(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    rsh_tensor *t = NULL;
    rsh_value *v = NULL, *p = NULL, *y = NULL;
    const rsh_place S = rsh_place_shard(1), P = rsh_place_partial(RSH_OP_SUM), beyond = rsh_place_shard(2);
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){2}, NULL, NULL, &m));
    RSH_TRY(make_whole(RSH_F64, 2, (const int64_t[]){3, 5}, &t));
    RSH_TRY(rsh_dtensor_distribute(t, false, m, 1, &S, 0, &v));
    RSH_TRY(rsh_grad_apply(&pointwise, NULL, 1, &v, 1, &y)); /* the placement is that of the input */
    CHECK(rsh_dtensor_mesh(y) == m);
    RSH_TRY(holds(y, 2));
    rsh_value_free(y);
    y = NULL;
    CHECK_STATUS(RSH_EUNSUP, rsh_grad_apply(&other, NULL, 1, &v, 1, &y));
    CHECK_SAYS("turn of DTensors with placements (S1)");
    RSH_TRY(rsh_dtensor_full(m, 1, &P, RSH_F64, 1, (const int64_t[]){4}, 1, &p));
    CHECK_STATUS(RSH_EUNSUP, rsh_grad_apply(&pointwise, NULL, 1, &p, 1, &y)); /* the op may not be linear */
    CHECK_STATUS(RSH_EINDEX, rsh_dtensor_distribute(t, false, m, 1, &beyond, 0, &y));
    CHECK_STATUS(RSH_EVALUE, rsh_dtensor_distribute(t, false, m, 2, &S, 0, &y));
    CHECK_STATUS(RSH_EVALUE,
                 rsh_dtensor_distribute(t, false, m, 1, &S, rsh_comm_rank(c) ? 0 : 2, &y)); /* an error on every rank */
    CHECK_STATUS(RSH_ERUNTIME, rsh_dtensor_redistribute(v, 1, NULL, RSH_DTYPE_NONE, &y));
    CHECK_STATUS(RSH_EVALUE, rsh_dtensor_redistribute(v, 2, &S, RSH_DTYPE_NONE, &y));
    CHECK(!y);
    rsh_tensor_free(t);
    rsh_value_free(v), rsh_value_free(p);
    rsh_mesh_free(m);
    return RSH_OK;
}
static void an_op_without_a_rule_is_refused_with_its_placements(void **state) {
    (void)state;
    run_ranks(2, ops, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_placement_goes_to_every_other),
        cmocka_unit_test(D13_every_placement_on_a_mesh_of_4_by_2),
        cmocka_unit_test(D1_D2_D3_shards_and_replicas),
        cmocka_unit_test(D4_D6_partial_values_are_reduced),
        cmocka_unit_test(D5_D11_a_dim_does_not_become_partial),
        cmocka_unit_test(D7_D8_negative_dims_and_uneven_sizes),
        cmocka_unit_test(D10_D14_gradient_hints_and_dtypes),
        cmocka_unit_test(parts_of_ones_own_are_checked_and_worked_out),
        cmocka_unit_test(an_op_without_a_rule_is_refused_with_its_placements),
    };
    return RUN_EVERYWHERE(tests);
}
