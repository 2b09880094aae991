/* wait: how a rank waits for a counter in memory that another rank advances. */
#ifndef RESHARD_WAIT_WAIT_H
#define RESHARD_WAIT_WAIT_H

#include <stdatomic.h>

#include "base/base.h"

/* A 64-bit counter on a cache line of its own that its owner advances and peers wait for; lives in
 * shared memory. */
typedef struct rshi_flag {
    _Atomic uint64_t value;
    _Atomic uint32_t sleepers; /* waiters that may need a wake-up call */
    _Atomic int32_t core;      /* where it was last posted, counted from 1; 0: not known */
    char pad[64 - sizeof(uint64_t) - 2 * sizeof(uint32_t)];
} rshi_flag;

/* How long a waiter stays awake before it sleeps in the kernel, and when it gives up. */
typedef struct rshi_patience {
    int spins;        /* busy looks at the flag */
    int yields;       /* looks with a yield before each, while nobody wants the core */
    int cores;        /* that all ranks have together */
    bool roomy;       /* there is a core for every rank */
    bool one_process; /* all waiters and posters share one address space: the cheaper futex */
    double nap;       /* seconds of sleep after which a waiter looks around */
    double timeout;   /* seconds until it gives up */
} rshi_patience;

/* Let others have the core for a moment.  False: somebody wants it for long, so that whoever waits
 * had better sleep. */
bool rshi_yield(void);

/* A moment between two busy looks. */
static inline void rshi_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Cores this process may run on. */
int rshi_cores(void);
/* Which they are: bits by core number, modulo as many as there are.  None if it cannot be told. */
#define RSHI_CORE_WORDS 4
void rshi_cores_mark(uint64_t set[RSHI_CORE_WORDS]);

/* Seconds of RESHARD_TIMEOUT, 1800 if unset; RSH_EVALUE if it is not a positive number. */
rsh_status rshi_read_timeout(double *seconds);
/* RSH_ETIMEOUT, for a wait that no rank in particular could have ended. */
rsh_status rshi_report_all_late(double waited, double timeout);
/* Patience for `ranks` that run on the cores of this process. */
rshi_patience rshi_patience_for(int ranks, bool one_process, double timeout);

/* Is it any use to wait on?  Asked when the short wait was in vain and then at every nap's end,
 * with the seconds waited so far. RSH_OK: go on; else the wait ends with that status, unless the
 * flag got there after all. */
typedef rsh_status (*rshi_wait_check)(void *ctx, double waited);

/* Was it last posted on the core that this thread runs on? */
bool rshi_flag_is_near(const rshi_flag *flag);

/* Wait until flag->value >= target (acquire). */
rsh_status rshi_flag_wait(rshi_flag *flag, uint64_t target, const rshi_patience *p,
                          rshi_wait_check check, void *ctx);
/* Set flag->value (release) and wake its sleepers.  Only the flag's owner posts, so the flag
 * outlives the call. */
void rshi_flag_post(rshi_flag *flag, uint64_t value, bool one_process);
/* The same, and wake at most n of its sleepers. */
void rshi_flag_post_to(rshi_flag *flag, uint64_t value, int n, bool one_process);
/* Wake the sleepers without news, so that they look around. */
void rshi_flag_rouse(rshi_flag *flag, bool one_process);

#endif
