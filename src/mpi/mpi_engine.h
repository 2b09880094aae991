/* mpi_engine: the part of libreshard-mpi that is compiled against one MPI.
 *
 * libreshard-mpi itself does not call MPI.  It loads libreshard-mpi-openmpi or
 * libreshard-mpi-mpich, whichever matches the MPI of the process, and calls it through this table.
 * Communicators are passed as Fortran handles, because those are ints in every MPI. */
#ifndef RESHARD_MPI_ENGINE_H
#define RESHARD_MPI_ENGINE_H

#include <reshard/comm.h>

typedef struct rshi_mpi_engine {
    const char *family; /* the MPI that it was compiled against: "openmpi" or "mpich" */
    rsh_status (*open_world)(rsh_comm **out);
    rsh_status (*close_world)(rsh_comm *comm);
    rsh_status (*comm)(int handle, rsh_comm **out);
    rsh_status (*kept_comm)(int handle, rsh_comm **out);
    void (*version)(char *text, int size); /* version text of the MPI; may be called at any time */
    rsh_status (*check_running)(void);     /* initialised, and not finalised? */
} rshi_mpi_engine;

/* The only symbol of such a library. */
__attribute__((visibility("default"))) const rshi_mpi_engine *rsh_mpi_engine(void);
typedef const rshi_mpi_engine *(*rshi_mpi_engine_fn)(void);

#endif
