/* MPI for programs that have none of their own: a comm of all ranks that mpirun started.  In
 * libreshard-mpi; needs no <mpi.h>, so that a program can load the library when it runs (dlopen),
 * as the command does for `--engine mpi`. */
#ifndef RESHARD_MPI_WORLD_H
#define RESHARD_MPI_WORLD_H

#include <reshard/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Initialises MPI and makes a comm of MPI_COMM_WORLD.  RSH_EBUSY where MPI runs already:
 * rsh_comm_mpi is for that.  Collective. */
RSH_API rsh_status rsh_mpi_open(rsh_comm **out);
/* Frees the comm and finalises MPI, which cannot be opened again.  NULL: only the latter, after an
 * rsh_mpi_open that failed.  Collective. */
RSH_API rsh_status rsh_mpi_close(rsh_comm *comm);

#ifdef __cplusplus
}
#endif
#endif
