/* Recycled blocks: which blocks are kept, for which thread they count, when they are released, and what fork and
 * failures do to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/poison.h"

#define MIB ((size_t)1 << 20)

/* Every test starts with nothing kept and with its own cap, even if sanitizers keep nothing by default. */
static int start(void **state) {
    (void)state;
    rsh_alloc_trim();
    rsh_alloc_set_cap(64 * MIB);
    return 0;
}

static void classes_are_hardly_larger_than_what_was_asked_for(void **state) {
    (void)state;
    for (size_t n = 1; n < (size_t)1 << 40; n += 1 + n / 3) {
        size_t block = rshi_block_bytes(n);
        assert_true(block >= n && block % 64 == 0);
        assert_int_equal(rshi_block_bytes(block), block);
        if (n >= RSHI_RECYCLE_FROM) assert_true(block % 4096 == 0 && block - n < (n < 131072 ? 4096 : n / 32));
    }
    assert_int_equal(rshi_block_bytes(0), 64);
    assert_int_equal(rshi_block_bytes(SIZE_MAX), SIZE_MAX);
}

static void a_freed_block_serves_the_next_request_of_its_size(void **state) {
    (void)state;
    static const size_t sizes[] = {64 << 10, 100000, 3 << 20, (5 << 20) + 17};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *p = rshi_alloc_data(sizes[i], false);
        assert_non_null(p);
        memset(p, 7, sizes[i]);
        rshi_free_data(p, sizes[i]);
        assert_int_equal(rsh_alloc_cached(), rshi_block_bytes(sizes[i]));
        char *q = rshi_alloc_data(sizes[i], true);
        assert_ptr_equal(q, p);
        assert_int_equal(rsh_alloc_cached(), 0);
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(q[k], 0);
        rshi_free_data(q, sizes[i]);
        rsh_alloc_trim();
        assert_int_equal(rsh_alloc_cached(), 0);
    }
}

static void small_blocks_are_kept_by_the_thread_that_frees_them(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 64, 1000, 1024, 1025, 5000, 40000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *p = rshi_alloc_data(sizes[i], false);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        memset(p, 7, sizes[i]);
        rshi_free_data(p, sizes[i]);
        assert_int_equal(rsh_alloc_cached(), 0); /* the process keeps nothing */
        char *q = rshi_alloc_data(sizes[i], true);
        if (!RSHI_POISONS) assert_ptr_equal(q, p);
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(q[k], 0);
        rshi_free_data(q, sizes[i]);
        assert_int_equal(rshi_small_empty(), !RSHI_POISONS);
        assert_false(rshi_small_empty());
    }
}

static void with_a_cap_of_nothing_small_blocks_are_not_kept_either(void **state) {
    (void)state;
    rshi_small_empty();
    rsh_alloc_set_cap(0);
    rshi_free_data(rshi_alloc_data(1000, false), 1000);
    assert_false(rshi_small_empty());
}

static void above_the_cap_the_oldest_go_first(void **state) {
    (void)state;
    void *p[4];
    rsh_alloc_set_cap(3 * MIB);
    for (int i = 0; i < 4; i++) p[i] = rshi_alloc_data(MIB, false);
    for (int i = 0; i < 4; i++) rshi_free_data(p[i], MIB);
    assert_int_equal(rsh_alloc_cached(), 3 * MIB);
    for (int i = 3; i > 0; i--) assert_ptr_equal(rshi_alloc_data(MIB, false), p[i]); /* p[0] was released */
    assert_int_equal(rsh_alloc_cached(), 0);
    for (int i = 1; i < 4; i++) rshi_free_data(p[i], MIB);
    void *large = rshi_alloc_data(4 * MIB, false);
    rshi_free_data(large, 4 * MIB); /* larger than the cap, so no other block is released for it */
    assert_int_equal(rsh_alloc_cached(), 3 * MIB);
    rsh_alloc_set_cap(MIB);
    assert_int_equal(rsh_alloc_cached(), MIB);
    assert_int_equal(rsh_alloc_get_cap(), MIB);
    rsh_alloc_set_cap(0);
    assert_int_equal(rsh_alloc_cached(), 0);
}

static void more_blocks_than_the_table_holds_are_no_trap(void **state) {
    (void)state;
    enum { N = 5000 };
    void **p = calloc(N, sizeof *p);
    rsh_alloc_set_cap((size_t)1 << 40);
    for (int i = 0; i < N; i++) assert_non_null(p[i] = rshi_alloc_data(RSHI_RECYCLE_FROM, false));
    for (int i = 0; i < N; i++) rshi_free_data(p[i], RSHI_RECYCLE_FROM);
    assert_true(rsh_alloc_cached() <= N * RSHI_RECYCLE_FROM);
    for (int i = 0; i < N; i++) assert_non_null(p[i] = rshi_alloc_data(RSHI_RECYCLE_FROM, false));
    assert_int_equal(rsh_alloc_cached(), 0);
    for (int i = 0; i < N; i++) rshi_free_data(p[i], RSHI_RECYCLE_FROM);
    free(p);
}

/* ---- accounts ---- */

typedef struct handed {
    void *p;
    rshi_account *owner;
    rsh_alloc_stats stats;
} handed;

static void *free_theirs(void *arg) {
    handed *h = arg;
    rshi_free_elements(h->p, MIB, h->owner);
    h->stats = rsh_alloc_get_stats();
    return NULL;
}

static void *ask(void *arg) {
    handed *h = arg;
    h->p = rshi_alloc_elements(MIB, false, &h->owner);
    h->stats = rsh_alloc_get_stats();
    return NULL;
}

static void in_thread(void *(*fn)(void *), handed *h) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fn, h), 0);
    pthread_join(thread, NULL);
}

static void bytes_count_for_who_asked_whoever_frees_them(void **state) {
    (void)state;
    handed h = {0};
    h.p = rshi_alloc_elements(MIB, false, &h.owner);
    assert_int_equal(rsh_alloc_get_stats().data_bytes, MIB);
    assert_int_equal(rsh_alloc_get_stats().cached_bytes, 0);
    in_thread(free_theirs, &h);
    assert_int_equal(h.stats.data_bytes, 0);
    assert_int_equal(h.stats.cached_bytes, 0);
    assert_int_equal(rsh_alloc_get_stats().data_bytes, 0);
    assert_int_equal(rsh_alloc_get_stats().cached_bytes, MIB);
    in_thread(ask, &h); /* takes the block from the cache, and ends before the block is freed */
    assert_int_equal(h.stats.data_bytes, MIB);
    assert_int_equal(rsh_alloc_get_stats().data_bytes, 0);
    assert_int_equal(rsh_alloc_get_stats().cached_bytes, 0);
    rshi_free_elements(h.p, MIB, h.owner);
    assert_int_equal(rsh_alloc_get_stats().cached_bytes, 0);
    assert_int_equal(rsh_alloc_cached(), MIB);
    rsh_alloc_trim();
}

/* ---- threads ---- */

static void *churn(void *arg) {
    unsigned seed = *(unsigned *)arg;
    for (int i = 0; i < 2000; i++) {
        size_t n = RSHI_RECYCLE_FROM << (rand_r(&seed) % 4);
        rshi_account *owner;
        unsigned char *p = rshi_alloc_elements(n, false, &owner);
        if (!p) return arg;
        unsigned char mark = (unsigned char)seed;
        p[0] = p[n - 1] = mark;
        if (i % 64 == 0) rsh_alloc_trim();
        if (p[0] != mark || p[n - 1] != mark) return arg;
        rshi_free_elements(p, n, owner);
    }
    return rsh_alloc_get_stats().data_bytes ? arg : NULL;
}

static void threads_share_what_is_kept(void **state) {
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    unsigned seeds[THREADS];
    rsh_alloc_set_cap(MIB);
    for (int k = 0; k < THREADS; k++) {
        seeds[k] = (unsigned)k + 1;
        assert_int_equal(pthread_create(&threads[k], NULL, churn, &seeds[k]), 0);
    }
    for (int k = 0; k < THREADS; k++) {
        void *failed;
        pthread_join(threads[k], &failed);
        assert_null(failed);
    }
    assert_true(rsh_alloc_cached() <= MIB);
}

/* ---- fork ---- */

static int released;
static void count_release(rshi_home *home, void *p, size_t block) {
    (void)home, (void)p, (void)block;
    released++;
}

/* Checks the cache of a child; returns 0 if everything is right. */
static int child_finds(char *private_block) {
    if (rsh_alloc_cached()) return 1;             /* a child starts with an empty cache */
    if (released) return 2;                       /* and it has not touched the blocks that it shares */
    if (rsh_alloc_get_stats().cached_bytes) return 3;
    char *p = rshi_alloc_data(4 * MIB, true);
    if (!p) return 4;
    for (size_t i = 0; i < 4 * MIB; i += 4096)
        if (p[i]) return 5;
    memset(p, 1, 4 * MIB);
    rshi_free_data(p, 4 * MIB);
    (void)private_block;
    return rsh_alloc_cached() == 4 * MIB ? 0 : 6;
}

static void a_child_starts_with_nothing_kept_and_the_parent_keeps_all(void **state) {
    (void)state;
    static char shared[1 << 16];
    rshi_home home = {count_release};
    char *p = rshi_alloc_data(4 * MIB, false);
    memset(p, 9, 4 * MIB);
    rshi_free_data(p, 4 * MIB);
    assert_true(rshi_block_keep(&home, shared, sizeof shared, NULL));
    released = 0;
    pid_t child = fork();
    if (!child) _exit(child_finds(p));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(rsh_alloc_cached(), 4 * MIB + sizeof shared);
    assert_ptr_equal(rshi_block_take(&home, sizeof shared), shared);
    assert_null(rshi_block_take(&home, sizeof shared));
    assert_ptr_equal(rshi_alloc_data(4 * MIB, false), p);
    assert_int_equal(p[MIB], 9);
    rshi_free_data(p, 4 * MIB);
}

static void a_home_gets_its_own_blocks_back_or_takes_them_along(void **state) {
    (void)state;
    static char blocks[2][1 << 16];
    rshi_home a = {count_release}, b = {count_release};
    released = 0;
    assert_true(rshi_block_keep(&a, blocks[0], 1 << 16, NULL));
    assert_true(rshi_block_keep(&b, blocks[1], 1 << 16, NULL));
    assert_null(rshi_block_take(NULL, 1 << 16));
    rshi_blocks_forget(&a);
    assert_int_equal(released, 0);
    assert_int_equal(rsh_alloc_cached(), 1 << 16);
    assert_true(rshi_blocks_empty());
    assert_int_equal(released, 1);
    assert_false(rshi_blocks_empty());
}

/* ---- failure ---- */

static void every_failed_request_is_refused_and_counts_nothing(void **state) {
    (void)state;
    rsh_alloc_stats before = rsh_alloc_get_stats();
    for (int kept = 0; kept < 2; kept++) {
        rshi_account *owner = NULL;
        rsh_alloc_fail_at(0);
        assert_null(rshi_alloc_elements(MIB, false, &owner));
        assert_null(owner);
        assert_non_null(strstr(rsh_error_detail(), "out of memory"));
        assert_int_equal(rsh_alloc_get_stats().live, before.live);
        assert_int_equal(rsh_alloc_get_stats().data_bytes, before.data_bytes);
        void *p = rshi_alloc_elements(MIB, false, &owner);
        rshi_free_elements(p, MIB, owner);
        assert_int_equal(rsh_alloc_cached(), MIB);
    }
}

static void what_is_kept_goes_before_memory_is_refused(void **state) {
    (void)state;
    void *p = rshi_alloc_data(8 * MIB, false);
    rshi_free_data(p, 8 * MIB);
    assert_int_equal(rsh_alloc_cached(), 8 * MIB);
    assert_null(rshi_alloc_data((size_t)1 << 60, false));
    assert_non_null(strstr(rsh_error_detail(), "out of memory"));
    assert_int_equal(rsh_alloc_cached(), 0);
    assert_null(rshi_alloc_data(SIZE_MAX, false));
    assert_null(rshi_alloc_data(SIZE_MAX - 100, true));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(classes_are_hardly_larger_than_what_was_asked_for, start),
        cmocka_unit_test_setup(a_freed_block_serves_the_next_request_of_its_size, start),
        cmocka_unit_test_setup(small_blocks_are_kept_by_the_thread_that_frees_them, start),
        cmocka_unit_test_setup(with_a_cap_of_nothing_small_blocks_are_not_kept_either, start),
        cmocka_unit_test_setup(above_the_cap_the_oldest_go_first, start),
        cmocka_unit_test_setup(more_blocks_than_the_table_holds_are_no_trap, start),
        cmocka_unit_test_setup(bytes_count_for_who_asked_whoever_frees_them, start),
        cmocka_unit_test_setup(threads_share_what_is_kept, start),
        cmocka_unit_test_setup(a_child_starts_with_nothing_kept_and_the_parent_keeps_all, start),
        cmocka_unit_test_setup(a_home_gets_its_own_blocks_back_or_takes_them_along, start),
        cmocka_unit_test_setup(every_failed_request_is_refused_and_counts_nothing, start),
        cmocka_unit_test_setup(what_is_kept_goes_before_memory_is_refused, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
