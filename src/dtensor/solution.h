/* solution: the solution of an op's rule for DTensors, as layouts on their mesh. */
#ifndef RESHARD_DTENSOR_SOLUTION_H
#define RESHARD_DTENSOR_SOLUTION_H

#include "dtensor/dtensor.h"
#include "rule/rule.h"

/* Creates the layout of one of the op's tensors from its placements, and the layout in which the op
 * works on it: ranges of a letter are cut like the letter.  *worked is NULL if both are the same
 * (rule_layouts.c). */
rsh_status rshi_rule_layouts(rsh_mesh *mesh, const rsh_place *places, const rsh_rule_tensor *t,
                             rsh_layout **placed, rsh_layout **worked);

/* Returns whether these two layouts differ.  Needs no memory. */
bool rshi_rule_is_range(const rsh_mesh *mesh, const rsh_place *places, const rsh_rule_tensor *t);

/* A solution, cached by the mesh. */
typedef struct rshi_solution {
    struct rshi_solution *next; /* in the same bucket */
    uint64_t key;
    const rsh_grad_op *op;
    int nin, nout;
    unsigned own, counted;
    bool moves_only;
    rsh_rule_tensor *tensors; /* nin, then nout; all lists are in one block with the solution */
    rsh_layout **given;       /* nin; of the inputs */
    rsh_layout **wanted;      /* nin; layouts to move them to; NULL: no move */
    rsh_layout **grad;        /* nin */
    rsh_layout **out;         /* nout */
    rsh_layout **made;        /* nout; layouts in which the op creates them; NULL: those of `out` */
    bool calls;               /* the op makes collective calls in forward */
    bool *at_home;            /* nin; every rank already has its wanted part, so nothing moves */
} rshi_solution;

/* Finds the solution for inputs of these layouts, NULL: plain or missing.  Borrowed until the next
 * call.  RSH_EUNSUP, with the reason in `why`, if there is none. */
rsh_status rshi_solution_find(rsh_mesh *mesh, const rshi_rule_question *m,
                              const rsh_layout *const *given, const rshi_solution **out,
                              char why[RSHI_WHY]);
/* For a rank without memory for a solution: returns whether other ranks would move inputs or
 * outputs, or make collective calls in the op.  `given` as above, except for plain inputs that
 * become replicated: q->placed tells which these are. */
bool rshi_solution_meets(const rsh_mesh *mesh, const rshi_rule_question *q,
                         const rsh_layout *const *given);

#endif
