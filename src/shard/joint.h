/* joint: the moves of all members of a team as one program, of which each member has its own copy.
 *
 * A process cannot run the program of another, whose pointers are not valid in it.  But the plan
 * says what every rank does, and all parts are in memory that every process can read and write. */
#ifndef RESHARD_SHARD_JOINT_H
#define RESHARD_SHARD_JOINT_H

#include "comm/comm.h"
#include "shard/numbering.h"
#include "shard/program.h"

typedef struct rshi_joint {
    rsh_comm *comm;
    rshi_program program;
    rshi_parts *parts; /* owned: [size of the comm] */
    int64_t *first;    /* owned: `first` of all these parts, one rank after the other */
    char **base;       /* owned: by part number, one rank after the other */
    uint64_t shown;    /* number of the team's publication that the addresses were taken from; 0:
                          none */
} rshi_joint;

/* Local, after the opening exchange of a bind.  For plans of one stage. */
rsh_status rshi_joint_new(const rsh_plan *plan, rsh_comm *comm, rshi_joint **out);
void rshi_joint_free(rshi_joint *j);

/* Looks up the current addresses of all parts. */
void rshi_joint_look_up(rshi_joint *j);

#endif
