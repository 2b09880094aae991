/* Doors of libreshard-nn: every function refuses NULL and enums out of range, or answers as its header says.
 *
 * The calls are written by door_calls.py from the headers; what a call needs beside the wrong argument is made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <reshard/nn.h>

/* One valid argument of each type, named as the type is, and those that single functions want. */
static struct things {
    rsh_comm *rsh_comm;
    rsh_value *rsh_value; /* [4, 4] */
    rsh_value *row, *batch, *mask, *index;
    rsh_value *rsh_value_list[1];
    rsh_nn_opts rsh_nn_opts;
    rsh_cross_entropy_opts rsh_cross_entropy_opts;
    int64_t shape[2];
    int ranks[1], dims[2];
} have;

static const char *const unsaid = "no sentence";

/* The status, and with a refusal a sentence of its own. */
#define answers(expected, call)                                                                                        \
    do {                                                                                                               \
        rsh_grad_fail(RSH_EVALUE, unsaid);                                                                             \
        rsh_status status_ = (call);                                                                                   \
        if (status_ != (expected))                                                                                     \
            fail_msg("%s is %s (%s), not %s", #call, rsh_status_name(status_), rsh_error_detail(), #expected);         \
        if (status_ && !strcmp(rsh_error_detail(), unsaid)) fail_msg("%s leaves no sentence", #call);                  \
    } while (0)

#include "door_calls.inc"

static rsh_value *zeros(rsh_dtype dtype, int ndim, const int64_t *shape) {
    rsh_tensor *t = NULL;
    rsh_value *v = NULL;
    if (rsh_tensor_zeros(dtype, ndim, shape, &t) || rsh_value_take(t, false, &v)) abort();
    return v;
}

static int make(void **state) {
    const int64_t shape[3] = {4, 4, 4};
    (void)state;
    if (rsh_comm_threads(1, &have.rsh_comm)) return 1;
    have.row = zeros(RSH_F32, 1, shape);
    have.rsh_value = have.rsh_value_list[0] = zeros(RSH_F32, 2, shape);
    have.batch = zeros(RSH_F32, 3, shape);
    have.mask = zeros(RSH_BOOL, 2, shape);
    have.index = zeros(RSH_I64, 1, shape);
    have.rsh_nn_opts.threads = 1;
    memcpy(have.shape, shape, sizeof have.shape);
    have.dims[1] = 1;
    return 0;
}

static int drop(void **state) {
    rsh_value *all[] = {have.row, have.rsh_value, have.batch, have.mask, have.index};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) rsh_value_free(all[i]);
    for (int i = 0; i < 4; i++) rsh_nn_close();
    return rsh_comm_free(have.rsh_comm);
}

int main(void) { return cmocka_run_group_tests_name("doors of nn", doors, make, drop); }
