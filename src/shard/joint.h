/* joint: the moves of all members of a team as one program, which each member has for itself.
 *
 * A process cannot run the program of another one, whose pointers mean nothing to it.  But the plan
 * says what every rank does, and all parts lie where every process reads and writes them. */
#ifndef RESHARD_SHARD_JOINT_H
#define RESHARD_SHARD_JOINT_H

#include "comm/comm.h"
#include "shard/numbering.h"
#include "shard/program.h"

typedef struct rshi_joint {
    rsh_comm *comm;
    rshi_program program;
    rshi_parts *parts; /* owned: [size of the comm] */
    int64_t *first;    /* owned: of all of them, one rank after the other */
    char **base;       /* owned: by part number, one rank after the other */
    uint64_t shown;    /* which showing of the team's parts the addresses are from; 0: none */
} rshi_joint;

/* Local, with the cards of a bind at hand.  For plans of one stage. */
rsh_status rshi_joint_new(const rsh_plan *plan, rsh_comm *comm, rshi_joint **out);
void rshi_joint_free(rshi_joint *j);

/* Where all parts lie now. */
void rshi_joint_look_up(rshi_joint *j);

#endif
