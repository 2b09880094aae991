/* Yield: a waiter yields its core as long as that costs little.
 *
 * On a free core, sched_yield amounts to polling.  If another thread computes on the core, a yield takes whole time
 * slices: the kernel schedules a yielding thread after all others, again with every yield, whereas a thread that wakes
 * up from a sleep runs soon.  So after a long yield the waiter sleeps instead, and no thread of this process yields for
 * a while.  That period is short at first, and doubles each time a yield takes long again. */
#include "wait/wait.h"

#include <sched.h>

#define LONG 1e-3      /* seconds: less than a usual time slice, and much more than a sleep and a wake-up cost */
#define SHORTEST 0.005 /* seconds without a yield after the first long one */
#define LONGEST 0.8

/* The time until which no thread yields, and the length of that period.  If two threads write both at once, a mixture
 * of their values does no harm. */
static _Atomic double until, span;

static double load_relaxed(_Atomic double *x) { return atomic_load_explicit(x, memory_order_relaxed); }
static void store_relaxed(_Atomic double *x, double value) { atomic_store_explicit(x, value, memory_order_relaxed); }

static void record_long_yield(double now) {
    double last = load_relaxed(&span), next = !last ? SHORTEST : last < LONGEST ? 2 * last : LONGEST;
    store_relaxed(&span, next);
    store_relaxed(&until, now + next);
}

bool rshi_yield(void) {
    double before = rshi_seconds();
    if (before < load_relaxed(&until)) return false;
    sched_yield();
    double after = rshi_seconds();
    if (after - before >= LONG) record_long_yield(after);
    else if (load_relaxed(&span)) store_relaxed(&span, 0);
    return after - before < LONG;
}
