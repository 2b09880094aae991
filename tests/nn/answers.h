/* Answers: the cases of golden_ops.txt, read one at a time. */
#ifndef TESTS_NN_ANSWERS_H
#define TESTS_NN_ANSWERS_H

#include <reshard/nn.h>
#include <stdio.h>

enum { MOST_TENSORS = 4, MOST_ATTRIBUTES = 4, MOST_NUMBERS = 4096 };

typedef struct answer {
    int n; /* numbers */
    int ndim;
    int64_t shape[RSH_MAX_NDIM];
    double number[MOST_NUMBERS];
} answer;

typedef struct answered_case {
    char op[32];
    rsh_dtype dtype;
    int line;
    int nattributes;
    char name[MOST_ATTRIBUTES][16], text[MOST_ATTRIBUTES][32];
    int nin;
    char kind[MOST_TENSORS][8];
    int ndim[MOST_TENSORS];
    int64_t shape[MOST_TENSORS][RSH_MAX_NDIM];
    int nout;
    answer out[MOST_TENSORS];
    bool has_grad[MOST_TENSORS];
    answer grad[MOST_TENSORS]; /* by input */
} answered_case;

/* The next case of the file; false at its end. */
bool next_case(FILE *file, int *line, answered_case *c);
/* An attribute as text, as a number and as a list of integers; a missing one is an error. */
const char *attribute(const answered_case *c, const char *name);
double number_of(const answered_case *c, const char *name);
int integers_of(const answered_case *c, const char *name, int *out);

/* Input k by the file's formula; gradients that enter output j are of kind "f" with k = 10 + j. */
rsh_value *make_input(const char *kind, int k, rsh_dtype dtype, int ndim, const int64_t *shape,
                      bool requires_grad);

#endif
