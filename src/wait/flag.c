/* Flag: a waiter polls for a short while, yields, then sleeps in the kernel.
 *
 * No wake-up is lost: a sleeper increments `sleepers` before it reads the value for the last time, and a poster sets
 * the value before it reads `sleepers`.  Both are sequentially consistent, so at least one of them sees the other.  The
 * kernel compares the value again before it puts the sleeper to sleep.  Sleeps are bounded nevertheless, because a rank
 * that leaves cannot find every flag on which others sleep. */
#include "wait/wait.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAP 0.05 /* seconds of one sleep */
#define DEFAULT_TIMEOUT 1800.0
#define PARTING 0.002 /* seconds, at least, between two moves of a thread to another core */

/* Operations of the system call futex.  <linux/futex.h> defines them too, but not every C library installs it. */
enum { WAIT = 0, WAKE = 1, ONE_PROCESS = 128 };

/* Returns the half of the value that the kernel compares: the lower half, because it changes with every post. */
static void *futex_word(rshi_flag *flag) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (char *)&flag->value + 4;
#else
    return &flag->value;
#endif
}

static void futex_sleep(rshi_flag *flag, uint32_t seen, const rshi_patience *p) {
    time_t whole = (time_t)p->nap;
    const struct timespec nap = {whole, (long)((p->nap - (double)whole) * 1e9)};
    syscall(SYS_futex, futex_word(flag), p->one_process ? WAIT | ONE_PROCESS : WAIT, seen, &nap, NULL, 0);
}

static bool flag_reached(rshi_flag *flag, uint64_t target) {
    return atomic_load_explicit(&flag->value, memory_order_acquire) >= target;
}

bool rshi_flag_is_near(const rshi_flag *flag) {
    return atomic_load_explicit(&((rshi_flag *)flag)->core, memory_order_relaxed) == sched_getcpu() + 1;
}

/* Moves this thread to another core.  Two ranks on the same core that wait for each other alternate through the
 * scheduler, which is slow, and the scheduler does not correct it.  If there are enough cores, the waiting rank moves
 * to another one by removing this core from its affinity mask for a moment.  This is done rarely, because there may be
 * good reasons for the placement.
 *
 * Others may change the affinity of this thread (taskset -p, a launcher that binds late), and their setting has
 * precedence: a mask that this thread did not set is kept.  The kernel cannot compare and set in one call, so a change
 * between two of these calls, less than a microsecond apart, is still undone. */
static void move_to_other_core(const rshi_flag *flag) {
    static _Thread_local double last;
    int here = sched_getcpu();
    cpu_set_t allowed, others, now_allowed;
    if (here < 0 || !rshi_flag_is_near(flag)) return;
    double now = rshi_seconds();
    if (now - last < PARTING || sched_getaffinity(0, sizeof allowed, &allowed)) return;
    last = now;
    others = allowed;
    CPU_CLR(here, &others);
    if (!CPU_COUNT(&others) || sched_setaffinity(0, sizeof others, &others)) return;
    if (!sched_getaffinity(0, sizeof now_allowed, &now_allowed) && !CPU_EQUAL(&now_allowed, &others)) return;
    sched_setaffinity(0, sizeof allowed, &allowed);
}

static bool poll_then_yield(rshi_flag *flag, uint64_t target, const rshi_patience *p) {
    for (int i = 0; i < p->spins; i++) {
        if (flag_reached(flag, target)) return true;
        rshi_relax();
    }
    if (p->roomy) move_to_other_core(flag);
    for (int i = 0; i < p->yields && !flag_reached(flag, target); i++)
        if (!rshi_yield()) break;
    return flag_reached(flag, target);
}

static void sleep_on_flag(rshi_flag *flag, uint64_t target, const rshi_patience *p) {
    atomic_fetch_add(&flag->sleepers, 1);
    uint64_t seen = atomic_load(&flag->value);
    if (seen < target) futex_sleep(flag, (uint32_t)seen, p);
    atomic_fetch_sub(&flag->sleepers, 1);
}

rsh_status rshi_flag_wait(rshi_flag *flag, uint64_t target, const rshi_patience *p, rshi_wait_check check, void *ctx) {
    if (poll_then_yield(flag, target, p)) return RSH_OK;
    rshi_watch watch = {0};
    for (;;) {
        rsh_status st = check(ctx, rshi_watch_look(&watch, RSHI_WATCH_STEP));
        if (flag_reached(flag, target)) return RSH_OK;
        if (st) return st;
        sleep_on_flag(flag, target, p);
        if (flag_reached(flag, target)) return RSH_OK;
    }
}

static void wake_sleepers(rshi_flag *flag, int n, bool one_process) {
    if (!atomic_load(&flag->sleepers)) return;
    syscall(SYS_futex, futex_word(flag), one_process ? WAKE | ONE_PROCESS : WAKE, n, NULL, NULL, 0);
}

void rshi_flag_post_to(rshi_flag *flag, uint64_t value, int n, bool one_process) {
    atomic_store_explicit(&flag->core, sched_getcpu() + 1, memory_order_relaxed);
    atomic_store(&flag->value, value);
    wake_sleepers(flag, n, one_process);
}

void rshi_flag_post(rshi_flag *flag, uint64_t value, bool one_process) {
    rshi_flag_post_to(flag, value, INT_MAX, one_process);
}

void rshi_flag_rouse(rshi_flag *flag, bool one_process) { wake_sleepers(flag, INT_MAX, one_process); }

int rshi_cores(void) {
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN); /* there may be more cores than a cpu_set_t holds */
    return n > 0 ? (int)n : 1;
}

void rshi_cores_mark(uint64_t set[RSHI_CORE_WORDS]) {
    cpu_set_t cores;
    uint64_t words[sizeof cores / sizeof *set];
    memset(set, 0, RSHI_CORE_WORDS * sizeof *set);
    if (sched_getaffinity(0, sizeof cores, &cores)) return;
    memcpy(words, &cores, sizeof words);
    for (size_t i = 0; i < sizeof cores / sizeof *set; i++) set[i % RSHI_CORE_WORDS] |= words[i];
}

rsh_status rshi_read_timeout(double *seconds) {
    const char *text = getenv("RESHARD_TIMEOUT");
    if (!text || !*text) {
        *seconds = DEFAULT_TIMEOUT;
        return RSH_OK;
    }
    char *end;
    double value = rshi_text_number(text, &end);
    RSH_REQUIRE(!*end && value > 0, RSH_EVALUE,
                "RESHARD_TIMEOUT must be a positive number of seconds, got \"%.40s\"", text);
    *seconds = value;
    return RSH_OK;
}

rsh_status rshi_report_all_late(double waited, double timeout) {
    return rshi_fail(RSH_ETIMEOUT, "timed out after %.3g seconds waiting for the other ranks (RESHARD_TIMEOUT is %g)",
                     waited, timeout);
}

/* Chooses how long a waiter polls and yields.  A rank with its own core polls for a microsecond or two; a rank that
 * shares its core would only delay the rank it waits for.  Then it yields for about as long as a sleep and a wake-up
 * cost together (20 us and more in a virtual machine): on a free core this amounts to polling, on a busy core other
 * threads run.  With many ranks the yields themselves are the load, so it sleeps almost at once. */
rshi_patience rshi_patience_for(int ranks, bool one_process, double timeout) {
    int cores = rshi_cores();
    return (rshi_patience){
        .spins = ranks > cores ? 8 : 100,
        .yields = ranks < 64 ? 64 : 2,
        .cores = cores,
        .roomy = ranks > 1 && ranks <= cores,
        .one_process = one_process,
        .nap = timeout < NAP ? timeout : NAP,
        .timeout = timeout,
    };
}
