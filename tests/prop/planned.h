/* Planned: a plan of a case with its totals and matrix, and checks that its numbers agree with one
 * another and with the oracle. */
#ifndef RESHARD_TESTS_PLANNED_H
#define RESHARD_TESTS_PLANNED_H

#include "prop.h"

enum { RANKS = GEN_MAX_ROLES };

typedef struct planned {
    ora_layout *from_o, *to_o;
    rsh_layout *from, *to;
    rsh_plan *plan;
    rsh_plan_totals totals;
    int64_t matrix[RANKS][RANKS]; /* [source][destination] */
    int64_t entries;
    bool in_order, positive;
} planned;

bool planned_new(prop_case *c, planned *p, const rsh_plan_opts *opts); /* of the case's texts */
void planned_free(planned *p);
bool totals_are_those_of_the_matrix(prop_case *c, const planned *p);
bool ranks_agree_with_the_matrix(prop_case *c,
                                 const planned *p); /* views and neighbours of every rank */
/* Without partials: bytes_moved and lower_bound must equal the oracle's counts. */
bool nothing_more_than_needed(prop_case *c, const planned *p);

#endif
