/* node: ranks that read one another's memory: small collectives, exchange, split, flags, and memory
 * that all of them can reach.
 *
 * The same code serves threads of a process and processes of a machine.  They differ only in the
 * mapping: how an address of one rank becomes an address of another. */
#ifndef RESHARD_NODE_NODE_H
#define RESHARD_NODE_NODE_H

#include <pthread.h>

#include <reshard/message.h>

#include "wait/wait.h"

/* A handle of memory of a rank: a value that its peers convert back to an address. */
typedef struct rshi_handle {
    uint64_t a, b;
} rshi_handle;

/* Memory that peers can reach, and how to free it; `release` may be called by any thread, even
 * after the node was freed. */
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
    /* Ranks share one address space: addresses are equal on all ranks, any rank may free memory of
     * any other, no rank can die alone, and private futexes, which are cheaper, can be used. */
    bool one_process;

    /* Memory that peers can reach, 64-byte aligned.  NULL with an error message: no memory. */
    void *(*alloc)(struct rshi_world *w, size_t bytes, bool zero);
    void (*free)(struct rshi_world *w, void *p, size_t bytes);
    /* The same, zeroed, and readable until the last rank of the world is gone; never freed
     * before. */
    void *(*alloc_lasting)(struct rshi_world *w, size_t bytes);
    /* Memory for elements; NULL in the table: use any memory. */
    rsh_status (*alloc_data)(struct rshi_world *w, size_t bytes, bool zero, rshi_data *out);
    /* Can peers reach this rank's memory at p?  NULL in the table: always. */
    bool (*is_shared)(const struct rshi_world *w, const void *p);

    /* Makes a handle for memory of this rank, shared or not. */
    rshi_handle (*publish)(const struct rshi_world *w, const void *p);
    /* Returns the address at which this rank can read (memory of `alloc`: also write) what `member`
     * published; NULL if it cannot. */
    void *(*reach)(const struct rshi_world *w, int member, rshi_handle h);

    /* Has the process of a rank ended?  Costs a system call.  NULL in the table: it cannot die
     * alone. */
    bool (*has_ended)(const struct rshi_world *w, int member);
    /* Frees the world: this rank has closed all of its nodes. */
    void (*close)(struct rshi_world *w);
} rshi_mapping;

struct rshi_retired;

/* A rank's view of all ranks whose memory it can reach.  Nodes that were split off share it.  A
 * mapping embeds it as the first member of its own struct. */
typedef struct rshi_world {
    const rshi_mapping *map;
    int rank, size;
    atomic_int refs; /* nodes of this rank */
    rshi_patience patience;
    pthread_mutex_t lock; /* guards the members below: two threads may use two nodes of a rank */
    rshi_flag **spare;    /* owned: unused flags, with room for all that were ever made */
    int nspare, nflags;
    struct rshi_retired *retired; /* owned: memory that other ranks still use */
} rshi_world;

struct rshi_board;

/* One rank's view of a node.  On its own cache lines, because threads write it in every round. */
typedef struct rshi_node {
    _Alignas(64) rshi_world *world; /* held */
    int rank, size;
    int *member;              /* [size], owned: ranks in the world */
    int maker;                /* the rank that made the board */
    struct rshi_board *board; /* shared with the others; NULL: not connected yet */
    uint64_t rounds;        /* rounds in which this rank took part */
    char *staging;            /* of exchanges; allocated on first use */
    const int *names; /* [size], borrowed: rank numbers for error messages; NULL: unchanged */
} rshi_node;

/* ---- construction ---- */

/* Local.  Makes nodes for n ranks that are threads of this process: nodes[r] is for rank r. */
rsh_status rshi_threads_new(int n, rshi_node **nodes);

#define RSHI_PROCESSES 65536 /* the most in a node */
/* RSH_EVALUE for more processes than that. */
rsh_status rshi_processes_check(int size);
/* Local.  Allocates what one rank of `size` processes needs before it connects to the others. */
rsh_status rshi_processes_prepare(int rank, int size, rshi_node **out);
/* Collective: connects to the processes that use the same job name, within `patience` seconds.  If
 * this fails, it frees the node, and the other ranks have been told. */
rsh_status rshi_processes_join(rshi_node *n, const char *job, double patience);
/* Local, for a rank that cannot take part: tells the ranks that connect within a moment.  Does not
 * change the thread's error message. */
void rshi_processes_excuse(const char *job, int rank, int size, rsh_status status);

/* Local.  Tells the others that this rank takes no further part; only the first call has an
 * effect. */
void rshi_node_leave(rshi_node *n, rsh_status status, const char *detail);
/* Local.  Leaves the node, if this rank has not yet, and frees it.  No-op for NULL. */
void rshi_node_free(rshi_node *n);

/* ---- collective; RSH_EPEER if a rank has left, RSH_ETIMEOUT after RESHARD_TIMEOUT ---- */

rsh_status rshi_node_allgather(rshi_node *n, const void *mine, void *all, size_t bytes);
rsh_status rshi_node_bcast(rshi_node *n, int root, void *data, size_t bytes);
rsh_status rshi_node_exchange(rshi_node *n, int64_t nsend, const rsh_message *send, int64_t nrecv,
                              const rsh_message *recv);
/* If `mine` is not RSH_OK, this rank could not prepare for the new node, and no rank gets one.
 * *out is not changed if colour < 0. */
rsh_status rshi_node_split(rshi_node *n, int colour, int key, rsh_status mine, rshi_node **out);

/* The arguments of a rank to a split. */
typedef struct rshi_wish {
    int colour, key, rank; /* rank in the old group */
} rshi_wish;

/* Collects the arguments of one colour out of `size`, in the order of the new group; returns their
 * number. */
int rshi_wishes_of(int size, const rshi_wish *all, int colour, rshi_wish *out);

/* ---- local: memory, flags, peers ---- */

rsh_status rshi_node_publish(rshi_node *n, const void *p, rshi_handle *out);
void *rshi_node_reach(rshi_node *n, int peer, rshi_handle h);

/* A flag of this rank that peers can reach and that stays readable as long as any rank may read it.
 * Flags are reused; their values never decrease.  NULL with an error message: no memory. */
rshi_flag *rshi_world_flag_take(rshi_world *w);
void rshi_world_flag_give(rshi_world *w, rshi_flag *flag);

/* This rank is done with memory of the mapping's `alloc` that several ranks use; `users`, in that
 * memory, counts the ranks that still use it.  `mine`: this rank allocated it.  The last one frees
 * it if any rank can; otherwise the rank that allocated it does, when it next releases
 * something. */
void rshi_world_let_go(rshi_world *w, void *p, size_t bytes, atomic_int *users, bool mine);

/* Waits until flag->value >= target; `peer` owns the flag.  RSH_EPEER if the peer has left or died
 * (unless the flag reached the target), RSH_EMISMATCH if it waits for this rank in a round. */
rsh_status rshi_node_wait(rshi_node *n, int peer, rshi_flag *flag, uint64_t target);
/* Should this rank stop waiting for `peer` (-1: for any rank) after `waited` seconds? */
rsh_status rshi_node_check_peer(rshi_node *n, int peer, double waited);

#endif
