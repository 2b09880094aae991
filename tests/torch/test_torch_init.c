/* Tensors like other tensors, functions of torch.nn.init, the whole tensor on every rank, texts, and states in memory
 * and in files. */
#include "kept.h"
#include "whole.h"

#include <errno.h>
#include <math.h>
#include <sys/syscall.h>
#include <unistd.h>

#define W 4

/* ---- init ---- */

/* Computes the mean, the minimum and the maximum of all elements on every rank. */
static rsh_status measure(const rsh_torch_tensor *t, double *mean, double *low, double *high) {
    rsh_tensor *all;
    int64_t size[2] = {0, 0};
    RSH_TRY(rsh_torch_size(t, 0, &size[0]));
    RSH_TRY(rsh_torch_size(t, 1, &size[1]));
    RSH_TRY(rsh_tensor_zeros(RSH_F64, 2, size, &all));
    RSH_TRY(rsh_torch_all_gather(t, all)); /* converts to another dtype */
    const double *x = rsh_tensor_data(all);
    *mean = 0, *low = HUGE_VAL, *high = -HUGE_VAL;
    for (int64_t i = 0; i < size[0] * size[1]; i++) {
        *mean += x[i] / (double)(size[0] * size[1]);
        *low = fmin(*low, x[i]), *high = fmax(*high, x[i]);
    }
    rsh_tensor_free(all);
    return RSH_OK;
}

static rsh_status inits(void *ctx, rsh_comm *comm) {
    (void)ctx;
    (void)comm;
    int64_t size[2] = {60, 50};
    rsh_spec *rows, *columns;
    rsh_torch_tensor *a, *b, *moved, *integers, *flat;
    rsh_torch_opts o = RSH_TORCH_OPTS_INIT;
    bool same;
    double mean, low, high, bound = sqrt(6.0 / 50);
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &rows));
    RSH_TRY(rsh_spec_chunk_ranks(1, W, (int[]){2, 3, 1, 0}, &columns));
    RSH_TRY(rsh_torch_empty(rows, 2, size, NULL, &a));
    RSH_TRY(rsh_torch_empty(columns, 2, size, NULL, &b));
    RSH_TRY(rsh_torch_uniform(a, -3, 5, 7));
    RSH_TRY(rsh_torch_uniform(b, -3, 5, 7));
    RSH_TRY(rsh_torch_reshard(a, columns, &moved));
    RSH_TRY(rsh_torch_equal(moved, b, &same)); /* the numbers are the same, however the tensor is cut */
    CHECK(same);
    RSH_TRY(measure(a, &mean, &low, &high));
    CHECK(low >= -3 && low < -2.9 && high <= 5 && high > 4.9 && fabs(mean - 1) < 0.2);
    RSH_TRY(rsh_torch_normal(a, 10, 0.5, 8));
    RSH_TRY(measure(a, &mean, &low, &high));
    CHECK(fabs(mean - 10) < 0.05 && low > 7 && low < 9 && high > 11 && high < 13);
    RSH_TRY(rsh_torch_kaiming_uniform(a, 0, RSH_FAN_IN, RSH_LEAKY_RELU, 9));
    RSH_TRY(measure(a, &mean, &low, &high));
    CHECK(low >= -bound && low < -0.98 * bound && high <= bound && high > 0.98 * bound);
    RSH_TRY(rsh_torch_kaiming_uniform(a, sqrt(5), RSH_FAN_OUT, RSH_LEAKY_RELU, 9));
    RSH_TRY(measure(a, &mean, &low, &high));
    bound = 1 / sqrt(60);
    CHECK(high <= bound && high > 0.98 * bound);
    RSH_TRY(rsh_torch_constant(a, 2.5));
    RSH_TRY(measure(a, &mean, &low, &high));
    CHECK(low == 2.5 && high == 2.5);
    o.props.dtype = RSH_I32;
    RSH_TRY(rsh_torch_empty(rows, 2, size, &o, &integers));
    RSH_TRY(rsh_torch_constant(integers, 3));
    RSH_TRY(measure(integers, &mean, &low, &high));
    CHECK(low == 3 && high == 3);
    CHECK_STATUS(RSH_ETYPE, rsh_torch_uniform(integers, 0, 1, 0));
    CHECK_STATUS(RSH_ERUNTIME, rsh_torch_uniform(a, 2, 1, 0));
    CHECK_SAYS("got 2 and 1");
    CHECK_STATUS(RSH_ERUNTIME, rsh_torch_normal(a, 0, -1, 0));
    RSH_TRY(rsh_torch_empty(rows, 1, size, NULL, &flat));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_kaiming_uniform(flat, 0, RSH_FAN_IN, RSH_RELU, 0));
    rsh_torch_free(a), rsh_torch_free(b), rsh_torch_free(moved), rsh_torch_free(integers), rsh_torch_free(flat);
    rsh_spec_free(rows), rsh_spec_free(columns);
    return RSH_OK;
}
static void init_fills_the_same_numbers_however_a_tensor_is_cut(void **state) {
    (void)state;
    run_engines(W, inits, NULL);
}

static rsh_status likes(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm), owners[5] = {3, 1, 1, 0, 2};
    int64_t size[2] = {9, 3};
    cutting c = cut_chunks(RSH_F32, 2, size, 0, 5, owners), d = cut_chunks(RSH_F64, 2, size, 0, 5, owners);
    rsh_tensor_props props = RSH_TENSOR_PROPS_INIT;
    rsh_torch_opts o = RSH_TORCH_OPTS_INIT;
    rsh_spec *s;
    rsh_torch_tensor *t, *got, *other;
    double mean, low, high, third = 1 / 3.0;
    bool same;
    RSH_TRY(rsh_spec_chunk_ranks(0, 5, owners, &s));
    RSH_TRY(make_filled(s, &c, NULL, &t));
    RSH_TRY(rsh_torch_set_requires_grad(t, true));
    RSH_TRY(rsh_torch_empty_like(t, NULL, &got));
    CHECK(!rsh_torch_requires_grad(got));
    RSH_TRY(check_form(got, &c, me));
    rsh_torch_free(got);
    props.dtype = RSH_F64, props.requires_grad = true;
    RSH_TRY(rsh_torch_full_like(t, &third, &props, &got));
    RSH_TRY(check_form(got, &d, me));
    CHECK(rsh_torch_requires_grad(got) && rsh_torch_shard(got, 0)->props.requires_grad);
    RSH_TRY(measure(got, &mean, &low, &high));
    CHECK(low == third && high == third);
    rsh_torch_free(got);
    RSH_TRY(rsh_torch_zeros_like(t, NULL, &got));
    RSH_TRY(measure(got, &mean, &low, &high));
    CHECK(low == 0 && high == 0);
    rsh_torch_free(got);
    RSH_TRY(rsh_torch_ones_like(t, NULL, &got));
    RSH_TRY(measure(got, &mean, &low, &high));
    CHECK(low == 1 && high == 1);
    rsh_torch_free(got);
    o.seed = 5;
    RSH_TRY(rsh_torch_rand_like(t, NULL, 5, &got));
    RSH_TRY(rsh_torch_rand(s, 2, size, &o, &other));
    RSH_TRY(rsh_torch_equal(got, other, &same));
    CHECK(same);
    rsh_torch_free(got), rsh_torch_free(other);
    RSH_TRY(rsh_torch_randn_like(t, NULL, 5, &got));
    RSH_TRY(rsh_torch_randn(s, 2, size, &o, &other));
    RSH_TRY(rsh_torch_equal(got, other, &same));
    CHECK(same);
    rsh_torch_free(got), rsh_torch_free(other);
    props.dtype = RSH_I64;
    CHECK_STATUS(RSH_ERUNTIME, rsh_torch_zeros_like(t, &props, &got));
    props.requires_grad = false;
    CHECK_STATUS(RSH_ETYPE, rsh_torch_rand_like(t, &props, 1, &got));
    rsh_torch_free(t);
    rsh_spec_free(s);
    return RSH_OK;
}
static void tensors_like_others_are_cut_as_they_are(void **state) {
    (void)state;
    run_engines(W, likes, NULL);
}

/* ---- the whole tensor, without a copy ---- */

static rsh_status wholes(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    int64_t size[2] = {5, 3};
    cutting c = cut_chunks(RSH_I16, 2, size, 0, W, NULL);
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    rsh_spec *rows, *again, *columns;
    rsh_torch_tensor *t, *got;
    rsh_tensor *narrow, *wide, *turned;
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &rows));
    RSH_TRY(rsh_spec_chunk_ranks(-2, W, NULL, &again));
    RSH_TRY(rsh_spec_chunk_ranks(1, W, NULL, &columns));
    RSH_TRY(make_filled(rows, &c, NULL, &t));
    RSH_TRY(rsh_tensor_zeros(RSH_I16, 2, size, &narrow));
    RSH_TRY(rsh_torch_all_gather(t, narrow));
    RSH_TRY(check_whole(&c, narrow));
    RSH_TRY(rsh_tensor_zeros(RSH_F32, 2, (int64_t[]){3, 5}, &wide));
    RSH_TRY(rsh_tensor_transpose(wide, 0, 1, &turned));
    RSH_TRY(rsh_torch_gather(t, 2, turned)); /* another dtype and order; ignored except on rank 2 */
    for (int i = 0; i < 15; i++) {
        float expected = (float)((const int16_t *)rsh_tensor_data(narrow))[i];
        CHECK(((const float *)rsh_tensor_data(wide))[i % 3 * 5 + i / 3] == (me == 2 ? expected : 0));
    }
    CHECK_STATUS(RSH_EVALUE, rsh_torch_all_gather(t, me == 3 ? NULL : narrow));
    CHECK_SAYS("rank 3");
    opts.may_alias = true;
    RSH_TRY(rsh_torch_reshard_with(t, again, &opts, &got));
    CHECK(rsh_tensor_data(rsh_torch_shard(got, 0)->tensor) == rsh_tensor_data(rsh_torch_shard(t, 0)->tensor));
    rsh_torch_free(got);
    RSH_TRY(rsh_torch_reshard_with(t, again, NULL, &got));
    if (me < 3) /* rank 3 has no elements */
        CHECK(rsh_tensor_data(rsh_torch_shard(got, 0)->tensor) != rsh_tensor_data(rsh_torch_shard(t, 0)->tensor));
    RSH_TRY(check_st(got, &c, me));
    rsh_torch_free(got);
    cutting d = cut_chunks(RSH_I16, 2, size, 1, W, NULL);
    RSH_TRY(rsh_torch_reshard_with(t, columns, &opts, &got));
    RSH_TRY(check_st(got, &d, me));
    rsh_torch_free(got), rsh_torch_free(t);
    rsh_tensor_free(narrow), rsh_tensor_free(wide), rsh_tensor_free(turned);
    rsh_spec_free(rows), rsh_spec_free(again), rsh_spec_free(columns);
    return RSH_OK;
}
static void whole_tensors_convert_and_equal_specs_need_no_copy(void **state) {
    (void)state;
    run_engines(W, wholes, NULL);
}

/* ---- texts ---- */

static rsh_status texts(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    bytes text = {NULL, 0};
    rsh_spec *rows;
    rsh_torch_tensor *t;
    RSH_TRY(rsh_spec_chunk_ranks(0, 2, NULL, &rows));
    RSH_TRY(rsh_torch_zeros(rows, 2, (int64_t[]){3, 2}, NULL, &t));
    RSH_TRY(rsh_torch_constant(t, 1.5));
    RSH_TRY(rsh_torch_print(t, &(rsh_sink){keep, &text}));
    keep(&text, "", 1);
    static const char *const expected[2] = {
        "ShardedTensor(size=[3, 2], dtype=f32, requires_grad=false, spec=chunk(0; rank:0/cpu, rank:1/cpu)) "
        "on rank 0 of 2, 1 shard\n[0,0]+[2,2] rank:0/cpu:\ntensor([[1.5, 1.5],\n        [1.5, 1.5]], size=[2, 2], "
        "dtype=f32)\n",
        "ShardedTensor(size=[3, 2], dtype=f32, requires_grad=false, spec=chunk(0; rank:0/cpu, rank:1/cpu)) "
        "on rank 1 of 2, 1 shard\n[2,0]+[1,2] rank:1/cpu:\ntensor([[1.5, 1.5]], size=[1, 2], dtype=f32)\n"};
    RSH_REQUIRE(!strcmp(text.data, expected[me]), RSH_ERUNTIME, "%s", text.data);
    free(text.data);
    rsh_torch_free(t);
    rsh_spec_free(rows);
    return RSH_OK;
}
static void a_sharded_tensor_says_what_it_is(void **state) {
    (void)state;
    run_engines(2, texts, NULL);
}

/* ---- states ---- */

/* Replaces fsync of the C library: the disk of this rank fails. */
static _Thread_local bool no_flush;
int fsync(int fd) { return no_flush ? errno = EIO, -1 : (int)syscall(SYS_fsync, fd); }

static rsh_status states(void *ctx, rsh_comm *comm) {
    const char *folder = ctx;
    int me = rsh_comm_rank(comm), owners[5] = {1, 1, 3, 0, 1};
    int64_t size[2] = {9, 4};
    char path[200];
    cutting c = cut_chunks(RSH_BF16, 2, size, 0, 5, owners);
    rsh_spec *s;
    rsh_torch_tensor *t, *back = NULL;
    rsh_objects *o;
    RSH_TRY(rsh_spec_chunk_ranks(0, 5, owners, &s));
    RSH_TRY(make_filled(s, &c, NULL, &t));
    RSH_TRY(rsh_torch_save_object(t, &o));
    CHECK(o->n == 1);
    RSH_TRY(rsh_torch_load(o->data[0], o->bytes[0], &back));
    RSH_TRY(check_st(back, &c, me));
    rsh_torch_free(back);
    RSH_TRY(rsh_torch_load_resharded(o->n, (const void *const *)o->data, o->bytes, s, &back));
    RSH_TRY(check_st(back, &c, me));
    rsh_torch_free(back);
    rsh_objects_free(o);
    snprintf(path, sizeof path, "%s/%d", folder, me);
    RSH_TRY(rsh_torch_save_file(t, path));
    RSH_TRY(rsh_torch_save_file(t, path)); /* replaces the existing file */
    no_flush = true;
    CHECK_STATUS(RSH_EIO, rsh_torch_save_file(t, path)); /* a file that was not flushed is not renamed */
    no_flush = false;
    RSH_TRY(rsh_torch_load_file(path, &back));
    RSH_TRY(check_st(back, &c, me));
    rsh_torch_free(back);
    back = NULL;
    CHECK(!unlink(path));
    CHECK_STATUS(RSH_EIO, rsh_torch_load_file(path, &back));
    CHECK_SAYS(path);
    snprintf(path, sizeof path, "%s/%d.part", folder, me);
    CHECK(access(path, F_OK)); /* no file is left behind */
    snprintf(path, sizeof path, "%s/none/%d", folder, me);
    CHECK_STATUS(RSH_EIO, rsh_torch_save_file(t, path));
    CHECK_SAYS("No such file");
    CHECK(!back);
    rsh_torch_free(t);
    rsh_spec_free(s);
    return RSH_OK;
}
static void states_are_saved_without_a_sink(void **state) {
    (void)state;
    char folder[] = "/tmp/reshard_states.XXXXXX";
    assert_non_null(mkdtemp(folder));
    run_engines(W, states, folder);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_fills_the_same_numbers_however_a_tensor_is_cut),
        cmocka_unit_test(tensors_like_others_are_cut_as_they_are),
        cmocka_unit_test(whole_tensors_convert_and_equal_specs_need_no_copy),
        cmocka_unit_test(a_sharded_tensor_says_what_it_is),
        cmocka_unit_test(states_are_saved_without_a_sink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
