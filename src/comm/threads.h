/* threads: what the files of the engine `threads` share. */
#ifndef RESHARD_COMM_THREADS_H
#define RESHARD_COMM_THREADS_H

#include "comm/flag.h"

#define RSHI_LAID_BYTES                                                                            \
    64 /* blocks up to this size are copied onto the board, larger ones pointed to */

/* What a rank lays on the board for everybody to read. */
typedef struct rshi_laid {
    size_t bytes;
    const void *from; /* the block: `small`, or the rank's own memory */
    unsigned char small[RSHI_LAID_BYTES];
} rshi_laid;

/* One rank's place in the group.  Written by that rank only. */
typedef struct rshi_seat {
    _Alignas(64) _Atomic uint64_t arrived; /* meetings this rank has come to */
    atomic_bool gone; /* takes no further part; why stands in status and detail, written before */
    rsh_status status;
    char detail[RSHI_DETAIL_BYTES];
    rsh_status refused; /* why this rank refused what its flag stood for; a flag orders it */
    char refusal[RSHI_DETAIL_BYTES];
    /* By the parity of the meeting: a rank can be one meeting ahead of a reader but not two. */
    _Alignas(64) rshi_laid laid[2];
} rshi_seat;

/* Flags of one rank, kept until the group goes. */
typedef struct rshi_flag_chunk {
    struct rshi_flag_chunk *next;
    _Alignas(64) rshi_flag flags[31]; /* each on a line of its own */
} rshi_flag_chunk;

/* What the ranks share.  The last one to close frees it. */
typedef struct rshi_group {
    rshi_flag met;                      /* meetings that were complete */
    _Alignas(64) atomic_int arrivals;   /* at the meeting under way */
    _Alignas(64) atomic_int departures; /* ranks gone: while 0, nobody needs to look for one */
    atomic_int refs;
    int size;
    rshi_patience patience;
    _Atomic(rshi_flag_chunk *) chunks; /* owned */
    rshi_seat seats[];                 /* [size] */
} rshi_group;

typedef struct rshi_thread_comm {
    rsh_comm base; /* first: the comm's address is this struct's */
    rshi_group *group;
    uint64_t meetings; /* this rank has been to */
    rshi_flag **spare; /* owned: flags to take, with room for all that were ever made */
    int nspare, nflags;
} rshi_thread_comm;

static inline rshi_thread_comm *rshi_thread_comm_of(rsh_comm *c) { return (rshi_thread_comm *)c; }

/* Collective.  Lay `bytes` at `from` on the board and wait until everybody has.  What the peers
 * laid is then there to read until this rank's next meeting; what they only point to, until they
 * are told at the next meeting that it has been read. */
rsh_status rshi_threads_meet(rshi_thread_comm *c, const void *from, size_t bytes);
/* What rank r laid at the last meeting. */
const rshi_laid *rshi_threads_laid(const rshi_thread_comm *c, int r);

rsh_status rshi_threads_exchange(rsh_comm *c, int64_t nsend, const rsh_message *send, int64_t nrecv,
                                 const rsh_message *recv);
rsh_status rshi_threads_split(rsh_comm *c, int colour, int key, rsh_comm **out);

rshi_flag *rshi_threads_flag_take(rsh_comm *c);
void rshi_threads_flag_give(rsh_comm *c, rshi_flag *flag);
void rshi_threads_flags_free(rshi_group *g);

/* Local.  A group of `size` ranks, and a comm for one of them, whose group the caller sets.  NULL
 * and a sentence: no memory. */
rshi_group *rshi_threads_group_new(int size, rshi_patience patience);
void rshi_threads_group_free(rshi_group *g);
rshi_thread_comm *rshi_threads_comm_new(int rank, int size);
void rshi_threads_comm_discard(rshi_thread_comm *c);

#endif
