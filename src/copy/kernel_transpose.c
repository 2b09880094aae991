/* Transpose: the source is dense along the rows of the plane, the destination along its columns.
 *
 * Large planes are processed in tiles: pieces of several source lines are copied side by side, transposed, and written
 * in runs.  Source lines are often a power of two apart, so that the caches can hold few of them; side by side they
 * fit. */
#include "copy/impl.h"

#include <string.h>

#define STAGE_BYTES 16384 /* bytes of all pieces that are copied side by side */
#define TILE_BYTES  32768
#define TILE_ROWS   128
#define LINES_AHEAD 16 /* lines between prefetch and use; more lines would evict each other from the cache */

/* Copies `lines` pieces side by side. */
static void stage_pieces(int64_t lines, int64_t piece, char *stage, const char *src, int64_t sc) {
    for (int64_t i = 0; i < lines; i++, stage += piece, src += sc) {
        rshi_prefetch(src, LINES_AHEAD * sc, piece);
        if (piece == RSHI_PIECE_BYTES)
            for (int64_t b = 0; b < RSHI_PIECE_BYTES; b += 16) memcpy(stage + b, src + b, 16);
        else
            memcpy(stage, src, (size_t)piece);
    }
}

void rshi_tile_cross(size_t unit, int64_t rows, int64_t cols, char *tile, int64_t tr, const char *src, int64_t sc) {
    _Alignas(RSHI_LINE) char stage[STAGE_BYTES];
    int64_t u = (int64_t)unit, piece = rows * u, step = STAGE_BYTES / piece;
    if (step < 1) rshi_transpose_copy(unit, rows, cols, tile, tr, src, sc);
    for (int64_t c = 0; c < cols && step > 0; c += step) {
        int64_t lines = rshi_min(step, cols - c);
        stage_pieces(lines, piece, stage, src + c * sc, sc);
        rshi_transpose_copy(unit, rows, lines, tile + c * u, tr, stage, piece);
    }
}

/* Streams one row of a tile, n bytes.  The bytes of an incomplete last line are moved in front of the row, where the
 * next tile completes the line; bytes that the previous tile left there are written first.  If a tile has less than a
 * line per row, incomplete lines are written at once. */
static void stream_row(char *dst, char *row, int64_t n, bool first, bool last) {
    int64_t before = first ? 0 : (int64_t)((uintptr_t)dst % RSHI_LINE);
    int64_t after = last ? 0 : (int64_t)((uintptr_t)(dst + n) % RSHI_LINE);
    rshi_rows_copy(true, 1, (size_t)(before + n - after), dst - before, 0, row - before, 0);
    memmove(row - after, row + n - after, (size_t)after);
}

static void stream_tiles(size_t unit, rshi_tiling all, char *dst, int64_t dr, const char *src, int64_t sc) {
    _Alignas(RSHI_PAGE) char room[TILE_BYTES + TILE_ROWS * RSHI_LINE];
    int64_t u = (int64_t)unit;
    rshi_tiling t = rshi_tile_choose(all, TILE_BYTES / u, rshi_min(TILE_ROWS, RSHI_PIECE_BYTES / u));
    t.rows = rshi_min(t.rows, TILE_ROWS);
    bool apart = t.cols * u < RSHI_LINE, whole = ((uintptr_t)dst | (uint64_t)(dr | t.cols * u)) % RSHI_LINE == 0;
    int64_t tr = t.cols * u + RSHI_LINE;
    char *tile = room + RSHI_LINE;
    for (int64_t r = 0; r < all.rows; r += t.rows)
        for (int64_t c = 0; c < all.cols; c += t.cols) {
            int64_t rows = rshi_min(t.rows, all.rows - r), cols = rshi_min(t.cols, all.cols - c);
            bool first = apart || !c, last = apart || c + cols == all.cols;
            char *d = dst + r * dr + c * u;
            rshi_tile_cross(unit, rows, cols, tile, tr, src + r * u + c * sc, sc);
            if (whole) rshi_rows_copy(true, rows, (size_t)(cols * u), d, dr, tile, tr);
            for (int64_t i = 0; i < rows && !whole; i++) stream_row(d + i * dr, tile + i * tr, cols * u, first, last);
        }
}

/* Transposes whole lines first, then the columns beside them, then the rows below. */
static void stream_plane(size_t unit, rshi_tiling all, char *dst, int64_t dr, const char *src, int64_t sc) {
    rshi_tiling done = rshi_lines_transpose(unit, all, dst, dr, src, sc);
    int64_t u = (int64_t)unit, beside = all.cols - done.cols, below = all.rows - done.rows;
    if (done.rows && beside)
        stream_tiles(unit, (rshi_tiling){done.rows, beside}, dst + done.cols * u, dr, src + done.cols * sc, sc);
    if (below)
        stream_tiles(unit, (rshi_tiling){below, all.cols}, dst + done.rows * dr, dr, src + done.rows * u, sc);
}

void rshi_run_transpose(const rshi_move *m, const rshi_plane *p, char *dst, const char *const *src) {
    int64_t dr = rshi_plane_row(p, m->ds), sc = rshi_plane_col(p, m->ss);
    const char *s = src[0] + rshi_plane_offset(p, m->ss);
    char *d = dst + rshi_plane_offset(p, m->ds);
    if (m->stream)
        stream_plane((size_t)m->unit, (rshi_tiling){p->rows, p->cols}, d, dr, s, sc);
    else
        rshi_transpose_copy((size_t)m->unit, p->rows, p->cols, d, dr, s, sc);
}
