/* copy: N-D strided moves of elements: plain copies, conversions, reductions and fills.
 *
 * The room works on pointers, extents, byte strides and dtypes; it does not know layouts or ranks.
 * A move is described once, prepared once (dims fused and sorted, kernel chosen) and then run many
 * times on any memory with the same strides. */
#ifndef RESHARD_COPY_COPY_H
#define RESHARD_COPY_COPY_H

#include "base/base.h"

#define RSHI_WEAVE_MOST 16 /* sources of a weave, at most */
#define RSHI_MOVE_DIMS 16 /* a tensor dim may need two: blocks, and the elements of a block */

typedef enum rshi_kernel {
    RSHI_KERNEL_NONE,       /* nothing to do: some extent is 0 */
    RSHI_KERNEL_CONTIGUOUS, /* one run */
    RSHI_KERNEL_ROWS,       /* runs of contiguous bytes on both sides */
    RSHI_KERNEL_STRIDED,    /* element by element, any strides */
    RSHI_KERNEL_TRANSPOSE,  /* source and destination have different fastest dims */
    RSHI_KERNEL_CONVERT,    /* one source of another dtype */
    RSHI_KERNEL_REDUCE,     /* several sources, or a divisor */
    RSHI_KERNEL_FILL,       /* no source */
    RSHI_KERNEL_WEAVE,      /* rows of several sources that alternate in the destination */
    RSHI_KERNEL_COUNT
} rshi_kernel;

/* A run of bytes that is copied with streaming stores, in pieces between other copies; `left` bytes
 * remain. */
typedef struct rshi_aside {
    char *dst;
    const char *src;
    size_t left;
} rshi_aside;

/* A move.  For dst index (i0, .., in-1): dst = convert(divide(src0 op src1 op ...)), combined left
 * to right in the accumulator type (f32 for f16, bf16 and f8, otherwise `from` itself), divided
 * once at the end, converted once to `to`. */
typedef struct rshi_move {
    int nd;                     /* 0: a single element */
    int64_t n[RSHI_MOVE_DIMS];  /* extents */
    int64_t ds[RSHI_MOVE_DIMS]; /* destination strides in bytes, any sign */
    int nsrc;                   /* 0: fill with `value` */
    int64_t *ss; /* nsrc rows of RSHI_MOVE_DIMS source strides in bytes; owned by the caller,
                    rewritten by prepare */
    const int64_t *runs; /* weave: bytes of a row of each source; owned by the caller */
    int tail;            /* weave: the first `tail` sources have one row more than the others */
    rsh_dtype from, to;
    rsh_op op; /* SUM MIN MAX PROD BAND BOR BXOR; NONE when nsrc <= 1.  AVG is SUM with a divisor */
    int64_t divisor;            /* 0 or 1: none */
    unsigned char value[16];    /* one element of dtype `to`, for fills */
    rshi_aside *aside; /* a run that may be copied a few lines at a time between the lines of this
                          move; set if the source is not in the caches, but the destination is.
                          NULL: none */
    /* set by rshi_move_prepare */
    rshi_kernel kernel;
    bool stream; /* streaming stores */
    int split;   /* rshi_move_run can start at any of dims 0..split */
    int unit;    /* bytes moved as one: an element, or for plain copies a last dim of 2, 4, 8 or 16
                    bytes */
    int walked;  /* the loops cover dims 0..walked-1; nd-1 if the last dim is the unit, else nd */
    int grain;   /* any [i0, i1) is correct, but if dim `split` is cut, multiples of this many
                    indices are fast */
} rshi_move;

/* Drops dims of extent 1, sorts dims by descending destination stride, fuses dims that are
 * contiguous on all sides, and chooses the kernel.  If the first source is dense along a dim and
 * the destination is not, that dim is then moved to the second to last position.  `footprint`:
 * bytes that one whole run writes (all moves together); large ones are written with streaming
 * stores. */
void rshi_move_prepare(rshi_move *m, size_t footprint);

/* Combines n prepared moves whose short rows alternate in the destination and together fill it: a
 * row of moves[0], of moves[1], ..., and again.  moves[k] starts where the rows of moves[k - 1]
 * end.  `count` is set to the number of complete rounds; the first out->tail moves have one row
 * more, and further rows are left to the caller.  `runs` and `ss` have room for n.  Returns false
 * if the moves do not alternate like this. */
bool rshi_move_weave(const rshi_move *const *moves, int n, rshi_move *out, int64_t *runs,
                     int64_t *ss, int64_t *count);
/* Return whether a prepared move can be combined by rshi_move_weave, and compare two such moves: 0
 * if they have the same steps in the destination, otherwise an order for qsort. */
bool rshi_move_weavable(const rshi_move *m);
int rshi_move_compare_steps(const rshi_move *a, const rshi_move *b);

/* Runs dims first.. of a prepared move with dim `first` restricted to [i0, i1); `dst` and `src[k]`
 * are the addresses of that sub-move's element 0,...,0 (i0 is not added).  first <= m->split.
 * rshi_move_run(m, 0, 0, m->n[0], ..) is the whole move (nd == 0: use i0=0, i1=1).  Source and
 * destination must not overlap. */
void rshi_move_run(const rshi_move *m, int first, int64_t i0, int64_t i1, char *dst,
                   const char *const *src);

/* A small record of a sub-move of rows of bytes.  With many small sub-moves, full records would be
 * larger than the elements they move. */
typedef struct rshi_strip {
    int64_t dst, src; /* bytes from element 0,...,0 of the sub-move */
    int64_t dr, sr;   /* bytes from row to row */
    int32_t rows, run; /* 0 rows: not such a sub-move */
} rshi_strip;

/* Makes the strip for dims first.. of a prepared move; arguments as for rshi_move_run. */
rshi_strip rshi_move_strip(const rshi_move *m, int first, int64_t i0, int64_t i1);
void rshi_strip_run(const rshi_strip *r, bool stream, char *dst, const char *src);
/* Prefetches the first rows of a strip, for short rows that are scattered.  Call it some time
 * before the strip is run; the strip prefetches its other rows itself. */
void rshi_strip_ask(const rshi_strip *r, const char *src);
/* Returns the number of bytes that rshi_strip_ask prefetches; 0 if these rows need no prefetch. */
int64_t rshi_strip_asked(const rshi_strip *r);

/* Collects strips of short rows that are consecutive in the destination, so that a cache line that
 * two strips share is written once.  Initialise all members except `tile` with 0. */
#define RSHI_GATHER_TILE 4096
#define RSHI_GATHER_ROOM 1088
typedef struct rshi_gather {
    char *dst;       /* destination of the tile, aligned to a line; NULL: the tile is empty */
    size_t from, to; /* filled bytes of the tile */
    _Alignas(4096) char tile[RSHI_GATHER_TILE + RSHI_GATHER_ROOM];
} rshi_gather;
/* rshi_gather_takes returns whether a strip can be added.  Bytes may stay in the tile until
 * rshi_gather_end. */
bool rshi_gather_takes(const rshi_strip *r);
void rshi_gather_add(rshi_gather *g, const rshi_strip *r, char *dst, const char *src);
void rshi_gather_end(rshi_gather *g);

/* Copies one run of bytes; `footprint` as in rshi_move_prepare. */
void rshi_copy_bytes(char *dst, const char *src, size_t bytes, size_t footprint);
/* Copies the rest of a run that was partly copied during moves. */
void rshi_aside_end(rshi_aside *a, size_t footprint);

/* Does a run that writes `footprint` bytes exceed the caches? */
bool rshi_copy_is_large(size_t footprint);

/* Call it after the last run with streaming stores, before another rank may read the data. */
void rshi_copy_fence(void);

/* Writes the value x with (x op y) == y, in dtype; avg has none and is treated as sum. */
void rshi_op_identity(rsh_op op, rsh_dtype dtype, unsigned char value[16]);

/* Converts n dense elements from one dtype to another, as docs/notation.md defines: floats to the
 * nearest float, ties to even; floats to integers toward zero, saturating; integers wrap around. */
void rshi_convert(rsh_dtype from, const void *src, rsh_dtype to, void *dst, size_t n);

/* Adds the contribution of n elements to a digest to the sums hi and lo, both modulo 2^64.
 * Elements have `size` bytes (1 to 16), are `step` bytes apart, and have consecutive global
 * indices. */
void rshi_mix_run(const char *p, int64_t step, size_t size, int64_t n, uint64_t index, uint64_t *hi,
                  uint64_t *lo);

/* Returns the instruction set in use: "avx512", "avx2" or "generic".
 * RESHARD_SIMD=generic|avx2|avx512 selects a lower one. */
const char *rshi_copy_simd(void);

#endif
