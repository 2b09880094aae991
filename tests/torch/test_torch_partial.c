/* Partial tensors: reduced, then cut. */
#include "whole.h"

#include <math.h>

#define W 4

/* Returns the element of rank r at index i of the whole tensor: small integers, so that sums and products are exact in
 * f32. */
static double held(int r, int64_t i) { return (double)((i * 7 + r * 5) % 11 - (r == 2 ? 3 : 0)); }

static double reduced(rsh_op op, int ranks, int64_t i) {
    double x = held(0, i);
    for (int r = 1; r < ranks; r++) {
        double y = held(r, i);
        x = op == RSH_OP_MAX ? fmax(x, y) : op == RSH_OP_MIN ? fmin(x, y) : op == RSH_OP_PROD ? x * y : x + y;
    }
    return op == RSH_OP_AVG ? x / ranks : x;
}

/* Checks that this rank has the reduced elements of its pieces. */
static rsh_status check_reduced(const rsh_torch_tensor *t, const cutting *c, rsh_op op, rsh_comm *comm) {
    int me = rsh_comm_rank(comm);
    int64_t k = 0;
    RSH_TRY(check_form(t, c, me));
    for (int i = 0; i < c->npieces; i++) {
        const piece *p = &c->pieces[i];
        if (p->rank != me) continue;
        const float *x = rsh_tensor_data(rsh_torch_shard(t, k++)->tensor);
        for (int64_t a = 0; a < p->n[0]; a++)
            for (int64_t b = 0; b < p->n[1]; b++)
                CHECK(x[a * p->n[1] + b] ==
                      (float)reduced(op, rsh_comm_size(comm), (p->lo[0] + a) * c->size[1] + p->lo[1] + b));
    }
    return RSH_OK;
}

static rsh_status make_partial(const int64_t *size, rsh_op op, int me, int64_t first, rsh_partial **out) {
    rsh_tensor *x;
    RSH_TRY(rsh_tensor_empty(RSH_F32, 2, size, &x));
    for (int64_t i = 0; i < size[0] * size[1]; i++) ((float *)rsh_tensor_data(x))[i] = (float)held(me, first + i);
    rsh_status st = rsh_partial_new(x, op, NULL, out);
    rsh_tensor_free(x);
    return st;
}

/* Concatenates k tensors of the same size along dim 0, reduces and cuts them. */
static rsh_status scenario(int k, const int64_t *size, rsh_op op, int dim, const int *owners, rsh_comm *comm) {
    int me = rsh_comm_rank(comm), n = rsh_comm_size(comm);
    rsh_partial *part[4], *all;
    rsh_spec *s;
    rsh_torch_tensor *t;
    int64_t whole[2] = {size[0] * k, size[1]};
    for (int i = 0; i < k; i++) RSH_TRY(make_partial(size, op, me, i * size[0] * size[1], &part[i]));
    RSH_TRY(rsh_partial_cat(k, (const rsh_partial *const *)part, 0, &all));
    CHECK(rsh_partial_op(all) == op && rsh_partial_group(all) == rsh_group_default());
    RSH_TRY(rsh_spec_chunk_ranks(dim, n, owners, &s));
    RSH_TRY(rsh_partial_reshard(all, s, &t));
    cutting c = cut_chunks(RSH_F32, 2, whole, dim, n, owners);
    RSH_TRY(check_reduced(t, &c, op, comm));
    rsh_torch_free(t);
    rsh_spec_free(s);
    for (int i = 0; i < k; i++) rsh_partial_free(part[i]);
    rsh_partial_free(all);
    return RSH_OK;
}

static rsh_status q1_to_q4(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int owners[W] = {3, 1, 0, 2};
    RSH_TRY(scenario(4, (int64_t[]){13, 21}, RSH_OP_SUM, 0, owners, comm));
    RSH_TRY(scenario(4, (int64_t[]){12, 22}, RSH_OP_MAX, 0, owners, comm));
    RSH_TRY(scenario(3, (int64_t[]){13, 21}, RSH_OP_SUM, 0, owners, comm));
    return scenario(2, (int64_t[]){17, 21}, RSH_OP_MAX, 0, owners, comm);
}
/* PyTorch's scenarios Q1 to Q4. */
static void joined_tensors_are_reduced_and_cut(void **state) {
    (void)state;
    run_engines(W, q1_to_q4, NULL);
}

/* Reduces along any dim, with uneven and empty chunks and every op; nothing is padded. */
static rsh_status reduce_any_dim(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_op ops[] = {RSH_OP_SUM, RSH_OP_AVG, RSH_OP_MIN, RSH_OP_MAX, RSH_OP_PROD};
    int owners[W] = {2, 0, 3, 1};
    for (int o = 0; o < 5; o++)
        for (int dim = -2; dim < 2; dim++) {
            RSH_TRY(scenario(1, (int64_t[]){5, 5}, ops[o], dim, owners, comm));
            RSH_TRY(scenario(2, (int64_t[]){1, 7}, ops[o], dim, NULL, comm));
            RSH_TRY(scenario(1, (int64_t[]){0, 3}, ops[o], dim, owners, comm));
        }
    return RSH_OK;
}
/* PyTorch's defects B-11 and B-13. */
static void any_dim_of_any_size_is_reduced_by_any_op(void **state) {
    (void)state;
    run_engines(W, reduce_any_dim, NULL);
}

/* ---- numbers computed by hand ---- */

static rsh_status line(const float *x, int64_t n, rsh_op op, int k, const int *owners, const float *want,
                       int64_t nwant) {
    rsh_tensor *t;
    rsh_partial *p;
    rsh_spec *s;
    rsh_torch_tensor *y;
    const rsh_tensor *got;
    RSH_TRY(rsh_tensor_wrap((void *)x, RSH_F32, 1, &n, NULL, NULL, NULL, &t));
    RSH_TRY(rsh_partial_new(t, op, NULL, &p));
    RSH_TRY(rsh_spec_chunk_ranks(0, k, owners, &s));
    RSH_TRY(rsh_partial_reshard(p, s, &y));
    RSH_TRY(rsh_torch_local_tensor(y, &got));
    CHECK(rsh_tensor_count(got) == nwant &&
          (!nwant || !memcmp(rsh_tensor_data(got), want, (size_t)nwant * sizeof *want)));
    rsh_torch_free(y);
    rsh_spec_free(s);
    rsh_partial_free(p);
    rsh_tensor_free(t);
    return RSH_OK;
}

static rsh_status two_ranks(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    const float x[2][4] = {{1, 2, 3, 4}, {3, 4, 5, 6}}, sum[4] = {4, 6, 8, 10}, max[4] = {3, 4, 5, 6};
    RSH_TRY(line(x[me], 4, RSH_OP_SUM, 2, NULL, sum + 2 * me, 2));
    RSH_TRY(line(x[me], 4, RSH_OP_MAX, 2, NULL, max + 2 * me, 2));
    return line(x[me], 4, RSH_OP_SUM, 2, (int[]){1, 0}, sum + 2 * (1 - me), 2);
}

static rsh_status four_ranks(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    const float x[5] = {1, 2, 3, 4, 5}, want[5] = {4, 8, 12, 16, 20};
    return line(x, 5, RSH_OP_SUM, 4, NULL, want + (me < 3 ? 2 * me : 4), me < 2 ? 2 : me == 2 ? 1 : 0);
}

static void the_worked_numbers(void **state) {
    (void)state;
    run_engines(2, two_ranks, NULL);
    run_engines(4, four_ranks, NULL);
}

/* ---- errors, views, concatenation ---- */

static rsh_status refuse_complex(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    rsh_tensor *x;
    rsh_partial *p, *real;
    rsh_spec *rows, *boxes;
    rsh_torch_tensor *t = NULL;
    cutting grid = {RSH_F32, 2, {6, 4}, 3, {{{0, 0}, {2, 4}, 3}, {{2, 0}, {4, 1}, 0}, {{2, 1}, {4, 3}, 0}}};
    RSH_TRY(rsh_tensor_zeros(RSH_C64, 2, grid.size, &x));
    RSH_TRY(rsh_partial_new(x, RSH_OP_SUM, NULL, &p));
    rsh_tensor_free(x);
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &rows));
    CHECK_STATUS(RSH_EUNSUP, rsh_partial_reshard(p, rows, &t));
    RSH_TRY(boxes_spec(&grid, &boxes));
    RSH_TRY(make_partial(grid.size, RSH_OP_SUM, me, 0, &real));
    RSH_TRY(rsh_partial_reshard(real, boxes, &t)); /* boxes are accepted */
    RSH_TRY(check_reduced(t, &grid, RSH_OP_SUM, comm));
    rsh_torch_free(t);
    t = NULL;
    /* a wrong argument on one rank only */
    CHECK_STATUS(RSH_EVALUE, rsh_partial_reshard(real, me == 1 ? NULL : rows, &t));
    CHECK(!t);
    rsh_partial_free(real);
    RSH_TRY(make_partial(me == 2 ? (int64_t[]){6, 5} : grid.size, RSH_OP_SUM, me, 0, &real));
    CHECK_STATUS(RSH_EMISMATCH, rsh_partial_reshard(real, rows, &t)); /* the ranks' shapes differ */
    rsh_partial_free(real);
    rsh_partial_free(p);
    RSH_TRY(rsh_tensor_zeros(RSH_I32, 1, (int64_t[]){4}, &x));
    CHECK_STATUS(RSH_ETYPE, rsh_partial_new(x, RSH_OP_AVG, NULL, &p));
    CHECK_STATUS(RSH_EVALUE, rsh_partial_new(x, RSH_OP_NONE, NULL, &p));
    rsh_tensor_free(x);
    rsh_spec_free(rows);
    rsh_spec_free(boxes);
    return RSH_OK;
}
/* PyTorch's scenario Q5. */
static void complex_is_refused_and_boxes_are_not(void **state) {
    (void)state;
    run_engines(W, refuse_complex, NULL);
}

static rsh_status transpose_and_join(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    rsh_partial *p, *turned, *list[3], *all, *other;
    rsh_spec *s;
    rsh_torch_tensor *t;
    RSH_TRY(make_partial((int64_t[]){5, 10}, RSH_OP_SUM, me, 0, &p));
    RSH_TRY(rsh_partial_transpose(p, 0, -1, &turned));
    CHECK(rsh_tensor_shape(rsh_partial_tensor(turned))[0] == 10 &&
          rsh_tensor_shape(rsh_partial_tensor(turned))[1] == 5);
    CHECK(rsh_tensor_data(rsh_partial_tensor(turned)) == rsh_tensor_data(rsh_partial_tensor(p)));
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &s));
    RSH_TRY(rsh_partial_reshard(turned, s, &t)); /* the view is not dense */
    const float *x = rsh_tensor_data(rsh_torch_shard(t, 0)->tensor);
    int64_t rows = rsh_torch_shard(t, 0)->meta.sizes[0], first = rsh_torch_shard(t, 0)->meta.offsets[0];
    for (int64_t i = 0; i < rows * 5; i++) CHECK(x[i] == (float)reduced(RSH_OP_SUM, W, i % 5 * 10 + first + i / 5));
    rsh_torch_free(t);
    rsh_spec_free(s);
    int64_t heights[3] = {5, 3, 4};
    for (int i = 0; i < 3; i++) RSH_TRY(make_partial((int64_t[]){heights[i], 10}, RSH_OP_SUM, me, 100 * i, &list[i]));
    RSH_TRY(rsh_partial_cat(3, (const rsh_partial *const *)list, 0, &all));
    CHECK(rsh_tensor_shape(rsh_partial_tensor(all))[0] == 12);
    CHECK(((float *)rsh_tensor_data(rsh_partial_tensor(all)))[83] == (float)held(me, 203));
    CHECK_STATUS(RSH_EVALUE, rsh_partial_cat(3, (const rsh_partial *const *)list, 1, &other));
    CHECK_STATUS(RSH_EINDEX, rsh_partial_cat(3, (const rsh_partial *const *)list, 2, &other));
    CHECK_STATUS(RSH_ERUNTIME, rsh_partial_cat(0, NULL, 0, &other));
    rsh_partial_free(all);
    for (int i = 0; i < 3; i++) {
        rsh_partial_free(list[i]);
        RSH_TRY(make_partial((int64_t[]){2, (int64_t[]){10, 12, 11}[i]}, RSH_OP_SUM, me, 0, &list[i]));
    }
    RSH_TRY(rsh_partial_cat(3, (const rsh_partial *const *)list, -1, &all));
    CHECK(rsh_tensor_shape(rsh_partial_tensor(all))[1] == 33 &&
          ((float *)rsh_tensor_data(rsh_partial_tensor(all)))[33 + 10] == (float)held(me, 12));
    rsh_partial_free(all);
    RSH_TRY(make_partial((int64_t[]){2, 10}, RSH_OP_MAX, me, 0, &other));
    CHECK_STATUS(RSH_ERUNTIME, rsh_partial_cat(2, (const rsh_partial *[]){list[0], other}, 0, &all));
    CHECK_STATUS(RSH_ERUNTIME, rsh_partial_cat(2, (const rsh_partial *[]){list[0], NULL}, 0, &all));
    for (int i = 0; i < 3; i++) rsh_partial_free(list[i]);
    rsh_partial_free(other), rsh_partial_free(turned), rsh_partial_free(p);
    return RSH_OK;
}
/* PyTorch's scenarios Q6 and Q7. */
static void transposed_and_joined_tensors_are_reduced(void **state) {
    (void)state;
    run_engines(W, transpose_and_join, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joined_tensors_are_reduced_and_cut),
        cmocka_unit_test(complex_is_refused_and_boxes_are_not),
        cmocka_unit_test(transposed_and_joined_tensors_are_reduced),
        cmocka_unit_test(the_worked_numbers),
        cmocka_unit_test(any_dim_of_any_size_is_reduced_by_any_op),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
