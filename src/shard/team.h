/* team: ranks of one machine that outnumber its cores, in which every reader reads every source.
 * The members that are awake when the last one arrives make the moves of all.
 *
 * Separately, every rank would have to be woken to make its moves, and again when its readers are
 * done.  As a team they sleep until everything is done.  And the moves of neighbours are
 * interleaved: they read neighbouring memory, so cache lines that were fetched for one are reused
 * by the next.
 *
 * Threads run one another's programs.  Each process has a program of all members' moves, if these
 * are few, small, and in memory that every process can reach; see joint.h.  Processes do not write
 * the caller's memory but shadows of it.
 *
 * A run starts when all members have arrived, and then completes.  If a member gives up before
 * that, it takes back its arrival, and the run does not start.  A run that has started can fail
 * only if a process that makes moves dies or is stopped.  The run then never completes, and every
 * member gets an error. */
#ifndef RESHARD_SHARD_TEAM_H
#define RESHARD_SHARD_TEAM_H

#include "shard/exec.h"

/* The record that a rank sends at the end of a bind; from all of them the ranks decide whether they
 * are a team. */
typedef struct rshi_team_card {
    rshi_handle team;     /* of rank 0: the team's memory */
    int64_t possible;     /* 0: this rank cannot be in a team */
    rshi_handle flag;     /* this rank's flag; `start` is its value before the first run */
    uint64_t start;
    int64_t sources, readers; /* number of other ranks that this rank reads, and number of ranks
                                 that read this one */
    int64_t slabs;            /* of its program, or of the joint program */
    int64_t bytes;            /* that it writes */
} rshi_team_card;
_Static_assert(sizeof(rshi_team_card) <= RSHI_CARD_BYTES, "it must fit into the opening exchange");

struct rshi_bind_card;
/* Local, before the first exchange of a bind: writes the cores of this rank to its record. */
void rshi_team_show(const rsh_comm *comm, struct rshi_bind_card *mine);
/* Local, before the last exchange, with the records of the first. */
rsh_status rshi_team_offer(rsh_exec *e, rshi_team_card *mine);
/* Local, after the last exchange; `bound`: its status.  `peer_of`: by rank, 0: not a peer yet. */
void rshi_team_join(rsh_exec *e, const int *peer_of, rsh_status bound);
/* Local.  Releases the team of an exec that ends, or whose bind failed. */
void rshi_team_drop(rsh_exec *e);

/* Local.  Arrives at the current run: this rank's memory may be read and written now. */
void rshi_team_come(rsh_exec *e);
/* Runs until all members' moves are made; without `may_wait` *there becomes false if they are not
 * yet.  Returns the status of a member that refuses the run. */
rsh_status rshi_team_run(rsh_exec *e, bool may_wait, bool *there);
/* Local.  Ends the run on this rank without its moves.  Afterwards no member uses its memory,
 * unless a run of processes has begun: then others may still read its parts and write shadows of
 * them, and team_share.come stays set.  No-op unless this rank has arrived. */
void rshi_team_leave(rsh_exec *e);
/* Local.  Does the same, and tells the other members that the run is refused. */
void rshi_team_refuse(rsh_exec *e);

#endif
