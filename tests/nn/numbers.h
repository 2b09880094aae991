/* Numbers: values for tests of nn, made from lists and formulas, and read back. */
#ifndef TESTS_NN_NUMBERS_H
#define TESTS_NN_NUMBERS_H

#include <reshard/nn.h>

#define SIZES(...)                                                                                 \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

/* A value whose element i is a number between -1.5 and 1.5 that depends on i and `salt`. */
rsh_value *some_value(rsh_dtype dtype, int salt, bool requires_grad, int ndim,
                      const int64_t *shape);
/* A value without dims. */
rsh_value *number_value(rsh_dtype dtype, double x);
/* Integers (i64): element i is (i * 2 + 1) % below. */
rsh_value *some_indices(int64_t below, int ndim, const int64_t *shape);
/* Bools: every third is true. */
rsh_value *some_mask(int ndim, const int64_t *shape);

/* Element i of a plain value, in row-major order whatever its strides. */
double element_of(const rsh_value *v, int64_t i);
double tensor_element(const rsh_tensor *t, int64_t i);
int64_t count_of(const rsh_value *v);

#endif
