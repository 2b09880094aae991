/* rule: what follows from an op's rule and the placements of its inputs. */
#ifndef RESHARD_DTENSOR_RULE_H
#define RESHARD_DTENSOR_RULE_H

#include "dtensor/dtensor.h"

#define RSHI_RULE_MOST 64 /* inputs or outputs of an op */

/* An op, its dims as its rule tells them, and the placements of its inputs. */
typedef struct rshi_rule_question {
    const rsh_grad_op *op;
    rsh_mesh *mesh;
    rsh_rule_dims dims;
    const rsh_layout *layouts[RSHI_RULE_MOST]; /* of the inputs; NULL: plain or missing */
} rshi_rule_question;

/* What follows, as placements for each dim of the mesh. */
typedef rsh_place rshi_places[RSH_MAX_AXES];
typedef struct rshi_outcome {
    rshi_places was[RSHI_RULE_MOST];  /* the inputs, as they are */
    rshi_places in[RSHI_RULE_MOST];   /* as they are at first; then as they must be */
    rshi_places grad[RSHI_RULE_MOST]; /* of the gradients of the inputs */
    rshi_places out[RSHI_RULE_MOST];
} rshi_outcome;

/* Brings `o`, which has the placements of the inputs, to what follows.  RSH_EUNSUP with the reason
 * in `why` if nothing does. */
#define RSHI_WHY 200
rsh_status rshi_question_solve(const rshi_rule_question *m, rshi_outcome *o, char why[RSHI_WHY]);

/* The chunk of a dim of n elements at a position of the mesh, cut by the dims of the mesh that
 * shard it, first to last. */
void rshi_chunk_at(const rsh_mesh *mesh, const rsh_place *places, int dim, int64_t n,
                   int64_t position, int64_t *lo, int64_t *size);

/* The layout of one of the op's tensors by its placements, and that in which the op works on it:
 * ranges of a letter are cut where the letter is.  NULL: the same (rule_layouts.c). */
rsh_status rshi_rule_layouts(rsh_mesh *mesh, const rsh_place *places, const rsh_rule_tensor *t,
                             rsh_layout **placed, rsh_layout **worked);

/* The same as layouts, remembered by the mesh. */
typedef struct rshi_solution {
    struct rshi_solution *next; /* of the same bucket */
    uint64_t key;
    const rsh_grad_op *op;
    int nin, nout;
    unsigned own;
    bool moves_only;
    rsh_rule_tensor *tensors; /* nin, then nout; all lists are in one block with the solution */
    rsh_layout **given;       /* nin: of the inputs */
    rsh_layout **wanted;      /* nin: what they are brought to; NULL: nothing to do */
    rsh_layout **grad;        /* nin */
    rsh_layout **out;         /* nout */
    rsh_layout **made;        /* nout: in which the op makes them; NULL: as `out` */
    bool *at_home;            /* nin: every rank has what is wanted, and nothing moves */
} rshi_solution;

/* Borrowed until the next call.  RSH_EUNSUP as above. */
rsh_status rshi_solution_find(const rshi_rule_question *m, const rshi_solution **out,
                              char why[RSHI_WHY]);

/* Can a value of placements `from` become one of placements `to` by what each rank has? */
bool rshi_own_part_fits(int n, const rsh_place *from, const rsh_place *to);
/* Then this is it, on the same memory where it can be.  Local. */
rsh_status rshi_own_part_take(rsh_value *v, rsh_mesh *mesh, const rsh_layout *to, rsh_value **out);

#endif
