/* Random: numbers for rand and randn, by counter.
 *
 * Word i of a stream is splitmix64's output function of key + (i + 1) * 0x9e3779b97f4a7c15, and the key is that
 * function of the seed mixed with the rank.  So any element can be had without those before it, and what a rank draws
 * depends on seed, rank and position alone.  Element i of a stream takes words 4i to 4i+3: two for the real part, two
 * for the imaginary part.
 *
 * rand keeps as many leading bits of a word as the dtype has in its significand, so that no value rounds up to 1; randn
 * is the first of Box and Muller's two numbers. */
#include "st/impl.h"

#include <math.h>

#include "copy/copy.h"

#define GAMMA 0x9e3779b97f4a7c15u
#define BLOCK 256 /* elements converted at once */

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int significand_bits(rsh_dtype dtype) {
    switch (dtype) {
    case RSH_F16: return 11;
    case RSH_BF16: return 8;
    case RSH_F8E4M3: return 4;
    case RSH_F8E5M2: return 3;
    case RSH_F32: case RSH_C64: return 24;
    default: return 53;
    }
}

static double uniform(uint64_t word, int bits) { return ldexp((double)(word >> (64 - bits)), -bits); }

/* 1 - u is in (0, 1], where the logarithm is finite. */
static double normal_of(uint64_t a, uint64_t b) {
    return sqrt(-2 * log(1 - uniform(a, 53))) * cos(2 * 3.14159265358979323846 * uniform(b, 53));
}

static double number(uint64_t key, uint64_t word, bool normal, int bits) {
    uint64_t a = mix(key + (word + 1) * GAMMA), b = mix(key + (word + 2) * GAMMA);
    return normal ? normal_of(a, b) : uniform(a, bits);
}

void rshi_random_fill(rsh_dtype dtype, void *data, int64_t n, bool normal, uint64_t seed, int rank, uint64_t at) {
    double block[2 * BLOCK];
    bool complex = dtype == RSH_C64 || dtype == RSH_C128;
    int bits = significand_bits(dtype), each = complex ? 2 : 1;
    uint64_t key = mix(seed + GAMMA * ((uint64_t)rank + 1));
    double scale = complex && normal ? sqrt(0.5) : 1; /* the whole complex number has variance 1 */
    for (int64_t done = 0; done < n; done += BLOCK) {
        int64_t m = rshi_min(BLOCK, n - done);
        for (int64_t i = 0; i < m * each; i++)
            block[i] =
                scale * number(key, 4 * (at + (uint64_t)(done + i / each)) + 2 * (uint64_t)(i % each), normal, bits);
        rshi_convert(complex ? RSH_C128 : RSH_F64, block, dtype, (char *)data + (size_t)done * rsh_dtype_size(dtype),
                     (size_t)m);
    }
}
