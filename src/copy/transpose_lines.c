/* Lines: transposes whose results are streamed to memory as whole cache lines.
 *
 * A tile consists of one line of each of W = 64 / unit source rows; it becomes one line of each of W destination rows.
 * Every line is loaded once and stored once, so nothing has to stay in a cache.  Tiles follow each other along the
 * source: the processor prefetches the W long streams by itself, while the stores go to a different row each time,
 * which is fast in any order.
 *
 * Units of less than 4 bytes are first interleaved from neighbouring source rows until 4 bytes of a destination row
 * are together; the rest is a transpose of 16 x 16 words.
 *
 * Destination rows that are not aligned to lines are stored in lines too: the bytes of an incomplete line wait until
 * the next tile completes it. */
#include "copy/impl.h"

#include <string.h>

#if RSHI_X86

#define BAND_BYTES 4096 /* bytes of each source row that are processed before the next W rows */
#define BAND_ROWS  1024 /* destination rows of a band; each is on another page */
#define AHEAD      512  /* bytes between prefetch and use */

/* The destination of one column of tiles. */
typedef struct target {
    char *dst;
    int64_t dr;
    char *waiting; /* [rows]: an incomplete line for each row; NULL: rows are aligned */
    bool first;    /* no bytes are waiting yet */
} target;

typedef void put_fn(const target *t, int64_t row, __m512i v);

RSHI_AVX512 RSHI_INLINE __m512i load(const char *src) { return _mm512_loadu_si512(src); }

RSHI_AVX512 RSHI_INLINE void put_whole(const target *t, int64_t row, __m512i v) {
    _mm512_stream_si512((__m512i *)(void *)(t->dst + row * t->dr), v);
}

/* Combines the end of the waiting bytes and the beginning of v into a line. */
RSHI_AVX512 RSHI_INLINE void put_skewed(const target *t, int64_t row, __m512i v) {
    static const uint16_t place[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                       16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    char *dst = t->dst + row * t->dr, *waiting = t->waiting + row * RSHI_LINE;
    int past = (int)((uintptr_t)dst % RSHI_LINE);
    __m512i at = _mm512_add_epi16(_mm512_loadu_si512(place), _mm512_set1_epi16((short)(32 - past / 2)));
    __m512i line = _mm512_permutex2var_epi16(load(waiting), at, v);
    _mm512_store_si512(waiting, v);
    if (t->first) _mm512_mask_storeu_epi16(dst - past, UINT32_MAX << (past / 2), line);
    else _mm512_stream_si512((__m512i *)(void *)(dst - past), line);
}

/* ---- tiles ---- */

/* Transposes 4 x 4 lanes of 16 bytes. */
RSHI_AVX512 RSHI_INLINE void transpose_lanes(__m512i v[4]) {
    __m512i even_a = _mm512_shuffle_i64x2(v[0], v[1], 0x88), even_b = _mm512_shuffle_i64x2(v[2], v[3], 0x88);
    __m512i odd_a = _mm512_shuffle_i64x2(v[0], v[1], 0xdd), odd_b = _mm512_shuffle_i64x2(v[2], v[3], 0xdd);
    v[0] = _mm512_shuffle_i64x2(even_a, even_b, 0x88);
    v[1] = _mm512_shuffle_i64x2(odd_a, odd_b, 0x88);
    v[2] = _mm512_shuffle_i64x2(even_a, even_b, 0xdd);
    v[3] = _mm512_shuffle_i64x2(odd_a, odd_b, 0xdd);
}

/* Transposes 16 x 16 words: within lanes of 16 bytes, then whole lanes.  v[i] then has word i of every source. */
RSHI_AVX512 RSHI_INLINE void transpose_words(__m512i v[16]) {
    __m512i w[16];
    RSHI_UNROLL for (int i = 0; i < 16; i += 2) {
        w[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        w[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    RSHI_UNROLL for (int i = 0; i < 16; i += 4) {
        v[i] = _mm512_unpacklo_epi64(w[i], w[i + 2]);
        v[i + 1] = _mm512_unpackhi_epi64(w[i], w[i + 2]);
        v[i + 2] = _mm512_unpacklo_epi64(w[i + 1], w[i + 3]);
        v[i + 3] = _mm512_unpackhi_epi64(w[i + 1], w[i + 3]);
    }
    RSHI_UNROLL for (int i = 0; i < 4; i++) {
        __m512i lanes[4] = {v[i], v[4 + i], v[8 + i], v[12 + i]};
        transpose_lanes(lanes);
        RSHI_UNROLL for (int k = 0; k < 4; k++) v[4 * k + i] = lanes[k];
    }
}

RSHI_AVX512 RSHI_INLINE void tile_4(put_fn *put, const target *t, int64_t row, const char *src, int64_t sc) {
    __m512i v[16];
    RSHI_UNROLL for (int i = 0; i < 16; i++) v[i] = load(src + i * sc);
    transpose_words(v);
    RSHI_UNROLL for (int i = 0; i < 16; i++) put(t, row + i, v[i]);
}

/* Transposes and stores 16 x 16 words; those of a lane are four consecutive rows, and lanes are `lane` rows apart. */
RSHI_AVX512 RSHI_INLINE void put_words(put_fn *put, const target *t, int64_t row, int64_t lane, const __m512i *words) {
    __m512i v[16];
    RSHI_UNROLL for (int i = 0; i < 16; i++) v[i] = words[i];
    transpose_words(v);
    RSHI_UNROLL for (int i = 0; i < 16; i++) put(t, row + i / 4 * lane + i % 4, v[i]);
}

RSHI_AVX512 RSHI_INLINE void tile_2(put_fn *put, const target *t, int64_t row, const char *src, int64_t sc) {
    __m512i words[2][16];
    for (int i = 0; i < 16; i++, src += 2 * sc) {
        __m512i a = load(src), b = load(src + sc);
        words[0][i] = _mm512_unpacklo_epi16(a, b);
        words[1][i] = _mm512_unpackhi_epi16(a, b);
    }
    for (int i = 0; i < 2; i++) put_words(put, t, row + 4 * i, 8, words[i]);
}

RSHI_AVX512 RSHI_INLINE void tile_1(put_fn *put, const target *t, int64_t row, const char *src, int64_t sc) {
    __m512i words[4][16];
    for (int i = 0; i < 16; i++, src += 4 * sc) {
        __m512i a = load(src), b = load(src + sc), c = load(src + 2 * sc), d = load(src + 3 * sc);
        __m512i ab = _mm512_unpacklo_epi8(a, b), cd = _mm512_unpacklo_epi8(c, d);
        words[0][i] = _mm512_unpacklo_epi16(ab, cd);
        words[1][i] = _mm512_unpackhi_epi16(ab, cd);
        ab = _mm512_unpackhi_epi8(a, b), cd = _mm512_unpackhi_epi8(c, d);
        words[2][i] = _mm512_unpacklo_epi16(ab, cd);
        words[3][i] = _mm512_unpackhi_epi16(ab, cd);
    }
    for (int i = 0; i < 4; i++) put_words(put, t, row + 4 * i, 16, words[i]);
}

RSHI_AVX512 RSHI_INLINE void tile_16(put_fn *put, const target *t, int64_t row, const char *src, int64_t sc) {
    __m512i v[4];
    RSHI_UNROLL for (int i = 0; i < 4; i++) v[i] = load(src + i * sc);
    transpose_lanes(v);
    RSHI_UNROLL for (int i = 0; i < 4; i++) put(t, row + i, v[i]);
}

/* Combines pairs of 8 bytes into lanes, one for even and one for odd rows. */
RSHI_AVX512 RSHI_INLINE void tile_8(put_fn *put, const target *t, int64_t row, const char *src, int64_t sc) {
    __m512i even[4], odd[4];
    RSHI_UNROLL for (int i = 0; i < 4; i++) {
        __m512i a = load(src + 2 * i * sc), b = load(src + (2 * i + 1) * sc);
        even[i] = _mm512_unpacklo_epi64(a, b);
        odd[i] = _mm512_unpackhi_epi64(a, b);
    }
    transpose_lanes(even);
    transpose_lanes(odd);
    RSHI_UNROLL for (int i = 0; i < 4; i++) {
        put(t, row + 2 * i, even[i]);
        put(t, row + 2 * i + 1, odd[i]);
    }
}

/* Like tile_8, with a conversion: two sources are rounded like bf16_from_f32 and combined into words. */
RSHI_AVX512 RSHI_INLINE __m512i round_bf16(const char *src) {
    __m512i u = load(src), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    __mmask16 nan = _mm512_cmpgt_epi32_mask(_mm512_and_si512(u, _mm512_set1_epi32(0x7fffffff)),
                                            _mm512_set1_epi32(0x7f800000));
    return _mm512_mask_or_epi32(rounded, nan, u, _mm512_set1_epi32(0x400000));
}

RSHI_AVX512 RSHI_INLINE void tile_bf16(put_fn *put, const target *t, int64_t row, const char *src, int64_t sc) {
    __m512i v[16];
    RSHI_UNROLL for (int i = 0; i < 16; i++) {
        __m512i low = _mm512_srli_epi32(round_bf16(src + 2 * i * sc), 16);
        v[i] = _mm512_mask_blend_epi16(0xaaaaaaaa, low, round_bf16(src + (2 * i + 1) * sc));
    }
    transpose_words(v);
    RSHI_UNROLL for (int i = 0; i < 16; i++) put(t, row + i, v[i]);
}

/* ---- bands: some destination rows, all columns, whole tiles ---- */

RSHI_AVX512 static void flush_waiting(const target *t, int64_t rows) {
    for (int64_t r = 0; r < rows; r++) {
        char *dst = t->dst + r * t->dr;
        int64_t past = (int64_t)((uintptr_t)dst % RSHI_LINE);
        memcpy(dst - past, t->waiting + (r + 1) * RSHI_LINE - past, (size_t)past);
    }
}

/* Prefetches the bytes that follow at `at` in a band of source rows, or the beginning of the next band. */
RSHI_INLINE void prefetch_band(int64_t lines, int64_t at, int64_t bytes, const char *src, int64_t sc) {
    int64_t next = at + AHEAD < bytes ? at + AHEAD : at + AHEAD - bytes + lines * sc;
    for (int64_t i = 0; i < lines; i++) rshi_prefetch(src, next + i * sc, 1);
}

#define BAND(tile, from, to, put)                                                                                      \
    RSHI_AVX512 static void band_##tile##_##put(int64_t rows, int64_t cols, char *dst, int64_t dr, const char *src,    \
                                                int64_t sc) {                                                          \
        enum { H = RSHI_LINE / (from), W = RSHI_LINE / (to) };                                                         \
        _Alignas(RSHI_LINE) char waiting[put == put_skewed ? BAND_ROWS * RSHI_LINE : 1];                               \
        target t = {dst, dr, waiting, true};                                                                           \
        for (int64_t c = 0; c < cols; c += W, src += W * sc, t.dst += RSHI_LINE, t.first = false)                      \
            for (int64_t r = 0; r < rows; r += H) {                                                                    \
                prefetch_band(W, r * (from), rows * (from), src, sc);                                                  \
                tile_##tile(put, &t, r, src + r * (from), sc);                                                         \
            }                                                                                                          \
        if (put == put_skewed) flush_waiting(&t, rows);                                                               \
    }

#define TILES(X) X(1, 1, 1) X(2, 2, 2) X(4, 4, 4) X(8, 8, 8) X(16, 16, 16) X(bf16, 4, 2)
#define BANDS(tile, from, to) BAND(tile, from, to, put_whole) BAND(tile, from, to, put_skewed)
TILES(BANDS)

typedef void band_fn(int64_t rows, int64_t cols, char *dst, int64_t dr, const char *src, int64_t sc);
typedef struct tiling {
    int64_t from, to; /* bytes of a unit in the source and in the destination */
    band_fn *whole, *skewed;
} tiling;
#define ENTRY(tile, from, to) {from, to, band_##tile##_put_whole, band_##tile##_put_skewed},
static const tiling tilings[] = {TILES(ENTRY)}; /* indexed by log2 of the unit; the last entry converts f32 to bf16 */
enum { TO_BF16 = 5 };

/* Rows with an odd address are not supported, because lines are composed of 2-byte words. */
static bool is_possible(const tiling *t, const rshi_tiling *all, const char *dst, int64_t dr) {
    return rshi_simd_level() == RSHI_SIMD_AVX512 && ((uintptr_t)dst | (uint64_t)dr) % 2 == 0 &&
           all->rows >= RSHI_LINE / t->from && all->cols >= RSHI_LINE / t->to;
}

static rshi_tiling transpose_in_lines(const tiling *t, rshi_tiling all, char *dst, int64_t dr, const char *src,
                                      int64_t sc) {
    if (!is_possible(t, &all, dst, dr)) return (rshi_tiling){0, 0};
    int64_t h = RSHI_LINE / t->from, w = RSHI_LINE / t->to, step = rshi_min(BAND_ROWS, BAND_BYTES / t->from);
    rshi_tiling done = {all.rows / h * h, all.cols / w * w};
    band_fn *band = ((uintptr_t)dst | (uint64_t)dr) % RSHI_LINE ? t->skewed : t->whole;
    for (int64_t r = 0; r < done.rows; r += step)
        band(rshi_min(step, done.rows - r), done.cols, dst + r * dr, dr, src + r * t->from, sc);
    return done;
}

rshi_tiling rshi_lines_transpose(size_t unit, rshi_tiling all, char *dst, int64_t dr, const char *src, int64_t sc) {
    return transpose_in_lines(&tilings[__builtin_ctz((unsigned)unit)], all, dst, dr, src, sc);
}

rshi_tiling rshi_lines_to_bf16(rshi_tiling all, char *dst, int64_t dr, const char *src, int64_t sc) {
    return transpose_in_lines(&tilings[TO_BF16], all, dst, dr, src, sc);
}

#else

rshi_tiling rshi_lines_transpose(size_t unit, rshi_tiling all, char *dst, int64_t dr, const char *src, int64_t sc) {
    (void)unit, (void)all, (void)dst, (void)dr, (void)src, (void)sc;
    return (rshi_tiling){0, 0};
}

rshi_tiling rshi_lines_to_bf16(rshi_tiling all, char *dst, int64_t dr, const char *src, int64_t sc) {
    return rshi_lines_transpose(2, all, dst, dr, src, sc);
}

#endif
