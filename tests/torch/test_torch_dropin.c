/* The functions of which PyTorch's reshard consists, in cases in which PyTorch's fail: negative dims, dims of length 0,
 * and errors on one rank. */
#include "whole.h"

#define W 3

/* Creates this rank's only chunk, with the expected values. */
static rsh_status chunk_of(const cutting *c, int rank, rsh_tensor **out) {
    int i = 0;
    while (c->pieces[i].rank != rank) i++;
    RSH_TRY(rsh_tensor_empty(c->dtype, c->ndim, c->pieces[i].n, out));
    walk_box(c, &c->pieces[i], rsh_tensor_data(*out), true);
    return RSH_OK;
}

/* Moves chunks of dim p to chunks of dim q; dims may be negative. */
static rsh_status go(const int64_t *size, int p, const int *A, int q, const int *B, rsh_comm *comm) {
    int rank = rsh_comm_rank(comm);
    bool same = (p + 2) % 2 == (q + 2) % 2;
    cutting a = cut_chunks(RSH_F32, 2, size, p, W, A), b = cut_chunks(RSH_F32, 2, size, q, W, B);
    rsh_spec *from, *to;
    rsh_tensor *local;
    rsh_shard got, none;
    rsh_shard_meta by_rank[W];
    RSH_TRY(rsh_spec_chunk_ranks(p, W, A, &from));
    RSH_TRY(rsh_spec_chunk_ranks(q, W, B, &to));
    RSH_TRY(chunk_of(&a, rank, &local));
    if (same) {
        RSH_TRY(rsh_reshuffle_local_shard(local, 2, size, from, to, NULL, &got, by_rank));
        CHECK_STATUS(RSH_EVALUE, rsh_reshard_local_shard(local, 2, size, from, to, NULL, &none, by_rank));
    } else {
        RSH_TRY(rsh_reshard_local_shard(local, 2, size, from, to, NULL, &got, by_rank));
        CHECK_STATUS(RSH_EVALUE, rsh_reshuffle_local_shard(local, 2, size, from, to, NULL, &none, by_rank));
    }
    CHECK(!got.props.requires_grad && got.props.dtype == RSH_F32);
    for (int i = 0; i < W; i++) {
        CHECK(is_piece(&by_rank[b.pieces[i].rank], &b, &b.pieces[i]));
        if (b.pieces[i].rank != rank) continue;
        CHECK(is_piece(&got.meta, &b, &b.pieces[i]) && rsh_tensor_dense(got.tensor));
        for (int d = 0; d < 2; d++) CHECK(rsh_tensor_shape(got.tensor)[d] == b.pieces[i].n[d]);
        CHECK(!walk_box(&b, &b.pieces[i], rsh_tensor_data(got.tensor), false));
    }
    rsh_shard_clear(&got);
    rsh_tensor_free(local);
    rsh_spec_free(from), rsh_spec_free(to);
    return RSH_OK;
}

static rsh_status negative_dims(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int A[W] = {1, 2, 0}, B[W] = {2, 1, 0};
    int64_t size[2] = {5, 7};
    for (int p = -2; p < 2; p++)
        for (int q = -2; q < 2; q++) RSH_TRY(go(size, p, A, q, B, comm));
    return RSH_OK;
}
/* PyTorch's defect B-04. */
static void drop_ins_take_dims_from_the_end(void **state) {
    (void)state;
    run_engines(W, negative_dims, NULL);
}

static rsh_status empty_dims(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int A[W] = {2, 0, 1}, B[W] = {1, 2, 0};
    int64_t sizes[4][2] = {{5, 0}, {0, 5}, {0, 0}, {1, 1}};
    for (int i = 0; i < 4; i++)
        for (int p = 0; p < 2; p++) {
            RSH_TRY(go(sizes[i], p, A, 1 - p, B, comm));
            RSH_TRY(go(sizes[i], p, A, p, B, comm));
        }
    return RSH_OK;
}
/* PyTorch's defect B-36. */
static void drop_ins_move_dims_of_length_0(void **state) {
    (void)state;
    run_engines(W, empty_dims, NULL);
}

/* ---- tensors that require a gradient ---- */

static rsh_status gradients(void *ctx, rsh_comm *comm) {
    (void)ctx;
    (void)comm;
    rsh_torch_opts o = RSH_TORCH_OPTS_INIT;
    rsh_spec *rows, *columns;
    rsh_torch_tensor *a, *b;
    o.props.requires_grad = true;
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &rows));
    RSH_TRY(rsh_spec_chunk_ranks(-1, W, NULL, &columns));
    RSH_TRY(rsh_torch_zeros(rows, 2, (int64_t[]){4, 4}, &o, &a));
    RSH_TRY(rsh_torch_reshard(a, columns, &b));
    CHECK(rsh_torch_requires_grad(b) && rsh_torch_meta(b)->props.requires_grad);
    CHECK(rsh_torch_shard(b, 0)->props.requires_grad);
    rsh_torch_free(a), rsh_torch_free(b);
    rsh_spec_free(rows), rsh_spec_free(columns);
    return RSH_OK;
}
/* PyTorch's defect B-29. */
static void a_resharded_tensor_requires_a_gradient_as_its_source_does(void **state) {
    (void)state;
    run_engines(W, gradients, NULL);
}

/* ---- errors on one rank ---- */

static rsh_status refusals(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    int64_t size[2] = {6, 6};
    cutting a = cut_chunks(RSH_F32, 2, size, 0, W, NULL);
    rsh_spec *rows, *columns, *reversed, *few;
    rsh_torch_tensor *t, *made = NULL;
    rsh_tensor *local, *whole;
    rsh_shard got = {.tensor = NULL};
    rsh_shard_meta by_rank[W];
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &rows));
    RSH_TRY(rsh_spec_chunk_ranks(1, W, NULL, &columns));
    RSH_TRY(rsh_spec_chunk_ranks(0, W, (int[]){2, 1, 0}, &reversed));
    RSH_TRY(rsh_spec_chunk_ranks(1, W, (int[]){0, 1, 7}, &few));
    RSH_TRY(make_filled(rows, &a, NULL, &t));
    RSH_TRY(chunk_of(&a, me, &local));
    RSH_TRY(make_whole(&a, &whole));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_reshard(t, me == 1 ? NULL : columns, &made));
    CHECK_SAYS("spec and out must not be NULL");
    CHECK_STATUS(RSH_EVALUE, rsh_torch_reshard(t, me == 2 ? few : columns, &made));
    CHECK_SAYS("rank 2");
    CHECK_STATUS(RSH_EVALUE, rsh_torch_reshard(t, columns, me == 0 ? NULL : &made));
    CHECK_STATUS(RSH_EVALUE,
                 rsh_reshard_local_shard(me == 2 ? whole : local, 2, size, rows, columns, NULL, &got, by_rank));
    CHECK_SAYS("size 6 along dim 0");
    CHECK_STATUS(RSH_EVALUE,
                 rsh_reshuffle_local_shard(me == 1 ? NULL : local, 2, size, rows, reversed, NULL, &got, by_rank));
    CHECK_STATUS(RSH_EVALUE,
                 rsh_reshuffle_local_shard(local, 2, size, rows, me == 0 ? few : reversed, NULL, &got, by_rank));
    CHECK(!made && !got.tensor);
    RSH_TRY(rsh_torch_reshard(t, columns, &made)); /* all ranks continue */
    rsh_torch_free(made), rsh_torch_free(t);
    rsh_tensor_free(local), rsh_tensor_free(whole);
    rsh_spec_free(rows), rsh_spec_free(columns), rsh_spec_free(reversed), rsh_spec_free(few);
    return RSH_OK;
}
/* PyTorch's defect B-27. */
static void what_one_rank_refuses_reaches_all_in_reshard_and_the_drop_ins(void **state) {
    (void)state;
    run_engines(W, refusals, NULL);
}

/* ---- local steps ---- */

static rsh_status alone(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    rsh_tensor *x;
    rsh_shard s = {.tensor = NULL};
    RSH_TRY(rsh_tensor_zeros(RSH_F32, 1, (int64_t[]){4}, &x));
    rsh_status st = rsh_shard_from_tensor(x, me == 1 ? 2 : 1, (int64_t[]){4 * me, 0}, me, &s);
    CHECK((st == RSH_OK) == (me != 1));
    CHECK_STATUS(RSH_EVALUE, rsh_comm_agree(rsh_group_comm(NULL), st));
    CHECK_SAYS("rank 1");
    CHECK_SAYS("offsets");
    RSH_TRY(rsh_comm_agree(rsh_group_comm(NULL), RSH_OK));
    rsh_shard_clear(&s);
    rsh_tensor_free(x);
    return RSH_OK;
}
static void ranks_agree_on_how_making_their_shards_went(void **state) {
    (void)state;
    run_engines(W, alone, NULL);
}

/* Rank 1 cannot make its shard.  It continues with the next collective call of its program, which is not the others'
 * call. */
static rsh_status failing(void *ctx, rsh_comm *comm) {
    (void)ctx;
    int me = rsh_comm_rank(comm);
    rsh_tensor *x;
    rsh_shard s = {.tensor = NULL};
    rsh_torch_tensor *t = NULL;
    RSH_TRY(rsh_tensor_zeros(RSH_F32, 1, (int64_t[]){4}, &x));
    rsh_status st = rsh_shard_from_tensor(x, me == 1 ? 2 : 1, (int64_t[]){4 * me, 0}, me, &s);
    CHECK_STATUS(RSH_EMISMATCH,
                 st ? rsh_group_barrier(NULL) : rsh_torch_from_shards(1, &s, 1, (int64_t[]){4 * W}, NULL, &t));
    CHECK_SAYS("offsets");
    CHECK_SAYS("rank 1");
    RSH_TRY(rsh_group_barrier(NULL)); /* all ranks continue */
    rsh_shard_clear(&s);
    rsh_tensor_free(x);
    return RSH_OK;
}
static void the_others_learn_why_a_rank_has_no_shard_at_its_next_call(void **state) {
    (void)state;
    run_engines(W, failing, NULL);
}

/* An error from earlier calls must not be reported as the reason for being in a different call now. */
static rsh_status unrelated(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_layout *l = NULL;
    CHECK(rsh_layout_parse("nonsense", &l) == RSH_EVALUE);
    RSH_TRY(rsh_group_barrier(NULL));
    int me = rsh_comm_rank(comm);
    CHECK_STATUS(RSH_EMISMATCH, me == 1 ? rsh_group_barrier(NULL) : rsh_comm_agree(rsh_group_comm(NULL), RSH_OK));
    CHECK(!strstr(rsh_error_detail(), "last error"));
    return RSH_OK;
}
static void an_error_before_the_last_common_call_is_not_quoted(void **state) {
    (void)state;
    run_engines(W, unrelated, NULL);
}

int main(void) {
    setenv("RESHARD_TIMEOUT", "30", 0); /* if an error did not reach all ranks, they would wait for a long time */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drop_ins_take_dims_from_the_end),
        cmocka_unit_test(drop_ins_move_dims_of_length_0),
        cmocka_unit_test(a_resharded_tensor_requires_a_gradient_as_its_source_does),
        cmocka_unit_test(what_one_rank_refuses_reaches_all_in_reshard_and_the_drop_ins),
        cmocka_unit_test(ranks_agree_on_how_making_their_shards_went),
        cmocka_unit_test(the_others_learn_why_a_rank_has_no_shard_at_its_next_call),
        cmocka_unit_test(an_error_before_the_last_common_call_is_not_quoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
