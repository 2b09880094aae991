/* Between meshes: a DTensor moves to other ranks and another shape of mesh, and its gradient moves back. */
#include <inttypes.h>

#include "wholes.h"

enum { RANKS = 6 };

/* ---- random meshes and placements, the same on every rank ---- */

static rsh_status random_mesh(rsh_comm *c, uint64_t *rng, rsh_mesh **out) {
    static const int64_t shapes[][2] = {{1, 1}, {2, 1}, {3, 1}, {2, 2}, {3, 2}, {1, 4}, {6, 1}, {1, 5}};
    const int64_t *shape = shapes[draw(rng) % (sizeof shapes / sizeof *shapes)];
    int64_t ranks[RANKS];
    for (int i = 0; i < RANKS; i++) {
        int at = (int)(draw(rng) % (uint64_t)(i + 1));
        ranks[i] = ranks[at];
        ranks[at] = i;
    }
    int ndim = shape[1] == 1 ? 1 : 2; /* ranks in any order, also not ascending */
    return rsh_mesh_new(c, ndim, shape, ranks, NULL, out);
}

static void random_places(uint64_t *rng, int n, bool partial, rsh_place *out) {
    for (int i = 0; i < n; i++) {
        uint64_t kind = draw(rng) % (partial ? 4 : 3);
        out[i] = kind == 0   ? rsh_place_replicate()
                 : kind == 3 ? rsh_place_partial(RSH_OP_SUM)
                             : rsh_place_shard((int)kind - 1);
    }
}

/* Distributes the whole tensor with these placements, from every rank's own copy. */
static rsh_status spread(rsh_mesh *m, const rsh_place *places, const int64_t *shape, bool leaf, rsh_value **out) {
    rsh_tensor *t = NULL;
    RSH_TRY(make_whole(RSH_F64, 2, shape, &t));
    rsh_status st = rsh_dtensor_distribute(t, leaf, m, rsh_mesh_ndim(m), places, RSH_SOURCE_OWN, out);
    rsh_tensor_free(t);
    return st;
}

/* Moves a DTensor, and moves the gradient (flat index + 1) back to the placements of the source, without partial
 * ones. */
static rsh_status one(rsh_comm *c, uint64_t *rng) {
    rsh_mesh *from = NULL, *to = NULL;
    rsh_place source[2], target[2], back[2], now[2];
    int64_t shape[2] = {1 + (int64_t)(draw(rng) % 9), 1 + (int64_t)(draw(rng) % 9)};
    rsh_value *v = NULL, *moved = NULL, *seed = NULL;
    RSH_TRY(random_mesh(c, rng, &from));
    RSH_TRY(random_mesh(c, rng, &to));
    random_places(rng, 2, true, source);
    random_places(rng, 2, false, target);
    RSH_TRY(spread(from, source, shape, true, &v));
    RSH_TRY(rsh_dtensor_move(v, from, to, rsh_mesh_ndim(to), target, RSH_DTYPE_NONE, &moved));
    CHECK(moved && rsh_value_requires_grad(moved));
    if (rsh_mesh_comm(to)) {
        CHECK(rsh_dtensor_mesh(moved) == to && rsh_value_comm(moved) == rsh_mesh_comm(to));
        RSH_TRY(rsh_dtensor_places(moved, now));
        CHECK(rsh_places_equal(2, rsh_mesh_ndim(to), now, target));
        RSH_TRY(holds(moved, 1));
        RSH_TRY(spread(to, target, shape, false, &seed));
    }
    RSH_TRY(rsh_backward(moved, seed, 0)); /* ranks without a part take part in backward too */
    if (v) {
        rshi_places_unpartial(2, source, back);
        RSH_TRY(rsh_dtensor_places(rsh_value_grad(v), now));
        CHECK(rsh_places_equal(2, rsh_mesh_ndim(from), now, back));
        RSH_TRY(holds(rsh_value_grad(v), 1));
    }
    rsh_value_free(v), rsh_value_free(moved), rsh_value_free(seed);
    rsh_mesh_free(to), rsh_mesh_free(from);
    return RSH_OK;
}

static rsh_status many(void *ctx, rsh_comm *c) {
    uint64_t rng = *(uint64_t *)ctx;
    int cases = getenv("RESHARD_ALL") ? 400 : 12;
    for (int i = 0; i < cases; i++) RSH_TRY(one(c, &rng));
    return RSH_OK;
}
static void any_mesh_goes_to_any_other(void **state) {
    (void)state;
    uint64_t seed = test_seed(USUAL_SEED);
    run_ranks(RANKS, many, &seed);
}

/* ---- the same mesh, other dtypes, no gradient ---- */

static rsh_status kinds(void *ctx, rsh_comm *c) {
    rsh_mesh *a = NULL, *b = NULL;
    rsh_value *v = NULL, *moved = NULL;
    rsh_place rows = rsh_place_shard(0), columns = rsh_place_shard(-1);
    const int64_t shape[2] = {5, 7};
    (void)ctx;
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){2}, (const int64_t[]){3, 1}, NULL, &a));
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){2}, (const int64_t[]){0, 2}, NULL, &b));
    RSH_TRY(spread(a, &rows, shape, false, &v));
    /* the same placements on another mesh: the mesh must not be ignored */
    RSH_TRY(rsh_dtensor_move(v, a, b, 1, &rows, RSH_F32, &moved));
    CHECK(!moved == !rsh_mesh_comm(b)); /* there is no graph to go back through */
    if (moved) {
        CHECK(rsh_value_dtype(moved) == RSH_F32 && rsh_dtensor_mesh(moved) == b);
        RSH_TRY(holds(moved, 1));
    }
    rsh_value *again = NULL;
    RSH_TRY(rsh_dtensor_move(moved, b, b, 1, &columns, RSH_DTYPE_NONE, &again)); /* or on the same mesh */
    if (again) RSH_TRY(holds(again, 1));
    rsh_value_free(v), rsh_value_free(moved), rsh_value_free(again);
    rsh_mesh_free(b), rsh_mesh_free(a);
    return RSH_OK;
}
static void other_dtypes_and_the_same_mesh(void **state) {
    (void)state;
    run_ranks(4, kinds, NULL);
}

/* Each contribution to a mean gets its share of the gradient. */
static rsh_status mean(void *ctx, rsh_comm *c) {
    rsh_mesh *a = NULL, *b = NULL;
    rsh_value *leaf = NULL, *v = NULL, *moved = NULL, *seed = NULL;
    rsh_place avg = rsh_place_partial(RSH_OP_AVG), whole = rsh_place_replicate();
    const int64_t shape[2] = {2, 3};
    (void)ctx;
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){2}, (const int64_t[]){0, 1}, NULL, &a));
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){1}, (const int64_t[]){2}, NULL, &b));
    if (rsh_mesh_comm(a)) RSH_TRY(local_whole(RSH_F32, 2, shape, &leaf));
    RSH_TRY(rsh_dtensor_from_local(leaf, a, 1, &avg, NULL, &v));
    RSH_TRY(rsh_dtensor_move(v, a, b, 1, &whole, RSH_DTYPE_NONE, &moved));
    if (rsh_mesh_comm(b)) {
        RSH_TRY(holds(moved, 1));
        RSH_TRY(rsh_dtensor_full(b, 1, &whole, RSH_F32, 2, shape, 6, &seed));
    }
    RSH_TRY(rsh_backward(moved, seed, 0));
    for (int64_t i = 0; leaf && i < 6; i++) CHECK(at(rsh_value_tensor(rsh_value_grad(leaf)), i) == 3);
    rsh_value_free(leaf), rsh_value_free(v), rsh_value_free(moved), rsh_value_free(seed);
    rsh_mesh_free(b), rsh_mesh_free(a);
    return RSH_OK;
}
static void contributions_to_a_mean_share_the_gradient(void **state) {
    (void)state;
    run_ranks(3, mean, NULL);
}

/* ---- errors, on every rank ---- */

static rsh_status wrong(void *ctx, rsh_comm *c) {
    rsh_mesh *a = NULL, *b = NULL, *grid = NULL;
    rsh_value *v = NULL, *moved = NULL;
    rsh_place rows = rsh_place_shard(0), beyond = rsh_place_shard(2), sum = rsh_place_partial(RSH_OP_SUM),
              two[2] = {rows, rows};
    int me = rsh_comm_rank(c);
    (void)ctx;
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){2}, NULL, NULL, &a));
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){2}, (const int64_t[]){2, 3}, NULL, &b));
    RSH_TRY(rsh_mesh_new(c, 2, (const int64_t[]){2, 2}, NULL, NULL, &grid));
    RSH_TRY(spread(a, &rows, (const int64_t[]){4, 4}, false, &v));
    CHECK_STATUS(RSH_ERUNTIME, rsh_dtensor_move(v, a, b, 1, &sum, RSH_DTYPE_NONE, &moved));
    CHECK_STATUS(RSH_ERUNTIME, rsh_dtensor_move(v, a, b, 1, me == 3 ? NULL : &rows, RSH_DTYPE_NONE, &moved));
    /* the number of placements is checked */
    CHECK_STATUS(RSH_EVALUE, rsh_dtensor_move(v, a, b, 2, two, RSH_DTYPE_NONE, &moved));
    CHECK_STATUS(RSH_EVALUE, rsh_dtensor_move(v, b, a, 1, &rows, RSH_DTYPE_NONE, &moved));
    CHECK_STATUS(RSH_EINDEX, rsh_dtensor_move(v, a, b, 1, &beyond, RSH_DTYPE_NONE, &moved));
    CHECK_STATUS(RSH_EMISMATCH, rsh_dtensor_move(v, a, b, 1, me ? &rows : &(rsh_place){0}, RSH_DTYPE_NONE, &moved));
    CHECK_STATUS(RSH_EVALUE, rsh_dtensor_move(v, a, grid, 1, &rows, RSH_DTYPE_NONE, &moved));
    CHECK(!moved);
    RSH_TRY(rsh_dtensor_move(v, a, grid, 2, two, RSH_DTYPE_NONE, &moved));
    RSH_TRY(holds(moved, 1));
    rsh_value_free(moved), rsh_value_free(v);
    rsh_mesh_free(grid), rsh_mesh_free(b), rsh_mesh_free(a);
    return RSH_OK;
}
static void what_does_not_fit_is_refused_on_every_rank(void **state) {
    (void)state;
    run_ranks(4, wrong, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_mesh_goes_to_any_other),
        cmocka_unit_test(other_dtypes_and_the_same_mesh),
        cmocka_unit_test(contributions_to_a_mean_share_the_gradient),
        cmocka_unit_test(what_does_not_fit_is_refused_on_every_rank),
    };
    return RUN_EVERYWHERE(tests);
}
