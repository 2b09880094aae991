/* Rows: runs of bytes that are contiguous on both sides.
 *
 * Large destinations are written in whole cache lines with streaming stores, which avoid reading the line first.  Lines
 * that a run covers only in part are written with plain stores.  A source that is contiguous from row to row is read as
 * one long stream.  Scattered rows are prefetched some rows ahead, because the hardware prefetcher stops at the end of
 * each row.
 *
 * Scattered rows are faster if some of them are interleaved, a few lines of each in turn; this is done with AVX-512.
 * Other processors copy one row after the other: if source and destination rows are a multiple of 4 KiB apart, a load
 * has the same low address bits as a streaming store in progress, and processors that compare only those (such as AMD's
 * Zen 3) delay the load. */
#include "copy/line.h"

#include <string.h>

#define AHEAD       1024  /* bytes between prefetch and use in a long stream */
#define LONG_STREAM 32768 /* bytes: shorter streams are not prefetched */
#define LONG_RUN    65536 /* bytes: each longer run is treated as a stream */
#define ROWS_AHEAD  32768 /* bytes between prefetch and use of scattered rows */
#define LEAST_AHEAD 8     /* rows */
#define MOST_AHEAD  32
#define SHORT_AHEAD 8192  /* bytes between prefetch and use of short rows that are read from the caches */
#define LONG_ROW    2048  /* bytes: only longer rows prefetch beyond the last row */
#define TOGETHER    4     /* rows that are interleaved */
#define IN_TURN     4     /* lines of each row in turn */
#define STREAM_RUN  256   /* bytes: shorter runs are streamed only if they are whole lines */
#define TILE_BYTES  4096  /* short rows of a dense destination are collected in a tile of this size */

/* ---- plain stores ---- */

RSHI_INLINE void move16(char *dst, const char *src) { memcpy(dst, src, 16); }

/* Copies fewer than 16 bytes as two moves that may overlap. */
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

/* Copies a short run without the cost of a call. */
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

/* For rows that are not in the caches: while copying a row, prefetches a later one. */
static void prefetching_short_rows(int64_t rows, size_t run, char *dst, int64_t dr, const char *src, int64_t sr) {
    int64_t ahead = SHORT_AHEAD / (int64_t)run;
    for (int64_t r = 0; r < rows; r++) {
        if (r + ahead < rows) rshi_prefetch(src, (r + ahead) * sr, (int64_t)run);
        memcpy(dst + r * dr, src + r * sr, run);
    }
}

/* ---- streaming stores; the code is written once and compiled for each level's line function ---- */

/* Returns how many bytes ahead a source line is prefetched; 0: no prefetch.  The address may be beyond the source,
 * which is harmless.  Short runs are tiles, which are in the cache already. */
static int64_t ahead_in_run(size_t bytes) { return bytes > LONG_STREAM ? AHEAD : 0; }

static int64_t rows_ahead(size_t run) {
    int64_t some = ROWS_AHEAD / (int64_t)run;
    return some < LEAST_AHEAD ? LEAST_AHEAD : some > MOST_AHEAD ? MOST_AHEAD : some;
}

/* How lines are moved: `line` moves one line.  If there is an aside, `past` moves as many of its lines after each
 * group. */
typedef struct way {
    line_fn *line, *past;
    rshi_aside *aside; /* its destination is aligned to a line */
} way;

/* Scattered rows are prefetched to the L2 cache: in L1, lines a power of two apart evict each other before they are
 * used. */
RSHI_INLINE void move_lines(line_fn *line, int64_t ahead, bool apart, size_t lines, char *dst, const char *src) {
    for (size_t i = 0; i < lines * RSHI_LINE; i += RSHI_LINE) {
        const void *there = (const void *)((uintptr_t)src + i + (uintptr_t)ahead);
        if (ahead && apart) __builtin_prefetch(there, 0, 2);
        else if (ahead) __builtin_prefetch(there, 0, 3);
        line(dst + i, src + i);
    }
}

RSHI_INLINE void move_aside(way w, size_t lines) {
    rshi_aside a = *w.aside;
    size_t n = (a.left / RSHI_LINE < lines ? a.left / RSHI_LINE : lines);
    if (!n) return; /* there is no aside, so the addresses may be NULL */
    move_lines(w.past, 0, false, n, a.dst, a.src);
    *w.aside = (rshi_aside){a.dst + n * RSHI_LINE, a.src + n * RSHI_LINE, a.left - n * RSHI_LINE};
}

RSHI_INLINE void copy_lines(way w, int64_t ahead, bool apart, size_t lines, char *dst, const char *src) {
    size_t step = w.past ? IN_TURN : lines;
    for (size_t i = 0; i < lines; i += step) {
        size_t n = lines - i < step ? lines - i : step;
        move_lines(w.line, ahead, apart, n, dst + i * RSHI_LINE, src + i * RSHI_LINE);
        if (w.past) move_aside(w, n);
    }
}

/* Returns the number of bytes before the first line boundary. */
RSHI_INLINE size_t head_of(const char *dst, size_t n) {
    size_t head = -(uintptr_t)dst % RSHI_LINE;
    return head < n ? head : n;
}

/* Streams one run of any alignment. */
RSHI_INLINE void stream_run(way w, int64_t ahead, bool apart, char *dst, const char *src, size_t n) {
    size_t head = head_of(dst, n), lines = (n - head) / RSHI_LINE, done = head + lines * RSHI_LINE;
    copy_short(dst, src, head);
    copy_lines(w, ahead, apart, lines, dst + head, src + head);
    copy_short(dst + done, src + done, n - done);
}

static bool whole_lines(size_t run, const char *dst, int64_t dr) {
    return ((uintptr_t)dst | (uint64_t)dr | run) % RSHI_LINE == 0;
}

RSHI_INLINE void stream_rows(way w, int64_t ahead, int64_t rows, size_t run, char *dst, int64_t dr,
                             const char *src, int64_t sr) {
    bool whole = whole_lines(run, dst, dr);
    for (int64_t r = 0; r < rows; r++)
        if (whole)
            copy_lines(w, ahead, true, run / RSHI_LINE, dst + r * dr, src + r * sr);
        else
            stream_run(w, ahead, true, dst + r * dr, src + r * sr, run);
}

/* Interleaves several rows: copies some lines of each row in turn, until all whole lines are copied.  The remaining
 * bytes, less than two lines per row, are copied before and after. */
RSHI_INLINE void stream_together(way w, int64_t ahead, size_t run, char *dst, int64_t dr, const char *src,
                                 int64_t sr) {
    size_t head[TOGETHER], least = run / RSHI_LINE;
    for (int r = 0; r < TOGETHER; r++) {
        head[r] = head_of(dst + r * dr, run);
        copy_short(dst + r * dr, src + r * sr, head[r]);
        if ((run - head[r]) / RSHI_LINE < least) least = (run - head[r]) / RSHI_LINE;
    }
    for (size_t i = 0; i < least; i += IN_TURN)
        for (int r = 0; r < TOGETHER; r++) {
            size_t lines = least - i < IN_TURN ? least - i : IN_TURN, at = head[r] + i * RSHI_LINE;
            copy_lines(w, ahead, true, lines, dst + r * dr + at, src + r * sr + at);
        }
    for (int r = 0; r < TOGETHER; r++) {
        size_t done = head[r] + least * RSHI_LINE;
        stream_run(w, 0, true, dst + r * dr + done, src + r * sr + done, run - done);
    }
}

RSHI_INLINE void stream_apart(way w, bool together, int64_t ahead, int64_t rows, size_t run, char *dst,
                              int64_t dr, const char *src, int64_t sr) {
    int64_t r = 0;
    if (together && run > IN_TURN * RSHI_LINE)
        for (; r + TOGETHER <= rows; r += TOGETHER)
            stream_together(w, ahead, run, dst + r * dr, dr, src + r * sr, sr);
    stream_rows(w, ahead, rows - r, run, dst + r * dr, dr, src + r * sr, sr);
}

/* Returns how many rows prefetch a later row: all rows, or for short rows only those that have rows after them. */
static int64_t count_prefetching_rows(int64_t rows, size_t run) {
    return run >= LONG_ROW ? rows : rshi_max(0, rows - rows_ahead(run));
}

RSHI_INLINE void move_rows(way w, bool together, int64_t rows, size_t run, char *dst, int64_t dr, const char *src,
                           int64_t sr) {
    int64_t asking = count_prefetching_rows(rows, run);
    if (rows == 1 || run > LONG_RUN)
        for (int64_t r = 0; r < rows; r++) stream_run(w, ahead_in_run(run), false, dst + r * dr, src + r * sr, run);
    else if (sr == (int64_t)run)
        stream_rows(w, ahead_in_run((size_t)rows * run), rows, run, dst, dr, src, sr);
    else {
        stream_apart(w, together, rows_ahead(run) * sr, asking, run, dst, dr, src, sr);
        stream_apart(w, together, 0, rows - asking, run, dst + asking * dr, dr, src + asking * sr, sr);
    }
}

#define LEVEL(target, level, together)                                                                                 \
    target static void rows_##level(int64_t rows, size_t run, char *dst, int64_t dr, const char *src, int64_t sr) {    \
        move_rows((way){.line = line_##level}, together, rows, run, dst, dr, src, sr);                                 \
    }                                                                                                                  \
    target static void kept_rows_##level(rshi_aside *aside, int64_t rows, size_t run, char *dst, int64_t dr,           \
                                         const char *src, int64_t sr) {                                                \
        move_rows((way){kept_line_##level, line_##level, aside}, together, rows, run, dst, dr, src, sr);               \
    }
LEVEL(, generic, false)
#if RSHI_X86
LEVEL(RSHI_AVX2, avx2, false)
LEVEL(RSHI_AVX512, avx512, true)
#endif

typedef void rows_fn(int64_t rows, size_t run, char *dst, int64_t dr, const char *src, int64_t sr);
static rows_fn *const rows_at[RSHI_SIMD_COUNT] = RSHI_PER_LEVEL(rows);
typedef void kept_rows_fn(rshi_aside *aside, int64_t rows, size_t run, char *dst, int64_t dr, const char *src,
                          int64_t sr);
static kept_rows_fn *const kept_rows_at[RSHI_SIMD_COUNT] = RSHI_PER_LEVEL(kept_rows);

/* ---- choosing ---- */

/* Collects short rows in a tile and streams the tile.  The rows are consecutive in the destination. */
static void assemble_rows(rows_fn *stream, int64_t rows, size_t run, char *dst, const char *src, int64_t sr) {
    _Alignas(RSHI_PAGE) char tile[TILE_BYTES];
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

/* Advances the destination to the start of a line. */
static void align_aside(rshi_aside *a) {
    if (!a->left) return; /* otherwise the addresses may be NULL */
    size_t head = head_of(a->dst, a->left);
    copy_short(a->dst, a->src, head);
    *a = (rshi_aside){a->dst + head, a->src + head, a->left - head};
}

/* Copies rows that are not in the caches to a destination that stays in the caches.  The shortest rows need no
 * prefetch. */
static void copy_cold(rshi_aside *aside, int64_t rows, size_t run, char *dst, int64_t dr, const char *src, int64_t sr) {
    if (run <= STREAM_RUN) {
        plain_rows(rows, run, dst, dr, src, sr);
    } else if (run < LONG_ROW) {
        prefetching_short_rows(rows, run, dst, dr, src, sr);
    } else {
        align_aside(aside);
        kept_rows_at[rshi_simd_level()](aside, rows, run, dst, dr, src, sr);
    }
}

void rshi_run_rows(const rshi_move *m, const rshi_plane *p, char *dst, const char *const *src) {
    size_t run = (size_t)p->cols * (size_t)m->unit;
    int64_t dr = rshi_plane_row(p, m->ds), sr = rshi_plane_row(p, m->ss);
    dst += rshi_plane_offset(p, m->ds);
    const char *from = src[0] + rshi_plane_offset(p, m->ss);
    if (m->aside) copy_cold(m->aside, p->rows, run, dst, dr, from, sr);
    else rshi_rows_copy(m->stream, p->rows, run, dst, dr, from, sr);
}

/* ---- sub-moves ---- */

rshi_strip rshi_move_strip(const rshi_move *m, int first, int64_t i0, int64_t i1) {
    int last = m->nd - 1;
    bool rows_of_bytes = m->kernel == RSHI_KERNEL_ROWS || m->kernel == RSHI_KERNEL_CONTIGUOUS;
    if (!rows_of_bytes || first < last - 1) return (rshi_strip){0};
    int64_t rows = first < last ? i1 - i0 : 1, run = (first < last ? m->n[last] : i1 - i0) * m->unit;
    if (rows > INT32_MAX || run > INT32_MAX) return (rshi_strip){0};
    return (rshi_strip){i0 * m->ds[first], i0 * m->ss[first], m->ds[first], m->ss[first], (int32_t)rows, (int32_t)run};
}

void rshi_strip_run(const rshi_strip *r, bool stream, char *dst, const char *src) {
    rshi_rows_copy(stream, r->rows, (size_t)r->run, dst + r->dst, r->dr, src + r->src, r->sr);
}

void rshi_strip_ask(const rshi_strip *r, const char *src) {
    int64_t rows = rshi_min(r->rows, rows_ahead((size_t)r->run));
    for (int64_t i = 0; i < rows; i++) rshi_prefetch(src, r->src + i * r->sr, r->run);
}

int64_t rshi_strip_asked(const rshi_strip *r) {
    return r->run < LONG_ROW ? rshi_min(r->rows, rows_ahead((size_t)r->run)) * r->run : 0;
}
