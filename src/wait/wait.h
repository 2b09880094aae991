/* wait: waiting for a counter in memory that another rank advances. */
#ifndef RESHARD_WAIT_WAIT_H
#define RESHARD_WAIT_WAIT_H

#include <stdatomic.h>

#include "base/base.h"

/* A 64-bit counter on its own cache line that its owner advances and peers wait for; in shared
 * memory. */
typedef struct rshi_flag {
    _Atomic uint64_t value;
    _Atomic uint32_t sleepers; /* waiters that may need a wake-up call */
    _Atomic int32_t core;      /* the core on which it was last posted, counted from 1; 0:
                                  unknown */
    char pad[64 - sizeof(uint64_t) - 2 * sizeof(uint32_t)];
} rshi_flag;

/* How long a waiter stays awake before it sleeps in the kernel, and when it gives up. */
typedef struct rshi_patience {
    int spins;        /* polls without a yield */
    int yields;       /* polls with a yield, while no other thread needs the core */
    int cores;        /* number of cores that all ranks share */
    bool roomy;       /* there is at least one core for every rank */
    bool one_process; /* all ranks share one address space: use private futexes */
    double nap;       /* seconds of sleep after which a waiter checks its peers */
    double timeout;   /* seconds until it gives up */
} rshi_patience;

/* Yields the core for a moment.  Returns false if another thread needs the core for long, so that
 * the waiter should sleep. */
bool rshi_yield(void);

/* Pauses between two polls. */
static inline void rshi_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Returns the number of cores that this process may run on. */
int rshi_cores(void);
/* Writes the set of these cores: bits by core number, modulo the number of bits.  Empty if
 * unknown. */
#define RSHI_CORE_WORDS 4
void rshi_cores_mark(uint64_t set[RSHI_CORE_WORDS]);

/* Reads RESHARD_TIMEOUT, in seconds; 1800 if it is not set.  RSH_EVALUE if it is not a positive
 * number. */
rsh_status rshi_read_timeout(double *seconds);
/* Returns RSH_ETIMEOUT for a wait that did not depend on a single rank. */
rsh_status rshi_report_all_late(double waited, double timeout);
/* Returns the patience for `ranks` ranks on the cores of this process. */
rshi_patience rshi_patience_for(int ranks, bool one_process, double timeout);

/* Should the wait continue?  Called when polling has failed and then after every sleep, with the
 * seconds waited so far.  RSH_OK: continue; otherwise the wait ends with that status, unless the
 * flag has reached its target meanwhile. */
typedef rsh_status (*rshi_wait_check)(void *ctx, double waited);

/* Was the flag last posted on the core that this thread runs on? */
bool rshi_flag_is_near(const rshi_flag *flag);

/* Waits until flag->value >= target (acquire). */
rsh_status rshi_flag_wait(rshi_flag *flag, uint64_t target, const rshi_patience *p,
                          rshi_wait_check check, void *ctx);
/* Sets flag->value (release) and wakes its sleepers.  Only the flag's owner posts, so the flag
 * outlives the call. */
void rshi_flag_post(rshi_flag *flag, uint64_t value, bool one_process);
/* Does the same, but wakes at most n of its sleepers. */
void rshi_flag_post_to(rshi_flag *flag, uint64_t value, int n, bool one_process);
/* Wakes the sleepers without a new value, so that they check their peers. */
void rshi_flag_rouse(rshi_flag *flag, bool one_process);

#endif
