/* Convert: one source of another dtype, tile by tile: gather, convert, scatter, each step left out where the plane is
 * dense. */
#include "copy/impl.h"

/* Bytes of a tile, counted in the wider of the two types: short enough for the first-level cache, unless the source
 * runs along the rows and several lines of many source rows are taken at once. */
#define TILE_BYTES     8192
#define CROSSING_BYTES 32768

/* Is a rows x cols plane with these strides one run? */
static bool is_dense(int64_t rows, int64_t cols, int64_t unit, int64_t row, int64_t col) {
    return (col == unit || cols == 1) && (row == cols * unit || rows == 1);
}

typedef struct side {
    size_t unit;
    int64_t row, col; /* strides in bytes */
} side;

static void convert_tile(const rshi_move *m, int64_t rows, int64_t cols, char *dst, const side *to, const char *src,
                         const side *from) {
    _Alignas(RSHI_PAGE) char in[CROSSING_BYTES], out[CROSSING_BYTES];
    size_t n = (size_t)(rows * cols);
    bool direct_in = is_dense(rows, cols, (int64_t)from->unit, from->row, from->col);
    bool direct_out = !m->stream && is_dense(rows, cols, (int64_t)to->unit, to->row, to->col);
    if (!direct_in) rshi_tile_gather(from->unit, rows, cols, in, src, from->row, from->col);
    rshi_convert(m->from, direct_in ? src : in, m->to, direct_out ? dst : out, n);
    if (!direct_out) rshi_tile_scatter(m->stream, to->unit, rows, cols, dst, to->row, to->col, out);
}

void rshi_run_convert(const rshi_move *m, const rshi_plane *p, char *dst, const char *const *src) {
    side from = {rsh_dtype_size(m->from), rshi_plane_row(p, m->ss), rshi_plane_col(p, m->ss)};
    side to = {rsh_dtype_size(m->to), rshi_plane_row(p, m->ds), rshi_plane_col(p, m->ds)};
    int64_t unit = (int64_t)from.unit, wider = rshi_max(unit, (int64_t)to.unit);
    bool crossing = from.row == unit && from.col != unit;
    const char *s = src[0] + rshi_plane_offset(p, m->ss);
    char *d = dst + rshi_plane_offset(p, m->ds);
    rshi_tiling t = crossing ? rshi_tile_choose(p, CROSSING_BYTES / wider, RSHI_PIECE_BYTES / unit)
                             : rshi_tile_choose(p, TILE_BYTES / wider, 1);
    for (int64_t r = 0; r < p->rows; r += t.rows)
        for (int64_t c = 0; c < p->cols; c += t.cols)
            convert_tile(m, rshi_min(t.rows, p->rows - r), rshi_min(t.cols, p->cols - c), d + r * to.row + c * to.col,
                         &to, s + r * from.row + c * from.col, &from);
}
