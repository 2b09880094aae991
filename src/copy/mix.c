/* Mix: what elements add to a digest, several at a time.
 *
 * An element adds 128 bits, two words of which carry nothing into one another until they are added up.  So that no lane
 * of a vector has to carry either, the low word is summed in two halves; a run of 2^31 elements cannot overflow them.
 * docs/digest.md has the formula. */
#include "copy/impl.h"

#include <string.h>

__extension__ typedef unsigned __int128 word128;

#define MOST_AT_ONCE ((int64_t)1 << 31)

typedef struct sums {
    uint64_t low, high; /* of the low words: their low and high halves */
    uint64_t top;       /* of the high words, modulo 2^64 */
} sums;

RSHI_INLINE uint64_t scramble(uint64_t x) {
    x = (x ^ (x >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ (x >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}

RSHI_INLINE uint64_t begin(uint64_t index, uint64_t bits) {
    return index * UINT64_C(0x9e3779b97f4a7c15) + scramble(bits + UINT64_C(0x2545f4914f6cdd1d));
}

RSHI_INLINE uint64_t widen(uint64_t h, uint64_t more) {
    return scramble(h) + scramble(more ^ UINT64_C(0x94d049bb133111eb));
}

RSHI_INLINE void add(sums *s, uint64_t h) {
    uint64_t lo = scramble(h);
    s->low += lo & UINT32_MAX;
    s->high += lo >> 32;
    s->top += scramble(h ^ UINT64_C(0xd6e8feb86659fd93));
}

/* Elements of type `type`, `step` bytes apart; a step that the compiler knows lets it use vectors. */
#define LOOP(type, step)                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                              \
        type x;                                                                                    \
        memcpy(&x, p + i * (step), sizeof x);                                                      \
        add(&s, begin(index + (uint64_t)i, x));                                                    \
    }

#define WIDE_LOOP(step)                                                                            \
    for (int64_t i = 0; i < n; i++) {                                                              \
        uint64_t x, more;                                                                          \
        memcpy(&x, p + i * (step), 8);                                                             \
        memcpy(&more, p + i * (step) + 8, 8);                                                      \
        add(&s, widen(begin(index + (uint64_t)i, x), more));                                       \
    }

RSHI_INLINE sums sum_dense(const char *p, size_t size, int64_t n, uint64_t index) {
    sums s = {0, 0, 0};
    switch (size) {
    case 1: LOOP(uint8_t, 1) break;
    case 2: LOOP(uint16_t, 2) break;
    case 4: LOOP(uint32_t, 4) break;
    case 8: LOOP(uint64_t, 8) break;
    default: WIDE_LOOP(16)
    }
    return s;
}

static sums sum_strided(const char *p, int64_t step, size_t size, int64_t n, uint64_t index) {
    sums s = {0, 0, 0};
    switch (size) {
    case 1: LOOP(uint8_t, step) break;
    case 2: LOOP(uint16_t, step) break;
    case 4: LOOP(uint32_t, step) break;
    case 8: LOOP(uint64_t, step) break;
    default: WIDE_LOOP(step)
    }
    return s;
}

static sums sum_generic(const char *p, size_t size, int64_t n, uint64_t index) { return sum_dense(p, size, n, index); }
#if RSHI_X86
RSHI_AVX2 static sums sum_avx2(const char *p, size_t size, int64_t n, uint64_t index) {
    return sum_dense(p, size, n, index);
}
RSHI_AVX512 static sums sum_avx512(const char *p, size_t size, int64_t n, uint64_t index) {
    return sum_dense(p, size, n, index);
}
#endif

typedef sums (*sum_fn)(const char *p, size_t size, int64_t n, uint64_t index);

static sums sum_run(const char *p, int64_t step, size_t size, int64_t n, uint64_t index) {
    static const sum_fn dense[RSHI_SIMD_COUNT] = RSHI_PER_LEVEL(sum);
    return step == (int64_t)size ? dense[rshi_simd_level()](p, size, n, index) : sum_strided(p, step, size, n, index);
}

void rshi_mix_run(const char *p, int64_t step, size_t size, int64_t n, uint64_t index, uint64_t *hi, uint64_t *lo) {
    word128 sum = (word128)*hi << 64 | *lo;
    for (int64_t at = 0; at < n; at += MOST_AT_ONCE) {
        sums s = sum_run(p + at * step, step, size, rshi_min(n - at, MOST_AT_ONCE), index + (uint64_t)at);
        sum += s.low + ((word128)s.high << 32) + ((word128)s.top << 64);
    }
    *hi = (uint64_t)(sum >> 64);
    *lo = (uint64_t)sum;
}
