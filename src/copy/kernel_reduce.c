/* Reduce: several sources into one destination, tile by tile.
 *
 * A tile is combined in the accumulator type, divided and converted once, and then written.  Sources are read in
 * ascending order, a batch at a time: dense ones in place, the others are gathered first. */
#include "copy/impl.h"

#define TILE_BYTES   4096 /* bytes of a tile in the widest of source, accumulator and destination type */
#define SOURCE_BYTES 128  /* bytes per source line in a tile if the first source is dense along the rows */

typedef struct tile {
    int64_t rows, cols;
    int64_t r, c; /* position of the tile in the plane */
} tile;

static bool is_dense(const tile *t, int64_t unit, int64_t row, int64_t col) {
    return (col == unit || t->cols == 1) && (row == t->cols * unit || t->rows == 1);
}

/* Returns source k of a tile as a dense array: the source itself if it is dense, otherwise a copy in `room`. */
static const char *dense_source(const rshi_move *m, const rshi_plane *p, const tile *t, int k, const char *src,
                            char *room) {
    const int64_t *ss = m->ss + (ptrdiff_t)k * RSHI_MOVE_DIMS;
    int64_t row = rshi_plane_row(p, ss), col = rshi_plane_col(p, ss);
    const char *s = src + rshi_plane_offset(p, ss) + t->r * row + t->c * col;
    if (is_dense(t, m->unit, row, col)) return s;
    rshi_tile_gather((size_t)m->unit, t->rows, t->cols, room, s, row, col);
    return room;
}

static void combine_tile(const rshi_move *m, const rshi_plane *p, const tile *t, const char *const *src, char *acc) {
    _Alignas(RSHI_PAGE) char room[RSHI_COMBINE_MOST * TILE_BYTES];
    const char *ready[RSHI_COMBINE_MOST];
    for (int k = 0; k < m->nsrc; k += RSHI_COMBINE_MOST) {
        int count = (int)rshi_min(RSHI_COMBINE_MOST, m->nsrc - k);
        for (int i = 0; i < count; i++) ready[i] = dense_source(m, p, t, k + i, src[k + i], room + i * TILE_BYTES);
        rshi_combine(m->op, m->from, k > 0, count, ready, acc, (size_t)(t->rows * t->cols));
    }
}

/* Removes signs of NaNs: the conversion turns values that are too large for f8e4m3 into NaNs with a sign. */
static void settle_f8e4m3(char *out, size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)out[i] == 0xff) out[i] = RSHI_F8E4M3_NAN;
}

static void reduce_tile(const rshi_move *m, const rshi_plane *p, const tile *t, char *dst, const char *const *src) {
    _Alignas(RSHI_PAGE) char acc[TILE_BYTES], out[TILE_BYTES];
    rsh_dtype type = rshi_accumulator(m->from);
    size_t n = (size_t)(t->rows * t->cols);
    int64_t row = rshi_plane_row(p, m->ds), col = rshi_plane_col(p, m->ds);
    combine_tile(m, p, t, src, acc);
    rshi_divide(type, m->divisor, acc, n);
    if (m->to != type) rshi_convert(type, acc, m->to, out, n);
    if (m->to == RSH_F8E4M3) settle_f8e4m3(out, n);
    rshi_tile_scatter(m->stream, rsh_dtype_size(m->to), t->rows, t->cols,
                      dst + rshi_plane_offset(p, m->ds) + t->r * row + t->c * col, row, col, m->to != type ? out : acc);
}

void rshi_run_reduce(const rshi_move *m, const rshi_plane *p, char *dst, const char *const *src) {
    int64_t unit = m->unit, acc = (int64_t)rsh_dtype_size(rshi_accumulator(m->from)),
            to = (int64_t)rsh_dtype_size(m->to);
    int64_t widest = rshi_max(rshi_max(unit, acc), to);
    bool crossing = rshi_plane_row(p, m->ss) == unit && rshi_plane_col(p, m->ss) != unit;
    rshi_tiling all = {p->rows, p->cols};
    rshi_tiling step = rshi_tile_choose(all, TILE_BYTES / widest, crossing ? SOURCE_BYTES / unit : 1);
    for (int64_t r = 0; r < p->rows; r += step.rows)
        for (int64_t c = 0; c < p->cols; c += step.cols) {
            tile t = {rshi_min(step.rows, p->rows - r), rshi_min(step.cols, p->cols - c), r, c};
            reduce_tile(m, p, &t, dst, src);
        }
}
