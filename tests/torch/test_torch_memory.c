/* Memory runs out on one rank, at every allocation of each collective call: every rank gets the same error, and all
 * continue. */
#include "kept.h"
#include "whole.h"

#define W 2

/* The objects that the calls use, created while there is enough memory. */
typedef struct scene {
    rsh_comm *comm;
    int me;
    cutting rows, columns;
    rsh_spec *by_rows, *by_columns;
    rsh_tensor *whole;
    rsh_torch_tensor *a, *b; /* cut by rows, and by columns */
    rsh_shard own; /* a shard of a */
    rsh_partial *partial;
    bytes state; /* saved state of a */
} scene;

static rsh_status set_up(scene *s) {
    int64_t size[2] = {6, 5};
    s->me = rsh_comm_rank(s->comm);
    s->rows = cut_chunks(RSH_F32, 2, size, 0, W, NULL);
    s->columns = cut_chunks(RSH_F32, 2, size, 1, W, NULL);
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &s->by_rows));
    RSH_TRY(rsh_spec_chunk_ranks(1, W, NULL, &s->by_columns));
    RSH_TRY(make_whole(&s->rows, &s->whole));
    RSH_TRY(make_filled(s->by_rows, &s->rows, NULL, &s->a));
    RSH_TRY(make_filled(s->by_columns, &s->columns, NULL, &s->b));
    RSH_TRY(rsh_shard_from_tensor(rsh_torch_shard(s->a, 0)->tensor, 2, s->rows.pieces[s->me].lo, s->me, &s->own));
    RSH_TRY(rsh_partial_new(s->whole, RSH_OP_MAX, NULL, &s->partial));
    return rsh_torch_save(s->a, &(rsh_sink){keep, &s->state});
}

static void tear_down(scene *s) {
    free(s->state.data);
    rsh_partial_free(s->partial);
    rsh_shard_clear(&s->own);
    rsh_torch_free(s->a), rsh_torch_free(s->b);
    rsh_tensor_free(s->whole);
    rsh_spec_free(s->by_rows), rsh_spec_free(s->by_columns);
}

/* A call returns a tensor that is compared with rows (or columns, if it says so), or none. */
typedef struct call {
    const char *name;
    rsh_status (*go)(scene *s, rsh_torch_tensor **out);
    bool columns;
} call;

static rsh_status go_shard(scene *s, rsh_torch_tensor **out) {
    return rsh_shard_tensor(s->whole, s->by_rows, 1, NULL, NULL, out);
}
static rsh_status go_scatter(scene *s, rsh_torch_tensor **out) {
    return rsh_torch_scatter(s->whole, s->by_columns, 0, NULL, NULL, out);
}
static rsh_status go_shards(scene *s, rsh_torch_tensor **out) {
    return rsh_torch_from_shards(1, &s->own, 2, s->rows.size, NULL, out);
}
static rsh_status go_reshard(scene *s, rsh_torch_tensor **out) { return rsh_torch_reshard(s->a, s->by_columns, out); }
static rsh_status go_partial(scene *s, rsh_torch_tensor **out) {
    return rsh_partial_reshard(s->partial, s->by_columns, out);
}
static rsh_status go_load(scene *s, rsh_torch_tensor **out) {
    const void *data = s->state.data;
    return rsh_torch_load_resharded(1, &data, &s->state.n, s->by_columns, out);
}
static rsh_status go_gather(scene *s, rsh_torch_tensor **out) {
    (void)out;
    return rsh_torch_gather(s->b, 1, s->me == 1 ? s->whole : NULL);
}
static rsh_status go_into(scene *s, rsh_torch_tensor **out) {
    (void)out;
    return rsh_torch_reshard_into(s->a, s->b);
}
static rsh_status go_equal(scene *s, rsh_torch_tensor **out) {
    bool same;
    (void)out;
    return rsh_torch_equal(s->a, s->a, &same);
}
static rsh_status go_chunk(scene *s, rsh_torch_tensor **out) {
    rsh_shard got;
    rsh_shard_meta by_rank[W];
    (void)out;
    RSH_TRY(rsh_reshard_local_shard(s->own.tensor, 2, s->rows.size, s->by_rows, s->by_columns, NULL, &got, by_rank));
    rsh_shard_clear(&got);
    return RSH_OK;
}

static const call calls[] = {{"shard_tensor", go_shard, false},
                             {"scatter", go_scatter, true},
                             {"from_shards", go_shards, false},
                             {"reshard", go_reshard, true},
                             {"partial_reshard", go_partial, true},
                             {"load_as", go_load, true},
                             {"gather", go_gather, false},
                             {"reshard_into", go_into, false},
                             {"equal", go_equal, false},
                             {"reshard_local_shard", go_chunk, false}};

/* The n-th allocation of rank 1 fails, for n = 0, 1, ... until the call makes fewer. */
static rsh_status starve(scene *s, const call *c, int *refused) {
    for (int n = 0;; n++) {
        rsh_torch_tensor *t = NULL;
        rsh_status all[W];
        uint64_t before = rsh_alloc_get_stats().allocations;
        if (s->me == 1) rsh_alloc_fail_at(n);
        rsh_status st = c->go(s, &t);
        if (s->me == 1) rsh_alloc_fail_at(-1);
        int64_t asked[W], mine = (int64_t)(rsh_alloc_get_stats().allocations - before);
        RSH_REQUIRE(st == RSH_OK || st == RSH_ENOMEM, RSH_ERUNTIME, "%s, request %d: %s", c->name, n,
                    rsh_error_detail());
        RSH_TRY(rsh_comm_allgather(s->comm, &st, all, sizeof st));
        RSH_TRY(rsh_comm_allgather(s->comm, &mine, asked, sizeof mine));
        RSH_REQUIRE(all[0] == all[1] && (!st || !t), RSH_ERUNTIME, "%s, request %d: ranks got %d and %d", c->name, n,
                    all[0], all[1]);
        if (t) RSH_TRY(check_st(t, c->columns ? &s->columns : &s->rows, s->me));
        rsh_torch_free(t);
        *refused += st != RSH_OK;
        if (!st && asked[1] <= n) return RSH_OK;
        CHECK(n < 3000);
    }
}

static rsh_status starve_all(void *ctx, rsh_comm *comm) {
    (void)ctx;
    scene s = {.comm = comm};
    RSH_TRY(set_up(&s));
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int refused = 0;
        RSH_TRY(starve(&s, &calls[i], &refused));
        CHECK(refused > 3 || calls[i].go == go_equal);
    }
    RSH_TRY(check_st(s.a, &s.rows, s.me));
    RSH_TRY(check_st(s.b, &s.columns, s.me));
    tear_down(&s);
    return RSH_OK;
}

/* PyTorch's defect B-27. */
static void no_memory_on_one_rank_is_told_to_all(void **state) {
    (void)state;
    run_engines(W, starve_all, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_memory_on_one_rank_is_told_to_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
