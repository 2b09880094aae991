/* Expr: the parsed expression of a rule "TARGET = EXPR". */
#ifndef RESHARD_CKPT_EXPR_H
#define RESHARD_CKPT_EXPR_H

#include "ckpt/name_pattern.h"

#define RSHI_MOST_STACKS 16 /* of a line */

typedef enum rshi_expr_op {
    RSHI_EXPR_NAME,
    RSHI_EXPR_CAT,
    RSHI_EXPR_STACK,
    RSHI_EXPR_INTERLEAVE,
    RSHI_EXPR_PERMUTE,
    RSHI_EXPR_TRANSPOSE,
    RSHI_EXPR_SLICE,
    RSHI_EXPR_RESHAPE,
    RSHI_EXPR_DEQUANTISE,
    /* these make several targets; they must be outermost */
    RSHI_EXPR_SPLIT,
    RSHI_EXPR_UNSTACK,
    RSHI_EXPR_DEINTERLEAVE
} rshi_expr_op;

typedef struct rshi_expr {
    rshi_expr_op op;
    rshi_name_pattern name; /* of NAME */
    int64_t dim;            /* -1: the last */
    int64_t groups;         /* of INTERLEAVE and DEINTERLEAVE */
    int64_t *number;        /* sizes, dims or bounds, depending on op; -1 is `_` */
    int64_t nnumbers, numbers_room;
    struct rshi_expr *operand; /* owned, like all lists here */
    int64_t noperands, operands_room;
    unsigned captures; /* of all names in it */
    int stack;         /* of STACK: its index in the line */
} rshi_expr;

/* Parses an expression at *text and advances *text to its end, or to the error.  RSH_EVALUE;
 * RSH_ENOMEM. */
rsh_status rshi_expr_parse(const char **text, rshi_capture_names *names, rshi_expr *out);
void rshi_expr_free(rshi_expr *e);
const char *rshi_expr_word(rshi_expr_op op); /* "cat" */
bool rshi_expr_splits(const rshi_expr *e);   /* does it make several targets? */

#endif
