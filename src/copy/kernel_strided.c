/* Strided: copies unit by unit with any strides, and copies between strided planes and dense tiles. */
#include "copy/impl.h"

#include <string.h>

#define TILE_BYTES 4096

/* Unrolled by hand: compilers would assemble vectors from single elements here, which is slower. */
#define STRIDED(bytes)                                                                                                 \
    static void strided_##bytes(int64_t cols, char *dst, int64_t dc, const char *src, int64_t sc) {                    \
        for (; cols >= 4; cols -= 4, dst += 4 * dc, src += 4 * sc) {                                                   \
            memcpy(dst, src, bytes);                                                                                   \
            memcpy(dst + dc, src + sc, bytes);                                                                         \
            memcpy(dst + 2 * dc, src + 2 * sc, bytes);                                                                 \
            memcpy(dst + 3 * dc, src + 3 * sc, bytes);                                                                 \
        }                                                                                                              \
        for (; cols > 0; cols--, dst += dc, src += sc) memcpy(dst, src, bytes);                                        \
    }
STRIDED(1)
STRIDED(2)
STRIDED(4)
STRIDED(8)
STRIDED(16)

typedef void strided_fn(int64_t cols, char *dst, int64_t dc, const char *src, int64_t sc);

static strided_fn *strided_of(size_t unit) {
    switch (unit) {
    case 1: return strided_1;
    case 2: return strided_2;
    case 4: return strided_4;
    case 8: return strided_8;
    default: return strided_16;
    }
}

void rshi_strided_copy(size_t unit, int64_t rows, int64_t cols, char *dst, int64_t dr, int64_t dc, const char *src,
                       int64_t sr, int64_t sc) {
    strided_fn *copy = strided_of(unit);
    if (rows <= cols)
        for (int64_t r = 0; r < rows; r++) copy(cols, dst + r * dr, dc, src + r * sr, sc);
    else /* few columns: make the long loop the inner one */
        for (int64_t c = 0; c < cols; c++) copy(rows, dst + c * dc, dr, src + c * sc, sr);
}

void rshi_tile_gather(size_t unit, int64_t rows, int64_t cols, char *tile, const char *src, int64_t sr, int64_t sc) {
    int64_t u = (int64_t)unit;
    if (sc == u)
        rshi_rows_copy(false, rows, (size_t)cols * unit, tile, cols * u, src, sr);
    else if (sr == u)
        rshi_tile_cross(unit, rows, cols, tile, cols * u, src, sc);
    else
        rshi_strided_copy(unit, rows, cols, tile, cols * u, u, src, sr, sc);
}

void rshi_tile_scatter(bool stream, size_t unit, int64_t rows, int64_t cols, char *dst, int64_t dr, int64_t dc,
                       const char *tile) {
    int64_t u = (int64_t)unit;
    if (dc == u)
        rshi_rows_copy(stream, rows, (size_t)cols * unit, dst, dr, tile, cols * u);
    else
        rshi_strided_copy(unit, rows, cols, dst, dr, dc, tile, cols * u, u);
}

rshi_tiling rshi_tile_choose(rshi_tiling all, int64_t room, int64_t rows_wanted) {
    int64_t rows = rshi_min(all.rows, rows_wanted);
    int64_t cols = rshi_min(all.cols, room / rows);
    return (rshi_tiling){.rows = rshi_min(all.rows, room / cols), .cols = cols};
}

/* Collects tiles and streams them if the destination is dense; otherwise stores each unit directly. */
void rshi_run_strided(const rshi_move *m, const rshi_plane *p, char *dst, const char *const *src) {
    int64_t dr = rshi_plane_row(p, m->ds), dc = rshi_plane_col(p, m->ds);
    int64_t sr = rshi_plane_row(p, m->ss), sc = rshi_plane_col(p, m->ss);
    size_t unit = (size_t)m->unit;
    const char *s = src[0] + rshi_plane_offset(p, m->ss);
    char *d = dst + rshi_plane_offset(p, m->ds);
    if (!m->stream || dc != m->unit) {
        rshi_strided_copy(unit, p->rows, p->cols, d, dr, dc, s, sr, sc);
        return;
    }
    _Alignas(RSHI_LINE) char tile[TILE_BYTES];
    rshi_tiling t = rshi_tile_choose((rshi_tiling){p->rows, p->cols}, TILE_BYTES / m->unit, 1);
    for (int64_t r = 0; r < p->rows; r += t.rows)
        for (int64_t c = 0; c < p->cols; c += t.cols) {
            int64_t rows = rshi_min(t.rows, p->rows - r), cols = rshi_min(t.cols, p->cols - c);
            rshi_strided_copy(unit, rows, cols, tile, cols * m->unit, m->unit, s + r * sr + c * sc, sr, sc);
            rshi_tile_scatter(true, unit, rows, cols, d + r * dr + c * dc, dr, dc, tile);
        }
}
