/* Transpose: the source is dense along the rows of the plane, the destination along its columns. */
#include "copy/impl.h"

#define TILE_BYTES 32768

/* Rows that are not whole lines, or registers that are not: tiles are put together first and then leave as runs. */
static void stream_tiles(const rshi_move *m, const rshi_plane *p, char *dst, int64_t dr, const char *src, int64_t sc) {
    _Alignas(RSHI_LINE) char tile[TILE_BYTES];
    int64_t u = m->unit;
    rshi_tiling t = rshi_tile_choose(p, TILE_BYTES / u, rshi_min(128, RSHI_CROSSING_BYTES / u));
    for (int64_t r = 0; r < p->rows; r += t.rows)
        for (int64_t c = 0; c < p->cols; c += t.cols) {
            int64_t rows = rshi_min(t.rows, p->rows - r), cols = rshi_min(t.cols, p->cols - c);
            rshi_transpose_copy(false, (size_t)u, rows, cols, tile, cols * u, src + r * u + c * sc, sc);
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
