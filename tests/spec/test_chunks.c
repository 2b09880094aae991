/* Chunks: the arithmetic of cutting a dim, and which rank owns which chunk. */
#include "spec/make.h"

typedef struct row {
    int64_t n, chunks, s, sizes[8], offsets[8];
} row;

static const row table[] = {
    {12, 4, 3, {3, 3, 3, 3}, {0, 3, 6, 9}},
    {11, 4, 3, {3, 3, 3, 2}, {0, 3, 6, 9}},
    {13, 4, 4, {4, 4, 4, 1}, {0, 4, 8, 12}},
    {10, 4, 3, {3, 3, 3, 1}, {0, 3, 6, 9}},
    {9, 4, 3, {3, 3, 3, 0}, {0, 3, 6, 9}},
    {5, 4, 2, {2, 2, 1, 0}, {0, 2, 4, 5}},
    {6, 4, 2, {2, 2, 2, 0}, {0, 2, 4, 6}},
    {2, 4, 1, {1, 1, 0, 0}, {0, 1, 2, 2}},
    {1, 4, 1, {1, 0, 0, 0}, {0, 1, 1, 1}},
    {0, 4, 0, {0, 0, 0, 0}, {0, 0, 0, 0}},
    {21, 4, 6, {6, 6, 6, 3}, {0, 6, 12, 18}},
    {7, 8, 1, {1, 1, 1, 1, 1, 1, 1, 0}, {0, 1, 2, 3, 4, 5, 6, 7}},
    {10, 8, 2, {2, 2, 2, 2, 2, 0, 0, 0}, {0, 2, 4, 6, 8, 10, 10, 10}},
    {17, 8, 3, {3, 3, 3, 3, 3, 2, 0, 0}, {0, 3, 6, 9, 12, 15, 17, 17}},
};

static int64_t split(int64_t n, int64_t chunks) {
    int64_t s = -1;
    assert_int_equal(rsh_chunk_split(n, chunks, &s), RSH_OK);
    return s;
}

/* PyTorch's scenario P1. */
static void split_and_chunk_sizes_are_those_of_the_table(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const row *r = &table[i];
        assert_int_equal(split(r->n, r->chunks), r->s);
        for (int64_t c = 0; c < r->chunks; c++) {
            assert_int_equal(rsh_chunk_size(r->n, r->s, c), r->sizes[c]);
            assert_int_equal(rsh_chunk_offset(r->n, r->s, c), r->offsets[c]);
        }
    }
    assert_int_equal(split(5, 4), 2);
    assert_int_equal(split(11, 1), 11);
    assert_int_equal(split(11, 11), 1);
    assert_int_equal(rsh_chunk_size(5, 2, 3), 0);
}

static void chunks_tile_the_dim_and_only_those_at_the_end_are_empty(void **state) {
    (void)state;
    for (int64_t n = 0; n < 60; n++) {
        for (int64_t chunks = 1; chunks < 20; chunks++) {
            int64_t s = split(n, chunks), at = 0, smaller = 0;
            bool ended = false;
            for (int64_t c = 0; c < chunks; c++) {
                int64_t size = rsh_chunk_size(n, s, c);
                assert_int_equal(rsh_chunk_offset(n, s, c), at);
                assert_true(size >= 0 && size <= s && !(ended && size));
                smaller += size > 0 && size < s;
                ended = size == 0;
                at += size;
            }
            assert_int_equal(at, n);
            assert_true(smaller <= 1);
        }
    }
}

static void a_split_into_no_chunks_or_of_a_negative_dim_is_refused(void **state) {
    (void)state;
    int64_t s = 77;
    assert_int_equal(rsh_chunk_split(5, 0, &s), RSH_EVALUE);
    assert_int_equal(rsh_chunk_split(5, -1, &s), RSH_EVALUE);
    assert_int_equal(rsh_chunk_split(-1, 2, &s), RSH_EVALUE);
    assert_int_equal(s, 77);
}

static void chunks_of_the_longest_dims_do_not_overflow(void **state) {
    (void)state;
    int64_t n = INT64_MAX, s = split(n, 3);
    assert_int_equal(s, INT64_MAX / 3 + (INT64_MAX % 3 != 0));
    assert_true(rsh_chunk_offset(n, s, 1) == s && rsh_chunk_offset(n, s, 2) == 2 * s);
    assert_true(rsh_chunk_size(n, s, 2) == n - 2 * s);
    assert_true(rsh_chunk_offset(n, s, 4) == n && rsh_chunk_size(n, s, 4) == 0);
}

static void expect_params(const rsh_spec *spec, int rank, int64_t start, int64_t size) {
    int64_t a = -1, b = -1;
    assert_int_equal(rsh_spec_chunk_params(spec, 21, 4, rank, &a, &b), RSH_OK);
    assert_int_equal(a, start);
    assert_int_equal(b, size);
}

/* PyTorch's scenario P2. */
static void sharding_params_follow_the_order_of_placements(void **state) {
    (void)state;
    rsh_spec *up = NULL, *down = NULL;
    assert_int_equal(rsh_spec_chunk_ranks(0, 4, NULL, &up), RSH_OK);
    assert_int_equal(rsh_spec_chunk_ranks(0, 4, (const int[]){3, 2, 1, 0}, &down), RSH_OK);
    expect_params(up, 1, 6, 6);
    expect_params(up, 3, 18, 3);
    expect_params(down, 1, 12, 6);
    expect_params(down, 3, 0, 6);
    int64_t start = 5, size = 5, index = 5;
    assert_int_equal(rsh_spec_chunk_params(up, 21, 4, 4, &start, &size),
                     RSH_EVALUE); /* B-21: not the size of the last chunk */
    assert_int_equal(rsh_spec_chunk_params(up, 21, 0, 0, &start, &size), RSH_EVALUE);
    assert_int_equal(rsh_spec_chunk_index(down, 3, &index), RSH_OK);
    assert_int_equal(index, 0);
    assert_int_equal(rsh_spec_chunk_index(down, 4, &index), RSH_ERUNTIME);
    assert_int_equal(rsh_spec_chunk_index(down, -1, &index), RSH_ERUNTIME);
    assert_true(start == 5 && size == 5 && index == 0);
    rsh_spec_free(up);
    rsh_spec_free(down);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_and_chunk_sizes_are_those_of_the_table),
        cmocka_unit_test(chunks_tile_the_dim_and_only_those_at_the_end_are_empty),
        cmocka_unit_test(a_split_into_no_chunks_or_of_a_negative_dim_is_refused),
        cmocka_unit_test(chunks_of_the_longest_dims_do_not_overflow),
        cmocka_unit_test(sharding_params_follow_the_order_of_placements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
