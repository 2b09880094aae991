/* Shards: checks for boxes that overlap, and for boxes that tile a tensor. */
#include "spec/make.h"

#include <time.h>

static rsh_status check2(rsh_shard_meta a, rsh_shard_meta b) {
    return rsh_shards_check_overlap(2, (rsh_shard_meta[]){a, b});
}

/* PyTorch's scenario P3. */
static void boxes_that_touch_do_not_overlap_and_others_do(void **state) {
    (void)state;
    rsh_shard_meta a = BOX(2, (0, 0), (5, 5), 0), b = BOX(3, (5, 0, 5), (5, 5, 5), 0);
    assert_int_equal(check2(a, BOX(2, (5, 0), (5, 5), 1)), RSH_OK);
    assert_int_equal(check2(a, BOX(2, (4, 0), (5, 5), 1)), RSH_EVALUE);
    assert_int_equal(check2(a, BOX(2, (0, 4), (5, 5), 1)), RSH_EVALUE);
    assert_int_equal(check2(b, BOX(3, (5, 5, 5), (5, 5, 5), 1)), RSH_OK);
    assert_int_equal(check2(b, BOX(3, (5, 4, 5), (5, 5, 5), 1)), RSH_EVALUE);
    assert_int_equal(check2(b, BOX(3, (5, 4, 9), (5, 5, 5), 1)), RSH_EVALUE);
    assert_int_equal(rsh_shards_check_overlap(1, &a), RSH_OK);
    assert_int_equal(rsh_shards_check_overlap(0, NULL), RSH_OK);
}

static void the_two_that_overlap_are_named(void **state) {
    (void)state;
    rsh_shard_meta list[] = {BOX(2, (0, 0), (5, 5), 0), BOX(2, (5, 0), (5, 5), 1), BOX(2, (4, 3), (2, 2), 2),
                             BOX(2, (4, 4), (1, 1), 3)};
    assert_int_equal(rsh_shards_check_overlap(4, list), RSH_EVALUE);
    assert_string_equal(rsh_error_detail(),
                        "shards 0 and 2 overlap: [0,0]+[5,5] rank:0/cpu and [4,3]+[2,2] rank:2/cpu");
}

static void empty_boxes_overlap_nothing(void **state) {
    (void)state;
    rsh_shard_meta whole = BOX(1, (0), (5), 0), inside = BOX(1, (3), (0), 1);
    assert_int_equal(check2(whole, inside), RSH_OK); /* B-30 */
    assert_int_equal(check2(inside, inside), RSH_OK);
    assert_int_equal(check2(BOX(2, (1, 2), (0, 3), 0), BOX(2, (0, 0), (9, 9), 0)), RSH_OK);
}

static void equal_boxes_and_scalars_overlap(void **state) {
    (void)state;
    rsh_shard_meta a = BOX(2, (1, 1), (2, 2), 0), scalar = {0};
    assert_int_equal(check2(a, a), RSH_EVALUE);
    assert_int_equal(check2(scalar, scalar), RSH_EVALUE);
    assert_int_equal(check2(a, scalar), RSH_EVALUE); /* different numbers of dims */
    assert_non_null(strstr(rsh_error_detail(), "dims"));
}

/* ---- comparison with the definition ---- */

static bool pair_overlaps(const rsh_shard_meta *a, const rsh_shard_meta *b) {
    bool all = true;
    for (int d = 0; d < a->ndim; d++) {
        bool meet = false;
        for (int64_t x = a->offsets[d]; x < a->offsets[d] + a->sizes[d]; x++)
            meet |= x >= b->offsets[d] && x < b->offsets[d] + b->sizes[d];
        all &= meet;
    }
    return all;
}

/* Finds the first shard that overlaps an earlier one, and the first such shard; returns false if there is none. */
static bool first_pair(int64_t n, const rsh_shard_meta *shards, int64_t *a, int64_t *b) {
    for (*b = 1; *b < n; ++*b)
        for (*a = 0; *a < *b; ++*a)
            if (pair_overlaps(&shards[*a], &shards[*b])) return true;
    return false;
}

static void expect_as_defined(int64_t n, const rsh_shard_meta *shards) {
    int64_t a, b, x = -1, y = -1;
    bool any = first_pair(n, shards, &a, &b);
    assert_int_equal(rsh_shards_check_overlap(n, shards), any ? RSH_EVALUE : RSH_OK);
    if (!any) return;
    assert_int_equal(sscanf(rsh_error_detail(), "shards %" SCNd64 " and %" SCNd64, &x, &y), 2);
    assert_int_equal(x, a);
    assert_int_equal(y, b);
}

static void random_boxes_overlap_as_the_definition_says(void **state) {
    (void)state;
    uint64_t seed = make_seed("overlap");
    rsh_shard_meta list[60];
    for (int i = 0; i < 6000; i++) {
        int ndim = (int)make_below(&seed, 5);
        int64_t n = make_below(&seed, i % 2 ? 8 : 60), reach = 2 + make_below(&seed, i % 2 ? 12 : 40),
                large = 1 + make_below(&seed, 4);
        for (int64_t k = 0; k < n; k++) {
            list[k] = (rsh_shard_meta){.ndim = ndim};
            for (int d = 0; d < ndim; d++)
                list[k].offsets[d] = make_below(&seed, reach), list[k].sizes[d] = make_below(&seed, large + 1);
        }
        expect_as_defined(n, list);
    }
}

/* Many boxes, so that the search really divides them: tilings that are exact, or in which one shard was moved or
 * enlarged. */
static void random_tilings_overlap_only_where_one_was_disturbed(void **state) {
    (void)state;
    enum { MOST = 700 };
    static rsh_shard_meta list[MOST + 1];
    uint64_t seed = make_seed("tilings");
    for (int i = 0; i < 60; i++) {
        int ndim = 1 + (int)make_below(&seed, 4);
        int64_t size[] = {40, 30, 20, 10, 0, 0, 0, 0};
        int64_t n = make_tiling(&seed, ndim, size, MOST, 8, list);
        expect_as_defined(n, list);
        rsh_shard_meta *m = &list[make_below(&seed, n)];
        int d = (int)make_below(&seed, ndim);
        if (make_below(&seed, 2))
            m->sizes[d]++;
        else
            m->offsets[d] += m->sizes[d] / 2;
        expect_as_defined(n, list);
    }
}

static void random_sticks_in_all_directions_are_found(void **state) {
    (void)state;
    enum { N = 600 };
    static rsh_shard_meta list[N];
    uint64_t seed = make_seed("sticks");
    for (int i = 0; i < 12; i++) {
        int ndim = 2 + (int)make_below(&seed, 3);
        int64_t spread = 3 + make_below(&seed, 60);
        for (int k = 0; k < N; k++) {
            int along = (int)make_below(&seed, ndim);
            list[k] = (rsh_shard_meta){.ndim = ndim};
            for (int d = 0; d < ndim; d++) {
                list[k].offsets[d] = d == along ? make_below(&seed, 3) : make_below(&seed, spread);
                list[k].sizes[d] = d == along ? make_below(&seed, spread) : 1;
            }
        }
        int64_t n = 1;
        /* keep boxes that overlap no earlier one, so that there are long lists without overlaps too */
        for (int k = 1; k < N; k++) {
            bool keep = true;
            for (int64_t j = 0; j < n && keep; j++) keep = !pair_overlaps(&list[j], &list[k]);
            if (keep) list[n++] = list[k];
        }
        expect_as_defined(n, list);
        for (int tries = 0; tries < 20;
             tries++) { /* one is enlarged or shifted, often across others, and then restored */
            rsh_shard_meta *m = &list[make_below(&seed, n)], was = *m;
            int d = (int)make_below(&seed, ndim);
            m->offsets[d] = make_below(&seed, m->offsets[d] + 1);
            m->sizes[d] += make_below(&seed, spread);
            expect_as_defined(n, list);
            *m = was;
        }
    }
}

/* Each of many boxes begins before another one along one dim, and after it along the other dim. */
static void one_stick_across_many_is_found_wherever_it_stands(void **state) {
    (void)state;
    enum { N = 200 };
    static rsh_shard_meta list[N + 1];
    for (int across = 0; across < 2; across++)
        for (int64_t place = 0; place <= N; place += 8) {
            for (int64_t i = 0; i <= N; i++) {
                list[i] = (rsh_shard_meta){.ndim = 2, .sizes = {1, 1}};
                list[i].offsets[across] = 2 * i;
                list[i].sizes[!across] = 50;
            }
            list[place] = (rsh_shard_meta){.ndim = 2, .sizes = {1, 1}};
            list[place].offsets[!across] = 25;
            list[place].offsets[across] = 2 * 150 + 1;
            /* across stick 151, or across 152 if this box replaced 151 */
            list[place].sizes[across] = 3 + (place == 151);
            expect_as_defined(N + 1, list);
        }
}

/* ---- large lists, for which comparing all pairs would take too long ---- */

static rsh_shard_meta *grid(int ndim, int64_t side, int64_t *n) {
    *n = 1;
    for (int d = 0; d < ndim; d++) *n *= side;
    rsh_shard_meta *list = calloc((size_t)*n, sizeof *list);
    assert_non_null(list);
    for (int64_t i = 0; i < *n; i++) {
        int64_t rest = i * 7919 % *n; /* in a mixed order; 7919 is coprime to all sizes used */
        list[i].ndim = ndim;
        for (int d = 0; d < ndim; d++) {
            list[i].offsets[d] = rest % side * 3;
            list[i].sizes[d] = 3;
            rest /= side;
        }
    }
    return list;
}

static void expect_grid(int ndim, int64_t side) {
    int64_t n;
    struct timespec a, b;
    rsh_shard_meta *list = grid(ndim, side, &n);
    clock_gettime(CLOCK_MONOTONIC, &a);
    assert_int_equal(rsh_shards_check_overlap(n, list), RSH_OK);
    clock_gettime(CLOCK_MONOTONIC, &b);
    print_message("%lld boxes in %d dims: %.3f s\n", (long long)n, ndim,
                  (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
    list[n / 2].sizes[ndim - 1]++;
    rsh_status st = rsh_shards_check_overlap(n, list);
    assert_true(st == RSH_EVALUE || list[n / 2].offsets[ndim - 1] == 3 * side - 3);
    free(list);
}

static void grids_of_a_hundred_thousand_boxes_are_checked(void **state) {
    (void)state;
    expect_grid(1, 100000);
    expect_grid(2, 316);
    expect_grid(3, 46);
    expect_grid(4, 18);
}

/* All boxes share indices of dim 0 but are disjoint along dim 1: staggered slabs. */
static void boxes_that_all_overlap_along_one_dim_are_checked(void **state) {
    (void)state;
    int64_t n = 100000;
    for (int apart = 0; apart < 2; apart++) {
        rsh_shard_meta *list = calloc((size_t)n, sizeof *list);
        assert_non_null(list);
        for (int64_t i = 0; i < n; i++) {
            list[i] = (rsh_shard_meta){.ndim = 2};
            list[i].offsets[!apart] = i * 31 % n;
            list[i].sizes[!apart] = 2 * n - list[i].offsets[!apart] + i % 5;
            list[i].offsets[apart] = 2 * i;
            list[i].sizes[apart] = 2;
        }
        assert_int_equal(rsh_shards_check_overlap(n, list), RSH_OK);
        list[77].sizes[apart]++;
        assert_int_equal(rsh_shards_check_overlap(n, list), RSH_EVALUE);
        assert_non_null(strstr(rsh_error_detail(), "shards 77 and 78 overlap"));
        free(list);
    }
}

/* ---- coverage ---- */

/* PyTorch's scenario P4. */
static void coverage_needs_boxes_inside_whose_volumes_add_up(void **state) {
    (void)state;
    rsh_shard_meta two[] = {BOX(2, (0, 0), (5, 5), 0), BOX(2, (5, 0), (5, 5), 1)};
    assert_int_equal(rsh_shards_check_tensor(2, two, 2, DIMS(10, 5)), RSH_OK);
    rsh_shard_meta four[] = {BOX(2, (0, 0), (3, 3), 0), BOX(2, (0, 3), (3, 3), 1), BOX(2, (3, 0), (3, 3), 2),
                             BOX(2, (3, 3), (3, 3), 3)};
    assert_int_equal(rsh_shards_check_tensor(4, four, 2, DIMS(6, 6)), RSH_OK);
    rsh_shard_meta uneven[] = {BOX(2, (0, 0), (4, 2), 0), BOX(2, (0, 2), (4, 4), 1), BOX(2, (4, 0), (2, 6), 2)};
    assert_int_equal(rsh_shards_check_tensor(3, uneven, 2, DIMS(6, 6)), RSH_OK);
    assert_int_equal(rsh_shards_check_tensor(2, two, 3, DIMS(10, 5, 1)), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "shard 0 has 2 dims, expected 3 as in the tensor"));
    assert_int_equal(rsh_shards_check_tensor(2, two, 2, DIMS(10, 3)), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "ends at 5 along dim 1"));
    rsh_shard_meta diagonal[] = {BOX(2, (0, 0), (5, 5), 0), BOX(2, (5, 5), (5, 5), 1)};
    assert_int_equal(rsh_shards_check_tensor(2, diagonal, 2, DIMS(10, 10)), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "50 elements together, but the tensor has 100"));
}

static void an_empty_shard_must_not_reach_outside_either(void **state) {
    (void)state;
    rsh_shard_meta list[] = {BOX(1, (0), (2), 0), BOX(1, (2), (0), 1), BOX(1, (3), (0), 2)};
    assert_int_equal(rsh_shards_check_tensor(2, list, 1, DIMS(2)), RSH_OK);
    assert_int_equal(rsh_shards_check_tensor(3, list, 1, DIMS(2)), RSH_EVALUE);
    assert_int_equal(rsh_shards_check_tensor(0, NULL, 1, DIMS(0)), RSH_OK);
    assert_int_equal(rsh_shards_check_tensor(0, NULL, 1, DIMS(1)), RSH_EVALUE);
}

static void a_shard_with_lists_of_different_lengths_or_negative_numbers_is_refused(void **state) {
    (void)state;
    rsh_shard_meta m = {.ndim = 77};
    assert_int_equal(rsh_shard_meta_make(2, DIMS(0, 0), 1, DIMS(1), NULL, &m), RSH_EVALUE);
    assert_int_equal(rsh_shard_meta_make(1, DIMS(-1), 1, DIMS(1), NULL, &m), RSH_EVALUE);
    assert_int_equal(rsh_shard_meta_make(1, DIMS(0), 1, DIMS(-1), NULL, &m), RSH_EVALUE);
    assert_int_equal(rsh_shard_meta_make(1, DIMS(2), 1, DIMS(INT64_MAX - 1), NULL, &m), RSH_EVALUE);
    assert_int_equal(
        rsh_shard_meta_make(9, DIMS(0, 0, 0, 0, 0, 0, 0, 0, 0), 9, DIMS(0, 0, 0, 0, 0, 0, 0, 0, 0), NULL, &m),
        RSH_EVALUE);
    assert_int_equal(rsh_shard_meta_make(1, DIMS(0), 1, DIMS(1), "rank:x", &m), RSH_EVALUE);
    assert_int_equal(m.ndim, 77);
    assert_int_equal(rsh_shard_meta_make(1, DIMS(4), 1, DIMS(0), NULL, &m), RSH_OK);
    assert_int_equal(rsh_shard_meta_count(&m), 0);
    m = BOX(3, (1, 2, 3), (4, 5, 6), 2);
    assert_int_equal(rsh_shard_meta_count(&m), 120);
}

static void shards_are_equal_if_offsets_sizes_and_placement_are(void **state) {
    (void)state;
    rsh_shard_meta a = BOX(2, (0, 1), (2, 3), 0), b = a;
    assert_true(rsh_shard_meta_equal(&a, &b));
    b.offsets[7] = 9; /* an entry after its last dim */
    assert_true(rsh_shard_meta_equal(&a, &b));
    b.sizes[1]++;
    assert_false(rsh_shard_meta_equal(&a, &b));
    b = a, b.offsets[0]++;
    assert_false(rsh_shard_meta_equal(&a, &b));
    b = a, b.placement.rank = 1;
    assert_false(rsh_shard_meta_equal(&a, &b));
    b = a, b.has_placement = false;
    assert_false(rsh_shard_meta_equal(&a, &b));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_that_touch_do_not_overlap_and_others_do),
        cmocka_unit_test(the_two_that_overlap_are_named),
        cmocka_unit_test(empty_boxes_overlap_nothing),
        cmocka_unit_test(equal_boxes_and_scalars_overlap),
        cmocka_unit_test(random_boxes_overlap_as_the_definition_says),
        cmocka_unit_test(random_tilings_overlap_only_where_one_was_disturbed),
        cmocka_unit_test(random_sticks_in_all_directions_are_found),
        cmocka_unit_test(one_stick_across_many_is_found_wherever_it_stands),
        cmocka_unit_test(grids_of_a_hundred_thousand_boxes_are_checked),
        cmocka_unit_test(boxes_that_all_overlap_along_one_dim_are_checked),
        cmocka_unit_test(coverage_needs_boxes_inside_whose_volumes_add_up),
        cmocka_unit_test(an_empty_shard_must_not_reach_outside_either),
        cmocka_unit_test(a_shard_with_lists_of_different_lengths_or_negative_numbers_is_refused),
        cmocka_unit_test(shards_are_equal_if_offsets_sizes_and_placement_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
