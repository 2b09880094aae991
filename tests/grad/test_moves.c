/* Reshards as ops: both derivatives, conversions from and to plain values, and ops on distributed values with one part,
 * several parts or none. */
#include "grad/transposes.h"

#include <math.h>

enum { MOST = 4 };

/* ---- layouts of a 5 x 3 tensor for any number of ranks ---- */

/* %d is the number of ranks, %s the dtype. */
static const char *const forms[] = {
    "%s[5/x, 3] on x=%d",
    "%s[5, 3/x] on x=%d",
    "%s[5, 3] on x=%d",
    "%s[5/x:1, 3] on x=%d",
    "%s[5, 3]/x on x=%d",
    "%s[5/x~, 3] on x=%d order(1,0)",
    "%s[5, 3] on x=%d sum(x)",
    "%s[5, 3] on x=%d avg(x)",
};
enum { FORMS = sizeof forms / sizeof *forms };

/* Writes boxes: two parts on rank 0 and, from three ranks on, none on the last rank. */
static void boxes_text(char *text, size_t bytes, const char *dtype, int n) {
    int b = n > 1 ? 1 : 0, c = n > 2 ? n - 2 : b;
    snprintf(text, bytes, "%s[5, 3] boxes 0:[0:2,0:3] 0:[4:5,0:3] %d:[2:4,0:1] %d:[2:4,1:3]", dtype, b, c);
}

static rsh_status layout_of(int form, const char *dtype, int n, rsh_layout **out) {
    char text[200];
    if (form == FORMS) boxes_text(text, sizeof text, dtype, n);
    else snprintf(text, sizeof text, forms[form], dtype, n);
    return rsh_layout_parse(text, out);
}

/* ---- adjoints ---- */

typedef struct move {
    rsh_layout *from, *to;
} move;

static rsh_status make(void *ctx, rsh_comm *comm, bool requires_grad, int *nin, rsh_value **in) {
    rsh_sharded *s;
    RSH_TRY(rsh_sharded_zeros(comm, ((move *)ctx)->from, &s));
    *nin = 1;
    return rsh_value_adopt_sharded(s, requires_grad, in);
}

static rsh_status apply(void *ctx, rsh_comm *comm, rsh_value **in, int *nout, rsh_value **out) {
    (void)comm;
    RSH_TRY(rsh_value_reshard(in[0], ((move *)ctx)->to, RSH_DERIVATIVE_ADJOINT, NULL, out));
    *nout = 1;
    return RSH_OK;
}

static bool to_other_op(const move *m) {
    rsh_op a = rsh_layout_op(m->from), b = rsh_layout_op(m->to);
    return a && b && a != b;
}

/* Tests one pair in so many, with a different start for each number of ranks. */
static rsh_status all_adjoints(void *ctx, rsh_comm *comm) {
    int every = *(int *)ctx, n = rsh_comm_size(comm);
    for (int k = n; k < (FORMS + 1) * (FORMS + 1); k += every) {
        move m = {NULL, NULL};
        RSH_TRY(layout_of(k % (FORMS + 1), "f64", n, &m.from));
        RSH_TRY(layout_of(k / (FORMS + 1), k % 5 ? "f64" : "f32", n, &m.to));
        rsh_status st = to_other_op(&m) ? RSH_OK : transpose_check(&(linear){make, apply, &m, 1e-6}, comm);
        if (st) fprintf(stderr, "%s to %s\n", rsh_layout_text(m.from), rsh_layout_text(m.to));
        rsh_layout_free(m.from);
        rsh_layout_free(m.to);
        if (st) return st;
    }
    return RSH_OK;
}

static void every_adjoint_is_the_transpose(void **state) {
    (void)state;
    for (int n = 1; n <= MOST; n++) {
        rsh_status st = rsh_run(n, all_adjoints, &(int){1});
        if (st) fail_msg("%d threads: %s", n, rsh_error_detail());
        run_engines(n, all_adjoints, &(int){7});
    }
}

/* ---- backward ---- */

static double by_position(const int64_t *index) { return (double)(index[0] * 3 + index[1]) + 0.5; }

/* Fills with, or compares with, a number that depends only on the global position, times `by`. */
static rsh_status each_element(const rsh_value *v, bool fill, double by) {
    const rsh_layout *l = rsh_value_layout(v);
    int rank = rsh_comm_rank(rsh_value_comm(v));
    for (int64_t p = 0; p < rsh_value_nparts(v); p++) {
        double *x = rsh_tensor_data(rsh_value_part(v, p));
        for (int64_t k = 0; k < rsh_tensor_count(rsh_value_part(v, p)); k++) {
            int64_t index[RSH_MAX_NDIM];
            RSH_TRY(rsh_layout_global_index(l, rank, p, k, index));
            if (fill) x[k] = by * by_position(index);
            else CHECK(fabs(x[k] - by * by_position(index)) < 1e-12);
        }
    }
    return RSH_OK;
}

static rsh_status way_back(const move *m, rsh_comm *comm) {
    rsh_value *v[3] = {NULL};
    rsh_sharded *s;
    int nin;
    RSH_TRY(make((void *)m, comm, true, &nin, &v[0]));
    RSH_TRY(rsh_value_reshard(v[0], m->to, RSH_DERIVATIVE_BACKWARD, NULL, &v[1]));
    RSH_TRY(rsh_sharded_zeros(comm, m->to, &s));
    RSH_TRY(rsh_value_adopt_sharded(s, false, &v[2]));
    RSH_TRY(each_element(v[2], true, 1));
    RSH_TRY(rsh_backward(v[1], v[2], 0));
    const rsh_value *g = rsh_value_grad(v[0]);
    CHECK(rsh_layout_op(rsh_value_layout(g)) == RSH_OP_NONE); /* partial must have become replicated */
    bool avg = rsh_layout_op(m->from) == RSH_OP_AVG;
    RSH_TRY(each_element(g, false, avg ? 1.0 / rsh_comm_size(comm) : 1));
    for (int i = 0; i < 3; i++) rsh_value_free(v[i]);
    return RSH_OK;
}

static rsh_status all_ways_back(void *ctx, rsh_comm *comm) {
    int every = *(int *)ctx, n = rsh_comm_size(comm);
    for (int k = n; k < (FORMS + 1) * (FORMS + 1); k += every) {
        move m = {NULL, NULL};
        RSH_TRY(layout_of(k % (FORMS + 1), "f64", n, &m.from));
        RSH_TRY(layout_of(k / (FORMS + 1), "f64", n, &m.to));
        rsh_status st = rsh_layout_op(m.to) ? RSH_OK : way_back(&m, comm);
        if (st) fprintf(stderr, "%s to %s\n", rsh_layout_text(m.from), rsh_layout_text(m.to));
        rsh_layout_free(m.from);
        rsh_layout_free(m.to);
        if (st) return st;
    }
    return RSH_OK;
}

static void the_way_back_gives_each_replica_the_gradient(void **state) {
    (void)state;
    for (int n = 1; n <= MOST; n++) {
        rsh_status st = rsh_run(n, all_ways_back, &(int){1});
        if (st) fail_msg("%d threads: %s", n, rsh_error_detail());
        run_engines(n, all_ways_back, &(int){5});
    }
}

/* ---- errors ---- */

static rsh_status refusals(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_value *v[3] = {NULL}, *plain, *out = NULL;
    rsh_layout *rows, *max, *whole, *ints;
    rsh_sharded *s;
    bool odd = rsh_comm_rank(comm) == 1;
    RSH_TRY(rsh_layout_parse("f64[5/x, 3] on x=2", &rows));
    RSH_TRY(rsh_layout_parse("f64[5, 3] on x=2 max(x)", &max));
    RSH_TRY(rsh_layout_parse("f64[5, 3] on x=2", &whole));
    RSH_TRY(rsh_layout_parse("i32[5, 3] on x=2", &ints));
    RSH_TRY(rsh_sharded_zeros(comm, max, &s));
    RSH_TRY(rsh_value_adopt_sharded(s, true, &v[0]));
    const rsh_derivative both[] = {RSH_DERIVATIVE_ADJOINT, RSH_DERIVATIVE_BACKWARD};
    for (int k = 0; k < 2; k++) { /* a maximum has no derivative: the error names the op on every rank */
        RSH_TRY(rsh_value_reshard(v[0], rows, both[k], NULL, &v[1]));
        RSH_TRY(rsh_value_share_sharded(rsh_value_sharded(v[1]), false, &v[2]));
        CHECK_STATUS(RSH_EUNSUP, rsh_backward(v[1], v[2], 0));
        CHECK_SAYS("max");
        CHECK(!rsh_value_grad(v[0]));
        rsh_value_free(v[1]);
        rsh_value_free(v[2]);
    }
    CHECK_STATUS(RSH_EVALUE, rsh_value_reshard(v[0], whole, odd ? 0 : 1, NULL, &out));
    CHECK_STATUS(RSH_EVALUE, rsh_value_reshard(v[0], odd ? NULL : whole, 1, NULL, &out));
    CHECK_STATUS(RSH_EUNSUP, rsh_value_reshard(v[0], ints, 1, NULL, &out));
    CHECK_SAYS("i32");
    CHECK_STATUS(RSH_EMISMATCH, rsh_value_reshard(v[0], odd ? rows : whole, 1, NULL, &out));
    rsh_alloc_fail_at(odd ? 0 : -1);
    rsh_status st = rsh_value_reshard(v[0], whole, 1, NULL, &out);
    rsh_alloc_fail_at(-1);
    CHECK_STATUS(RSH_ENOMEM, st);
    CHECK(!out);
    plain = small_leaf(2, (double[]){1, 2}, true);
    CHECK_STATUS(RSH_EVALUE, rsh_value_reshard(plain, whole, 1, NULL, &out));
    CHECK_STATUS(RSH_EVALUE, rsh_value_from_local(plain, comm, whole, &out));
    CHECK_STATUS(RSH_EVALUE, rsh_value_from_local(v[0], comm, whole, &out));
    rsh_value_free(plain);
    rsh_value_free(v[0]);
    rsh_layout *all[] = {rows, max, whole, ints};
    for (int i = 0; i < 4; i++) rsh_layout_free(all[i]);
    return RSH_OK;
}

static void what_has_no_derivative_or_is_wrong_is_refused_on_all_ranks(void **state) {
    (void)state;
    run_engines(2, refusals, NULL);
}

/* ---- ops on distributed values ---- */

/* Computes x * x + x in this layout: the gradient is 2x + 1, wherever x is. */
static rsh_status pointwise(rsh_comm *comm, const rsh_layout *l) {
    rsh_value *v[4] = {NULL};
    rsh_sharded *s;
    RSH_TRY(rsh_sharded_zeros(comm, l, &s));
    RSH_TRY(rsh_value_adopt_sharded(s, true, &v[0]));
    RSH_TRY(each_element(v[0], true, 1));
    RSH_TRY(small_mul(v[0], v[0], &v[1]));
    RSH_TRY(small_add(v[1], v[0], &v[2]));
    CHECK(rsh_layout_equal(rsh_value_layout(v[2]), l));
    RSH_TRY(rsh_sharded_full(comm, l, &(double){1}, &s));
    RSH_TRY(rsh_value_adopt_sharded(s, false, &v[3]));
    RSH_TRY(rsh_backward(v[2], v[3], 0));
    const rsh_value *g = rsh_value_grad(v[0]);
    CHECK(g && rsh_layout_equal(rsh_value_layout(g), l) && rsh_value_nparts(g) == rsh_value_nparts(v[0]));
    for (int64_t p = 0; p < rsh_value_nparts(g); p++) { /* strides may differ, so both are read in the same order */
        rsh_tensor *x, *dx;
        RSH_TRY(rsh_math_convert(rsh_value_part(v[0], p), RSH_F64, &x));
        RSH_TRY(rsh_math_convert(rsh_value_part(g, p), RSH_F64, &dx));
        for (int64_t k = 0; k < rsh_tensor_count(x); k++)
            CHECK(((double *)rsh_tensor_data(dx))[k] == 2 * ((double *)rsh_tensor_data(x))[k] + 1);
        rsh_tensor_free(x);
        rsh_tensor_free(dx);
    }
    for (int i = 0; i < 4; i++) rsh_value_free(v[i]);
    return RSH_OK;
}

/* Multiplies x by one number: the gradient of the number is the sum over this rank's parts. */
static rsh_status number_times_parts(rsh_comm *comm, const rsh_layout *l) {
    rsh_value *v[4] = {NULL, small_scalar(2, true)};
    rsh_sharded *s;
    double sum = 0;
    RSH_TRY(rsh_sharded_full(comm, l, &(double){3}, &s));
    RSH_TRY(rsh_value_adopt_sharded(s, true, &v[0]));
    RSH_TRY(small_times_number(v[0], v[1], &v[2]));
    RSH_TRY(rsh_value_share_sharded(rsh_value_sharded(v[2]), false, &v[3])); /* a seed in which every element is 6 */
    RSH_TRY(rsh_backward(v[2], v[3], 0));
    for (int64_t p = 0; p < rsh_value_nparts(v[0]); p++)
        sum += 18.0 * (double)rsh_tensor_count(rsh_value_part(v[0], p));
    if (rsh_value_nparts(v[0])) CHECK(small_grad(v[1], 0) == sum);
    for (int i = 0; i < 4; i++) rsh_value_free(v[i]);
    return RSH_OK;
}

static rsh_status distributed_ops(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int n = rsh_comm_size(comm);
    rsh_value *v = NULL, *out = NULL;
    rsh_sharded *s;
    rsh_layout *l;
    for (int form = 0; form <= FORMS; form++) {
        RSH_TRY(layout_of(form, "f64", n, &l));
        if (!rsh_layout_op(l)) RSH_TRY(pointwise(comm, l));
        if (!rsh_layout_op(l)) RSH_TRY(number_times_parts(comm, l));
        rsh_layout_free(l);
    }
    RSH_TRY(layout_of(FORMS, "f64", n, &l)); /* two parts on rank 0 */
    RSH_TRY(rsh_sharded_zeros(comm, l, &s));
    RSH_TRY(rsh_value_adopt_sharded(s, true, &v));
    if (rsh_value_nparts(v) != 1) {
        CHECK_STATUS(RSH_EUNSUP, small_sum(v, &out));
        CHECK_SAYS("sum: every rank must have 1 part");
        CHECK_STATUS(RSH_EUNSUP, rsh_value_to_local(v, &out));
    }
    CHECK_STATUS(RSH_EUNSUP, small_halves(v, &out, &out));
    CHECK_SAYS("halves: distributed inputs are not supported");
    rsh_value_free(v);
    rsh_layout_free(l);
    return RSH_OK;
}

static void pointwise_ops_run_part_by_part_and_others_say_that_they_cannot(void **state) {
    (void)state;
    for (int n = 1; n <= MOST; n++) run_engines(n, distributed_ops, NULL);
}

/* A local tensor becomes partial, is reduced and comes back, as in a row-wise Linear. */
static rsh_status tagged(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int n = rsh_comm_size(comm), me = rsh_comm_rank(comm);
    rsh_value *v[5] = {small_leaf(2, (double[]){me + 1, me - 1}, true)};
    rsh_layout *partial, *whole;
    char text[64];
    snprintf(text, sizeof text, "f64[2] on x=%d sum(x)", n);
    RSH_TRY(rsh_layout_parse(text, &partial));
    snprintf(text, sizeof text, "f64[2] on x=%d", n);
    RSH_TRY(rsh_layout_parse(text, &whole));
    RSH_TRY(rsh_value_from_local(v[0], comm, partial, &v[1]));
    RSH_TRY(rsh_value_reshard(v[1], whole, RSH_DERIVATIVE_BACKWARD, NULL, &v[2]));
    RSH_TRY(rsh_value_to_local(v[2], &v[3]));
    CHECK(!rsh_value_layout(v[3]));
    CHECK(small_data(v[3])[0] == n * (n + 1) / 2);
    RSH_TRY(small_sum(v[3], &v[4]));
    RSH_TRY(rsh_backward(v[4], NULL, 0));
    CHECK(!rsh_value_layout(rsh_value_grad(v[0])));
    CHECK(small_grad(v[0], 0) == 1 && small_grad(v[0], 1) == 1); /* 1 on every rank, because nothing is divided */
    for (int i = 0; i < 5; i++) rsh_value_free(v[i]);
    rsh_layout_free(partial);
    rsh_layout_free(whole);
    return RSH_OK;
}

static void a_tag_is_put_on_and_taken_off(void **state) {
    (void)state;
    for (int n = 1; n <= MOST; n++) run_engines(n, tagged, NULL);
}

/* ---- a loop ---- */

/* From the third step on nothing is planned or bound, and no memory is added. */
static rsh_status loop(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_layout *rows, *columns;
    rsh_sharded *s;
    rsh_value *v[4] = {NULL};
    rsh_cache_stats cache[2] = {RSH_CACHE_STATS_INIT, RSH_CACHE_STATS_INIT};
    rsh_alloc_stats memory[2];
    RSH_TRY(layout_of(0, "f64", rsh_comm_size(comm), &rows));
    RSH_TRY(layout_of(1, "f64", rsh_comm_size(comm), &columns));
    RSH_TRY(rsh_sharded_zeros(comm, rows, &s));
    RSH_TRY(rsh_value_adopt_sharded(s, true, &v[0]));
    for (int i = 0; i < 20; i++) {
        rsh_derivative how = i % 2 ? RSH_DERIVATIVE_ADJOINT : RSH_DERIVATIVE_BACKWARD;
        RSH_TRY(rsh_value_reshard(v[0], columns, how, NULL, &v[1]));
        RSH_TRY(small_mul(v[1], v[1], &v[2]));
        RSH_TRY(rsh_value_share_sharded(rsh_value_sharded(v[1]), false, &v[3]));
        RSH_TRY(rsh_backward(v[2], v[3], 0));
        for (int k = 1; k < 4; k++) rsh_value_free(v[k]);
        RSH_TRY(rsh_comm_get_cache_stats(comm, &cache[i > 3]));
        memory[i > 3] = rsh_alloc_get_stats();
    }
    CHECK(cache[0].misses == cache[1].misses && cache[0].bindings == cache[1].bindings);
    CHECK(cache[1].hits > cache[0].hits);
    CHECK(memory[0].live == memory[1].live && memory[0].data_bytes == memory[1].data_bytes);
    rsh_value_free(v[0]);
    rsh_layout_free(rows);
    rsh_layout_free(columns);
    return RSH_OK;
}

static void a_loop_plans_and_binds_in_its_first_steps_only(void **state) {
    (void)state;
    for (int n = 1; n <= MOST; n++) run_engines(n, loop, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_adjoint_is_the_transpose),
        cmocka_unit_test(the_way_back_gives_each_replica_the_gradient),
        cmocka_unit_test(what_has_no_derivative_or_is_wrong_is_refused_on_all_ranks),
        cmocka_unit_test(pointwise_ops_run_part_by_part_and_others_say_that_they_cannot),
        cmocka_unit_test(a_tag_is_put_on_and_taken_off),
        cmocka_unit_test(a_loop_plans_and_binds_in_its_first_steps_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
