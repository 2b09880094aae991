/* Routines: functions with ScaLAPACK's names.  Each reads its arguments and either moves the matrix or calls the next
 * definition. */
#include "scalapack/impl.h"

#include <string.h>

/* Indices into a descriptor. */
enum { DTYPE_, CTXT_, M_, N_, MB_, NB_, RSRC_, CSRC_, LLD_ };
enum { BLOCK_CYCLIC_2D = 1 }; /* the PBLAS check the descriptor type; the redistribution routines do not */

/* ScaLAPACK's Fortran routines call its C routines, which are ours again; such nested calls are forwarded too. */
static _Thread_local bool forwarding;

static const char *check_matrix(const rshs_matrix *m) {
    if (m->M < 0 || m->N < 0 || m->mb < 1 || m->nb < 1) return "a descriptor has sizes out of range";
    if (m->rsrc < 0 || m->rsrc >= m->P || m->csrc < 0 || m->csrc >= m->Q) return "RSRC or CSRC is not in the grid";
    return NULL;
}

static const char *check_side(const rshs_side *s, int32_t rows, int32_t columns) {
    const rshs_matrix *m = &s->matrix;
    const char *wrong = check_matrix(m);
    if (wrong) return wrong;
    if (m->i < 0 || m->j < 0 || rows > m->M - m->i || columns > m->N - m->j) return "a submatrix is outside its matrix";
    if (s->lld < rshs_owned_before(m->M, m->mb, s->row, m->rsrc, m->P)) return "LLD is too small";
    return NULL;
}

void rshs_read_side(rshs_call *call, int side, const void *data, int i, int j, const int *desc) {
    rshs_side *s = &call->side[side];
    bool turned = side == 0 && (call->shape == RSHS_TRANSPOSE || call->shape == RSHS_CONJUGATE);
    int P, Q, row, column;
    rshs_grid_info(desc[CTXT_], &P, &Q, &row, &column);
    s->member = P > 0;
    if (!s->member) return;
    s->matrix = (rshs_matrix){P, Q, desc[M_], desc[N_], desc[MB_], desc[NB_], desc[RSRC_], desc[CSRC_], i - 1, j - 1};
    s->row = row, s->column = column, s->lld = desc[LLD_], s->data = (char *)(size_t)data;
    const char *wrong = check_side(s, turned ? call->n : call->m, turned ? call->m : call->n);
    if (wrong) call->refusal = wrong;
}

/* Returns whether this process is in the context.  If it is not, it cannot agree with others, and ScaLAPACK reports the
 * error. */
static bool in_context(const rshs_call *c) {
    int P, Q, row, column;
    rshs_grid_info(c->context, &P, &Q, &row, &column);
    return P > 0;
}

/* Returns whether the call was performed; if not, the caller calls ScaLAPACK. */
static bool try_reshard(rshs_call *c, const void *a, int ia, int ja, const int *desca, void *b, int ib, int jb,
                 const int *descb) {
    if (forwarding) return false;
    rshs_require_32_bits(c->name);
    if (!c->m || !c->n) return true;
    if (!in_context(c)) return false;
    if (c->m < 0 || c->n < 0) c->refusal = "m or n is negative";
    rshs_read_side(c, 0, a, ia, ja, desca);
    rshs_read_side(c, 1, b, ib, jb, descb);
    return rshs_run(c);
}

#define FORWARD(type, name, context, arguments)                    \
    do {                                                           \
        void *symbol = rshs_next(name, context);                   \
        type next;                                                 \
        bool before = forwarding;                                  \
        memcpy(&next, &symbol, sizeof next);                       \
        forwarding = true;                                         \
        next arguments;                                            \
        forwarding = before;                                       \
    } while (0)

#define EXPORT __attribute__((visibility("default"))) void

/* ---- p?gemr2d ---- */

typedef void (*gemr2d_fn)(const int *, const int *, const void *, const int *, const int *, const int *, void *,
                          const int *, const int *, const int *, const int *);
typedef void (*c_gemr2d_fn)(int, int, const void *, int, int, const int *, void *, int, int, const int *, int);

static void gemr2d(const char *name, rsh_dtype dtype, const int *m, const int *n, const void *a, const int *ia,
                   const int *ja, const int *desca, void *b, const int *ib, const int *jb, const int *descb,
                   const int *context) {
    rshs_call c = {.name = name, .dtype = dtype, .shape = RSHS_GENERAL, .m = *m, .n = *n, .context = *context};
    if (!try_reshard(&c, a, *ia, *ja, desca, b, *ib, *jb, descb))
        FORWARD(gemr2d_fn, name, *context, (m, n, a, ia, ja, desca, b, ib, jb, descb, context));
}

static void c_gemr2d(const char *name, rsh_dtype dtype, int m, int n, const void *a, int ia, int ja, const int *desca,
                     void *b, int ib, int jb, const int *descb, int context) {
    rshs_call c = {.name = name, .dtype = dtype, .shape = RSHS_GENERAL, .m = m, .n = n, .context = context};
    if (!try_reshard(&c, a, ia, ja, desca, b, ib, jb, descb))
        FORWARD(c_gemr2d_fn, name, context, (m, n, a, ia, ja, desca, b, ib, jb, descb, context));
}

#define GEMR2D(type, dtype)                                                                                           \
    EXPORT p##type##gemr2d_(const int *m, const int *n, const void *a, const int *ia, const int *ja, const int *desca, \
                            void *b, const int *ib, const int *jb, const int *descb, const int *context) {             \
        gemr2d("p" #type "gemr2d_", dtype, m, n, a, ia, ja, desca, b, ib, jb, descb, context);                         \
    }                                                                                                                  \
    EXPORT Cp##type##gemr2d(int m, int n, const void *a, int ia, int ja, const int *desca, void *b, int ib, int jb,    \
                            const int *descb, int context) {                                                           \
        c_gemr2d("Cp" #type "gemr2d", dtype, m, n, a, ia, ja, desca, b, ib, jb, descb, context);                       \
    }

/* ---- p?trmr2d ---- */

typedef void (*trmr2d_fn)(const char *, const char *, const int *, const int *, const void *, const int *, const int *,
                          const int *, void *, const int *, const int *, const int *, const int *);
typedef void (*c_trmr2d_fn)(const char *, const char *, int, int, const void *, int, int, const int *, void *, int, int,
                            const int *, int);

static rshs_call trapezoid(const char *name, rsh_dtype dtype, const char *uplo, const char *diag, int m, int n,
                           int context) {
    rshs_call c = {.name = name, .dtype = dtype, .shape = RSHS_TRAPEZOID, .m = m, .n = n, .context = context};
    c.upper = *uplo == 'U' || *uplo == 'u';
    c.diagonal = *diag == 'N' || *diag == 'n';
    if (!*uplo || !strchr("UuLl", *uplo)) c.refusal = "UPLO must be U or L";
    if (!*diag || !strchr("UuNn", *diag)) c.refusal = "DIAG must be U or N";
    return c;
}

static void trmr2d(const char *name, rsh_dtype dtype, const char *uplo, const char *diag, const int *m, const int *n,
                   const void *a, const int *ia, const int *ja, const int *desca, void *b, const int *ib, const int *jb,
                   const int *descb, const int *context) {
    rshs_call c = trapezoid(name, dtype, uplo, diag, *m, *n, *context);
    if (!try_reshard(&c, a, *ia, *ja, desca, b, *ib, *jb, descb))
        FORWARD(trmr2d_fn, name, *context, (uplo, diag, m, n, a, ia, ja, desca, b, ib, jb, descb, context));
}

static void c_trmr2d(const char *name, rsh_dtype dtype, const char *uplo, const char *diag, int m, int n, const void *a,
                     int ia, int ja, const int *desca, void *b, int ib, int jb, const int *descb, int context) {
    rshs_call c = trapezoid(name, dtype, uplo, diag, m, n, context);
    if (!try_reshard(&c, a, ia, ja, desca, b, ib, jb, descb))
        FORWARD(c_trmr2d_fn, name, context, (uplo, diag, m, n, a, ia, ja, desca, b, ib, jb, descb, context));
}

#define TRMR2D(type, dtype)                                                                                            \
    EXPORT p##type##trmr2d_(const char *uplo, const char *diag, const int *m, const int *n, const void *a,             \
                            const int *ia, const int *ja, const int *desca, void *b, const int *ib, const int *jb,     \
                            const int *descb, const int *context) {                                                    \
        trmr2d("p" #type "trmr2d_", dtype, uplo, diag, m, n, a, ia, ja, desca, b, ib, jb, descb, context);             \
    }                                                                                                                  \
    EXPORT Cp##type##trmr2d(const char *uplo, const char *diag, int m, int n, const void *a, int ia, int ja,           \
                            const int *desca, void *b, int ib, int jb, const int *descb, int context) {                \
        c_trmr2d("Cp" #type "trmr2d", dtype, uplo, diag, m, n, a, ia, ja, desca, b, ib, jb, descb, context);           \
    }

/* ---- p?tran: sub(C) = alpha op(sub(A)) + beta sub(C), a move if alpha is 1 and beta is 0 ---- */

typedef void (*tran_fn)(const int *, const int *, const void *, const void *, const int *, const int *, const int *,
                        const void *, void *, const int *, const int *, const int *);

static bool is_number(const void *scalar, rsh_dtype dtype, double real) {
    const double *d = scalar;
    const float *f = scalar;
    if (dtype == RSH_F32 || dtype == RSH_C64) return (double)f[0] == real && (dtype == RSH_F32 || f[1] == 0);
    return d[0] == real && (dtype == RSH_F64 || d[1] == 0);
}

static void tran(const char *name, rsh_dtype dtype, rshs_shape shape, const int *m, const int *n, const void *alpha,
                 const void *a, const int *ia, const int *ja, const int *desca, const void *beta, void *b,
                 const int *ib, const int *jb, const int *descb) {
    rshs_call c = {.name = name, .dtype = dtype, .shape = shape, .m = *m, .n = *n, .context = descb[CTXT_]};
    if (!is_number(alpha, dtype, 1) || !is_number(beta, dtype, 0)) c.refusal = "alpha is not 1 or beta is not 0";
    if (desca[DTYPE_] != BLOCK_CYCLIC_2D || descb[DTYPE_] != BLOCK_CYCLIC_2D)
        c.refusal = "a descriptor is not of type 1";
    if (desca[CTXT_] != descb[CTXT_]) c.refusal = "the matrices have different contexts";
    if (!try_reshard(&c, a, *ia, *ja, desca, b, *ib, *jb, descb))
        FORWARD(tran_fn, name, c.context, (m, n, alpha, a, ia, ja, desca, beta, b, ib, jb, descb));
}

#define TRAN(name, dtype, shape)                                                                                      \
    EXPORT name##_(const int *m, const int *n, const void *alpha, const void *a, const int *ia, const int *ja,        \
                   const int *desca, const void *beta, void *b, const int *ib, const int *jb, const int *descb) {     \
        tran(#name "_", dtype, shape, m, n, alpha, a, ia, ja, desca, beta, b, ib, jb, descb);                         \
    }

GEMR2D(s, RSH_F32)
GEMR2D(d, RSH_F64)
GEMR2D(c, RSH_C64)
GEMR2D(z, RSH_C128)
GEMR2D(i, RSH_I32)
TRMR2D(s, RSH_F32)
TRMR2D(d, RSH_F64)
TRMR2D(c, RSH_C64)
TRMR2D(z, RSH_C128)
TRMR2D(i, RSH_I32)
TRAN(pstran, RSH_F32, RSHS_TRANSPOSE)
TRAN(pdtran, RSH_F64, RSHS_TRANSPOSE)
TRAN(pctranu, RSH_C64, RSHS_TRANSPOSE)
TRAN(pztranu, RSH_C128, RSHS_TRANSPOSE)
TRAN(pctranc, RSH_C64, RSHS_CONJUGATE)
TRAN(pztranc, RSH_C128, RSHS_CONJUGATE)
