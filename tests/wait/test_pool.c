/* Pool: every task is run once, by an existing worker, in as many jobs as requested. */
#include "comm/ranks.h"

#include <reshard/pool.h>

typedef struct tally {
    int workers;
    atomic_int bad_worker;
    atomic_int *done; /* [tasks] */
    int64_t plain[64]; /* one per worker, written without atomics, as copy threads write memory */
} tally;

static void count_task(void *ctx, int64_t i, int worker) {
    tally *t = ctx;
    if (worker < 0 || worker >= t->workers) atomic_store(&t->bad_worker, 1);
    atomic_fetch_add(&t->done[i], 1);
    t->plain[worker]++;
}

static void run_tasks(rsh_pool *pool, int64_t n) {
    tally t = {.workers = rsh_pool_size(pool), .done = calloc((size_t)n + 1, sizeof(atomic_int))};
    rsh_pool_run(pool, n, count_task, &t);
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++) assert_int_equal(t.done[i], 1);
    for (int w = 0; w < 64; w++) total += t.plain[w];
    assert_int_equal(total, n);
    assert_false(t.bad_worker);
    free(t.done);
}

static void every_task_runs_once_and_is_seen_by_the_caller(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 8, 40};
    static const int64_t counts[] = {0, 1, 2, 7, 1000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        rsh_pool *pool = NULL;
        assert_int_equal(rsh_pool_new(sizes[s], &pool), RSH_OK);
        assert_int_equal(rsh_pool_size(pool), sizes[s]);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) run_tasks(pool, counts[c]);
        rsh_pool_free(pool);
    }
}

static void many_short_jobs_in_a_row_work(void **state) {
    (void)state;
    rsh_pool *pool = NULL;
    assert_int_equal(rsh_pool_new(4, &pool), RSH_OK);
    for (int i = 0; i < 5000; i++) run_tasks(pool, 2 + i % 5);
    rsh_pool_free(pool);
}

static void a_pool_that_was_never_used_is_freed(void **state) {
    (void)state;
    rsh_pool *pool = NULL;
    assert_int_equal(rsh_pool_new(0, &pool), RSH_OK);
    assert_true(rsh_pool_size(pool) >= 1);
    rsh_pool_free(pool);
    rsh_pool_free(NULL);
}

static void a_pool_without_memory_is_refused(void **state) {
    (void)state;
    rsh_pool *pool = NULL;
    rsh_alloc_fail_at(0);
    assert_int_equal(rsh_pool_new(2, &pool), RSH_ENOMEM);
    rsh_alloc_fail_at(-1);
    assert_null(pool);
    assert_int_equal(rsh_pool_new(2, NULL), RSH_EVALUE);
}

/* Several threads with pools of their own do not interfere. */
static rsh_status uses_a_pool(void *ctx, rsh_comm *c) {
    (void)ctx, (void)c;
    rsh_pool *pool = NULL;
    RSH_TRY(rsh_pool_new(3, &pool));
    atomic_int done[50] = {0};
    tally t = {.workers = 3, .done = done};
    for (int i = 0; i < 20; i++) rsh_pool_run(pool, 50, count_task, &t);
    rsh_pool_free(pool);
    for (int i = 0; i < 50; i++) CHECK(done[i] == 20);
    return RSH_OK;
}
static void every_rank_may_have_a_pool(void **state) {
    (void)state;
    run_ranks(4, uses_a_pool, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once_and_is_seen_by_the_caller),
        cmocka_unit_test(many_short_jobs_in_a_row_work),
        cmocka_unit_test(a_pool_that_was_never_used_is_freed),
        cmocka_unit_test(a_pool_without_memory_is_refused),
        cmocka_unit_test(every_rank_may_have_a_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
