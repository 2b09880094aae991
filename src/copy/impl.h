/* copy/impl: shared by the kernels of this room.
 *
 * A prepared move is a loop over its outer dims around a plane, which is formed by the last two
 * dims.  A "unit" is moved as a whole: an element, or for plain copies a short run that has the
 * size of an element (1, 2, 4, 8 or 16 bytes).  The functions below work on planes of units and on
 * dense tiles of them; a tile is a small rectangle of a plane, kept on the stack. */
#ifndef RESHARD_COPY_IMPL_H
#define RESHARD_COPY_IMPL_H

#include "copy/copy.h"

/* RSHI_PORTABLE builds the code for other processors. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(RSHI_PORTABLE)
#define RSHI_X86 1
#include <immintrin.h>
#else
#define RSHI_X86 0
#endif

#define RSHI_UNROLL _Pragma("GCC unroll 16") /* also keeps arrays of vectors in registers */
#define RSHI_INLINE static inline __attribute__((always_inline))
#define RSHI_LINE   64 /* bytes of a cache line */
/* Most tiles are aligned to a page: a tile that is written in odd pieces and read in lines can be
 * half as fast if it crosses a page border. */
#define RSHI_PAGE 4096
/* If the source is dense along the rows of a plane, this many rows are processed together, because
 * consecutive bytes are fetched faster. */
#define RSHI_CROSSING_ROWS 1024
/* Bytes that are first copied from each source row to adjacent memory. */
#define RSHI_PIECE_BYTES 256

/* ---- instruction sets ---- */

rshi_simd rshi_simd_level(void);

/* A table of one function per level; without x86 there is only the generic one. */
#if RSHI_X86
#define RSHI_AVX2   __attribute__((target("avx2,f16c")))
#define RSHI_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c")))
#define RSHI_PER_LEVEL(name)                                                                       \
    { name##_generic, name##_avx2, name##_avx512 }
#else
#define RSHI_PER_LEVEL(name)                                                                       \
    { name##_generic, name##_generic, name##_generic }
#endif

/* Prefetches `bytes` bytes, `offset` bytes from src.  They may be beyond the source, where a
 * prefetch is harmless, so the address is computed as a number.  Lines go to the L2 cache, because
 * the L1 cache holds the current data. */
RSHI_INLINE void rshi_prefetch(const char *src, int64_t offset, int64_t bytes) {
    uintptr_t from = (uintptr_t)src + (uintptr_t)offset, line = from - from % RSHI_LINE;
    for (; line < from + (uintptr_t)bytes; line += RSHI_LINE)
        __builtin_prefetch((const void *)line, 0, 2);
}
/* Returns how far ahead a loop over `bytes` bytes of a source prefetches.  Such loops mostly work
 * on one tile of a longer run.  The hardware prefetcher restarts with every tile and would fetch
 * the next one too late. */
RSHI_INLINE int64_t rshi_ahead(size_t bytes) { return bytes < 4096 ? (int64_t)bytes : 4096; }

/* ---- planes ---- */

/* The start of a plane: index[first .. dims-1], of which the last two are its first row and
 * column. */
typedef struct rshi_plane {
    int first, dims;
    int64_t rows, cols;
    int64_t index[RSHI_MOVE_DIMS];
} rshi_plane;

/* Byte offset of the plane from element 0 of the sub-move. */
static inline int64_t rshi_plane_offset(const rshi_plane *p, const int64_t *strides) {
    int64_t bytes = 0;
    for (int d = p->first; d < p->dims; d++) bytes += p->index[d] * strides[d];
    return bytes;
}
static inline int64_t rshi_plane_row(const rshi_plane *p, const int64_t *strides) {
    return p->dims >= 2 ? strides[p->dims - 2] : 0;
}
static inline int64_t rshi_plane_col(const rshi_plane *p, const int64_t *strides) {
    return strides[p->dims - 1];
}

typedef void rshi_plane_fn(const rshi_move *m, const rshi_plane *p, char *dst,
                           const char *const *src);
rshi_plane_fn rshi_run_rows, rshi_run_strided, rshi_run_transpose, rshi_run_convert,
    rshi_run_reduce, rshi_run_fill, rshi_run_weave;

/* ---- copies of a plane; strides in bytes ---- */

/* Copies runs of `run` bytes. */
void rshi_rows_copy(bool stream, int64_t rows, size_t run, char *dst, int64_t dr, const char *src,
                    int64_t sr);
/* Copies single units at any strides. */
void rshi_strided_copy(size_t unit, int64_t rows, int64_t cols, char *dst, int64_t dr, int64_t dc,
                       const char *src, int64_t sr, int64_t sc);
/* dst[r][c] = src[c][r]: units are contiguous along c in dst and along r in src. */
void rshi_transpose_copy(size_t unit, int64_t rows, int64_t cols, char *dst, int64_t dr,
                         const char *src, int64_t sc);

/* Rows and columns of a plane, or of a part of it. */
typedef struct rshi_tiling {
    int64_t rows, cols;
} rshi_tiling;

/* Do the same with streaming stores of whole lines, if the processor supports it; the second also
 * converts f32 to bf16.  They return how many rows and columns they processed, from the first on;
 * possibly none. */
rshi_tiling rshi_lines_transpose(size_t unit, rshi_tiling all, char *dst, int64_t dr,
                                 const char *src, int64_t sc);
rshi_tiling rshi_lines_to_bf16(rshi_tiling all, char *dst, int64_t dr, const char *src, int64_t sc);

/* Does the same into a tile, whose rows are tr bytes apart, from source lines that are far
 * apart. */
void rshi_tile_cross(size_t unit, int64_t rows, int64_t cols, char *tile, int64_t tr,
                     const char *src, int64_t sc);

/* Copy any plane to a dense tile, and a dense tile to any plane. */
void rshi_tile_gather(size_t unit, int64_t rows, int64_t cols, char *tile, const char *src,
                      int64_t sr, int64_t sc);
void rshi_tile_scatter(bool stream, size_t unit, int64_t rows, int64_t cols, char *dst, int64_t dr,
                       int64_t dc, const char *tile);

/* Chooses the size of tiles: at most `room` units.  If the source is dense along the rows, tiles
 * are `rows_wanted` tall, so that whole source lines are used. */
rshi_tiling rshi_tile_choose(rshi_tiling all, int64_t room, int64_t rows_wanted);

/* ---- arithmetic on dense tiles ---- */

/* acc = acc op src, both of an accumulator type, not overlapping.  There is no such function for
 * complex sums, which are sums of the components. */
typedef void rshi_fold_fn(char *acc, const char *src, size_t n);
rshi_fold_fn *rshi_fold_of(rsh_op op, rsh_dtype t);

/* acc = src[0] op src[1] op ..., left to right, or acc = acc op src[0] op ... if `more`.  Sources
 * have dtype `from`, acc has its accumulator type.  At most RSHI_COMBINE_MOST sources at a time,
 * because sources whose distance is a power of two evict each other from the cache. */
#define RSHI_COMBINE_MOST 4
void rshi_combine(rsh_op op, rsh_dtype from, bool more, int nsrc, const char *const *src, char *acc,
                  size_t n);
/* For floats and complex only; other types are unchanged (avg does not exist for them). */
void rshi_divide(rsh_dtype t, int64_t divisor, char *acc, size_t n);

#endif
