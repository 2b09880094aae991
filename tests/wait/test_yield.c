/* Yield: if another thread computes on the core, a waiter sleeps instead of yielding. */
#include "comm/ranks.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

enum { ROUNDS = 100 };

static atomic_bool over;

static void *compute(void *ctx) {
    (void)ctx;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {}
    return NULL;
}

/* One core for this thread, the threads that it starts, and one thread that computes. */
typedef struct crowd {
    cpu_set_t before;
    pthread_t other;
} crowd;

static crowd crowd_new(void) {
    crowd c;
    cpu_set_t one;
    assert_int_equal(sched_getaffinity(0, sizeof c.before, &c.before), 0);
    CPU_ZERO(&one);
    for (int i = 0; !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &c.before)) CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    atomic_store(&over, false);
    assert_int_equal(pthread_create(&c.other, NULL, compute, NULL), 0);
    return c;
}

static void crowd_free(crowd *c) {
    atomic_store(&over, true);
    pthread_join(c->other, NULL);
    assert_int_equal(sched_setaffinity(0, sizeof c->before, &c->before), 0);
}

static void a_waiter_sleeps_where_somebody_computes(void **state) {
    (void)state;
    crowd c = crowd_new();
    int yields = 0;
    while (yields < 1000 && rshi_yield()) yields++;
    crowd_free(&c);
    assert_in_range(yields, 0, 999);
}

typedef struct rally {
    rshi_flag flags[2];
    atomic_long sleeps; /* number of sleeps of both ranks */
} rally;

static rsh_status plays_ping_pong(void *ctx, rsh_comm *c) {
    rally *r = ctx;
    struct rusage u;
    int me = rsh_comm_rank(c);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        if (me == 0) c->ops->post(c, &r->flags[0], i);
        CHECK_STATUS(RSH_OK, c->ops->wait(c, !me, &r->flags[!me], i));
        if (me == 1) c->ops->post(c, &r->flags[1], i);
    }
    getrusage(RUSAGE_THREAD, &u);
    atomic_fetch_add(&r->sleeps, u.ru_nvcsw);
    return RSH_OK;
}

/* Two waits per round: with yields alone, hardly any of them would sleep. */
static void ranks_that_answer_one_another_sleep_in_between(void **state) {
    (void)state;
    rally r = {0};
    crowd c = crowd_new();
    rsh_status st = rsh_run(2, plays_ping_pong, &r);
    crowd_free(&c);
    assert_int_equal(st, RSH_OK);
    assert_true(atomic_load(&r.sleeps) >= ROUNDS / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiter_sleeps_where_somebody_computes),
        cmocka_unit_test(ranks_that_answer_one_another_sleep_in_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
