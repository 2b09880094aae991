/* One-shot moves in a loop: the comm caches plans and bindings, whatever memory the tensors have. */
#include "ramp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/mailboxes.h"
#include "comm/ranks.h"

static rsh_cache_stats stats_of(rsh_comm *comm) {
    rsh_cache_stats s = RSH_CACHE_STATS_INIT;
    rsh_comm_get_cache_stats(comm, &s);
    return s;
}

/* ---- new memory every time ---- */

static rsh_status reshards_often(void *ctx, rsh_comm *comm) {
    const rsh_plan_opts *opts = ctx;
    rsh_layout *from = NULL, *to = NULL;
    rsh_sharded *src[3] = {NULL}, *dst[5] = {NULL};
    RSH_TRY(rsh_layout_parse("f32[24/x, 20] on x=4", &from));
    RSH_TRY(rsh_layout_parse("f32[24, 20/x] on x=4", &to));
    for (int i = 0; i < 3; i++) RSH_TRY(make_source(comm, from, &src[i]));
    for (int i = 0; i < 30; i++) { /* five results are kept alive, so that addresses differ from call to call */
        rsh_sharded_free(dst[i % 5]);
        dst[i % 5] = NULL;
        RSH_TRY(rsh_reshard(src[i % 3], to, opts, &dst[i % 5]));
        RSH_TRY(check_result(dst[i % 5]));
    }
    rsh_cache_stats s = stats_of(comm);
    CHECK(s.misses == 1 && s.hits == 29 && s.bindings == 1);
    for (int i = 0; i < 5; i++) rsh_sharded_free(dst[i]);
    for (int i = 0; i < 3; i++) rsh_sharded_free(src[i]);
    rsh_layout_free(from);
    rsh_layout_free(to);
    return RSH_OK;
}
static void new_memory_of_known_shapes_is_bound_once(void **state) {
    (void)state;
    run_ranks(RANKS, reshards_often, NULL);
}
static void messages_are_bound_once_too(void **state) {
    (void)state;
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    opts.messages = true;
    run_ranks(RANKS, reshards_often, &opts);
}

/* ---- one rank differs ---- */

/* Creates this rank's rows with `gap` elements between them. */
static rsh_status spread_rows(rsh_comm *comm, const rsh_layout *l, int64_t gap, float *room, rsh_sharded **out) {
    rsh_part part;
    RSH_TRY(rsh_layout_part(l, rsh_comm_rank(comm), 0, &part));
    int64_t strides[2] = {part.shape[1] + gap, 1};
    for (int64_t i = 0; i < part.count; i++)
        room[i / part.shape[1] * strides[0] + i % part.shape[1]] = (float)index_at(l, rsh_comm_rank(comm), 0, i);
    return rsh_sharded_wrap(comm, l, &(rsh_memory){room, strides}, out);
}

static rsh_status differs_on_one_rank(void *ctx, rsh_comm *comm) {
    (void)ctx;
    enum { TURNS = 12 };
    /* the rank whose rows have gaps; -1: none */
    static const int who[TURNS] = {-1, -1, 2, 2, -1, 0, -1, 2, 3, 3, -1, -1};
    rsh_layout *from = NULL, *to = NULL;
    float room[2000];
    RSH_TRY(rsh_layout_parse("f32[24/x, 20] on x=4", &from));
    RSH_TRY(rsh_layout_parse("f32[24, 20/x] on x=4", &to));
    for (int i = 0; i < TURNS; i++) {
        rsh_sharded *src = NULL, *dst = NULL;
        RSH_TRY(spread_rows(comm, from, who[i] == rsh_comm_rank(comm) ? 3 : 0, room, &src));
        RSH_TRY(rsh_reshard(src, to, NULL, &dst));
        RSH_TRY(check_result(dst));
        rsh_sharded_free(src);
        rsh_sharded_free(dst);
    }
    rsh_cache_stats s = stats_of(comm);
    CHECK(s.hits + s.misses == TURNS);
    uint64_t mine = s.hits, all[RANKS];
    RSH_TRY(rsh_comm_allgather(comm, &mine, all, sizeof mine));
    for (int r = 0; r < RANKS; r++) CHECK(all[r] == mine); /* a miss on one rank is a miss on all */
    rsh_layout_free(from);
    rsh_layout_free(to);
    return RSH_OK;
}
static void a_miss_on_one_rank_binds_anew_on_all(void **state) {
    (void)state;
    run_ranks(RANKS, differs_on_one_rank, NULL);
}

/* ---- an error in between ---- */

static rsh_status refuses_between(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_layout *from = NULL, *to = NULL;
    rsh_sharded *src = NULL, *dst = NULL;
    RSH_TRY(rsh_layout_parse("f32[24/x, 20] on x=4", &from));
    RSH_TRY(rsh_layout_parse("f32[24, 20/x] on x=4", &to));
    RSH_TRY(make_source(comm, from, &src));
    for (int i = 0; i < 6; i++) {
        bool refuses = i % 2 && rsh_comm_rank(comm) == 1;
        rsh_status st = rsh_reshard(src, refuses ? NULL : to, NULL, &dst);
        CHECK(st == (i % 2 ? RSH_EVALUE : RSH_OK));
        if (st) continue;
        RSH_TRY(check_result(dst));
        rsh_sharded_free(dst);
    }
    rsh_sharded_free(src);
    rsh_layout_free(from);
    rsh_layout_free(to);
    return RSH_OK;
}
static void a_refusal_does_not_spoil_what_is_remembered(void **state) {
    (void)state;
    run_ranks(RANKS, refuses_between, NULL);
}

/* ---- more than the cache can hold ---- */

static rsh_status reshard_wide(rsh_comm *comm, int64_t columns) {
    char text[2][64];
    rsh_layout *from = NULL, *to = NULL;
    rsh_sharded *src = NULL, *dst = NULL;
    snprintf(text[0], sizeof text[0], "f32[4/x, %lld] on x=2", (long long)columns);
    snprintf(text[1], sizeof text[1], "f32[4, %lld/x] on x=2", (long long)columns);
    RSH_TRY(rsh_layout_parse(text[0], &from));
    RSH_TRY(rsh_layout_parse(text[1], &to));
    RSH_TRY(make_source(comm, from, &src));
    RSH_TRY(rsh_reshard(src, to, NULL, &dst));
    RSH_TRY(check_result(dst));
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    rsh_layout_free(from);
    rsh_layout_free(to);
    return RSH_OK;
}

static rsh_status thrashes(void *ctx, rsh_comm *comm) {
    (void)ctx;
    enum { KINDS = 1100, KEPT = 1024 };
    for (int i = 0; i < KINDS; i++) RSH_TRY(reshard_wide(comm, 2 + i));
    CHECK(stats_of(comm).misses == KINDS && stats_of(comm).bindings == KEPT);
    for (int i = KINDS - KEPT; i < KINDS; i++) RSH_TRY(reshard_wide(comm, 2 + i)); /* all are still cached */
    CHECK(stats_of(comm).hits == KEPT && stats_of(comm).misses == KINDS);
    RSH_TRY(reshard_wide(comm, 2)); /* no longer cached */
    CHECK(stats_of(comm).misses == KINDS + 1 && stats_of(comm).bindings == KEPT);
    return RSH_OK;
}
static void a_thousand_and_twenty_four_bindings_are_remembered(void **state) {
    (void)state;
    if (here->wire) return; /* on wires the table is the same, and this takes long */
    run_ranks(2, thrashes, NULL);
}

/* ---- lifetimes ---- */

static rsh_status keeps_plans(void *ctx, rsh_comm *comm) {
    rsh_plan **held = ctx;
    rsh_layout *from = NULL, *to = NULL;
    RSH_TRY(rsh_layout_parse("f32[8/x] on x=2", &from));
    RSH_TRY(rsh_layout_parse("f32[8] on x=2", &to));
    rsh_plan *plan = NULL;
    RSH_TRY(rsh_plan_new(from, to, NULL, &plan));
    held[rsh_comm_rank(comm)] = rsh_plan_hold(plan);
    rsh_sharded *src = NULL, *dst = NULL;
    RSH_TRY(make_source(comm, from, &src));
    RSH_TRY(rsh_sharded_empty(comm, to, &dst));
    const rsh_tensor *a = rsh_sharded_part(src, 0), *b = rsh_sharded_part(dst, 0);
    rsh_exec *e = NULL;
    RSH_TRY(rsh_exec_bind(plan, comm, &(rsh_memory){rsh_tensor_data(a), NULL}, &(rsh_memory){rsh_tensor_data(b), NULL},
                          &e));
    rsh_plan_free(plan); /* the exec holds a reference */
    rsh_layout_free(from);
    rsh_layout_free(to);
    RSH_TRY(rsh_exec_run(e));
    RSH_TRY(check_result(dst));
    CHECK(rsh_comm_free(comm) == RSH_EBUSY);
    rsh_exec_free(e);
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    return RSH_OK;
}
static void a_plan_is_held_by_execs_and_may_outlive_the_comm(void **state) {
    (void)state;
    rsh_plan *held[2] = {NULL, NULL};
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    run_ranks(2, keeps_plans, held);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(rsh_plan_get_totals(held[r], &t), RSH_OK);
        assert_int_equal(t.bytes_moved, 32);
        rsh_plan_free(held[r]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_memory_of_known_shapes_is_bound_once),
        cmocka_unit_test(messages_are_bound_once_too),
        cmocka_unit_test(a_miss_on_one_rank_binds_anew_on_all),
        cmocka_unit_test(a_refusal_does_not_spoil_what_is_remembered),
        cmocka_unit_test(a_thousand_and_twenty_four_bindings_are_remembered),
        cmocka_unit_test(a_plan_is_held_by_execs_and_may_outlive_the_comm),
    };
    return RUN_EVERYWHERE(tests);
}
