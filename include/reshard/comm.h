/* Comm: a group of ranks and the way bytes move between them.
 *
 * A comm is used by the one thread that is its rank.  Collective calls are made by every rank of
 * the comm in the same order; they never hang on a rank that failed, left or calls something else:
 * everybody gets an error.
 *
 * A child process that fork() makes is no rank of its parent's comms.  There, collective calls and
 * runs of execs are RSH_ERUNTIME, and so is rsh_comm_free; freeing an exec or memory that ranks
 * share is a no-op; a pool runs its tasks on the calling thread. */
#ifndef RESHARD_COMM_H
#define RESHARD_COMM_H

#include <reshard/dtype.h>
#include <reshard/message.h>
#include <reshard/wire.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rsh_comm rsh_comm;

/* n ranks as threads of this process.  `comms` has n entries; comms[r] is for the thread that will
 * be rank r.  A rank that frees its comm has left: others that wait for it get RSH_EPEER.  Local.
 */
RSH_API rsh_status rsh_comm_threads(int n, rsh_comm **comms);

/* Make n threads, run fn(ctx, comm) as a rank on each, wait for all.  Returns the status of the
 * first rank that failed, in time, and leaves its sentence to the caller.  A rank that returns
 * while others wait for it gives them RSH_EPEER with its status and sentence. */
typedef rsh_status (*rsh_rank_fn)(void *ctx, rsh_comm *comm);
RSH_API rsh_status rsh_run(int n, rsh_rank_fn fn, void *ctx);

/* Rank `rank` of `size` processes on this machine that give the same `name`.  Returns when all have
 * come; RSH_ETIMEOUT, naming a rank, if they do not within RESHARD_TIMEOUT seconds.  The name is
 * free again as soon as they have.  Two jobs of one user that give the same name at the same time
 * may exchange ranks: put into it what tells them apart.  `size` is at most 65536.  Collective over
 * the processes. */
RSH_API rsh_status rsh_comm_shm(const char *name, int rank, int size, rsh_comm **out);
/* The same with name, rank and size from the environment, as `reshard run`, mpirun, torchrun and
 * srun set it; where no launcher has set anything, a comm of one rank. */
RSH_API rsh_status rsh_comm_join(rsh_comm **out);

/* As rsh_run, with n child processes of the caller as ranks: they start as copies of it, and what
 * they write to its memory stays theirs. No other thread of the caller should hold a lock.  A rank
 * that dies, or exits before fn returns, gives the others RSH_EPEER, and so the caller; also where
 * the caller ignores SIGCHLD or waits for all of its children. */
RSH_API rsh_status rsh_run_shm(int n, rsh_rank_fn fn, void *ctx);

/* RSH_EBUSY while execs of this comm are alive.  RSH_ERUNTIME in a forked child of the process that
 * made it.  No-op for NULL. */
RSH_API rsh_status rsh_comm_free(rsh_comm *comm);

RSH_API int rsh_comm_rank(const rsh_comm *comm); /* -1 for NULL */
RSH_API int rsh_comm_size(const rsh_comm *comm);
RSH_API const char *
rsh_comm_engine(const rsh_comm *comm); /* "threads", "shm", or the name of the wire: "mpi" */

/* Nodes: ranks of one read one another's memory.  They are numbered from 0 in order of their lowest
 * ranks. */
RSH_API int rsh_comm_nodes(const rsh_comm *comm);
RSH_API int rsh_comm_node(const rsh_comm *comm, int rank); /* -1 for a comm of NULL */

/* Collective, all of them. */
RSH_API rsh_status rsh_comm_barrier(rsh_comm *comm);
/* Everybody gets the first (lowest rank) non-OK status with that rank's sentence; RSH_OK if there
 * is none. */
RSH_API rsh_status rsh_comm_agree(rsh_comm *comm, rsh_status mine);
/* `all` has size*bytes; rank r's block stands at r*bytes.  Every rank gives the same `bytes`. */
RSH_API rsh_status rsh_comm_allgather(rsh_comm *comm, const void *mine, void *all, size_t bytes);
/* Element-wise over ranks, combined in ascending rank order: the same bits everywhere, and one NaN
 * as in layouts with partial values. */
RSH_API rsh_status rsh_comm_allreduce(rsh_comm *comm, const void *mine, void *result, int64_t count,
                                      rsh_dtype dtype, rsh_op op);

/* A list of sends and receives between ranks; sends and receives of a pair match in order and must
 * agree in size (RSH_EMISMATCH otherwise).  Returns when all of this rank's are done. */
RSH_API rsh_status rsh_comm_exchange(rsh_comm *comm, int64_t nsend, const rsh_message *send,
                                     int64_t nrecv, const rsh_message *recv);

/* Ranks of equal colour form a new comm, ordered by (key, rank); colour < 0: *out is NULL. */
RSH_API rsh_status rsh_comm_split(rsh_comm *comm, int colour, int key, rsh_comm **out);

/* A comm on a wire.  Takes the wire (its ctx is closed with the comm, also when this fails).  Two
 * ranks share a node if `host`, the boot id and the network namespace agree and they can map one
 * another's arenas, or, where RESHARD_NODE is set, if that agrees and they can.  Collective. */
RSH_API rsh_status rsh_comm_wire(const rsh_wire *wire, rsh_comm **out);

#ifdef __cplusplus
}
#endif
#endif
