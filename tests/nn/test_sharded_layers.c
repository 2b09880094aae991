/* Sharded layers: Linear, Embedding and EmbeddingBag over ranks, compared with the same layer on one rank.
 *
 * Every rank has its own rows.  The layer on one rank gets all rows.  Its loss is the sum of all outputs, each
 * multiplied by a different number, so that gradients differ between positions. */
#include "models.h"

typedef struct trial {
    int64_t in, out, rows; /* number of rows; if `uneven`, rank r has rows + r % 2 */
    int dim;
    bool bias, uneven;
    int order; /* order of the owners: 0 ascending, 1 descending, 2 rotated */
    rsh_dtype dtype;
} trial;

static int owner(const trial *t, int i, int n) {
    return t->order == 0 ? i : t->order == 1 ? n - 1 - i : (i + n / 2 + 1) % n;
}

static rsh_status spec_of(const trial *t, int dim, rsh_spec **out) {
    int ranks[8], n = rsh_group_size(NULL);
    for (int i = 0; i < n; i++) ranks[i] = owner(t, i, n);
    return rsh_spec_chunk_ranks(dim, n, ranks, out);
}

static int64_t rows_of(const trial *t, int rank) { return t->rows + (t->uneven ? rank % 2 : 0); }

static double tolerance(const trial *t) { return t->dtype == RSH_F64 ? 1e-12 : 2e-5; }

/* Returns this rank's rows of the rows of all ranks; the rows of rank r follow those of rank r - 1. */
static rsh_status my_rows(const trial *t, const rsh_value *all, bool grad, rsh_value **out) {
    int64_t first = 0, offsets[RSH_MAX_NDIM] = {0}, sizes[RSH_MAX_NDIM];
    for (int r = 0; r < rsh_group_rank(NULL); r++) first += rows_of(t, r);
    memcpy(sizes, rsh_value_shape(all), (size_t)rsh_value_ndim(all) * sizeof *sizes);
    offsets[0] = first;
    sizes[0] = rows_of(t, rsh_group_rank(NULL));
    rsh_tensor *view = NULL, *mine = NULL;
    TRY(rsh_tensor_narrow(rsh_value_tensor(all), offsets, sizes, &view));
    TRY(rsh_tensor_empty(rsh_value_dtype(all), rsh_value_ndim(all), sizes, &mine));
    TRY(rsh_math_copy(view, mine));
    rsh_tensor_free(view);
    return rsh_value_adopt_tensor(mine, grad, out);
}

static int64_t all_rows(const trial *t) {
    int64_t n = 0;
    for (int r = 0; r < rsh_group_size(NULL); r++) n += rows_of(t, r);
    return n;
}

/* Computes sum(y * c). */
static rsh_status loss_of(rsh_value *y, rsh_value *c, rsh_value **out) {
    rsh_value *product = NULL;
    TRY(rsh_nn_mul(y, c, &product));
    rsh_status st = rsh_nn_sum(product, 0, NULL, false, out);
    rsh_value_free(product);
    return st;
}

static rsh_status check_parameter(const trial *t, rsh_module *cut, rsh_module *whole, const char *name) {
    rsh_value *a = NULL, *b = NULL;
    rsh_tensor *got = NULL;
    TRY(rsh_module_parameter(cut, name, &a));
    TRY(rsh_module_parameter(whole, name, &b));
    CHECK(rsh_value_grad(a) && rsh_value_grad(b));
    TRY(whole_of(rsh_value_grad(a), &got));
    CHECK_CLOSE(got, rsh_value_tensor(rsh_value_grad(b)), tolerance(t));
    rsh_tensor_free(got);
    return RSH_OK;
}

/* ---- Linear ---- */

static rsh_status two_linears(const trial *t, rsh_module **cut, rsh_module **whole) {
    rsh_random_seed(5);
    TRY(rsh_linear_new(t->in, t->out, t->bias, t->dtype, whole));
    rsh_random_seed(5);
    TRY(rsh_linear_new(t->in, t->out, t->bias, t->dtype, cut));
    rsh_spec *spec = NULL, *rows = NULL;
    TRY(spec_of(t, t->dim, &spec));
    TRY(rsh_spec_chunk_ranks(0, rsh_group_size(NULL), NULL, &rows));
    TRY(rsh_shard_parameter(*cut, "weight", spec, 0, NULL));
    rsh_spec_free(spec);
    rsh_spec_free(rows);
    return RSH_OK;
}

/* Converts the sharded result to this rank's own rows. */
static rsh_status home(const trial *t, rsh_value *y, rsh_value **out) {
    rsh_layout_desc desc = {
        .dtype = t->dtype, .ndim = rsh_value_ndim(y), .naxes = 1, .axis = {{"x", rsh_group_size(NULL)}}};
    int64_t counts[8];
    for (int d = 0; d < desc.ndim; d++) desc.dim[d].size = rsh_value_shape(y)[d];
    for (int r = 0; r < rsh_group_size(NULL); r++) counts[r] = rows_of(t, r);
    desc.dim[0].cut = (rsh_cut){.naxes = 1, .rule = RSH_CUT_SIZES, .sizes = counts, .nsizes = rsh_group_size(NULL)};
    rsh_layout *layout = NULL;
    rsh_value *moved = NULL;
    TRY(rsh_layout_new(&desc, &layout));
    TRY(rsh_value_reshard(y, layout, RSH_DERIVATIVE_ADJOINT, NULL, &moved));
    rsh_layout_free(layout);
    rsh_status st = rsh_value_to_local(moved, out);
    rsh_value_free(moved);
    return st;
}

static rsh_status linear_trial(void *ctx) {
    const trial *t = ctx;
    rsh_module *cut = NULL, *whole = NULL;
    TRY(two_linears(t, &cut, &whole));
    int64_t n = all_rows(t);
    rsh_value *x = NULL, *c = NULL, *mine = NULL, *my_c = NULL, *y = NULL, *got = NULL, *back = NULL, *loss = NULL;
    TRY(make_value(t->dtype, 3, (const int64_t[]){n, 2, t->in}, 1, true, &x));
    TRY(make_value(t->dtype, 3, (const int64_t[]){n, 2, t->out}, 2, false, &c));
    TRY(my_rows(t, x, true, &mine));
    TRY(my_rows(t, c, false, &my_c));
    TRY(rsh_module_forward(whole, x, &y));
    TRY(rsh_module_forward(cut, mine, &got));
    CHECK(rsh_value_sharded(got) && rsh_value_shape(got)[0] == n && rsh_value_shape(got)[2] == t->out);
    CHECK(rsh_layout_op(rsh_value_layout(got)) == (t->dim ? RSH_OP_SUM : RSH_OP_NONE));
    TRY(home(t, got, &back));
    rsh_value *expected = NULL;
    TRY(my_rows(t, y, false, &expected));
    CHECK_CLOSE(rsh_value_tensor(back), rsh_value_tensor(expected), tolerance(t));
    rsh_value_free(expected);
    TRY(loss_of(back, my_c, &loss));
    TRY(rsh_backward(loss, NULL, 0));
    rsh_value_free(loss);
    TRY(loss_of(y, c, &loss));
    TRY(rsh_backward(loss, NULL, 0));
    TRY(check_parameter(t, cut, whole, "weight"));
    if (t->bias) TRY(check_parameter(t, cut, whole, "bias"));
    TRY(my_rows(t, rsh_value_grad(x), false, &expected));
    CHECK_CLOSE(rsh_value_tensor(rsh_value_grad(mine)), rsh_value_tensor(expected), tolerance(t));
    rsh_value *all[] = {x, c, mine, my_c, y, got, back, loss, expected};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) rsh_value_free(all[i]);
    rsh_module_free(cut);
    rsh_module_free(whole);
    return RSH_OK;
}

static void linear_trials(int dim) {
    for (int n = 1; n <= 4; n++)
        for (int i = 0; i < 8; i++) {
            trial t = {.in = 5 + i, .out = 7 + i % 3, .rows = 2 + i % 2, .dim = dim, .bias = i % 2, .uneven = i / 2 % 2,
                       .order = i % 3, .dtype = i % 4 == 3 ? RSH_F32 : RSH_F64};
            run_groups(n, linear_trial, &t);
        }
}
static void test_sharded_linear_colwise(void **state) {
    (void)state;
    linear_trials(0);
}
static void test_sharded_linear_rowwise(void **state) {
    (void)state;
    linear_trials(1);
}

/* A row-wise Linear takes an input that is already cut along its last dim without copying rows. */
static rsh_status chained(void *ctx) {
    (void)ctx;
    rsh_spec *by_rows = NULL, *by_columns = NULL;
    rsh_module *up = NULL, *down = NULL;
    rsh_value *x = NULL, *h = NULL, *y = NULL;
    TRY(rsh_spec_chunk_ranks(0, rsh_group_size(NULL), NULL, &by_rows));
    TRY(rsh_spec_chunk_ranks(1, rsh_group_size(NULL), NULL, &by_columns));
    TRY(rsh_linear_new(6, 10, true, RSH_F64, &up));
    TRY(rsh_linear_new(10, 4, true, RSH_F64, &down));
    TRY(rsh_shard_parameter(up, "weight", by_rows, 0, NULL));
    TRY(rsh_shard_parameter(down, "weight", by_columns, 0, NULL));
    TRY(make_value(RSH_F64, 1, (const int64_t[]){6}, 3, false, &x)); /* a vector counts as one row */
    TRY(rsh_module_forward(up, x, &h));
    CHECK(rsh_value_ndim(h) == 2 && rsh_value_shape(h)[0] == rsh_group_size(NULL) && rsh_value_shape(h)[1] == 10);
    TRY(rsh_module_forward(down, h, &y));
    CHECK(rsh_layout_op(rsh_value_layout(y)) == RSH_OP_SUM && rsh_value_shape(y)[1] == 4);
    rsh_value_free(x), rsh_value_free(h), rsh_value_free(y);
    rsh_module_free(up), rsh_module_free(down);
    rsh_spec_free(by_rows), rsh_spec_free(by_columns);
    return RSH_OK;
}
static void a_columnwise_linear_feeds_a_rowwise_one(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_groups(n, chained, NULL);
}

static rsh_status linear_errors(void *ctx) {
    (void)ctx;
    rsh_spec *spec = NULL, *boxes = NULL;
    rsh_module *m = NULL;
    rsh_value *x = NULL, *y = NULL, *narrow = NULL, *single = NULL;
    bool odd = rsh_group_rank(NULL) == 1;
    TRY(rsh_spec_chunk_ranks(0, 2, NULL, &spec));
    TRY(rsh_linear_new(6, 4, true, RSH_F64, &m));
    TRY(rsh_shard_parameter(m, "weight", spec, 0, NULL));
    TRY(make_value(RSH_F64, 2, (const int64_t[]){3, 6}, 1, false, &x));
    TRY(make_value(RSH_F64, 2, (const int64_t[]){3, 5}, 1, false, &narrow));
    TRY(make_value(RSH_F32, 2, (const int64_t[]){3, 6}, 1, false, &single));
    CHECK_STATUS(RSH_EVALUE,
                 rsh_module_forward(m, odd ? narrow : x, &y)); /* a mistake of one rank is an error on every rank */
    CHECK(strstr(rsh_error_detail(), "[3, 5]"));
    CHECK_STATUS(RSH_ETYPE, rsh_module_forward(m, odd ? x : single, &y));
    TRY(rsh_module_forward(m, x, &y));
    rsh_value_free(y);
    y = NULL;
    TRY(rsh_shard_parameter(m, "bias", spec, 0, NULL));
    CHECK_STATUS(RSH_ETYPE, rsh_module_forward(m, x, &y)); /* a sharded bias is an error */
    rsh_module_free(m);
    TRY(rsh_linear_new(6, 4, false, RSH_F64, &m)); /* two shards on one rank */
    TRY(rsh_spec_chunk_ranks(0, 4, (const int[]){0, 1, 0, 1}, &boxes));
    TRY(rsh_shard_parameter(m, "weight", boxes, 0, NULL));
    CHECK_STATUS(RSH_EVALUE, rsh_module_forward(m, x, &y));
    CHECK(!y);
    rsh_value_free(x), rsh_value_free(narrow), rsh_value_free(single);
    rsh_module_free(m);
    rsh_spec_free(spec), rsh_spec_free(boxes);
    return RSH_OK;
}
static void test_sharded_linear_errors(void **state) {
    (void)state;
    run_groups(2, linear_errors, NULL);
}

/* ---- Embedding ---- */

typedef struct bag_trial {
    trial t; /* in: rows of the table; out: columns */
    rsh_bag_mode mode;
    bool bag, padded, weighted, norm, last;
} bag_trial;

/* Draws n indices for rank r, the same in every call. */
static void draw_indices(const bag_trial *b, int rank, int64_t n, int64_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = (i * 7 + rank * 5 + i * i * 3) % b->t.in;
}

enum { PER_BAG = 3 };

static rsh_status make_layer(const bag_trial *b, rsh_module **out) {
    rsh_embedding_opts rows = {sizeof rows, .padded = b->padded, .padding = -2, .max_norm = b->norm ? 1.5 : 0};
    rsh_bag_opts opts = {sizeof opts, .rows = &rows, .mode = b->mode, .include_last_offset = b->last};
    rsh_random_seed(11);
    if (b->bag) return rsh_embedding_bag_new(b->t.in, b->t.out, &opts, b->t.dtype, out);
    return rsh_embedding_new(b->t.in, b->t.out, &rows, b->t.dtype, out);
}

/* Draws offsets of `nbags` bags with 0, PER_BAG, 2 * PER_BAG, ... indices; returns the number of indices. */
static int64_t draw_offsets(int64_t nbags, int64_t shift, int64_t *out) {
    int64_t n = 0;
    for (int64_t i = 0; i < nbags; i++) {
        out[i] = n + shift;
        n += i * PER_BAG % 7;
    }
    out[nbags] = n + shift;
    return n;
}

typedef struct question {
    rsh_value *in[3]; /* inputs: indices, offsets, weights */
} question;

static void question_free(question *q) {
    for (int i = 0; i < 3; i++) rsh_value_free(q->in[i]);
}

/* Makes the inputs of ranks `from` to `to` as one question. */
static rsh_status ask(const bag_trial *b, int from, int to, bool grad, question *q) {
    int64_t index[400], offsets[100], n = 0, bags = 0;
    *q = (question){{0}};
    for (int r = from; r < to; r++) {
        int64_t here = rows_of(&b->t, r), k = b->bag ? draw_offsets(here, n, offsets + bags) : here;
        draw_indices(b, r, k, index + n);
        n += k;
        bags += here;
    }
    TRY(make_indices(n, index, &q->in[0]));
    if (b->bag) TRY(make_indices(bags + b->last, offsets, &q->in[1]));
    if (!b->weighted) return RSH_OK;
    rsh_tensor *t = NULL;
    TRY(rsh_tensor_empty(b->t.dtype, 1, &n, &t));
    for (int64_t i = 0; i < n; i++) { /* weights depend on the rank, so that the parts agree with the whole */
        double x = (double)((index[i] * 13 + 7) % 10) / 4 - 1;
        if (b->t.dtype == RSH_F32) ((float *)rsh_tensor_data(t))[i] = (float)x;
        else ((double *)rsh_tensor_data(t))[i] = x;
    }
    return rsh_value_adopt_tensor(t, grad, &q->in[2]);
}

static rsh_status bags_trial(void *ctx) {
    const bag_trial *b = ctx;
    int me = rsh_group_rank(NULL), size = rsh_group_size(NULL);
    rsh_module *cut = NULL, *whole = NULL;
    rsh_spec *spec = NULL;
    TRY(make_layer(b, &whole));
    TRY(make_layer(b, &cut));
    TRY(spec_of(&b->t, b->t.dim, &spec));
    TRY(rsh_shard_parameter(cut, "weight", spec, 0, NULL));
    question all, mine;
    TRY(ask(b, 0, size, true, &all));
    TRY(ask(b, me, me + 1, true, &mine));
    rsh_value *y = NULL, *got = NULL, *expected = NULL, *c = NULL, *my_c = NULL, *loss = NULL;
    TRY(rsh_module_call(whole, b->bag ? 3 : 1, all.in, &y));
    TRY(rsh_module_call(cut, b->bag ? 3 : 1, mine.in, &got));
    CHECK(!rsh_value_sharded(got));
    TRY(my_rows(&b->t, y, false, &expected));
    CHECK_CLOSE(rsh_value_tensor(got), rsh_value_tensor(expected), tolerance(&b->t));
    TRY(make_value(b->t.dtype, 2, rsh_value_shape(y), 2, false, &c));
    TRY(my_rows(&b->t, c, false, &my_c));
    TRY(loss_of(got, my_c, &loss));
    TRY(rsh_backward(loss, NULL, 0));
    rsh_value_free(loss);
    TRY(loss_of(y, c, &loss));
    TRY(rsh_backward(loss, NULL, 0));
    TRY(check_parameter(&b->t, cut, whole, "weight"));
    if (b->weighted) { /* this rank's weights follow those of the ranks before it */
        question before;
        TRY(ask(b, 0, me, false, &before));
        int64_t skip = me ? rsh_tensor_count(rsh_value_tensor(before.in[0])) : 0;
        const rsh_tensor *mg = rsh_value_tensor(rsh_value_grad(mine.in[2])),
                         *ag = rsh_value_tensor(rsh_value_grad(all.in[2]));
        for (int64_t i = 0; i < rsh_tensor_count(mg); i++) CHECK(fabs(at(mg, i) - at(ag, skip + i)) < 1e-4);
        question_free(&before);
    }
    rsh_value *values[] = {y, got, expected, c, my_c, loss};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) rsh_value_free(values[i]);
    question_free(&all);
    question_free(&mine);
    rsh_module_free(cut), rsh_module_free(whole);
    rsh_spec_free(spec);
    return RSH_OK;
}

static void bag_trials(int dim, bool bag) {
    for (int n = 1; n <= 4; n++)
        for (int i = 0; i < 12; i++) {
            bag_trial b = {.t = {.in = 9 + i,
                                 .out = 5 + i % 3,
                                 .rows = 3 + i % 3,
                                 .dim = dim,
                                 .uneven = i % 2,
                                 .order = i % 3,
                                 .dtype = i % 5 == 4 ? RSH_F32 : RSH_F64},
                           .mode = bag ? (rsh_bag_mode)(i % 3) : RSH_BAG_SUM,
                           .bag = bag,
                           .padded = i / 3 % 2,
                           .last = i % 4 == 1,
                           .weighted = bag && i % 3 == RSH_BAG_SUM && i > 5,
                           .norm = i % 4 == 3};
            run_groups(n, bags_trial, &b);
        }
}
static void test_sharded_embedding_rowwise(void **state) {
    (void)state;
    bag_trials(0, false);
}
static void test_sharded_embedding_colwise(void **state) {
    (void)state;
    bag_trials(1, false);
}
static void test_sharded_embedding_bag_rowwise(void **state) {
    (void)state;
    bag_trials(0, true);
}
static void test_sharded_embedding_bag_colwise(void **state) {
    (void)state;
    bag_trials(1, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sharded_linear_colwise),        cmocka_unit_test(test_sharded_linear_rowwise),
        cmocka_unit_test(a_columnwise_linear_feeds_a_rowwise_one), cmocka_unit_test(test_sharded_linear_errors),
        cmocka_unit_test(test_sharded_embedding_rowwise),     cmocka_unit_test(test_sharded_embedding_colwise),
        cmocka_unit_test(test_sharded_embedding_bag_rowwise), cmocka_unit_test(test_sharded_embedding_bag_colwise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
