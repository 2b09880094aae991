/* Ops on distributed values, views that share memory, and dropout by global position. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/numbers.h"

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #what, rsh_error_detail());                         \
            return RSH_ERUNTIME;                                                                                       \
        }                                                                                                              \
    } while (0)

enum { ROWS = 7, WIDTH = 6 };

static const char *const layouts[] = {"f64[7/x, 6] on x=3", "f64[7, 6/x] on x=3", "f64[7/x:2, 6] on x=3",
                                      "f64[7, 6] on x=3"};

/* ---- the whole value on every rank, and the same value distributed ---- */

static rsh_value *scattered(rsh_comm *comm, const char *text, const rsh_value *whole, bool requires_grad) {
    rsh_layout *layout = NULL;
    rsh_sharded *s = NULL;
    rsh_value *v = NULL;
    rsh_memory memory = {rsh_tensor_data(rsh_value_tensor(whole)), NULL};
    if (!rsh_layout_parse(text, &layout) && !rsh_sharded_scatter(comm, layout, 0, &memory, &s))
        rsh_value_adopt_sharded(s, requires_grad, &v);
    rsh_layout_free(layout);
    return v;
}

static rsh_status gathered(const rsh_value *v, double *whole) {
    rsh_memory memory = {whole, NULL};
    return rsh_sharded_gather(rsh_value_sharded(v), 0, &memory);
}

static bool same(rsh_comm *comm, const rsh_value *distributed, const rsh_value *whole) {
    double got[ROWS * WIDTH];
    if (gathered(distributed, got)) return false;
    for (int i = 0; rsh_comm_rank(comm) == 0 && i < ROWS * WIDTH; i++)
        if (fabs(got[i] - element_of(whole, i)) > 1e-14) return false;
    return true;
}

/* Applies a chain of pointwise ops: y = dropout(where(mask, gelu(a * b), 2 a)) + b - tanh(b) / 3. */
static rsh_status chain(rsh_value *a, rsh_value *b, rsh_value *mask, rsh_value **out) {
    rsh_value *v[9] = {NULL};
    rsh_status st = rsh_nn_mul(a, b, &v[0]);
    if (!st) st = rsh_nn_gelu(v[0], RSH_GELU_ERF, &v[1]);
    if (!st) st = rsh_nn_mul_number(a, 2, &v[2]);
    if (!st) st = rsh_nn_where(mask, v[1], v[2], &v[3]);
    if (!st) st = rsh_nn_dropout(v[3], 0.4, 5, 9, &v[4]);
    if (!st) st = rsh_nn_add(v[4], b, &v[5]);
    if (!st) st = rsh_nn_tanh(b, &v[6]);
    if (!st) v[7] = number_value(RSH_F64, 3);
    if (!st) st = rsh_nn_div(v[6], v[7], &v[8]);
    if (!st) st = rsh_nn_sub(v[5], v[8], out);
    for (int i = 0; i < 9; i++) rsh_value_free(v[i]);
    return st;
}

static rsh_status compare_chain(rsh_comm *comm, const char *text) {
    rsh_value *a = some_value(RSH_F64, 1, true, SIZES(ROWS, WIDTH)),
              *b = some_value(RSH_F64, 2, true, SIZES(ROWS, WIDTH));
    rsh_value *seed = some_value(RSH_F64, 3, false, SIZES(ROWS, WIDTH)), *mask = some_mask(SIZES(ROWS, WIDTH));
    char bools[64];
    snprintf(bools, sizeof bools, "bool%s", text + 3);
    rsh_value *da = scattered(comm, text, a, true), *db = scattered(comm, text, b, true);
    rsh_value *dseed = scattered(comm, text, seed, false), *dmask = scattered(comm, bools, mask, false);
    rsh_value *y = NULL, *dy = NULL;
    CHECK(da && db && dseed && dmask);
    CHECK(!chain(a, b, mask, &y));
    CHECK(!chain(da, db, dmask, &dy));
    CHECK(same(comm, dy, y));
    CHECK(!rsh_backward(y, seed, 0));
    CHECK(!rsh_backward(dy, dseed, 0));
    CHECK(same(comm, rsh_value_grad(da), rsh_value_grad(a)));
    CHECK(same(comm, rsh_value_grad(db), rsh_value_grad(b)));
    rsh_value *all[10] = {a, b, seed, mask, da, db, dseed, dmask, y, dy};
    for (int i = 0; i < 10; i++) rsh_value_free(all[i]);
    return RSH_OK;
}

static rsh_status compare_all(void *ctx, rsh_comm *comm) {
    (void)ctx;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) CHECK(!compare_chain(comm, layouts[i]));
    return RSH_OK;
}

static void pointwise_ops_on_parts_are_those_on_the_whole(void **state) {
    (void)state;
    assert_int_equal(rsh_run(3, compare_all, NULL), RSH_OK);
    assert_int_equal(rsh_run_shm(3, compare_all, NULL), RSH_OK);
}

/* Boxes do not correspond to dims, so ops cannot follow them. */
static rsh_status refuse_all(void *ctx, rsh_comm *comm) {
    const char *boxes = "f64[7, 6] boxes 0:[0:7,0:2] 1:[0:7,2:4] 2:[0:7,4:6]";
    rsh_value *x = some_value(RSH_F64, 1, false, SIZES(ROWS, WIDTH)), *d = scattered(comm, boxes, x, true), *y = NULL;
    rsh_value *w = some_value(RSH_F64, 1, false, SIZES(WIDTH, 2));
    (void)ctx;
    CHECK(rsh_nn_matmul(d, w, &y) == RSH_EUNSUP && strstr(rsh_error_detail(), "matmul"));
    CHECK(rsh_nn_softmax(d, 0, &y) == RSH_EUNSUP && strstr(rsh_error_detail(), "softmax"));
    CHECK(rsh_nn_sum(d, 0, NULL, false, &y) == RSH_EUNSUP && strstr(rsh_error_detail(), "sum"));
    CHECK(rsh_nn_linear(d, x, NULL, &y) == RSH_EUNSUP && strstr(rsh_error_detail(), "linear"));
    CHECK(rsh_nn_reshape(d, SIZES(6, 7), &y) == RSH_EUNSUP && strstr(rsh_error_detail(), "reshape"));
    CHECK(rsh_nn_cat(2, (rsh_value *[]){d, d}, 0, &y) == RSH_EUNSUP && strstr(rsh_error_detail(), "cat"));
    CHECK(rsh_nn_add(d, x, &y) == RSH_EUNSUP && strstr(rsh_error_detail(), "add"));
    rsh_value_free(x);
    rsh_value_free(d);
    rsh_value_free(w);
    return RSH_OK;
}

static void other_ops_on_boxes_are_refused_by_name(void **state) {
    (void)state;
    assert_int_equal(rsh_run(3, refuse_all, NULL), RSH_OK);
}

static void type_as_converts_there_and_the_gradient_back(void **state) {
    (void)state;
    rsh_value *x = some_value(RSH_F64, 1, true, SIZES(ROWS)), *like = number_value(RSH_F32, 0), *y = NULL, *same = NULL;
    rsh_value *seed = some_value(RSH_F32, 2, false, SIZES(ROWS));
    assert_int_equal(rsh_nn_type_as(x, like, &y), RSH_OK);
    assert_int_equal(rsh_nn_type_as(x, x, &same), RSH_OK);
    assert_ptr_equal(same, x);
    assert_int_equal(rsh_value_dtype(y), RSH_F32);
    assert_int_equal(rsh_backward(y, seed, 0), RSH_OK);
    assert_int_equal(rsh_value_dtype(rsh_value_grad(x)), RSH_F64);
    for (int i = 0; i < ROWS; i++) {
        assert_true(element_of(y, i) == (double)(float)element_of(x, i));
        assert_true(element_of(rsh_value_grad(x), i) == element_of(seed, i));
    }
    rsh_value *all[] = {x, like, y, same, seed};
    for (int i = 0; i < 5; i++) rsh_value_free(all[i]);
}

/* ---- dropout ---- */

static void dropout_keeps_the_share_it_is_asked_for(void **state) {
    (void)state;
    enum { N = 100000 };
    rsh_value *x = some_value(RSH_F32, 0, false, SIZES(N)), *y = NULL, *again = NULL, *other = NULL;
    int64_t kept = 0, differs = 0;
    assert_int_equal(rsh_nn_dropout(x, 0.25, 3, 4, &y), RSH_OK);
    assert_int_equal(rsh_nn_dropout(x, 0.25, 3, 4, &again), RSH_OK);
    assert_int_equal(rsh_nn_dropout(x, 0.25, 3, 5, &other), RSH_OK);
    for (int64_t i = 0; i < N; i++) {
        double a = element_of(x, i), b = element_of(y, i);
        assert_true(b == 0 || fabs(b - a / 0.75) < 1e-6);
        assert_true(b == element_of(again, i));
        kept += b != 0;
        differs += (b != 0) != (element_of(other, i) != 0);
    }
    assert_true(kept > 0.74 * N && kept < 0.76 * N);
    assert_true(differs > 0.36 * N && differs < 0.39 * N); /* 2 * 0.25 * 0.75 */
    rsh_value *all[4] = {x, y, again, other};
    for (int i = 0; i < 4; i++) rsh_value_free(all[i]);
}

static void dropout_of_all_and_of_nothing(void **state) {
    (void)state;
    rsh_value *x = some_value(RSH_F32, 1, true, SIZES(5)), *y = NULL, *seed = some_value(RSH_F32, 2, false, SIZES(5));
    assert_int_equal(rsh_nn_dropout(x, 0, 1, 1, &y), RSH_OK);
    for (int i = 0; i < 5; i++) assert_true(element_of(y, i) == element_of(x, i));
    rsh_value_free(y);
    assert_int_equal(rsh_nn_dropout(x, 1, 1, 1, &y), RSH_OK);
    assert_int_equal(rsh_backward(y, seed, 0), RSH_OK);
    for (int i = 0; i < 5; i++) assert_true(element_of(y, i) == 0 && element_of(rsh_value_grad(x), i) == 0);
    rsh_value_free(x);
    rsh_value_free(y);
    rsh_value_free(seed);
}

/* ---- views ---- */

static void shape_ops_share_memory_where_strides_allow(void **state) {
    (void)state;
    rsh_value *x = some_value(RSH_F32, 1, false, SIZES(4, 6)), *v[9] = {NULL};
    const void *data = rsh_tensor_data(rsh_value_tensor(x));
    assert_int_equal(rsh_nn_transpose(x, 0, 1, &v[0]), RSH_OK);
    assert_int_equal(rsh_nn_reshape(x, SIZES(2, 2, -1), &v[1]), RSH_OK);
    assert_int_equal(rsh_nn_unsqueeze(v[0], 1, &v[2]), RSH_OK);
    assert_int_equal(rsh_nn_expand(v[2], SIZES(6, 3, 4), &v[3]), RSH_OK);
    assert_int_equal(rsh_nn_squeeze(v[2], 1, &v[4]), RSH_OK);
    assert_int_equal(rsh_nn_narrow(x, 1, 0, 3, &v[5]), RSH_OK);
    assert_int_equal(rsh_nn_contiguous(x, &v[6]), RSH_OK);
    assert_int_equal(rsh_nn_reshape(v[0], SIZES(2, 3, 4), &v[7]), RSH_OK); /* splits a dim of a transposed value */
    for (int i = 0; i < 8; i++) assert_ptr_equal(rsh_tensor_data(rsh_value_tensor(v[i])), data);
    assert_int_equal(rsh_nn_reshape(v[0], SIZES(24), &v[8]), RSH_OK);
    assert_ptr_not_equal(rsh_tensor_data(rsh_value_tensor(v[8])), data);
    for (int i = 0; i < 24; i++) assert_true(element_of(v[8], i) == element_of(v[0], i));
    for (int i = 0; i < 24; i++) assert_true(element_of(v[7], i) == element_of(v[0], i));
    for (int i = 0; i < 9; i++) rsh_value_free(v[i]);
    rsh_value_free(x);
}

/* Heads are views of one matrix: the result of attention becomes one matrix again without a copy. */
static void attention_keeps_the_order_of_memory(void **state) {
    (void)state;
    enum { T = 5, HEADS = 3, D = 4 };
    rsh_value *x = some_value(RSH_F64, 1, false, SIZES(2, T, HEADS, D)), *heads = NULL, *y = NULL, *back = NULL,
              *flat = NULL;
    assert_int_equal(rsh_nn_transpose(x, 1, 2, &heads), RSH_OK);
    assert_int_equal(rsh_nn_attention(heads, heads, heads, NULL, true, &y), RSH_OK);
    assert_int_equal(rsh_nn_transpose(y, 1, 2, &back), RSH_OK);
    assert_int_equal(rsh_nn_reshape(back, SIZES(2, T, HEADS * D), &flat), RSH_OK);
    assert_ptr_equal(rsh_tensor_data(rsh_value_tensor(flat)), rsh_tensor_data(rsh_value_tensor(y)));
    rsh_value *all[5] = {x, heads, y, back, flat};
    for (int i = 0; i < 5; i++) rsh_value_free(all[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointwise_ops_on_parts_are_those_on_the_whole),
        cmocka_unit_test(other_ops_on_boxes_are_refused_by_name),
        cmocka_unit_test(type_as_converts_there_and_the_gradient_back),
        cmocka_unit_test(dropout_keeps_the_share_it_is_asked_for),
        cmocka_unit_test(dropout_of_all_and_of_nothing),
        cmocka_unit_test(shape_ops_share_memory_where_strides_allow),
        cmocka_unit_test(attention_keeps_the_order_of_memory),
    };
    return cmocka_run_group_tests_name("parts and views of ops", tests, NULL, NULL);
}
