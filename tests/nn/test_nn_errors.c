/* Invalid input to ops: the status, an error message that names the op, and no leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include <reshard/alloc.h>
#include <reshard/nn/layers.h>
#include <reshard/nn/optim.h>
#include <reshard/nn/recompute.h>

#include "nn/numbers.h"

/* ---- statuses ---- */

static struct {
    rsh_value *v[128]; /* values that a test made */
    int n;
    rsh_value *out[4];
} made;

static rsh_value *keep(rsh_value *v) { return made.v[made.n++] = v; }
#define F(...)        keep(some_value(RSH_F32, made.n, true, SIZES(__VA_ARGS__)))
#define D(...)        keep(some_value(RSH_F64, made.n, true, SIZES(__VA_ARGS__)))
#define I(below, ...) keep(some_indices(below, SIZES(__VA_ARGS__)))
#define MASK(...)     keep(some_mask(SIZES(__VA_ARGS__)))

static int clean(void **state) {
    (void)state;
    while (made.n) rsh_value_free(made.v[--made.n]);
    return 0;
}

static void refused(rsh_status got, rsh_status want, const char *word) {
    if (got != want) fail_msg("%s instead of %s: %s", rsh_status_name(got), rsh_status_name(want), rsh_error_detail());
    if (!strstr(rsh_error_detail(), word)) fail_msg("\"%s\" is not in: %s", word, rsh_error_detail());
    for (int i = 0; i < 4; i++) assert_null(made.out[i]);
}

static rsh_value **out(void) { return made.out; }

static void shapes_that_do_not_match_are_refused(void **state) {
    (void)state;
    refused(rsh_nn_add(F(2, 3), F(2, 4), out()), RSH_EVALUE, "add: shapes [2, 3] and [2, 4] do not broadcast");
    refused(rsh_nn_mul(F(3, 1, 2), F(2, 3), out()), RSH_EVALUE, "mul");
    refused(rsh_nn_where(MASK(2, 2), F(2, 3), F(1), out()), RSH_EVALUE, "where");
    refused(rsh_nn_masked_fill(F(2, 3), MASK(2, 2), 0, out()), RSH_EVALUE, "masked_fill");
    refused(rsh_nn_matmul(F(2, 3), F(4, 5), out()), RSH_EVALUE, "3 columns on the left, 4 rows on the right");
    refused(rsh_nn_matmul(F(2, 2, 3), F(3, 3, 4), out()), RSH_EVALUE, "matmul");
    refused(rsh_nn_matmul(keep(number_value(RSH_F32, 1)), F(3), out()), RSH_EVALUE,
            "matmul: operands must have at least 1 dim");
    refused(rsh_nn_bmm(F(2, 3, 4), F(3, 4, 5), out()), RSH_EVALUE, "bmm");
    refused(rsh_nn_bmm(F(3, 4), F(4, 5), out()), RSH_EVALUE, "bmm");
    refused(rsh_nn_linear(F(2, 3), F(4, 5), NULL, out()), RSH_EVALUE, "linear");
    refused(rsh_nn_linear(F(2, 5), F(4, 5), F(5), out()), RSH_EVALUE, "bias [5]");
    refused(rsh_nn_layer_norm(F(2, 3), 1, F(2), NULL, 1e-5, out()), RSH_EVALUE, "layer_norm");
    refused(rsh_nn_layer_norm(F(2, 3), 0, NULL, NULL, 1e-5, out()), RSH_EVALUE, "layer_norm");
    refused(rsh_nn_layer_norm(F(2, 3), 3, NULL, NULL, 1e-5, out()), RSH_EVALUE, "layer_norm");
    refused(rsh_nn_rms_norm(F(2, 3), F(2), 1e-5, out()), RSH_EVALUE, "rms_norm");
    refused(rsh_nn_cat(2, (rsh_value *[]){F(2, 3), F(3, 3)}, 1, out()), RSH_EVALUE, "cat");
    refused(rsh_nn_stack(2, (rsh_value *[]){F(2, 3), F(3, 3)}, 1, out()), RSH_EVALUE, "stack");
    refused(rsh_nn_reshape(F(2, 3), SIZES(4, 2), out()), RSH_EVALUE, "cannot reshape [2, 3] to [4, 2]");
    refused(rsh_nn_reshape(F(2, 3), SIZES(-1, -1), out()), RSH_EVALUE, "reshape");
    refused(rsh_nn_reshape(F(2, 3), SIZES(4, -1), out()), RSH_EVALUE, "reshape");
    refused(rsh_nn_expand(F(2, 3), SIZES(4, 3), out()), RSH_EVALUE, "expand");
    refused(rsh_nn_expand(F(2, 3), SIZES(3), out()), RSH_EVALUE, "expand");
    refused(rsh_nn_split(F(5), 2, 0, 2, out()), RSH_EVALUE, "expected 2 pieces, but a dim of 5 elements has 3");
    refused(rsh_nn_split(F(5), 0, 0, 2, out()), RSH_EVALUE, "split");
    refused(rsh_nn_split_sizes(F(5), 0, 2, (int64_t[]){2, 2}, out()), RSH_EVALUE, "split");
    refused(rsh_nn_mse(F(2, 3), F(3), RSH_LOSS_MEAN, out()), RSH_EVALUE, "mse");
    refused(rsh_nn_cross_entropy(F(2, 3), I(3, 3), NULL, out()), RSH_EVALUE, "cross_entropy");
    refused(rsh_nn_attention(F(2, 3), F(2, 4), F(2, 3), NULL, false, out()), RSH_EVALUE, "attention");
    refused(rsh_nn_attention(F(2, 3), F(4, 3), F(4, 3), F(3, 4), false, out()), RSH_EVALUE, "attention");
    refused(rsh_nn_embedding(I(3, 2), F(3), -1, out()), RSH_EVALUE, "embedding");
    refused(rsh_nn_index_select(F(3, 3), 0, I(3, 2, 2), out()), RSH_EVALUE, "index_select");
    refused(rsh_nn_max(F(0, 3), out()), RSH_EVALUE, "max");
    refused(rsh_nn_max_dim(F(0, 3), 0, false, out(), NULL), RSH_EVALUE, "max");
}

static void dims_and_indices_out_of_range_are_refused(void **state) {
    (void)state;
    refused(rsh_nn_sum(F(2, 3), 1, (int[]){2}, false, out()), RSH_EINDEX, "sum: dim 2 is out of range");
    refused(rsh_nn_mean(F(2, 3), 1, (int[]){-3}, false, out()), RSH_EINDEX, "mean");
    refused(rsh_nn_sum(F(2, 3), 2, (int[]){1, -1}, false, out()), RSH_EVALUE, "twice");
    refused(rsh_nn_max_dim(F(2, 3), 2, false, out(), NULL), RSH_EINDEX, "max");
    refused(rsh_nn_softmax(F(2, 3), 2, out()), RSH_EINDEX, "softmax");
    refused(rsh_nn_log_softmax(F(2, 3), -3, out()), RSH_EINDEX, "log_softmax");
    refused(rsh_nn_transpose(F(2, 3), 0, 2, out()), RSH_EINDEX, "transpose");
    refused(rsh_nn_permute(F(2, 3), (int[]){0, 2}, out()), RSH_EINDEX, "permute");
    refused(rsh_nn_permute(F(2, 3), (int[]){0, 0}, out()), RSH_EVALUE, "permute");
    refused(rsh_nn_squeeze(F(2, 3), 2, out()), RSH_EINDEX, "squeeze");
    refused(rsh_nn_unsqueeze(F(2, 3), 3, out()), RSH_EINDEX, "unsqueeze");
    refused(rsh_nn_narrow(F(2, 3), 1, 2, 2, out()), RSH_EINDEX, "narrow");
    refused(rsh_nn_narrow(F(2, 3), 1, -1, 2, out()), RSH_EINDEX, "narrow");
    refused(rsh_nn_cat(1, (rsh_value *[]){F(2, 3)}, 2, out()), RSH_EINDEX, "cat");
    refused(rsh_nn_stack(1, (rsh_value *[]){F(2, 3)}, 3, out()), RSH_EINDEX, "stack");
    refused(rsh_nn_split(F(2, 3), 1, 2, 2, out()), RSH_EINDEX, "split");
    refused(rsh_nn_chunk(F(2, 3), 2, 2, &(int){0}, out()), RSH_EINDEX, "chunk");
    refused(rsh_nn_index_select(F(2, 3), 0, I(3, 3), out()), RSH_EINDEX,
            "index_select: index 2 is out of range, there are 2 rows");
    refused(rsh_nn_index_select(F(2, 3), 2, I(2, 3), out()), RSH_EINDEX, "index_select");
    refused(rsh_nn_embedding(I(7, 7), F(6, 3), -1, out()), RSH_EINDEX, "embedding");
    refused(rsh_nn_embedding(I(6, 7), F(6, 3), 6, out()), RSH_EINDEX, "got 6 for a weight of 6 rows");
    refused(rsh_nn_cross_entropy(F(3, 2), I(3, 3), NULL, out()), RSH_EINDEX,
            "target 2 is out of range, there are 2 classes");
    rsh_cross_entropy_opts other = {sizeof other, .ignore = true, .ignore_index = 1};
    refused(rsh_nn_cross_entropy(F(3, 2), I(5, 3), &other, out()), RSH_EINDEX,
            "target 3 is out of range, there are 2 classes");
}

static void dtypes_that_do_not_go_are_refused(void **state) {
    (void)state;
    refused(rsh_nn_add(F(2), D(2), out()), RSH_ETYPE, "add: dtypes must be equal, got f32 and f64");
    refused(rsh_nn_matmul(F(2, 2), D(2, 2), out()), RSH_ETYPE, "matmul");
    refused(rsh_nn_linear(F(2, 2), F(2, 2), D(2), out()), RSH_ETYPE, "linear");
    refused(rsh_nn_cat(2, (rsh_value *[]){F(2), D(2)}, 0, out()), RSH_ETYPE, "cat");
    refused(rsh_nn_stack(2, (rsh_value *[]){F(2), D(2)}, 0, out()), RSH_ETYPE, "stack");
    refused(rsh_nn_exp(I(3, 2), out()), RSH_ETYPE, "exp: dtype must be f32 or f64, got i64");
    refused(rsh_nn_add(I(3, 2), I(3, 2), out()), RSH_ETYPE, "add");
    refused(rsh_nn_sum(I(3, 2), 0, NULL, false, out()), RSH_ETYPE, "sum");
    refused(rsh_nn_softmax(I(3, 2), 0, out()), RSH_ETYPE, "softmax");
    refused(rsh_nn_dropout(I(3, 2), 0.5, 0, 0, out()), RSH_ETYPE, "dropout");
    refused(rsh_nn_where(F(2), F(2), F(2), out()), RSH_ETYPE, "where: mask must be bool or u8, got f32");
    refused(rsh_nn_masked_fill(F(2), F(2), 0, out()), RSH_ETYPE, "masked_fill");
    refused(rsh_nn_embedding(F(2), F(3, 3), -1, out()), RSH_ETYPE, "embedding");
    refused(rsh_nn_index_select(F(2), 0, F(2), out()), RSH_ETYPE, "index_select");
    refused(rsh_nn_cross_entropy(F(2, 2), F(2), NULL, out()), RSH_ETYPE, "cross_entropy");
    refused(rsh_nn_attention(F(2, 3), F(4, 3), F(4, 3), I(2, 2, 4), false, out()), RSH_ETYPE, "attention");
}

static void numbers_out_of_range_are_refused(void **state) {
    (void)state;
    refused(rsh_nn_dropout(F(2), 1.5, 0, 0, out()), RSH_EVALUE, "dropout: p must be 0 to 1");
    refused(rsh_nn_dropout(F(2), -0.5, 0, 0, out()), RSH_EVALUE, "dropout: p must be 0 to 1");
    refused(rsh_nn_dropout(F(2), NAN, 0, 0, out()), RSH_EVALUE, "dropout: p must be 0 to 1");
    refused(rsh_nn_clamp(F(2), NAN, 1, out()), RSH_EVALUE, "clamp");
    rsh_cross_entropy_opts smooth = {sizeof smooth, .label_smoothing = 1.5};
    refused(rsh_nn_cross_entropy(F(2, 2), I(2, 2), &smooth, out()), RSH_EVALUE, "smoothing");
    refused(rsh_nn_chunk(F(2), 0, 0, &(int){0}, out()), RSH_EVALUE, "chunk");
    refused(rsh_nn_cat(0, (rsh_value *[]){F(2)}, 0, out()), RSH_EVALUE, "cat: at least 1 input is needed, got 0");
    refused(rsh_nn_open(NULL, &(rsh_nn_opts){sizeof(rsh_nn_opts), .threads = -1}), RSH_EVALUE, "got -1");
}

static void a_dim_without_elements_gives_empty_chunks(void **state) {
    (void)state;
    rsh_value *x = keep(some_value(RSH_F32, 1, true, SIZES(2, 0))), *piece[3] = {NULL};
    int n = 0;
    assert_int_equal(rsh_nn_chunk(x, 3, 1, &n, piece), RSH_OK);
    assert_int_equal(n, 3);
    for (int i = 0; i < n; i++) {
        assert_int_equal(rsh_value_shape(piece[i])[0], 2);
        assert_int_equal(rsh_value_shape(piece[i])[1], 0);
        rsh_value_free(piece[i]);
    }
    const int64_t wrap[3] = {INT64_MAX, INT64_MAX, 2}; /* adds up to 0 in 64 bits */
    refused(rsh_nn_split_sizes(x, 1, 3, wrap, out()), RSH_EVALUE, "add up");
}

/* A program that was compiled with other headers than the library's. */
static void options_of_another_size_are_refused(void **state) {
    (void)state;
    rsh_module *m = NULL, *none = NULL;
    rsh_optimizer *o = NULL;
    rsh_bag_opts bag = RSH_BAG_OPTS_INIT;
    bag.rows = &(rsh_embedding_opts){.padding = 0};
    refused(rsh_nn_open(NULL, &(rsh_nn_opts){.threads = 1}), RSH_EVALUE, "RSH_NN_OPTS_INIT");
    refused(rsh_nn_cross_entropy(F(2, 2), I(2, 2), &(rsh_cross_entropy_opts){.ignore = false}, out()), RSH_EVALUE,
            "RSH_CROSS_ENTROPY_OPTS_INIT");
    refused(rsh_embedding_new(3, 2, &(rsh_embedding_opts){.padding = 0}, RSH_F32, &none), RSH_EVALUE,
            "RSH_EMBEDDING_OPTS_INIT");
    refused(rsh_embedding_bag_new(3, 2, &(rsh_bag_opts){.mode = RSH_BAG_SUM}, RSH_F32, &none), RSH_EVALUE,
            "RSH_BAG_OPTS_INIT");
    refused(rsh_embedding_bag_new(3, 2, &bag, RSH_F32, &none), RSH_EVALUE, "RSH_EMBEDDING_OPTS_INIT");
    refused(rsh_attention_new(&(rsh_attention_opts){.width = 4, .heads = 2}, RSH_F32, &none), RSH_EVALUE,
            "RSH_ATTENTION_OPTS_INIT");
    assert_int_equal(rsh_linear_new(2, 2, true, RSH_F32, &m), RSH_OK);
    refused(rsh_sgd_new(m, &(rsh_sgd_opts){.lr = 0.1}, &o), RSH_EVALUE, "RSH_SGD_OPTS_INIT");
    refused(rsh_adam_new(m, &(rsh_adam_opts){.lr = 0.1}, &o), RSH_EVALUE, "RSH_ADAM_OPTS_INIT");
    refused(rsh_input_reshard(m, NULL, 0, &(rsh_input_reshard_opts){.threshold = 0}), RSH_EVALUE,
            "RSH_INPUT_RESHARD_OPTS_INIT");
    assert_true(!none && !o);
    rsh_module_free(m);
}

static void integers_have_no_gradient(void **state) {
    (void)state;
    rsh_tensor *t = NULL;
    rsh_value *v = NULL;
    assert_int_equal(rsh_tensor_zeros(RSH_I64, SIZES(2), &t), RSH_OK);
    assert_int_equal(rsh_value_adopt_tensor(t, true, &v), RSH_ETYPE);
    rsh_tensor_free(t);
    rsh_value *most = NULL, *index = NULL;
    assert_int_equal(rsh_nn_max_dim(F(2, 3), 1, false, &most, &index), RSH_OK);
    assert_true(rsh_value_requires_grad(most));
    assert_false(rsh_value_requires_grad(index));
    refused(rsh_backward(index, NULL, 0), RSH_ERUNTIME, "");
    keep(most), keep(index);
}

static void a_saved_value_that_changed_is_noticed(void **state) {
    (void)state;
    rsh_value *x = F(3), *y = NULL, *seed = keep(some_value(RSH_F32, 1, false, SIZES(3)));
    assert_int_equal(rsh_nn_silu(x, &y), RSH_OK);
    rsh_tensor_bump_version(rsh_value_tensor(x));
    refused(rsh_backward(y, seed, 0), RSH_ERUNTIME, "silu");
    keep(y);
}

/* ---- memory ---- */

typedef rsh_status calling(rsh_value **result);

static rsh_status call_linear(rsh_value **y) { return rsh_nn_linear(made.v[0], made.v[1], made.v[2], y); }
static rsh_status call_matmul(rsh_value **y) { return rsh_nn_matmul(made.v[0], made.v[3], y); }
static rsh_status call_norm(rsh_value **y) { return rsh_nn_layer_norm(made.v[0], 1, made.v[4], made.v[4], 1e-5, y); }
static rsh_status call_softmax(rsh_value **y) { return rsh_nn_softmax(made.v[0], 0, y); }
static rsh_status call_attention(rsh_value **y) {
    return rsh_nn_attention(made.v[5], made.v[5], made.v[5], made.v[9], true, y);
}
static rsh_status call_entropy(rsh_value **y) { return rsh_nn_cross_entropy(made.v[6], made.v[7], NULL, y); }
static rsh_status call_mse(rsh_value **y) { return rsh_nn_mse(made.v[0], made.v[0], RSH_LOSS_MEAN, y); }
static rsh_status call_dropout(rsh_value **y) { return rsh_nn_dropout(made.v[0], 0.5, 1, 1, y); }
static rsh_status call_add(rsh_value **y) { return rsh_nn_add(made.v[0], made.v[4], y); }
static rsh_status call_pow(rsh_value **y) { return rsh_nn_pow(made.v[0], made.v[4], y); }
static rsh_status call_masked(rsh_value **y) { return rsh_nn_masked_fill(made.v[0], made.v[8], 1, y); }
static rsh_status call_cat(rsh_value **y) { return rsh_nn_cat(2, (rsh_value *[]){made.v[0], made.v[0]}, 0, y); }
static rsh_status call_stack(rsh_value **y) { return rsh_nn_stack(2, (rsh_value *[]){made.v[0], made.v[0]}, 1, y); }
static rsh_status call_max(rsh_value **y) { return rsh_nn_max(made.v[0], y); }
static rsh_status call_max_dim(rsh_value **y) { return rsh_nn_max_dim(made.v[0], 0, false, y, NULL); }
static rsh_status call_embedding(rsh_value **y) { return rsh_nn_embedding(made.v[7], made.v[6], -1, y); }
static rsh_status call_narrow(rsh_value **y) { return rsh_nn_narrow(made.v[0], 1, 1, 2, y); }
static rsh_status call_mean(rsh_value **y) { return rsh_nn_mean(made.v[0], 1, (int[]){0}, false, y); }

static rsh_status forth_and_back(calling *call, rsh_value **y) {
    rsh_value *total = NULL;
    rsh_status st = call(y);
    if (!st) st = rsh_nn_sum(*y, 0, NULL, false, &total);
    if (!st) st = rsh_backward(total, NULL, 0);
    rsh_value_free(total);
    return st;
}

static void drop_gradients(void) {
    for (int i = 0; i < made.n; i++)
        if (rsh_value_is_leaf(made.v[i])) rsh_value_set_grad(made.v[i], NULL);
}

static void without_memory_an_op_fails_and_leaves_nothing(void **state) {
    (void)state;
    calling *calls[] = {call_linear, call_matmul,  call_norm,    call_softmax,   call_attention, call_entropy,
                        call_mse,    call_dropout, call_add,     call_pow,       call_masked,    call_cat,
                        call_stack,  call_max,     call_max_dim, call_embedding, call_narrow,    call_mean};
    F(3, 4), F(2, 4), F(2), F(4, 2), F(4), F(2, 3, 4), F(3, 5), I(3, 3), MASK(3, 4);
    keep(some_value(RSH_F32, 1, false, SIZES(3, 3)));
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        rsh_value *warm = NULL;
        assert_int_equal(forth_and_back(calls[c], &warm), RSH_OK);
        rsh_value_free(warm);
        drop_gradients();
        uint64_t live = rsh_alloc_get_stats().live;
        rsh_status st = RSH_ENOMEM;
        for (int64_t n = 0; st; n++) {
            rsh_value *y = NULL;
            rsh_alloc_fail_at(n);
            st = forth_and_back(calls[c], &y);
            rsh_alloc_fail_at(-1);
            if (st && st != RSH_ENOMEM) fail_msg("call %zu, allocation %lld: %s", c, (long long)n, rsh_error_detail());
            rsh_value_free(y);
            drop_gradients();
            if (rsh_alloc_get_stats().live != live)
                fail_msg("call %zu, allocation %lld: something is left", c, (long long)n);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(shapes_that_do_not_match_are_refused, clean),
        cmocka_unit_test_teardown(dims_and_indices_out_of_range_are_refused, clean),
        cmocka_unit_test_teardown(dtypes_that_do_not_go_are_refused, clean),
        cmocka_unit_test_teardown(numbers_out_of_range_are_refused, clean),
        cmocka_unit_test_teardown(a_dim_without_elements_gives_empty_chunks, clean),
        cmocka_unit_test_teardown(options_of_another_size_are_refused, clean),
        cmocka_unit_test_teardown(integers_have_no_gradient, clean),
        cmocka_unit_test_teardown(a_saved_value_that_changed_is_noticed, clean),
        cmocka_unit_test_teardown(without_memory_an_op_fails_and_leaves_nothing, clean),
    };
    return cmocka_run_group_tests_name("bad input to ops", tests, NULL, NULL);
}
