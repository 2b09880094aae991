/* Kill: ranks of the engine shm reshard in a loop, and one of them is killed at a random moment.
 *
 *   big_kill [TIMES]          TIMES: 100; RESHARD_SEED: the seed (default: the time)
 *
 * Within a second every survivor must get RSH_EPEER, with a message that names the dead rank, and its source must be
 * unchanged.  Afterwards no process, socket or file may be left. */
#include <reshard.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 4, TEXT = 160 };

/* What one rank reports to the process that kills. */
typedef struct survivor {
    atomic_int over;
    rsh_status status;
    double heard; /* when the failed call returned */
    bool untouched, freed;
    char sentence[TEXT];
} survivor;

/* Data that all processes share. */
typedef struct stage {
    char job[64];
    int victim, way, size; /* size: length of both dims of the tensor */
    uint64_t seed;
    atomic_int ready;
    survivor of[RANKS];
} stage;

static uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(rsh_status st, const char *what) {
    if (!st) return;
    fprintf(stderr, "big_kill: %s: %s: %s\n", what, rsh_status_name(st), rsh_error_detail());
    _exit(3);
}

/* ---- a rank ---- */

typedef struct scene {
    rsh_comm *comm;
    rsh_layout *from, *to;
    rsh_sharded *src;
} scene;

static const struct {
    const char *name, *from, *to;
    bool bound, messages;
} ways[] = {
    {"exec", "u32[%d/x, %d] on x=4", "u32[%d, %d/x] on x=4", true, false},
    {"reshard", "u32[%d/x:3, %d] on x=4", "u32[%d, %d/x~] on x=4", false, false},
    {"messages", "u32[%d/x, %d] on x=4", "u32[%d, %d/x] on x=4", false, true},
    {"exec, messages", "u32[%d/x, %d] on x=4", "u32[%d, %d/x:5] on x=4 order(1,0)", true, true},
    {"sum", "u32[%d, %d] on x=4 sum(x)", "u32[%d, %d] on x=4", false, false},
};
enum { WAYS = sizeof ways / sizeof *ways };

static size_t bytes_of(const rsh_sharded *s) { return (size_t)rsh_tensor_count(rsh_sharded_part(s, 0)) * 4; }
static void *data_of(const rsh_sharded *s) { return rsh_tensor_data(rsh_sharded_part(s, 0)); }

static uint64_t sum_of(const rsh_sharded *s) {
    uint64_t h = 1469598103934665603u;
    const uint32_t *p = data_of(s);
    for (size_t i = 0; i < bytes_of(s) / 4; i++) h = (h ^ p[i]) * 1099511628211u;
    return h;
}

static rsh_layout *layout(const char *form, int size) {
    char text[TEXT];
    rsh_layout *l = NULL;
    snprintf(text, sizeof text, form, size, size);
    must(rsh_layout_parse(text, &l), text);
    return l;
}

static scene enter(const stage *g, int rank) {
    scene s = {.from = layout(ways[g->way].from, g->size), .to = layout(ways[g->way].to, g->size)};
    uint64_t seed = g->seed + (uint64_t)rank;
    must(rsh_comm_shm(g->job, rank, RANKS, &s.comm), "joining");
    must(rsh_sharded_empty(s.comm, s.from, &s.src), "allocating");
    uint32_t *p = data_of(s.src);
    for (size_t i = 0; i < bytes_of(s.src) / 4; i++) p[i] = (uint32_t)draw(&seed);
    return s;
}

/* Both functions return the first failure, which must occur. */
static rsh_status reshard_forever(const scene *s, const rsh_plan_opts *opts) {
    for (;;) {
        rsh_sharded *dst;
        rsh_status st = rsh_reshard(s->src, s->to, opts, &dst);
        if (st) return st;
        rsh_sharded_free(dst);
    }
}

static rsh_status run_forever(const scene *s, const rsh_plan_opts *opts, survivor *me) {
    rsh_plan *plan;
    rsh_sharded *dst;
    rsh_exec *exec;
    must(rsh_plan_new(s->from, s->to, opts, &plan), "planning");
    must(rsh_sharded_empty(s->comm, s->to, &dst), "allocating");
    rsh_status st =
        rsh_exec_bind(plan, s->comm, &(rsh_memory){data_of(s->src), NULL}, &(rsh_memory){data_of(dst), NULL}, &exec);
    if (st) return st;
    while (!st) st = rsh_exec_run(exec);
    me->heard = now();
    snprintf(me->sentence, sizeof me->sentence, "%s", rsh_error_detail());
    rsh_exec_free(exec);
    rsh_sharded_free(dst);
    rsh_plan_free(plan);
    return st;
}

static void be_rank(stage *g, int rank) {
    survivor *me = &g->of[rank];
    scene s = enter(g, rank);
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    opts.messages = ways[g->way].messages;
    uint64_t before = sum_of(s.src);
    atomic_fetch_add(&g->ready, 1);
    me->status = ways[g->way].bound ? run_forever(&s, &opts, me) : reshard_forever(&s, &opts);
    if (me->heard == 0) {
        me->heard = now();
        snprintf(me->sentence, sizeof me->sentence, "%s", rsh_error_detail());
    }
    me->untouched = sum_of(s.src) == before;
    rsh_sharded_free(s.src);
    me->freed = rsh_comm_free(s.comm) == RSH_OK;
    rsh_layout_free(s.from);
    rsh_layout_free(s.to);
    atomic_store(&me->over, 1);
    _exit(0);
}

/* ---- the process that kills ---- */

static bool wait_until(double deadline, const stage *g) {
    while (atomic_load(&g->ready) < RANKS && now() < deadline) usleep(200);
    return atomic_load(&g->ready) == RANKS;
}

/* All processes must end by the deadline; otherwise they are killed here, and the test fails. */
static bool reap(const pid_t *pid, int victim, double deadline) {
    bool good = true;
    for (int r = 0; r < RANKS; r++) {
        int how = 0;
        pid_t got;
        while ((got = waitpid(pid[r], &how, WNOHANG)) == 0 && now() < deadline) usleep(500);
        if (!got) {
            kill(pid[r], SIGKILL);
            waitpid(pid[r], &how, 0);
        }
        bool as_meant = r == victim ? WIFSIGNALED(how) : WIFEXITED(how) && !WEXITSTATUS(how);
        if (!got || !as_meant)
            printf("rank %d: %s\n", r, got ? "ended otherwise than it should" : "still there after ten seconds");
        good &= got && as_meant;
    }
    return good;
}

static bool check_survivor(const survivor *s, int rank, int victim, double killed, double *worst) {
    char name[32];
    snprintf(name, sizeof name, "rank %d has died", victim);
    double late = s->heard - killed;
    if (late > *worst) *worst = late;
    bool good = s->over && s->status == RSH_EPEER && strstr(s->sentence, name) && late < 1 && s->untouched && s->freed;
    if (!good)
        printf("rank %d: over %d, %s after %.3f s, \"%s\", source %s, comm %s\n", rank, s->over,
               rsh_status_name(s->status), late, s->sentence, s->untouched ? "untouched" : "CHANGED",
               s->freed ? "freed" : "NOT FREED");
    return good;
}

static bool one_death(stage *g, uint64_t *seed, int number, double *worst) {
    pid_t pid[RANKS];
    memset(g, 0, sizeof *g);
    snprintf(g->job, sizeof g->job, "big_kill-%d-%d", (int)getpid(), number);
    static const int sizes[] = {64, 300, 1024};
    g->way = number % WAYS;
    g->victim = (int)(draw(seed) % RANKS);
    g->size = sizes[draw(seed) % 3];
    g->seed = draw(seed);
    useconds_t after = (useconds_t)(draw(seed) % 30000);
    for (int r = 0; r < RANKS; r++)
        if (!(pid[r] = fork())) be_rank(g, r);
    bool good = wait_until(now() + 20, g);
    usleep(after);
    double killed = now();
    kill(pid[g->victim], SIGKILL);
    good &= reap(pid, g->victim, killed + 10);
    for (int r = 0; r < RANKS; r++)
        if (r != g->victim) good &= check_survivor(&g->of[r], r, g->victim, killed, worst);
    if (!good)
        printf("case %d FAILED: %s, %d x %d, rank %d killed after %u us\n", number, ways[g->way].name, g->size, g->size,
               g->victim, after);
    return good;
}

/* ---- what is left behind ---- */

static int entries(const char *folder) {
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));)
        n += strstr(e->d_name, "reshard") || strstr(e->d_name, "big_kill");
    if (dir) closedir(dir);
    return n;
}

/* Counts abstract sockets of the library, of any job. */
static int sockets(void) {
    FILE *f = fopen("/proc/net/unix", "r");
    char line[512];
    int n = 0;
    while (f && fgets(line, sizeof line, f)) n += strstr(line, "@reshard-") != NULL;
    if (f) fclose(f);
    return n;
}

typedef struct remains {
    int shm, tmp, sockets;
} remains;

static remains look(void) { return (remains){entries("/dev/shm"), entries("/tmp"), sockets()}; }

/* Checks that nothing is left.  Other jobs on the machine may come and go, but anything of ours would stay while this
 * test looks. */
static bool nothing_left(remains before) {
    remains r = look();
    for (int i = 0; i < 30 && (r.shm > before.shm || r.tmp > before.tmp || r.sockets > before.sockets); i++, r = look())
        usleep(100000);
    errno = 0;
    bool no_child = waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD;
    printf("left behind: %s, %d files in /dev/shm, %d in /tmp, %d sockets\n", no_child ? "no process" : "PROCESSES",
           r.shm - before.shm, r.tmp - before.tmp, r.sockets - before.sockets);
    return no_child && r.shm <= before.shm && r.tmp <= before.tmp && r.sockets <= before.sockets;
}

int main(int argc, char **argv) {
    int times = argc > 1 ? atoi(argv[1]) : 100, failed = 0;
    uint64_t seed = getenv("RESHARD_SEED") ? strtoull(getenv("RESHARD_SEED"), NULL, 0) : (uint64_t)time(NULL);
    double worst = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("kill: %d times, RESHARD_SEED=%llu\n", times, (unsigned long long)seed);
    stage *g = mmap(NULL, sizeof *g, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (g == MAP_FAILED) return 1;
    /* processes that ranks leave behind become children of this one and can be found */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    remains before = look();
    for (int i = 0; i < times; i++) failed += !one_death(g, &seed, i, &worst);
    printf("%d of %d failed; the last survivor heard after %.1f ms at worst\n", failed, times, 1e3 * worst);
    return !nothing_left(before) || failed;
}
