/* team: ranks of one machine, more of them than cores, of which each that reads others reads all
 * that are read; those that are awake when the last one has come make the moves of all.
 *
 * Each for itself, every rank would have to be woken to make its moves, and again when its readers
 * are done.  As a team they sleep until everything is there.  And the moves of neighbours are made
 * in turn: they read neighbouring memory, so that what was fetched for one serves the next.
 *
 * Threads run one another's programs.  Processes have a program of all members' moves each, where
 * these are few, small, and all in memory that every process reaches; see joint.h.  What they write
 * is not the caller's memory but shadows of it.
 *
 * A run begins when all members have come, and then it ends.  Whoever gives up before goes away
 * again, and the run does not begin.  A run that has begun can fail in one way: a process among the
 * movers dies or is stopped.  Then it never is over, and every member gets an error. */
#ifndef RESHARD_SHARD_TEAM_H
#define RESHARD_SHARD_TEAM_H

#include "shard/exec.h"

/* What a rank says at the end of a bind, for all to find out whether they are a team. */
typedef struct rshi_team_card {
    rshi_handle team;     /* of rank 0: memory for it */
    int64_t possible;     /* 0: this rank cannot be in a team */
    rshi_handle flag;     /* and where it stands before the first run */
    uint64_t start;
    int64_t sources, readers; /* other ranks that it reads, and that read it */
    int64_t slabs;            /* of its program, which may be that of all */
    int64_t bytes;            /* that it writes */
} rshi_team_card;
_Static_assert(sizeof(rshi_team_card) <= RSHI_CARD_BYTES, "it travels in the opening exchange");

struct rshi_bind_card;
/* Local, before the first exchange of a bind: which cores this rank has. */
void rshi_team_show(const rsh_comm *comm, struct rshi_bind_card *mine);
/* Local, before the last one, with the cards of the first at hand. */
rsh_status rshi_team_offer(rsh_exec *e, rshi_team_card *mine);
/* Local, after it; `bound`: what came of it.  All cards are at hand.  `peer_of`: by rank, 0: it is
 * not a peer yet. */
void rshi_team_join(rsh_exec *e, const int *peer_of, rsh_status bound);
/* Local.  What an exec that ends, or whose bind failed, has of it. */
void rshi_team_drop(rsh_exec *e);

/* Local.  In the run at hand: this rank's memory may be read and written now. */
void rshi_team_come(rsh_exec *e);
/* Until all members' moves are made; without `may_wait` *there may become false: not yet.  The
 * status of a member that refuses the run. */
rsh_status rshi_team_run(rsh_exec *e, bool may_wait, bool *there);
/* Local.  This rank ends the run without its moves: nobody uses its memory afterwards, unless a run
 * of processes has begun: then others may still read its parts and write shadows of them, and
 * team_share.come stays.  No-op unless it has come. */
void rshi_team_leave(rsh_exec *e);
/* Local.  The same, and the others hear that the run is refused. */
void rshi_team_refuse(rsh_exec *e);

#endif
