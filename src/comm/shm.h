/* shm: what the files of the engine `shm` share.  Ranks are processes of one machine that read one
 * another's arenas. */
#ifndef RESHARD_COMM_SHM_H
#define RESHARD_COMM_SHM_H

#include "comm/arena.h"
#include "comm/flag.h"

#define RSHI_SHM_BLOCK ((size_t)4096) /* bytes that a rank can lay on the board at one meeting */

#define RSHI_SHM_RANKS 65536 /* the most in a comm */

/* One rank's place in a group.  Written by that rank only. */
typedef struct rshi_shm_seat {
    _Alignas(64) _Atomic uint64_t arrived; /* meetings this rank has come to */
    atomic_bool gone; /* takes no further part; why stands in status and detail, written before */
    rsh_status status;
    char detail[RSHI_DETAIL_BYTES];
    rsh_status refused; /* why this rank refused what its flag stood for; a flag orders it */
    char refusal[RSHI_DETAIL_BYTES];
    /* By the parity of the meeting: a rank can be one meeting ahead of a reader but not two. */
    size_t bytes[2];
    _Alignas(64) unsigned char laid[2][RSHI_SHM_BLOCK];
} rshi_shm_seat;

/* What the ranks of a comm share, in the arena of the rank that made it. */
typedef struct rshi_shm_group {
    rshi_flag met;                      /* meetings that were complete */
    _Alignas(64) atomic_int arrivals;   /* at the meeting under way */
    _Alignas(64) atomic_int departures; /* ranks that said that they are gone */
    atomic_int open;                    /* ranks that may still look at it */
    rshi_shm_seat seats[];
} rshi_shm_group;

/* A group that its maker has closed and others have not: its memory comes back later. */
typedef struct rshi_retired {
    struct rshi_retired *next;
    rshi_shm_group *group;
    int size;
} rshi_retired;

/* The processes that met once and this process's view of their memory; comms that were split off
 * share it. */
typedef struct rshi_world {
    int rank, size;
    int refs; /* comms of this process */
    rshi_arena *arena;
    char **window;     /* [size], owned: every rank's arena as mapped here; this rank's own is
                          arena->base */
    size_t *reserve;   /* [size], owned: bytes of each window */
    int *life; /* [size], owned: pidfds, which become readable when the rank's process has ended; -1
                  for this rank */
    rshi_patience patience;
    rshi_flag **spare; /* owned: flags to take, with room for all that were ever made */
    int nspare, nflags;
    rshi_retired *retired; /* owned */
} rshi_world;

typedef struct rshi_shm_comm {
    rsh_comm base; /* first: the comm's address is this struct's */
    rshi_world *world;
    rshi_shm_group *group;
    int *member;       /* [size], owned: ranks in the world */
    int maker;         /* rank in whose arena the group lies */
    uint64_t meetings; /* this rank has been to */
    char *staging;     /* in the arena; NULL until an exchange needs it */
} rshi_shm_comm;

static inline rshi_shm_comm *rshi_shm_comm_of(rsh_comm *c) { return (rshi_shm_comm *)c; }

/* ---- meetings ---- */

/* Collective.  Lay up to RSHI_SHM_BLOCK bytes on the board and wait until everybody has.  What the
 * peers laid is then there to read until this rank's next meeting. */
rsh_status rshi_shm_meet(rshi_shm_comm *c, const void *from, size_t bytes);
/* What rank r laid at the last meeting, and how many bytes. */
const void *rshi_shm_laid(const rshi_shm_comm *c, int r);
size_t rshi_shm_laid_bytes(const rshi_shm_comm *c, int r);

/* Local.  Wait for a peer's flag, as rshi_comm_ops.wait. */
rsh_status rshi_shm_wait(rsh_comm *c, int peer, rshi_flag *flag, uint64_t target);
/* Local.  Say to the group that this rank takes no further part. */
void rshi_shm_leave(rsh_comm *c, rsh_status status, const char *detail);

rsh_status rshi_shm_exchange(rsh_comm *c, int64_t nsend, const rsh_message *send, int64_t nrecv,
                             const rsh_message *recv);
rsh_status rshi_shm_split(rsh_comm *c, int colour, int key, rsh_comm **out);
void rshi_shm_staging_free(rshi_shm_comm *c);

/* ---- making and unmaking ---- */

/* Collective over processes that know the job's name and their number in it: fills in a world with
 * an arena, and maps everybody's.  `group` is the first group, made by rank 0.  Gives up after
 * `patience` seconds.  A failure before it has `begun` is not known to the others. */
rsh_status rshi_world_meet(const char *job, double patience, rshi_world *w, rshi_shm_group **group,
                           bool *begun);
/* Local, for a rank that cannot take part: tell those who come to the same meeting within a moment.
 * Leaves the thread's sentence as it was. */
void rshi_world_excuse(const char *job, int rank, int size, rsh_status status);
/* rsh_comm_shm in two steps.  Local: what one rank needs; given up by rshi_shm_comm_discard. */
rsh_status rshi_shm_prepare(int rank, int size, rshi_shm_comm **out);
/* Collective: meet the others within `patience` seconds.  Takes the comm, also when it fails. */
rsh_status rshi_shm_join(rshi_shm_comm *c, const char *name, double patience, rsh_comm **out);
/* RSH_EVALUE for more ranks than this engine takes. */
rsh_status rshi_shm_check_size(int size);
/* Local.  A world of this process with an arena and nobody's window yet. */
rsh_status rshi_world_new(int rank, int size, rshi_world **out);
void rshi_world_drop(rshi_world *w);
/* Has the process of a rank ended? */
bool rshi_world_ended(const rshi_world *w, int rank);
/* The address of an offset in the arena of a rank. */
static inline void *rshi_world_at(const rshi_world *w, int rank, uint64_t offset) {
    return offset < w->reserve[rank] ? w->window[rank] + offset : NULL;
}

rshi_flag *rshi_world_flag_take(rshi_world *w);
void rshi_world_flag_give(rshi_world *w, rshi_flag *flag);

/* Local, on the rank that makes the group.  NULL and a sentence: no memory. */
rshi_shm_group *rshi_shm_group_new(rshi_world *w, int size);
/* Local.  This rank looks at the group no more; its maker takes the memory back when that is true
 * of all. */
void rshi_shm_group_close(rshi_world *w, rshi_shm_group *group, int size, bool mine);

/* Local.  A comm of this rank whose group the caller sets; holds the world.  `member` becomes the
 * comm's, or is freed.  NULL and a sentence: no memory. */
rshi_shm_comm *rshi_shm_comm_new(rshi_world *w, int rank, int size, int *member, int maker);
void rshi_shm_comm_discard(rshi_shm_comm *c);

#endif
