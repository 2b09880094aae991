/* Team: ranks that share cores make one another's moves.  Tests runs, changing memory, refusals, and ranks that
 * leave. */
#include "one_core.h"

#include "shard/team.h"

#define WIDE "f32[40/x, 36] on x=%d"
#define TALL "f32[40, 36/x] on x=%d"

static rsh_status bind_team(rsh_comm *comm, int n, bound *b) {
    char from[64], to[64];
    snprintf(from, sizeof from, WIDE, n);
    snprintf(to, sizeof to, TALL, n);
    RSH_TRY(bind_on(&(scene){.where = THREADS}, comm, from, to, b));
    CHECK(!b->exec->team == !(b->exec->npeers > 1)); /* ranks without a part are not members */
    return RSH_OK;
}

static void clear(const bound *b) {
    const rsh_memory dst = memory_of(b->dst);
    if (dst.data) memset(dst.data, 0xff, (size_t)rsh_tensor_count(rsh_sharded_part(b->dst, 0)) * 4);
}

static rsh_status run_again_and_again(void *ctx, rsh_comm *comm) {
    bound b;
    RSH_TRY(bind_team(comm, *(int *)ctx, &b));
    for (int i = 0; i < 50; i++) {
        clear(&b);
        RSH_TRY(rsh_exec_run(b.exec));
        CHECK(check_result(b.dst) == RSH_OK);
    }
    unbind(&b);
    return RSH_OK;
}

/* With 23 ranks some only have rows, and with 64 some have no part at all. */
static void every_run_moves_everything(void **state) {
    (void)state;
    on_ranks(2, run_again_and_again);
    on_ranks(5, run_again_and_again);
    on_ranks(23, run_again_and_again);
    on_ranks(64, run_again_and_again);
}

/* Every second run is on other memory than the bound one. */
static rsh_status run_elsewhere(void *ctx, rsh_comm *comm) {
    bound b;
    rsh_sharded *src = NULL, *dst = NULL;
    RSH_TRY(bind_team(comm, *(int *)ctx, &b));
    RSH_TRY(make_source(comm, b.from, &src));
    RSH_TRY(rsh_sharded_zeros(comm, b.to, &dst));
    rsh_memory from = memory_of(src), to = memory_of(dst);
    for (int i = 0; i < 20; i++) {
        const rsh_tensor *part = rsh_sharded_nparts(dst) ? rsh_sharded_part(dst, 0) : NULL;
        if (part) memset(rsh_tensor_data(part), 0xff, (size_t)rsh_tensor_count(part) * 4);
        clear(&b);
        RSH_TRY(rsh_exec_run_on(b.exec, &from, &to));
        CHECK(check_result(dst) == RSH_OK);
        RSH_TRY(rsh_exec_run(b.exec));
        CHECK(check_result(b.dst) == RSH_OK);
    }
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    unbind(&b);
    return RSH_OK;
}

static void memory_may_change_from_run_to_run(void **state) {
    (void)state;
    on_ranks(6, run_elsewhere);
}

/* Two runs at once, which ranks finish in different orders, some of them by testing repeatedly. */
static rsh_status run_two_at_once(void *ctx, rsh_comm *comm) {
    bound b[2];
    int rank = rsh_comm_rank(comm), first = rank % 2;
    for (int i = 0; i < 2; i++) RSH_TRY(bind_team(comm, *(int *)ctx, &b[i]));
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 2; i++) clear(&b[i]);
        for (int i = 0; i < 2; i++) RSH_TRY(rsh_exec_begin(b[i].exec));
        for (bool done = rank % 3 != 0; !done;) RSH_TRY(rsh_exec_test(b[first].exec, &done));
        RSH_TRY(rsh_exec_wait(b[first].exec));
        RSH_TRY(rsh_exec_wait(b[!first].exec));
        for (int i = 0; i < 2; i++) CHECK(check_result(b[i].dst) == RSH_OK);
    }
    for (int i = 0; i < 2; i++) unbind(&b[i]);
    return RSH_OK;
}

static void two_runs_may_be_under_way(void **state) {
    (void)state;
    on_ranks(6, run_two_at_once);
}

/* Rank 1 passes its source as its destination: all ranks get the error, and the next run works. */
static rsh_status refuse_on_rank_1(void *ctx, rsh_comm *comm) {
    bound b;
    RSH_TRY(bind_team(comm, *(int *)ctx, &b));
    rsh_memory src = memory_of(b.src), dst = memory_of(b.dst);
    for (int i = 0; i < 10; i++) {
        clear(&b);
        RSH_TRY(rsh_exec_run(b.exec));
        CHECK(check_result(b.dst) == RSH_OK);
        CHECK(rsh_exec_run_on(b.exec, &src, rsh_comm_rank(comm) == 1 ? &src : &dst) == RSH_EVALUE);
        CHECK(strstr(rsh_error_detail(), "rank 1"));
    }
    unbind(&b);
    return RSH_OK;
}

static void a_run_that_one_rank_refuses_ends_on_all(void **state) {
    (void)state;
    on_ranks(6, refuse_on_rank_1);
}

/* Rank 2 takes no part in the second run. */
static rsh_status leave_on_rank_2(void *ctx, rsh_comm *comm) {
    bound b;
    RSH_TRY(bind_team(comm, *(int *)ctx, &b));
    RSH_TRY(rsh_exec_run(b.exec));
    if (rsh_comm_rank(comm) != 2) CHECK(rsh_exec_run(b.exec) == RSH_EPEER);
    unbind(&b);
    return RSH_OK;
}

static void a_rank_that_leaves_is_missed(void **state) {
    (void)state;
    on_ranks(6, leave_on_rank_2);
}

/* Each rank reads only one neighbour, and must not wait for any other rank. */
static rsh_status shift(void *ctx, rsh_comm *comm) {
    bound b;
    (void)ctx;
    RSH_TRY(bind_on(&(scene){.where = THREADS}, comm, "f32[8/x] on x=4", "f32[8/x] on x=4@[1,2,3,0]", &b));
    CHECK(!b.exec->team);
    RSH_TRY(rsh_exec_run(b.exec));
    CHECK(check_result(b.dst) == RSH_OK);
    unbind(&b);
    return RSH_OK;
}

static void ranks_with_few_neighbours_are_no_team(void **state) {
    (void)state;
    on_ranks(4, shift);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_ONE_CORE(every_run_moves_everything),
        ON_ONE_CORE(memory_may_change_from_run_to_run),
        ON_ONE_CORE(two_runs_may_be_under_way),
        ON_ONE_CORE(a_run_that_one_rank_refuses_ends_on_all),
        ON_ONE_CORE(a_rank_that_leaves_is_missed),
        ON_ONE_CORE(ranks_with_few_neighbours_are_no_team),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
