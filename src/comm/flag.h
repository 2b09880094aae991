/* flag: how a rank waits for a counter in memory that another rank advances, for every engine that
 * shares memory. */
#ifndef RESHARD_COMM_FLAG_H
#define RESHARD_COMM_FLAG_H

#include "comm/comm.h"

/* How long a waiter stays awake before it sleeps in the kernel, and when it gives up. */
typedef struct rshi_patience {
    int spins;        /* busy looks at the flag */
    int yields;       /* looks with a sched_yield before each */
    bool roomy;       /* there is a core for every rank */
    bool one_process; /* all waiters and posters share one address space: the cheaper futex */
    double nap;       /* seconds of sleep after which a waiter looks around */
    double timeout;   /* seconds until it gives up */
} rshi_patience;

/* Cores this process may run on. */
int rshi_cores(void);

/* Seconds of RESHARD_TIMEOUT, 1800 if unset; RSH_EVALUE if it is not a positive number. */
rsh_status rshi_read_timeout(double *seconds);
/* RSH_ETIMEOUT, for a wait that no rank in particular could have ended. */
rsh_status rshi_report_all_late(double waited, double timeout);
/* RSH_EMISMATCH: the rank that this one waits for waits for it in a collective call. */
rsh_status rshi_report_elsewhere(const rsh_comm *c, int peer);
/* Patience for `ranks` that run on the cores of this process. */
rshi_patience rshi_patience_for(int ranks, bool one_process, double timeout);

/* Is it any use to wait on?  Asked when the short wait was in vain and then at every nap's end,
 * with the seconds waited so far. RSH_OK: go on; else the wait ends with that status, unless the
 * flag got there after all. */
typedef rsh_status (*rshi_doubt)(void *ctx, double waited);

/* Wait until flag->value >= target (acquire). */
rsh_status rshi_flag_wait(rshi_flag *flag, uint64_t target, const rshi_patience *p,
                          rshi_doubt doubt, void *ctx);
/* Set flag->value (release) and wake its sleepers.  Only the flag's owner posts, so the flag
 * outlives the call. */
void rshi_flag_post(rshi_flag *flag, uint64_t value, bool one_process);
/* Wake the sleepers without news, so that they look around. */
void rshi_flag_rouse(rshi_flag *flag, bool one_process);

#endif
