/* Doctor: what this build and this machine offer, with a verdict for each. */
#include "launched.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

#define TEXT_OF(x) #x
#define VERSION_TEXT(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)
static const char headers[] = VERSION_TEXT(RSH_VERSION_MAJOR, RSH_VERSION_MINOR, RSH_VERSION_PATCH);

#define FINDING 128

typedef struct finding {
    const char *name;
    char value[FINDING];
    const char *verdict;
    const char *advice; /* "" where all is well */
} finding;

/* ---- the build ---- */

static void find_version(finding *f) {
    bool same = !strcmp(rsh_version(), headers);
    snprintf(f->value, FINDING, "%s", rsh_version());
    f->verdict = same ? "ok" : "mixed";
    f->advice = same ? "" : "the command was built for another version of the library";
}

static void find_compiler(finding *f) { snprintf(f->value, FINDING, "%s", COMPILER); }

static void find_engines(finding *f) {
    bool mpi = launched_possible();
    snprintf(f->value, FINDING, mpi ? "threads, shm, mpi" : "threads, shm");
    f->advice = mpi ? "" : "without mpi: libreshard-mpi, or the MPI it was built for, is not here";
}

static void find_simd(finding *f) {
    bool plain = !strcmp(rsh_simd(), "generic");
    snprintf(f->value, FINDING, "%s", rsh_simd());
    f->verdict = plain ? "slow" : "ok";
    f->advice = plain ? "no vector path for this processor" : "";
}

/* Whoever makes a comm has the library read all of them. */
static void find_settings(finding *f) {
    static const char *const names[] = {"RESHARD_SIMD", "RESHARD_CACHE_BYTES", "RESHARD_TIMEOUT", "RESHARD_NODE"};
    int n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) && n < FINDING - 1)
            n += snprintf(f->value + n, (size_t)(FINDING - n), "%s%s", n ? ", " : "", names[i]);
    if (!n) snprintf(f->value, FINDING, "defaults");
    rsh_comm *comm = NULL;
    rsh_status st = rsh_comm_threads(1, &comm);
    if (!st) st = rsh_comm_free(comm);
    if (!st) return;
    f->verdict = "wrong";
    f->advice = rsh_error_detail();
}

/* ---- the machine ---- */

static bool read_line(const char *path, char *line, int room) {
    FILE *file = fopen(path, "r");
    bool ok = file && fgets(line, room, file);
    if (file) fclose(file);
    if (ok) line[strcspn(line, "\n")] = '\0';
    return ok;
}

static void find_cores(finding *f) {
    cpu_set_t set;
    char quota[64];
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int usable = sched_getaffinity(0, sizeof set, &set) ? (int)online : CPU_COUNT(&set);
    snprintf(f->value, FINDING, "%d of %ld", usable, online);
    if (usable < online) f->advice = "affinity keeps this process off the others";
    if (read_line("/sys/fs/cgroup/cpu.max", quota, sizeof quota) && strncmp(quota, "max", 3)) {
        f->verdict = "limited";
        f->advice = "a control group limits processor time: timings will vary";
    }
}

static void find_memory(finding *f) {
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
    if (available >= all / 10) return;
    f->verdict = "tight";
    f->advice = "less than a tenth is free";
}

static void find_huge_pages(finding *f) {
    char line[64] = "";
    bool known = read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line);
    char *chosen = strchr(line, '['), *end = strchr(line, ']');
    if (!known || !chosen || !end) {
        snprintf(f->value, FINDING, "unknown");
        f->verdict = "unknown";
        return;
    }
    *end = '\0';
    snprintf(f->value, FINDING, "transparent: %s", chosen + 1);
    if (strcmp(chosen + 1, "never")) return;
    f->verdict = "slow";
    f->advice = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
}

static void find_caches(finding *f) {
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

/* ---- the answer ---- */

static const struct {
    const char *name, *key;
    void (*find)(finding *f);
} questions[] = {{"version", "version", find_version},
                 {"compiler", "compiler", find_compiler},
                 {"engines", "engines", find_engines},
                 {"SIMD", "simd", find_simd},
                 {"settings", "settings", find_settings},
                 {"cores", "cores", find_cores},
                 {"memory", "memory", find_memory},
                 {"huge pages", "huge_pages", find_huge_pages},
                 {"caches", "caches", find_caches}};
#define QUESTIONS ((int)(sizeof questions / sizeof *questions))

static int print_doctor_json(const finding *all) {
    json_t *o = json_object();
    for (int i = 0; i < QUESTIONS; i++)
        json_object_set_new(
            o, questions[i].key,
            json_pack("{s:s, s:s, s:s}", "value", all[i].value, "verdict", all[i].verdict, "advice", all[i].advice));
    return print_json(o, NULL, NULL);
}

static int print_doctor_text(const finding *all) {
    for (int i = 0; i < QUESTIONS; i++)
        printf("%-11s %-40s %s%s%s\n", all[i].name, all[i].value, all[i].verdict, *all[i].advice ? ": " : "",
               all[i].advice);
    return DONE;
}

enum { JSON = 256 };
static const struct argp_option options[] = {{.name = "json", .key = JSON, .doc = "answer in JSON"}, {0}};

static error_t parse(int key, char *word, struct argp_state *state) {
    bool *json = state->input;
    switch (key) {
    case JSON: *json = true; return 0;
    case ARGP_KEY_ARG: argp_error(state, "doctor takes no arguments, '%s' is one", word); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp doctor_argp = {options, parse, NULL, "What this build and this machine offer.",
                                        NULL,    NULL,  NULL};

int cmd_doctor(int argc, char **argv) {
    finding all[QUESTIONS];
    bool json = false;
    argp_parse(&doctor_argp, argc, argv, 0, NULL, &json);
    for (int i = 0; i < QUESTIONS; i++) {
        all[i] = (finding){.name = questions[i].name, .verdict = "ok", .advice = ""};
        questions[i].find(&all[i]);
    }
    return json ? print_doctor_json(all) : print_doctor_text(all);
}
