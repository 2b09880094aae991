/* Measures the cost of the tape: an op on one element, and a reshard as an op compared with the bare run of its exec.
 *
 *     bench_grad
 *
 * Each figure is the least of several rounds. */
#include <reshard/train.h>

#include <stdio.h>
#include <time.h>

enum { ROUNDS = 25, OPS = 1000, MOVES = 400, RANKS = 2 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void least(double *best, double seconds) {
    if (!*best || seconds < *best) *best = seconds;
}

/* ---- one element ---- */

static rsh_status product(const rsh_tensor *a, const rsh_tensor *b, rsh_tensor **out) {
    rsh_status st = rsh_tensor_empty(RSH_F32, 1, (int64_t[]){1}, out);
    if (!st) *(float *)rsh_tensor_data(*out) = *(float *)rsh_tensor_data(a) * *(float *)rsh_tensor_data(b);
    return st;
}

static rsh_status mul_forward(rsh_grad_call *c) {
    rsh_tensor *t;
    rsh_status st = product(rsh_call_input(c, 0), rsh_call_input(c, 1), &t);
    if (!st) st = rsh_call_set_output(c, 0, t);
    if (!st) st = rsh_call_save_input(c, 0);
    return st ? st : rsh_call_save_input(c, 1);
}

static rsh_status mul_backward(rsh_grad_call *c) {
    rsh_status st = RSH_OK;
    for (int i = 0; i < 2 && !st; i++) {
        const rsh_tensor *other;
        rsh_tensor *t;
        if (!rsh_call_needs_input_grad(c, i)) continue;
        st = rsh_call_saved(c, 1 - i, &other);
        if (!st) st = product(rsh_call_output_grad(c, 0), other, &t);
        if (!st) st = rsh_call_set_input_grad(c, i, t);
    }
    return st;
}

static const rsh_grad_op mul = {.name = "mul", .forward = mul_forward, .backward = mul_backward};

static rsh_status leaf(bool requires_grad, rsh_value **out) {
    rsh_tensor *t;
    rsh_status st = rsh_tensor_zeros(RSH_F32, 1, (int64_t[]){1}, &t);
    return st ? st : rsh_value_adopt_tensor(t, requires_grad, out);
}

static rsh_status chain(rsh_value *a, rsh_value *b, double seconds[2]) {
    rsh_value *v = rsh_value_hold(a), *next;
    double start = now();
    rsh_status st = RSH_OK;
    for (int i = 0; i < OPS && !st; i++) {
        st = rsh_grad_apply(&mul, NULL, 2, (rsh_value *[]){v, b}, 1, &next);
        rsh_value_free(v);
        v = st ? NULL : next;
    }
    double middle = now();
    if (!st) st = rsh_backward(v, NULL, 0);
    rsh_value_free(v);
    least(&seconds[0], middle - start);
    least(&seconds[1], now() - middle);
    return st;
}

static rsh_status one_element(void) {
    rsh_value *a = NULL, *b = NULL;
    double seconds[2] = {0, 0};
    rsh_status st = leaf(true, &a);
    if (!st) st = leaf(false, &b);
    for (int i = 0; i < ROUNDS && !st; i++) st = chain(a, b, seconds);
    rsh_value_free(a);
    rsh_value_free(b);
    printf("an op on one element: %.2f us forward, %.2f us backward\n", seconds[0] / OPS * 1e6, seconds[1] / OPS * 1e6);
    return st;
}

/* ---- a reshard of 16 KiB ---- */

static rsh_status bare(rsh_exec *exec, double *best) {
    double start = now();
    for (int i = 0; i < MOVES; i++) {
        rsh_status st = rsh_exec_run(exec);
        if (st) return st;
    }
    least(best, now() - start);
    return RSH_OK;
}

static rsh_status as_op(rsh_value *v, const rsh_layout *to, double *best) {
    double start = now();
    for (int i = 0; i < MOVES; i++) {
        rsh_value *out;
        rsh_status st = rsh_value_reshard(v, to, RSH_DERIVATIVE_ADJOINT, NULL, &out);
        if (st) return st;
        rsh_value_free(out);
    }
    least(best, now() - start);
    return RSH_OK;
}

static rsh_status measure(rsh_comm *comm, rsh_value *v, const rsh_layout *to, rsh_exec *exec) {
    double seconds[2] = {0, 0};
    rsh_status st = RSH_OK;
    for (int i = 0; i < ROUNDS && !st; i++) {
        st = rsh_comm_barrier(comm);
        if (!st) st = bare(exec, &seconds[0]);
        if (!st) st = rsh_comm_barrier(comm);
        if (!st) st = as_op(v, to, &seconds[1]);
    }
    if (!rsh_comm_rank(comm))
        printf("a reshard of 16 KiB on %d ranks: %.2f us bare, %.2f us as an op\n", RANKS, seconds[0] / MOVES * 1e6,
               seconds[1] / MOVES * 1e6);
    return st;
}

static rsh_status rank_main(void *ctx, rsh_comm *comm) {
    const rsh_layout *const *l = ctx;
    rsh_sharded *from = NULL, *to = NULL;
    rsh_value *v = NULL;
    rsh_plan *plan = NULL;
    rsh_exec *exec = NULL;
    rsh_status st = rsh_sharded_zeros(comm, l[0], &from);
    if (!st) st = rsh_sharded_zeros(comm, l[1], &to);
    if (!st) st = rsh_value_share_sharded(from, true, &v);
    if (!st) st = rsh_plan_new(l[0], l[1], NULL, &plan);
    if (!st) {
        rsh_memory source = {rsh_tensor_data(rsh_sharded_part(from, 0)), NULL};
        rsh_memory destination = {rsh_tensor_data(rsh_sharded_part(to, 0)), NULL};
        st = rsh_exec_bind(plan, comm, &source, &destination, &exec);
    }
    if (!st) st = measure(comm, v, l[1], exec);
    rsh_exec_free(exec);
    rsh_plan_free(plan);
    rsh_value_free(v);
    rsh_sharded_free(to);
    rsh_sharded_free(from);
    return st;
}

int main(void) {
    rsh_layout *l[2] = {NULL, NULL};
    rsh_status st = one_element();
    if (!st) st = rsh_layout_parse("f32[64/x, 64] on x=2", &l[0]);
    if (!st) st = rsh_layout_parse("f32[64, 64/x] on x=2", &l[1]);
    if (!st) st = rsh_run(RANKS, rank_main, l);
    rsh_layout_free(l[0]);
    rsh_layout_free(l[1]);
    if (st) fprintf(stderr, "%s\n", rsh_error_detail());
    return st != RSH_OK;
}
