/* Wire: somebody else's messages, for a comm.
 *
 * The library moves bytes between ranks that share memory by itself.  For ranks that do not it
 * needs something that sends: MPI is one (<reshard/mpi.h> is made of this), any library with
 * ordered, tagged messages is another.  A wire is a table of functions; rsh_comm_wire makes a comm
 * of it: it finds out which ranks share a machine, lets those read one another's arenas, and uses
 * the wire for the rest. */
#ifndef RESHARD_WIRE_H
#define RESHARD_WIRE_H

#include <stdbool.h>

#include <reshard/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RSH_WIRE_TAGS 32768 /* tags are 0 to 32767, as small as any MPI has them */

/* A message under way.  Whatever the wire needs to know about it. */
typedef union rsh_wire_request {
    void *pointer;
    uint64_t number;
    char room[16];
} rsh_wire_request;

/* All functions are called by the thread that is the rank and none of them waits, except `split`
 * and `close`.  A failure is a status; rsh_wire_fail leaves its sentence, and the comm is of no
 * more use then.  Messages of one sender, receiver and tag arrive in the order in which they were
 * sent; a receive takes the first that no earlier receive took.  A rank may send to itself. */
typedef struct rsh_wire {
    const char *name; /* of the engine: "mpi"; copied, up to 31 bytes */
    int rank, size;
    void *ctx;
    /* Ranks can share memory only if this is equal; 0: the wire does not know, and any may. */
    uint64_t host;

    /* Begin to send or to receive.  The wire uses `data` until `test` says done or `cancel` says
     * true.  It is always memory of the library, never a caller's, so that nothing of a caller's is
     * touched once a call has returned.  A message has at most 1 GiB and exactly as many bytes on
     * both sides. */
    rsh_status (*send)(void *ctx, int peer, int tag, const void *data, size_t bytes,
                       rsh_wire_request *out);
    rsh_status (*recv)(void *ctx, int peer, int tag, void *data, size_t bytes,
                       rsh_wire_request *out);
    /* Is it done?  Drives everything else that is under way too.  When *done, the request is gone.
     */
    rsh_status (*test)(void *ctx, rsh_wire_request *request, bool *done);
    /* Give up a message, a receive or a send, after a failure.  True: the request is gone and its
     * memory is free.  False: the wire cannot stop it (now); the request stays, and the library may
     * ask again until `close`.  It keeps the memory of what is never done until the process ends,
     * so the wire may use it after `close` too. */
    bool (*cancel)(void *ctx, rsh_wire_request *request);
    /* Has anything with this tag come, from any rank?  *peer is then its sender, else -1. */
    rsh_status (*probe)(void *ctx, int tag, int *peer);

    /* Collective: a wire among the ranks of equal colour, ordered by (key, rank), whose messages
     * never meet those of this one; colour < 0: *out stays as it is. */
    rsh_status (*split)(void *ctx, int colour, int key, struct rsh_wire *out);
    /* `orderly`: all ranks close it now, and nothing is under way.  Otherwise some may be dead and
     * waiting for them is no use. */
    void (*close)(void *ctx, bool orderly);
} rsh_wire;

/* For functions of a wire: leave a sentence and pass the status on.  RSH_EVALUE for a number that
 * is no status. */
RSH_API rsh_status rsh_wire_fail(rsh_status status, const char *sentence);

#ifdef __cplusplus
}
#endif
#endif
