/* MPI without <mpi.h>: a comm of all ranks that mpirun started, and comms of communicators that are
 * given by their Fortran handles.
 *
 * The functions are in libreshard-mpi.  Because this header does not need <mpi.h>, a program can
 * load the library at run time (dlopen), as the command does for `--engine mpi`, and one build of a
 * library works with any MPI.  <reshard/mpi.h> says how libreshard-mpi finds the MPI of the
 * process. */
#ifndef RESHARD_MPI_WORLD_H
#define RESHARD_MPI_WORLD_H

#include <reshard/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Initialises MPI and makes a comm of MPI_COMM_WORLD.  Free *out with rsh_mpi_close.  If no MPI is
 * loaded yet, RESHARD_MPI=openmpi or =mpich selects one, or else the launcher's environment
 * (OMPI_COMM_WORLD_SIZE: Open MPI; PMI_SIZE: MPICH), or else the first that is installed.
 * RSH_EBUSY if MPI is initialised already: use rsh_comm_mpi; otherwise as rsh_comm_mpi.  After any
 * other failure MPI is initialised all the same, so that no rank blocks in MPI_Init.
 * Collective. */
RSH_API rsh_status rsh_mpi_open(rsh_comm **out);
/* Frees the comm and finalises MPI, which cannot be initialised again.  With NULL it only finalises
 * MPI, for use after a failed rsh_mpi_open.  RSH_EBUSY while execs of the comm exist.
 * Collective. */
RSH_API rsh_status rsh_mpi_close(rsh_comm *comm);

/* Does the same as rsh_comm_mpi for a communicator's Fortran handle: the result of MPI_Comm_c2f,
 * Fortran's `integer :: comm`, mpi4py's comm.py2f().  The caller frees *out.
 * Errors as for rsh_comm_mpi.  Collective. */
RSH_API rsh_status rsh_comm_mpi_f(int comm, rsh_comm **out);
/* Does the same, but the comm is made once for each list of ranks and kept until the process ends;
 * communicators with the same ranks in the same order share it.  For libraries that receive a
 * communicator in every call.  *out is borrowed: do not free it.
 * RSH_EUNSUP also for a communicator with ranks outside MPI_COMM_WORLD; otherwise errors as for
 * rsh_comm_mpi.  Collective. */
RSH_API rsh_status rsh_comm_mpi_kept_f(int comm, rsh_comm **out);
/* Checks that the MPI of this process is `family`, "openmpi" or "mpich", that there is a library
 * for it and that it is initialised.
 * RSH_EVALUE for another name or NULL; RSH_EUNSUP if the process uses another MPI, naming both, or
 * if there is no library for it, naming the file; RSH_ERUNTIME if MPI is not initialised, or
 * finalised.  Local. */
RSH_API rsh_status rsh_mpi_check(const char *family);

#ifdef __cplusplus
}
#endif
#endif
