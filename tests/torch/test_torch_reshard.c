/* Resharding: every scenario that PyTorch tests, those that it rejects, every permutation of owners, and cases in which
 * PyTorch is wrong. */
#include "whole.h"

#define W 4

typedef struct scene {
    int dim[2];
    int owners[2][W];
    int64_t sizes[4][2];
} scene;

static const int64_t usual[4][2] = {{13, 21}, {14, 23}, {15, 26}, {12, 24}};

/* ---- R1 to R4 ---- */

static rsh_status reshard_chunks(const cutting c[2], const rsh_spec *from, const rsh_spec *to, rsh_comm *comm) {
    rsh_torch_tensor *a = NULL, *b = NULL, *fresh = NULL, *back = NULL;
    rsh_tensor *whole = NULL;
    bool equal;
    RSH_TRY(make_filled(from, &c[0], NULL, &a));
    RSH_TRY(rsh_torch_reshard(a, to, &b));
    RSH_TRY(check_st(a, &c[0], rsh_comm_rank(comm))); /* the source is unchanged */
    RSH_TRY(check_st(b, &c[1], rsh_comm_rank(comm)));
    CHECK(rsh_spec_equal(rsh_torch_spec(b), to, c->ndim));
    RSH_TRY(make_whole(&c[0], &whole));
    RSH_TRY(rsh_shard_tensor(whole, to, 0, NULL, NULL, &fresh));
    RSH_TRY(rsh_torch_equal(b, fresh, &equal));
    CHECK(equal && rsh_tensor_meta_equal(rsh_torch_meta(b), rsh_torch_meta(fresh)));
    RSH_TRY(rsh_torch_reshard(b, from, &back));
    RSH_TRY(check_st(back, &c[0], rsh_comm_rank(comm)));
    rsh_tensor_free(whole);
    rsh_torch_free(back);
    rsh_torch_free(fresh);
    rsh_torch_free(b);
    rsh_torch_free(a);
    return RSH_OK;
}

static rsh_status reshard_scene(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    for (int i = 0; i < 4; i++) {
        rsh_spec *spec[2];
        cutting c[2];
        for (int k = 0; k < 2; k++) {
            c[k] = cut_chunks(RSH_F32, 2, usual[i], s->dim[k], W, s->owners[k]);
            RSH_TRY(rsh_spec_chunk_ranks(s->dim[k], W, s->owners[k], &spec[k]));
        }
        RSH_TRY(reshard_chunks(c, spec[0], spec[1], comm));
        rsh_spec_free(spec[0]);
        rsh_spec_free(spec[1]);
    }
    return RSH_OK;
}

/* PyTorch's scenario R1. */
static void rows_change_owners(void **state) {
    (void)state;
    run_engines(W, reshard_scene, &(scene){.dim = {0, 0}, .owners = {{0, 1, 3, 2}, {2, 3, 1, 0}}});
}

/* PyTorch's scenario R2. */
static void rows_become_columns(void **state) {
    (void)state;
    run_engines(W, reshard_scene, &(scene){.dim = {0, 1}, .owners = {{2, 3, 0, 1}, {1, 0, 3, 2}}});
}

/* PyTorch's scenario R3. */
static void columns_become_rows(void **state) {
    (void)state;
    run_engines(W, reshard_scene, &(scene){.dim = {1, 0}, .owners = {{1, 0, 2, 3}, {3, 2, 0, 1}}});
}

/* PyTorch's scenario R4. */
static void columns_change_owners(void **state) {
    (void)state;
    run_engines(W, reshard_scene, &(scene){.dim = {1, 1}, .owners = {{3, 2, 1, 0}, {0, 1, 2, 3}}});
}

/* PyTorch's defect B-04. */
static void negative_dims_are_the_dims_they_mean(void **state) {
    (void)state;
    run_engines(W, reshard_scene, &(scene){.dim = {-1, 1}, .owners = {{3, 2, 1, 0}, {0, 1, 2, 3}}});
    run_engines(W, reshard_scene, &(scene){.dim = {-2, -1}, .owners = {{0, 1, 2, 3}, {1, 2, 3, 0}}});
    run_engines(W, reshard_scene, &(scene){.dim = {0, -2}, .owners = {{0, 1, 2, 3}, {0, 1, 2, 3}}});
}

/* ---- R5, R6 and similar: any spec to any spec ---- */

static rsh_status chunks_to_boxes(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int64_t size[2] = {24, 12};
    cutting rows = cut_chunks(RSH_F32, 2, size, 0, W, NULL);
    cutting boxes = {
        RSH_F32,
        2,
        {24, 12},
        5,
        {{{0, 0}, {5, 5}, 3}, {{0, 5}, {5, 7}, 0}, {{5, 0}, {19, 3}, 1}, {{5, 3}, {10, 9}, 1}, {{15, 3}, {9, 9}, 0}}};
    rsh_spec *from, *to;
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &from));
    RSH_TRY(boxes_spec(&boxes, &to));
    RSH_TRY(reshard_chunks((cutting[2]){boxes, rows}, to, from, comm));
    rsh_torch_tensor *a, *b;
    RSH_TRY(make_filled(from, &rows, NULL, &a));
    RSH_TRY(rsh_torch_reshard(a, to, &b));
    RSH_TRY(check_st(b, &boxes, rsh_comm_rank(comm)));
    rsh_torch_free(a);
    rsh_torch_free(b);
    rsh_spec_free(from);
    rsh_spec_free(to);
    return RSH_OK;
}

/* PyTorch's scenario R5. */
static void chunks_become_boxes_and_boxes_chunks(void **state) {
    (void)state;
    run_engines(W, chunks_to_boxes, NULL);
}

/* PyTorch's boxes are two of 5 by 5 for a tensor of 24 by 12, which they do not cover. */
static rsh_status boxes_that_do_not_cover(void *ctx, rsh_comm *comm) {
    (void)ctx;
    (void)comm;
    int64_t size[2] = {24, 12};
    cutting rows = cut_chunks(RSH_F32, 2, size, 0, W, NULL),
            boxes = {RSH_F32, 2, {24, 12}, 2, {{{0, 0}, {5, 5}, 0}, {{5, 0}, {5, 5}, 1}}};
    rsh_spec *from, *to;
    rsh_torch_tensor *a, *b = NULL;
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &from));
    RSH_TRY(boxes_spec(&boxes, &to));
    RSH_TRY(make_filled(from, &rows, NULL, &a));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_reshard(a, to, &b));
    CHECK(!b);
    rsh_torch_free(a);
    rsh_spec_free(from);
    rsh_spec_free(to);
    return RSH_OK;
}

/* PyTorch's scenario R5. */
static void boxes_that_do_not_cover_are_refused(void **state) {
    (void)state;
    run_engines(W, boxes_that_do_not_cover, NULL);
}

static rsh_status several_shards(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int64_t size[2] = {24, 12};
    int twice[8] = {0, 1, 2, 3, 0, 1, 2, 3}, some[3] = {2, 2, 0};
    rsh_spec *from, *to, *few;
    RSH_TRY(rsh_spec_chunk_ranks(0, 8, twice, &from));
    RSH_TRY(rsh_spec_chunk_ranks(1, W, NULL, &to));
    RSH_TRY(rsh_spec_chunk_ranks(-1, 3, some, &few));
    cutting c[3] = {cut_chunks(RSH_F32, 2, size, 0, 8, twice), cut_chunks(RSH_F32, 2, size, 1, W, NULL),
                    cut_chunks(RSH_F32, 2, size, 1, 3, some)};
    RSH_TRY(reshard_chunks((cutting[2]){c[0], c[1]}, from, to, comm));
    RSH_TRY(reshard_chunks((cutting[2]){c[0], c[2]}, from, few, comm));
    RSH_TRY(reshard_chunks((cutting[2]){c[2], c[1]}, few, to, comm));
    rsh_spec_free(from);
    rsh_spec_free(to);
    rsh_spec_free(few);
    return RSH_OK;
}

/* PyTorch's scenario R6. */
static void several_shards_on_a_rank_are_resharded(void **state) {
    (void)state;
    run_engines(W, several_shards, NULL);
}

/* PyTorch's defects B-10 and B-29. */
static void any_owners_and_any_number_of_chunks_will_do(void **state) {
    (void)state;
    run_engines(W, several_shards, NULL);
    run_engines(W, chunks_to_boxes, NULL);
}

/* ---- permutations ---- */

/* Reshards once between chunk specs, and checks the values of the result. */
static rsh_status go(const int64_t *size, int p, const int *A, int q, const int *B, int n, rsh_comm *comm) {
    cutting a = cut_chunks(RSH_I32, 2, size, p, n, A), b = cut_chunks(RSH_I32, 2, size, q, n, B);
    rsh_spec *from, *to;
    rsh_torch_tensor *x, *y;
    RSH_TRY(rsh_spec_chunk_ranks(p, n, A, &from));
    RSH_TRY(rsh_spec_chunk_ranks(q, n, B, &to));
    RSH_TRY(make_filled(from, &a, NULL, &x));
    RSH_TRY(rsh_torch_reshard(x, to, &y));
    RSH_TRY(check_st(y, &b, rsh_comm_rank(comm)));
    rsh_torch_free(x);
    rsh_torch_free(y);
    rsh_spec_free(from);
    rsh_spec_free(to);
    return RSH_OK;
}

static rsh_status shuffle_all(void *ctx, rsh_comm *comm) {
    int n = rsh_comm_size(comm), all = *(const int *)ctx, A[8], B[8];
    int64_t sizes[3][2] = {{2 * n - 1, 2}, {n + 1, 3}, {n - 2, 2}}; /* uneven, with some empty chunks */
    for (int k = 0; k < all; k++) {
        permutation(n, k * 7 % all, A);
        permutation(n, k, B);
        for (int i = 0; i < 3; i++) {
            int same[8] = {0, 1, 2, 3, 4};
            RSH_TRY(go(sizes[i], 0, same, 0, B, n, comm));
            if (i == 0) RSH_TRY(go(sizes[i], 0, A, 0, B, n, comm));
        }
    }
    return RSH_OK;
}

/* PyTorch's defect B-01. */
static void every_permutation_of_owners_is_reshuffled(void **state) {
    (void)state;
    int all = 24;
    run_engines(4, shuffle_all, &all);
    all = 120;
    run_engines(5, shuffle_all, &all);
}

static rsh_status cross_all(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int64_t sizes[3][2] = {{7, 9}, {5, 2}, {3, 5}};
    int A[W], B[W];
    for (int i = 0; i < 24; i++)
        for (int k = 0; k < 24; k++) {
            permutation(W, i, A);
            permutation(W, k, B);
            RSH_TRY(go(sizes[(i + k) % 3], 0, A, 1, B, W, comm));
        }
    return RSH_OK;
}

static void every_pair_of_permutations_goes_from_dim_to_dim(void **state) {
    (void)state;
    run_engines(W, cross_all, NULL);
}

static rsh_status uneven_columns(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int A[W] = {0, 1, 2, 3}, B[W] = {3, 1, 0, 2};
    RSH_TRY(go((int64_t[2]){8, 6}, 0, A, 1, A, W, comm));
    return go((int64_t[2]){8, 6}, 0, A, 1, B, W, comm);
}

/* PyTorch's defect B-08. */
static void the_new_dim_need_not_be_divisible(void **state) {
    (void)state;
    run_engines(W, uneven_columns, NULL);
}

static rsh_status empty_dims(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int A[W] = {2, 0, 3, 1}, B[W] = {3, 2, 1, 0};
    RSH_TRY(go((int64_t[2]){5, 0}, 0, A, 1, B, W, comm));
    RSH_TRY(go((int64_t[2]){0, 5}, 0, A, 1, B, W, comm));
    RSH_TRY(go((int64_t[2]){0, 0}, 1, A, 0, B, W, comm));
    return go((int64_t[2]){0, 4}, 0, A, 0, B, W, comm);
}

/* PyTorch's defect B-36. */
static void dims_of_length_0_are_resharded(void **state) {
    (void)state;
    run_engines(W, empty_dims, NULL);
}

static rsh_status other_devices(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int64_t size[2] = {8, 6};
    cutting c = cut_chunks(RSH_F32, 2, size, 0, 2, NULL);
    rsh_remote_device p[2];
    rsh_spec *from, *to;
    rsh_torch_tensor *a, *b = NULL;
    RSH_TRY(rsh_remote_device_parse("rank:0/cpu", &p[0]));
    RSH_TRY(rsh_remote_device_parse("rank:1/cuda:0", &p[1]));
    RSH_TRY(rsh_spec_chunk(0, 2, p, &to));
    RSH_TRY(rsh_spec_chunk_ranks(0, 2, NULL, &from));
    RSH_TRY(make_filled(from, &c, NULL, &a));
    CHECK_STATUS(RSH_EUNSUP, rsh_torch_reshard(a, to, &b));
    CHECK_SAYS("cuda");
    RSH_TRY(check_st(a, &c, rsh_comm_rank(comm)));
    rsh_torch_free(a);
    rsh_spec_free(from);
    rsh_spec_free(to);
    return RSH_OK;
}

/* PyTorch's defect B-35. */
static void other_devices_are_refused_up_front(void **state) {
    (void)state;
    run_engines(2, other_devices, NULL);
}

static rsh_status order_of_metadata(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int64_t size[2] = {5, 4};
    int A[3] = {1, 2, 0}, B[3] = {2, 0, 1};
    cutting a = cut_chunks(RSH_F64, 2, size, 0, 3, A), b = cut_chunks(RSH_F64, 2, size, 1, 3, B);
    rsh_spec *from, *to;
    rsh_torch_tensor *x, *y, *fresh;
    bool equal;
    RSH_TRY(rsh_spec_chunk_ranks(0, 3, A, &from));
    RSH_TRY(rsh_spec_chunk_ranks(1, 3, B, &to));
    RSH_TRY(make_filled(from, &a, NULL, &x));
    RSH_TRY(rsh_torch_set_requires_grad(x, true));
    RSH_TRY(rsh_torch_reshard(x, to, &y));
    CHECK(rsh_torch_requires_grad(y) && rsh_torch_shard(y, 0)->props.requires_grad);
    RSH_TRY(make_filled(to, &b, NULL, &fresh));
    RSH_TRY(rsh_torch_set_requires_grad(fresh, true));
    CHECK(rsh_tensor_meta_equal(rsh_torch_meta(y), rsh_torch_meta(fresh)));
    RSH_TRY(rsh_torch_equal(y, fresh, &equal));
    CHECK(equal && rsh_comm_size(comm) == 3);
    rsh_torch_free(x);
    rsh_torch_free(y);
    rsh_torch_free(fresh);
    rsh_spec_free(from);
    rsh_spec_free(to);
    return RSH_OK;
}

/* PyTorch's defect B-28. */
static void a_resharded_tensor_equals_a_fresh_one(void **state) {
    (void)state;
    run_engines(3, order_of_metadata, NULL);
}

/* ---- the parts of reshard: examples computed by hand ---- */

static rsh_status chunk_of(const cutting *c, int rank, rsh_tensor **out) {
    for (int i = 0; i < c->npieces; i++)
        if (c->pieces[i].rank == rank) {
            RSH_TRY(rsh_tensor_empty(c->dtype, c->ndim, c->pieces[i].n, out));
            walk_box(c, &c->pieces[i], rsh_tensor_data(*out), true);
            return RSH_OK;
        }
    return rshi_fail(RSH_ERUNTIME, "rank %d owns no chunk", rank);
}

/* Does the same with the local functions, and with `to` by rank as well. */
static rsh_status go_locally(const int64_t *size, int p, const int *A, int q, const int *B, int n, rsh_comm *comm) {
    int rank = rsh_comm_rank(comm);
    cutting a = cut_chunks(RSH_F32, 2, size, p, n, A), b = cut_chunks(RSH_F32, 2, size, q, n, B);
    rsh_spec *from, *to;
    rsh_tensor *local;
    rsh_shard got;
    rsh_shard_meta by_rank[8];
    RSH_TRY(rsh_spec_chunk_ranks(p, n, A, &from));
    RSH_TRY(rsh_spec_chunk_ranks(q, n, B, &to));
    RSH_TRY(chunk_of(&a, rank, &local));
    RSH_TRY(
        (p == q ? rsh_reshuffle_local_shard : rsh_reshard_local_shard)(local, 2, size, from, to, NULL, &got, by_rank));
    CHECK_STATUS(RSH_EVALUE, (p == q ? rsh_reshard_local_shard : rsh_reshuffle_local_shard)(local, 2, size, from, to,
                                                                                            NULL, &got, by_rank));
    for (int i = 0; i < n; i++) {
        CHECK(is_piece(&by_rank[b.pieces[i].rank], &b, &b.pieces[i]));
        if (b.pieces[i].rank != rank) continue;
        CHECK(is_piece(&got.meta, &b, &b.pieces[i]) && rsh_tensor_count(got.tensor) == count_of(&b, &b.pieces[i]));
        CHECK(!walk_box(&b, &b.pieces[i], rsh_tensor_data(got.tensor), false));
    }
    rsh_shard_clear(&got);
    rsh_tensor_free(local);
    rsh_spec_free(from);
    rsh_spec_free(to);
    return RSH_OK;
}

static rsh_status worked_a(void *ctx, rsh_comm *comm) {
    (void)ctx;
    return go_locally((int64_t[2]){7, 3}, 0, (int[]){0, 1, 2, 3}, 0, (int[]){1, 2, 3, 0}, 4, comm);
}
static void worked_a_a_rotation_of_owners(void **state) {
    (void)state;
    run_engines(4, worked_a, NULL);
}

static rsh_status worked_b(void *ctx, rsh_comm *comm) {
    (void)ctx;
    return go_locally((int64_t[2]){13, 2}, 0, (int[]){0, 1, 3, 2}, 0, (int[]){2, 3, 1, 0}, 4, comm);
}
static void worked_b_pairs_of_ranks_swap(void **state) {
    (void)state;
    run_engines(4, worked_b, NULL);
}

static rsh_status worked_c(void *ctx, rsh_comm *comm) {
    (void)ctx;
    return go_locally((int64_t[2]){7, 1}, 0, (int[]){0, 1, 2}, 0, (int[]){2, 0, 1}, 3, comm);
}
static void worked_c_three_ranks_rotate(void **state) {
    (void)state;
    run_engines(3, worked_c, NULL);
}

/* T[i][j] = 10i + j, with a table of the result on each rank. */
static rsh_status worked_d(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int rank = rsh_comm_rank(comm), A[3] = {1, 2, 0}, B[3] = {2, 0, 1};
    int64_t size[2] = {5, 4}, own[2] = {rank ? 2 : 1, 4}, first = rank == 1 ? 0 : rank == 2 ? 2 : 4;
    rsh_spec *from, *to;
    rsh_tensor *local;
    rsh_shard got;
    rsh_shard_meta by_rank[3];
    RSH_TRY(rsh_spec_chunk_ranks(0, 3, A, &from));
    RSH_TRY(rsh_spec_chunk_ranks(1, 3, B, &to));
    RSH_TRY(rsh_tensor_empty(RSH_I64, 2, own, &local));
    for (int64_t i = 0; i < own[0] * 4; i++) ((int64_t *)rsh_tensor_data(local))[i] = 10 * (first + i / 4) + i % 4;
    RSH_TRY(rsh_reshard_local_shard(local, 2, size, from, to, NULL, &got, by_rank));
    const int64_t *x = rsh_tensor_data(got.tensor);
    for (int64_t i = 0; rank != 1 && i < 10; i++) CHECK(x[i] == 10 * (i / 2) + i % 2 + (rank == 0 ? 2 : 0));
    CHECK(rsh_tensor_shape(got.tensor)[0] == 5 && rsh_tensor_shape(got.tensor)[1] == (rank == 1 ? 0 : 2));
    CHECK(by_rank[0].offsets[1] == 2 && by_rank[1].offsets[1] == 4 && by_rank[2].offsets[1] == 0 &&
          by_rank[1].sizes[1] == 0);
    rsh_shard_clear(&got);
    rsh_tensor_free(local);
    rsh_spec_free(from);
    rsh_spec_free(to);
    return go_locally(size, 0, A, 1, B, 3, comm);
}
static void worked_d_rows_become_columns_with_an_empty_chunk(void **state) {
    (void)state;
    run_engines(3, worked_d, NULL);
}

static rsh_status worked_e(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int rank = rsh_comm_rank(comm);
    int64_t size[2] = {8, 4}, own[2] = {2, 4};
    rsh_spec *rows, *columns;
    rsh_tensor *local;
    rsh_torch_tensor *a, *b;
    const rsh_tensor *got;
    RSH_TRY(rsh_spec_chunk_ranks(0, 4, NULL, &rows));
    RSH_TRY(rsh_spec_chunk_ranks(1, 4, NULL, &columns));
    RSH_TRY(rsh_tensor_empty(RSH_F32, 2, own, &local));
    for (int i = 0; i < 8; i++) ((float *)rsh_tensor_data(local))[i] = (float)(rank * 2 + 1 + i % 4);
    RSH_TRY(rsh_torch_from_tensor(local, NULL, rows, 2, size, NULL, &a));
    RSH_TRY(rsh_torch_reshard(a, columns, &b));
    RSH_TRY(rsh_torch_local_tensor(b, &got));
    CHECK(rsh_tensor_shape(got)[0] == 8 && rsh_tensor_shape(got)[1] == 1);
    for (int i = 0; i < 8; i++) CHECK(((float *)rsh_tensor_data(got))[i] == (float)(1 + rank + i / 2 * 2));
    rsh_torch_free(a);
    rsh_torch_free(b);
    rsh_tensor_free(local);
    rsh_spec_free(rows);
    rsh_spec_free(columns);
    return RSH_OK;
}
static void worked_e_the_example_of_the_documentation(void **state) {
    (void)state;
    run_engines(4, worked_e, NULL);
}

static void metadata_by_rank(void **state) {
    (void)state;
    rsh_spec *s;
    rsh_shard_meta m[3];
    int ranks[3];
    int64_t size[2] = {5, 4};
    assert_int_equal(rsh_spec_chunk_ranks(1, 3, (int[]){2, 0, 1}, &s), RSH_OK);
    assert_int_equal(rsh_reshard_metadata(2, size, s, 3, m, ranks), RSH_OK);
    assert_true(m[0].offsets[1] == 2 && m[0].sizes[1] == 2 && m[1].offsets[1] == 4 && m[1].sizes[1] == 0 &&
                m[2].offsets[1] == 0 && m[2].sizes[1] == 2);
    assert_true(ranks[0] == 2 && ranks[1] == 0 && ranks[2] == 1);
    assert_int_equal(rsh_reshard_metadata(2, size, s, 4, m, ranks), RSH_EVALUE);
    rsh_spec_free(s);
    assert_int_equal(rsh_spec_chunk_ranks(1, 3, (int[]){2, 0, 2}, &s), RSH_OK);
    assert_int_equal(rsh_reshard_metadata(2, size, s, 3, m, ranks), RSH_EVALUE);
    rsh_spec_free(s);
}

/* ---- the amount of data that moves ---- */

static int64_t bytes_moved(const cutting *a, const rsh_spec *from, const rsh_spec *to) {
    rsh_layout *x, *y;
    rsh_plan *p;
    rsh_plan_totals totals = RSH_PLAN_TOTALS_INIT;
    if (rsh_spec_layout(from, a->dtype, 2, a->size, &x) || rsh_spec_layout(to, a->dtype, 2, a->size, &y)) return -1;
    if (rsh_plan_new(x, y, NULL, &p) || rsh_plan_get_totals(p, &totals)) return -1;
    rsh_plan_free(p);
    rsh_layout_free(x);
    rsh_layout_free(y);
    return totals.bytes_moved;
}

/* Counts the elements of the new pieces that their owner did not have before. */
static int64_t elements_to_move(const cutting *a, const cutting *b) {
    int64_t n = 0;
    for (int i = 0; i < b->npieces; i++)
        for (int k = 0; k < a->npieces; k++) {
            int64_t common = 1;
            for (int d = 0; d < 2; d++) {
                int64_t lo = rshi_max(a->pieces[k].lo[d], b->pieces[i].lo[d]);
                int64_t hi = rshi_min(a->pieces[k].lo[d] + a->pieces[k].n[d], b->pieces[i].lo[d] + b->pieces[i].n[d]);
                common *= hi > lo ? hi - lo : 0;
            }
            if (a->pieces[k].rank != b->pieces[i].rank) n += common;
        }
    return n;
}

static void nothing_is_moved_that_is_there_already(void **state) {
    (void)state;
    int64_t sizes[3][2] = {{13, 21}, {5, 2}, {12, 24}};
    for (int i = 0; i < 24 * 24; i++) {
        int A[W], B[W], q = i / 5 % 2;
        rsh_spec *from, *to;
        permutation(W, i % 24, A);
        permutation(W, i / 24, B);
        cutting a = cut_chunks(RSH_F32, 2, sizes[i % 3], 0, W, A), b = cut_chunks(RSH_F32, 2, sizes[i % 3], q, W, B);
        assert_int_equal(rsh_spec_chunk_ranks(0, W, A, &from), RSH_OK);
        assert_int_equal(rsh_spec_chunk_ranks(q, W, B, &to), RSH_OK);
        assert_int_equal(bytes_moved(&a, from, to), 4 * elements_to_move(&a, &b));
        rsh_spec_free(from);
        rsh_spec_free(to);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_change_owners),
        cmocka_unit_test(rows_become_columns),
        cmocka_unit_test(columns_become_rows),
        cmocka_unit_test(columns_change_owners),
        cmocka_unit_test(chunks_become_boxes_and_boxes_chunks),
        cmocka_unit_test(boxes_that_do_not_cover_are_refused),
        cmocka_unit_test(several_shards_on_a_rank_are_resharded),
        cmocka_unit_test(every_permutation_of_owners_is_reshuffled),
        cmocka_unit_test(negative_dims_are_the_dims_they_mean),
        cmocka_unit_test(the_new_dim_need_not_be_divisible),
        cmocka_unit_test(any_owners_and_any_number_of_chunks_will_do),
        cmocka_unit_test(a_resharded_tensor_equals_a_fresh_one),
        cmocka_unit_test(other_devices_are_refused_up_front),
        cmocka_unit_test(dims_of_length_0_are_resharded),
        cmocka_unit_test(every_pair_of_permutations_goes_from_dim_to_dim),
        cmocka_unit_test(worked_a_a_rotation_of_owners),
        cmocka_unit_test(worked_b_pairs_of_ranks_swap),
        cmocka_unit_test(worked_c_three_ranks_rotate),
        cmocka_unit_test(worked_d_rows_become_columns_with_an_empty_chunk),
        cmocka_unit_test(worked_e_the_example_of_the_documentation),
        cmocka_unit_test(metadata_by_rank),
        cmocka_unit_test(nothing_is_moved_that_is_there_already),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
