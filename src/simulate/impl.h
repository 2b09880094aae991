/* impl: the functions that the files of simulate share. */
#ifndef RESHARD_SIMULATE_IMPL_H
#define RESHARD_SIMULATE_IMPL_H

#include <reshard/simulate.h>

#include "plan/plan.h"

/* The cost of copying, in bytes written, by kind of copy. */
typedef struct rshi_work {
    double copied, transposed, combined;
    double runs;    /* number of contiguous runs */
    double written; /* bytes */
} rshi_work;

void rshi_work_add(rshi_work *w, const rshi_work *more, double weight);
/* Returns the seconds that the ranks of a node take together. */
double rshi_work_seconds(const rshi_work *w, const rsh_machine *m);

/* Computes the work of a transfer that reads its sources in place. */
rsh_status rshi_work_of_move(const rsh_plan *p, const rsh_transfer *t, rshi_work *out);
/* Compute the work of the sender of source i, which packs it, and of the receiver, which unpacks
 * all messages. */
rsh_status rshi_work_of_packing(const rsh_plan *p, const rsh_transfer *t, int64_t i,
                                rshi_work *out);
rsh_status rshi_work_of_unpacking(const rsh_plan *p, const rsh_transfer *t, rshi_work *out);

/* Checks a machine and fills in defaults. */
rsh_status rshi_machine_take(const rsh_machine *given, rsh_machine *out);

/* A rank that is examined; it represents `weight` ranks of its node. */
typedef struct rshi_witness {
    int64_t node, rank;
    double weight;
} rshi_witness;
typedef struct rshi_witnesses {
    rshi_witness *list; /* owned: sorted by node, then by rank */
    int64_t n, nodes;   /* nodes: of the whole plan */
} rshi_witnesses;
rsh_status rshi_witnesses_choose(const rsh_plan *p, rshi_witnesses *w);

/* Sets lower_bound and lower_bound_limit. */
rsh_status rshi_simulate_bound(const rsh_plan *p, const rsh_machine *m, const rshi_witnesses *w,
                               rsh_simulation *s);

#endif
