/* Factories, and tensors made from shards, from metadata and from local tensors. */
#include "whole.h"

#include <math.h>

#define W 4

static rsh_status empty_of(int dim, int64_t n, const int *ranks, int ndim, const int64_t *size, rsh_group *g,
                           rsh_torch_tensor **out) {
    rsh_spec *s;
    rsh_torch_opts o = RSH_TORCH_OPTS_INIT;
    o.group = g;
    RSH_TRY(rsh_spec_chunk_ranks(dim, n, ranks, &s));
    rsh_status st = rsh_torch_empty(s, ndim, size, &o, out);
    rsh_spec_free(s);
    return st;
}

static rsh_status check_chunks(int dim, int n, const int *ranks, const int64_t *size, rsh_comm *comm) {
    rsh_torch_tensor *t;
    cutting c = cut_chunks(RSH_F32, 2, size, dim, n, ranks);
    RSH_TRY(empty_of(dim, n, ranks, 2, size, NULL, &t));
    RSH_TRY(check_form(t, &c, rsh_comm_rank(comm)));
    rsh_torch_free(t);
    return RSH_OK;
}

static rsh_status t1_to_t8(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_torch_tensor *t = NULL;
    int64_t a[2] = {10, 20}, b[2] = {10, 32}, c[2] = {16, 20}, e[2] = {2, 20};
    RSH_TRY(check_chunks(0, W, NULL, a, comm));
    RSH_TRY(check_chunks(-2, W, NULL, a, comm));
    RSH_TRY(check_chunks(1, W, NULL, b, comm));
    RSH_TRY(check_chunks(-1, W, NULL, b, comm));
    for (int d = -5; d <= 4; d++)
        if (d < -2 || d > 1) CHECK_STATUS(RSH_EVALUE, empty_of(d, W, NULL, 2, a, NULL, &t));
    CHECK_STATUS(RSH_EVALUE, empty_of(0, 2, (int[]){0, 5}, 2, a, NULL, &t));
    RSH_TRY(check_chunks(0, 2, (int[]){2, 3}, a, comm));
    RSH_TRY(check_chunks(0, 8, (int[]){0, 1, 2, 3, 0, 1, 2, 3}, c, comm));
    RSH_TRY(check_chunks(0, W, NULL, e, comm)); /* t8: sizes 1, 1, 0, 0 at offsets 0, 1, 2, 2 */
    CHECK(!t);
    return RSH_OK;
}
/* PyTorch's scenarios T1 to T5, T7, T8. */
static void factories_make_the_chunks_of_their_spec(void **state) {
    (void)state;
    run_engines(W, t1_to_t8, NULL);
}

static rsh_status make_empty_chunks(void *ctx, rsh_comm *comm) {
    (void)ctx;
    for (int64_t n = 0; n <= 9; n++) {
        cutting c = cut_chunks(RSH_F32, 1, &n, 0, W, NULL);
        rsh_spec *s;
        rsh_tensor *whole;
        rsh_torch_tensor *t;
        RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &s));
        RSH_TRY(make_whole(&c, &whole));
        RSH_TRY(rsh_shard_tensor(whole, s, 1, NULL, NULL, &t));
        RSH_TRY(check_st(t, &c, rsh_comm_rank(comm)));
        for (int i = 0; i < W; i++)
            CHECK(rsh_torch_meta(t)->shards[i].offsets[0] + rsh_torch_meta(t)->shards[i].sizes[0] <= n);
        rsh_torch_free(t);
        rsh_tensor_free(whole);
        rsh_spec_free(s);
    }
    return RSH_OK;
}
/* PyTorch's defect B-05. */
static void empty_chunks_are_legal_and_lie_inside(void **state) {
    (void)state;
    run_engines(W, make_empty_chunks, NULL);
}

/* Ranks in placements are ranks of the group. */
static rsh_status subgroup(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_group *g;
    rsh_torch_tensor *t = NULL, *moved;
    rsh_spec *to;
    int64_t size[2] = {10, 20};
    int owners[2] = {2, 0}, me = rsh_comm_rank(comm);
    RSH_TRY(rsh_group_new(3, (int[]){3, 1, 2}, &g));
    if (me == 0) {
        CHECK_STATUS(RSH_ERUNTIME, empty_of(0, 2, owners, 2, size, g, &t));
    } else {
        cutting c = cut_chunks(RSH_F32, 2, size, 0, 2, owners),
                d = cut_chunks(RSH_F32, 2, size, 1, 3, (int[]){1, 2, 0});
        rsh_tensor *whole = NULL;
        CHECK_STATUS(RSH_EVALUE, empty_of(0, 2, (int[]){1, 3}, 2, size, g, &t));
        RSH_TRY(empty_of(0, 2, owners, 2, size, g, &t));
        RSH_TRY(check_form(t, &c, me - 1));
        fill_st(t, &c, me - 1);
        RSH_TRY(rsh_spec_chunk_ranks(1, 3, (int[]){1, 2, 0}, &to));
        RSH_TRY(rsh_torch_reshard(t, to, &moved));
        RSH_TRY(check_st(moved, &d, me - 1));
        if (me == 3) RSH_TRY(rsh_tensor_zeros(RSH_F32, 2, size, &whole));
        RSH_TRY(rsh_torch_gather(moved, 2, whole)); /* group rank 2 is global rank 3 */
        if (me == 3) RSH_TRY(check_whole(&c, whole));
        rsh_tensor_free(whole);
        rsh_torch_free(moved);
        rsh_torch_free(t);
        rsh_spec_free(to);
    }
    rsh_group_free(g);
    return RSH_OK;
}
/* PyTorch's scenario T6 and defect B-06. */
static void ranks_are_ranks_of_the_group(void **state) {
    (void)state;
    run_engines(W, subgroup, NULL);
}

/* ---- values ---- */

static rsh_status values(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_spec *s;
    rsh_torch_tensor *zeros, *ones, *full, *a, *b, *normal, *bad = NULL;
    rsh_torch_opts o = RSH_TORCH_OPTS_INIT;
    int64_t size[2] = {64, 128};
    int32_t seven = 7;
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &s));
    o.seed = 5;
    RSH_TRY(rsh_torch_zeros(s, 2, size, NULL, &zeros));
    RSH_TRY(rsh_torch_rand(s, 2, size, &o, &a));
    RSH_TRY(rsh_torch_rand(s, 2, size, &o, &b));
    RSH_TRY(rsh_torch_randn(s, 2, size, &o, &normal));
    o.props.dtype = RSH_F16;
    RSH_TRY(rsh_torch_ones(s, 2, size, &o, &ones));
    o.props.dtype = RSH_I32;
    RSH_TRY(rsh_torch_full(s, 2, size, &seven, &o, &full));
    CHECK_STATUS(RSH_ETYPE, rsh_torch_rand(s, 2, size, &o, &bad));
    const float *z = rsh_tensor_data(rsh_torch_shard(zeros, 0)->tensor),
                *x = rsh_tensor_data(rsh_torch_shard(a, 0)->tensor);
    const float *y = rsh_tensor_data(rsh_torch_shard(b, 0)->tensor),
                *g = rsh_tensor_data(rsh_torch_shard(normal, 0)->tensor);
    double sum = 0, mean = 0, square = 0;
    for (int i = 0; i < 16 * 128; i++) {
        CHECK(z[i] == 0 && ((int32_t *)rsh_tensor_data(rsh_torch_shard(full, 0)->tensor))[i] == 7);
        CHECK(((uint16_t *)rsh_tensor_data(rsh_torch_shard(ones, 0)->tensor))[i] == 0x3c00);
        CHECK(x[i] >= 0 && x[i] < 1 && x[i] == y[i] && isfinite(g[i]));
        sum += x[i];
        mean += g[i];
        square += g[i] * g[i];
    }
    CHECK(fabs(sum / 2048 - 0.5) < 0.05 && fabs(mean / 2048) < 0.15 && fabs(square / 2048 - 1) < 0.2);
    float first = x[0], all[W];
    RSH_TRY(rsh_comm_allgather(comm, &first, all, sizeof first));
    CHECK(all[0] != all[1] && all[1] != all[2]);
    rsh_torch_free(zeros), rsh_torch_free(ones), rsh_torch_free(full), rsh_torch_free(a), rsh_torch_free(b),
        rsh_torch_free(normal);
    rsh_spec_free(s);
    return RSH_OK;
}
/* PyTorch's scenario T9. */
static void factories_fill_what_they_make(void **state) {
    (void)state;
    run_engines(W, values, NULL);
}

static rsh_status refusals(void *ctx, rsh_comm *comm) {
    (void)ctx;
    (void)comm;
    rsh_spec *s;
    rsh_torch_tensor *t = NULL;
    int64_t size[2] = {4, 4}, out;
    rsh_torch_opts o = RSH_TORCH_OPTS_INIT;
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &s));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_empty(NULL, 2, size, NULL, &t));
    o.props.layout = RSH_SPARSE;
    CHECK_STATUS(RSH_EVALUE, rsh_torch_empty(s, 2, size, &o, &t));
    o.props.layout = RSH_STRIDED;
    o.props.memory_format = RSH_CHANNELS_LAST;
    CHECK_STATUS(RSH_EVALUE, rsh_torch_empty(s, 2, size, &o, &t));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_empty(s, 2, (int64_t[]){4, -1}, NULL, &t));
    RSH_TRY(rsh_torch_empty(s, 2, size, NULL, &t));
    RSH_TRY(rsh_torch_size(t, -1, &out));
    CHECK(out == 4);
    CHECK_STATUS(RSH_EINDEX, rsh_torch_size(t, 2, &out));
    CHECK_STATUS(RSH_EINDEX, rsh_torch_size(t, -3, &out));
    rsh_torch_free(t);
    rsh_spec_free(s);
    const rsh_tensor *local;
    RSH_TRY(empty_of(0, 10, (int[]){0, 1, 2, 3, 0, 1, 2, 3, 0, 1}, 2, (int64_t[]){20, 4}, NULL, &t));
    CHECK_STATUS(RSH_EUNSUP, rsh_torch_local_tensor(t, &local));
    rsh_torch_free(t);
    return RSH_OK;
}
/* PyTorch's scenarios T10 and T11. */
static void factories_and_accessors_refuse_what_is_wrong(void **state) {
    (void)state;
    run_engines(W, refusals, NULL);
}

/* ---- gather ---- */

static rsh_status gather(const rsh_spec *s, const cutting *c, int dst, rsh_comm *comm) {
    rsh_torch_tensor *t;
    rsh_tensor *whole = NULL;
    RSH_TRY(make_filled(s, c, NULL, &t));
    if (rsh_comm_rank(comm) == dst) RSH_TRY(rsh_tensor_zeros(c->dtype, c->ndim, c->size, &whole));
    RSH_TRY(rsh_torch_gather(t, dst, whole));
    if (whole) RSH_TRY(check_whole(c, whole));
    rsh_tensor_free(whole);
    rsh_torch_free(t);
    return RSH_OK;
}

static rsh_status gather_chunks(rsh_dtype dtype, int n, const int *ranks, const int64_t *size, int dst,
                                rsh_comm *comm) {
    rsh_spec *s;
    cutting c = cut_chunks(dtype, 2, size, 0, n, ranks);
    RSH_TRY(rsh_spec_chunk_ranks(0, n, ranks, &s));
    rsh_status st = gather(s, &c, dst, comm);
    rsh_spec_free(s);
    return st;
}

static const cutting grid = {
    RSH_F32, 2, {10, 10}, 4, {{{0, 0}, {5, 5}, 0}, {{0, 5}, {5, 5}, 1}, {{5, 0}, {5, 5}, 2}, {{5, 5}, {5, 5}, 3}}};
static const cutting two_on_0 = {
    RSH_F32, 2, {10, 10}, 4, {{{0, 0}, {5, 5}, 0}, {{0, 5}, {5, 5}, 0}, {{5, 0}, {5, 5}, 2}, {{5, 5}, {5, 5}, 3}}};
static const cutting uneven = {
    RSH_F32, 2, {6, 6}, 4, {{{0, 0}, {2, 4}, 0}, {{0, 4}, {4, 2}, 1}, {{2, 0}, {4, 4}, 2}, {{4, 4}, {2, 2}, 3}}};

static rsh_status gathers(void *ctx, rsh_comm *comm) {
    (void)ctx;
    RSH_TRY(gather_chunks(RSH_F32, 4, NULL, (int64_t[]){10, 20}, 1, comm));
    RSH_TRY(gather_chunks(RSH_F32, 5, (int[]){0, 0, 1, 1, 2}, (int64_t[]){10, 20}, 1, comm));
    const cutting *list[3] = {&grid, &two_on_0, &uneven};
    for (int i = 0; i < 3; i++) {
        rsh_spec *s;
        rsh_torch_tensor *t;
        RSH_TRY(boxes_spec(list[i], &s));
        RSH_TRY(gather(s, list[i], 1, comm));
        RSH_TRY(rsh_torch_empty(s, 2, list[i]->size, NULL, &t));
        RSH_TRY(check_form(t, list[i], rsh_comm_rank(comm)));
        rsh_torch_free(t);
        rsh_spec_free(s);
    }
    return RSH_OK;
}
/* PyTorch's scenarios T12 and T13. */
static void chunks_and_boxes_are_gathered(void **state) {
    (void)state;
    run_engines(W, gathers, NULL);
}

static rsh_status gathers_of_dtypes(void *ctx, rsh_comm *comm) {
    (void)ctx;
    for (int d = 0; d < RSH_NDTYPES; d++)
        RSH_TRY(gather_chunks((rsh_dtype)d, 4, NULL, (int64_t[]){5, 3}, d % 4, comm)); /* rank 3 has no elements */
    RSH_TRY(gather_chunks(RSH_I64, 4, NULL, (int64_t[]){0, 3}, 2, comm));
    rsh_torch_tensor *t;
    rsh_tensor *whole = NULL;
    int me = rsh_comm_rank(comm);
    int64_t size[2] = {5, 3};
    RSH_TRY(empty_of(0, 4, NULL, 2, size, NULL, &t));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_gather(t, 1, NULL)); /* missing on the destination rank */
    CHECK_SAYS("rank 1");
    RSH_TRY(rsh_tensor_zeros(RSH_F32, 2, me == 2 ? (int64_t[]){5, 4} : size, &whole));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_gather(t, 2, me == 2 ? whole : NULL)); /* a wrong shape */
    RSH_TRY(rsh_torch_gather(t, 1, me < 3 ? whole : NULL)); /* ignored on other ranks, whatever its shape */
    CHECK_STATUS(RSH_ERUNTIME, rsh_torch_gather(t, 4, NULL));
    CHECK_SAYS("rank 4");
    CHECK_SAYS("0 to 3");
    RSH_TRY(rsh_torch_gather(t, 1, me == 1 ? whole : NULL));
    rsh_tensor_free(whole);
    rsh_torch_free(t);
    return RSH_OK;
}
/* PyTorch's defect B-09. */
static void gather_keeps_the_dtype_and_every_rank_takes_part(void **state) {
    (void)state;
    run_engines(W, gathers_of_dtypes, NULL);
}

/* ---- from a local tensor ---- */

static rsh_status from_local(const cutting *c, const rsh_spec *s, rsh_comm *comm) {
    rsh_torch_tensor *t;
    rsh_tensor *local = NULL;
    int me = rsh_comm_rank(comm);
    for (int i = 0; i < c->npieces; i++)
        if (c->pieces[i].rank == me) {
            RSH_TRY(rsh_tensor_empty(c->dtype, c->ndim, c->pieces[i].n, &local));
            walk_box(c, &c->pieces[i], rsh_tensor_data(local), true);
        }
    RSH_TRY(rsh_torch_from_tensor(local, NULL, s, c->ndim, c->size, NULL, &t));
    RSH_TRY(check_st(t, c, me));
    CHECK(rsh_tensor_data(rsh_torch_shard(t, 0)->tensor) == rsh_tensor_data(local));
    rsh_tensor_free(local); /* both share storage */
    RSH_TRY(check_st(t, c, me));
    rsh_torch_free(t);
    return RSH_OK;
}

static rsh_status make_of_local_tensors(void *ctx, rsh_comm *comm) {
    (void)ctx;
    static const struct { int ndim, dim; int64_t size[3]; int owners[4];
    } cases[4] = {{2, 0, {20, 10}, {2, 3, 1, 0}},
                  {2, 1, {21, 11}, {3, 1, 0, 2}},
                  {2, 1, {23, 16}, {2, 3, 0, 1}},
                  {3, 0, {44, 16, 8}, {3, 2, 1, 0}}};
    for (int i = 0; i < 4; i++) {
        rsh_spec *s;
        cutting c = cut_chunks(RSH_F32, cases[i].ndim, cases[i].size, cases[i].dim, 4, cases[i].owners);
        RSH_TRY(rsh_spec_chunk_ranks(cases[i].dim, 4, cases[i].owners, &s));
        RSH_TRY(from_local(&c, s, comm));
        rsh_spec_free(s);
    }
    return RSH_OK;
}
/* PyTorch's scenario T14. */
static void local_tensors_make_a_tensor(void **state) {
    (void)state;
    run_engines(W, make_of_local_tensors, NULL);
}

static rsh_status make_of_unfit_tensors(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    cutting gap = grid;
    rsh_spec *s, *rows;
    rsh_tensor *local, *turned;
    rsh_torch_tensor *t = NULL;
    gap.npieces = 3;
    gap.pieces[0].rank = 3;
    RSH_TRY(boxes_spec(&gap, &s));
    RSH_TRY(rsh_tensor_zeros(RSH_F32, 2, (int64_t[]){5, 5}, &local));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_tensor(local, NULL, s, 2, gap.size, NULL, &t));
    rsh_tensor_free(local);
    RSH_TRY(rsh_spec_chunk_ranks(0, 4, NULL, &rows));
    RSH_TRY(rsh_tensor_zeros(RSH_F32, 2, (int64_t[]){6, 3}, &local));
    RSH_TRY(rsh_tensor_transpose(local, 0, 1, &turned));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_tensor(turned, NULL, rows, 2, (int64_t[]){12, 6}, NULL, &t));
    CHECK_STATUS(RSH_EVALUE,
                 rsh_torch_from_tensor(local, NULL, rows, 2, (int64_t[]){12, 6}, NULL, &t)); /* a wrong shape */
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_tensor(NULL, NULL, rows, 2, (int64_t[]){12, 6}, NULL, &t));
    CHECK(!t && me >= 0);
    rsh_tensor_free(turned);
    rsh_tensor_free(local);
    rsh_spec_free(s);
    rsh_spec_free(rows);
    return RSH_OK;
}
/* PyTorch's scenario T15. */
static void local_tensors_that_do_not_fit_are_refused(void **state) {
    (void)state;
    run_engines(W, make_of_unfit_tensors, NULL);
}

/* ---- user-defined kinds ---- */

/* Builds a square grid of n by n boxes, with box (i, j) on rank i*n + j. */
static rsh_status grid_build(const void *self, int ndim, const int64_t *size, const rsh_tensor_props *props,
                             rsh_tensor_meta **out) {
    int n = *(const int *)self;
    rsh_shard_meta list[16];
    RSH_REQUIRE(ndim == 2 && size[0] % n == 0 && size[1] % n == 0, RSH_EVALUE, "a grid of %d", n);
    for (int i = 0; i < n * n; i++) {
        char text[32];
        snprintf(text, sizeof text, "rank:%d/cpu", i);
        int64_t a = size[0] / n, b = size[1] / n;
        RSH_TRY(rsh_shard_meta_make(2, (int64_t[]){i / n * a, i % n * b}, 2, (int64_t[]){a, b}, text, &list[i]));
    }
    return rsh_tensor_meta_new(n * n, list, ndim, size, props, out);
}
static rsh_status grid_shard(const void *self, const rsh_tensor *tensor, int src_rank, rsh_group *group,
                             rsh_torch_tensor **out) {
    static const rsh_spec_kind like = {.name = "grid", .build = grid_build};
    rsh_spec *s;
    RSH_TRY(rsh_spec_new(&like, (void *)self, &s));
    rsh_status st = rsh_torch_scatter(tensor, s, src_rank, group, NULL, out);
    rsh_spec_free(s);
    return st;
}
static const rsh_spec_sharder grid_sharder = {grid_shard};
static const rsh_spec_kind grid_kind = {.name = "grid", .build = grid_build};
static const rsh_spec_kind cutting_kind = {.name = "cutting grid", .build = grid_build, .sharder = &grid_sharder};

static rsh_status users_grid(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int n = 2, me = rsh_comm_rank(comm);
    cutting c = {
        RSH_F32, 2, {4, 4}, 4, {{{0, 0}, {2, 2}, 0}, {{0, 2}, {2, 2}, 1}, {{2, 0}, {2, 2}, 2}, {{2, 2}, {2, 2}, 3}}};
    rsh_spec *s, *cuts, *rows;
    rsh_torch_tensor *t = NULL, *r, *back;
    rsh_tensor *whole;
    RSH_TRY(rsh_spec_new(&grid_kind, &n, &s));
    RSH_TRY(rsh_spec_new(&cutting_kind, &n, &cuts));
    RSH_TRY(rsh_spec_chunk_ranks(0, 4, NULL, &rows));
    RSH_TRY(make_whole(&c, &whole));
    CHECK_STATUS(RSH_EUNSUP, rsh_shard_tensor(whole, s, 0, NULL, NULL, &t));
    RSH_TRY(rsh_torch_scatter(whole, s, 3, NULL, NULL, &t));
    RSH_TRY(check_st(t, &c, me));
    RSH_TRY(rsh_torch_reshard(t, rows, &r));
    RSH_TRY(rsh_torch_reshard(r, s, &back));
    RSH_TRY(check_st(back, &c, me));
    rsh_torch_free(t), rsh_torch_free(r), rsh_torch_free(back);
    RSH_TRY(rsh_shard_tensor(whole, cuts, 1, NULL, NULL, &t));
    RSH_TRY(check_st(t, &c, me));
    rsh_torch_free(t);
    rsh_tensor_free(whole);
    rsh_spec_free(s), rsh_spec_free(cuts), rsh_spec_free(rows);
    return RSH_OK;
}
/* PyTorch's scenario P6. */
static void a_users_grid_is_a_spec_like_any_other(void **state) {
    (void)state;
    run_engines(W, users_grid, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factories_make_the_chunks_of_their_spec),
        cmocka_unit_test(empty_chunks_are_legal_and_lie_inside),
        cmocka_unit_test(ranks_are_ranks_of_the_group),
        cmocka_unit_test(factories_fill_what_they_make),
        cmocka_unit_test(factories_and_accessors_refuse_what_is_wrong),
        cmocka_unit_test(chunks_and_boxes_are_gathered),
        cmocka_unit_test(gather_keeps_the_dtype_and_every_rank_takes_part),
        cmocka_unit_test(local_tensors_make_a_tensor),
        cmocka_unit_test(local_tensors_that_do_not_fit_are_refused),
        cmocka_unit_test(a_users_grid_is_a_spec_like_any_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
