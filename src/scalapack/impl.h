/* impl: one call of ScaLAPACK's, from its arguments to two layouts.
 *
 * Row and column indices count from 0 here.  A "side" is one of the two matrices: 0 the source, 1
 * the destination. */
#ifndef RESHARD_SCALAPACK_IMPL_H
#define RESHARD_SCALAPACK_IMPL_H

#include <stdbool.h>

#include <reshard/shard.h>

/* The description of a matrix, known to every process of its grid. */
typedef struct rshs_matrix {
    int32_t P, Q;       /* the grid */
    int32_t M, N;       /* of the whole matrix */
    int32_t mb, nb;     /* of a block */
    int32_t rsrc, csrc; /* the process that has the first block */
    int32_t i, j;       /* the first row and column of the submatrix */
} rshs_matrix;

/* A matrix as passed by this rank. */
typedef struct rshs_side {
    bool member; /* is this rank in the grid? */
    rshs_matrix matrix;
    int32_t row, column; /* of this rank in the grid */
    int32_t lld;
    char *data; /* the local array */
} rshs_side;

typedef enum rshs_shape {
    RSHS_GENERAL,   /* gemr2d */
    RSHS_TRAPEZOID, /* trmr2d */
    RSHS_TRANSPOSE, /* tran, tranu */
    RSHS_CONJUGATE  /* tranc */
} rshs_shape;

typedef struct rshs_call {
    const char *name; /* of the routine: "pdgemr2d_" */
    rsh_dtype dtype;
    rshs_shape shape;
    bool upper, diagonal; /* of RSHS_TRAPEZOID: the part that is copied, with its diagonal? */
    int32_t m, n;         /* of the destination's submatrix */
    int context;          /* the BLACS context of all ranks that call */
    const char *refusal;  /* NULL, or why the call is forwarded to ScaLAPACK */
    rshs_side side[2];
} rshs_call;

/* Fills in a side from a descriptor.  May set the call's refusal. */
void rshs_read_side(rshs_call *call, int side, const void *data, int i, int j, const int *desc);

/* Performs the call on all ranks, or returns false on all ranks: then ScaLAPACK should. */
bool rshs_run(rshs_call *call);
/* Returns ScaLAPACK's own routine; ends the program if there is none. */
void *rshs_next(const char *name, int context);

/* ---- agreement among all ranks of a call ---- */

typedef struct rshs_agreed {
    rshs_matrix matrix[2];
    const int64_t *ranks[2]; /* of process (row, column): [row * Q + column] */
} rshs_agreed;

/* Every rank learns both matrices and the rank of every process.  *refusal (NULL: none) is the same
 * on all ranks: why the call is forwarded to ScaLAPACK. */
rsh_status rshs_agree(rsh_comm *comm, const rshs_call *call, int64_t *ranks, rshs_agreed *out,
                      const char **refusal);

/* Returns the layouts of both submatrices, from a cache; borrowed until the next call. */
rsh_status rshs_layouts(const rshs_call *call, const rshs_agreed *agreed, rsh_layout *layout[2]);

/* Returns the number of indices below x on process k of p, if blocks are distributed cyclically
 * from process `first` on. */
int32_t rshs_owned_before(int32_t x, int32_t block, int32_t k, int32_t first, int32_t p);

/* ---- BLACS ---- */

/* Returns the grid of a context and this rank's position in the grid; all -1 if this rank is not in
 * it. */
void rshs_grid_info(int context, int *P, int *Q, int *row, int *column);
/* Adds n numbers over all processes of a context; all get the result.  Collective. */
void rshs_sum(int context, int n, int *numbers);
/* Returns the MPI communicator of a context, as a Fortran handle. */
int rshs_communicator(int context);
/* Prints "libreshard-scalapack: name: message" and aborts the job. */
void rshs_abort(int context, const char *name, const char *sentence) __attribute__((noreturn));
/* Aborts the job if the BLACS use 64-bit integers. */
void rshs_require_32_bits(const char *name);

#endif
