/* The engine `mpi`: a comm over an MPI communicator.  In libreshard-mpi; the only header of the
 * library that needs an MPI. */
#ifndef RESHARD_MPI_H
#define RESHARD_MPI_H

#include <mpi.h>

#include <reshard/mpi_world.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A comm of the ranks of `comm`.  It creates one communicator, a duplicate of `comm` with
 * MPI_ERRORS_RETURN; rsh_comm_split creates more.  MPI must be initialised.  Only the calling
 * thread calls MPI, so MPI_THREAD_FUNNELED is enough.  Ranks of one node read one another's memory;
 * between nodes the library sends packed messages.
 *
 * The caller frees *out, on every rank: freeing is collective, as MPI_Comm_free is.  After
 * MPI_Finalize it frees memory only.  After a failure it does not wait: messages that MPI cannot
 * cancel, their buffers and the communicator then stay allocated, and MPI_Finalize may still block
 * on a rank that does not answer.
 *
 * RSH_EVALUE for MPI_COMM_NULL, or if `out` is NULL, and the others get RSH_EPEER with that
 * sentence; RSH_EUNSUP for an intercommunicator; RSH_ERUNTIME if MPI is not initialised or fails;
 * RSH_EPEER, RSH_ETIMEOUT and RSH_ENOMEM as in all collective calls.  Collective. */
RSH_API rsh_status rsh_comm_mpi(MPI_Comm comm, rsh_comm **out);

#ifdef __cplusplus
}
#endif
#endif
