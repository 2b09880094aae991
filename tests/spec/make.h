/* Make: short constructors of shards, and random numbers, for the tests of this room. */
#ifndef RESHARD_TESTS_SPEC_MAKE_H
#define RESHARD_TESTS_SPEC_MAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <reshard/torch/spec.h>

#include "seed.h"

#define DIMS(...) (const int64_t[]){__VA_ARGS__}
#define BOX(ndim, offsets, sizes, rank) make_box(ndim, DIMS offsets, DIMS sizes, rank)

/* rank -1: no placement */
static inline rsh_shard_meta make_box(int ndim, const int64_t *offsets, const int64_t *sizes,
                                      int rank) {
    rsh_shard_meta m;
    char placement[32];
    snprintf(placement, sizeof placement, "rank:%d/cpu", rank);
    assert_int_equal(
        rsh_shard_meta_make(ndim, offsets, ndim, sizes, rank < 0 ? NULL : placement, &m), RSH_OK);
    return m;
}

/* ---- random numbers: the seed is printed, and set by RESHARD_SEED ---- */

static inline uint64_t make_seed(const char *what) {
    uint64_t seed = seed_of_tests();
    print_message("%s: RESHARD_SEED=%llu\n", what, (unsigned long long)seed);
    return seed;
}

static inline uint64_t make_next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static inline int64_t make_below(uint64_t *state, int64_t n) {
    return (int64_t)(make_next(state) % (uint64_t)n);
}

static inline void make_permutation(uint64_t *state, int n, int *list) {
    for (int i = 0; i < n; i++) list[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)make_below(state, i + 1), swap = list[i];
        list[i] = list[j];
        list[j] = swap;
    }
}

/* Makes a random tiling of a box by cutting it repeatedly: at most `most` shards, on ranks below
 * `ranks`.  Returns their number. */
static inline int64_t make_tiling(uint64_t *state, int ndim, const int64_t *size, int64_t most,
                                  int ranks, rsh_shard_meta *out) {
    int64_t n = 1;
    out[0] = make_box(ndim, (int64_t[8]){0}, size, (int)make_below(state, ranks));
    for (int64_t cuts = ndim ? make_below(state, most) : 0; cuts > 0; cuts--) {
        rsh_shard_meta *m = &out[make_below(state, n)];
        int d = (int)make_below(state, ndim);
        int64_t at = make_below(state, m->sizes[d] + 1); /* cuts at the ends leave empty shards */
        out[n] = *m;
        out[n].offsets[d] += at;
        out[n].sizes[d] -= at;
        out[n++].placement.rank = (int)make_below(state, ranks);
        m->sizes[d] = at;
    }
    return n;
}

#endif
