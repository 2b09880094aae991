/* Hash and clock. */
#include "base/base.h"

#include <time.h>
#include <xxhash.h>

uint64_t rshi_hash(const void *data, size_t bytes, uint64_t seed) { return XXH3_64bits_withSeed(data, bytes, seed); }

double rshi_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
