/* Transpose: dst[r][c] = src[c][r] on planes of any size, in registers.
 *
 * The innermost part is a small tile.  A 16-byte lane holds N = 16/unit units.  N lanes are loaded, each from another
 * source line, and interleaved log2(N) times in perfect-shuffle order.  Lane j then has the units that the N sources
 * had at position j: an N x N transpose.  Wider registers process 2 or 4 of these side by side, so a store is 16, 32 or
 * 64 bytes of one destination row.
 *
 * Small tiles are processed along the destination rows in bands of BAND_BYTES of source, so that every fetched source
 * line is used completely.  The hardware prefetcher does not predict a stride of a whole source row, so lines are
 * prefetched explicitly. */
#include "copy/impl.h"

#include <string.h>

/* Transposes edges row by row; also used on machines without vectors. */
static void transpose_edge(size_t unit, int64_t rows, int64_t cols, char *dst, int64_t dr, const char *src,
                           int64_t sc) {
    rshi_strided_copy(unit, rows, cols, dst, dr, (int64_t)unit, src, (int64_t)unit, sc);
}

#if RSHI_X86

/* Bytes of each source line in a band: long pieces are faster to read, but with a small unit they mean many rows. */
#define BAND_BYTES(unit) ((unit) <= 2 ? 128 : 512)
/* With small units, many small tiles share a source line.  Source lines are often a power of two apart, so that the L1
 * cache cannot hold them together; they are first copied side by side. */
#define IS_STAGED(unit) ((unit) <= 2)
#define NEAR            1024 /* source lines that are at most this many bytes apart need not be copied */
#define AHEAD           32 /* source lines between prefetch and use */

/* One pass of a perfect shuffle over n vectors. */
#define SHUFFLE(n, lo, hi, in, out)                                                                                    \
    RSHI_UNROLL for (int i = 0; i < (n) / 2; i++) {                                                                    \
        (out)[2 * i] = lo((in)[i], (in)[i + (n) / 2]);                                                                 \
        (out)[2 * i + 1] = hi((in)[i], (in)[i + (n) / 2]);                                                             \
    }
/* Makes as many passes as the unit needs, between v and w.  After an even number of passes the result is in v. */
#define SHUFFLES_16(lo, hi) enum { EVEN = 1 };
#define SHUFFLES_8(lo, hi)                                                                                             \
    enum { EVEN = 0 };                                                                                                 \
    SHUFFLE(2, lo##64, hi##64, v, w)
#define SHUFFLES_4(lo, hi)                                                                                             \
    enum { EVEN = 1 };                                                                                                 \
    SHUFFLE(4, lo##32, hi##32, v, w) SHUFFLE(4, lo##32, hi##32, w, v)
#define SHUFFLES_2(lo, hi)                                                                                             \
    enum { EVEN = 0 };                                                                                                 \
    SHUFFLE(8, lo##16, hi##16, v, w) SHUFFLE(8, lo##16, hi##16, w, v) SHUFFLE(8, lo##16, hi##16, v, w)
#define SHUFFLES_1(lo, hi)                                                                                             \
    enum { EVEN = 1 };                                                                                                 \
    SHUFFLE(16, lo##8, hi##8, v, w)                                                                                    \
    SHUFFLE(16, lo##8, hi##8, w, v) SHUFFLE(16, lo##8, hi##8, v, w) SHUFFLE(16, lo##8, hi##8, w, v)

/* Loads a register of lanes from source lines that are `far` bytes apart. */
RSHI_INLINE __m128i lane(const char *src) { return _mm_loadu_si128((const __m128i *)(const void *)src); }
RSHI_INLINE __m128i lanes_generic(const char *src, int64_t far) { return (void)far, lane(src); }
RSHI_AVX2 RSHI_INLINE __m256i lanes_avx2(const char *src, int64_t far) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(lane(src)), lane(src + far), 1);
}
RSHI_AVX512 RSHI_INLINE __m512i lanes_avx512(const char *src, int64_t far) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(lanes_avx2(src, far)), lanes_avx2(src + 2 * far, far), 1);
}
RSHI_INLINE void put_generic(char *dst, __m128i v) { _mm_storeu_si128((__m128i *)(void *)dst, v); }
RSHI_AVX2 RSHI_INLINE void put_avx2(char *dst, __m256i v) { _mm256_storeu_si256((__m256i *)(void *)dst, v); }
RSHI_AVX512 RSHI_INLINE void put_avx512(char *dst, __m512i v) { _mm512_storeu_si512(dst, v); }

/* Copies `lines` source lines side by side, `bytes` (a multiple of 16) of each. */
RSHI_INLINE void stage_lines(int64_t lines, int64_t bytes, char *stage, int64_t step, const char *src, int64_t sc) {
    for (int64_t i = 0; i < lines; i++)
        for (int64_t b = 0; b < bytes; b += 16) memcpy(stage + i * step + b, src + i * sc + b, 16);
}

/* Transposes N rows by W columns. */
#define SMALL_TILE(target, level, vec, unit, lo, hi)                                                                   \
    target RSHI_INLINE void tile_##unit##_##level(char *dst, int64_t dr, const char *src, int64_t sc) {                \
        enum { N = 16 / (unit) };                                                                                      \
        vec v[N], w[N];                                                                                                \
        RSHI_UNROLL for (int i = 0; i < N; i++) v[i] = lanes_##level(src + i * sc, N * sc);                            \
        SHUFFLES_##unit(lo, hi) RSHI_UNROLL for (int i = 0; i < N; i++) put_##level(dst + i * dr, EVEN ? v[i] : w[i]); \
    }

/* Whole small tiles only: `rows` is a multiple of N, at most a band; `cols` is a multiple of W. */
#define BAND(target, level, vec, unit)                                                                                 \
    target static void band_##unit##_##level(int64_t rows, int64_t cols, char *dst, int64_t dr, const char *src,       \
                                             int64_t sc) {                                                             \
        enum { N = 16 / (unit), W = sizeof(vec) / (unit), STEP = BAND_BYTES(unit) };                                   \
        _Alignas(RSHI_PAGE) char stage[IS_STAGED(unit) ? W * STEP : 1];                                                \
        bool far = sc > NEAR || sc < -NEAR;                                                                            \
        for (int64_t c = 0; c < cols; c += W) {                                                                        \
            const char *s = IS_STAGED(unit) && far ? stage : src + c * sc;                                             \
            int64_t step = IS_STAGED(unit) && far ? STEP : sc;                                                         \
            for (int i = 0; i < W && far; i++) rshi_prefetch(src, (c + AHEAD + i) * sc, rows * (unit));                \
            if (IS_STAGED(unit) && far) stage_lines(W, rows *(unit), stage, STEP, src + c * sc, sc);                   \
            for (int64_t r = 0; r < rows; r += N)                                                                      \
                tile_##unit##_##level(dst + r * dr + c * (unit), dr, s + r * (unit), step);                            \
        }                                                                                                              \
    }

#define PLANE(target, level, vec, unit)                                                                                \
    static void plane_##unit##_##level(int64_t rows, int64_t cols, char *dst, int64_t dr, const char *src,             \
                                       int64_t sc) {                                                                   \
        enum { N = 16 / (unit), W = sizeof(vec) / (unit), B = BAND_BYTES(unit) / (unit) };                             \
        int64_t r1 = rows / N * N, c1 = cols / W * W;                                                                  \
        for (int64_t r = 0; r < r1; r += B)                                                                            \
            band_##unit##_##level(rshi_min(B, r1 - r), c1, dst + r * dr, dr, src + r * (unit), sc);                    \
        transpose_edge(unit, r1, cols - c1, dst + c1 * (unit), dr, src + c1 * sc, sc);                                 \
        transpose_edge(unit, rows - r1, cols, dst + r1 * dr, dr, src + r1 * (unit), sc);                               \
    }

#define UNIT(target, level, vec, prefix, unit)                                                                         \
    SMALL_TILE(target, level, vec, unit, prefix##_unpacklo_epi, prefix##_unpackhi_epi)                                 \
    BAND(target, level, vec, unit)                                                                                     \
    PLANE(target, level, vec, unit)
#define LEVEL(target, level, vec, prefix)                                                                              \
    UNIT(target, level, vec, prefix, 1)                                                                                \
    UNIT(target, level, vec, prefix, 2)                                                                                \
    UNIT(target, level, vec, prefix, 4)                                                                                \
    UNIT(target, level, vec, prefix, 8)                                                                                \
    UNIT(target, level, vec, prefix, 16)
LEVEL(, generic, __m128i, _mm)
LEVEL(RSHI_AVX2, avx2, __m256i, _mm256)
LEVEL(RSHI_AVX512, avx512, __m512i, _mm512)

typedef void plane_fn(int64_t rows, int64_t cols, char *dst, int64_t dr, const char *src, int64_t sc);
static plane_fn *const planes[][RSHI_SIMD_COUNT] = { /* indexed by log2 of the unit */
    RSHI_PER_LEVEL(plane_1), RSHI_PER_LEVEL(plane_2),  RSHI_PER_LEVEL(plane_4),
    RSHI_PER_LEVEL(plane_8), RSHI_PER_LEVEL(plane_16),
};

void rshi_transpose_copy(size_t unit, int64_t rows, int64_t cols, char *dst, int64_t dr, const char *src, int64_t sc) {
    planes[__builtin_ctz((unsigned)unit)][rshi_simd_level()](rows, cols, dst, dr, src, sc);
}

#else

/* Transposes in blocks of one cache line by one line, so that a source line is used up before it leaves the L1
 * cache. */
void rshi_transpose_copy(size_t unit, int64_t rows, int64_t cols, char *dst, int64_t dr, const char *src, int64_t sc) {
    int64_t u = (int64_t)unit, step = RSHI_LINE / u;
    for (int64_t r = 0; r < rows; r += step)
        for (int64_t c = 0; c < cols; c += step)
            transpose_edge(unit, rshi_min(step, rows - r), rshi_min(step, cols - c), dst + r * dr + c * u, dr,
                           src + c * sc + r * u, sc);
}

#endif
