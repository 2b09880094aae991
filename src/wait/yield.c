/* Yield: a waiter offers its core to others for as long as that costs little.
 *
 * On a core that nobody else wants, sched_yield is another way of looking.  On one that somebody computes on it takes
 * whole time slices: the kernel puts who yields behind all others, with every yield again, whereas it lets who wakes up
 * from a sleep run soon.  So a yield that took long tells the waiter to sleep instead.  Nor does any thread of this
 * process ask again for a while: first a short one, then twice as long each time that the answer is the same. */
#include "wait/wait.h"

#include <sched.h>

#define LONG 1e-3      /* seconds: less than a usual slice, and many times what a sleep and a wake-up cost */
#define SHORTEST 0.005 /* seconds without a yield after the first long one */
#define LONGEST 0.8

/* Until when nobody yields, and for how long that was.  Threads that write both at once leave a mixture, which is as
 * good as either. */
static _Atomic double until, span;

static double get(_Atomic double *x) { return atomic_load_explicit(x, memory_order_relaxed); }
static void set(_Atomic double *x, double value) { atomic_store_explicit(x, value, memory_order_relaxed); }

static void note_long(double now) {
    double last = get(&span), next = !last ? SHORTEST : last < LONGEST ? 2 * last : LONGEST;
    set(&span, next);
    set(&until, now + next);
}

bool rshi_yield(void) {
    double before = rshi_seconds();
    if (before < get(&until)) return false;
    sched_yield();
    double after = rshi_seconds();
    if (after - before >= LONG) note_long(after);
    else if (get(&span)) set(&span, 0);
    return after - before < LONG;
}
