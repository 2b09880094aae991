/* Assign, compared with every permutation and with a second solver. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/assign.h"
#include "seed.h"

#define MOST 200 /* largest n that is compared */

__extension__ typedef __int128 wide;

/* The value of an assignment: bytes first, then labels that stay. */
typedef struct worth {
    wide sum;
    int64_t fixed;
} worth;

typedef struct problem {
    int64_t n, ngains;
    rshi_gain gains[MOST * MOST];
} problem;

static problem p;
static int64_t table[MOST][MOST]; /* gain at [i][j] */
static int64_t place_of[MOST];

static uint64_t random_state;

static uint64_t random_bits(void) {
    random_state += 0x9e3779b97f4a7c15u;
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t random_below(int64_t n) { return (int64_t)(random_bits() % (uint64_t)n); }

/* ---- problems ---- */

static void start(int64_t n) {
    p.n = n;
    p.ngains = 0;
    memset(table, 0, sizeof table);
}

static void gain(int64_t i, int64_t j, int64_t w) {
    if (w <= 0) return;
    p.gains[p.ngains++] = (rshi_gain){i, j, w};
    table[i][j] = w;
}

static void shuffle_gains(void) {
    for (int64_t k = p.ngains - 1; k > 0; k--) {
        int64_t other = random_below(k + 1);
        rshi_gain g = p.gains[k];
        p.gains[k] = p.gains[other];
        p.gains[other] = g;
    }
}

/* Draws a problem in which `percent` of the pairs exist, with weights from 1 to `most`. */
static void random_problem(int64_t n, int64_t percent, int64_t most) {
    start(n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            if (random_below(100) < percent) gain(i, j, 1 + random_below(most));
    shuffle_gains();
}

static int64_t overlap(int64_t a, int64_t b, int64_t c, int64_t d) {
    return rshi_max(0, rshi_min(b, d) - rshi_max(a, c));
}

/* Makes a square of `side` x `side` elements, cut into rows x columns blocks before and into other blocks after the
 * move. */
static void grid_problem(int64_t side, int64_t rows, int64_t columns, int64_t rows_after, int64_t columns_after) {
    start(rshi_max(rows * columns, rows_after * columns_after));
    for (int64_t i = 0; i < rows * columns; i++)
        for (int64_t j = 0; j < rows_after * columns_after; j++) {
            int64_t r = i / columns, c = i % columns, ra = j / columns_after, ca = j % columns_after;
            int64_t high =
                overlap(r * side / rows, (r + 1) * side / rows, ra * side / rows_after, (ra + 1) * side / rows_after);
            gain(i, j, high * overlap(c * side / columns, (c + 1) * side / columns, ca * side / columns_after,
                                      (ca + 1) * side / columns_after));
        }
    shuffle_gains();
}

/* ---- reference solutions ---- */

static void assert_permutation(int64_t n, const int64_t *of) {
    char *seen = calloc((size_t)n + 1, 1);
    assert_non_null(seen);
    for (int64_t j = 0; j < n; j++) {
        assert_in_range(of[j], 0, n - 1);
        assert_int_equal(seen[of[j]]++, 0);
    }
    free(seen);
}

static worth worth_of(const int64_t *of) {
    worth a = {0, 0};
    for (int64_t j = 0; j < p.n; j++) {
        a.sum += table[of[j]][j];
        a.fixed += of[j] == j;
    }
    return a;
}

static bool less(worth a, worth b) { return a.sum < b.sum || (a.sum == b.sum && a.fixed < b.fixed); }

static void assert_worth_equal(worth a, worth b) {
    assert_true(a.sum == b.sum);
    assert_int_equal(a.fixed, b.fixed);
}

static void try_all(int64_t *of, int64_t from, worth *best) {
    if (from == p.n) {
        worth w = worth_of(of);
        if (less(*best, w)) *best = w;
        return;
    }
    for (int64_t k = from; k < p.n; k++) {
        int64_t a = of[from], b = of[k];
        of[from] = b;
        of[k] = a;
        try_all(of, from + 1, best);
        of[from] = a;
        of[k] = b;
    }
}

static worth best_of_all_permutations(void) {
    int64_t of[MOST];
    worth best = {-1, 0};
    for (int64_t j = 0; j < p.n; j++) of[j] = j;
    try_all(of, 0, &best);
    return best;
}

static wide cost(int64_t i, int64_t j) { return -((wide)table[i][j] * (p.n + 1) + (i == j)); }

/* The Hungarian method on the full table, row by row with potentials; index 0 stands for none. */
static worth best_of_hungarian(void) {
    static wide u[MOST + 1], v[MOST + 1], low[MOST + 1];
    static int64_t row_of[MOST + 1], way[MOST + 1], of[MOST];
    static bool used[MOST + 1];
    int64_t n = p.n;
    for (int64_t k = 0; k <= n; k++) u[k] = v[k] = row_of[k] = 0;
    for (int64_t i = 1; i <= n; i++) {
        int64_t at = 0;
        row_of[0] = i;
        for (int64_t j = 0; j <= n; j++) {
            low[j] = (wide)INT64_MAX << 60;
            used[j] = false;
        }
        while (row_of[at]) {
            int64_t next = 0;
            wide least = (wide)INT64_MAX << 61;
            used[at] = true;
            for (int64_t j = 1; j <= n; j++) {
                if (used[j]) continue;
                wide c = cost(row_of[at] - 1, j - 1) - u[row_of[at]] - v[j];
                if (c < low[j]) {
                    low[j] = c;
                    way[j] = at;
                }
                if (low[j] < least) {
                    least = low[j];
                    next = j;
                }
            }
            for (int64_t j = 0; j <= n; j++) {
                if (used[j]) {
                    u[row_of[j]] += least;
                    v[j] -= least;
                } else {
                    low[j] -= least;
                }
            }
            at = next;
        }
        for (; at; at = way[at]) row_of[at] = row_of[way[at]];
    }
    for (int64_t j = 1; j <= n; j++) of[j - 1] = row_of[j] - 1;
    return worth_of(of);
}

static worth solve(void) {
    assert_int_equal(rshi_assign(p.n, p.ngains, p.gains, place_of), RSH_OK);
    assert_permutation(p.n, place_of);
    return worth_of(place_of);
}

/* Checks that the approximate answer has the properties that its header promises. */
static void check_approximate(worth best) {
    int64_t identity[MOST];
    wide most = 0;
    assert_int_equal(rshi_assign_approximate(p.n, p.ngains, p.gains, place_of), RSH_OK);
    assert_permutation(p.n, place_of);
    for (int64_t j = 0; j < p.n; j++) {
        int64_t column = 0;
        identity[j] = j;
        for (int64_t i = 0; i < p.n; i++) column = rshi_max(column, table[i][j]);
        most += column;
    }
    assert_false(less(worth_of(place_of), worth_of(identity)));
    assert_true((best.sum - worth_of(place_of).sum - 2) * 128 <= most);
}

static void check_with_hungarian(void) {
    worth best = best_of_hungarian();
    assert_worth_equal(solve(), best);
    check_approximate(best);
}

/* ---- tests ---- */

static void no_labels_need_no_memory_of_the_caller(void **state) {
    (void)state;
    assert_int_equal(rshi_assign(0, 0, NULL, NULL), RSH_OK);
    assert_int_equal(rshi_assign_approximate(0, 0, NULL, NULL), RSH_OK);
}

static void one_label_stays(void **state) {
    (void)state;
    for (int64_t w = 0; w < 2; w++) {
        start(1);
        gain(0, 0, w);
        assert_worth_equal(solve(), (worth){w, 1});
        check_approximate((worth){w, 1});
    }
}

static void no_gains_give_the_identity(void **state) {
    (void)state;
    for (int64_t n = 1; n <= MOST; n += 7) {
        start(n);
        assert_worth_equal(solve(), (worth){0, n});
        check_approximate((worth){0, n});
    }
}

static void a_rotation_is_found_whole(void **state) {
    (void)state;
    for (int64_t n = 2; n <= MOST; n += 9) {
        start(n);
        for (int64_t i = 0; i < n; i++) gain(i, (i + 1) % n, 1000 + i);
        solve();
        for (int64_t i = 0; i < n; i++) assert_int_equal(place_of[(i + 1) % n], i);
        assert_int_equal(rshi_assign_approximate(p.n, p.ngains, p.gains, place_of), RSH_OK);
        for (int64_t i = 0; i < n; i++) assert_int_equal(place_of[(i + 1) % n], i);
    }
}

static void the_identity_wins_ties(void **state) {
    (void)state;
    for (int64_t n = 1; n <= MOST; n += 13) {
        random_problem(n, 100, 1);
        assert_int_equal(solve().fixed, n);
    }
}

static void one_byte_is_worth_more_than_every_label_at_home(void **state) {
    (void)state;
    start(MOST);
    for (int64_t i = 0; i < MOST; i++) {
        gain(i, i, 5);
        gain(i, (i + 1) % MOST, 5 + (i == 0));
    }
    assert_worth_equal(solve(), (worth){5 * MOST + 1, 0});
}

static void labels_left_over_take_the_places_left_over(void **state) {
    (void)state;
    start(6);
    gain(4, 0, 9);
    gain(4, 1, 8);
    assert_worth_equal(solve(), best_of_all_permutations());
    assert_int_equal(place_of[0], 4);
}

static void the_best_of_all_permutations_is_found(void **state) {
    (void)state;
    for (int round = 0; round < 4000; round++) {
        int64_t n = 1 + random_below(round % 100 == 0 ? 8 : 6);
        int64_t most = (int64_t[]){1, 2, 3, 10, 1000000, INT64_MAX}[random_below(6)];
        random_problem(n, 5 + random_below(96), most);
        worth best = best_of_all_permutations();
        assert_worth_equal(solve(), best);
        check_approximate(best);
    }
}

static void seven_and_eight_labels_are_the_best_of_all_permutations(void **state) {
    (void)state;
    for (int round = 0; round < 12; round++) {
        random_problem(7 + round % 2, 20 + random_below(81), 1 + random_below(4));
        assert_worth_equal(solve(), best_of_all_permutations());
    }
}

static void random_gains_agree_with_the_hungarian_method(void **state) {
    (void)state;
    for (int round = 0; round < 60; round++) {
        int64_t most = (int64_t[]){1, 2, 10, 1000, INT64_MAX}[random_below(5)];
        int64_t percent = (int64_t[]){1, 3, 10, 50, 100}[random_below(5)];
        random_problem(2 + random_below(MOST - 1), percent, most);
        check_with_hungarian();
    }
    random_problem(MOST, 100, INT64_MAX);
    check_with_hungarian();
    random_problem(MOST, 2, INT64_MAX);
    check_with_hungarian();
}

static void block_overlaps_agree_with_the_hungarian_method(void **state) {
    (void)state;
    grid_problem(64, 8, 8, 4, 16);
    check_with_hungarian();
    grid_problem(64, 1, 64, 64, 1);
    check_with_hungarian();
    for (int round = 0; round < 30; round++) {
        int64_t r = 1 + random_below(14), c = 1 + random_below(14), ra = 1 + random_below(14),
                ca = 1 + random_below(14);
        grid_problem(1 + random_below(100), r, c, ra, ca);
        check_with_hungarian();
    }
}

static void products_of_sizes_agree_with_the_hungarian_method(void **state) {
    (void)state;
    for (int round = 0; round < 6; round++) {
        int64_t size[MOST];
        for (int64_t i = 0; i < MOST; i++) size[i] = random_below(50 + 1000 * round);
        start(MOST);
        for (int64_t i = 0; i < MOST; i++)
            for (int64_t j = 0; j < MOST; j++) gain(i, j, size[i] * size[(j * 7 + 3) % MOST]);
        check_with_hungarian();
    }
}

static void the_answer_does_not_depend_on_the_order_of_gains(void **state) {
    (void)state;
    for (int round = 0; round < 40; round++) {
        int64_t n = 1 + random_below(60), first[MOST];
        random_problem(n, 10 + random_below(91), 1 + random_below(5));
        solve();
        memcpy(first, place_of, sizeof first);
        shuffle_gains();
        solve();
        assert_memory_equal(first, place_of, (size_t)n * sizeof *first);
    }
}

static void many_labels_are_approximated(void **state) {
    (void)state;
    int64_t n = 50000, degree = 6, sum = 0, *of = malloc((size_t)n * sizeof *of);
    rshi_gain *gains = malloc((size_t)(n * degree) * sizeof *gains);
    assert_true(of && gains);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < degree; k++)
            gains[i * degree + k] = (rshi_gain){i, (i + k * 8191) % n, 900 + random_below(100)};
    assert_int_equal(rshi_assign_approximate(n, n * degree, gains, of), RSH_OK);
    assert_permutation(n, of);
    for (int64_t g = 0; g < n * degree; g++)
        if (of[gains[g].j] == gains[g].i) sum += gains[g].w;
    assert_true(sum >= 900 * n - 1000 * n / 128 - 2);
    free(of);
    free(gains);
}

typedef rsh_status (*solver)(int64_t n, int64_t ngains, const rshi_gain *gains, int64_t *place_of);

static void check_memory(solver run) {
    uint64_t live = rsh_alloc_get_stats().live;
    int64_t failures = 0;
    for (;; failures++) {
        rsh_alloc_fail_at(failures);
        memset(place_of, 0x5a, sizeof place_of);
        rsh_status st = run(p.n, p.ngains, p.gains, place_of);
        rsh_alloc_fail_at(-1);
        assert_int_equal(rsh_alloc_get_stats().live, live);
        if (st == RSH_OK) break;
        assert_int_equal(st, RSH_ENOMEM);
        assert_string_not_equal(rsh_error_detail(), "");
        for (int64_t j = 0; j < p.n; j++) assert_int_equal(place_of[j], 0x5a5a5a5a5a5a5a5a);
    }
    assert_in_range(failures, 1, 100);
    assert_permutation(p.n, place_of);
}

static void no_memory_is_reported_and_nothing_leaks_or_is_written(void **state) {
    (void)state;
    random_problem(20, 60, 9);
    check_memory(rshi_assign);
    check_memory(rshi_assign_approximate);
}

int main(void) {
    random_state = seed_of_tests();
    printf("RESHARD_SEED=%" PRIu64 "\n", random_state);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_labels_need_no_memory_of_the_caller),
        cmocka_unit_test(one_label_stays),
        cmocka_unit_test(no_gains_give_the_identity),
        cmocka_unit_test(a_rotation_is_found_whole),
        cmocka_unit_test(the_identity_wins_ties),
        cmocka_unit_test(one_byte_is_worth_more_than_every_label_at_home),
        cmocka_unit_test(labels_left_over_take_the_places_left_over),
        cmocka_unit_test(the_best_of_all_permutations_is_found),
        cmocka_unit_test(seven_and_eight_labels_are_the_best_of_all_permutations),
        cmocka_unit_test(random_gains_agree_with_the_hungarian_method),
        cmocka_unit_test(block_overlaps_agree_with_the_hungarian_method),
        cmocka_unit_test(products_of_sizes_agree_with_the_hungarian_method),
        cmocka_unit_test(the_answer_does_not_depend_on_the_order_of_gains),
        cmocka_unit_test(many_labels_are_approximated),
        cmocka_unit_test(no_memory_is_reported_and_nothing_leaks_or_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
