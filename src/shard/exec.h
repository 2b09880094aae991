/* exec: a plan bound to a comm and to memory, for the files that bind it and run it.
 *
 * Each rank pulls: it copies from the memory of peers of its node directly into its own
 * destination.  Each rank has one flag.  Its value increases during a run: source ready, stage 0
 * done, stage 1 done, ... If this rank or a neighbour refuses the run, the flag is set to an end
 * value at any time.  A rank waits for a peer's flag before it reads from that peer, and before it
 * returns it waits until all readers of its memory are done.  Elements that it cannot reach come in
 * messages; see messages.c. */
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
    RSHI_STAGES /* index of `due`: when all stages are done, the peer must have finished reading */

/* A rank whose memory this one reads, or that reads this one's, or that is in the same team. */
typedef struct rshi_peer {
    int rank;
    rshi_flag *flag;
    uint64_t start;
    int due[RSHI_STAGES + 1]; /* stages that it must have done before stage s of this rank; at
                                 RSHI_READERS, before the end.  -1: no condition */
    rshi_parts parts;
} rshi_peer;

/* A peer without conditions. */
static inline rshi_peer rshi_peer_of(int rank) {
    rshi_peer p = {.rank = rank};
    for (int s = 0; s <= RSHI_STAGES; s++) p.due[s] = -1;
    return p;
}

#define RSHI_NOT_READ (-1) /* a part that no other rank reads in place */

/* Idle: before begin.  Running: the source is announced, `stage` is the current one.  Copied: all
 * stages are done; readers or outgoing messages may remain.  Refused: this rank or a neighbour
 * refused the run, and some neighbour may not know yet. */
enum { RSHI_IDLE, RSHI_RUNNING, RSHI_COPIED, RSHI_REFUSED };

/* This rank's place in a team, and the team's numbers, which are the same on all of its ranks; see
 * team.h. */
typedef struct rshi_team rshi_team;
typedef struct rshi_team_share {
    int64_t members, index;
    int64_t groups, spans; /* their product is the number of jobs */
    int64_t bytes;         /* that all members write */
    int cores;        /* of all members together */
    bool one_process; /* the members are threads */
    bool come;      /* this rank has arrived at the current run */
    uint64_t epoch; /* of the team, when it arrived */
} rshi_team_share;

struct rsh_exec {
    rsh_plan *plan; /* held */
    rsh_comm *comm;
    struct rshi_comm_cache *clients; /* of the comm */
    int stages;
    bool all_by_message; /* the plan requires messages, or some rank has a part that others read but
                            cannot reach */
    rshi_program program;
    rshi_messages *messages; /* owned; NULL: this rank neither receives nor sends messages */
    rshi_peer *peers; /* owned; the first is this rank itself */
    int64_t npeers, peers_room;
    rshi_team *team; /* held; NULL: this rank makes only its own moves */
    rshi_team_share team_share;
    rshi_joint *joint; /* owned: the moves of all members of a team of processes */
    bool shown_anew; /* the address of a part has changed since the previous run */
    int64_t *own_first, *peers_first; /* owned: `first` (see rshi_parts) of this rank, and of the
                                         peers, one after the other */
    rshi_refusal *refusal;  /* shared memory: why this rank refused the last refused run */
    rshi_shown_part *table; /* in the same memory, after the refusal */
    size_t table_bytes;     /* bytes of both */
    rshi_flag *flag;
    uint64_t start;
    uint64_t runs, refusals; /* runs that ended, and the number of refused ones among them */
    char **base; /* owned: by part number */
    int64_t nparts;
    const char **pointers; /* owned: most_sources */
    void **data;           /* owned: data of this rank's parts as bound */
    bool *out_of_reach;    /* allocated with `data`: which of these parts peers cannot reach */
    rshi_extent *extents;  /* owned: address ranges of this rank's parts as bound, and memory to
                              sort as many */
    int64_t *shadow; /* owned: for each part of this rank, RSHI_NOT_READ or, if other ranks read the
                        part, the number of its shadow (0: none yet); NULL: peers can reach all
                        memory */
    rshi_shadows shadows;
    rshi_data scratch; /* owned: memory in which this rank combines contributions for its node, one
                          tensor after the other */
    int64_t scratch_bytes; /* 0: none */
    int state, stage;
    bool refuser; /* the current run was refused by this rank itself */
    rsh_exec *next_begun; /* another run of this comm in progress */
    int64_t slab;     /* with messages: the next slab of the stage; -1: waiting for peers */
    int64_t late[RSHI_STAGES + 1]; /* the peer that arrived last in the previous run, by stage and
                                      for readers: the next wait begins with it */
    int missing;                   /* a rank whose flag was not raised at the last poll, -1: none */
    int looks; /* polls without progress */
    rshi_watch watch; /* since the last progress */
    double asked;     /* seconds on `watch` when peers were last checked */
    bool looked;      /* everything was polled at least once since that check */
    bool suspects;    /* a rank that this one waits for seems lost; `lost` says for how long */
    rshi_watch lost;
    double begun, seconds;
};

/* Returns the bytes of element buffers that the exec holds. */
int64_t rshi_exec_scratch(const rsh_exec *e);

/* ---- this rank's parts, while it binds ---- */

typedef struct rshi_taken_parts {
    rshi_taken_part *part; /* owned: by entry, as in rshi_parts */
    rshi_extent *extent;   /* behind them, in the same memory; sorted */
    int64_t nsrc, ndst, room;
} rshi_taken_parts;

/* Checks the caller's memory and records its addresses; `t` is {0} or was used before. */
rsh_status rshi_parts_take(rshi_taken_parts *t, const rsh_plan *plan, rsh_comm *comm,
                           const rsh_memory *src, const rsh_memory *dst);
void rshi_taken_parts_free(rshi_taken_parts *t);
/* Stores the parts in the exec. */
void rshi_exec_set_parts(rsh_exec *e, const rshi_taken_parts *t);
/* Allocate the memory in which this rank combines contributions for its node, so that peers can
 * reach it; publish it. */
rsh_status rshi_exec_take_scratch(rsh_exec *e);
rsh_status rshi_exec_show_scratch(rsh_exec *e);
void rshi_exec_free_scratch(rsh_exec *e);
/* Can the exec use these parts, given their strides and kind of memory? */
bool rshi_exec_fits(const rsh_exec *e, const rshi_taken_parts *t);
/* Finds the parts that others read in place, for engines that cannot publish all memory. */
rsh_status rshi_exec_find_read(rsh_exec *e, const rsh_share *share);
/* Do others read a part of this rank that they cannot reach? */
bool rshi_exec_wants_messages(const rsh_exec *e);
/* Publishes the addresses of this rank's parts for a run on other memory; NULL: as bound. */
rsh_status rshi_exec_show_data(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst);
/* RSH_EVALUE if destinations of this rank overlap any other part in this memory; NULL as above.
 * Allocates nothing. */
rsh_status rshi_exec_check_memory(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst);

#endif
