/* Transpose: the source is dense along the rows of the plane, the destination along its columns.
 *
 * Large planes are done in tiles: a piece of each of some source lines is copied side by side, that is transposed, and
 * the result leaves in runs.  Source lines are often a power of two apart, where the caches cannot hold many of them
 * together; side by side they can be. */
#include "copy/impl.h"

#include <string.h>

#define STAGE_BYTES 16384 /* of pieces side by side */
#define TILE_BYTES  32768
#define LINES_AHEAD 8 /* between prefetch and use: more would push one another out of the cache */

/* `lines` pieces side by side. */
static void stage_pieces(int64_t lines, int64_t piece, char *stage, const char *src, int64_t sc) {
    for (int64_t i = 0; i < lines; i++, stage += piece, src += sc) {
        rshi_prefetch(src, LINES_AHEAD * sc, piece);
        if (piece == RSHI_PIECE_BYTES)
            for (int64_t b = 0; b < RSHI_PIECE_BYTES; b += 16) memcpy(stage + b, src + b, 16);
        else
            memcpy(stage, src, (size_t)piece);
    }
}

void rshi_tile_cross(size_t unit, int64_t rows, int64_t cols, char *tile, const char *src, int64_t sc) {
    _Alignas(RSHI_PAGE) char stage[STAGE_BYTES];
    int64_t u = (int64_t)unit, piece = rows * u, step = STAGE_BYTES / piece;
    if (step < 1) rshi_transpose_copy(false, unit, rows, cols, tile, cols * u, src, sc);
    for (int64_t c = 0; c < cols && step > 0; c += step) {
        int64_t lines = rshi_min(step, cols - c);
        stage_pieces(lines, piece, stage, src + c * sc, sc);
        rshi_transpose_copy(false, unit, rows, lines, tile + c * u, cols * u, stage, piece);
    }
}

static void stream_tiles(const rshi_move *m, const rshi_plane *p, char *dst, int64_t dr, const char *src, int64_t sc) {
    _Alignas(RSHI_PAGE) char tile[TILE_BYTES];
    int64_t u = m->unit;
    rshi_tiling t = rshi_tile_choose(p, (u <= 2 ? TILE_BYTES : TILE_BYTES / 2) / u, RSHI_PIECE_BYTES / u);
    for (int64_t r = 0; r < p->rows; r += t.rows)
        for (int64_t c = 0; c < p->cols; c += t.cols) {
            int64_t rows = rshi_min(t.rows, p->rows - r), cols = rshi_min(t.cols, p->cols - c);
            rshi_tile_cross((size_t)u, rows, cols, tile, src + r * u + c * sc, sc);
            rshi_rows_copy(true, rows, (size_t)(cols * u), dst + r * dr + c * u, dr, tile, cols * u);
        }
}

void rshi_run_transpose(const rshi_move *m, const rshi_plane *p, char *dst, const char *const *src) {
    int64_t dr = rshi_plane_row(p, m->ds), sc = rshi_plane_col(p, m->ss);
    const char *s = src[0] + rshi_plane_offset(p, m->ss);
    char *d = dst + rshi_plane_offset(p, m->ds);
    bool lines = m->stream && rshi_transpose_streams(d, dr);
    if (m->stream && !lines)
        stream_tiles(m, p, d, dr, s, sc);
    else
        rshi_transpose_copy(lines, (size_t)m->unit, p->rows, p->cols, d, dr, s, sc);
}
