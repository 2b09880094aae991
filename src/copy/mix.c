/* Mix: computes the contribution of elements to a digest, several elements at a time.
 *
 * A digest is linear in the 32-bit words of the elements.  Elements are divided into blocks at fixed positions.  In a
 * block each word is multiplied by the keys of its position, which are the same in every block, and the sum is
 * multiplied by the keys of the block.  So a word costs two 32-bit products, which vector units support; only a block
 * costs 64-bit products.  All sums are modulo 2^64, so parts of a block may be added in any order. docs/digest.md has
 * the formula. */
#include "copy/impl.h"

#include <string.h>

#define BLOCK 1024 /* words of a block */

typedef struct sums {
    uint64_t hi, lo;
} sums;

/* ---- keys ---- */

#define STEP_1(x) (((x) ^ ((x) >> 33)) * UINT64_C(0xff51afd7ed558ccd))
#define STEP_2(x) (((x) ^ ((x) >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53))

RSHI_INLINE uint64_t scramble(uint64_t x) {
    x = STEP_2(STEP_1(x));
    return x ^ (x >> 33);
}

/* Keys are odd, so that a changed word always changes the contribution of its block. */
static sums block_keys(uint64_t block) {
    return (sums){scramble(block + UINT64_C(0x9e3779b97f4a7c15)) | 1,
                  scramble(block + UINT64_C(0xd6e8feb86659fd93)) | 1};
}

#define KEY(start, at) ((uint32_t)(STEP_2(STEP_1(UINT64_C(start) + (at))) >> 32) | 1)
#define KEYS_4(s, at)  KEY(s, at), KEY(s, at + 1), KEY(s, at + 2), KEY(s, at + 3)
#define KEYS_16(s, at) KEYS_4(s, at), KEYS_4(s, at + 4), KEYS_4(s, at + 8), KEYS_4(s, at + 12)
#define KEYS_64(s, at) KEYS_16(s, at), KEYS_16(s, at + 16), KEYS_16(s, at + 32), KEYS_16(s, at + 48)
#define KEYS_256(s, at) KEYS_64(s, at), KEYS_64(s, at + 64), KEYS_64(s, at + 128), KEYS_64(s, at + 192)

/* Keys by the position of a word in its block.  There is one extra entry, because vectors are also loaded from odd
 * positions. */
static const uint32_t keys_hi[BLOCK + 1] = {KEYS_256(0x2545f4914f6cdd1d, 0), KEYS_256(0x2545f4914f6cdd1d, 256),
                                            KEYS_256(0x2545f4914f6cdd1d, 512), KEYS_256(0x2545f4914f6cdd1d, 768)};
static const uint32_t keys_lo[BLOCK + 1] = {KEYS_256(0x94d049bb133111eb, 0), KEYS_256(0x94d049bb133111eb, 256),
                                            KEYS_256(0x94d049bb133111eb, 512), KEYS_256(0x94d049bb133111eb, 768)};

/* ---- contiguous words: elements of 1 or 2 bytes, or multiples of 4 ---- */

#define LOOP(type)                                                                                 \
    for (int64_t i = 0; i < n; i++) {                                                              \
        type x;                                                                                    \
        memcpy(&x, p + i * (int64_t)sizeof x, sizeof x);                                           \
        s.hi += (uint64_t)x * hi[i];                                                               \
        s.lo += (uint64_t)x * lo[i];                                                               \
    }

/* Sums n words of `size` bytes each; the first is at position `place` of its block. */
RSHI_INLINE sums sum_words(const char *p, size_t size, int64_t n, int64_t place) {
    const uint32_t *hi = keys_hi + place, *lo = keys_lo + place;
    sums s = {0, 0};
    switch (size) {
    case 1: LOOP(uint8_t) break;
    case 2: LOOP(uint16_t) break;
    default: LOOP(uint32_t)
    }
    return s;
}

static sums sum_generic(const char *p, size_t size, int64_t n, int64_t place) { return sum_words(p, size, n, place); }

#if RSHI_X86
typedef __m256i load_fn(const char *p); /* 8 words */

RSHI_AVX2 RSHI_INLINE __m256i load_1(const char *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
RSHI_AVX2 RSHI_INLINE __m256i load_2(const char *p) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
RSHI_AVX2 RSHI_INLINE __m256i load_4(const char *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }

RSHI_AVX2 RSHI_INLINE uint64_t horizontal_sum(__m256i x) {
    __m128i y = _mm_add_epi64(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    return (uint64_t)_mm_cvtsi128_si64(y) + (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(y, y));
}

/* The product instruction uses the low halves of lanes: words at even positions directly, words at odd positions after
 * a shift, with keys loaded from the next position. */
RSHI_AVX2 RSHI_INLINE __m256i products(__m256i even, __m256i odd, const uint32_t *key) {
    return _mm256_add_epi64(_mm256_mul_epu32(even, load_4((const char *)key)),
                            _mm256_mul_epu32(odd, load_4((const char *)(key + 1))));
}

RSHI_AVX2 RSHI_INLINE sums sum_vectors(load_fn *load, const char *p, size_t size, int64_t n, int64_t place) {
    __m256i hi = _mm256_setzero_si256(), lo = hi;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i even = load(p + i * (int64_t)size), odd = _mm256_srli_epi64(even, 32);
        __builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)i * size + 1024), 0, 3);
        hi = _mm256_add_epi64(hi, products(even, odd, keys_hi + place + i));
        lo = _mm256_add_epi64(lo, products(even, odd, keys_lo + place + i));
    }
    sums s = sum_words(p + i * (int64_t)size, size, n - i, place + i);
    return (sums){s.hi + horizontal_sum(hi), s.lo + horizontal_sum(lo)};
}

RSHI_AVX2 static sums sum_avx2(const char *p, size_t size, int64_t n, int64_t place) {
    switch (size) {
    case 1: return sum_vectors(load_1, p, 1, n, place);
    case 2: return sum_vectors(load_2, p, 2, n, place);
    default: return sum_vectors(load_4, p, 4, n, place);
    }
}
static sums sum_avx512(const char *p, size_t size, int64_t n, int64_t place) { return sum_avx2(p, size, n, place); }
#endif

typedef sums sum_fn(const char *p, size_t size, int64_t n, int64_t place);
static sum_fn *const sum_at[RSHI_SIMD_COUNT] = RSHI_PER_LEVEL(sum);

/* ---- any elements ---- */

/* Returns the words of an element, rounded up to a power of two. */
static int64_t words_of(size_t size) { return size <= 4 ? 1 : size <= 8 ? 2 : 4; }

#define GATHER(bytes)                                                                              \
    for (int64_t i = 0; i < n; i++) memcpy(word + i * words, p + i * step, bytes)

/* Copies n elements with any stride to contiguous words; missing bytes of a word are 0. */
static void gather_words(const char *p, int64_t step, size_t size, int64_t n, uint32_t word[BLOCK]) {
    int64_t words = words_of(size);
    memset(word, 0, (size_t)(n * words) * sizeof *word);
    switch (size) {
    case 1: GATHER(1); break;
    case 2: GATHER(2); break;
    case 4: GATHER(4); break;
    case 8: GATHER(8); break;
    case 16: GATHER(16); break;
    default: GATHER(size);
    }
}

static sums sum_block(const char *p, int64_t step, size_t size, int64_t n, int64_t lane) {
    sum_fn *sum = sum_at[rshi_simd_level()];
    int64_t words = words_of(size);
    bool whole = size == 1 || size == 2 || size == (size_t)words * 4;
    if (step == (int64_t)size && whole) return sum(p, size > 4 ? 4 : size, n * words, lane * words);
    uint32_t word[BLOCK];
    gather_words(p, step, size, n, word);
    return sum((const char *)word, 4, n * words, lane * words);
}

void rshi_mix_run(const char *p, int64_t step, size_t size, int64_t n, uint64_t index, uint64_t *hi, uint64_t *lo) {
    int64_t elements = BLOCK / words_of(size); /* elements of a block */
    for (int64_t done = 0, count; done < n; done += count) {
        uint64_t at = index + (uint64_t)done;
        int64_t lane = (int64_t)(at % (uint64_t)elements);
        count = rshi_min(n - done, elements - lane);
        sums s = sum_block(p + done * step, step, size, count, lane), key = block_keys(at / (uint64_t)elements);
        *hi += s.hi * key.hi;
        *lo += s.lo * key.lo;
    }
}
