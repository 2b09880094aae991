/* Oracle: the meaning of a layout text and the result of a move, element by element, slow and
 * simple.
 *
 * It shares no code with the library: it has its own parser, numbers and arithmetic.  Texts must be
 * valid; invalid ones abort. */
#ifndef RESHARD_TESTS_ORACLE_H
#define RESHARD_TESTS_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ORA_MAX = 8, ORA_MAX_SEGMENTS = 16, ORA_MAX_SIZES = 64, ORA_MAX_POSITIONS = 256 };

typedef enum ora_dtype {
    ORA_BOOL, ORA_U8, ORA_I8, ORA_U16, ORA_I16, ORA_U32, ORA_I32, ORA_U64, ORA_I64,
    ORA_F16, ORA_BF16, ORA_F32, ORA_F64, ORA_F8E4M3, ORA_F8E5M2, ORA_C64, ORA_C128, ORA_DTYPES
} ora_dtype;

typedef enum ora_op {
    ORA_NONE, ORA_SUM, ORA_AVG, ORA_MIN, ORA_MAX_OP, ORA_PROD, ORA_BAND, ORA_BOR, ORA_BXOR, ORA_OPS
} ora_op;

/* ora_number.c: dtypes and numbers. */
const char *ora_dtype_name(ora_dtype t);
ora_dtype ora_dtype_of(const char *name, size_t length); /* ORA_DTYPES: no such */
const char *ora_op_name(ora_op op);
ora_op ora_op_of(const char *name, size_t length); /* ORA_OPS: no such */
size_t ora_size(ora_dtype t);
bool ora_is_float(ora_dtype t);
bool ora_is_complex(ora_dtype t);
bool ora_op_exists(ora_op op, ora_dtype t);
bool ora_converts(ora_dtype from, ora_dtype to);

/* An exact number of any dtype: integers (and bool) in `bits`, sign-extended to 64; the others in
 * re and im. */
typedef struct ora_number {
    bool is_integer, is_signed;
    uint64_t bits;
    long double re, im;
} ora_number;
ora_number ora_decode(ora_dtype t, const void *element);
void ora_encode(ora_dtype t, ora_number n, void *element); /* one conversion, rounded once */

/* ora_reduce.c: arithmetic in the accumulator type. */
ora_number ora_reduce(ora_op op, ora_dtype t, int64_t n, const unsigned char *const *contribution);
/* The same as an element of dtype `to`.  A single contribution of that dtype keeps its bits; a NaN
 * of two or more is the canonical one: positive, quiet, no payload.  `node` is the node of each
 * contribution, if those of a node are to be combined first; NULL: all in order. */
void ora_reduce_to(ora_op op, ora_dtype t, int64_t n, const unsigned char *const *contribution,
                   const int64_t *node, ora_dtype to, void *element);
void ora_identity(ora_op op, ora_dtype t, void *element);
/* Which elements count as equal.  ORA_BITS: those with equal bits; ORA_ZEROS: also 0 and -0;
 * ORA_VALUES: also any two NaNs. */
typedef enum ora_likeness { ORA_BITS, ORA_ZEROS, ORA_VALUES } ora_likeness;
bool ora_equal(ora_dtype t, ora_likeness like, const void *a, const void *b);

/* ora_parse.c: the text. */
typedef struct ora_cut {
    int naxes;
    char name[ORA_MAX][32];
    int axis[ORA_MAX]; /* indices into the mesh, outermost first */
    char rule;         /* 0 ~ : % { */
    int64_t number;
    int nsizes;
    int64_t sizes[ORA_MAX_SIZES];
} ora_cut;

typedef struct ora_segment {
    int64_t size;
    ora_cut cut;
} ora_segment;

typedef struct ora_dim {
    int nsegments; /* a plain dim is one segment */
    ora_segment segment[ORA_MAX_SEGMENTS];
} ora_dim;

typedef struct ora_box {
    int64_t rank, lo[ORA_MAX], hi[ORA_MAX];
} ora_box;

/* One part: the global elements (row-major numbers) that it holds, in memory order.  `shape` and
 * `order` are of the dense part. */
typedef struct ora_part {
    int64_t rank, number; /* the number-th part of the rank */
    int64_t partial;      /* position along the partial axes combined, 0 if there are none */
    int ndim, order[ORA_MAX];
    int64_t shape[ORA_MAX];
    int64_t count, *element;
} ora_part;

typedef struct ora_layout {
    ora_dtype dtype;
    int ndim;
    int64_t shape[ORA_MAX], count;
    ora_dim dim[ORA_MAX];
    ora_cut flat;
    int naxes;
    char axis[ORA_MAX][32];
    int64_t axis_size[ORA_MAX];
    int64_t npositions, rank_of[ORA_MAX_POSITIONS];
    ora_op op;
    bool is_partial[ORA_MAX];
    int64_t npartial; /* product of the partial axes, 1 if there are none */
    int order[ORA_MAX];
    bool is_boxes;
    int64_t nboxes;
    ora_box *box; /* one entry per rank of a written box, in written order */
    int64_t nparts;
    ora_part *part; /* by rank, then in order within the rank */
} ora_layout;

ora_layout *ora_parse(const char *text);
void ora_free(ora_layout *l);

/* ora_parts.c: who holds what. */
void ora_fill_parts(ora_layout *l); /* the last step of ora_parse */
bool ora_cut_holds(const ora_layout *l, const ora_cut *cut, int64_t n, int64_t i,
                   const int64_t *coordinate);
bool ora_dim_holds(const ora_layout *l, int d, int64_t i, const int64_t *coordinate);
int64_t ora_linear(const ora_layout *l, const int64_t *index);
void ora_unravel(const ora_layout *l, int64_t element, int64_t *index);
bool ora_rank_holds(const ora_layout *l, int64_t rank, int64_t element);
bool ora_has_rank(const ora_layout *l, int64_t rank);
bool ora_same_parts(const ora_layout *a, const ora_layout *b);

/* ora_move.c: the result of a move and its lower bounds. */
/* src[i] and dst[i] are the dense bytes of part i.  per_node > 0: reductions first combine within
 * nodes of so many consecutive ranks; `from` then has no replicas.  False: the move is not
 * supported. */
bool ora_move(const ora_layout *from, unsigned char *const *src, const ora_layout *to,
              unsigned char **dst, int64_t per_node);
/* Does more than one rank hold the same contribution? */
bool ora_has_replicas(const ora_layout *l);
bool ora_moves_alone(const ora_layout *from,
                     const ora_layout *to); /* is each partial position moved separately? */
/* Without partials: the least bytes between ranks, and between nodes of `per_node` consecutive
 * ranks. */
int64_t ora_least_bytes(const ora_layout *from, const ora_layout *to);
int64_t ora_least_between_nodes(const ora_layout *from, const ora_layout *to, int64_t per_node);

#endif
