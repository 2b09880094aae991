/* Comm: a group of ranks and the way bytes move between them.
 *
 * Only one thread uses a comm: the thread that is its rank.  Every rank of the comm must make the
 * same collective calls in the same order.  These calls never hang if a rank failed, left or is in
 * another call: every rank gets an error.
 *
 * Every collective call may return, in addition to the errors in its comment:
 * - the status and message of the lowest rank that rejects its arguments or runs out of memory;
 * - RSH_EMISMATCH if ranks are in different calls, or pass arguments that do not match;
 * - RSH_EPEER if a rank has failed or left; RSH_ETIMEOUT if one does not answer for RESHARD_TIMEOUT
 *   seconds.  The comm has then failed for good, and later calls return the same error;
 * - RSH_ERUNTIME in a forked child of the process that made the comm, because the child is not a
 * rank.
 * A call with NULL as the comm fails on this rank only; the other ranks block until the timeout.
 *
 * In a forked child rsh_comm_free and making a sharded tensor return RSH_ERUNTIME too, freeing
 * memory that ranks share is a no-op, and a pool runs its tasks on the calling thread. */
#ifndef RESHARD_COMM_H
#define RESHARD_COMM_H

#include <reshard/dtype.h>
#include <reshard/message.h>
#include <reshard/wire.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_comm rsh_comm;

/* Makes comms for n ranks that are threads of this process.  `comms` has n entries; comms[r] is for
 * the thread that will be rank r.  The caller frees each of them.  A rank that frees its comm
 * leaves it: ranks that wait for it get RSH_EPEER.
 * RSH_EVALUE if n < 1; RSH_ENOMEM.  Local. */
RSH_API rsh_status rsh_comm_threads(int n, rsh_comm **comms);

/* Starts n threads, runs fn(ctx, comm) as a rank on each, and waits for all.  The library frees the
 * comms.  If a rank returns while others wait for it, they get RSH_EPEER with its status and
 * message.  Returns the status and message of the rank that failed first; RSH_EPEER only if no rank
 * returned anything else.
 * RSH_EVALUE if n < 1; RSH_ERUNTIME if a thread cannot be started; RSH_ENOMEM.  Local. */
typedef rsh_status (*rsh_rank_fn)(void *ctx, rsh_comm *comm);
RSH_API rsh_status rsh_run(int n, rsh_rank_fn fn, void *ctx);

/* Makes a comm of `size` processes on this machine that pass the same `name`; this one is rank
 * `rank`.  Returns when all have joined; the name can then be used again.  Two jobs of one user
 * that use the same name at the same time may mix their ranks, so make the name unique per job.
 * `size` is at most 65,536.  The caller frees *out.
 * RSH_EVALUE if rank or size are out of range; RSH_ETIMEOUT, naming a rank, if one does not join
 * within RESHARD_TIMEOUT seconds; RSH_ENOMEM.  Collective over the processes. */
RSH_API rsh_status rsh_comm_shm(const char *name, int rank, int size, rsh_comm **out);
/* Does the same with name, rank and size from the environment variables of `reshard run`, mpirun,
 * torchrun or srun.  Without a launcher it makes a comm of one rank.  The caller frees *out.
 * RSH_EVALUE if the environment lacks the rank; RSH_EUNSUP if the launcher runs ranks on several
 * machines; otherwise as rsh_comm_shm.  Collective over the processes. */
RSH_API rsh_status rsh_comm_join(rsh_comm **out);

/* Like rsh_run, with n child processes of the caller as ranks.  They are forked from the caller, so
 * the caller does not see what they write to their memory.  They end with _exit, without exit
 * handlers, so fn must flush what it prints.  No other thread of the caller should hold a lock.  If
 * a rank dies, or exits before fn returns, the other ranks and the caller get RSH_EPEER, also if
 * the caller ignores SIGCHLD or waits for all of its children.
 * Errors as for rsh_run.  Local. */
RSH_API rsh_status rsh_run_shm(int n, rsh_rank_fn fn, void *ctx);

/* Leaves the comm and frees it on this rank.  No-op for NULL.
 * RSH_EBUSY while something is bound to the comm; RSH_ERUNTIME in a forked child of the process
 * that made it.  Local; on a wire (mpi) collective: it waits for the other ranks, unless the comm
 * has failed. */
RSH_API rsh_status rsh_comm_free(rsh_comm *comm);

/* Declares that this rank has failed, for instance because a program in another language raised an
 * exception.  Ranks that wait for it, now or later, get RSH_EPEER with the status and the message.
 * The comm has then failed on this rank too; it must still be freed.  No-op if the comm has failed
 * already.
 * RSH_EVALUE if the status is not a failure.  Local. */
RSH_API rsh_status rsh_comm_fail(rsh_comm *comm, rsh_status status, const char *sentence);

/* Getters.  Engines are "threads", "shm", or the name of the wire, "mpi"; the string lives as long
 * as the comm.  Local. */
RSH_API int rsh_comm_rank(const rsh_comm *comm); /* -1 for NULL */
RSH_API int rsh_comm_size(const rsh_comm *comm);
RSH_API const char *rsh_comm_engine(const rsh_comm *comm);

/* Return the number of nodes, and the node of a rank.  Ranks of one node can read each other's
 * memory.  Nodes are numbered from 0 in the order of their lowest ranks.  Local. */
RSH_API int rsh_comm_nnodes(const rsh_comm *comm);
RSH_API int rsh_comm_node(const rsh_comm *comm, int rank); /* -1 for a comm of NULL; 0 for a rank
                                                              outside the comm */

/* Returns when every rank has called it.  Collective. */
RSH_API rsh_status rsh_comm_barrier(rsh_comm *comm);
/* Returns, on every rank, the status and message of the lowest rank whose `mine` is not RSH_OK;
 * RSH_OK if all are.  Collective. */
RSH_API rsh_status rsh_comm_agree(rsh_comm *comm, rsh_status mine);
/* Gathers `bytes` bytes from every rank on every rank: `all` has size*bytes bytes, and the block of
 * rank r starts at r*bytes.  Every rank must pass the same `bytes`.  Collective. */
RSH_API rsh_status rsh_comm_allgather(rsh_comm *comm, const void *mine, void *all, size_t bytes);
/* Combines `count` elements of every rank, element by element and in ascending rank order.  All
 * ranks get the same bits, and NaNs follow the rules of layouts with partial values.  A bool is
 * true unless its byte is 0.  Use it for a few numbers, not for tensors: every rank receives the
 * elements of all.
 * RSH_ETYPE if the op does not exist for the dtype; RSH_EUNSUP for complex and for floats of 8 and
 * 16 bits: reshard a layout with partial values instead.  Collective. */
RSH_API rsh_status rsh_comm_allreduce(rsh_comm *comm, const void *mine, void *result, int64_t count,
                                      rsh_dtype dtype, rsh_op op);

/* Sends and receives a list of messages.  Between two ranks, sends and receives match in order.
 * Returns when all messages of this rank are done.
 * RSH_EMISMATCH if matching messages differ in size or number; RSH_EVALUE if a peer is outside the
 * comm.  Collective. */
RSH_API rsh_status rsh_comm_exchange(rsh_comm *comm, int64_t nsend, const rsh_message *send,
                                     int64_t nrecv, const rsh_message *recv);

/* Makes a new comm of the ranks with equal colour, ordered by (key, rank); *out is NULL for
 * colour < 0.  The caller frees *out.  Collective. */
RSH_API rsh_status rsh_comm_split(rsh_comm *comm, int colour, int key, rsh_comm **out);

/* Makes a comm on a wire and takes ownership of the wire: it closes the wire's ctx when the comm is
 * freed, or at once if this call fails.  The table of functions is copied.  Two ranks are on the
 * same node if `host`, the boot id and the network namespace are equal and they can map each
 * other's memory; if RESHARD_NODE is set, its values are compared instead.  The caller frees *out.
 * RSH_EVALUE if the wire lacks a function or its rank is not below its size.  Collective. */
RSH_API rsh_status rsh_comm_wire(const rsh_wire *wire, rsh_comm **out);

#ifdef __cplusplus
}
#endif
#endif
