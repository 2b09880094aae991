/* Weave: copies short rows of several sources that alternate in the destination, as in block-cyclic layouts.
 *
 * If one source were copied after the other, lines would be written in parts, and each line would be read first.
 * Instead all sources advance together: rows are collected in a small tile, and its whole lines are streamed.  The
 * rest of the last line moves to the front of the next tile.  The tile is small so that reading and writing overlap.
 * Rows of several whole lines need no tile. */
#include "copy/line.h"

#define SHORT_ROW  1024 /* bytes: longer rows are copied separately, which is as fast */
#define TILE_BYTES 1024 /* bytes of a tile, unless a single round is longer */
#define MOST_ROUND 8192 /* bytes of a round, at most: one row of each source */
#define SOME_LINES 128  /* bytes: shorter rows need a tile */
#define SOON       2048 /* bytes between prefetch and use of a contiguous source */

/* ---- choosing ---- */

static int64_t row_bytes(const rshi_move *m) { return m->n[m->nd - 1] * m->unit; }

bool rshi_move_weavable(const rshi_move *m) {
    return m->kernel == RSHI_KERNEL_ROWS && m->stream && m->nd >= 2 && row_bytes(m) < SHORT_ROW &&
           m->ds[m->nd - 2] > row_bytes(m) && m->ds[m->nd - 2] <= MOST_ROUND;
}

/* Compares steps in the destination and extents, except the length and number of rows. */
int rshi_move_compare_steps(const rshi_move *a, const rshi_move *b) {
    if (a->nd != b->nd) return a->nd - b->nd;
    for (int d = 0; d < a->nd - 1; d++) {
        if (a->ds[d] != b->ds[d]) return a->ds[d] < b->ds[d] ? -1 : 1;
        if (d < a->nd - 2 && a->n[d] != b->n[d]) return a->n[d] < b->n[d] ? -1 : 1;
    }
    return 0;
}

bool rshi_move_weave(const rshi_move *const *moves, int n, rshi_move *out, int64_t *runs, int64_t *ss,
                     int64_t *count) {
    int rows = moves[0]->nd - 2;
    int64_t round = 0;
    if (n < 2 || n > RSHI_WEAVE_MOST) return false;
    *count = moves[0]->n[rows];
    for (int k = 0; k < n; k++) {
        runs[k] = row_bytes(moves[k]);
        round += runs[k];
        *count = rshi_min(*count, moves[k]->n[rows]);
        memcpy(ss + (ptrdiff_t)k * RSHI_MOVE_DIMS, moves[k]->ss, RSHI_MOVE_DIMS * sizeof *ss);
    }
    if (round != moves[0]->ds[rows]) return false;
    *out = *moves[0];
    out->kernel = RSHI_KERNEL_WEAVE;
    for (out->tail = 0; out->tail < n - 1 && moves[out->tail]->n[rows] > *count;) out->tail++;
    out->nsrc = n;
    out->runs = runs;
    out->ss = ss;
    out->n[rows] = *count;
    out->n[rows + 1] = round / out->unit;
    out->split = rows;
    return true;
}

/* ---- running ---- */

typedef struct strand {
    const char *src;
    int64_t step, run; /* bytes from row to row, and bytes of a row */
    int64_t ahead;     /* distance of the prefetch in bytes; 0: none */
} strand;

/* A plane: `rows` rounds of all n strands, then one incomplete round of the first `tail` strands. */
typedef struct loom {
    int n, tail;
    int64_t rows, round; /* number of rounds, and bytes of a round */
    strand s[RSHI_WEAVE_MOST];
} loom;

static bool in_round(const loom *w, int64_t r, int k) { return k < (r < w->rows ? w->n : w->tail); }

#define LINES(target, level)                                                                                           \
    target static void lines_##level(const loom *w, char *dst) {                                                       \
        for (int64_t r = 0; r <= w->rows; r++)                                                                         \
            for (int k = 0; in_round(w, r, k); k++) {                                                                  \
                const strand *s = &w->s[k];                                                                            \
                const char *src = s->src + r * s->step;                                                                \
                for (int64_t i = 0; i < s->run; i += RSHI_LINE, dst += RSHI_LINE) {                                    \
                    if (s->ahead) rshi_prefetch(src + i, s->ahead, 1);                                                 \
                    line_##level(dst, src + i);                                                                        \
                }                                                                                                      \
            }                                                                                                          \
    }
LINES(, generic)
#if RSHI_X86
LINES(RSHI_AVX2, avx2)
LINES(RSHI_AVX512, avx512)
#endif
typedef void lines_fn(const loom *w, char *dst);
static lines_fn *const lines_at[RSHI_SIMD_COUNT] = RSHI_PER_LEVEL(lines);

static bool is_lines(const loom *w, const char *dst) {
    uint64_t all = (uintptr_t)dst;
    for (int k = 0; k < w->n; k++) {
        if (w->s[k].run < SOME_LINES) return false;
        all |= (uint64_t)w->s[k].run;
    }
    return all % RSHI_LINE == 0;
}

/* Copies 16 bytes at a time; the last 16 may overlap the previous ones. */
RSHI_INLINE void copy_row(char *dst, const char *src, int64_t n) {
    int64_t i = 0;
    if (n < 16) {
        for (; i < n; i++) dst[i] = src[i];
        return;
    }
    for (; i + 16 <= n; i += 16) memcpy(dst + i, src + i, 16);
    if (i < n) memcpy(dst + n - 16, src + n - 16, 16);
}

/* Copies `rounds` rows of one source.  The strand is passed by value, because the bytes written might alias it. */
RSHI_INLINE void fill_strand(strand s, int64_t rounds, int64_t round, char *tile) {
    for (int64_t i = 0; i < rounds && s.ahead; i++) rshi_prefetch(s.src, s.ahead + i * s.step, s.run);
    if (s.run >= 32 && s.run <= 48) /* three moves, the last two of which may overlap */
        for (int64_t i = 0; i < rounds; i++, tile += round, s.src += s.step) {
            memcpy(tile, s.src, 16);
            memcpy(tile + 16, s.src + 16, 16);
            memcpy(tile + s.run - 16, s.src + s.run - 16, 16);
        }
    else
        for (int64_t i = 0; i < rounds; i++, tile += round, s.src += s.step) copy_row(tile, s.src, s.run);
}

/* Copies `rounds` rows of each of the first n sources; returns the end of the filled bytes. */
static char *fill_tile(loom *w, int n, int64_t rounds, char *tile) {
    char *start = tile;
    for (int k = 0; k < n; tile += w->s[k].run, k++) {
        fill_strand(w->s[k], rounds, w->round, tile);
        w->s[k].src += rounds * w->s[k].step;
    }
    return start + (rounds - 1) * w->round + (tile - start);
}

/* Copies the rows of a plane.  The bytes of an incomplete line stay at the front of the tile. */
static void weave_rows(loom *w, char *dst) {
    _Alignas(RSHI_PAGE) char tile[RSHI_LINE + TILE_BYTES + MOST_ROUND];
    int64_t step = rshi_max(1, TILE_BYTES / w->round), past = (int64_t)((uintptr_t)dst % RSHI_LINE), skip = past;
    int64_t all = w->rows + (w->tail > 0), rounds;
    dst -= past;
    for (int64_t r = 0; r < all; r += rounds, skip = 0) {
        rounds = r < w->rows ? rshi_min(step, w->rows - r) : 1;
        int64_t end = fill_tile(w, r < w->rows ? w->n : w->tail, rounds, tile + past) - tile;
        past = r + rounds < all ? end % RSHI_LINE : 0;
        rshi_rows_copy(true, 1, (size_t)(end - past - skip), dst + skip, 0, tile + skip, 0);
        memmove(tile, tile + end - past, (size_t)past);
        dst += end - past;
    }
}

/* Returns the distance of the prefetch: to the same row of the next plane, or a fixed distance if the source is
 * contiguous. */
static int64_t ahead_of(const rshi_plane *p, const int64_t *ss, int64_t run) {
    if (rshi_plane_row(p, ss) == run) return run < RSHI_LINE ? 0 : SOON;
    return p->dims > 2 ? ss[p->dims - 3] : 0;
}

void rshi_run_weave(const rshi_move *m, const rshi_plane *p, char *dst, const char *const *src) {
    int rows = p->dims - 2;
    loom w = {.n = m->nsrc, .rows = p->rows, .round = rshi_plane_row(p, m->ds)};
    char *to = dst + rshi_plane_offset(p, m->ds);
    if (p->index[rows] + p->rows == m->n[rows]) w.tail = m->tail;
    for (int k = 0; k < m->nsrc; k++) {
        const int64_t *ss = m->ss + (ptrdiff_t)k * RSHI_MOVE_DIMS;
        w.s[k] = (strand){src[k] + rshi_plane_offset(p, ss), rshi_plane_row(p, ss), m->runs[k],
                          ahead_of(p, ss, m->runs[k])};
    }
    if (is_lines(&w, to))
        lines_at[rshi_simd_level()](&w, to);
    else
        weave_rows(&w, to);
}
