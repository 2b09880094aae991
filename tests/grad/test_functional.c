/* Collectives of a group as ops: values and derivatives on threads, on processes and between nodes. */
#include "grad/transposes.h"

#include <reshard/torch.h>

enum { MOST = 4 };

typedef enum kind {
    BROADCAST,
    SCATTER,
    GATHER,
    REDUCE,
    ALL_REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    ALL_TO_ALL_EQUAL,
    ALL_TO_ALL_SPLITS,
    KINDS
} kind;

typedef struct call {
    kind kind;
    rsh_op op;
    int root;
    rsh_derivative how;
} call;

static rsh_status zeros(int64_t n, bool requires_grad, rsh_value **out) {
    rsh_tensor *t;
    RSH_TRY(rsh_tensor_zeros(RSH_F64, 2, (int64_t[]){n, 2}, &t));
    rsh_status st = rsh_value_adopt_tensor(t, requires_grad, out);
    if (st) rsh_tensor_free(t);
    return st;
}

/* Returns the number of rows from rank i to rank j, which is 0 for some pairs. */
static int64_t rows(int i, int j) { return (i * 2 + j) % 3; }

static void splits_of(rsh_comm *comm, int64_t *in, int64_t *out) {
    for (int r = 0; r < rsh_comm_size(comm); r++) {
        in[r] = rows(rsh_comm_rank(comm), r);
        out[r] = rows(r, rsh_comm_rank(comm));
    }
}

static int64_t input_rows(const call *c, rsh_comm *comm, int i) {
    int64_t in[MOST], out[MOST], sum = 0;
    if (c->kind == ALL_TO_ALL) return rows(rsh_comm_rank(comm), i);
    if (c->kind == ALL_TO_ALL_EQUAL) return 2 * rsh_comm_size(comm);
    if (c->kind != ALL_TO_ALL_SPLITS) return 3;
    splits_of(comm, in, out);
    for (int r = 0; r < rsh_comm_size(comm); r++) sum += in[r];
    return sum;
}

static rsh_status make(void *ctx, rsh_comm *comm, bool requires_grad, int *nin, rsh_value **in) {
    const call *c = ctx;
    bool list = c->kind == SCATTER || c->kind == REDUCE_SCATTER || c->kind == ALL_TO_ALL;
    int n = list ? rsh_comm_size(comm) : 1;
    for (*nin = 0; *nin < n; ++*nin) RSH_TRY(zeros(input_rows(c, comm, *nin), requires_grad, &in[*nin]));
    return RSH_OK;
}

static rsh_status apply(void *ctx, rsh_comm *comm, rsh_value **in, int *nout, rsh_value **out) {
    const call *c = ctx;
    int n = rsh_comm_size(comm), root = c->root % n;
    int64_t in_splits[MOST], out_splits[MOST];
    splits_of(comm, in_splits, out_splits);
    rsh_status st = RSH_OK;
    bool list = c->kind == GATHER || c->kind == ALL_GATHER || c->kind == ALL_TO_ALL;
    switch (c->kind) {
    case BROADCAST: st = rsh_functional_broadcast(NULL, in[0], root, c->how, out); break;
    case SCATTER: st = rsh_functional_scatter(NULL, n, in, root, c->how, out); break;
    case GATHER: st = rsh_functional_gather(NULL, in[0], root, c->how, n, out); break;
    case REDUCE: st = rsh_functional_reduce(NULL, in[0], c->op, root, c->how, out); break;
    case ALL_REDUCE: st = rsh_functional_all_reduce(NULL, in[0], c->op, c->how, out); break;
    case ALL_GATHER: st = rsh_functional_all_gather(NULL, in[0], c->how, n, out); break;
    case REDUCE_SCATTER: st = rsh_functional_reduce_scatter(NULL, n, in, c->op, c->how, out); break;
    case ALL_TO_ALL: st = rsh_functional_all_to_all(NULL, n, in, out); break;
    case ALL_TO_ALL_EQUAL: st = rsh_functional_all_to_all_single(NULL, in[0], NULL, NULL, out); break;
    default: st = rsh_functional_all_to_all_single(NULL, in[0], out_splits, in_splits, out);
    }
    if (!st) *nout = list ? n : 1;
    return st;
}

/* ---- adjoints ---- */

static rsh_status all_adjoints(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_status st = rsh_group_init(comm);
    for (int kind = 0; kind < KINDS && !st; kind++)
        for (int op = RSH_OP_SUM; op <= RSH_OP_AVG && !st; op++) {
            call c = {(enum kind)kind, (rsh_op)op, 1, RSH_DERIVATIVE_ADJOINT};
            st = transpose_check(&(linear){make, apply, &c, 1e-12}, comm);
            if (st) fprintf(stderr, "kind %d, %s\n", kind, rsh_op_name(c.op));
        }
    rsh_status left = st ? RSH_OK : rsh_group_destroy();
    return st ? st : left;
}

static void every_adjoint_is_the_transpose(void **state) {
    (void)state;
    for (int n = 1; n <= MOST; n++) run_engines(n, all_adjoints, NULL);
}

/* ---- the other derivative: replicas are one variable, which has one gradient ---- */

/* Computes the gradient of the first input if every output has the gradient g. */
static rsh_status back(call c, rsh_comm *comm, const double *g, double *out) {
    rsh_value *in[MOST] = {NULL}, *to[MOST] = {NULL}, *seeds[MOST] = {NULL};
    int nin, nout = 0;
    RSH_TRY(make(&c, comm, true, &nin, in));
    RSH_TRY(apply(&c, comm, in, &nout, to));
    for (int i = 0; i < nout; i++) {
        RSH_TRY(zeros(3, false, &seeds[i]));
        memcpy(rsh_tensor_data(rsh_value_tensor(seeds[i])), g + 6 * i, 6 * sizeof *g);
    }
    rsh_status st = rsh_backward_many(nout, to, seeds, 0);
    int slot = nin > 1 ? rsh_comm_rank(comm) : 0;
    if (!st) memcpy(out, small_data(rsh_value_grad(in[slot])), 6 * sizeof *out);
    for (int i = 0; i < MOST; i++) rsh_value_free(in[i]), rsh_value_free(to[i]), rsh_value_free(seeds[i]);
    return st;
}

static rsh_status way_back(void *ctx, rsh_comm *comm) {
    (void)ctx;
    double g[6 * MOST], got[6];
    int n = rsh_comm_size(comm), me = rsh_comm_rank(comm);
    const rsh_derivative how = RSH_DERIVATIVE_BACKWARD;
    for (int i = 0; i < 6 * MOST; i++) g[i] = i - 3;
    RSH_TRY(rsh_group_init(comm));
    RSH_TRY(back((call){ALL_REDUCE, RSH_OP_SUM, 0, how}, comm, g, got));
    for (int i = 0; i < 6; i++) CHECK(got[i] == g[i]); /* gradients are not summed over ranks */
    RSH_TRY(back((call){ALL_REDUCE, RSH_OP_AVG, 0, how}, comm, g, got));
    for (int i = 0; i < 6; i++) CHECK(got[i] == g[i] * (1.0 / n));
    RSH_TRY(back((call){ALL_GATHER, RSH_OP_SUM, 0, how}, comm, g, got));
    for (int i = 0; i < 6; i++) CHECK(got[i] == g[6 * me + i]); /* each rank gets its own slot */
    RSH_TRY(back((call){BROADCAST, RSH_OP_SUM, 0, how}, comm, g, got));
    for (int i = 0; i < 6; i++) CHECK(got[i] == (me ? 0 : g[i]));
    RSH_TRY(back((call){REDUCE_SCATTER, RSH_OP_SUM, 0, how}, comm, g, got));
    for (int i = 0; i < 6; i++) CHECK(got[i] == g[i]);
    return rsh_group_destroy();
}

static void the_way_back_sums_over_no_replicas(void **state) {
    (void)state;
    for (int n = 1; n <= MOST; n++) run_engines(n, way_back, NULL);
}

/* ---- errors ---- */

/* Backward of max, min and prod for all reductions.  PyTorch returns wrong numbers here (or those of the op's own
 * reduction). */
static rsh_status no_derivative(void *ctx, rsh_comm *comm) {
    (void)ctx;
    static const kind kinds[] = {REDUCE, ALL_REDUCE, REDUCE_SCATTER};
    static const char *const names[] = {"reduce: ", "all_reduce: ", "reduce_scatter: "};
    static const rsh_op ops[] = {RSH_OP_MAX, RSH_OP_MIN, RSH_OP_PROD};
    double g[6 * MOST] = {0}, got[6];
    RSH_TRY(rsh_group_init(comm));
    for (int k = 0; k < 3; k++)
        for (int o = 0; o < 3; o++) {
            char text[64];
            call c = {kinds[k], ops[o], 0, o % 2 ? RSH_DERIVATIVE_ADJOINT : RSH_DERIVATIVE_BACKWARD};
            CHECK_STATUS(RSH_EUNSUP, back(c, comm, g, got));
            snprintf(text, sizeof text, "%sreduction %s has no derivative", names[k], rsh_op_name(ops[o]));
            CHECK_SAYS(text);
        }
    return rsh_group_destroy();
}

/* Covers PyTorch's defect B-12. */
static void reductions_without_derivative_are_named_on_all_ranks(void **state) {
    (void)state;
    for (int n = 1; n <= 3; n++) run_engines(n, no_derivative, NULL);
}

static rsh_status wrong_on_one(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_value *v, *out[MOST];
    bool odd = rsh_comm_rank(comm) == 1;
    int n = rsh_comm_size(comm);
    const rsh_derivative how = RSH_DERIVATIVE_ADJOINT;
    RSH_TRY(rsh_group_init(comm));
    RSH_TRY(zeros(3, true, &v));
    CHECK_STATUS(RSH_EVALUE, rsh_functional_all_reduce(NULL, odd ? NULL : v, RSH_OP_SUM, how, out));
    CHECK_STATUS(RSH_EVALUE, rsh_functional_all_reduce(NULL, v, RSH_OP_SUM, odd ? 0 : how, out));
    CHECK_SAYS("unknown derivative 0");
    CHECK_STATUS(RSH_ERUNTIME, rsh_functional_broadcast(NULL, v, odd ? n : 0, how, out));
    CHECK_STATUS(RSH_ERUNTIME, rsh_functional_broadcast(NULL, v, odd ? -1 : 0, how, out));
    CHECK_STATUS(RSH_EVALUE, rsh_functional_all_gather(NULL, v, how, odd ? n + 1 : n, out));
    /* 3 rows cannot be divided by 2 ranks */
    CHECK_STATUS(RSH_ERUNTIME, rsh_functional_all_to_all_single(NULL, v, NULL, NULL, out));
    rsh_value *even;
    RSH_TRY(zeros(2, true, &even));
    CHECK_STATUS(RSH_EVALUE, rsh_functional_all_to_all_single(NULL, even, NULL, odd ? (int64_t[]){2, 0} : NULL, out));
    CHECK_SAYS("in_splits and out_splits must both be given");
    rsh_value_free(even);
    rsh_alloc_fail_at(odd ? 1 : -1);
    CHECK_STATUS(RSH_ENOMEM, rsh_functional_all_reduce(NULL, v, RSH_OP_SUM, how, out));
    rsh_alloc_fail_at(-1);
    CHECK(!rsh_functional_all_reduce(NULL, v, RSH_OP_SUM, how, out)); /* the comm still works */
    rsh_value_free(out[0]);
    rsh_value_free(v);
    return rsh_group_destroy();
}

static void what_one_rank_refuses_all_refuse(void **state) {
    (void)state;
    run_engines(2, wrong_on_one, NULL);
}

/* ---- failures in the middle of a backward ---- */

static rsh_status fail_on_rank_1(rsh_grad_call *c) {
    rsh_comm *comm = *(rsh_comm **)rsh_call_attrs(c);
    return rsh_comm_rank(comm) == 1 ? rsh_fail(RSH_EIO, "rank 1 has a bad day") : rsh_call_pass_grad(c, 0, 0);
}
static rsh_status same(rsh_grad_call *c) {
    rsh_tensor *t;
    RSH_TRY(rsh_math_convert(rsh_call_input(c, 0), RSH_F64, &t));
    return rsh_call_set_output(c, 0, t);
}
static const rsh_grad_op bad_day = {
    .name = "bad day", .forward = same, .backward = fail_on_rank_1, .attr_bytes = sizeof(rsh_comm *)};

/* The graph has a collective before the op that fails, after it, or neither.  Every rank gets the status, and no leaf
 * changes. */
static rsh_status fails_in_the_middle(void *ctx, rsh_comm *comm) {
    int where = *(int *)ctx;
    const rsh_derivative how = RSH_DERIVATIVE_ADJOINT;
    rsh_value *v[6] = {NULL};
    RSH_TRY(rsh_group_init(comm));
    for (int round = 0; round < 2; round++) {
        RSH_TRY(zeros(3, true, &v[0]));
        RSH_TRY(rsh_value_detach(v[0], &v[5]));
        RSH_TRY(rsh_value_set_requires_grad(v[5], true));
        RSH_TRY(where & 1 ? rsh_functional_all_reduce(NULL, v[0], RSH_OP_SUM, how, &v[1]) : small_sin(v[0], &v[1]));
        RSH_TRY(rsh_grad_apply(&bad_day, &comm, 1, &v[1], 1, &v[2]));
        RSH_TRY(where & 2 ? rsh_functional_all_reduce(NULL, v[2], RSH_OP_SUM, how, &v[3])
                          : small_mul(v[2], v[5], &v[3]));
        RSH_TRY(small_sum(v[3], &v[4]));
        CHECK_STATUS(RSH_EIO, rsh_backward(v[4], NULL, 0));
        CHECK_SAYS("rank 1 has a bad day");
        CHECK(!rsh_value_grad(v[0]) && !rsh_value_grad(v[5]));
        for (int i = 0; i < 6; i++) rsh_value_free(v[i]);
    }
    RSH_TRY(rsh_comm_barrier(comm));
    return rsh_group_destroy();
}

static void a_rank_that_fails_in_backward_fails_all(void **state) {
    (void)state;
    for (int where = 1; where < 4; where++) run_engines(3, fails_in_the_middle, &where);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_adjoint_is_the_transpose),
        cmocka_unit_test(the_way_back_sums_over_no_replicas),
        cmocka_unit_test(reductions_without_derivative_are_named_on_all_ranks),
        cmocka_unit_test(what_one_rank_refuses_all_refuse),
        cmocka_unit_test(a_rank_that_fails_in_backward_fails_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
