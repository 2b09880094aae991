/* Ranks in different calls: whichever two collective calls of the library meet, every rank gets an error, none waits,
 * and the group works afterwards. */
#include "kept.h"
#include "whole.h"

#define W 3

/* The objects that the calls use. */
typedef struct scene {
    rsh_comm *comm;
    int me;
    int64_t size[2], share[2];
    rsh_spec *rows, *columns, *reversed;
    rsh_tensor *whole, *other, *own; /* two tensors of 6 x 6, and one of 2 x 6 */
    rsh_torch_tensor *a, *b;                   /* cut by rows, and by columns */
    rsh_shard shard;                 /* a shard of a */
    rsh_partial *partial;
    rsh_sharded *core, *core_to; /* the core's tensors of a and b */
    bytes state; /* saved state of a */
} scene;

static rsh_status set_up(scene *s) {
    int back[W] = {2, 1, 0};
    s->me = rsh_comm_rank(s->comm);
    s->size[0] = s->size[1] = 6;
    s->share[0] = 2, s->share[1] = 6;
    RSH_TRY(rsh_spec_chunk_ranks(0, W, NULL, &s->rows));
    RSH_TRY(rsh_spec_chunk_ranks(1, W, NULL, &s->columns));
    RSH_TRY(rsh_spec_chunk_ranks(0, W, back, &s->reversed));
    RSH_TRY(rsh_tensor_zeros(RSH_F32, 2, s->size, &s->whole));
    RSH_TRY(rsh_tensor_zeros(RSH_F32, 2, s->size, &s->other));
    RSH_TRY(rsh_tensor_zeros(RSH_F32, 2, s->share, &s->own));
    RSH_TRY(rsh_torch_ones(s->rows, 2, s->size, NULL, &s->a));
    RSH_TRY(rsh_torch_ones(s->columns, 2, s->size, NULL, &s->b));
    RSH_TRY(rsh_shard_from_tensor(s->own, 2, (int64_t[]){2 * s->me, 0}, s->me, &s->shard));
    RSH_TRY(rsh_partial_new(s->whole, RSH_OP_SUM, NULL, &s->partial));
    RSH_TRY(rsh_torch_sharded(s->a, &s->core));
    RSH_TRY(rsh_torch_sharded(s->b, &s->core_to));
    return rsh_torch_save(s->a, &(rsh_sink){keep, &s->state});
}

static void tear_down(scene *s) {
    free(s->state.data);
    rsh_sharded_free(s->core), rsh_sharded_free(s->core_to);
    rsh_partial_free(s->partial);
    rsh_shard_clear(&s->shard);
    rsh_torch_free(s->a), rsh_torch_free(s->b);
    rsh_tensor_free(s->whole), rsh_tensor_free(s->other), rsh_tensor_free(s->own);
    rsh_spec_free(s->rows), rsh_spec_free(s->columns), rsh_spec_free(s->reversed);
}

/* ---- all collective calls; each returns the tensor that it made ---- */

static rsh_status done(rsh_status st, rsh_torch_tensor **made) {
    if (!st) rsh_torch_free(*made);
    return st;
}
static rsh_status go_shard(scene *s) {
    rsh_torch_tensor *t;
    return done(rsh_shard_tensor(s->whole, s->rows, 0, NULL, NULL, &t), &t);
}
static rsh_status go_st_scatter(scene *s) {
    rsh_torch_tensor *t;
    return done(rsh_torch_scatter(s->whole, s->rows, 0, NULL, NULL, &t), &t);
}
static rsh_status go_from_shards(scene *s) {
    rsh_torch_tensor *t;
    return done(rsh_torch_from_shards(1, &s->shard, 2, s->size, NULL, &t), &t);
}
static rsh_status go_reshard(scene *s) {
    rsh_torch_tensor *t;
    return done(rsh_torch_reshard(s->a, s->columns, &t), &t);
}
static rsh_status go_partial(scene *s) {
    rsh_torch_tensor *t;
    return done(rsh_partial_reshard(s->partial, s->rows, &t), &t);
}
static rsh_status go_load(scene *s) {
    rsh_torch_tensor *t;
    const void *data = s->state.data;
    return done(rsh_torch_load_resharded(1, &data, &s->state.n, s->columns, &t), &t);
}
static rsh_status go_into(scene *s) { return rsh_torch_reshard_into(s->a, s->b); }
static rsh_status go_st_gather(scene *s) { return rsh_torch_gather(s->a, 0, s->me ? NULL : s->whole); }
static rsh_status go_equal(scene *s) {
    bool same;
    return rsh_torch_equal(s->a, s->a, &same);
}
static rsh_status go_close(scene *s) {
    bool same;
    return rsh_torch_allclose(s->a, s->a, 1, 1, false, &same);
}
static rsh_status go_chunk(scene *s) {
    rsh_shard got;
    rsh_shard_meta by_rank[W];
    RSH_TRY(rsh_reshard_local_shard(s->own, 2, s->size, s->rows, s->columns, NULL, &got, by_rank));
    rsh_shard_clear(&got);
    return RSH_OK;
}
static rsh_status go_reshuffle(scene *s) {
    rsh_shard got;
    rsh_shard_meta by_rank[W];
    RSH_TRY(rsh_reshuffle_local_shard(s->own, 2, s->size, s->rows, s->reversed, NULL, &got, by_rank));
    rsh_shard_clear(&got);
    return RSH_OK;
}

static rsh_status go_new_group(scene *s) {
    rsh_group *g;
    (void)s;
    RSH_TRY(rsh_group_new(2, (int[]){0, 1}, &g));
    rsh_group_free(g);
    return RSH_OK;
}
static rsh_status go_barrier(scene *s) {
    (void)s;
    return rsh_group_barrier(NULL);
}
static rsh_status go_object(scene *s) {
    rsh_objects *o;
    RSH_TRY(rsh_group_all_gather_object(NULL, s->size, sizeof s->size, &o));
    rsh_objects_free(o);
    return RSH_OK;
}
static rsh_status go_broadcast(scene *s) { return rsh_group_broadcast(NULL, s->whole, 0); }
static rsh_status go_scatter(scene *s) {
    const rsh_tensor *list[W] = {s->whole, s->whole, s->whole};
    return rsh_group_scatter(NULL, s->other, s->me ? 0 : W, s->me ? NULL : list, 0);
}
static rsh_status go_gather(scene *s) {
    rsh_tensor *list[W] = {s->whole, s->whole, s->whole};
    return rsh_group_gather(NULL, s->other, s->me ? 0 : W, s->me ? NULL : list, 0);
}
static rsh_status go_all_gather(scene *s) {
    rsh_tensor *list[W] = {s->whole, s->whole, s->whole};
    return rsh_group_all_gather(NULL, W, list, s->other);
}
static rsh_status go_all_reduce(scene *s) { return rsh_group_all_reduce(NULL, s->whole, RSH_OP_SUM); }
static rsh_status go_reduce(scene *s) { return rsh_group_reduce(NULL, s->whole, RSH_OP_SUM, 0); }
static rsh_status go_reduce_scatter(scene *s) {
    const rsh_tensor *list[W] = {s->whole, s->whole, s->whole};
    return rsh_group_reduce_scatter(NULL, s->other, W, list, RSH_OP_SUM);
}
static rsh_status go_all_to_all(scene *s) {
    const rsh_tensor *in[W] = {s->whole, s->whole, s->whole};
    rsh_tensor *out[W] = {s->other, s->other, s->other};
    return rsh_group_all_to_all(NULL, W, out, in);
}
static rsh_status go_single(scene *s) { return rsh_group_all_to_all_single(NULL, s->whole, s->other, NULL, NULL); }

static rsh_status go_agree(scene *s) { return rsh_comm_agree(s->comm, RSH_OK); }
static rsh_status go_allgather(scene *s) {
    int all[W];
    return rsh_comm_allgather(s->comm, &s->me, all, sizeof s->me);
}
static rsh_status go_allreduce(scene *s) {
    float x = 1, sum;
    return rsh_comm_allreduce(s->comm, &x, &sum, 1, RSH_F32, RSH_OP_SUM);
}
static rsh_status go_exchange(scene *s) { return rsh_comm_exchange(s->comm, 0, NULL, 0, NULL); }
static rsh_status go_core(scene *s) {
    rsh_sharded *made;
    RSH_TRY(rsh_reshard(s->core, rsh_sharded_layout(s->core_to), NULL, &made));
    rsh_sharded_free(made);
    return RSH_OK;
}
static rsh_status go_core_into(scene *s) { return rsh_reshard_into(s->core, s->core_to, NULL); }
static rsh_status go_core_gather(scene *s) {
    rsh_memory memory = {rsh_tensor_data(s->whole), NULL};
    return rsh_sharded_gather(s->core, 0, s->me ? NULL : &memory);
}

typedef struct call {
    const char *name;
    rsh_status (*go)(scene *s);
} call;

static const call calls[] = {{"shard_tensor", go_shard},
                             {"torch_scatter", go_st_scatter},
                             {"torch_from_shards", go_from_shards},
                             {"torch_reshard", go_reshard},
                             {"partial_reshard", go_partial},
                             {"torch_load_as", go_load},
                             {"torch_reshard_into", go_into},
                             {"torch_gather", go_st_gather},
                             {"torch_equal", go_equal},
                             {"torch_allclose", go_close},
                             {"reshard_local_shard", go_chunk},
                             {"reshuffle_local_shard", go_reshuffle},
                             {"group_new", go_new_group},
                             {"barrier", go_barrier},
                             {"all_gather_object", go_object},
                             {"broadcast", go_broadcast},
                             {"scatter", go_scatter},
                             {"gather", go_gather},
                             {"all_gather", go_all_gather},
                             {"all_reduce", go_all_reduce},
                             {"reduce", go_reduce},
                             {"reduce_scatter", go_reduce_scatter},
                             {"all_to_all", go_all_to_all},
                             {"all_to_all_single", go_single},
                             {"agree", go_agree},
                             {"allgather", go_allgather},
                             {"allreduce", go_allreduce},
                             {"exchange", go_exchange},
                             {"reshard", go_core},
                             {"reshard_into", go_core_into},
                             {"rsh_sharded_gather", go_core_gather}};
enum { CALLS = sizeof calls / sizeof *calls };

/* One rank makes one call and the others another: all ranks get the same error, and then all can make the first call
 * together. */
static rsh_status cross(scene *s, const call *one, const call *others, int alone) {
    rsh_status st = (s->me == alone ? one : others)->go(s);
    RSH_REQUIRE(st == RSH_EMISMATCH, RSH_ERUNTIME, "rank %d in %s, others in %s: %s, %s", alone, one->name,
                others->name, rsh_status_name(st), rsh_error_detail());
    st = one->go(s);
    RSH_REQUIRE(!st, RSH_ERUNTIME, "%s after having met %s: %s", one->name, others->name, rsh_error_detail());
    return RSH_OK;
}

static rsh_status cross_all(void *ctx, rsh_comm *comm) {
    (void)ctx;
    scene s = {.comm = comm};
    RSH_TRY(set_up(&s));
    for (int i = 0; i < CALLS; i++) {
        RSH_REQUIRE(!calls[i].go(&s), RSH_ERUNTIME, "%s alone: %s", calls[i].name, rsh_error_detail());
        for (int k = 0; k < CALLS; k++)
            if (k != i) RSH_TRY(cross(&s, &calls[i], &calls[k], (i + k) % W));
    }
    tear_down(&s);
    return RSH_OK;
}

static void whatever_calls_meet_every_rank_is_told_and_the_group_works_on(void **state) {
    (void)state;
    run_engines(W, cross_all, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whatever_calls_meet_every_rank_is_told_and_the_group_works_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
