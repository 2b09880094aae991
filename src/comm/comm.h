/* comm: the interface of a group of ranks for other rooms.
 *
 * A comm has a node, the ranks that read one another's memory, and, if there are several nodes, a
 * link, which reaches all ranks by messages.  The table of operations decides which of the two is
 * used.  A rank can publish memory as a handle, a small value.  Peers that can reach the memory
 * (threads always can) convert the handle back to an address that they can read. */
#ifndef RESHARD_COMM_COMM_H
#define RESHARD_COMM_COMM_H

#include <reshard/comm.h>

#include "base/base.h"
#include "node/node.h"

typedef struct rshi_comm_ops {
    const char *name;

    /* Collective.  Sends rank r's `bytes` to every rank, like rsh_comm_allgather; small blocks (up
     * to a few KiB).  May block.  If a rank has left, fails with RSH_EPEER, on this rank at least;
     * the error message contains that rank's status and message. */
    rsh_status (*allgather)(rsh_comm *c, const void *mine, void *all, size_t bytes);

    /* Collective.  Sends `bytes` (up to a few KiB) at `data` of rank `root` to `data` of every
     * rank.  Allocates no memory; fails like allgather. */
    rsh_status (*bcast)(rsh_comm *c, int root, void *data, size_t bytes);

    /* Collective.  Like rsh_comm_exchange, with arguments already checked.  Cannot deadlock.  If
     * lists do not match, or a rank is out of memory, every rank gets the same error. */
    rsh_status (*exchange)(rsh_comm *c, int64_t nsend, const rsh_message *send, int64_t nrecv,
                           const rsh_message *recv);

    /* Collective.  Like rsh_comm_split; if a rank is out of memory, every rank gets RSH_ENOMEM and
     * no new comm. */
    rsh_status (*split)(rsh_comm *c, int colour, int key, rsh_comm **out);

    /* Local.  Zeroed memory, 64-byte aligned, that peers can reach: flags and control blocks.  The
     * rank that allocated the memory frees it, once no peer can still be waiting for a flag in
     * it. */
    void *(*shared_alloc)(rsh_comm *c, size_t bytes);
    void (*shared_free)(rsh_comm *c, void *p, size_t bytes);
    /* Local.  Called when this rank no longer uses memory that several ranks use.  `users`, which
     * is stored in that memory, counts the ranks that still use it.  `mine` is true on the rank
     * that allocated it. */
    void (*shared_let_go)(rsh_comm *c, void *p, size_t bytes, atomic_int *users, bool mine);

    /* Local.  Memory for elements that peers can reach; NULL in the table: use any memory. */
    rsh_status (*data_alloc)(rsh_comm *c, size_t bytes, bool zero, rshi_data *out);
    /* Local.  Can peers reach this rank's memory at p?  NULL in the table: always. */
    bool (*is_shared)(rsh_comm *c, const void *p);

    /* Local.  Makes a handle for memory of this rank. */
    rsh_status (*publish)(rsh_comm *c, const void *p, size_t bytes, rshi_handle *out);
    /* Local.  Returns the address at which this rank can read (shared_alloc memory: also write)
     * what `peer` published; NULL if it cannot. */
    void *(*reach)(rsh_comm *c, int peer, rshi_handle h);

    /* Local.  A flag of this rank that peers can reach and that stays readable until the last rank
     * has closed, so that a peer may read it after its owner has finished with it.  Flags are
     * reused; their values never decrease.  NULL with an error message: no memory. */
    rshi_flag *(*flag_take)(rsh_comm *c);
    void (*flag_give)(rsh_comm *c, rshi_flag *flag);

    /* Waits until flag->value >= target; `peer` owns the flag.  Polls for a short while, yields,
     * then sleeps.  RSH_EPEER if the peer has left or failed (unless the flag reached the target),
     * RSH_EMISMATCH if it waits for this rank in a collective call, RSH_ETIMEOUT after
     * RESHARD_TIMEOUT seconds. */
    rsh_status (*wait)(rsh_comm *c, int peer, rshi_flag *flag, uint64_t target);
    /* Sets flag->value (release) and wakes the ranks that sleep on it. */
    void (*post)(rsh_comm *c, rshi_flag *flag, uint64_t value);
    /* For waiting loops outside of this room: should this rank stop waiting for `peer` (-1: for any
     * rank) after `waited` seconds?  RSH_OK: continue.  RSH_EPEER, RSH_ETIMEOUT as for `wait`.  A
     * rank may have sent or posted before it left, so poll once more before giving up.
     * `check_peer` makes progress on messages, `wait` does not.  With `waited` 0 and a peer of this
     * node it only reads memory. */
    rsh_status (*check_peer)(rsh_comm *c, int peer, double waited);

    /* Messages between ranks of different nodes, as in rsh_wire, only from and to memory of the
     * library; NULL in the table: there is one node.  `tag` is from rshi_comm_tag.  If `cancel`
     * returns false, the memory must stay valid until the process ends; a comm's shared memory
     * does. */
    rsh_status (*send)(rsh_comm *c, int peer, int tag, const void *data, size_t bytes,
                       rsh_wire_request *out);
    rsh_status (*recv)(rsh_comm *c, int peer, int tag, void *data, size_t bytes,
                       rsh_wire_request *out);
    rsh_status (*test)(rsh_comm *c, rsh_wire_request *request, bool *done);
    bool (*cancel)(rsh_comm *c, rsh_wire_request *request);
    /* Keeps the memory of `shared_alloc` allocated, because messages that cannot be stopped still
     * use it. */
    void (*keep)(rsh_comm *c);

    /* Local.  Declares that this rank takes no further part; peers that wait for it get `status`
     * and `detail`.  Only the first call has an effect.  The comm's memory stays. */
    void (*leave)(rsh_comm *c, rsh_status status, const char *detail);
    /* Local, after leave.  Frees the comm, and on the last rank the memory that the ranks share. */
    void (*close)(rsh_comm *c);
} rshi_comm_ops;

/* Functions of an object that another room has attached to a comm. */
typedef struct rshi_attached_ops {
    rsh_status (*check_idle)(const void *attached); /* RSH_EBUSY with a message: it is in use */
    void (*free)(void *attached);                   /* while the comm still works */
} rshi_attached_ops;

#define RSHI_CARD_BYTES 104

/* The record that each rank sends in the exchange that opens a collective call.  It has the same
 * size for every call, so that ranks in different calls can still exchange it. */
typedef struct rshi_opening {
    uint64_t operation;   /* hash of the name */
    uint64_t calls;       /* collective calls before this one */
    uint64_t fingerprint; /* of the arguments; of the error message if the rank has an error */
    uint64_t status;      /* not RSH_OK: the rank rejects the call */
    uint64_t card[RSHI_CARD_BYTES / sizeof(uint64_t)]; /* may differ; read by the call */
} rshi_opening;

struct rsh_comm {
    const rshi_comm_ops *ops;
    int rank, size;
    uint32_t process;    /* the process of the rank; a forked child of that process is not a rank */
    const int64_t *node; /* [size], in `nodes`: node of each rank, numbered from 0 in order of
                          * their lowest ranks; NULL: one node.  Ranks of one node read one
                          * another's memory, others exchange messages */
    rshi_node *here;     /* owned: the ranks of this node, in the order of their ranks here */
    struct rshi_link *link; /* owned: to all ranks; NULL: there is one node and no wire */
    int64_t *nodes;         /* [size], owned: like `node`, even for one node; NULL: no link */
    int *place;             /* [size], owned: rank in its node; NULL: no link */
    int *names;             /* [here->size], owned: the inverse, for this node */
    rshi_patience patience; /* for flags of this node, if there are other nodes */
    rshi_comm_ops table;    /* `ops` points to it */
    char name[32];          /* of the engine */
    unsigned tags;   /* number of tags handed out so far */
    uint64_t calls;  /* collective calls so far: part of every opening exchange */
    uint64_t sentences; /* rshi_sentences after the last collective call */
    bool refused;    /* the last collective call failed in its opening exchange, on all ranks */
    bool given_up;   /* its owner was freed; the comm itself is freed when the attached object is
                        idle */
    rsh_status dead; /* not RSH_OK: the comm has failed for good with this status */
    char dead_detail[RSHI_DETAIL_BYTES];
    rshi_opening *openings; /* [size], owned: the records of the last opening exchange */
    void *attached; /* owned: an object of the room that uses the comm; NULL: none */
    const rshi_attached_ops *attached_ops;
};

/* The opening exchange of a collective call.  Every rank sends its operation, a fingerprint of its
 * arguments, and its status `mine`.
 * - If all are OK and equal, returns RSH_OK.
 * - If a rank has an error, every rank gets the status and message of the lowest such rank.
 * - If operations, call counts or fingerprints differ, every rank gets RSH_EMISMATCH naming a rank
 *   that differs.  `what` (for instance the layouts) is quoted for the first two that differ; if
 *   they are in different calls, the last error of either since its last collective call is quoted
 *   instead.
 * Calls that proceed differently after the opening must differ in name or fingerprint.
 * The usual case costs one allgather of a small record; texts are sent only if something is wrong.
 * A comm that has failed for good returns its old error at once.  After RSH_EPEER or RSH_ETIMEOUT
 * it has failed for good. */
rsh_status rshi_comm_open(rsh_comm *c, const char *operation, uint64_t fingerprint,
                          const char *what, rsh_status mine);
/* Does the same with a card of up to RSHI_CARD_BYTES that may differ between ranks.  After RSH_OK
 * rshi_comm_card returns the card of each rank, until the next collective call. */
rsh_status rshi_comm_open_with(rsh_comm *c, const char *operation, uint64_t fingerprint,
                               const char *what, rsh_status mine, const void *card, size_t bytes);
static inline const void *rshi_comm_card(const rsh_comm *c, int64_t rank) {
    return c->openings[rank].card;
}
/* Does the same with a word that may differ between ranks; sets *same to whether it is equal on all
 * of them. */
rsh_status rshi_comm_open_word(rsh_comm *c, const char *operation, uint64_t word, rsh_status mine,
                               bool *same);

/* Local.  Frees a comm whose owner is being freed; if the attached object is in use, as soon as
 * that is idle.  For owners that cannot return an error.  No-op for NULL. */
void rshi_comm_give_up(rsh_comm *c);
/* Local.  Called when an attached object is no longer in use. */
void rshi_comm_client_gone(rsh_comm *c);

/* Records a failure that the comm cannot recover from (RSH_EPEER, RSH_ETIMEOUT) and tells the
 * peers, so that they do not wait for this rank; returns its argument.  Every status that `ops`
 * returns must pass through here. */
rsh_status rshi_comm_verdict(rsh_comm *c, rsh_status status);

/* Returns RSH_ERUNTIME in a forked child of the process that made the comm, because only the parent
 * is a rank. */
static inline rsh_status rshi_comm_own(const rsh_comm *c) {
    if (c->process == rshi_process()) return RSH_OK;
    return rshi_fail(RSH_ERUNTIME,
                     "rank %d is the parent process; a forked child is not a rank of its comm",
                     c->rank);
}

/* Marks the comm as failed with any status and the thread's error message, because the ranks are
 * out of step for good; tells the peers like rshi_comm_verdict. */
void rshi_comm_abandon(rsh_comm *c, rsh_status status);

/* Can ranks a and b read one another's memory? */
static inline bool rshi_comm_near(const rsh_comm *c, int a, int b) {
    return !c->node || c->node[a] == c->node[b];
}

/* Local.  Called when a rank's function returned; sets an error message if it failed without
 * one. */
void rshi_rank_returned(const rsh_comm *comm, rsh_status status);
/* Local.  Runs fn(ctx, comms[r]) as rank r on a thread for each of the n comms; frees the comms.
 * Fails like rsh_run. */
rsh_status rshi_run_comms(int n, rsh_comm **comms, rsh_rank_fn fn, void *ctx);

/* Local.  For a rank on which something has failed since the comm's number of calls was `calls`: do
 * all ranks know of the failure?  They do if the last collective call failed; otherwise this rank
 * failed alone, before or after that call. */
static inline bool rshi_comm_all_know(const rsh_comm *c, uint64_t calls) {
    return c->dead || (c->refused && c->calls != calls);
}
/* Returns the status `st` of such a failure.  If the other ranks do not know of it, tells them
 * first, in the collective call in which they wait for this rank. */
static inline rsh_status rshi_comm_tell(rsh_comm *c, uint64_t calls, rsh_status st) {
    return st && !rshi_comm_all_know(c, calls) ? rsh_comm_agree(c, st) : st;
}

/* Returns a tag for messages of one kind.  Every rank must call this at the same point of its
 * collective calls, so that all ranks get the same tag. */
#define RSHI_COMM_TAGS 16 /* tags below this number are used by the link itself */
static inline int rshi_comm_tag(rsh_comm *c) {
    return (int)(RSHI_COMM_TAGS + c->tags++ % (RSH_WIRE_TAGS - RSHI_COMM_TAGS));
}

#endif
