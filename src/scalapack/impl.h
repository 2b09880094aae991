/* impl: one call of ScaLAPACK's, from its arguments to two layouts.
 *
 * Row and column indices count from 0 here.  "Side" is one of the two matrices: 0 the source, 1 the
 * destination. */
#ifndef RESHARD_SCALAPACK_IMPL_H
#define RESHARD_SCALAPACK_IMPL_H

#include <stdbool.h>

#include <reshard/shard.h>

/* What every process of a grid knows about its matrix. */
typedef struct rshs_matrix {
    int32_t P, Q;       /* the grid */
    int32_t M, N;       /* of the whole matrix */
    int32_t mb, nb;     /* of a block */
    int32_t rsrc, csrc; /* the process that has the first block */
    int32_t i, j;       /* where the submatrix begins */
} rshs_matrix;

/* A matrix as this rank gave it. */
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
    bool upper, diagonal; /* of RSHS_TRAPEZOID: which part is copied, and is the diagonal? */
    int32_t m, n;         /* of the destination's submatrix */
    int context;          /* all ranks that call */
    const char *refusal;  /* NULL, or why reshard does not do this call */
    rshs_side side[2];
} rshs_call;

/* Fills in a side from a descriptor.  May set the call's refusal. */
void rshs_read_side(rshs_call *call, int side, const void *data, int i, int j, const int *desc);

/* Does the call, on all ranks, or tells all ranks that ScaLAPACK should: false. */
bool rshs_run(rshs_call *call);
/* ScaLAPACK's own routine; ends the program if there is none. */
void *rshs_next(const char *name, int context);

/* ---- what all ranks of a call agree on ---- */

typedef struct rshs_agreed {
    rshs_matrix matrix[2];
    const int64_t *ranks[2]; /* of process (row, column): [row * Q + column] */
} rshs_agreed;

/* Everybody learns both matrices and which rank is which process.  *refusal (NULL: none) is the
 * same on all ranks: why reshard does not do this call. */
rsh_status rshs_agree(rsh_comm *comm, const rshs_call *call, int64_t *ranks, rshs_agreed *out,
                      const char **refusal);

/* The layouts of both submatrices, from a cache; borrowed until the next call. */
rsh_status rshs_layouts(const rshs_call *call, const rshs_agreed *agreed, rsh_layout *layout[2]);

/* How many of the indices below x are on process k of p, if blocks are dealt from process
 * `first` on. */
int32_t rshs_owned_before(int32_t x, int32_t block, int32_t k, int32_t first, int32_t p);

/* ---- BLACS ---- */

/* Grid of a context and this rank's place in it; all -1: not in it. */
void rshs_grid_info(int context, int *P, int *Q, int *row, int *column);
/* Adds up n numbers of all processes of a context, on all of them.  Collective. */
void rshs_sum(int context, int n, int *numbers);
/* The MPI communicator of a context, as a Fortran handle. */
int rshs_communicator(int context);
/* Prints "libreshard-scalapack: name: sentence" and ends the job. */
void rshs_abort(int context, const char *name, const char *sentence) __attribute__((noreturn));
/* Ends the job if the BLACS count with 64 bits. */
void rshs_require_32_bits(const char *name);

#endif
