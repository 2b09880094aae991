/* Fill: sets all elements to one value, and writes the neutral elements of reductions. */
#include "copy/impl.h"

#include <math.h>
#include <string.h>

#define TILE_BYTES 4096

/* Repeats `tile` over a dense run; its size is a multiple of every element size. */
static void fill_run(bool stream, char *dst, size_t bytes, const char *tile) {
    for (size_t done = 0; done < bytes; done += TILE_BYTES) {
        size_t left = bytes - done;
        rshi_rows_copy(stream, 1, left < TILE_BYTES ? left : TILE_BYTES, dst + done, 0, tile, 0);
    }
}

void rshi_run_fill(const rshi_move *m, const rshi_plane *p, char *dst, const char *const *src) {
    (void)src;
    int64_t dr = rshi_plane_row(p, m->ds), dc = rshi_plane_col(p, m->ds), u = m->unit;
    char *d = dst + rshi_plane_offset(p, m->ds);
    const char *value = (const char *)m->value;
    if (dc != u) {
        rshi_strided_copy((size_t)u, p->rows, p->cols, d, dr, dc, value, 0, 0);
        return;
    }
    _Alignas(RSHI_PAGE) char tile[TILE_BYTES];
    rshi_strided_copy((size_t)u, 1, rshi_min(p->cols, TILE_BYTES / u), tile, 0, u, value, 0, 0);
    for (int64_t r = 0; r < p->rows; r++) fill_run(m->stream, d + r * dr, (size_t)(p->cols * u), tile);
}

static void put_real(double x, rsh_dtype t, unsigned char *value) { rshi_convert(RSH_F64, &x, t, value, 1); }
static void put_integer(int64_t x, rsh_dtype t, unsigned char *value) { rshi_convert(RSH_I64, &x, t, value, 1); }

static int64_t largest_signed(rsh_dtype t) { return INT64_MAX >> (64 - 8 * rsh_dtype_size(t)); }

/* Writes the largest (sign 1) or lowest (sign -1) value of a dtype.  Complex dtypes have no min and max. */
static void put_extreme(int sign, rsh_dtype t, unsigned char *value) {
    switch (t) {
    case RSH_BOOL: value[0] = sign > 0; break;
    case RSH_U8:
    case RSH_U16:
    case RSH_U32:
    case RSH_U64: put_integer(sign > 0 ? -1 : 0, t, value); break;
    case RSH_I8:
    case RSH_I16:
    case RSH_I32:
    case RSH_I64: put_integer(sign > 0 ? largest_signed(t) : -largest_signed(t) - 1, t, value); break;
    case RSH_F8E4M3: /* f8e4m3 has no infinity */ put_real(sign * 448.0, t, value); break;
    default: put_real(sign * (double)INFINITY, t, value);
    }
}

void rshi_op_identity(rsh_op op, rsh_dtype dtype, unsigned char value[16]) {
    memset(value, 0, 16);
    switch (op) {
    case RSH_OP_PROD: put_real(1.0, dtype, value); break;
    case RSH_OP_MIN: put_extreme(1, dtype, value); break;
    case RSH_OP_MAX: put_extreme(-1, dtype, value); break;
    case RSH_OP_BAND:
        put_integer(-1, dtype, value); /* all bits; true for bool */
        break;
    default: break;
    }
}
