/* seed: the seed of random tests.  RESHARD_SEED sets it; otherwise it is fixed, so that every run
 * of `make test` tries the same cases.  `make soak` tries new ones. */
#ifndef RESHARD_TESTS_SEED_H
#define RESHARD_TESTS_SEED_H

#include <stdint.h>
#include <stdlib.h>

#define USUAL_SEED 20261116

static inline uint64_t seed_or(uint64_t usual) {
    const char *text = getenv("RESHARD_SEED");
    return text && *text ? strtoull(text, NULL, 0) : usual;
}

static inline uint64_t seed_of_tests(void) { return seed_or(USUAL_SEED); }

#endif
