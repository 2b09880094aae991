/* Wrong calls of sharded tensors: result pointers that are NULL, shards whose properties differ from those of their
 * tensors, and gradients of integers.  In a collective call, a mistake of one rank is an error on every rank. */
#include "whole.h"

#define W 3

typedef struct scene {
    rsh_spec *rows;
    rsh_torch_tensor *a; /* f32, 6 x 5, cut by rows */
    int64_t size[2];
    int me;
} scene;

static rsh_status set_up(scene *s, rsh_comm *comm) {
    s->me = rsh_comm_rank(comm);
    s->size[0] = 6, s->size[1] = 5;
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &s->rows));
    return rsh_torch_ones(s->rows, 2, s->size, NULL, &s->a);
}

static void tear_down(scene *s) {
    rsh_torch_free(s->a);
    rsh_spec_free(s->rows);
}

static rsh_status results_without_a_place(void *ctx, rsh_comm *comm) {
    (void)ctx;
    scene s;
    float one = 1;
    rsh_torch_tensor *t = NULL;
    RSH_TRY(set_up(&s, comm));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_empty(s.rows, 2, s.size, NULL, NULL));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_zeros(s.rows, 2, s.size, NULL, NULL));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_ones(s.rows, 2, s.size, NULL, NULL));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_full(s.rows, 2, s.size, &one, NULL, NULL));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_rand(s.rows, 2, s.size, NULL, NULL));
    CHECK_STATUS(RSH_EVALUE, rsh_torch_randn(s.rows, 2, s.size, NULL, NULL));
    rsh_shard own = *rsh_torch_shard(s.a, 0);
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards(1, &own, 2, s.size, NULL, s.me == 1 ? NULL : &t));
    CHECK(!t);
    CHECK_SAYS("out is NULL");
    RSH_TRY(rsh_torch_from_shards(1, &own, 2, s.size, NULL, &t));
    rsh_torch_free(t);
    tear_down(&s);
    return RSH_OK;
}

/* A shard is a struct that anybody can fill in; if it said f64 for a tensor of f32, reads would go beyond its end. */
static rsh_status properties_of_another_dtype(void *ctx, rsh_comm *comm) {
    (void)ctx;
    scene s;
    rsh_torch_tensor *t = NULL;
    rsh_tensor_meta *m;
    RSH_TRY(set_up(&s, comm));
    rsh_shard own = *rsh_torch_shard(s.a, 0);
    own.props.dtype = RSH_F64;
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards(1, &own, 2, s.size, NULL, &t));
    CHECK_SAYS("f64");
    RSH_TRY(rsh_tensor_meta_copy(rsh_torch_meta(s.a), &m));
    m->props.dtype = RSH_F64;
    CHECK_STATUS(RSH_EVALUE, rsh_torch_from_shards_and_meta(1, &own, m, NULL, NULL, &t));
    CHECK(!t);
    rsh_tensor_meta_free(m);
    tear_down(&s);
    return RSH_OK;
}

static rsh_status gradients_of_integers(void *ctx, rsh_comm *comm) {
    (void)ctx;
    scene s;
    rsh_torch_tensor *t = NULL;
    rsh_tensor *whole, *local;
    rsh_torch_opts o = RSH_TORCH_OPTS_INIT;
    rsh_shard own;
    RSH_TRY(set_up(&s, comm));
    o.props.dtype = RSH_I32;
    o.props.requires_grad = true;
    CHECK_STATUS(RSH_ERUNTIME, rsh_torch_zeros(s.rows, 2, s.size, &o, &t));
    RSH_TRY(rsh_tensor_zeros(RSH_I32, 2, s.size, &whole));
    RSH_TRY(rsh_tensor_zeros(RSH_I32, 2, (int64_t[]){2, 5}, &local));
    CHECK_STATUS(RSH_ERUNTIME, rsh_shard_tensor(whole, s.rows, 0, NULL, &o.props, &t));
    CHECK_STATUS(RSH_ERUNTIME, rsh_torch_scatter(whole, s.rows, 0, NULL, &o.props, &t));
    CHECK_STATUS(RSH_ERUNTIME, rsh_torch_from_tensor(local, &o.props, s.rows, 2, s.size, NULL, &t));
    RSH_TRY(rsh_shard_from_tensor(local, 2, (int64_t[]){2 * s.me, 0}, s.me, &own));
    own.props.requires_grad = true;
    CHECK_STATUS(RSH_ERUNTIME, rsh_torch_from_shards(1, &own, 2, s.size, NULL, &t));
    CHECK(!t);
    rsh_shard_clear(&own);
    rsh_tensor_free(whole), rsh_tensor_free(local);
    tear_down(&s);
    return RSH_OK;
}

/* Counts the live allocations of all ranks. */
static rsh_status count_live(rsh_comm *comm, int64_t *out) {
    int64_t mine = (int64_t)rsh_alloc_get_stats().live;
    return rsh_comm_allreduce(comm, &mine, out, 1, RSH_I64, RSH_OP_SUM);
}

static rsh_status group_first(rsh_comm *comm, const scene *s, const rsh_spec *columns) {
    rsh_torch_opts o = RSH_TORCH_OPTS_INIT;
    rsh_torch_tensor *a, *b;
    RSH_TRY(rsh_group_new(W, (int[]){0, 1, 2}, &o.group));
    RSH_TRY(rsh_torch_ones(s->rows, 2, s->size, &o, &a));
    RSH_TRY(rsh_torch_ones(columns, 2, s->size, &o, &b));
    RSH_TRY(rsh_torch_reshard_into(a, b));
    rsh_group_free(o.group);
    rsh_torch_free(a), rsh_torch_free(b);
    return rsh_comm_barrier(comm);
}

/* Freed too late, but nothing leaks: a leaked comm would be several allocations on each rank every time, whereas what
 * an engine keeps for reuse changes by one. */
static rsh_status freed_after_the_group(void *ctx, rsh_comm *comm) {
    (void)ctx;
    scene s;
    rsh_spec *columns;
    int64_t before, after;
    RSH_TRY(set_up(&s, comm));
    RSH_TRY(rsh_spec_chunk_ranks(1, W, NULL, &columns));
    RSH_TRY(group_first(comm, &s, columns));
    RSH_TRY(count_live(comm, &before));
    for (int i = 0; i < 10; i++) RSH_TRY(group_first(comm, &s, columns));
    RSH_TRY(count_live(comm, &after));
    RSH_REQUIRE(after < before + 10, RSH_ERUNTIME, "%lld allocations before, %lld after", (long long)before,
                (long long)after);
    rsh_spec_free(columns);
    tear_down(&s);
    return RSH_OK;
}

static rsh_status destroyed_too_early(void *ctx, rsh_comm *comm) {
    (void)ctx;
    scene s;
    rsh_group *g;
    rsh_torch_opts opts = RSH_TORCH_OPTS_INIT;
    rsh_torch_tensor *t;
    rsh_partial *p;
    RSH_TRY(set_up(&s, comm));
    CHECK_STATUS(RSH_EBUSY, rsh_group_destroy());
    CHECK(!strcmp(rsh_error_detail(), "cannot destroy the default group: it is still used by 1 tensor"));
    RSH_TRY(rsh_partial_new(rsh_torch_shard(s.a, 0)->tensor, RSH_OP_SUM, NULL, &p));
    RSH_TRY(rsh_group_new(W, (int[]){0, 1, 2}, &g));
    opts.group = g;
    RSH_TRY(rsh_torch_ones(s.rows, 2, s.size, &opts, &t));
    rsh_group_free(g);
    rsh_torch_free(s.a);
    CHECK_STATUS(RSH_EBUSY, rsh_group_destroy());
    rsh_torch_free(t); /* its subgroup no longer exists */
    CHECK_STATUS(RSH_EBUSY, rsh_group_destroy());
    rsh_partial_free(p);
    rsh_spec_free(s.rows);
    return RSH_OK; /* the caller destroys the group */
}

static void a_group_with_tensors_is_not_destroyed(void **state) {
    (void)state;
    run_engines(W, destroyed_too_early, NULL);
}
static void a_tensor_freed_after_its_group_leaves_nothing_behind(void **state) {
    (void)state;
    run_engines(W, freed_after_the_group, NULL);
}
static void a_result_needs_a_place_on_every_rank(void **state) {
    (void)state;
    run_engines(W, results_without_a_place, NULL);
}
static void a_shard_has_the_dtype_of_its_tensor(void **state) {
    (void)state;
    run_engines(W, properties_of_another_dtype, NULL);
}
static void integers_have_no_gradient_however_the_tensor_is_made(void **state) {
    (void)state;
    run_engines(W, gradients_of_integers, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_with_tensors_is_not_destroyed),
        cmocka_unit_test(a_result_needs_a_place_on_every_rank),
        cmocka_unit_test(a_shard_has_the_dtype_of_its_tensor),
        cmocka_unit_test(a_tensor_freed_after_its_group_leaves_nothing_behind),
        cmocka_unit_test(integers_have_no_gradient_however_the_tensor_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
