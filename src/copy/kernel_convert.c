/* Convert: one source of another dtype, tile by tile: gather, convert, scatter.  Gather and scatter are skipped if the
 * plane is dense. */
#include "copy/impl.h"

/* Bytes of a tile, counted in the wider of the two types; it should fit into the L1 cache.  If the source is dense
 * along the rows, a tile is larger, because several lines of many source rows are read together. */
#define TILE_BYTES     8192
#define CROSSING_BYTES 32768

/* Is a rows x cols plane with these strides contiguous? */
static bool is_dense(int64_t rows, int64_t cols, int64_t unit, int64_t row, int64_t col) {
    return (col == unit || cols == 1) && (row == cols * unit || rows == 1);
}

typedef struct side {
    size_t unit;
    int64_t row, col; /* strides of one side in bytes */
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

static void convert_plane(const rshi_move *m, rshi_tiling all, char *dst, const side *to, const char *src,
                          const side *from) {
    int64_t unit = (int64_t)from->unit, wider = rshi_max(unit, (int64_t)to->unit);
    bool crossing = from->row == unit && from->col != unit;
    rshi_tiling t = crossing ? rshi_tile_choose(all, CROSSING_BYTES / wider, RSHI_PIECE_BYTES / unit)
                             : rshi_tile_choose(all, TILE_BYTES / wider, 1);
    for (int64_t r = 0; r < all.rows; r += t.rows)
        for (int64_t c = 0; c < all.cols; c += t.cols)
            convert_tile(m, rshi_min(t.rows, all.rows - r), rshi_min(t.cols, all.cols - c),
                         dst + r * to->row + c * to->col, to, src + r * from->row + c * from->col, from);
}

/* Transposes and converts in one pass, in whole lines.  Supports only some pairs of dtypes. */
static rshi_tiling convert_lines(const rshi_move *m, rshi_tiling all, char *dst, const side *to, const char *src,
                                 const side *from) {
    bool crossing = from->row == (int64_t)from->unit && to->col == (int64_t)to->unit && from->col != from->row;
    if (!m->stream || !crossing || m->from != RSH_F32 || m->to != RSH_BF16) return (rshi_tiling){0, 0};
    return rshi_lines_to_bf16(all, dst, to->row, src, from->col);
}

void rshi_run_convert(const rshi_move *m, const rshi_plane *p, char *dst, const char *const *src) {
    side from = {rsh_dtype_size(m->from), rshi_plane_row(p, m->ss), rshi_plane_col(p, m->ss)};
    side to = {rsh_dtype_size(m->to), rshi_plane_row(p, m->ds), rshi_plane_col(p, m->ds)};
    const char *s = src[0] + rshi_plane_offset(p, m->ss);
    char *d = dst + rshi_plane_offset(p, m->ds);
    rshi_tiling all = {p->rows, p->cols}, done = convert_lines(m, all, d, &to, s, &from);
    rshi_tiling beside = {done.rows, all.cols - done.cols}, below = {all.rows - done.rows, all.cols};
    if (beside.rows && beside.cols)
        convert_plane(m, beside, d + done.cols * to.col, &to, s + done.cols * from.col, &from);
    if (below.rows) convert_plane(m, below, d + done.rows * to.row, &to, s + done.rows * from.row, &from);
}
