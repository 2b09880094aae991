/* Place: placements on a mesh compared with chunks computed by hand, and conversions of layouts back to placements. */
#include <inttypes.h>

#include "../comm/ranks.h"
#include "mesh/mesh.h"

static uint64_t next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A mesh needs a parent with as many ranks, but its layouts need only rank 0's handle of it. */
typedef struct question {
    rsh_status (*fn)(const rsh_mesh *m, void *ctx);
    void *ctx;
    int ndim;
    int64_t shape[4];
    const int64_t *ranks;
    const char *const *names;
} question;

static rsh_status ask(void *ctx, rsh_comm *c) {
    const question *q = ctx;
    rsh_mesh *m = NULL;
    RSH_TRY(rsh_mesh_new(c, q->ndim, q->shape, q->ranks, q->names, &m));
    rsh_status st = rsh_comm_rank(c) ? RSH_OK : q->fn(m, q->ctx);
    rsh_mesh_free(m);
    return st;
}

static void run_question(question q) {
    int n = 1;
    for (int d = 0; d < q.ndim; d++) n *= (int)q.shape[d];
    run_ranks(n, ask, &q);
}

/* ---- numbers computed by hand ---- */

typedef struct worked {
    int64_t length, size[4], offset[4];
} worked;

static rsh_status nested(const rsh_mesh *m, void *ctx) {
    const worked *w = ctx;
    const rsh_place places[] = {rsh_place_shard(0), rsh_place_shard(-1)};
    rsh_layout *l = NULL;
    RSH_TRY(rsh_mesh_layout(m, RSH_MESH_POSITIONS, 2, places, RSH_F32, 1, &w->length, &l));
    for (int r = 0; r < 4; r++) {
        rsh_part part;
        RSH_TRY(rsh_layout_part(l, r, 0, &part));
        CHECK(part.shape[0] == w->size[r]);
        int64_t first = w->length;
        if (part.count) RSH_TRY(rsh_layout_global_index(l, r, 0, 0, &first));
        CHECK(first == w->offset[r]);
    }
    rsh_layout_free(l);
    return RSH_OK;
}
static void two_dims_of_the_mesh_cut_one_dim_from_left_to_right(void **state) {
    (void)state;
    const worked table[] = {{5, {2, 1, 1, 1}, {0, 2, 3, 4}},
                            {9, {3, 2, 2, 2}, {0, 3, 5, 7}},
                            {10, {3, 2, 3, 2}, {0, 3, 5, 8}},
                            {3, {1, 1, 1, 0}, {0, 1, 2, 3}},
                            {1, {1, 0, 0, 0}, {0, 1, 1, 1}}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        run_question((question){nested, (void *)&table[i], 2, {2, 2}, NULL, NULL});
}

/* ---- random placements ---- */

/* Computes chunk k of [*lo, *hi), which PyTorch cuts into parts of ceil(n/parts). */
static void chunk(int64_t parts, int64_t k, int64_t *lo, int64_t *hi) {
    int64_t n = *hi - *lo, size = (n + parts - 1) / parts, start = size * k < n ? size * k : n;
    int64_t end = start + size < n ? start + size : n;
    *hi = *lo + end;
    *lo += start;
}

static rsh_status rank_holds(const rsh_layout *l, int64_t rank, const int64_t *lo, const int64_t *hi) {
    rsh_part part;
    RSH_TRY(rsh_layout_part(l, rank, 0, &part));
    int64_t index[RSH_MAX_NDIM];
    for (int d = 0; d < part.ndim; d++) CHECK(part.shape[d] == hi[d] - lo[d]);
    if (!part.count) return RSH_OK;
    RSH_TRY(rsh_layout_global_index(l, rank, 0, 0, index));
    for (int d = 0; d < part.ndim; d++) CHECK(index[d] == lo[d]);
    RSH_TRY(rsh_layout_global_index(l, rank, 0, part.count - 1, index));
    for (int d = 0; d < part.ndim; d++) CHECK(index[d] == hi[d] - 1);
    return RSH_OK;
}

static rsh_status every_rank_holds_its_chunks(const rsh_mesh *m, rsh_mesh_numbering numbers, const rsh_place *places,
                                              int ndim, const int64_t *shape, const rsh_layout *l) {
    int n = rsh_mesh_ndim(m);
    for (int64_t i = 0; i < rsh_mesh_size(m); i++) {
        int64_t lo[RSH_MAX_NDIM] = {0}, hi[RSH_MAX_NDIM], at[RSH_MAX_AXES], left = i;
        for (int d = 0; d < ndim; d++) hi[d] = shape[d];
        for (int a = n - 1; a >= 0; a--) {
            at[a] = left % rsh_mesh_dim_size(m, a);
            left /= rsh_mesh_dim_size(m, a);
        }
        for (int a = 0; a < n; a++) {
            int d = places[a].dim < 0 ? places[a].dim + ndim : places[a].dim;
            if (places[a].kind == RSH_PLACE_SHARD) chunk(rsh_mesh_dim_size(m, a), at[a], &lo[d], &hi[d]);
        }
        RSH_TRY(rank_holds(l, numbers == RSH_MESH_PARENT ? rsh_mesh_ranks(m)[i] : i, lo, hi));
    }
    return RSH_OK;
}

static rsh_place draw_place(int ndim, rsh_op op, uint64_t *rng) {
    uint64_t kind = next(rng) % 3;
    if (kind == 1 && ndim) return rsh_place_shard((int)(next(rng) % (uint64_t)(2 * ndim)) - ndim);
    return kind == 2 ? rsh_place_partial(op) : rsh_place_replicate();
}

static rsh_status random_places(const rsh_mesh *m, void *ctx) {
    uint64_t *rng = ctx;
    int n = rsh_mesh_ndim(m), ndim = (int)(next(rng) % 4);
    int64_t shape[3];
    rsh_place places[4], back[4];
    rsh_op op = next(rng) % 2 ? RSH_OP_SUM : RSH_OP_MAX;
    for (int d = 0; d < ndim; d++) shape[d] = (int64_t)(next(rng) % 11);
    for (int a = 0; a < n; a++) places[a] = draw_place(ndim, op, rng);
    rsh_mesh_numbering numbers = next(rng) % 2 ? RSH_MESH_PARENT : RSH_MESH_POSITIONS;
    rsh_layout *l = NULL;
    RSH_TRY(rsh_mesh_layout(m, numbers, n, places, RSH_F64, ndim, shape, &l));
    RSH_TRY(every_rank_holds_its_chunks(m, numbers, places, ndim, shape, l));
    RSH_TRY(rsh_mesh_places(m, numbers, l, back));
    CHECK(rsh_places_equal(ndim, n, places, back));
    rsh_layout_free(l);
    return RSH_OK;
}
static void placements_cut_as_chunks_do_and_come_back(void **state) {
    (void)state;
    uint64_t seed = seed_of_tests(), rng = seed;
    print_message("RESHARD_SEED=%" PRIu64 "\n", seed);
    for (int round = 0; round < 200; round++) {
        question q = {random_places, &rng, 1 + (int)(next(&rng) % 3), {0}, NULL, NULL};
        int64_t ranks[8], size = 1;
        for (int d = 0; d < q.ndim; d++) size *= q.shape[d] = 1 + (int64_t)(next(&rng) % 2) + (q.ndim == 1);
        for (int64_t i = 0; i < size; i++) ranks[i] = i;
        for (int64_t i = size - 1; i > 0; i--) {
            int64_t j = (int64_t)(next(&rng) % (uint64_t)(i + 1)), kept = ranks[i];
            ranks[i] = ranks[j];
            ranks[j] = kept;
        }
        if (next(&rng) % 2) q.ranks = ranks;
        run_question(q);
    }
}

/* ---- names, and layouts that placements cannot express ---- */

static rsh_status spelled(const rsh_mesh *m, void *ctx) {
    (void)ctx;
    rsh_layout *l = NULL;
    const rsh_place places[] = {rsh_place_shard(0), rsh_place_replicate(), rsh_place_partial(RSH_OP_SUM)};
    RSH_TRY(rsh_mesh_layout(m, RSH_MESH_POSITIONS, 3, places, RSH_F32, 1, (const int64_t[]){8}, &l));
    CHECK(!strcmp(rsh_layout_text(l), "f32[8/mm0] on mm0=2,m0=1,m2=2 sum(m2)"));
    rsh_layout_free(l);
    return RSH_OK;
}
static void names_that_the_notation_cannot_spell_get_names_of_their_own(void **state) {
    (void)state;
    static const char *const names[] = {"sum", "m0", "dp-1"};
    run_question((question){spelled, NULL, 3, {2, 1, 2}, NULL, names});
}

static rsh_status unsayable(const rsh_mesh *m, void *ctx) {
    (void)ctx;
    static const char *const texts[] = {
        "f32[8/(b,a)] on a=2,b=2",      "f32[8/a:1, 4] on a=2,b=2", "f32[8, 4]/a on a=2,b=2",  "f32[8/a] on a=4",
        "f32[8/a, 4] on a=2,b=2@4-7",   "f32[5/a~, 3] on a=2,b=2@[0,2,1,3]", "f32[8, 4] boxes 0:[0:8,0:4]",
        "f32[8, 4] on a=2,b=2 order(1,0)", "f32[(5|4)/a] on a=2,b=2"};
    rsh_place places[2];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        rsh_layout *l = NULL;
        RSH_TRY(rsh_layout_parse(texts[i], &l));
        rsh_status st = rsh_mesh_places(m, RSH_MESH_POSITIONS, l, places);
        rsh_layout_free(l);
        RSH_REQUIRE(st == RSH_EUNSUP, RSH_ERUNTIME, "%s: %s", texts[i], rsh_status_name(st));
    }
    rsh_layout *l = NULL; /* another rule is accepted if it puts the same elements on the same ranks */
    RSH_TRY(rsh_layout_parse("f32[8/a~, 6/b%3] on a=2,b=2", &l));
    RSH_TRY(rsh_mesh_places(m, RSH_MESH_POSITIONS, l, places));
    CHECK(places[0].kind == RSH_PLACE_SHARD && places[0].dim == 0 && places[1].dim == 1);
    rsh_layout_free(l);
    return RSH_OK;
}
static void what_placements_cannot_say_is_refused(void **state) {
    (void)state;
    run_question((question){unsayable, NULL, 2, {2, 2}, NULL, NULL});
}

static rsh_status wrong(const rsh_mesh *m, void *ctx) {
    (void)ctx;
    rsh_layout *l = NULL;
    const int64_t shape[] = {4, 4};
    const rsh_place fine[] = {rsh_place_shard(0), rsh_place_replicate()},
                    beyond[] = {rsh_place_shard(2), rsh_place_replicate()},
                    below[] = {rsh_place_shard(-3), rsh_place_replicate()},
                    mixed[] = {rsh_place_partial(RSH_OP_SUM), rsh_place_partial(RSH_OP_MAX)},
                    none[] = {rsh_place_partial(RSH_OP_NONE), rsh_place_replicate()},
                    average[] = {rsh_place_partial(RSH_OP_AVG), rsh_place_replicate()};
    CHECK_STATUS(RSH_EVALUE, rsh_mesh_layout(m, RSH_MESH_POSITIONS, 1, fine, RSH_F32, 2, shape, &l));
    CHECK_STATUS(RSH_EINDEX, rsh_mesh_layout(m, RSH_MESH_POSITIONS, 2, beyond, RSH_F32, 2, shape, &l));
    CHECK_STATUS(RSH_EINDEX, rsh_mesh_layout(m, RSH_MESH_POSITIONS, 2, below, RSH_F32, 2, shape, &l));
    CHECK_STATUS(RSH_EINDEX, rsh_mesh_layout(m, RSH_MESH_POSITIONS, 2, fine, RSH_F32, 0, NULL, &l));
    CHECK_STATUS(RSH_EUNSUP, rsh_mesh_layout(m, RSH_MESH_POSITIONS, 2, mixed, RSH_F32, 2, shape, &l));
    CHECK_STATUS(RSH_EVALUE, rsh_mesh_layout(m, RSH_MESH_POSITIONS, 2, none, RSH_F32, 2, shape, &l));
    CHECK_STATUS(RSH_ETYPE, rsh_mesh_layout(m, RSH_MESH_POSITIONS, 2, average, RSH_I32, 2, shape, &l));
    CHECK_STATUS(RSH_EVALUE, rsh_mesh_layout(m, RSH_MESH_POSITIONS, 2, fine, RSH_F32, 9, shape, &l));
    CHECK(!l);
    return RSH_OK;
}
static void placements_that_do_not_fit_the_tensor_are_refused(void **state) {
    (void)state;
    run_question((question){wrong, NULL, 2, {2, 2}, NULL, NULL});
}

static int keep(void *ctx, const char *text, size_t length) {
    strncat(ctx, text, length);
    return 0;
}
static void placements_print_as_one_line(void **state) {
    (void)state;
    char text[64] = "";
    const rsh_place places[] = {rsh_place_shard(-1), rsh_place_replicate(), rsh_place_partial(RSH_OP_AVG)};
    assert_int_equal(rsh_places_print(3, places, &(rsh_sink){keep, text}), RSH_OK);
    assert_string_equal(text, "(S-1, R, P(avg))");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_dims_of_the_mesh_cut_one_dim_from_left_to_right),
        cmocka_unit_test(placements_cut_as_chunks_do_and_come_back),
        cmocka_unit_test(names_that_the_notation_cannot_spell_get_names_of_their_own),
        cmocka_unit_test(what_placements_cannot_say_is_refused),
        cmocka_unit_test(placements_that_do_not_fit_the_tensor_are_refused),
        cmocka_unit_test(placements_print_as_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
