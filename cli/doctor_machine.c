/* Doctor, the machine: checks cores, memory, and kernel settings that affect the speed of moves. */
#include "doctor.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SMALL_SHM ((double)(256 << 20)) /* bytes; a smaller /dev/shm is reported (containers have 64 MiB by default) */

static bool read_line(const char *path, char *line, int room) {
    FILE *file = fopen(path, "r");
    bool ok = file && fgets(line, room, file);
    if (file) fclose(file);
    if (ok) line[strcspn(line, "\n")] = '\0';
    return ok;
}

/* Returns the number of ranks that a launcher started on this machine, or 0. */
static int ranks_here(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "RESHARD_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i])) return atoi(getenv(names[i]));
    return 0;
}

void find_cores(finding *f) {
    cpu_set_t set;
    char quota[64];
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int usable = sched_getaffinity(0, sizeof set, &set) ? (int)online : CPU_COUNT(&set), ranks = ranks_here();
    snprintf(f->value, FINDING, "%d of %ld", usable, online);
    if (ranks > online)
        advise(f, "slow", "%d ranks share %ld core%s; start at most one rank per core", ranks, online,
               plural(online));
    else if (usable < online && !ranks)
        advise(f, "ok", "CPU affinity excludes the other cores (see taskset)");
    else
        advise(f, "ok", "start at most %ld rank%s on this machine", online, plural(online));
    if (read_line("/sys/fs/cgroup/cpu.max", quota, sizeof quota) && strncmp(quota, "max", 3))
        advise(f, "limited", "a control group limits CPU time (cpu.max is %s), so timings will vary", quota);
}

void find_memory(finding *f) {
    char line[128], total[QUANTITY], left[QUANTITY];
    long long all = 0, available = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "MemTotal: %lld", &all);
        sscanf(line, "MemAvailable: %lld", &available);
    }
    if (file) fclose(file);
    snprintf(f->value, FINDING, "%s, %s available", human_bytes(1024.0 * (double)all, total),
             human_bytes(1024.0 * (double)available, left));
    if (available < all / 10) advise(f, "tight", "less than 10 %% is free; a move needs memory for both tensors");
}

/* Reads the active value (in brackets) of a transparent huge page setting into `line`; NULL: there is none. */
static const char *active_value(const char *file, char *line, int room) {
    char path[128];
    snprintf(path, sizeof path, "/sys/kernel/mm/transparent_hugepage/%s", file);
    char *start = read_line(path, line, room) ? strchr(line, '[') : NULL, *end = start ? strchr(start, ']') : NULL;
    if (!end) return NULL;
    *end = '\0';
    return start + 1;
}

static void find_pages(finding *f, const char *file, const char *better, const char *whose) {
    char line[128];
    const char *word = active_value(file, line, sizeof line);
    snprintf(f->value, FINDING, "%s", word ? word : "unknown");
    if (!word)
        advise(f, "unknown", "this kernel has no /sys/kernel/mm/transparent_hugepage/%s", file);
    else if (!strcmp(word, "never") || !strcmp(word, "deny"))
        advise(f, "slow", "%s: echo %s > /sys/kernel/mm/transparent_hugepage/%s", whose, better, file);
}

void find_huge_pages(finding *f) { find_pages(f, "enabled", "madvise", "large tensors use small pages"); }
void find_shared_huge_pages(finding *f) {
    find_pages(f, "shmem_enabled", "advise", "memory shared by ranks (engines shm and mpi) uses small pages");
}

/* Checks /dev/shm, which MPI uses; the library's own shared memory is not in a file system. */
void find_shared_memory(finding *f) {
    struct statvfs s;
    char all[QUANTITY], left[QUANTITY];
    if (statvfs("/dev/shm", &s)) {
        snprintf(f->value, FINDING, "none");
        advise(f, "missing", "/dev/shm: %s; MPI may need it, engines threads and shm do not", strerror(errno));
        return;
    }
    double total = (double)s.f_blocks * (double)s.f_frsize, room = (double)s.f_bavail * (double)s.f_frsize;
    snprintf(f->value, FINDING, "%s, %s free", human_bytes(total, all), human_bytes(room, left));
    if (room < SMALL_SHM)
        advise(f, "tight", "MPI needs it for shared memory and may fail; in containers use --shm-size=1g (engines "
                           "threads and shm do not use it)");
}

void find_ptrace(finding *f) {
    char line[32];
    if (!read_line("/proc/sys/kernel/yama/ptrace_scope", line, sizeof line)) {
        snprintf(f->value, FINDING, "not restricted");
        return;
    }
    snprintf(f->value, FINDING, "%s", line);
    if (strcmp(line, "0"))
        advise(f, geteuid() ? "slow" : "ok",
               "MPI copies data twice within a machine; run sysctl kernel.yama.ptrace_scope=0 (engines threads and shm "
               "are not affected)");
}

void find_caches(finding *f) {
    static const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    char text[QUANTITY];
    int n = 0;
    for (int level = 0; level < 3; level++) {
        long bytes = sysconf(names[level]);
        if (bytes > 0 && n < FINDING - 1)
            n += snprintf(f->value + n, (size_t)(FINDING - n), "%sL%d %s", n ? ", " : "", level + 1,
                          human_bytes((double)bytes, text));
    }
    if (n) return;
    snprintf(f->value, FINDING, "unknown");
    f->verdict = "unknown";
}
