/* Specs: chunks, boxes and user-defined kinds; their metadata, their texts, and inference from shards. */
#include "spec/make.h"

#include <reshard/alloc.h>

static rsh_spec *parse(const char *text) {
    rsh_spec *s = NULL;
    assert_int_equal(rsh_spec_parse(text, &s), RSH_OK);
    return s;
}

static rsh_tensor_meta *build(const rsh_spec *s, int ndim, const int64_t *size) {
    rsh_tensor_meta *m = NULL;
    assert_int_equal(rsh_spec_build(s, ndim, size, NULL, &m), RSH_OK);
    return m;
}

static void expect_shards(const rsh_tensor_meta *m, int64_t n, const rsh_shard_meta *shards) {
    assert_int_equal(m->nshards, n);
    for (int64_t i = 0; i < n; i++) assert_true(rsh_shard_meta_equal(&m->shards[i], &shards[i]));
}

/* ---- chunks ---- */

static void chunks_come_in_the_order_of_placements(void **state) {
    (void)state;
    rsh_spec *s = parse("chunk(0; rank:2, rank:0, rank:1)");
    rsh_tensor_meta *m = build(s, 2, DIMS(5, 2));
    expect_shards(m, 3,
                  (rsh_shard_meta[]){BOX(2, (0, 0), (2, 2), 2), BOX(2, (2, 0), (2, 2), 0), BOX(2, (4, 0), (1, 2), 1)});
    rsh_tensor_meta_free(m);
    rsh_spec_free(s);
}

static void empty_chunks_are_kept_and_lie_inside(void **state) {
    (void)state;
    rsh_spec *s = NULL;
    assert_int_equal(rsh_spec_chunk_ranks(0, 4, NULL, &s), RSH_OK);
    rsh_tensor_meta *m = build(s, 2, DIMS(2, 20));
    expect_shards(m, 4,
                  (rsh_shard_meta[]){BOX(2, (0, 0), (1, 20), 0), BOX(2, (1, 0), (1, 20), 1), BOX(2, (2, 0), (0, 20), 2),
                                     BOX(2, (2, 0), (0, 20), 3)});
    assert_int_equal(rsh_shards_check_tensor(m->nshards, m->shards, 2, DIMS(2, 20)), RSH_OK); /* B-05 */
    rsh_tensor_meta_free(m);
    m = build(s, 1, DIMS(5));
    expect_shards(
        m, 4, (rsh_shard_meta[]){BOX(1, (0), (2), 0), BOX(1, (2), (2), 1), BOX(1, (4), (1), 2), BOX(1, (5), (0), 3)});
    rsh_tensor_meta_free(m);
    m = build(s, 2, DIMS(0, 3));
    for (int i = 0; i < 4; i++)
        assert_true(m->shards[i].offsets[0] == 0 && m->shards[i].sizes[0] == 0 && m->shards[i].sizes[1] == 3);
    rsh_tensor_meta_free(m);
    rsh_spec_free(s);
}

static void chunks_of_any_size_and_owners_cover_and_do_not_overlap(void **state) {
    (void)state;
    for (int64_t n = 0; n < 20; n++)
        for (int W = 1; W < 10; W++)
            for (int dim = -2; dim < 2; dim++) {
                rsh_spec *s = NULL;
                int ranks[10], d = -1;
                for (int i = 0; i < W; i++) ranks[i] = i * 7 % 3; /* several chunks on a rank */
                assert_int_equal(rsh_spec_chunk_ranks(dim, W, ranks, &s), RSH_OK);
                assert_int_equal(rsh_spec_chunk_dim(s, 2, &d), RSH_OK);
                assert_int_equal(d, (dim + 2) % 2);
                int64_t size[] = {n, 3};
                rsh_tensor_meta *m = build(s, 2, size);
                assert_int_equal(rsh_shards_check_overlap(m->nshards, m->shards), RSH_OK);
                assert_int_equal(rsh_shards_check_tensor(m->nshards, m->shards, 2, size), RSH_OK);
                rsh_tensor_meta_free(m);
                rsh_spec_free(s);
            }
}

static void a_dim_that_the_tensor_does_not_have_is_refused_when_built(void **state) {
    (void)state;
    static const int dims[] = {2, -3, 0};
    for (int i = 0; i < 3; i++) {
        rsh_spec *s = NULL;
        rsh_tensor_meta *m = NULL;
        int d = 77;
        assert_int_equal(rsh_spec_chunk_ranks(dims[i], 2, NULL, &s), RSH_OK);
        assert_int_equal(rsh_spec_build(s, i < 2 ? 2 : 0, DIMS(4, 4), NULL, &m), RSH_EVALUE);
        assert_int_equal(rsh_spec_chunk_dim(s, i < 2 ? 2 : 0, &d), RSH_EVALUE);
        assert_true(!m && d == 77);
        rsh_spec_free(s);
    }
}

static void a_chunk_spec_without_placements_or_with_bad_ones_is_refused(void **state) {
    (void)state;
    rsh_spec *s = NULL;
    rsh_remote_device bad = {.rank = -2};
    assert_int_equal(rsh_spec_chunk(0, 0, &bad, &s), RSH_EVALUE);
    assert_int_equal(rsh_spec_chunk(0, 1, NULL, &s), RSH_EVALUE);
    assert_int_equal(rsh_spec_chunk(0, 1, &bad, &s), RSH_EVALUE);
    assert_int_equal(rsh_spec_chunk_ranks(0, 2, (const int[]){0, -1}, &s), RSH_EVALUE);
    assert_null(s);
}

static void questions_about_chunks_are_for_chunk_specs(void **state) {
    (void)state;
    rsh_spec *s = parse("boxes([0]+[4] rank:0)"), *c = parse("chunk(-1; rank:4/cuda:2, trainer0)");
    int dim;
    int64_t a, b;
    const rsh_remote_device *p = NULL;
    assert_int_equal(rsh_spec_chunk_dim(s, 1, &dim), RSH_EUNSUP);
    assert_int_equal(rsh_spec_chunk_index(s, 0, &a), RSH_EUNSUP);
    assert_int_equal(rsh_spec_chunk_params(s, 4, 1, 0, &a, &b), RSH_EUNSUP);
    assert_int_equal(rsh_spec_chunk_placements(s, &a, &p), RSH_EUNSUP);
    assert_int_equal(rsh_spec_chunk_placements(c, &a, &p), RSH_OK);
    assert_true(a == 2 && p[0].rank == 4 && p[0].device.index == 2 && !strcmp(p[1].worker, "trainer0"));
    assert_string_equal(rsh_spec_kind_name(s), "boxes");
    assert_string_equal(rsh_spec_kind_name(c), "chunk");
    assert_true(!rsh_spec_self(s) && !rsh_spec_self(c));
    rsh_spec_free(c);
    rsh_spec_free(s);
}

/* ---- boxes ---- */

static void boxes_must_be_some_of_one_ndim_that_do_not_overlap(void **state) {
    (void)state;
    rsh_spec *s = NULL;
    rsh_shard_meta list[] = {BOX(2, (0, 0), (5, 5), 0), BOX(2, (4, 0), (5, 5), 1), BOX(1, (9), (1), 1)};
    assert_int_equal(rsh_spec_boxes(0, list, &s), RSH_EVALUE);
    assert_int_equal(rsh_spec_boxes(2, list, &s), RSH_EVALUE);
    list[1] = list[2];
    assert_int_equal(rsh_spec_boxes(2, list, &s), RSH_EVALUE);
    assert_null(s);
}

static void boxes_build_where_they_cover_the_size(void **state) {
    (void)state;
    rsh_spec *s = parse("boxes([0,0]+[5,5] rank:0; [5,0]+[5,5] rank:0)");
    rsh_tensor_meta *m = build(s, 2, DIMS(10, 5)), *none = NULL;
    expect_shards(m, 2, (rsh_shard_meta[]){BOX(2, (0, 0), (5, 5), 0), BOX(2, (5, 0), (5, 5), 0)});
    assert_int_equal(rsh_spec_build(s, 2, DIMS(10, 6), NULL, &none), RSH_EVALUE);
    assert_int_equal(rsh_spec_build(s, 2, DIMS(9, 5), NULL, &none), RSH_EVALUE);
    assert_int_equal(rsh_spec_build(s, 1, DIMS(50), NULL, &none), RSH_EVALUE);
    assert_null(none);
    rsh_tensor_meta_free(m);
    rsh_spec_free(s);
}

/* ---- text and equality ---- */

static void texts_are_canonical(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {" chunk ( -1 ;rank:0,\n trainer0 ,cuda:1) ", "chunk(-1; rank:0/cpu, trainer0/cpu, cuda:1)"},
        {"boxes([0,0]+[5,5] rank:0;[ 5 , 0 ] + [5,5])", "boxes([0,0]+[5,5] rank:0/cpu; [5,0]+[5,5])"},
        {"boxes([]+[])", "boxes([]+[])"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        rsh_spec *s = parse(pairs[i][0]);
        assert_string_equal(rsh_spec_text(s), pairs[i][1]);
        rsh_spec_free(s);
    }
}

static void wrong_texts_are_refused_at_their_column(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"", "spec:1: expected"},
        {"chunks(0; rank:0)", "spec:1: expected"},
        {"grid(4)", "spec:1: expected"},
        {"chunk", "spec:1: expected"},
        {"chunk()", "spec:7: expected a dim"},
        {"chunk(x; rank:0)", "spec:7: expected a dim"},
        {"chunk(0)", "spec:8: expected \";\""},
        {"chunk(0;)", "spec:9: expected a placement"},
        {"chunk(0; rank:0", "spec:16: expected \",\" or \")\", found the end"},
        {"chunk(0; rank:0,)", "spec:17: expected a placement"},
        {"chunk(0; rank:x)", "spec:10: \"rank:x\""},
        {"chunk(0; rank:0) x", "spec:18: expected the end"},
        {"chunk(99999999999; rank:0)", "dim 99999999999"},
        {"boxes()", "spec:7: expected \"[\""},
        {"boxes([0]+[1,2])", "as many offsets as sizes, got 1 and 2"},
        {"boxes([0][1])", "spec:10: expected \"+\""},
        {"boxes([-1]+[1])", "spec:8: expected a number"},
        {"boxes([99999999999999999999]+[1])", "larger than 2^63"},
        {"boxes([0]+[4]; [3]+[2])", "overlap"},
        {"boxes([0,0,0,0,0,0,0,0,0]+[1])", "at most 8"},
        {"boxes([0]+[1] rank:0 rank:1)", "spec:22: expected"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        rsh_spec *s = NULL;
        assert_int_equal(rsh_spec_parse(bad[i][0], &s), RSH_EVALUE);
        if (!strstr(rsh_error_detail(), bad[i][1])) fail_msg("%s: %s", bad[i][0], rsh_error_detail());
        assert_null(s);
    }
    rsh_spec *s = NULL;
    assert_int_equal(rsh_spec_parse("chunk(0; rank:0/gpu)", &s), RSH_ERUNTIME);
}

static rsh_remote_device any_placement(uint64_t *seed) {
    static const char *const texts[] = {"rank:%d", "rank:%d/cuda:3", "cuda:%d", "w_%d", "w-%d.a/cpu:1", "meta"};
    char text[40];
    rsh_remote_device p;
    snprintf(text, sizeof text, texts[make_below(seed, 6)], (int)make_below(seed, 40));
    assert_int_equal(rsh_remote_device_parse(text, &p), RSH_OK);
    return p;
}

static void expect_text_round_trip(const rsh_spec *s) {
    rsh_spec *back = parse(rsh_spec_text(s)), *copy = NULL;
    copy = rsh_spec_hold(s);
    assert_string_equal(rsh_spec_text(back), rsh_spec_text(s));
    assert_true(rsh_spec_equal(s, back, -1) && rsh_spec_equal(s, copy, -1) && rsh_spec_equal(copy, back, 4));
    rsh_spec_free(copy);
    rsh_spec_free(back);
}

static void random_specs_come_back_from_their_text(void **state) {
    (void)state;
    uint64_t seed = make_seed("text");
    for (int i = 0; i < 3000; i++) {
        rsh_spec *s = NULL;
        rsh_remote_device owners[9];
        rsh_shard_meta list[13];
        int64_t n = 1 + make_below(&seed, 9), size[8];
        for (int64_t k = 0; k < n; k++) owners[k] = any_placement(&seed);
        assert_int_equal(rsh_spec_chunk((int)make_below(&seed, 9) - 4, n, owners, &s), RSH_OK);
        expect_text_round_trip(s);
        rsh_spec_free(s);
        int ndim = (int)make_below(&seed, 5);
        for (int d = 0; d < ndim; d++) size[d] = make_below(&seed, INT64_C(1) << make_below(&seed, 60));
        n = make_tiling(&seed, ndim, size, 12, 4, list);
        for (int64_t k = 0; k < n; k++) {
            list[k].has_placement = make_below(&seed, 4);
            list[k].placement = any_placement(&seed);
        }
        assert_int_equal(rsh_spec_boxes(n, list, &s), RSH_OK);
        expect_text_round_trip(s);
        rsh_spec_free(s);
    }
}

static void expect_equal(const char *a, const char *b, int ndim, bool equal) {
    rsh_spec *x = parse(a), *y = parse(b);
    assert_int_equal(rsh_spec_equal(x, y, ndim), equal);
    assert_int_equal(rsh_spec_equal(y, x, ndim), equal);
    rsh_spec_free(x);
    rsh_spec_free(y);
}

static void specs_are_equal_up_to_the_sign_of_the_dim(void **state) {
    (void)state;
    expect_equal("chunk(-1; rank:0, rank:1)", "chunk(1; rank:0, rank:1)", 2, true); /* B-04 */
    expect_equal("chunk(-1; rank:0, rank:1)", "chunk(1; rank:0, rank:1)", 3, false);
    expect_equal("chunk(-1; rank:0, rank:1)", "chunk(1; rank:0, rank:1)", -1, false);
    expect_equal("chunk(0; rank:0, rank:1)", "chunk(0; rank:1, rank:0)", 2, false);
    expect_equal("chunk(0; rank:0, rank:1)", "chunk(0; rank:0)", 2, false);
    expect_equal("chunk(0; rank:0/cpu)", "chunk(0; rank:0/cuda:0)", 2, false);
    expect_equal("chunk(0; rank:0)", "boxes([0]+[4] rank:0)", 1, false);
    expect_equal("boxes([0]+[4] rank:0; [4]+[1] rank:1)", "boxes([0]+[4] rank:0;[4]+[1] rank:1)", 1, true);
    expect_equal("boxes([0]+[4] rank:0; [4]+[1] rank:1)", "boxes([4]+[1] rank:1; [0]+[4] rank:0)", 1, false);
}

/* ---- inference ---- */

static void expect_inferred(int64_t n, const rsh_shard_meta *shards, const char *text) {
    rsh_spec *s = NULL;
    assert_int_equal(rsh_spec_infer(n, shards, &s), RSH_OK);
    if (text)
        assert_string_equal(rsh_spec_text(s), text);
    else
        assert_string_equal(rsh_spec_kind_name(s), "boxes");
    rsh_spec_free(s);
}

/* PyTorch's scenario P5. */
static void uneven_grid_and_single_shards_are_inferred_as_boxes(void **state) {
    (void)state;
    expect_inferred(2, (rsh_shard_meta[]){BOX(2, (0, 0), (5, 5), 0), BOX(2, (5, 0), (10, 5), 1)}, NULL);
    expect_inferred(2, (rsh_shard_meta[]){BOX(1, (0), (16), 0), BOX(1, (16), (9), 1)}, NULL);
    expect_inferred(4,
                    (rsh_shard_meta[]){BOX(2, (0, 0), (5, 5), 0), BOX(2, (0, 5), (5, 5), 1), BOX(2, (5, 0), (5, 5), 2),
                                       BOX(2, (5, 5), (5, 5), 3)},
                    NULL);
    expect_inferred(1, (rsh_shard_meta[]){BOX(2, (0, 0), (5, 5), 0)}, NULL);
    expect_inferred(2, (rsh_shard_meta[]){BOX(1, (0), (0), 0), BOX(1, (0), (0), 1)}, NULL);
}

/* PyTorch's scenario P5. */
static void chunks_over_permuted_ranks_are_inferred_in_placement_order(void **state) {
    (void)state;
    static const struct {
        int dim, ndim;
        int64_t size[5];
    } cases[] = {{0, 2, {4, 16}},     {0, 3, {5, 15, 16}},     {1, 2, {12, 16}},
                 {2, 3, {4, 18, 15}}, {3, 4, {7, 12, 16, 37}}, {4, 5, {50, 4, 18, 15, 77}}};
    uint64_t seed = make_seed("inference");
    for (size_t i = 0; i < 6 * 24; i++) {
        int ranks[4], order[4], c = (int)(i % 6);
        rsh_spec *s = NULL;
        rsh_shard_meta mixed[4];
        make_permutation(&seed, 4, ranks);
        make_permutation(&seed, 4, order);
        assert_int_equal(rsh_spec_chunk_ranks(cases[c].dim, 4, ranks, &s), RSH_OK);
        rsh_tensor_meta *m = build(s, cases[c].ndim, cases[c].size);
        for (int k = 0; k < 4; k++) mixed[k] = m->shards[order[k]]; /* the order of the list does not matter */
        expect_inferred(4, mixed, rsh_spec_text(s));
        rsh_tensor_meta_free(m);
        rsh_spec_free(s);
    }
}

static void chunks_that_are_empty_at_the_end_are_inferred(void **state) {
    (void)state;
    rsh_shard_meta list[] = {BOX(1, (0), (2), 3), BOX(1, (2), (2), 1), BOX(1, (4), (1), 0), BOX(1, (5), (0), 2)};
    expect_inferred(4, list, "chunk(0; rank:3/cpu, rank:1/cpu, rank:0/cpu, rank:2/cpu)");
    list[3].offsets[0] = 6; /* the offset that PyTorch would choose */
    expect_inferred(4, list, NULL);
}

/* PyTorch's defect B-07. */
static void sizes_that_only_look_like_chunks_are_boxes(void **state) {
    (void)state;
    expect_inferred(
        3, (rsh_shard_meta[]){BOX(2, (0, 0), (2, 2), 0), BOX(2, (2, 0), (2, 2), 1), BOX(2, (0, 2), (4, 2), 2)}, NULL);
    expect_inferred(3, (rsh_shard_meta[]){BOX(1, (0), (2), 0), BOX(1, (2), (1), 1), BOX(1, (3), (2), 2)},
                    NULL); /* 2, 1, 2 instead of 2, 2, 1 */
    expect_inferred(2, (rsh_shard_meta[]){BOX(2, (0, 0), (2, 4), 0), BOX(2, (2, 0), (2, 3), 1)}, NULL);
    expect_inferred(2, (rsh_shard_meta[]){BOX(1, (0), (2), 0), BOX(1, (3), (2), 1)}, NULL); /* with a gap */
}

static void without_owners_shards_are_boxes(void **state) {
    (void)state;
    expect_inferred(2, (rsh_shard_meta[]){BOX(1, (0), (2), 0), BOX(1, (2), (2), -1)}, NULL);
}

static void shards_that_no_spec_can_have_are_refused(void **state) {
    (void)state;
    rsh_spec *s = NULL;
    rsh_shard_meta overlapping[] = {BOX(1, (0), (3), 0), BOX(1, (2), (3), 1)},
                   mixed[] = {BOX(1, (0), (3), 0), BOX(2, (0, 3), (3, 3), 1)};
    assert_int_equal(rsh_spec_infer(0, overlapping, &s), RSH_EVALUE);
    assert_int_equal(rsh_spec_infer(2, overlapping, &s), RSH_EVALUE);
    assert_int_equal(rsh_spec_infer(2, mixed, &s), RSH_EVALUE);
    assert_null(s);
}

/* ---- a user-defined kind: square blocks of equal size, assigned row by row ---- */

static int grids_alive;

static rsh_status grid_build(const void *self, int ndim, const int64_t *size, const rsh_tensor_props *props,
                             rsh_tensor_meta **out) {
    int64_t block = *(const int64_t *)self, rows = size[0] / block, columns = size[1] / block, n = 0;
    rsh_shard_meta list[64];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++, n++)
            list[n] = make_box(2, DIMS(i * block, j * block), DIMS(block, block), (int)n);
    return rsh_tensor_meta_new(n, list, ndim, size, props, out);
}
static int64_t *grid_self(int64_t block) {
    int64_t *self = malloc(sizeof *self);
    assert_non_null(self);
    *self = block;
    grids_alive++;
    return self;
}
static void grid_free(void *self) {
    grids_alive--;
    free(self);
}
static rsh_status grid_print(const void *self, const rsh_sink *sink) {
    char text[32];
    int n = snprintf(text, sizeof text, "%lld", (long long)*(const int64_t *)self);
    return sink->write(sink->ctx, text, (size_t)n) ? RSH_EIO : RSH_OK;
}
static const rsh_spec_kind grid = {
    .name = "grid", .build = grid_build, .free = grid_free, .print = grid_print};

/* PyTorch's scenario P6. */
static void a_grid_of_a_users_kind_builds_its_metadata(void **state) {
    (void)state;
    rsh_spec *s = NULL, *copy = NULL, *other = NULL;
    rsh_layout *l = NULL;
    assert_int_equal(rsh_spec_new(&grid, grid_self(4), &s), RSH_OK);
    assert_string_equal(rsh_spec_text(s), "grid(4)");
    assert_string_equal(rsh_spec_kind_name(s), "grid");
    assert_int_equal(*(const int64_t *)rsh_spec_self(s), 4);
    rsh_tensor_meta *m = build(s, 2, DIMS(8, 8));
    expect_shards(m, 4,
                  (rsh_shard_meta[]){BOX(2, (0, 0), (4, 4), 0), BOX(2, (0, 4), (4, 4), 1), BOX(2, (4, 0), (4, 4), 2),
                                     BOX(2, (4, 4), (4, 4), 3)});
    assert_int_equal(rsh_spec_layout(s, RSH_F32, 2, DIMS(8, 8), &l), RSH_OK);
    assert_string_equal(rsh_layout_text(l), "f32[8, 8] boxes 0:[0:4,0:4] 1:[0:4,4:8] 2:[4:8,0:4] 3:[4:8,4:8]");
    copy = rsh_spec_hold(s);
    assert_int_equal(rsh_spec_new(&grid, grid_self(2), &other), RSH_OK);
    assert_true(rsh_spec_equal(s, copy, 2));
    assert_false(rsh_spec_equal(s, other, 2));
    assert_ptr_equal(s, copy);
    assert_int_equal(grids_alive, 2);
    rsh_layout_free(l);
    rsh_tensor_meta_free(m);
    rsh_spec_free(s);
    assert_int_equal(grids_alive, 2);
    rsh_spec_free(copy);
    assert_int_equal(grids_alive, 1);
    rsh_spec_free(other);
    assert_int_equal(grids_alive, 0);
}

static rsh_status empty_build(const void *self, int ndim, const int64_t *size, const rsh_tensor_props *props,
                              rsh_tensor_meta **out) {
    (void)self, (void)ndim, (void)size, (void)props, (void)out;
    return RSH_OK;
}
static rsh_status failing_print(const void *self, const rsh_sink *sink) {
    (void)self, (void)sink;
    return RSH_EATTR;
}

static void kinds_that_lack_something_are_refused_and_their_errors_forwarded(void **state) {
    (void)state;
    rsh_spec *s = NULL;
    rsh_tensor_meta *m = NULL;
    rsh_spec_kind kind = {.name = "mine", .build = empty_build};
    assert_int_equal(rsh_spec_new(&kind, NULL, &s), RSH_OK);
    assert_string_equal(rsh_spec_text(s), "mine()");
    assert_int_equal(rsh_spec_build(s, 0, NULL, NULL, &m), RSH_ERUNTIME); /* build succeeds, but sets no metadata */
    rsh_spec_free(s);
    s = NULL;
    static const char *const names[] = {"chunk", "boxes", "", NULL};
    for (int i = 0; i < 4; i++) {
        kind.name = names[i];
        assert_int_equal(rsh_spec_new(&kind, NULL, &s), RSH_EVALUE);
    }
    kind = (rsh_spec_kind){.name = "mine"};
    assert_int_equal(rsh_spec_new(&kind, NULL, &s), RSH_EVALUE);
    kind = grid;
    kind.print = failing_print;
    int64_t *self = grid_self(4);
    assert_int_equal(rsh_spec_new(&kind, self, &s), RSH_EATTR);
    assert_int_equal(grids_alive, 1); /* after an error the caller still owns the grid */
    grid_free(self);
    assert_int_equal(rsh_spec_new(NULL, NULL, &s), RSH_EVALUE);
    assert_true(!s && !m);
}

/* ---- memory that runs out ---- */

typedef rsh_status (*step)(void);

static rsh_status step_parse_chunk(void) {
    rsh_spec *s = NULL, *copy = NULL;
    rsh_tensor_meta *m = NULL, *twin = NULL;
    rsh_layout *l = NULL;
    rsh_status st =
        rsh_spec_parse("chunk(1; rank:3, rank:2, rank:1, rank:0, rank:4, rank:5, rank:6, rank:7, rank:8)", &s);
    if (!st) copy = rsh_spec_hold(s);
    if (!st) st = rsh_spec_build(copy, 2, DIMS(4, 11), NULL, &m);
    if (!st) st = rsh_tensor_meta_copy(m, &twin);
    if (!st) st = rsh_tensor_meta_layout(twin, &l);
    rsh_layout_free(l);
    rsh_tensor_meta_free(twin);
    rsh_tensor_meta_free(m);
    rsh_spec_free(copy);
    rsh_spec_free(s);
    return st;
}

static rsh_status step_boxes(void) {
    rsh_spec *s = NULL, *again = NULL;
    rsh_layout *l = NULL;
    rsh_status st = rsh_spec_parse("boxes([0,0]+[2,2] rank:1; [2,0]+[2,2] rank:1; [0,2]+[4,2] rank:3)", &s);
    if (!st) st = rsh_spec_layout(s, RSH_F32, 2, DIMS(4, 4), &l);
    if (!st) st = rsh_spec_from_layout(l, &again);
    if (!st && rsh_spec_equal(s, again, 2) != 1) st = RSH_EIO;
    rsh_layout_free(l);
    rsh_spec_free(again);
    rsh_spec_free(s);
    return st;
}

static rsh_status step_infer(void) {
    rsh_spec *s = NULL;
    rsh_shard_meta list[] = {BOX(1, (4), (4), 3), BOX(1, (0), (4), 1)};
    rsh_status st = rsh_spec_infer(2, list, &s);
    rsh_spec_free(s);
    return st;
}

static rsh_status step_grid(void) {
    int64_t *self = grid_self(2);
    rsh_spec *s = NULL;
    rsh_status st = rsh_spec_new(&grid, self, &s);
    if (st) grid_free(self);
    rsh_spec_free(s);
    return st;
}

static rsh_status step_load(void) {
    static const char text[] =
        "{\"version\": 1, \"size\": [4], \"dtype\": \"f32\", \"layout\": \"strided\", \"requires_grad\": false, "
        "\"memory_format\": 0,"
        " \"pin_memory\": false, \"shards\": [{\"offsets\": [0], \"sizes\": [4], \"placement\": null}]}";
    rsh_tensor_meta *m = NULL;
    rsh_status st = rsh_tensor_meta_load(text, sizeof text - 1, &m);
    rsh_tensor_meta_free(m);
    return st;
}

static void every_failed_allocation_is_enomem_and_nothing_leaks(void **state) {
    (void)state;
    static const step steps[] = {step_parse_chunk, step_boxes, step_infer, step_grid, step_load};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        uint64_t live = rsh_alloc_get_stats().live;
        rsh_status st = RSH_ENOMEM;
        int64_t n = 0;
        for (; st == RSH_ENOMEM; n++) {
            rsh_alloc_fail_at(n);
            st = steps[i]();
            rsh_alloc_fail_at(-1);
            assert_int_equal(rsh_alloc_get_stats().live, live);
            assert_int_equal(grids_alive, 0);
            assert_true(n < 1000);
        }
        assert_int_equal(st, RSH_OK);
        assert_true(n > 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_come_in_the_order_of_placements),
        cmocka_unit_test(empty_chunks_are_kept_and_lie_inside),
        cmocka_unit_test(chunks_of_any_size_and_owners_cover_and_do_not_overlap),
        cmocka_unit_test(a_dim_that_the_tensor_does_not_have_is_refused_when_built),
        cmocka_unit_test(a_chunk_spec_without_placements_or_with_bad_ones_is_refused),
        cmocka_unit_test(questions_about_chunks_are_for_chunk_specs),
        cmocka_unit_test(boxes_must_be_some_of_one_ndim_that_do_not_overlap),
        cmocka_unit_test(boxes_build_where_they_cover_the_size),
        cmocka_unit_test(texts_are_canonical),
        cmocka_unit_test(wrong_texts_are_refused_at_their_column),
        cmocka_unit_test(random_specs_come_back_from_their_text),
        cmocka_unit_test(specs_are_equal_up_to_the_sign_of_the_dim),
        cmocka_unit_test(uneven_grid_and_single_shards_are_inferred_as_boxes),
        cmocka_unit_test(chunks_over_permuted_ranks_are_inferred_in_placement_order),
        cmocka_unit_test(chunks_that_are_empty_at_the_end_are_inferred),
        cmocka_unit_test(sizes_that_only_look_like_chunks_are_boxes),
        cmocka_unit_test(without_owners_shards_are_boxes),
        cmocka_unit_test(shards_that_no_spec_can_have_are_refused),
        cmocka_unit_test(a_grid_of_a_users_kind_builds_its_metadata),
        cmocka_unit_test(kinds_that_lack_something_are_refused_and_their_errors_forwarded),
        cmocka_unit_test(every_failed_allocation_is_enomem_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
