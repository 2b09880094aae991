/* Op trials: random calls of every op, for tests that compare two ways to run one.
 *
 * A trial has the sizes and kinds of an op's inputs and its attributes.  The same state of `random`
 * gives the same trial, and then the same elements. */
#ifndef TESTS_NN_OP_TRIALS_H
#define TESTS_NN_OP_TRIALS_H

#include <reshard/nn.h>

enum { TRIAL_INPUTS = 4, TRIAL_OUTPUTS = 4 };

/* One random call of an op. */
typedef struct trial {
    uint64_t random;
    int nin, nout;
    int ndim[TRIAL_INPUTS];
    int64_t shape[TRIAL_INPUTS][RSH_MAX_NDIM];
    char kind[TRIAL_INPUTS]; /* f: any number; p: positive; n: number without gradient; i: index;
                                b: mask; 0: missing */
    int64_t below;           /* of indices */
    int a, b, n;             /* attributes */
    int list[RSH_MAX_NDIM];
    int64_t sizes[RSH_MAX_NDIM];
    double p;
} trial;

typedef rsh_status op_fn(const trial *t, rsh_value *const *in, rsh_value **out);

typedef struct trial_op {
    const char *name;
    void (*set)(trial *t); /* draws sizes and attributes */
    op_fn *fn;
} trial_op;

extern const trial_op trial_ops[];
extern const int trial_ops_count;

/* A random number; one below n; one from 0 to 1. */
uint64_t trial_draw(trial *t);
int trial_below(trial *t, int n);
double trial_unit(trial *t);

/* Input k as a new dense tensor of random elements; NULL if it is missing.  The caller frees it. */
rsh_tensor *trial_tensor(trial *t, int k);
/* Does input k have a gradient? */
bool trial_differentiable(const trial *t, int k);

#endif
