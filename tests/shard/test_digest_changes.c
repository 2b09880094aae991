/* Changes that a digest must detect: RESHARD_CHANGES (100000) of each kind, with random numbers from RESHARD_SEED. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reshard.h>

#include "seed.h"

enum { MOST = 2500 /* most elements of a tensor, which are several blocks of the digest */ };

static uint64_t state_of_random, first_seed;

static uint64_t draw(void) {
    uint64_t x = state_of_random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}
static int64_t below(int64_t n) { return (int64_t)(draw() % (uint64_t)n); }

typedef struct tensor {
    size_t size;
    int64_t n, first; /* first: global index of element 0 */
    unsigned char bytes[16 * MOST];
} tensor;

static tensor now, before;

static uint64_t get(const tensor *t, int64_t i) {
    uint64_t x = 0;
    memcpy(&x, t->bytes + (size_t)i * t->size, t->size < 8 ? t->size : 8);
    return x;
}
static void put(tensor *t, int64_t i, uint64_t x) {
    memcpy(t->bytes + (size_t)i * t->size, &x, t->size < 8 ? t->size : 8);
}

/* Draws a value as tensors have them: few different values, small numbers, single bits, floats near 1, or any bits. */
static uint64_t any_value(int kind, size_t size) {
    switch (kind) {
    case 0: return draw() % 2;
    case 1: return draw() % 16;
    case 2: return UINT64_C(1) << draw() % (size < 8 ? size * 8 : 64);
    case 3: return UINT64_C(0x3f800000) + (draw() % 3 << 22);
    default: return draw();
    }
}

static void any_tensor(tensor *t) {
    static const size_t sizes[] = {1, 2, 2, 4, 4, 4, 8, 16, 3, 12};
    int kind = (int)below(6);
    t->size = sizes[below(10)];
    t->n = below(3) ? 2 + below(40) : 2 + below(MOST - 2);
    t->first = below(2) ? below(4) * 512 : (int64_t)(draw() >> (1 + below(62)));
    if (t->first > INT64_MAX - t->n) t->first = INT64_MAX - t->n;
    memset(t->bytes, 0, (size_t)t->n * t->size);
    for (int64_t i = 0; i < t->n; i++) put(t, i, any_value(kind, t->size));
}

/* ---- changes ---- */

static void flip(tensor *t) { t->bytes[below(t->n * (int64_t)t->size)] ^= (unsigned char)(1 << below(8)); }

static void exchange(tensor *t, int64_t a, int64_t b, int64_t n) {
    unsigned char keep[16 * MOST];
    size_t bytes = (size_t)n * t->size;
    memcpy(keep, t->bytes + (size_t)a * t->size, bytes);
    memmove(t->bytes + (size_t)a * t->size, t->bytes + (size_t)b * t->size, bytes);
    memcpy(t->bytes + (size_t)b * t->size, keep, bytes);
}

static void swap(tensor *t) { exchange(t, below(t->n), below(t->n), 1); }

/* Exchanges two parts of equal size that do not overlap; the size is often a power of two, and the offsets multiples of
 * it. */
static void exchange_parts(tensor *t) {
    int64_t n = 1 + below(t->n / 2), places;
    while (below(2) && (n & (n - 1))) n &= n - 1;
    places = t->n / n;
    exchange(t, below(places) * n, below(places) * n, n);
}

/* Rotates a range by some elements. */
static void shift(tensor *t) {
    unsigned char keep[16 * MOST];
    int64_t n = 2 + below(t->n - 1), a = below(t->n - n + 1), by = below(2) ? 1 : 1 + below(n - 1);
    unsigned char *range = t->bytes + (size_t)a * t->size;
    memcpy(keep, range, (size_t)n * t->size);
    memcpy(range, keep + (size_t)by * t->size, (size_t)(n - by) * t->size);
    memcpy(range + (size_t)(n - by) * t->size, keep, (size_t)by * t->size);
}

/* Adds to some elements what it subtracts from others: two elements, or four at the corners of a rectangle. */
static void keep_the_sum(tensor *t) {
    uint64_t d = below(2) ? 1 + draw() % 9 : UINT64_C(1) << below((int64_t)(t->size < 8 ? t->size : 8) * 8);
    int64_t a = below(t->n), b = below(t->n);
    put(t, a, get(t, a) + d);
    put(t, b, get(t, b) - d);
    if (below(2)) return;
    int64_t apart = 1 + below(t->n - 1), far = (a + apart) % t->n, next = (b + apart) % t->n;
    put(t, far, get(t, far) - d);
    put(t, next, get(t, next) + d);
}

static void change_a_little(tensor *t) {
    for (int64_t k = 1 + below(8); k > 0; k--) {
        int64_t i = below(t->n);
        put(t, i, get(t, i) + (uint64_t)below(7) - 3);
    }
}

/* Flips the same bit of several elements, such as the sign. */
static void flip_together(tensor *t) {
    int64_t bit = below(3) ? (int64_t)t->size * 8 - 1 : below((int64_t)t->size * 8), by = 1 + below(4);
    for (int64_t k = 2 + below(8), i = below(t->n); k > 0; k--, i = (i + by) % t->n)
        t->bytes[(size_t)i * t->size + (size_t)bit / 8] ^= (unsigned char)(1 << bit % 8);
}

/* ---- detecting the changes ---- */

static rsh_digest digest_of(const tensor *t) {
    rsh_digest d = {0, 0};
    assert_int_equal(rsh_digest_add(&d, t->size, t->bytes, t->n, t->first), RSH_OK);
    return d;
}

static void try_many(void (*change)(tensor *)) {
    const char *wish = getenv("RESHARD_CHANGES");
    long left = wish ? atol(wish) : 100000;
    for (int64_t tries = 0; left > 0; tries++) {
        if (tries % 8 == 0) any_tensor(&now);
        before = now;
        change(&now);
        if (!memcmp(before.bytes, now.bytes, (size_t)now.n * now.size)) continue;
        rsh_digest a = digest_of(&before), b = digest_of(&now);
        if (a.hi == b.hi && a.lo == b.lo)
            fail_msg("RESHARD_SEED=%llu: a change of %lld elements of %zu bytes at %lld was not noticed",
                     (unsigned long long)first_seed, (long long)now.n, now.size, (long long)now.first);
        left--;
    }
}

static void a_flipped_bit_is_noticed(void **state) { (void)state; try_many(flip); }
static void a_swap_is_noticed(void **state) { (void)state; try_many(swap); }
static void a_shift_is_noticed(void **state) { (void)state; try_many(shift); }
static void exchanged_parts_are_noticed(void **state) { (void)state; try_many(exchange_parts); }
static void other_values_of_equal_sum_are_noticed(void **state) { (void)state; try_many(keep_the_sum); }
static void small_changes_are_noticed(void **state) { (void)state; try_many(change_a_little); }
static void one_bit_of_several_elements_is_noticed(void **state) { (void)state; try_many(flip_together); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flipped_bit_is_noticed),
        cmocka_unit_test(a_swap_is_noticed),
        cmocka_unit_test(a_shift_is_noticed),
        cmocka_unit_test(exchanged_parts_are_noticed),
        cmocka_unit_test(other_values_of_equal_sum_are_noticed),
        cmocka_unit_test(small_changes_are_noticed),
        cmocka_unit_test(one_bit_of_several_elements_is_noticed),
    };
    state_of_random = first_seed = seed_or(1);
    printf("RESHARD_SEED=%llu\n", (unsigned long long)first_seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
