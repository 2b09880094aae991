/* Seeded random numbers for the tests of this room: the seed is printed on failure. */
#ifndef RESHARD_TESTS_COPY_RANDOM_CASE_H
#define RESHARD_TESTS_COPY_RANDOM_CASE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>

#include <cmocka.h>

#include "seed.h"

static uint64_t random_state, random_seed;

static inline void random_start(void) {
    random_seed = seed_of_tests();
    random_state = random_seed;
}

static inline uint64_t random_bits(void) {
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* lo .. hi, both included */
static inline int64_t random_in(int64_t lo, int64_t hi) {
    return lo + (int64_t)(random_bits() % (uint64_t)(hi - lo + 1));
}

#define fail_with_seed(...)                                                                        \
    do {                                                                                           \
        print_error("RESHARD_SEED=%llu: ", (unsigned long long)random_seed);                       \
        print_error(__VA_ARGS__);                                                                  \
        print_error("\n");                                                                         \
        fail();                                                                                    \
    } while (0)

#endif
