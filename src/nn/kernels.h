/* Kernels: the loops over elements, as tables of functions for one dtype and one level of vector
 * instructions.
 *
 * Kernels work on memory and counts only and know no tensors or threads.  Strides are in elements.
 * Operands are f32 or f64, as given by the table's dtype; masks are bytes, zero or nonzero; indices
 * are int64_t.  `p` has the numeric parameters of an op, at most two. */
#ifndef RESHARD_NN_KERNELS_H
#define RESHARD_NN_KERNELS_H

#include <stdint.h>

/* y = f(x) */
#define RSHN_MAP1(X)                                                                               \
    X(COPY)                                                                                        \
    X(NEG) X(EXP) X(LOG) X(SQRT) X(RELU) X(TANH) X(SIGMOID) X(SILU) X(GELU) X(GELU_TANH)           \
        X(POW_NUMBER) X(CLAMP) X(SCALE) X(NAN_TO) X(INFINITY_TO)
/* y = f(a, b).  Kernels in _BACK take the saved operand, then the gradient of the output. */
#define RSHN_MAP2(X)                                                                               \
    X(ADD)                                                                                         \
    X(SUB) X(MUL) X(DIV) X(POW) X(SQUARED_DIFFERENCE) X(LOG_BACK) X(SQRT_BACK) X(RELU_BACK)        \
        X(TANH_BACK) X(SIGMOID_BACK) X(SILU_BACK) X(GELU_BACK) X(GELU_TANH_BACK)                   \
            X(POW_NUMBER_BACK) X(CLAMP_BACK) X(FINITE_BACK)
/* y = f(a, b, c) */
#define RSHN_MAP3(X)                                                                               \
    X(DIV_BACK) X(POW_BACK_BASE) X(POW_BACK_EXPONENT) X(DIFFERENCE_BACK) X(EQUAL_BACK)

#define RSHN_ENUM(name) RSHN_##name,
typedef enum rshn_map1_kind { RSHN_MAP1(RSHN_ENUM) RSHN_MAP1_COUNT } rshn_map1_kind;
typedef enum rshn_map2_kind { RSHN_MAP2(RSHN_ENUM) RSHN_MAP2_COUNT } rshn_map2_kind;
typedef enum rshn_map3_kind { RSHN_MAP3(RSHN_ENUM) RSHN_MAP3_COUNT } rshn_map3_kind;
#undef RSHN_ENUM

/* n elements; the result is dense and may be one of the operands. */
typedef void rshn_map1(const double *p, const void *x, int64_t sx, void *y, int64_t n);
typedef void rshn_map2(const double *p, const void *a, int64_t sa, const void *b, int64_t sb,
                       void *y, int64_t n);
typedef void rshn_map3(const double *p, const void *a, int64_t sa, const void *b, int64_t sb,
                       const void *c, int64_t sc, void *y, int64_t n);

/* Normalization of a row of n elements. */
typedef struct rshn_norm {
    int64_t n;
    const void *weight, *bias; /* n elements; NULL: ones or zeros */
    double eps;
    int centred; /* layer norm; 0: RMS norm */
} rshn_norm;

/* Cross-entropy of rows; this rank has `classes` of `whole` logits, from class `start` on. */
typedef struct rshn_entropy {
    int64_t classes, start, whole, ignore;
    double smoothing;
} rshn_entropy;

typedef struct rshn_kernels {
    rshn_map1 *map1[RSHN_MAP1_COUNT];
    rshn_map2 *map2[RSHN_MAP2_COUNT];
    rshn_map3 *map3[RSHN_MAP3_COUNT];

    /* y = mask ? a : b */
    void (*where)(const uint8_t *mask, int64_t sm, const void *a, int64_t sa, const void *b,
                  int64_t sb, void *y, int64_t n);
    /* mask = u >= p, for numbers u in [0, 1). */
    void (*keep)(const void *u, double p, uint8_t *mask, int64_t n);

    /* y = mask ? x * scale : 0, all dense. */
    void (*drop)(const uint8_t *mask, const void *x, double scale, void *y, int64_t n);

    /* Sum of n elements. */
    double (*row_sum)(const void *x, int64_t sx, int64_t n);
    /* y[j] = sum over i < rows of x[i * pitch + j], for j < n. */
    void (*column_sum)(const void *x, int64_t pitch, int64_t rows, void *y, int64_t n);
    /* Returns the largest of n elements (NaN if there is one), and the index of the first. */
    double (*row_max)(const void *x, int64_t sx, int64_t n, int64_t *at);

    /* Rows of n elements, dense.  In row i, elements from visible[i] on count as minus infinity
     * (NULL: all elements are used). */
    void (*softmax)(const void *x, void *y, int64_t rows, int64_t n, const int64_t *visible);
    void (*log_softmax)(const void *x, void *y, int64_t rows, int64_t n);
    /* gx from y and the gradient g, times `scale`; gx may be g. */
    void (*softmax_back)(const void *y, const void *g, void *gx, int64_t rows, int64_t n,
                         double scale);
    void (*log_softmax_back)(const void *y, const void *g, void *gx, int64_t rows, int64_t n);

    /* mean and rstd have one element per row; mean is not written if the norm is not centred. */
    void (*norm)(const rshn_norm *w, const void *x, void *y, void *mean, void *rstd, int64_t rows);
    /* Computes gx, and adds to gw and gb, n elements each; each may be NULL. */
    void (*norm_back)(const rshn_norm *w, const void *x, const void *g, const void *mean,
                      const void *rstd, void *gx, void *gw, void *gb, int64_t rows);

    /* The loss of each row, and the logarithm of the sum of its exponentials. */
    void (*entropy)(const rshn_entropy *e, const void *x, const int64_t *target, void *loss,
                    double *lse, int64_t rows);
    /* For each row with the maximum most[i], computes three numbers over this rank's classes: the
     * sum of e^(x - most), the target's logit, and the sum of the logits (0 without smoothing). */
    void (*entropy_sums)(const rshn_entropy *e, const void *x, const int64_t *target,
                         const void *most, void *sums, int64_t rows);
    /* Computes the results of `entropy` from the maxima and sums of whole rows. */
    void (*entropy_end)(const rshn_entropy *e, const int64_t *target, const void *most,
                        const void *sums, void *loss, double *lse, int64_t rows);
    /* Computes gx for rows whose losses have the gradients g[i * sg]. */
    void (*entropy_back)(const rshn_entropy *e, const void *x, const int64_t *target,
                         const double *lse, const void *g, int64_t sg, void *gx, int64_t rows);
} rshn_kernels;

/* Returns the table for f32 or f64 on this machine; NULL for other dtypes. */
const rshn_kernels *rshn_kernels_of(int dtype);

#endif
