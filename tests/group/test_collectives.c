/* Collectives: random dtypes, shapes and strides, compared with results computed from the known inputs of all ranks. */
#include "groups.h"
#include "scattered.h"

#define MOST 8 /* most ranks */

/* One random case, which is the same on every rank except for the strides. */
typedef struct scene {
    rsh_group *g;
    int me, n, root;
    rsh_op op;
    form f;
    uint64_t seed;
    uint64_t *own; /* random numbers of this rank only */
    scattered one, list[MOST];
    rsh_tensor *tensors[MOST];
} scene;

static void scene_begin(scene *s) {
    bool dense = draw(s->own) % 3 == 0;
    s->one = scattered_new(&s->f, dense, s->own);
    for (int j = 0; j < s->n; j++) s->list[j] = scattered_new(&s->f, dense, s->own), s->tensors[j] = s->list[j].t;
}
static void scene_end(scene *s) {
    scattered_free(&s->one);
    for (int j = 0; j < s->n; j++) scattered_free(&s->list[j]);
}
static const rsh_tensor *const *as_sources(const scene *s) { return (const rsh_tensor *const *)s->tensors; }

static rsh_status broadcast_case(scene *s) {
    scattered_fill(&s->f, &s->one, s->seed, s->me, 0);
    RSH_TRY(rsh_group_broadcast(s->g, s->one.t, s->root));
    CHECK(scattered_is(&s->f, &s->one, s->seed, s->root, 0));
    return RSH_OK;
}
static rsh_status scatter_case(scene *s) {
    bool root = s->me == s->root;
    for (int j = 0; j < s->n; j++) scattered_fill(&s->f, &s->list[j], s->seed, s->me, j);
    RSH_TRY(rsh_group_scatter(s->g, s->one.t, root ? s->n : 0, root ? as_sources(s) : NULL, s->root));
    CHECK(scattered_is(&s->f, &s->one, s->seed, s->root, s->me));
    for (int j = 0; j < s->n; j++) CHECK(scattered_is(&s->f, &s->list[j], s->seed, s->me, j));
    return RSH_OK;
}
static rsh_status gather_case(scene *s) {
    bool root = s->me == s->root;
    scattered_fill(&s->f, &s->one, s->seed, s->me, 0);
    RSH_TRY(rsh_group_gather(s->g, s->one.t, s->n, root ? s->tensors : NULL, s->root));
    for (int j = 0; root && j < s->n; j++) CHECK(scattered_is(&s->f, &s->list[j], s->seed, j, 0));
    CHECK(scattered_is(&s->f, &s->one, s->seed, s->me, 0));
    return RSH_OK;
}
static rsh_status all_gather_case(scene *s) {
    scattered_fill(&s->f, &s->one, s->seed, s->me, 0);
    RSH_TRY(rsh_group_all_gather(s->g, s->n, s->tensors, s->one.t));
    for (int j = 0; j < s->n; j++) CHECK(scattered_is(&s->f, &s->list[j], s->seed, j, 0));
    return RSH_OK;
}
/* The input is this rank's entry of the output list. */
static rsh_status all_gather_in_place_case(scene *s) {
    scattered_fill(&s->f, &s->list[s->me], s->seed, s->me, 0);
    RSH_TRY(rsh_group_all_gather(s->g, s->n, s->tensors, s->tensors[s->me]));
    for (int j = 0; j < s->n; j++) CHECK(scattered_is(&s->f, &s->list[j], s->seed, j, 0));
    return RSH_OK;
}
static rsh_status all_reduce_case(scene *s) {
    scattered_fill(&s->f, &s->one, s->seed, s->me, 0);
    RSH_TRY(rsh_group_all_reduce(s->g, s->one.t, s->op));
    CHECK(scattered_is_reduced(&s->f, &s->one, s->seed, s->n, 0, s->op));
    return RSH_OK;
}
static rsh_status reduce_case(scene *s) {
    scattered_fill(&s->f, &s->one, s->seed, s->me, 0);
    RSH_TRY(rsh_group_reduce(s->g, s->one.t, s->op, s->root));
    CHECK(s->me == s->root ? scattered_is_reduced(&s->f, &s->one, s->seed, s->n, 0, s->op)
                           : scattered_is(&s->f, &s->one, s->seed, s->me, 0));
    return RSH_OK;
}
static rsh_status reduce_scatter_case(scene *s) {
    for (int j = 0; j < s->n; j++) scattered_fill(&s->f, &s->list[j], s->seed, s->me, j);
    RSH_TRY(rsh_group_reduce_scatter(s->g, s->one.t, s->n, as_sources(s), s->op));
    CHECK(scattered_is_reduced(&s->f, &s->one, s->seed, s->n, s->me, s->op));
    /* The output is one of the inputs. */
    RSH_TRY(rsh_group_reduce_scatter(s->g, s->tensors[0], s->n, as_sources(s), s->op));
    CHECK(scattered_is_reduced(&s->f, &s->list[0], s->seed, s->n, s->me, s->op));
    return RSH_OK;
}
static rsh_status all_to_all_case(scene *s) {
    scattered in[MOST];
    const rsh_tensor *sources[MOST];
    for (int j = 0; j < s->n; j++) {
        in[j] = scattered_new(&s->f, draw(s->own) % 2, s->own), sources[j] = in[j].t;
        scattered_fill(&s->f, &in[j], s->seed, s->me, j);
    }
    rsh_status st = rsh_group_all_to_all(s->g, s->n, s->tensors, sources);
    bool ok = true;
    for (int j = 0; j < s->n; j++)
        ok =
            ok && scattered_is(&s->f, &s->list[j], s->seed, j, s->me) && scattered_is(&s->f, &in[j], s->seed, s->me, j);
    /* The result is also sent back onto the inputs, in place. */
    if (!st) st = rsh_group_all_to_all(s->g, s->n, s->tensors, as_sources(s));
    for (int j = 0; j < s->n; j++) ok = ok && scattered_is(&s->f, &s->list[j], s->seed, s->me, j);
    for (int j = 0; j < s->n; j++) scattered_free(&in[j]);
    RSH_TRY(st);
    CHECK(ok);
    return RSH_OK;
}

static rsh_op draw_op(uint64_t *rng, rsh_dtype dtype) {
    rsh_op op;
    do op = (rsh_op)(1 + draw(rng) % (RSH_OP_COUNT - 1));
    while (rsh_op_check(op, dtype));
    return op;
}

static rsh_status (*const cases[])(scene *) = {
    broadcast_case,  scatter_case, gather_case,         all_gather_case, all_gather_in_place_case,
    all_reduce_case, reduce_case,  reduce_scatter_case, all_to_all_case};
#define CASES (sizeof cases / sizeof *cases)

static rsh_status random_scenes(rsh_group *g, uint64_t seed, int rounds) {
    uint64_t rng = seed, own = seed + 1000 + (uint64_t)rsh_group_rank(g);
    for (int i = 0; i < rounds; i++) {
        scene s = {.g = g, .me = rsh_group_rank(g), .n = rsh_group_size(g), .own = &own};
        s.f = form_draw(&rng);
        s.op = draw_op(&rng, s.f.dtype);
        s.root = (int)(draw(&rng) % (uint64_t)s.n);
        s.seed = draw(&rng);
        for (size_t k = 0; k < CASES; k++) {
            scene_begin(&s);
            rsh_status st = cases[k](&s);
            scene_end(&s);
            if (st)
                return rshi_fail(st, "round %d of seed %llu: %s", i, (unsigned long long)seed,
                                 strdup(rsh_error_detail()));
        }
    }
    return RSH_OK;
}

static rsh_status in_the_default_group(void *ctx) { return random_scenes(NULL, *(uint64_t *)ctx, 16); }
static void collectives_give_what_every_rank_brought(void **state) {
    (void)state;
    uint64_t seed = test_seed(20240);
    run_group_counts(in_the_default_group, &seed);
}

/* Roots and positions in lists are ranks of the group, whatever their global ranks are.  Non-members may pass
 * anything. */
static rsh_status in_a_subgroup(void *ctx) {
    const int members[3] = {3, 1, 2};
    rsh_group *g = NULL;
    RSH_TRY(rsh_group_new(3, members, &g));
    rsh_status st;
    if (rsh_group_rank(g) >= 0)
        st = random_scenes(g, *(uint64_t *)ctx, 16);
    else {
        CHECK_STATUS(RSH_OK, rsh_group_broadcast(g, NULL, 99));
        CHECK_STATUS(RSH_OK, rsh_group_scatter(g, NULL, 1, NULL, 0));
        CHECK_STATUS(RSH_OK, rsh_group_gather(g, NULL, 1, NULL, 0));
        CHECK_STATUS(RSH_OK, rsh_group_all_gather(g, 1, NULL, NULL));
        CHECK_STATUS(RSH_OK, rsh_group_all_reduce(g, NULL, RSH_OP_NONE));
        CHECK_STATUS(RSH_OK, rsh_group_reduce(g, NULL, RSH_OP_NONE, -1));
        CHECK_STATUS(RSH_OK, rsh_group_reduce_scatter(g, NULL, 0, NULL, RSH_OP_SUM));
        CHECK_STATUS(RSH_OK, rsh_group_all_to_all(g, 0, NULL, NULL));
        st = rsh_group_all_to_all_single(g, NULL, NULL, NULL, NULL);
    }
    rsh_group_free(g);
    return st;
}
static void in_a_subgroup_roots_are_ranks_of_the_group(void **state) {
    (void)state;
    uint64_t seed = test_seed(777);
    run_groups(4, in_a_subgroup, &seed);
}

/* Outputs are the columns of one matrix, so their memory interleaves. */
static rsh_status into_columns(void *ctx) {
    (void)ctx;
    enum { ROWS = 7 };
    int n = rsh_group_size(NULL), me = rsh_group_rank(NULL);
    int32_t matrix[ROWS * MOST] = {0}, mine[ROWS];
    rsh_tensor *column[MOST], *in = NULL;
    const int64_t rows = ROWS, stride = n;
    for (int j = 0; j < n; j++)
        RSH_TRY(rsh_tensor_wrap(matrix + j, RSH_I32, 1, &rows, &stride, NULL, NULL, &column[j]));
    for (int i = 0; i < ROWS; i++) mine[i] = 100 * me + i;
    RSH_TRY(rsh_tensor_wrap(mine, RSH_I32, 1, &rows, NULL, NULL, NULL, &in));
    RSH_TRY(rsh_group_all_gather(NULL, n, column, in));
    for (int i = 0; i < ROWS * n; i++) CHECK(matrix[i] == 100 * (i % n) + i / n);
    /* A transpose of blocks: column j is sent to rank j, and becomes column `me` of its matrix. */
    RSH_TRY(rsh_group_all_to_all(NULL, n, column, (const rsh_tensor *const *)column));
    for (int i = 0; i < ROWS * n; i++) CHECK(matrix[i] == 100 * me + i / n);
    for (int j = 0; j < n; j++) rsh_tensor_free(column[j]);
    rsh_tensor_free(in);
    return RSH_OK;
}
static void outputs_may_interleave_in_memory(void **state) {
    (void)state;
    run_group_counts(into_columns, NULL);
}

/* Tensors large enough for streaming stores and several pages; the sums show in which order ranks were combined. */
static rsh_status large_sum(void *ctx) {
    (void)ctx;
    const int64_t count = 700001;
    int n = rsh_group_size(NULL), me = rsh_group_rank(NULL);
    rsh_tensor *t = NULL;
    RSH_TRY(rsh_tensor_empty(RSH_F32, 1, &count, &t));
    float *x = rsh_tensor_data(t);
    for (int64_t i = 0; i < count; i++) x[i] = 1.0f / (float)(i % 1000 + 3 * me + 1);
    RSH_TRY(rsh_group_all_reduce(NULL, t, RSH_OP_SUM));
    for (int64_t i = 0; i < count; i++) {
        float sum = 1.0f / (float)(i % 1000 + 1);
        for (int r = 1; r < n; r++) sum += 1.0f / (float)(i % 1000 + 3 * r + 1);
        CHECK(x[i] == sum);
    }
    if (me == n - 1)
        for (int64_t i = 0; i < count; i++) x[i] = (float)i;
    RSH_TRY(rsh_group_broadcast(NULL, t, n - 1));
    for (int64_t i = 0; i < count; i++) CHECK(x[i] == (float)i);
    rsh_tensor_free(t);
    return RSH_OK;
}
static void sums_are_combined_in_ascending_rank(void **state) {
    (void)state;
    run_group_counts(large_sum, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_give_what_every_rank_brought),
        cmocka_unit_test(in_a_subgroup_roots_are_ranks_of_the_group),
        cmocka_unit_test(outputs_may_interleave_in_memory),
        cmocka_unit_test(sums_are_combined_in_ascending_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
