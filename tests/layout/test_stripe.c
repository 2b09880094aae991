/* Stripes compared with sets of numbers, one index at a time. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "layout/layout.h"
#include "seed.h"

#define SPAN 300 /* larger than the end of every stripe below */

static unsigned seed(void) { return (unsigned)seed_of_tests(); }

static rshi_stripe random_stripe(void) {
    if (rand() % 3 == 0) {
        int64_t lo = rand() % 40;
        return rshi_stripe_range(lo, lo + rand() % 40);
    }
    rshi_stripe s = {.lo = rand() % 20, .len = 1 + rand() % 6, .count = 1 + rand() % 9};
    s.stride = s.len + rand() % 9;
    s.last = 1 + rand() % s.len;
    return s;
}

static bool holds(const rshi_stripe *s, int64_t x) {
    for (int64_t j = 0; j < s->count; j++) {
        int64_t lo = s->lo + j * s->stride;
        if (x >= lo && x < lo + (j == s->count - 1 ? s->last : s->len)) return true;
    }
    return false;
}

static void a_stripe_answers_like_the_set_of_its_indices(void **state) {
    (void)state;
    unsigned s0 = seed();
    print_message("RESHARD_SEED=%u\n", s0);
    srand(s0);
    for (int i = 0; i < 20000; i++) {
        rshi_stripe s = random_stripe();
        int64_t n = 0;
        for (int64_t x = 0; x < SPAN; x++) {
            assert_int_equal(rshi_stripe_has(&s, x), holds(&s, x));
            assert_int_equal(rshi_stripe_before(&s, x), n);
            if (holds(&s, x)) assert_int_equal(rshi_stripe_at(&s, n++), x);
        }
        assert_int_equal(rshi_stripe_size(&s), n);
    }
}

/* Checks that every index of every run is at the same place in both stripes, and that each common index occurs once. */
static int64_t count_runs(const rshi_stripe *a, const rshi_stripe *b, int64_t lo, int64_t hi) {
    rshi_runs runs = {0};
    bool seen[SPAN] = {false};
    int64_t n = 0;
    assert_int_equal(rshi_stripe_overlap(a, b, lo, hi, &runs), RSH_OK);
    for (int64_t k = 0; k < runs.n; k++)
        for (int64_t j = 0; j < runs.run[k].count; j++)
            for (int64_t i = 0; i < runs.run[k].len; i++, n++) {
                const rshi_run *r = &runs.run[k];
                int64_t x = rshi_stripe_at(a, r->ia + j * r->da + i);
                assert_int_equal(x, rshi_stripe_at(b, r->ib + j * r->db + i));
                assert_true(x >= lo && x < hi && !seen[x]);
                seen[x] = true;
            }
    rshi_free(runs.run);
    return n;
}

static void runs_of_two_stripes_are_their_common_indices(void **state) {
    (void)state;
    unsigned s0 = seed();
    print_message("RESHARD_SEED=%u\n", s0);
    srand(s0);
    for (int i = 0; i < 50000; i++) {
        rshi_stripe a = random_stripe(), b = random_stripe();
        int64_t lo = rand() % 3 ? 0 : rand() % 60, hi = rand() % 3 ? SPAN : rand() % 200, want = 0;
        for (int64_t x = lo; x < hi; x++) want += holds(&a, x) && holds(&b, x);
        assert_int_equal(rshi_stripe_common(&a, &b, lo, hi), want);
        assert_int_equal(count_runs(&a, &b, lo, hi), want);
    }
}

static void long_cyclic_stripes_have_few_runs(void **state) {
    (void)state;
    rshi_stripe a = {0, 128, 512, 1000000, 128}, b = {96, 96, 384, 1300000, 96};
    rshi_runs runs = {0};
    assert_int_equal(rshi_stripe_overlap(&a, &b, 0, INT64_MAX, &runs), RSH_OK);
    assert_true(runs.n < 20);
    rshi_free(runs.run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stripe_answers_like_the_set_of_its_indices),
        cmocka_unit_test(runs_of_two_stripes_are_their_common_indices),
        cmocka_unit_test(long_cyclic_stripes_have_few_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
