/* Arena: allocating and freeing memory that other processes can map. */
#include "comm/ranks.h"

#include <sys/stat.h>

#include "arena/arena.h"

static unsigned char pattern(int block, size_t i) { return (unsigned char)(block * 31 + (int)(i % 251) + 1); }

static void paint(unsigned char *to, int block, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) to[i] = pattern(block, i);
}

static bool painted(const unsigned char *p, int block, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != pattern(block, i)) return false;
    return true;
}

static size_t backed(const rshi_arena *a) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", a->fd);
    struct stat file;
    assert_int_equal(stat(path, &file), 0);
    return (size_t)file.st_blocks * 512;
}

static void an_arena_grows_and_gives_memory_back(void **state) {
    (void)state;
    rshi_arena *a;
    uint64_t cap = rsh_alloc_get_cap();
    rsh_alloc_set_cap(0); /* release the kept blocks now */
    assert_int_equal(rshi_arena_new(4, &a), RSH_OK);
    unsigned char *p = rshi_arena_alloc(a, 32 << 20, false), *q = rshi_arena_alloc(a, 100, true);
    assert_true(p && q);
    memset(p, 1, 32 << 20);
    assert_true(backed(a) >= 32 << 20);
    rshi_arena_free(a, p, 32 << 20);
    assert_true(backed(a) < 1 << 20);
    unsigned char *again = rshi_arena_alloc(a, 32 << 20, true);
    assert_ptr_equal(again, p);
    for (size_t i = 0; i < 32 << 20; i += 4096) assert_int_equal(again[i], 0);
    rshi_arena_free(a, again, 32 << 20);
    rshi_arena_free(a, q, 100);
    assert_int_equal(a->end, 0);
    assert_int_equal(a->ngaps, 0);
    rshi_arena_drop(a);
    rsh_alloc_set_cap(cap);
}

static void an_arena_keeps_freed_pages_until_they_are_asked_back(void **state) {
    (void)state;
    rshi_arena *a, *b;
    uint64_t cap = rsh_alloc_get_cap(), before = rsh_alloc_get_stats().cached_bytes;
    rsh_alloc_set_cap(64 << 20);
    assert_int_equal(rshi_arena_new(4, &a), RSH_OK);
    assert_int_equal(rshi_arena_new(4, &b), RSH_OK);
    unsigned char *p = rshi_arena_alloc(a, 32 << 20, false);
    assert_non_null(p);
    memset(p, 1, 32 << 20);
    rshi_arena_free(a, p, 32 << 20);
    assert_true(backed(a) >= 32 << 20);
    assert_int_equal(rsh_alloc_get_stats().cached_bytes - before, 32 << 20);
    void *other = rshi_arena_alloc(b, 32 << 20, false); /* the blocks kept in `a` are of no use for another arena */
    assert_true(rshi_arena_has(b, other));
    unsigned char *again = rshi_arena_alloc(a, 32 << 20, true);
    assert_ptr_equal(again, p);
    for (size_t i = 0; i < 32 << 20; i += 512) assert_int_equal(again[i], 0);
    rshi_arena_free(a, again, 32 << 20);
    rsh_alloc_trim();
    assert_true(backed(a) < 1 << 20);
    assert_int_equal(a->end, 0);
    rshi_arena_free(b, other, 32 << 20);
    rshi_arena_drop(b); /* although a block is kept in it */
    assert_int_equal(rsh_alloc_cached(), 0);
    rshi_arena_drop(a);
    rsh_alloc_set_cap(cap);
}

static void kept_pages_go_before_shared_memory_is_refused(void **state) {
    (void)state;
    rshi_arena *a;
    uint64_t cap = rsh_alloc_get_cap();
    rsh_alloc_set_cap(64 << 20);
    assert_int_equal(rshi_arena_new(1, &a), RSH_OK);
    rshi_arena_free(a, rshi_arena_alloc(a, 1 << 20, false), 1 << 20);
    assert_int_equal(rsh_alloc_cached(), 1 << 20);
    assert_null(rshi_arena_alloc(a, a->reserve / 2, false));
    assert_int_equal(rsh_alloc_cached(), 0);
    assert_int_equal(a->end, 0);
    rshi_arena_drop(a);
    rsh_alloc_set_cap(cap);
}

static void more_shared_memory_than_there_is_is_an_error(void **state) {
    (void)state;
    rshi_arena *a;
    assert_int_equal(rshi_arena_new(1, &a), RSH_OK);
    assert_null(rshi_arena_alloc(a, a->reserve / 2, false));
    assert_null(rshi_arena_alloc(a, SIZE_MAX, false));
    assert_non_null(strstr(rsh_error_detail(), "out of shared memory"));
    assert_int_equal(a->end, 0);
    rshi_arena_drop(a);
}

/* Blocks of random sizes, allocated and freed in random order, never overlap. */
static void blocks_of_an_arena_never_overlap(void **state) {
    (void)state;
    enum { BLOCKS = 64 };
    rshi_arena *a;
    unsigned char *p[BLOCKS] = {0};
    size_t bytes[BLOCKS];
    uint64_t seed = test_seed(7);
    assert_int_equal(rshi_arena_new(2, &a), RSH_OK);
    for (int step = 0; step < 2000; step++) {
        int i = (int)(draw(&seed) % BLOCKS);
        if (p[i]) {
            assert_true(painted(p[i], i, bytes[i]));
            rshi_arena_free(a, p[i], bytes[i]);
            p[i] = NULL;
            continue;
        }
        bytes[i] = (size_t)(draw(&seed) % (1u << (4 + draw(&seed) % 15)));
        p[i] = rshi_arena_alloc(a, bytes[i], false);
        assert_non_null(p[i]);
        paint(p[i], i, bytes[i]);
    }
    for (int i = 0; i < BLOCKS; i++) rshi_arena_free(a, p[i], bytes[i]);
    rsh_alloc_trim();
    assert_int_equal(a->end, 0);
    rshi_arena_drop(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arena_grows_and_gives_memory_back),
        cmocka_unit_test(an_arena_keeps_freed_pages_until_they_are_asked_back),
        cmocka_unit_test(kept_pages_go_before_shared_memory_is_refused),
        cmocka_unit_test(more_shared_memory_than_there_is_is_an_error),
        cmocka_unit_test(blocks_of_an_arena_never_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
