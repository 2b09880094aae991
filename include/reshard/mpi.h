/* The engine `mpi`: a comm over an MPI communicator.  In libreshard-mpi; the only header of the
 * library that needs an MPI. */
#ifndef RESHARD_MPI_H
#define RESHARD_MPI_H

#include <mpi.h>

#include <reshard/mpi_world.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Duplicates `comm` once, with MPI_ERRORS_RETURN, and keeps no other communicator of it (splitting
 * the result does).  MPI must be initialised; MPI is called by the calling thread only, so
 * MPI_THREAD_FUNNELED is enough.  Ranks of one node read one another's memory; between nodes packed
 * messages travel.  Freeing the comm is collective, as MPI_Comm_free is; after MPI_Finalize it only
 * gives memory back.  After a failure it waits for nobody, and MPI keeps a communicator and what it
 * still sends or receives, in memory of the library; MPI_Finalize is MPI's, and may wait for a rank
 * that is stopped.  Collective. */
RSH_API rsh_status rsh_comm_mpi(MPI_Comm comm, rsh_comm **out);

#ifdef __cplusplus
}
#endif
#endif
