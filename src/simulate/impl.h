/* What the files of simulate ask of one another. */
#ifndef RESHARD_SIMULATE_IMPL_H
#define RESHARD_SIMULATE_IMPL_H

#include <reshard/simulate.h>

#include "plan/plan.h"

/* What copying costs, in bytes written with as many read, by what limits it. */
typedef struct rshi_work {
    double copied, transposed, combined;
    double runs;    /* contiguous runs of bytes */
    double written; /* bytes */
} rshi_work;

void rshi_work_add(rshi_work *w, const rshi_work *more, double weight);
/* Seconds that the ranks of a node take for it together. */
double rshi_work_seconds(const rshi_work *w, const rsh_machine *m);

/* A transfer that reads its sources where they lie. */
rsh_status rshi_work_of_move(const rsh_plan *p, const rsh_transfer *t, rshi_work *out);
/* What the sender of source number i does to pack it, and what the receiver does with all messages.
 */
rsh_status rshi_work_of_packing(const rsh_plan *p, const rsh_transfer *t, int64_t i,
                                rshi_work *out);
rsh_status rshi_work_of_unpacking(const rsh_plan *p, const rsh_transfer *t, rshi_work *out);

/* The machine with defaults filled in. */
rsh_status rshi_machine_take(const rsh_machine *given, rsh_machine *out);

/* Ranks whose shares are looked at, by node; each stands for `weight` ranks of its node. */
typedef struct rshi_witness {
    int64_t node, rank;
    double weight;
} rshi_witness;
typedef struct rshi_witnesses {
    rshi_witness *list; /* owned: by node, then by rank */
    int64_t n, nodes;   /* nodes of the plan */
} rshi_witnesses;
rsh_status rshi_witnesses_choose(const rsh_plan *p, rshi_witnesses *w);

/* Fill in lower_bound and lower_bound_limit. */
rsh_status rshi_simulate_bound(const rsh_plan *p, const rsh_machine *m, const rshi_witnesses *w,
                               rsh_simulation *s);

#endif
