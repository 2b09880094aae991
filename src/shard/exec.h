/* exec: a plan bound to a comm and to memory, for the files that bind it and run it.
 *
 * Each rank pulls what it can reach: it copies from the memory of peers of its node straight into
 * its own destination.  A rank has one flag that rises through a run: source ready, stage 0 done,
 * stage 1 done..., or at any time to the end: refused, by a neighbour or by itself.  Before it
 * reads a peer it waits for that peer's flag; before it returns it waits until everybody who reads
 * its memory is done.  What it cannot reach comes in messages; see messages.c. */
#ifndef RESHARD_SHARD_EXEC_H
#define RESHARD_SHARD_EXEC_H

#include "comm/comm.h"
#include "shard/joint.h"
#include "shard/memory.h"
#include "shard/messages.h"
#include "shard/numbering.h"
#include "shard/program.h"
#include "shard/shadow.h"

#define RSHI_READERS                                                                               \
    RSHI_STAGES /* what a peer is waited for when all stages are done: that it reads no more */

/* A rank whose memory this one reads, or that reads this one's, or that is in one team with it. */
typedef struct rshi_peer {
    int rank;
    rshi_flag *flag;
    uint64_t start;
    int due[RSHI_STAGES + 1]; /* stages that it must have done before stage s of this rank; by
                                 RSHI_READERS, before the end.  -1: it does not matter */
    rshi_parts parts;
} rshi_peer;

/* A peer that does not matter yet. */
static inline rshi_peer rshi_peer_of(int rank) {
    rshi_peer p = {.rank = rank};
    for (int s = 0; s <= RSHI_STAGES; s++) p.due[s] = -1;
    return p;
}

#define RSHI_NOT_READ (-1) /* a part that no other rank reads where it lies */

/* Before begin; source announced, `stage` is at hand; all stages done, readers and messages on
 * their way may be left; this rank or a neighbour refuses the run, and some neighbour may not know
 * yet. */
enum { RSHI_IDLE, RSHI_RUNNING, RSHI_COPIED, RSHI_REFUSED };

/* This rank's place in a team, and the team's numbers, which are the same on all of its ranks; see
 * team.h. */
typedef struct rshi_team rshi_team;
typedef struct rshi_team_share {
    int64_t members, index;
    int64_t groups, spans; /* jobs are the product */
    int64_t bytes;         /* that all members write */
    int cores;        /* that all members have together */
    bool one_process; /* the members are threads */
    bool come;      /* to the run at hand */
    uint64_t epoch; /* of the team, when it came */
} rshi_team_share;

struct rsh_exec {
    rsh_plan *plan; /* held */
    rsh_comm *comm;
    struct rshi_comm_cache *clients; /* of the comm */
    int stages;
    bool all_by_message; /* the plan asks for it, or on some rank a part that others read lies where
                            they cannot reach it */
    rshi_program program;
    rshi_messages *messages; /* owned; NULL: all that this rank needs, and all that others need of
                                it, is read where it lies */
    rshi_peer *peers; /* owned; the first is this rank itself */
    int64_t npeers, peers_room;
    rshi_team *team; /* held; NULL: this rank makes its own moves only */
    rshi_team_share team_share;
    rshi_joint *joint; /* owned: of a team of processes, the moves of all */
    bool shown_anew; /* a part lies elsewhere than in the run before */
    int64_t *own_first, *peers_first; /* owned: `first` of the parts of this rank, and of the
                                         others, one after the other */
    rshi_refusal *refusal;  /* shared memory, of the run that was refused last */
    rshi_shown_part *table; /* behind it */
    size_t table_bytes;     /* of both */
    rshi_flag *flag;
    uint64_t start;
    uint64_t runs, refusals; /* runs that ended, and how many of them were refused */
    char **base; /* owned: by part number */
    int64_t nparts;
    const char **pointers; /* owned: most_sources */
    void **data;           /* owned: data of this rank's parts as bound */
    bool *out_of_reach;    /* owned with it: which of them peers cannot reach */
    rshi_extent *extents;  /* owned: of this rank's parts as bound, and room to sort as many */
    int64_t *shadow; /* owned: by part of this rank, RSHI_NOT_READ or, where others read it, the
                        number of its shadow, 0: none yet; NULL: peers reach all memory */
    rshi_shadows shadows;
    rshi_data scratch; /* owned: where this rank combines for its node, tensor after tensor */
    int64_t scratch_bytes; /* 0: none */
    int state, stage;
    bool refuser; /* of a run that was refused: it began with this rank */
    rsh_exec *next_begun; /* another run of this comm that is under way */
    int64_t slab;     /* with messages: the next of the stage; -1: peers are waited for */
    int64_t late[RSHI_STAGES + 1]; /* the peer that was waited for last, by stage and among readers:
                                      where the next wait begins */
    int missing;                   /* a rank whose flag was not there at the last look, -1: none */
    int looks; /* in vain since something moved */
    rshi_watch watch; /* since then */
    double asked;     /* seconds on it when there was last a suspicion */
    bool looked;      /* at everything, since that suspicion */
    bool suspects;    /* somebody who is waited for seems lost; for how long: */
    rshi_watch lost;
    double begun, seconds;
};

/* Bytes of element buffers that the exec holds. */
int64_t rshi_exec_scratch(const rsh_exec *e);

/* ---- this rank's parts, while it binds ---- */

typedef struct rshi_taken_parts {
    rshi_taken_part *part; /* owned: by entry, as in rshi_parts */
    rshi_extent *extent;   /* behind them, in the same memory; sorted */
    int64_t nsrc, ndst, room;
} rshi_taken_parts;

/* Check the caller's memory and note where it is; `t` is {0} or was used before. */
rsh_status rshi_parts_take(rshi_taken_parts *t, const rsh_plan *plan, rsh_comm *comm,
                           const rsh_memory *src, const rsh_memory *dst);
void rshi_taken_parts_free(rshi_taken_parts *t);
/* Use them from now on. */
void rshi_exec_set_parts(rsh_exec *e, const rshi_taken_parts *t);
/* Memory in which this rank combines for its node, where peers reach it; and tell where it lies. */
rsh_status rshi_exec_take_scratch(rsh_exec *e);
rsh_status rshi_exec_show_scratch(rsh_exec *e);
void rshi_exec_free_scratch(rsh_exec *e);
/* Could the exec use them, as far as strides and kind of memory go? */
bool rshi_exec_fits(const rsh_exec *e, const rshi_taken_parts *t);
/* Which parts others read where they lie, where the engine cannot show them all memory. */
rsh_status rshi_exec_find_read(rsh_exec *e, const rsh_share *share);
/* Do others read a part of this rank that they cannot reach? */
bool rshi_exec_wants_messages(const rsh_exec *e);
/* Tell where this rank's parts lie in a run on other memory; with NULL, what was bound. */
rsh_status rshi_exec_show_data(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst);
/* RSH_EVALUE if destinations of this rank share memory with anything there; NULL as above.  Asks
 * for no memory. */
rsh_status rshi_exec_check_memory(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst);

#endif
