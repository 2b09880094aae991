/* passes: what a caller is told while totals are added up, by passes over all ranks.
 *
 * A pass has some units of work for each rank of the plan.  Whoever makes one says how far it is;
 * the caller is told a thousand times at most. */
#ifndef RESHARD_PLAN_PASSES_H
#define RESHARD_PLAN_PASSES_H

#include <reshard/progress.h>

#include "base/base.h"

/* Units of work for a rank in each pass: what they take in proportion, a few tenths of a
 * microsecond each in most plans. */
enum rshi_pass {
    RSHI_PASS_HALF = 1,
    RSHI_PASS_NODES = 2,
    RSHI_PASS_FAR = 1,
    RSHI_PASS_SUMS = 2 * RSHI_PASS_HALF + RSHI_PASS_NODES + RSHI_PASS_FAR,
    RSHI_PASS_BOUND = 1,
    RSHI_PASS_NODE_BOUND = 2,
    RSHI_PASS_SHARES = 64
};

typedef struct rshi_progress {
    rsh_progress_fn fn; /* NULL: nobody is told */
    void *ctx;
    uint64_t ranks;       /* of the plan */
    uint64_t rest;        /* units of all ranks that follow after the totals themselves */
    uint64_t done, total; /* done: before the pass at hand */
    uint64_t pass;        /* units of the pass at hand, of all ranks */
    uint64_t next;        /* when to tell again */
} rshi_progress;

/* Everywhere: w may be NULL, and RSH_ERUNTIME says that the caller stops the work. */

/* Nothing is done, of `units` for each rank and the rest. */
rsh_status rshi_progress_begin(rshi_progress *w, uint64_t units);
/* The pass before is done; the next has `units` for each rank. */
void rshi_progress_pass(rshi_progress *w, uint64_t units);
/* Of the pass at hand i of n are done. */
rsh_status rshi_progress_tell(rshi_progress *w, int64_t i, int64_t n);
static inline rsh_status rshi_progress_at(rshi_progress *w, int64_t i, int64_t n) {
    return w && w->fn ? rshi_progress_tell(w, i, n) : RSH_OK;
}
rsh_status rshi_progress_end(rshi_progress *w); /* all is done */

#endif
