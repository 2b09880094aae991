/* grad.md: a user-defined op and its gradient. */
#include "page_ranks.h"

#define RSH_TRY(call)            \
    do {                         \
        rsh_status st_ = (call); \
        if (st_) return st_;     \
    } while (0)

static rsh_status made(rsh_tensor **out, double number) {
    RSH_TRY(rsh_tensor_zeros(RSH_F64, 1, (int64_t[]){1}, out));
    *(double *)rsh_tensor_data(*out) = number;
    return RSH_OK;
}

static double number_of(const rsh_tensor *t) { return *(const double *)rsh_tensor_data(t); }

static rsh_status multiply(const rsh_tensor *a, const rsh_tensor *b, rsh_tensor **out) {
    return made(out, number_of(a) * number_of(b));
}

#include "block_2.c"

static rsh_status sum_forward(rsh_grad_call *c) {
    rsh_tensor *t;
    RSH_TRY(made(&t, number_of(rsh_call_input(c, 0))));
    return rsh_call_set_output(c, 0, t);
}
static rsh_status sum_backward(rsh_grad_call *c) { return rsh_call_pass_grad(c, 0, 0); }
static const rsh_grad_op sum = {.name = "sum", .forward = sum_forward, .backward = sum_backward};

int main(void) {
    rsh_tensor *weights = NULL, *factor = NULL;
    rsh_value *w = NULL, *x = NULL, *y = NULL, *loss = NULL;
    CHECK(made(&weights, 3));
    CHECK(made(&factor, 7));
    CHECK(rsh_value_adopt_tensor(factor, false, &x));
#include "block_1.c"
    REQUIRE(rsh_value_grad(w));
    REQUIRE(number_of(rsh_value_tensor(rsh_value_grad(w))) == 7);
    rsh_value_free(loss);
    rsh_value_free(y);
    rsh_value_free(x);
    rsh_value_free(w);
    return 0;
}
