/* Limit: the memory that control groups and the machine leave, read from directory trees that the tests make. */
#include "comm/ranks.h"

#include <sys/stat.h>
#include <unistd.h>

#include "arena/arena.h"
#include "arena/limit.h"

#define MIB ((uint64_t)1 << 20)

static char root[64];

/* Writes a file of the tree and creates its directories. */
static void put(const char *path, const char *text) {
    char name[400];
    snprintf(name, sizeof name, "%s/%s", root, path);
    for (char *slash = name + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(name, 0700);
    }
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_tree(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/reshard-limit-XXXXXX");
    if (!mkdtemp(root)) return 1;
    put("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\n"
                        "SwapTotal: 0 kB\nSwapFree: 0 kB\n");
    return 0;
}

static int drop_tree(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void is_limited(uint64_t left, const char *name) {
    rshi_limit l = rshi_limit_find(root);
    if (l.left != left || !strstr(l.name, name))
        fail_msg("%llu bytes are left by %s, where %llu by %s were expected", (unsigned long long)l.left, l.name,
                 (unsigned long long)left, name);
}

static void without_groups_the_machine_counts_with_what_is_available(void **state) {
    (void)state;
    is_limited(8192 * MIB, "/proc/meminfo");
    put("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 1024 kB\nSwapFree: 2048 kB\n");
    is_limited(3 * MIB, "/proc/meminfo");
}

static void where_nothing_is_known_there_is_no_limit(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/no/such/folder");
    assert_true(rshi_limit_find(root).left == UINT64_MAX);
}

static void use_version_2(void) {
    put("proc/self/cgroup", "0::/jobs/one\n");
    put("proc/self/mountinfo", "24 1 0:1 / / rw - ext4 /dev/vda rw\n"
                               "31 24 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 none rw\n");
    put("sys/fs/cgroup/jobs/one/memory.max", "max\n");
    put("sys/fs/cgroup/jobs/one/memory.current", "1048576\n");
}

static void parents_limit_a_group_of_version_2(void **state) {
    (void)state;
    use_version_2();
    is_limited(8192 * MIB, "/proc/meminfo");
    put("sys/fs/cgroup/jobs/memory.max", "67108864\n");
    put("sys/fs/cgroup/jobs/memory.current", "16777216\n");
    is_limited(48 * MIB, "/sys/fs/cgroup/jobs/memory.max");
    put("sys/fs/cgroup/jobs/one/memory.max", "33554432\n");
    is_limited(31 * MIB, "/sys/fs/cgroup/jobs/one/memory.max");
}

static void files_can_be_dropped_and_memory_swapped(void **state) {
    (void)state;
    use_version_2();
    put("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\nSwapFree: 8192 kB\n");
    put("sys/fs/cgroup/jobs/one/memory.max", "33554432\n");
    put("sys/fs/cgroup/jobs/one/memory.current", "33554432\n");
    put("sys/fs/cgroup/jobs/one/memory.swap.max", "0\n");
    is_limited(0, "one/memory.max");
    put("sys/fs/cgroup/jobs/one/memory.stat",
        "anon 5\nfile 99\nshmem 4194304\ninactive_file 1048576\nactive_file 2097152\n");
    is_limited(3 * MIB, "one/memory.max");
    put("sys/fs/cgroup/jobs/one/memory.swap.max", "5242880\n");
    put("sys/fs/cgroup/jobs/one/memory.swap.current", "1048576\n");
    is_limited(7 * MIB, "one/memory.max");
    put("sys/fs/cgroup/jobs/one/memory.swap.max", "max\n");
    is_limited(11 * MIB, "one/memory.max"); /* the machine has 8 MiB of swap */
}

static void use_version_1(const char *mount_root) {
    char text[400];
    put("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/abc\n3:cpuset:/\n0::/\n");
    snprintf(text, sizeof text,
             "32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
             "35 31 0:32 %s /sys/fs/cgroup/my\\040memory rw - cgroup cgroup rw,cpu,memory\n", mount_root);
    put("proc/self/mountinfo", text);
}

static void parents_limit_a_group_of_version_1(void **state) {
    (void)state;
    use_version_1("/");
    put("sys/fs/cgroup/my memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/my memory/docker/memory.limit_in_bytes", "67108864\n");
    put("sys/fs/cgroup/my memory/docker/memory.usage_in_bytes", "3145728\n");
    put("sys/fs/cgroup/my memory/docker/memory.stat",
        "inactive_file 9\ntotal_inactive_file 1048576\ntotal_active_file 0\n");
    is_limited(62 * MIB, "docker/memory.limit_in_bytes");
    put("sys/fs/cgroup/my memory/docker/abc/memory.memsw.limit_in_bytes", "8388608\n");
    put("sys/fs/cgroup/my memory/docker/abc/memory.memsw.usage_in_bytes", "1048576\n");
    is_limited(7 * MIB, "abc/memory.memsw.limit_in_bytes");
    put("sys/fs/cgroup/my memory/docker/abc/memory.memsw.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/my memory/docker/memory.use_hierarchy", "0\n");
    is_limited(8192 * MIB, "/proc/meminfo");
}

/* The mount shows the container's group as its root, but /proc shows the path on the host. */
static void a_container_sees_its_own_group_at_the_mount(void **state) {
    (void)state;
    use_version_1("/docker/abc");
    put("sys/fs/cgroup/my memory/memory.limit_in_bytes", "67108864\n");
    put("sys/fs/cgroup/my memory/memory.usage_in_bytes", "1048576\n");
    is_limited(63 * MIB, "my memory/memory.limit_in_bytes");
    use_version_1("/../..");
    is_limited(63 * MIB, "my memory/memory.limit_in_bytes");
}

static void an_arena_takes_what_the_limit_leaves_and_no_more(void **state) {
    (void)state;
    rshi_arena *a;
    use_version_2();
    put("sys/fs/cgroup/jobs/one/memory.max", "67108864\n");
    assert_int_equal(rshi_arena_new(4, &a), RSH_OK);
    a->root = root;
    assert_null(rshi_arena_alloc(a, 200 * MIB, false));
    assert_non_null(strstr(rsh_error_detail(), "requested 209715200 bytes"));
    assert_non_null(
        strstr(rsh_error_detail(), "jobs/one/memory.max allows 67108864 bytes, of which 66060288 are left"));
    void *p = rshi_arena_alloc(a, 32 * MIB, false);
    assert_non_null(p);
    rshi_arena_free(a, p, 32 * MIB);
    put("sys/fs/cgroup/jobs/one/memory.current", "67108864\n");
    uint64_t small = 0;
    while (small < 64 * MIB && rshi_arena_alloc(a, 100000, false)) small += 100000;
    assert_true(small < 4 * MIB); /* the credit of the last check does not count */
    assert_non_null(strstr(rsh_error_detail(), "jobs/one/memory.max"));
    rshi_arena_drop(a);
}

/* Small blocks that are allocated and freed repeatedly read no files; otherwise they would find that memory is full. */
static void small_blocks_do_not_look_at_limits(void **state) {
    (void)state;
    rshi_arena *a;
    use_version_2();
    assert_int_equal(rshi_arena_new(2, &a), RSH_OK);
    a->root = root;
    void *p = rshi_arena_alloc(a, 16384, false);
    assert_non_null(p);
    put("sys/fs/cgroup/jobs/one/memory.max", "0\n");
    for (int i = 0; i < 10000; i++) {
        rshi_arena_free(a, p, 16384);
        p = rshi_arena_alloc(a, 16384, i % 2);
        assert_non_null(p);
    }
    rshi_arena_drop(a);
}

int main(void) {
#define TREE(test) cmocka_unit_test_setup_teardown(test, make_tree, drop_tree)
    const struct CMUnitTest tests[] = {
        TREE(without_groups_the_machine_counts_with_what_is_available),
        cmocka_unit_test(where_nothing_is_known_there_is_no_limit),
        TREE(parents_limit_a_group_of_version_2),
        TREE(files_can_be_dropped_and_memory_swapped),
        TREE(parents_limit_a_group_of_version_1),
        TREE(a_container_sees_its_own_group_at_the_mount),
        TREE(an_arena_takes_what_the_limit_leaves_and_no_more),
        TREE(small_blocks_do_not_look_at_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
