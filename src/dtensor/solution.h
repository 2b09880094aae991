/* solution: what an op's rule leads to for DTensors, as layouts on their mesh. */
#ifndef RESHARD_DTENSOR_SOLUTION_H
#define RESHARD_DTENSOR_SOLUTION_H

#include "dtensor/dtensor.h"
#include "rule/rule.h"

/* The layout of one of the op's tensors by its placements, and that in which the op works on it:
 * ranges of a letter are cut where the letter is.  NULL: the same (rule_layouts.c). */
rsh_status rshi_rule_layouts(rsh_mesh *mesh, const rsh_place *places, const rsh_rule_tensor *t,
                             rsh_layout **placed, rsh_layout **worked);

/* Are these two layouts?  Asks for no memory. */
bool rshi_rule_is_range(const rsh_mesh *mesh, const rsh_place *places, const rsh_rule_tensor *t);

/* Remembered by the mesh. */
typedef struct rshi_solution {
    struct rshi_solution *next; /* of the same bucket */
    uint64_t key;
    const rsh_grad_op *op;
    int nin, nout;
    unsigned own, counted;
    bool moves_only;
    rsh_rule_tensor *tensors; /* nin, then nout; all lists are in one block with the solution */
    rsh_layout **given;       /* nin: of the inputs */
    rsh_layout **wanted;      /* nin: what they are brought to; NULL: nothing to do */
    rsh_layout **grad;        /* nin */
    rsh_layout **out;         /* nout */
    rsh_layout **made;        /* nout: in which the op makes them; NULL: as `out` */
    bool calls;               /* the op makes collective calls in forward */
    bool *at_home;            /* nin: every rank has what is wanted, and nothing moves */
} rshi_solution;

/* For inputs of these layouts, NULL: plain or missing.  Borrowed until the next call.  RSH_EUNSUP
 * with the reason in `why` if nothing follows. */
rsh_status rshi_solution_find(rsh_mesh *mesh, const rshi_rule_question *m,
                              const rsh_layout *const *given, const rshi_solution **out,
                              char why[RSHI_WHY]);
/* For a rank that has no memory for a solution: would those that have it move inputs or outputs, or
 * make collective calls in the op?  `given` as above, but for plain inputs that become replicated:
 * q->placed says which those are. */
bool rshi_solution_meets(const rsh_mesh *mesh, const rshi_rule_question *q,
                         const rsh_layout *const *given);

#endif
