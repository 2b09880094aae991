/* Transpose: the source is dense along the rows of the plane, the destination along its columns.
 *
 * The heart is a small tile in registers.  A 16-byte lane holds N = 16/unit units.  Reading N lanes, each from another source
 * line, and interleaving them log2(N) times in perfect-shuffle order leaves in lane j what the N sources had at position j: an
 * N x N transpose.  Wider registers do 2 or 4 of these side by side, so a store is 16, 32 or 64 bytes of one destination row. */
#include "copy/impl.h"

#include <string.h>

#define TILE_BYTES 32768  /* destination tile of a streamed transpose */
#define SOURCE_BYTES 256  /* of each source line that a tile uses */

/* Edges, and machines without vectors: row by row. */
static void transpose_edge(size_t unit, int64_t rows, int64_t cols, char *dst, int64_t dr, const char *src, int64_t sc) {
    rshi_strided_copy(unit, rows, cols, dst, dr, (int64_t)unit, src, (int64_t)unit, sc);
}

#if RSHI_X86

/* in[] and out[] have n vectors; one pass of the perfect shuffle. */
#define SHUFFLE_PASS(n, lo, hi, in, out)                                                                                  \
    for (int i = 0; i < (n) / 2; i++) {                                                                                   \
        (out)[2 * i] = lo((in)[i], (in)[i + (n) / 2]);                                                                    \
        (out)[2 * i + 1] = hi((in)[i], (in)[i + (n) / 2]);                                                                \
    }
#define SHUFFLE_1(vec, lo, hi, v, w) SHUFFLE_PASS(2, lo, hi, v, w)
#define SHUFFLE_2(vec, lo, hi, v, w) SHUFFLE_PASS(4, lo, hi, v, w) SHUFFLE_PASS(4, lo, hi, w, v) memcpy(w, v, sizeof v);
#define SHUFFLE_3(vec, lo, hi, v, w)                                                                                      \
    SHUFFLE_PASS(8, lo, hi, v, w) SHUFFLE_PASS(8, lo, hi, w, v) SHUFFLE_PASS(8, lo, hi, v, w)
#define SHUFFLE_4(vec, lo, hi, v, w)                                                                                      \
    SHUFFLE_PASS(16, lo, hi, v, w)                                                                                        \
    SHUFFLE_PASS(16, lo, hi, w, v) SHUFFLE_PASS(16, lo, hi, v, w) SHUFFLE_PASS(16, lo, hi, w, v) memcpy(w, v, sizeof v);

/* One lane from each of `lanes` source lines that are n lines apart. */
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

/* n rows by sizeof(vec)/unit columns. */
#define SMALL_TILE(target, level, vec, unit, n, passes, lo, hi)                                                           \
    target RSHI_INLINE void tile_##unit##_##level(char *dst, int64_t dr, const char *src, int64_t sc) {                  \
        vec v[n], w[n];                                                                                                   \
        for (int i = 0; i < (n); i++) v[i] = lanes_##level(src + i * sc, (n)*sc);                                         \
        SHUFFLE_##passes(vec, lo, hi, v, w) for (int i = 0; i < (n); i++) put_##level(dst + i * dr, w[i]);               \
    }

/* All whole small tiles, column group by column group so that the source lines stay in L1; then the edges. */
#define PLANE(target, level, vec, unit)                                                                                   \
    target static void plane_##unit##_##level(int64_t rows, int64_t cols, char *dst, int64_t dr, const char *src,        \
                                              int64_t sc) {                                                               \
        enum { N = 16 / (unit), W = sizeof(vec) / (unit) };                                                               \
        int64_t r1 = rows / N * N, c1 = cols / W * W;                                                                     \
        for (int64_t c = 0; c < c1; c += W)                                                                               \
            for (int64_t r = 0; r < r1; r += N)                                                                           \
                tile_##unit##_##level(dst + r * dr + c * (unit), dr, src + c * sc + r * (unit), sc);                      \
        transpose_edge(unit, r1, cols - c1, dst + c1 * (unit), dr, src + c1 * sc, sc);                                    \
        transpose_edge(unit, rows - r1, cols, dst + r1 * dr, dr, src + r1 * (unit), sc);                                  \
    }

#define LEVEL(target, level, vec, prefix, suffix)                                                                         \
    SMALL_TILE(target, level, vec, 1, 16, 4, prefix##_unpacklo_epi8, prefix##_unpackhi_epi8)                              \
    SMALL_TILE(target, level, vec, 2, 8, 3, prefix##_unpacklo_epi16, prefix##_unpackhi_epi16)                             \
    SMALL_TILE(target, level, vec, 4, 4, 2, prefix##_unpacklo_epi32, prefix##_unpackhi_epi32)                             \
    SMALL_TILE(target, level, vec, 8, 2, 1, prefix##_unpacklo_epi64, prefix##_unpackhi_epi64)                             \
    PLANE(target, level, vec, 1)                                                                                          \
    PLANE(target, level, vec, 2)                                                                                          \
    PLANE(target, level, vec, 4)                                                                                          \
    PLANE(target, level, vec, 8)
LEVEL(, generic, __m128i, _mm, )
LEVEL(RSHI_AVX2, avx2, __m256i, _mm256, )
LEVEL(RSHI_AVX512, avx512, __m512i, _mm512, )

typedef void plane_fn(int64_t rows, int64_t cols, char *dst, int64_t dr, const char *src, int64_t sc);
static plane_fn *const planes[][RSHI_SIMD_COUNT] = {
    RSHI_PER_LEVEL(plane_1),
    RSHI_PER_LEVEL(plane_2),
    RSHI_PER_LEVEL(plane_4),
    RSHI_PER_LEVEL(plane_8),
};

void rshi_transpose_copy(size_t unit, int64_t rows, int64_t cols, char *dst, int64_t dr, const char *src, int64_t sc) {
    if (unit == 16)
        transpose_edge(unit, rows, cols, dst, dr, src, sc);
    else
        planes[__builtin_ctz((unsigned)unit)][rshi_simd_level()](rows, cols, dst, dr, src, sc);
}

#else

/* Blocks of a line by a line, so that a source line is used up before it leaves L1. */
void rshi_transpose_copy(size_t unit, int64_t rows, int64_t cols, char *dst, int64_t dr, const char *src, int64_t sc) {
    int64_t u = (int64_t)unit, step = RSHI_LINE / u;
    for (int64_t r = 0; r < rows; r += step)
        for (int64_t c = 0; c < cols; c += step)
            transpose_edge(unit, rshi_min(step, rows - r), rshi_min(step, cols - c), dst + r * dr + c * u, dr,
                           src + c * sc + r * u, sc);
}

#endif

/* A streamed plane goes through tiles, so that whole destination lines leave at once whatever their alignment. */
void rshi_run_transpose(const rshi_move *m, const rshi_plane *p, char *dst, const char *const *src) {
    int64_t dr = rshi_plane_row(p, m->ds), sc = rshi_plane_col(p, m->ss), u = m->unit;
    const char *s = src[0] + rshi_plane_offset(p, m->ss);
    char *d = dst + rshi_plane_offset(p, m->ds);
    _Alignas(RSHI_LINE) char tile[TILE_BYTES];
    rshi_tiling t = rshi_tile_choose(p, TILE_BYTES / u, SOURCE_BYTES / u);
    for (int64_t r = 0; r < p->rows; r += t.rows)
        for (int64_t c = 0; c < p->cols; c += t.cols) {
            int64_t rows = rshi_min(t.rows, p->rows - r), cols = rshi_min(t.cols, p->cols - c);
            char *to = d + r * dr + c * u;
            const char *from = s + r * u + c * sc;
            rshi_transpose_copy((size_t)u, rows, cols, m->stream ? tile : to, m->stream ? cols * u : dr, from, sc);
            if (m->stream) rshi_rows_copy(true, rows, (size_t)(cols * u), to, dr, tile, cols * u);
        }
}
