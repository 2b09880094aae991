/* Rows: runs of bytes that are contiguous on both sides.
 *
 * Large destinations are written in whole cache lines with streaming stores, which spare the read of the line that a
 * plain store costs; lines that a run covers in part are written with plain stores.  A source that goes on from row to
 * row is read as one long stream, prefetched by hand.  Rows that lie apart break the stream, so WAYS of them are walked
 * together. */
#include "copy/impl.h"

#include <string.h>

#define AHEAD          2048  /* bytes between prefetch and use in a long stream */
#define LONG_STREAM    32768 /* bytes of a stream that is worth it */
#define WAYS           4     /* rows walked together, if they have from TOGETHER_LEAST to TOGETHER_MOST bytes */
#define TOGETHER_LEAST 1024
#define TOGETHER_MOST  65536
#define STREAM_RUN     256  /* shorter runs stream only if they are whole lines */
#define TILE_BYTES     4096 /* short rows of a dense destination are put together in a tile of this size */

/* ---- plain stores ---- */

RSHI_INLINE void move16(char *dst, const char *src) { memcpy(dst, src, 16); }

/* Fewer than 16 bytes, as two moves that may overlap. */
RSHI_INLINE void copy_tiny(char *dst, const char *src, size_t n) {
    if (n >= 8) {
        uint64_t a, b;
        memcpy(&a, src, 8), memcpy(&b, src + n - 8, 8);
        memcpy(dst, &a, 8), memcpy(dst + n - 8, &b, 8);
    } else if (n >= 4) {
        uint32_t a, b;
        memcpy(&a, src, 4), memcpy(&b, src + n - 4, 4);
        memcpy(dst, &a, 4), memcpy(dst + n - 4, &b, 4);
    } else {
        for (size_t i = 0; i < n; i++) dst[i] = src[i];
    }
}

/* A short run without the cost of a call. */
RSHI_INLINE void copy_short(char *dst, const char *src, size_t n) {
    if (n < 16) {
        copy_tiny(dst, src, n);
        return;
    }
    for (size_t i = 0; i + 16 <= n; i += 16) move16(dst + i, src + i);
    if (n % 16) move16(dst + n - 16, src + n - 16);
}

static void plain_rows(int64_t rows, size_t run, char *dst, int64_t dr, const char *src, int64_t sr) {
    if (run <= 256)
        for (int64_t r = 0; r < rows; r++) copy_short(dst + r * dr, src + r * sr, run);
    else
        for (int64_t r = 0; r < rows; r++) memcpy(dst + r * dr, src + r * sr, run);
}

/* ---- streaming stores; each level brings its own way to move a line, the rest is written once ---- */

typedef void line_fn(char *dst, const char *src); /* 64 bytes; dst is aligned to them */

#if RSHI_X86
RSHI_INLINE void line_generic(char *dst, const char *src) {
    for (int i = 0; i < RSHI_LINE; i += 16)
        _mm_stream_si128((__m128i *)(void *)(dst + i), _mm_loadu_si128((const __m128i *)(const void *)(src + i)));
}
RSHI_AVX2 RSHI_INLINE void line_avx2(char *dst, const char *src) {
    for (int i = 0; i < RSHI_LINE; i += 32)
        _mm256_stream_si256((__m256i *)(void *)(dst + i), _mm256_loadu_si256((const __m256i *)(const void *)(src + i)));
}
RSHI_AVX512 RSHI_INLINE void line_avx512(char *dst, const char *src) {
    _mm512_stream_si512((__m512i *)(void *)dst, _mm512_loadu_si512(src));
}
#else
RSHI_INLINE void line_generic(char *dst, const char *src) { memcpy(dst, src, RSHI_LINE); }
#endif

/* `far`, a constant wherever this is inlined: the source is part of a long stream.  What is prefetched may lie beyond
 * it, where asking does no harm. */
RSHI_INLINE void copy_lines(line_fn *line, bool far, size_t lines, char *dst, const char *src) {
    for (size_t i = 0; i < lines * RSHI_LINE; i += RSHI_LINE) {
        if (far) __builtin_prefetch((const void *)((uintptr_t)src + i + AHEAD), 0, 3);
        line(dst + i, src + i);
    }
}

/* Fewer than TOGETHER_LEAST bytes of a row.  Unrolled, so that each line has a load instruction of its own: the
 * processor's prefetch goes by instructions and so finds the stride from row to row. */
RSHI_INLINE void copy_few_lines(line_fn *line, size_t lines, char *dst, const char *src) {
    RSHI_UNROLL for (size_t i = 0; i < TOGETHER_LEAST / RSHI_LINE; i++) {
        if (i == lines) break;
        line(dst + i * RSHI_LINE, src + i * RSHI_LINE);
    }
}

/* What is short is a tile and in the cache already; what has gaps is better left to the processor's own prefetch. */
RSHI_INLINE bool is_long_stream(int64_t rows, size_t run, int64_t sr) {
    bool gapless = rows == 1 || sr == (int64_t)run || run > TOGETHER_MOST;
    return gapless && (size_t)rows * run > LONG_STREAM;
}

RSHI_INLINE void copy_lines_together(line_fn *line, size_t lines, char *const *dst, const char *const *src) {
    char *d0 = dst[0], *d1 = dst[1], *d2 = dst[2], *d3 = dst[3];
    const char *s0 = src[0], *s1 = src[1], *s2 = src[2], *s3 = src[3];
    for (size_t i = 0; i < lines * RSHI_LINE; i += RSHI_LINE) {
        line(d0 + i, s0 + i);
        line(d1 + i, s1 + i);
        line(d2 + i, s2 + i);
        line(d3 + i, s3 + i);
    }
}

/* Bytes before the first line boundary. */
RSHI_INLINE size_t head_of(const char *dst, size_t n) {
    size_t head = -(uintptr_t)dst % RSHI_LINE;
    return head < n ? head : n;
}

/* One run of any alignment. */
RSHI_INLINE void stream_run(line_fn *line, bool far, char *dst, const char *src, size_t n) {
    size_t head = head_of(dst, n), lines = (n - head) / RSHI_LINE, done = head + lines * RSHI_LINE;
    copy_short(dst, src, head);
    copy_lines(line, far, lines, dst + head, src + head);
    copy_short(dst + done, src + done, n - done);
}

/* WAYS runs of one length; their alignment may differ, so each has a head and a tail of its own. */
RSHI_INLINE void stream_group(line_fn *line, size_t run, char *dst, int64_t dr, const char *src, int64_t sr) {
    char *d[WAYS];
    const char *s[WAYS];
    size_t head[WAYS];
    for (int w = 0; w < WAYS; w++) {
        head[w] = head_of(dst + w * dr, run);
        copy_short(dst + w * dr, src + w * sr, head[w]);
        d[w] = dst + w * dr + head[w];
        s[w] = src + w * sr + head[w];
    }
    size_t together = run / RSHI_LINE - 1; /* every row has at least as many whole lines */
    copy_lines_together(line, together, d, s);
    for (int w = 0; w < WAYS; w++) {
        size_t done = together * RSHI_LINE, left = run - head[w] - done;
        copy_lines(line, false, left / RSHI_LINE, d[w] + done, s[w] + done);
        done += left / RSHI_LINE * RSHI_LINE;
        copy_short(d[w] + done, s[w] + done, left % RSHI_LINE);
    }
}

static bool whole_lines(size_t run, const char *dst, int64_t dr) {
    return ((uintptr_t)dst | (uint64_t)dr | run) % RSHI_LINE == 0;
}

RSHI_INLINE void stream_rows(line_fn *line, bool far, int64_t rows, size_t run, char *dst, int64_t dr, const char *src,
                             int64_t sr) {
    int64_t r = 0;
    if (far && whole_lines(run, dst, dr))
        for (; r < rows; r++) copy_lines(line, true, run / RSHI_LINE, dst + r * dr, src + r * sr);
    else if (!far && run < TOGETHER_LEAST && whole_lines(run, dst, dr))
        for (; r < rows; r++) copy_few_lines(line, run / RSHI_LINE, dst + r * dr, src + r * sr);
    else if (!far && run >= TOGETHER_LEAST)
        for (; r + WAYS <= rows; r += WAYS) stream_group(line, run, dst + r * dr, dr, src + r * sr, sr);
    for (; r < rows; r++) stream_run(line, far, dst + r * dr, src + r * sr, run);
}

#define LEVEL(target, level)                                                                                           \
    target static void rows_##level(int64_t rows, size_t run, char *dst, int64_t dr, const char *src, int64_t sr) {    \
        if (is_long_stream(rows, run, sr))                                                                             \
            stream_rows(line_##level, true, rows, run, dst, dr, src, sr);                                              \
        else                                                                                                           \
            stream_rows(line_##level, false, rows, run, dst, dr, src, sr);                                             \
    }
LEVEL(, generic)
#if RSHI_X86
LEVEL(RSHI_AVX2, avx2)
LEVEL(RSHI_AVX512, avx512)
#endif

typedef void rows_fn(int64_t rows, size_t run, char *dst, int64_t dr, const char *src, int64_t sr);
static rows_fn *const rows_at[RSHI_SIMD_COUNT] = RSHI_PER_LEVEL(rows);

/* ---- choosing ---- */

/* Short rows that follow each other in the destination become long ones in a tile. */
static void assemble_rows(rows_fn *stream, int64_t rows, size_t run, char *dst, const char *src, int64_t sr) {
    _Alignas(RSHI_LINE) char tile[TILE_BYTES];
    int64_t step = (int64_t)(TILE_BYTES / run);
    for (int64_t r = 0; r < rows; r += step) {
        int64_t count = rshi_min(step, rows - r);
        plain_rows(count, run, tile, (int64_t)run, src + r * sr, sr);
        stream(1, (size_t)count * run, dst + r * (int64_t)run, 0, tile, 0);
    }
}

void rshi_rows_copy(bool stream, int64_t rows, size_t run, char *dst, int64_t dr, const char *src, int64_t sr) {
    rows_fn *streaming = stream ? rows_at[rshi_simd_level()] : plain_rows;
    if (rows > 1 && dr == (int64_t)run && sr == (int64_t)run) run *= (size_t)rows, rows = 1;
    if (!stream || run >= STREAM_RUN || whole_lines(run, dst, dr))
        streaming(rows, run, dst, dr, src, sr);
    else if (rows > 1 && dr == (int64_t)run)
        assemble_rows(streaming, rows, run, dst, src, sr);
    else
        plain_rows(rows, run, dst, dr, src, sr);
}

void rshi_run_rows(const rshi_move *m, const rshi_plane *p, char *dst, const char *const *src) {
    size_t run = (size_t)p->cols * (size_t)m->unit;
    rshi_rows_copy(m->stream, p->rows, run, dst + rshi_plane_offset(p, m->ds), rshi_plane_row(p, m->ds),
                   src[0] + rshi_plane_offset(p, m->ss), rshi_plane_row(p, m->ss));
}
