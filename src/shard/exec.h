/* exec: a plan bound to a comm and to memory, for the files that bind it and run it.
 *
 * Each rank pulls what it can reach: it copies from the memory of peers of its node straight into
 * its own destination.  A rank has one flag that rises through a run: source ready, stage 0 done,
 * stage 1 done..., or at any time to the end: refused.  Before it reads a peer it waits for that
 * peer's flag; before it returns it waits until everybody who reads its memory is done.  What it
 * cannot reach comes in messages; see messages.c. */
#ifndef RESHARD_SHARD_EXEC_H
#define RESHARD_SHARD_EXEC_H

#include "comm/comm.h"
#include "shard/memory.h"
#include "shard/messages.h"
#include "shard/program.h"
#include "shard/shadow.h"

/* What a rank shows its peers: where its parts lie, sources then destinations. */
typedef struct rshi_shown_part {
    rshi_handle data;
    int64_t strides[RSH_MAX_NDIM];
} rshi_shown_part;

/* How a peer of its node finds a rank's flag, table and messages. */
typedef struct rshi_card {
    rshi_handle flag, table, messages;
    uint64_t start; /* the flag's value at bind */
} rshi_card;

#define RSHI_READERS                                                                               \
    RSHI_STAGES /* what a peer is waited for when all stages are done: that it reads no more */

/* A rank whose memory this one reads, or that reads this one's. */
typedef struct rshi_peer {
    int rank;
    rshi_flag *flag;
    uint64_t start;
    int due[RSHI_STAGES + 1]; /* stages that it must have done before stage s of this rank; by
                                 RSHI_READERS, before the end.  -1: it does not matter */
    rshi_shown_part *table;
    int64_t nsrc, ndst;
    int64_t number; /* of its first part; sources, then destinations */
    int64_t *first; /* owned: per tensor the first entry of its sources (0..n) and destinations
                       (n+1..2n+1) */
} rshi_peer;

/* Before begin; source announced, `stage` is at hand; all stages done, readers and messages on
 * their way may be left; this rank or a neighbour refuses the run, and some neighbour may not know
 * yet. */
enum { RSHI_IDLE, RSHI_RUNNING, RSHI_COPIED, RSHI_REFUSED };

struct rsh_exec {
    const rsh_plan *plan;
    rsh_comm *comm;
    int stages;
    bool all_by_message; /* the plan asks for it, or on some rank a part that others read lies where
                            they cannot reach it */
    rshi_program program;
    rshi_messages *messages; /* owned; NULL: all that this rank needs, and all that others need of
                                it, is read where it lies */
    rshi_peer *peers; /* owned; the first is this rank itself */
    int64_t npeers, peers_room;
    int *peer_of;           /* owned: by rank, index + 1 into peers; 0: none */
    rshi_card *cards;       /* owned: by rank, during bind */
    int reading;            /* during bind: the stage of the edge at hand */
    rshi_shown_part *table; /* shared memory */
    size_t table_bytes;
    rshi_flag *flag;
    uint64_t start;
    uint64_t runs, refusals; /* runs that ended, and how many of them were refused */
    char **base; /* owned: by part number */
    int64_t nparts;
    const char **pointers; /* owned: most_sources */
    void **bound;          /* owned: data of this rank's parts as bound */
    rshi_extent *extents;  /* owned: of this rank's parts as bound, and room to sort as many */
    int64_t *lent; /* owned: by part of this rank, -1 or, where others read it, the number of its
                      shadow; NULL: peers reach all memory */
    rshi_shadows shadows;
    int state, stage;
    bool refuser; /* of a run that was refused: it began with this rank */
    void *next_begun; /* another run of this comm that is under way */
    int64_t slab;     /* with messages: the next of the stage; -1: peers are waited for */
    int64_t late[RSHI_STAGES + 1]; /* the peer that was waited for last, by stage and among readers:
                                      where the next wait begins */
    int missing;                   /* a rank whose flag was not there at the last look, -1: none */
    int looks; /* in vain since something moved */
    rshi_watch watch; /* since then */
    double asked;     /* seconds on it when there was last a doubt */
    bool looked;      /* at everything, since that doubt */
    bool doubted;     /* somebody who is waited for seems lost; for how long: */
    rshi_watch lost;
    double begun, seconds;
};

/* Tell where this rank's parts lie in a run on other memory; with NULL, what was bound. */
rsh_status rshi_exec_show_data(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst);

/* RSH_EVALUE if destinations of this rank share memory with anything there; NULL as above.  Asks
 * for no memory. */
rsh_status rshi_exec_check_memory(rsh_exec *e, const rsh_memory *src, const rsh_memory *dst);

#endif
