/* mpi_checks: shared by test programs on MPI ranks: a check that ends all ranks. */
#ifndef RESHARD_TESTS_MPI_MPI_CHECKS_H
#define RESHARD_TESTS_MPI_MPI_CHECKS_H

#include <reshard.h>
#include <reshard/mpi.h>

#include <stdio.h>

static int world_rank;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d: %s:%d: %s  [%s]\n", world_rank, __FILE__, __LINE__,          \
                    #condition, rsh_error_detail());                                               \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)
#define CHECK_OK(call) CHECK((call) == RSH_OK)

#endif
