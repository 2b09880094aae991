/* The engine `mpi`: a comm over an MPI communicator.  In libreshard-mpi; the only header of the
 * library that requires <mpi.h>.
 *
 * libreshard-mpi works with several MPIs.  On first use it detects which MPI the program uses and
 * loads the library that was built for it, libreshard-mpi-openmpi or libreshard-mpi-mpich, from its
 * own folder or the system's search path.  If that one is not installed, calls return RSH_EUNSUP
 * and the message names the MPI and the missing file. */
#ifndef RESHARD_MPI_H
#define RESHARD_MPI_H

#include <mpi.h>

#include <reshard/mpi_world.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The MPI whose <mpi.h> this program is compiled with.  MPIs with MPICH's ABI, such as Intel MPI,
 * count as MPICH. */
#ifdef OPEN_MPI
#define RSH_MPI_FAMILY "openmpi"
#else
#define RSH_MPI_FAMILY "mpich"
#endif

/* Makes a comm of the ranks of `comm`.  It creates one communicator, a duplicate of `comm` with
 * MPI_ERRORS_RETURN; rsh_comm_split creates more.  MPI must be initialised.  Only the calling
 * thread calls MPI, so MPI_THREAD_FUNNELED is enough.  Ranks of one node read one another's memory;
 * between nodes the library sends packed messages.
 *
 * The caller frees *out, on every rank: freeing is collective, as MPI_Comm_free is.  After
 * MPI_Finalize it only frees memory.  After a failure it does not wait: messages that MPI cannot
 * cancel, their buffers and the communicator stay allocated, and MPI_Finalize may still block on a
 * rank that does not answer.
 *
 * RSH_EVALUE for MPI_COMM_NULL or if `out` is NULL (the other ranks then get RSH_EPEER with that
 * message); RSH_EUNSUP for an intercommunicator, if the process runs another MPI than the one it
 * was compiled for, or if there is no library for this MPI; RSH_ERUNTIME if MPI is not initialised
 * or fails; RSH_EPEER, RSH_ETIMEOUT and RSH_ENOMEM as in all collective calls.  Collective. */
static inline rsh_status rsh_comm_mpi(MPI_Comm comm, rsh_comm **out) {
    rsh_status st = rsh_mpi_check(RSH_MPI_FAMILY);
    return st ? st : rsh_comm_mpi_f((int)MPI_Comm_c2f(comm), out);
}

#ifdef __cplusplus
}
#endif
#endif
