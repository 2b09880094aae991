/* Room: checks whether the limits of the machine, the user and the control group allow so many processes or threads. */
#include "room.h"

#include "cli.h"

#include <sys/resource.h>
#include <unistd.h>

static int64_t read_number(const char *path, int64_t otherwise) {
    long long n;
    FILE *file = fopen(path, "r");
    bool found = file && fscanf(file, "%lld", &n) == 1;
    if (file) fclose(file);
    return found ? n : otherwise;
}

static int64_t most_of_user(void) {
    struct rlimit user;
    bool limited = geteuid() && !getrlimit(RLIMIT_NPROC, &user) && user.rlim_cur < INT64_MAX;
    return limited ? (int64_t)user.rlim_cur : INT64_MAX;
}

/* Each thread needs two mappings: its stack and the guard page. */
rsh_status room_check(int64_t n, bool threads) {
    int64_t used = read_number("/sys/fs/cgroup/pids.current", 0);
    const struct {
        const char *name;
        int64_t most;
    } limits[] = {
        {"/proc/sys/kernel/pid_max", read_number("/proc/sys/kernel/pid_max", INT64_MAX)},
        {"/proc/sys/kernel/threads-max", read_number("/proc/sys/kernel/threads-max", INT64_MAX)},
        {"/sys/fs/cgroup/pids.max minus running processes", read_number("/sys/fs/cgroup/pids.max", INT64_MAX) - used},
        {"half of /proc/sys/vm/max_map_count",
         threads ? read_number("/proc/sys/vm/max_map_count", INT64_MAX) / 2 : INT64_MAX},
        {"ulimit -u", most_of_user()},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (n > limits[i].most)
            return sentence(RSH_EUNSUP, "cannot start %lld %s: the limit is %lld (%s)", (long long)n,
                            threads ? "threads" : "processes", (long long)limits[i].most, limits[i].name);
    return RSH_OK;
}
