/* Sharded ops: ops on sharded tensors compared with the same ops on whole tensors, forward and backward.
 *
 * Sharded tensors are chunks along a dim, with owners in any order, like PyTorch's.  Every rank also has the whole
 * tensors.  A plain input is equal on all ranks, and each rank gets the gradient of its own part of the result. */
#include "models.h"

#include "nn/numbers.h"

enum { MOST = 3 };

typedef struct trial trial;
typedef rsh_status trial_fn(const trial *t, rsh_value *const *in, rsh_value **out);

/* An op, the shapes of its inputs, and the dims along which they are cut: PLAIN is a plain tensor, WHOLE a replicated
 * one.  `out` is the dim along which the result is cut. */
enum { PLAIN = -2, WHOLE = -1 };
struct trial {
    const char *name;
    trial_fn *run;
    int nin;
    struct {
        char kind; /* 0: numbers; 'm': a mask; 'n': numbers including NaN and infinities */
        int ndim;
        int64_t shape[4];
        int cut;
    } in[MOST];
    int out;
    int a, b; /* further arguments of the op */
};

/* ---- values ---- */

/* Makes the layout of chunks with owners in order, rotated, or reversed. */
static rsh_status chunks_of(const rsh_value *whole, int dim, int order, rsh_layout **out) {
    int64_t n = rsh_group_size(NULL), ranks[8];
    rsh_layout_desc l = {.dtype = rsh_value_dtype(whole), .ndim = rsh_value_ndim(whole), .naxes = 1, .ranks = ranks};
    l.axis[0] = (rsh_axis){"x", n};
    for (int64_t i = 0; i < n; i++) ranks[i] = order == 0 ? i : order == 1 ? (i + 1) % n : n - 1 - i;
    for (int d = 0; d < l.ndim; d++) l.dim[d].size = rsh_value_shape(whole)[d];
    if (dim >= 0) l.dim[dim].cut.naxes = 1;
    return rsh_layout_new(&l, out);
}

/* Distributes `whole` in layout l, which is freed. */
static rsh_status scatter_value(const rsh_value *whole, rsh_layout *l, rsh_value **out) {
    rsh_sharded *s = NULL;
    rsh_memory memory = {rsh_tensor_data(rsh_value_tensor(whole)), NULL};
    TRY(rsh_sharded_scatter(rsh_group_comm(NULL), l, 0, &memory, &s));
    rsh_layout_free(l);
    return rsh_value_adopt_sharded(s, rsh_value_requires_grad(whole), out);
}

static rsh_status cut_value(const rsh_value *whole, int dim, int order, rsh_value **out) {
    rsh_layout *l = NULL;
    TRY(chunks_of(whole, dim, order, &l));
    return scatter_value(whole, l, out);
}

static rsh_value *make_whole(const trial *t, int i, rsh_dtype dtype) {
    if (t->in[i].kind == 'm') return some_mask(t->in[i].ndim, t->in[i].shape);
    rsh_value *v = some_value(dtype, i + 2, true, t->in[i].ndim, t->in[i].shape);
    void *x = rsh_tensor_data(rsh_value_tensor(v));
    static const double odd[] = {NAN, INFINITY, -INFINITY};
    for (int64_t k = 0; t->in[i].kind == 'n' && k < count_of(v); k += 2)
        if (dtype == RSH_F32) ((float *)x)[k] = (float)odd[k / 2 % 3];
        else ((double *)x)[k] = odd[k / 2 % 3];
    return v;
}

/* ---- the comparison ---- */

static rsh_status sum_over_ranks(const rsh_tensor *t, rsh_tensor **out) {
    rsh_tensor *dense = NULL;
    TRY(rsh_math_convert(t, rsh_tensor_dtype(t), &dense));
    TRY(rsh_group_all_reduce(NULL, dense, RSH_OP_SUM));
    *out = dense;
    return RSH_OK;
}

/* Gradients of plain and of replicated inputs are contributions: their sum is the gradient of the whole. */
static rsh_status same_gradient(const trial *t, int i, const rsh_value *cut, const rsh_value *whole, double tolerance) {
    rsh_tensor *got = NULL;
    CHECK(rsh_value_grad(cut) && rsh_value_grad(whole));
    if (t->in[i].cut >= 0) TRY(whole_of(rsh_value_grad(cut), &got));
    else TRY(sum_over_ranks(rsh_value_tensor(rsh_value_grad(cut)), &got));
    CHECK_CLOSE(got, rsh_value_tensor(rsh_value_grad(whole)), tolerance);
    rsh_tensor_free(got);
    return RSH_OK;
}

static rsh_status compare(const trial *t, int order, rsh_dtype dtype) {
    double tolerance = dtype == RSH_F64 ? 1e-13 : 2e-5;
    rsh_value *whole[MOST] = {0}, *cut[MOST] = {0}, *y = NULL, *expected = NULL, *seed = NULL, *cut_seed = NULL;
    rsh_layout *l = NULL;
    rsh_tensor *got = NULL;
    for (int i = 0; i < t->nin; i++) {
        whole[i] = make_whole(t, i, dtype);
        const rsh_tensor *plain = rsh_value_tensor(whole[i]);
        if (t->in[i].cut == PLAIN) TRY(rsh_value_share_tensor(plain, rsh_value_requires_grad(whole[i]), &cut[i]));
        else TRY(cut_value(whole[i], t->in[i].cut, order, &cut[i]));
    }
    TRY(t->run(t, whole, &expected));
    TRY(t->run(t, cut, &y));
    TRY(chunks_of(expected, t->out, order, &l));
    CHECK(rsh_layout_equal(rsh_value_layout(y), l));
    TRY(whole_of(y, &got));
    CHECK_CLOSE(got, rsh_value_tensor(expected), tolerance);
    seed = some_value(rsh_value_dtype(expected), 9, false, rsh_value_ndim(expected), rsh_value_shape(expected));
    TRY(cut_value(seed, t->out, order, &cut_seed));
    TRY(rsh_backward(expected, seed, 0));
    TRY(rsh_backward(y, cut_seed, 0));
    for (int i = 0; i < t->nin; i++)
        if (rsh_value_requires_grad(whole[i])) TRY(same_gradient(t, i, cut[i], whole[i], tolerance));
    rsh_tensor_free(got);
    rsh_layout_free(l);
    rsh_value_free(y), rsh_value_free(expected), rsh_value_free(seed), rsh_value_free(cut_seed);
    for (int i = 0; i < t->nin; i++) rsh_value_free(whole[i]), rsh_value_free(cut[i]);
    return RSH_OK;
}

/* Compares all trials of ctx, a list that ends with a name of NULL.  MPI jobs are slow, so they use one order of
 * owners. */
static rsh_status compare_all(void *ctx) {
    int first = engine_is_job() ? 2 : 0;
    for (const trial *t = ctx; t->name; t++)
        for (int order = first; order < 3; order++)
            for (int f = 0; f < (order ? 1 : 2); f++) {
                char sentence[900];
                rsh_status st = compare(t, order, f ? RSH_F32 : RSH_F64);
                if (!st) continue;
                snprintf(sentence, sizeof sentence, "%s cut along %d, owners %d, %s: %.600s", t->name, t->in[0].cut,
                         order, f ? "f32" : "f64", rsh_error_detail());
                return rsh_fail(st, sentence);
            }
    return RSH_OK;
}

static void compare_on_ranks(const trial *list) {
    for (int n = 1; n <= 4; n++) run_groups(n, compare_all, (void *)list);
}

/* ---- pointwise ops, under PyTorch's names ---- */

#define RUN(name_, call)                                                                                               \
    static rsh_status name_(const trial *t, rsh_value *const *in, rsh_value **out) {                                   \
        (void)t;                                                                                                       \
        return call;                                                                                                   \
    }
RUN(run_gelu, rsh_nn_gelu(in[0], t->a ? RSH_GELU_TANH : RSH_GELU_ERF, out))
RUN(run_max, rsh_nn_max_dim(in[0], t->a, false, out, NULL))
RUN(run_relu, rsh_nn_relu(in[0], out))
RUN(run_tanh, rsh_nn_tanh(in[0], out))
RUN(run_dropout, rsh_nn_dropout(in[0], 0.4, 7, 3, out))
RUN(run_nan, rsh_nn_nan_to_num(in[0], 0.5, 3, -INFINITY, out))
RUN(run_add, rsh_nn_add(in[0], in[1], out))
RUN(run_sub, rsh_nn_sub(in[0], in[1], out))
RUN(run_mul, rsh_nn_mul(in[0], in[1], out))
RUN(run_div, rsh_nn_div(in[0], in[1], out))
RUN(run_add_number, rsh_nn_add_number(in[0], 2.5, out))
RUN(run_mul_number, rsh_nn_mul_number(in[0], -3, out))
RUN(run_fill, rsh_nn_masked_fill(in[0], in[1], -4, out))

static rsh_status run_type_as(const trial *t, rsh_value *const *in, rsh_value **out) {
    rsh_value *like = number_value(rsh_value_dtype(in[0]) == RSH_F32 ? RSH_F64 : RSH_F32, 1);
    (void)t;
    rsh_status st = rsh_nn_type_as(in[0], like, out);
    rsh_value_free(like);
    return st;
}

#define MATRIX(name_, run_, cut_, a_) {name_, run_, 1, {{0, 2, {17, 5}, cut_}}, cut_, a_, 0}
#define END {.name = NULL}

static void test_sharded_gelu(void **state) {
    (void)state;
    compare_on_ranks((const trial[]){MATRIX("gelu", run_gelu, 0, 0), MATRIX("gelu", run_gelu, 1, 0),
                                     MATRIX("gelu by tanh", run_gelu, 0, 1), END});
}
static void test_sharded_relu(void **state) {
    (void)state;
    compare_on_ranks((const trial[]){MATRIX("relu", run_relu, 0, 0), MATRIX("relu", run_relu, 1, 0), END});
}
static void test_sharded_dropout(void **state) {
    (void)state;
    compare_on_ranks((const trial[]){MATRIX("dropout", run_dropout, 0, 0), MATRIX("dropout", run_dropout, 1, 0), END});
}

static void other_pointwise_ops_work_part_by_part(void **state) {
    (void)state;
    compare_on_ranks((const trial[]){
        MATRIX("tanh", run_tanh, 1, 0), MATRIX("type_as", run_type_as, 0, 0),
        MATRIX("add_number", run_add_number, 0, 0), MATRIX("mul_number", run_mul_number, 1, 0),
        {"nan_to_num", run_nan, 1, {{'n', 2, {9, 4}, 0}}, 0, 0, 0}, END});
}

/* Combines two sharded tensors, one and a replicated one, or one and a number. */
static void arithmetic_takes_sharded_replicated_and_numbers(void **state) {
    (void)state;
    compare_on_ranks((const trial[]){
        {"add", run_add, 2, {{0, 2, {7, 6}, 0}, {0, 2, {7, 6}, 0}}, 0, 0, 0},
        {"add a plain number with more dims", run_add, 2, {{0, 2, {1, 1}, PLAIN}, {0, 1, {7}, 0}}, 1, 0, 0},
        {"add a plain number of the same shape", run_add, 2, {{0, 1, {1}, PLAIN}, {0, 1, {1}, 0}}, 0, 0, 0},
        {"sub", run_sub, 2, {{0, 2, {7, 6}, 1}, {0, 2, {7, 6}, WHOLE}}, 1, 0, 0},
        {"mul", run_mul, 2, {{0, 2, {7, 6}, WHOLE}, {0, 2, {7, 6}, 0}}, 0, 0, 0},
        {"div", run_div, 2, {{0, 2, {7, 6}, 0}, {0, 1, {6}, WHOLE}}, 0, 0, 0},
        {"add a row", run_add, 2, {{0, 2, {7, 6}, 1}, {0, 1, {6}, WHOLE}}, 1, 0, 0},
        {"mul by a column", run_mul, 2, {{0, 2, {7, 6}, 1}, {0, 2, {7, 1}, WHOLE}}, 1, 0, 0},
        {"sub a number", run_sub, 2, {{0, 2, {7, 6}, 1}, {0, 0, {0}, PLAIN}}, 1, 0, 0},
        {"div a number", run_div, 2, {{0, 1, {1}, PLAIN}, {0, 2, {7, 6}, 0}}, 0, 0, 0},
        END});
}

static void masks_are_cut_as_the_tensor_is(void **state) {
    (void)state;
    compare_on_ranks((const trial[]){
        {"masked_fill", run_fill, 2, {{0, 3, {5, 4, 6}, 0}, {'m', 3, {5, 4, 6}, PLAIN}}, 0, 0, 0},
        {"masked_fill", run_fill, 2, {{0, 3, {5, 4, 6}, 1}, {'m', 2, {4, 6}, PLAIN}}, 1, 0, 0},
        {"masked_fill", run_fill, 2, {{0, 3, {5, 4, 6}, 1}, {'m', 2, {1, 6}, PLAIN}}, 1, 0, 0},
        {"masked_fill", run_fill, 2, {{0, 3, {5, 4, 6}, 2}, {'m', 1, {6}, WHOLE}}, 2, 0, 0},
        {"masked_fill", run_fill, 2, {{0, 3, {5, 4, 6}, 0}, {'m', 3, {5, 4, 6}, 0}}, 0, 0, 0},
        END});
}

/* ---- matrices and shapes ---- */

RUN(run_transpose, rsh_nn_transpose(in[0], t->a, t->b, out))
RUN(run_bmm, rsh_nn_bmm(in[0], in[1], out))
RUN(run_softmax, rsh_nn_softmax(in[0], t->a, out))
RUN(run_log_softmax, rsh_nn_log_softmax(in[0], t->a, out))
RUN(run_norm, rsh_nn_layer_norm(in[0], t->a, t->nin > 1 ? in[1] : NULL, t->nin > 1 ? in[2] : NULL, 1e-5, out))
RUN(run_rms, rsh_nn_rms_norm(in[0], t->nin > 1 ? in[1] : NULL, 1e-5, out))
RUN(run_view, t->a == 1   ? rsh_nn_reshape(in[0], SIZES(4, 3, 2, 5), out)
              : t->a == 2 ? rsh_nn_reshape(in[0], SIZES(8, -1), out)
                          : rsh_nn_reshape(in[0], SIZES(3, 4, 12), out))

/* Returns piece t->a of t->b along dim 1. */
static rsh_status run_chunk(const trial *t, rsh_value *const *in, rsh_value **out) {
    rsh_value *piece[4] = {0};
    int n = 0;
    TRY(rsh_nn_chunk(in[0], t->b, 1, &n, piece));
    *out = rsh_value_hold(piece[t->a]);
    for (int i = 0; i < n; i++) rsh_value_free(piece[i]);
    return RSH_OK;
}

static void transposes_take_the_cut_along(void **state) {
    (void)state;
    compare_on_ranks((const trial[]){{"transpose", run_transpose, 1, {{0, 3, {5, 4, 6}, 0}}, 2, 0, 2},
                                     {"transpose", run_transpose, 1, {{0, 3, {5, 4, 6}, 1}}, 1, 0, -1},
                                     {"transpose", run_transpose, 1, {{0, 2, {5, 4}, 1}}, 0, 0, 1},
                                     {"transpose", run_transpose, 1, {{0, 2, {5, 4}, 1}}, 1, 1, 1},
                                     END});
}

static void chunks_of_another_dim_are_cut_alike(void **state) {
    (void)state;
    compare_on_ranks((const trial[]){{"chunk", run_chunk, 1, {{0, 3, {5, 7, 3}, 0}}, 0, 0, 3},
                                     {"chunk", run_chunk, 1, {{0, 3, {5, 7, 3}, 2}}, 2, 2, 3},
                                     {"chunk", run_chunk, 1, {{0, 2, {6, 4}, 0}}, 0, 1, 2},
                                     END});
}

static void batches_multiply_where_they_are(void **state) {
    (void)state;
    compare_on_ranks((const trial[]){{"bmm", run_bmm, 2, {{0, 3, {6, 3, 4}, 0}, {0, 3, {6, 4, 2}, 0}}, 0, 0, 0},
                                     {"bmm", run_bmm, 2, {{0, 3, {5, 3, 4}, 0}, {0, 3, {5, 4, 2}, WHOLE}}, 0, 0, 0},
                                     END});
}

/* On 2 and 4 ranks: the cut dim must be evenly divisible before and after. */
static void views_keep_the_chunks(void **state) {
    (void)state;
    static const trial list[] = {{"view", run_view, 1, {{0, 2, {12, 10}, 0}}, 0, 1, 0},
                                 {"view", run_view, 1, {{0, 3, {8, 3, 5}, 0}}, 0, 2, 0},
                                 {"view", run_view, 1, {{0, 2, {12, 12}, 1}}, 2, 3, 0},
                                 END};
    for (int n = 1; n <= 4; n *= 2) run_groups(n, compare_all, (void *)list);
}

static void test_sharded_softmax(void **state) {
    (void)state;
    compare_on_ranks((const trial[]){{"softmax", run_softmax, 1, {{0, 2, {17, 5}, 0}}, 0, 1, 0},
                                     {"softmax", run_softmax, 1, {{0, 2, {17, 5}, 1}}, 1, 0, 0},
                                     {"softmax over the cut dim", run_softmax, 1, {{0, 2, {17, 5}, 0}}, 0, 0, 0},
                                     {"softmax over the cut dim", run_softmax, 1, {{0, 2, {17, 5}, 1}}, 1, -1, 0},
                                     {"softmax over the cut dim", run_softmax, 1, {{0, 3, {2, 6, 3}, 1}}, 1, 1, 0},
                                     {"log_softmax", run_log_softmax, 1, {{0, 2, {17, 5}, 0}}, 0, 1, 0},
                                     {"log_softmax over the cut dim", run_log_softmax, 1, {{0, 2, {9, 3}, 1}}, 1, 1, 0},
                                     END});
}

static void norms_go_over_dims_that_are_cut_and_not(void **state) {
    (void)state;
    compare_on_ranks((const trial[]){
        {"layer_norm", run_norm, 1, {{0, 3, {5, 4, 6}, 0}}, 0, 2, 0},
        {"layer_norm", run_norm, 3, {{0, 3, {5, 4, 6}, 0}, {0, 1, {6}, PLAIN}, {0, 1, {6}, PLAIN}}, 0, 1, 0},
        {"layer_norm over the cut dim", run_norm, 3,
         {{0, 2, {5, 9}, 1}, {0, 1, {9}, PLAIN}, {0, 1, {9}, PLAIN}}, 1, 1, 0},
        {"layer_norm over the cut dim", run_norm, 1, {{0, 3, {5, 4, 6}, 1}}, 1, 2, 0},
        {"rms_norm over the cut dim", run_rms, 2, {{0, 2, {5, 9}, 1}, {0, 1, {9}, PLAIN}}, 1, 0, 0},
        {"rms_norm with a cut weight", run_rms, 2, {{0, 2, {5, 9}, PLAIN}, {0, 1, {9}, 0}}, 1, 0, 0},
        {"layer_norm with a cut bias", run_norm, 3,
         {{0, 2, {5, 9}, PLAIN}, {0, 1, {9}, PLAIN}, {0, 1, {9}, 0}}, 1, 1, 0},
        END});
}

/* ---- comparisons ---- */

static rsh_status comparisons(void *ctx) {
    (void)ctx;
    rsh_value *a = some_value(RSH_F64, 1, false, SIZES(7, 3)), *b = some_value(RSH_F64, 1, false, SIZES(7, 3));
    rsh_value *cut[5] = {0};
    bool same = false;
    ((double *)rsh_tensor_data(rsh_value_tensor(b)))[20] += 1e-7; /* a difference on one rank only */
    TRY(cut_value(a, 0, 0, &cut[0]));
    TRY(cut_value(a, 0, 0, &cut[1]));
    TRY(cut_value(b, 0, 0, &cut[2]));
    TRY(cut_value(a, 1, 0, &cut[3]));
    TRY(rsh_nn_equal(cut[0], cut[1], &same));
    CHECK(same);
    TRY(rsh_nn_equal(cut[0], cut[2], &same));
    CHECK(!same);
    TRY(rsh_nn_allclose(cut[0], cut[2], 0, 1e-6, false, &same));
    CHECK(same);
    TRY(rsh_nn_allclose(cut[0], cut[2], 0, 1e-9, false, &same));
    CHECK(!same);
    TRY(rsh_nn_equal(cut[0], cut[3], &same));
    CHECK(!same || rsh_group_size(NULL) == 1); /* cut differently */
    CHECK_STATUS(RSH_ETYPE, rsh_nn_equal(cut[0], a, &same));
    bool odd = rsh_group_rank(NULL) == rsh_group_size(NULL) - 1;
    /* an error on all ranks */
    CHECK_STATUS(RSH_EVALUE, rsh_nn_allclose(cut[0], cut[1], odd ? -1 : 0, 0, false, &same));
    rsh_value_free(a), rsh_value_free(b);
    for (int i = 0; i < 4; i++) rsh_value_free(cut[i]);
    return RSH_OK;
}
static void comparisons_give_all_ranks_one_answer(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_groups(n, comparisons, NULL);
}

/* ---- errors ---- */

#define REFUSED(status, call, words)                     \
    do {                                                 \
        CHECK_STATUS(status, call);                      \
        CHECK(strstr(rsh_error_detail(), words));        \
    } while (0)

static rsh_status refusals(void *ctx) {
    (void)ctx;
    rsh_value *w = some_value(RSH_F64, 1, true, SIZES(6, 9)), *cube = some_value(RSH_F64, 1, true, SIZES(6, 3, 3));
    rsh_value *rows = NULL, *columns = NULL, *turned = NULL, *batch = NULL, *wide = NULL, *y = NULL, *out[3];
    int n = 0;
    TRY(cut_value(w, 0, 0, &rows));
    TRY(cut_value(w, 1, 0, &columns));
    TRY(cut_value(w, 0, 2, &turned));
    TRY(cut_value(cube, 0, 0, &batch));
    TRY(cut_value(cube, 1, 0, &wide));
    REFUSED(RSH_EUNSUP, rsh_nn_chunk(rows, 3, 0, &n, out), "chunk");
    REFUSED(RSH_EUNSUP, rsh_nn_narrow(rows, 0, 1, 3, &y), "narrow of sharded tensors: dim 0 must not be cut");
    REFUSED(RSH_EUNSUP, rsh_nn_cat(2, (rsh_value *[]){rows, rows}, 0, &y),
            "cat of sharded tensors: dim 0 must not be cut");
    REFUSED(RSH_EUNSUP, rsh_nn_add(rows, columns, &y), "add");
    REFUSED(RSH_EUNSUP, rsh_nn_add(rows, turned, &y), "ranks");
    REFUSED(RSH_EVALUE, rsh_nn_add(rows, w, &y), "plain");
    REFUSED(RSH_EUNSUP, rsh_nn_bmm(batch, wide, &y), "bmm");
    REFUSED(RSH_EUNSUP, rsh_nn_reshape(columns, SIZES(54), &y), "reshape");
    REFUSED(RSH_EUNSUP, rsh_nn_reshape(rows, SIZES(3, 18), &y), "reshape");
    REFUSED(RSH_EUNSUP, rsh_nn_sum(rows, 0, NULL, false, &y), "sum");
    CHECK(!y);
    rsh_value *all[] = {w, cube, rows, columns, turned, batch, wide};
    for (int i = 0; i < 7; i++) rsh_value_free(all[i]);
    return RSH_OK;
}
static void what_does_not_follow_from_a_rule_is_refused_by_name(void **state) {
    (void)state;
    run_groups(2, refusals, NULL);
}

/* 8 = 2 x 2 x 2 becomes 4 x 2 chunk by chunk. 6 is cut into 2, 1, 2, 1 and 3 into 1, 1, 1, 0, so 6 cannot become 3 x
 * 2. */
static rsh_status view_of_nested_chunks(void *ctx) {
    (void)ctx;
    for (int64_t n = 6; n <= 8; n += 2) {
        rsh_value *whole = some_value(RSH_F64, 1, true, 1, &n), *cut = NULL, *y = NULL;
        rsh_layout *l = NULL;
        rsh_tensor *got = NULL;
        rsh_status want = n == 8 ? RSH_OK : RSH_EUNSUP;
        TRY(rsh_layout_parse(n == 8 ? "f64[8/(a, b)] on a=2, b=2" : "f64[6/(a, b)] on a=2, b=2", &l));
        TRY(scatter_value(whole, l, &cut));
        CHECK_STATUS(want, rsh_nn_reshape(cut, SIZES(n / 2, 2), &y));
        if (y) TRY(whole_of(y, &got));
        if (y) CHECK(!memcmp(rsh_tensor_data(got), rsh_tensor_data(rsh_value_tensor(whole)), 64));
        rsh_tensor_free(got);
        rsh_value_free(whole), rsh_value_free(cut), rsh_value_free(y);
    }
    return RSH_OK;
}
static void views_of_chunks_of_chunks_end_where_they_did(void **state) {
    (void)state;
    run_groups(4, view_of_nested_chunks, NULL);
}

static void maxima_along_the_cut_dim_are_those_of_all_ranks(void **state) {
    (void)state;
    compare_on_ranks((const trial[]){{"max", run_max, 1, {{0, 2, {17, 5}, 0}}, 0, 1, 0},
                                     {"max along the cut dim", run_max, 1, {{0, 2, {17, 5}, 0}}, WHOLE, 0, 0},
                                     {"max along the cut dim", run_max, 1, {{0, 3, {2, 6, 3}, 1}}, WHOLE, 1, 0},
                                     END});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sharded_gelu),
        cmocka_unit_test(test_sharded_relu),
        cmocka_unit_test(test_sharded_dropout),
        cmocka_unit_test(test_sharded_softmax),
        cmocka_unit_test(other_pointwise_ops_work_part_by_part),
        cmocka_unit_test(arithmetic_takes_sharded_replicated_and_numbers),
        cmocka_unit_test(masks_are_cut_as_the_tensor_is),
        cmocka_unit_test(transposes_take_the_cut_along),
        cmocka_unit_test(chunks_of_another_dim_are_cut_alike),
        cmocka_unit_test(batches_multiply_where_they_are),
        cmocka_unit_test(views_keep_the_chunks),
        cmocka_unit_test(views_of_chunks_of_chunks_end_where_they_did),
        cmocka_unit_test(norms_go_over_dims_that_are_cut_and_not),
        cmocka_unit_test(comparisons_give_all_ranks_one_answer),
        cmocka_unit_test(maxima_along_the_cut_dim_are_those_of_all_ranks),
        cmocka_unit_test(what_does_not_follow_from_a_rule_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
