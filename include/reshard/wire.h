/* Wire: somebody else's messages, for a comm.
 *
 * Between ranks that share memory the library moves bytes itself.  Between other ranks it needs
 * something that sends messages: MPI (<reshard/mpi.h> is such a wire), or any other library with
 * ordered, tagged messages.  A wire is a table of functions.  rsh_comm_wire makes a comm of it: it
 * finds out which ranks share a machine, lets those read one another's memory, and uses the wire
 * for the rest. */
#ifndef RESHARD_WIRE_H
#define RESHARD_WIRE_H

#include <stdbool.h>

#include <reshard/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RSH_WIRE_TAGS 32768 /* tags are 0 to 32767, the range that every MPI guarantees */

/* A message in progress: whatever the wire needs to know about it. */
typedef union rsh_wire_request {
    void *pointer;
    uint64_t number;
    char room[16];
} rsh_wire_request;

/* All functions are called by the thread that is the rank, and none of them waits, except `split`
 * and `close`.  A function that fails returns a status and leaves a sentence with rsh_fail; nobody
 * can use the comm afterwards.  Messages of one sender, receiver and tag arrive in the order in
 * which they were sent; a receive takes the first that no earlier receive took.  A rank may send to
 * itself. */
typedef struct rsh_wire {
    const char *name; /* of the engine: "mpi"; copied, up to 31 bytes */
    int rank, size;
    void *ctx;
    /* Ranks can share memory only if this is equal; 0: unknown. */
    uint64_t host;

    /* Begin to send or to receive.  The wire uses `data` until `test` says done or `cancel` says
     * true.  `data` is always memory of the library, never a caller's, so that a caller's memory is
     * not touched once a call has returned.  A message has at most 1 GiB and exactly as many bytes
     * on both sides. */
    rsh_status (*send)(void *ctx, int peer, int tag, const void *data, size_t bytes,
                       rsh_wire_request *out);
    rsh_status (*recv)(void *ctx, int peer, int tag, void *data, size_t bytes,
                       rsh_wire_request *out);
    /* Is it done?  Drives all other messages too.  When *done, the request is gone. */
    rsh_status (*test)(void *ctx, rsh_wire_request *request, bool *done);
    /* Give up a send or a receive after a failure.  True: the request is gone and its
     * memory is free.  False: the wire cannot stop it (now); the request stays, and the library may
     * ask again until `close`.  The library keeps the memory of a message that is never done until
     * the process ends, so the wire may use it after `close` too. */
    bool (*cancel)(void *ctx, rsh_wire_request *request);
    /* Has a message with this tag arrived, from any rank?  *peer is its sender, or -1. */
    rsh_status (*probe)(void *ctx, int tag, int *peer);

    /* Collective: a wire among the ranks of equal colour, ordered by (key, rank), whose messages
     * never meet those of this one; colour < 0: *out stays as it is. */
    rsh_status (*split)(void *ctx, int colour, int key, struct rsh_wire *out);
    /* `orderly`: all ranks close the wire now, and no message is in progress.  Otherwise some ranks
     * may be dead, and `close` must not wait for them. */
    void (*close)(void *ctx, bool orderly);
} rsh_wire;

#ifdef __cplusplus
}
#endif
#endif
