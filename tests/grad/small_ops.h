/* Small ops for tests: plain loops over dense f64 tensors of one shape. */
#ifndef SMALL_OPS_H
#define SMALL_OPS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <reshard/train.h>

#define OK(call) ok((call), #call, __FILE__, __LINE__)
static inline void ok(rsh_status st, const char *what, const char *file, int line) {
    if (!st) return;
    fprintf(stderr, "%s: %s: %s\n", what, rsh_status_name(st), rsh_error_detail());
    _assert_true(0, what, file, line);
}

/* Checks that the call fails with this status, and that the error message contains this text. */
#define FAILS(status, text, call)                                                                  \
    do {                                                                                           \
        assert_int_equal((call), (status));                                                        \
        if (!strstr(rsh_error_detail(), (text))) fail_msg("sentence: %s", rsh_error_detail());     \
    } while (0)

rsh_value *small_leaf(int64_t n, const double *x, bool requires_grad); /* f64[n] */
rsh_value *small_scalar(double x, bool requires_grad);                 /* f64[] */
const double *small_data(const rsh_value *v);
double small_grad(const rsh_value *leaf, int64_t i);

/* a + b, a * b (which saves both), sin(a) (which saves a), exp(a) (which saves its output), the sum
 * of all elements, and a * x for a number x.  They are applied to every part of distributed
 * values. */
rsh_status small_add(rsh_value *a, rsh_value *b, rsh_value **out);
rsh_status small_mul(rsh_value *a, rsh_value *b, rsh_value **out);
rsh_status small_sin(rsh_value *a, rsh_value **out);
rsh_status small_exp(rsh_value *a, rsh_value **out);
rsh_status small_scale(rsh_value *a, double x, rsh_value **out);
rsh_status small_sum(rsh_value *a, rsh_value **out);
/* a times the only element of b. */
rsh_status small_times_number(rsh_value *a, rsh_value *b, rsh_value **out);
/* The first and the second half of a vector of even length; and the index of the largest element,
 * an i64. */
rsh_status small_halves(rsh_value *a, rsh_value **low, rsh_value **high);
rsh_status small_argmax(rsh_value *a, rsh_value **out);

extern const rsh_grad_op small_add_op, small_mul_op;

#endif
