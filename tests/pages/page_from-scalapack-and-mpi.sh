# The example lies in the build folder; without an MPI its line is left out.
PATH=$BUILD/examples/mpi:$PATH
# elsewhere: mpicc prog.c: tests/install builds programs against an installed library
