/* Room: how many processes or threads the machine, the user and the control group have room for. */
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

/* A thread's stack and the guard before it are two mappings. */
rsh_status room_check(int64_t n, bool threads) {
    int64_t used = read_number("/sys/fs/cgroup/pids.current", 0);
    const struct {
        const char *name;
        int64_t most;
    } limits[] = {
        {"/proc/sys/kernel/pid_max", read_number("/proc/sys/kernel/pid_max", INT64_MAX)},
        {"/proc/sys/kernel/threads-max", read_number("/proc/sys/kernel/threads-max", INT64_MAX)},
        {"/sys/fs/cgroup/pids.max, less those that run,", read_number("/sys/fs/cgroup/pids.max", INT64_MAX) - used},
        {"half of /proc/sys/vm/max_map_count",
         threads ? read_number("/proc/sys/vm/max_map_count", INT64_MAX) / 2 : INT64_MAX},
        {"ulimit -u", most_of_user()},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (n > limits[i].most)
            return sentence(RSH_EUNSUP, "%lld %s are too many: %s allows %lld", (long long)n,
                            threads ? "threads" : "processes", limits[i].name, (long long)limits[i].most);
    return RSH_OK;
}
