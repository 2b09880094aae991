/* One core: ranks that share one core, so that they are a team if possible; as threads and, up to
 * SOME of them, as processes. */
#ifndef RESHARD_TESTS_ONE_CORE_H
#define RESHARD_TESTS_ONE_CORE_H

#include "scene.h"

#include <sched.h>

/* Threads started from here on have one core, however many the machine has. */
static inline int with_one_core(void **state) {
    static cpu_set_t before;
    cpu_set_t one;
    if (sched_getaffinity(0, sizeof before, &before)) return -1;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
    *state = &before;
    return sched_setaffinity(0, sizeof one, &one);
}

static inline int with_all_cores(void **state) {
    return sched_setaffinity(0, sizeof(cpu_set_t), *state);
}

#define ON_ONE_CORE(test) cmocka_unit_test_setup_teardown(test, with_one_core, with_all_cores)

#define SOME 32

/* The ranks get the number of ranks as their context. */
static inline void on_threads(int n, rsh_rank_fn fn) {
    alarm(PATIENCE);
    rsh_status st = rsh_run(n, fn, &n);
    alarm(0);
    if (st) fail_msg("%d threads: %s: %s", n, rsh_status_name(st), rsh_error_detail());
}

static inline void on_processes(int n, rsh_rank_fn fn) {
    alarm(PATIENCE);
    rsh_status st = rsh_run_shm(n, fn, &n);
    alarm(0);
    if (st) fail_msg("%d processes: %s: %s", n, rsh_status_name(st), rsh_error_detail());
}

static inline void on_ranks(int n, rsh_rank_fn fn) {
    on_threads(n, fn);
    if (n <= SOME) on_processes(n, fn);
}

/* Zeroed memory that ranks share, as threads or processes. */
static inline void *shared_memory(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

#endif
