/* MPI for programs that do not use MPI themselves: a comm of all ranks that mpirun started.
 *
 * The functions are in libreshard-mpi.  This header does not need <mpi.h>, so that a program can
 * load the library at run time (dlopen), as the command does for `--engine mpi`. */
#ifndef RESHARD_MPI_WORLD_H
#define RESHARD_MPI_WORLD_H

#include <reshard/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Initialises MPI and makes a comm of MPI_COMM_WORLD.  rsh_mpi_close frees *out.
 * RSH_EBUSY if MPI is initialised already: use rsh_comm_mpi; otherwise as rsh_comm_mpi.  MPI is
 * initialised after any other failure, so that no rank waits in MPI_Init.  Collective. */
RSH_API rsh_status rsh_mpi_open(rsh_comm **out);
/* Frees the comm and finalises MPI, which cannot be initialised again.  With NULL it only finalises
 * MPI: for use after an rsh_mpi_open that failed.  RSH_EBUSY while execs of the comm exist.
 * Collective. */
RSH_API rsh_status rsh_mpi_close(rsh_comm *comm);

#ifdef __cplusplus
}
#endif
#endif
