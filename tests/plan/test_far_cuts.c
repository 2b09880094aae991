/* Far cuts, against a count of every index. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "plan/relay.h"

#define MOST 8
#define CASES 20000

static uint64_t seed = 1;
static int64_t below(int64_t n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(seed >> 33) % n;
}

/* Far elements before x: every index is looked at. */
static int64_t count_far(const rshi_stripe *b, int64_t across, const rshi_near *near, int64_t n, int64_t x) {
    int64_t far = 0;
    for (int64_t i = b->lo; i < x; i++) {
        if (!rshi_stripe_has(b, i)) continue;
        far += across;
        for (int64_t k = 0; k < n; k++)
            if (rshi_stripe_has(&near[k].along, i)) far -= near[k].across;
    }
    return far;
}

/* Each cut is the first index before which there are as many far elements as its share asks for. */
static void check(const rshi_stripe *b, int64_t across, const rshi_near *near, int64_t nnear, int64_t n) {
    int64_t at[MOST + 1], end = rshi_stripe_end(b), all = count_far(b, across, near, nnear, end);
    assert_int_equal(rshi_far_cuts(b, across, near, nnear, n, at), RSH_OK);
    assert_int_equal(at[0], b->lo);
    assert_int_equal(at[n], end);
    for (int64_t i = 1; i < n; i++) {
        int64_t x = b->lo;
        while (count_far(b, across, near, nnear, x) < rshi_slice_start(all, n, i)) x++;
        assert_int_equal(at[i], x);
    }
}

static rshi_stripe random_stripe(bool block) {
    int64_t lo = below(20), len = 1 + below(6), stride = len + below(4), count = block ? 1 : 1 + below(3);
    if (count == 1) return rshi_stripe_range(lo, lo + len + below(20));
    return (rshi_stripe){lo, len, stride, count, 1 + below(len)};
}

/* Near parts may lie beside one another in other dims: together they never have more than there is. */
static void check_random(bool blocks) {
    for (int i = 0; i < CASES; i++) {
        rshi_near near[MOST];
        int64_t nnear = below(MOST + 1), across = 1 + below(3) + nnear;
        rshi_stripe b = random_stripe(blocks);
        for (int64_t k = 0; k < nnear; k++) near[k] = (rshi_near){random_stripe(blocks), 1};
        if (nnear && below(2)) across = nnear; /* so that some stretches have nothing far */
        check(&b, across, near, nnear, 1 + below(MOST));
    }
}

static void blocks_are_cut_by_a_sweep(void **state) {
    (void)state;
    check_random(true);
}

static void stripes_of_many_blocks_are_cut_too(void **state) {
    (void)state;
    check_random(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_cut_by_a_sweep),
        cmocka_unit_test(stripes_of_many_blocks_are_cut_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
