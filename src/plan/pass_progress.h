/* pass progress: reports to a caller how much of a long computation is done.
 *
 * Totals are computed in passes over all ranks.  A pass has a fixed number of work units per
 * rank.  The caller is told at most a thousand times. */
#ifndef RESHARD_PLAN_PASS_PROGRESS_H
#define RESHARD_PLAN_PASS_PROGRESS_H

#include <reshard/progress.h>

#include "base/base.h"

/* Work units per rank of each pass, proportional to its time; one unit is a few tenths of a
 * microsecond in most plans. */
enum rshi_pass {
    RSHI_PASS_SIDE = 1,
    RSHI_PASS_NODES = 2,
    RSHI_PASS_FAR = 1,
    RSHI_PASS_DIRECT = 2 * RSHI_PASS_SIDE + RSHI_PASS_NODES + RSHI_PASS_FAR,
    RSHI_PASS_BOUND = 1,
    RSHI_PASS_NODE_BOUND = 2,
    RSHI_PASS_EDGES = 64
};

typedef struct rshi_progress {
    rsh_progress_fn fn; /* NULL: no reports */
    void *ctx;
    uint64_t ranks;       /* of the plan */
    uint64_t rest;        /* units of the passes that follow the totals */
    uint64_t done, total; /* done: before the current pass */
    uint64_t pass;        /* units of the current pass */
    uint64_t next;        /* the value of `done` at the next report */
} rshi_progress;

/* In all functions w may be NULL.  RSH_ERUNTIME means that the caller stops the computation. */

/* Starts with `units` per rank, and the rest. */
rsh_status rshi_progress_begin(rshi_progress *w, uint64_t units);
/* Ends the current pass and starts one with `units` per rank. */
void rshi_progress_pass(rshi_progress *w, uint64_t units);
/* Reports that i of n steps of the current pass are done. */
rsh_status rshi_progress_report(rshi_progress *w, int64_t i, int64_t n);
static inline rsh_status rshi_progress_at(rshi_progress *w, int64_t i, int64_t n) {
    return w && w->fn ? rshi_progress_report(w, i, n) : RSH_OK;
}
rsh_status rshi_progress_end(rshi_progress *w); /* reports the end */

#endif
