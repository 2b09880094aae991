/* Wire: a table of functions through which a comm sends messages.
 *
 * The library moves bytes itself between ranks that share memory.  Between other ranks it needs a
 * message layer: MPI (<reshard/mpi.h> is such a wire), or any other library with ordered, tagged
 * messages.  rsh_comm_wire makes a comm from a wire: it finds out which ranks share a machine, lets
 * those read one another's memory, and uses the wire for the rest. */
#ifndef RESHARD_WIRE_H
#define RESHARD_WIRE_H

#include <stdbool.h>

#include <reshard/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RSH_WIRE_TAGS 32768 /* tags are 0 to 32767, the range that every MPI guarantees */

/* A message in progress; the wire stores in it what it needs. */
typedef union rsh_wire_request {
    void *pointer;
    uint64_t number;
    char room[16];
} rsh_wire_request;

/* The rank's thread calls all functions.  None of them may block, except `split` and `close`.  A
 * function that fails returns a status and sets the error message with rsh_fail; the comm has then
 * failed on all ranks.  Messages of one sender, receiver and tag arrive in the order in which they
 * were sent; a receive gets the first message that no earlier receive got.  A rank may send to
 * itself. */
typedef struct rsh_wire {
    const char *name; /* of the engine: "mpi"; copied, up to 31 bytes */
    int rank, size;
    void *ctx;
    /* Two ranks can share memory only if their `host` values are equal; 0: unknown. */
    uint64_t host;

    /* Begin to send or to receive.  The wire may use `data` until `test` reports done or `cancel`
     * returns true.  `data` is always memory of the library, never of a caller, so that a caller's
     * memory is not accessed after a call has returned.  A message has at most 1 GiB, and the same
     * number of bytes on both sides. */
    rsh_status (*send)(void *ctx, int peer, int tag, const void *data, size_t bytes,
                       rsh_wire_request *out);
    rsh_status (*recv)(void *ctx, int peer, int tag, void *data, size_t bytes,
                       rsh_wire_request *out);
    /* Is the message done?  Makes progress on all other messages too.  When *done is true, the
     * request no longer exists. */
    rsh_status (*test)(void *ctx, rsh_wire_request *request, bool *done);
    /* Cancels a send or a receive after a failure.  True: the request no longer exists and the wire
     * does not use its memory any more.  False: it cannot be cancelled (now); the request stays,
     * and the library may ask again until `close`.  The library keeps the memory of a message that
     * never completes until the process ends, so the wire may use it even after `close`. */
    bool (*cancel)(void *ctx, rsh_wire_request *request);
    /* Has a message with this tag arrived, from any rank?  *peer is its sender, or -1. */
    rsh_status (*probe)(void *ctx, int tag, int *peer);

    /* Collective: makes a wire among the ranks of equal colour, ordered by (key, rank), whose
     * messages cannot match those of this one; colour < 0: *out is not changed. */
    rsh_status (*split)(void *ctx, int colour, int key, struct rsh_wire *out);
    /* Frees ctx.  If `orderly`, all ranks close the wire now and no message is in progress.
     * Otherwise some ranks may be dead, and `close` must not wait for them. */
    void (*close)(void *ctx, bool orderly);
} rsh_wire;

#ifdef __cplusplus
}
#endif
#endif
