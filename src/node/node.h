/* node: ranks that read one another's memory: meetings at a board, small collectives, exchange,
 * split, flags, and memory that all of them reach.
 *
 * There is one of everything here.  What differs between threads of a process and processes of a
 * machine is how an address of one rank becomes an address of another: the mapping. */
#ifndef RESHARD_NODE_NODE_H
#define RESHARD_NODE_NODE_H

#include <pthread.h>

#include <reshard/message.h>

#include "wait/wait.h"

/* Memory of a rank as a value that its peers turn back into an address. */
typedef struct rshi_handle {
    uint64_t a, b;
} rshi_handle;

/* Memory that peers can reach, and how it is given back; `release` may be called when the node has
 * gone, and by any thread. */
typedef struct rshi_data {
    void *data;
    void (*release)(void *owner);
    void *owner;
} rshi_data;

struct rshi_world;

/* How ranks reach one another's memory.  Every function is local; `member` is a rank of the world.
 */
typedef struct rshi_mapping {
    const char *name; /* of the engine */
    /* Ranks share one address space: an address of one is an address of all, any rank may free
     * memory of any other, nobody dies alone, and sleepers wake by the cheaper call. */
    bool one_process;

    /* Memory that peers can reach, 64-byte aligned.  NULL and a sentence: there is none. */
    void *(*alloc)(struct rshi_world *w, size_t bytes, bool zero);
    void (*free)(struct rshi_world *w, void *p, size_t bytes);
    /* The same, zeroed, and readable until the last rank of the world has gone; it is never freed
     * before. */
    void *(*alloc_lasting)(struct rshi_world *w, size_t bytes);
    /* Memory for elements; NULL in the table: any memory will do. */
    rsh_status (*alloc_data)(struct rshi_world *w, size_t bytes, bool zero, rshi_data *out);
    /* Can peers reach this rank's memory at p?  NULL in the table: always. */
    bool (*is_shared)(const struct rshi_world *w, const void *p);

    /* A handle for memory of this rank, shared or not. */
    rshi_handle (*publish)(const struct rshi_world *w, const void *p);
    /* The address at which this rank can read (memory of `alloc`: also write) what `member`
     * published; NULL if it cannot. */
    void *(*reach)(const struct rshi_world *w, int member, rshi_handle h);

    /* Has the process of a rank ended?  Costs a system call.  NULL in the table: not alone. */
    bool (*has_ended)(const struct rshi_world *w, int member);
    /* Free the world: this rank has closed all of its nodes. */
    void (*close)(struct rshi_world *w);
} rshi_mapping;

struct rshi_retired;

/* A rank's view of all ranks whose memory it can reach.  Nodes that were split off share it.  A
 * mapping puts this first in a struct of its own. */
typedef struct rshi_world {
    const rshi_mapping *map;
    int rank, size;
    atomic_int refs; /* nodes of this rank */
    rshi_patience patience;
    pthread_mutex_t lock; /* guards what follows: two nodes of a rank may be used by two threads */
    rshi_flag **spare;    /* owned: flags to take, with room for all that were ever made */
    int nspare, nflags;
    struct rshi_retired *retired; /* owned: memory that other ranks still use */
} rshi_world;

struct rshi_board;

/* One rank among the ranks of a node.  On cache lines of its own: threads that are ranks write it
 * at every meeting. */
typedef struct rshi_node {
    _Alignas(64) rshi_world *world; /* held */
    int rank, size;
    int *member;              /* [size], owned: ranks in the world */
    int maker;                /* the rank that made the board */
    struct rshi_board *board; /* shared with the others; NULL: they have not met yet */
    uint64_t meetings;        /* that this rank has come to */
    char *staging;            /* of exchanges; NULL until one needs it */
    const int *names; /* [size], borrowed: ranks as sentences name them; NULL: as they are */
} rshi_node;

/* ---- making and unmaking ---- */

/* Local.  n ranks that are threads of this process: nodes[r] is for the thread that is rank r. */
rsh_status rshi_threads_new(int n, rshi_node **nodes);

#define RSHI_PROCESSES 65536 /* the most in a node */
/* RSH_EVALUE for more processes than that. */
rsh_status rshi_processes_check(int size);
/* Local.  What one rank of `size` processes needs before it meets the others. */
rsh_status rshi_processes_prepare(int rank, int size, rshi_node **out);
/* Collective: meet those who know the same job within `patience` seconds.  Frees the node when it
 * fails, and has then told the others. */
rsh_status rshi_processes_join(rshi_node *n, const char *job, double patience);
/* Local, for a rank that cannot take part: tell those who come to the same meeting within a moment.
 * Leaves the thread's sentence as it was. */
void rshi_processes_excuse(const char *job, int rank, int size, rsh_status status);

/* Local.  Say to the others that this rank takes no further part; the first call counts. */
void rshi_node_leave(rshi_node *n, rsh_status status, const char *detail);
/* Local.  This rank leaves, if it has not yet.  No-op for NULL. */
void rshi_node_free(rshi_node *n);

/* ---- collective; RSH_EPEER when a rank has left, RSH_ETIMEOUT after RESHARD_TIMEOUT ---- */

rsh_status rshi_node_allgather(rshi_node *n, const void *mine, void *all, size_t bytes);
rsh_status rshi_node_bcast(rshi_node *n, int root, void *data, size_t bytes);
rsh_status rshi_node_exchange(rshi_node *n, int64_t nsend, const rsh_message *send, int64_t nrecv,
                              const rsh_message *recv);
/* `mine` not RSH_OK: this rank could not prepare for the new node, and nobody gets one.  *out stays
 * as it is for a colour below 0. */
rsh_status rshi_node_split(rshi_node *n, int colour, int key, rsh_status mine, rshi_node **out);

/* What a rank asks of a split. */
typedef struct rshi_wish {
    int colour, key, rank; /* rank in the old group */
} rshi_wish;

/* The wishes of one colour out of `size`, in the order of the new group; how many there are. */
int rshi_wishes_of(int size, const rshi_wish *all, int colour, rshi_wish *out);

/* ---- local: memory, flags, peers ---- */

rsh_status rshi_node_publish(rshi_node *n, const void *p, rshi_handle *out);
void *rshi_node_reach(rshi_node *n, int peer, rshi_handle h);

/* A flag of this rank that peers can reach and that stays readable for as long as anybody may look
 * at it.  Flags are used again: their values only ever rise.  NULL and a sentence: no memory. */
rshi_flag *rshi_world_flag_take(rshi_world *w);
void rshi_world_flag_give(rshi_world *w, rshi_flag *flag);

/* This rank is done with memory of the mapping's `alloc` that several ranks use; `users`, in that
 * memory, counts those that still do.  `mine`: this rank got it.  The last one frees it where
 * anybody can; else the rank that got it does, when it next lets go of something. */
void rshi_world_let_go(rshi_world *w, void *p, size_t bytes, atomic_int *users, bool mine);

/* Wait until flag->value >= target; `peer` owns the flag.  RSH_EPEER when the peer has left or died
 * (unless the flag got there), RSH_EMISMATCH when it waits for this rank at a meeting. */
rsh_status rshi_node_wait(rshi_node *n, int peer, rshi_flag *flag, uint64_t target);
/* Is there a reason to give up on `peer`, -1: on any rank, after `waited` seconds without it? */
rsh_status rshi_node_check_peer(rshi_node *n, int peer, double waited);

#endif
