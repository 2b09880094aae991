# The example lies in the build folder.
PATH=$BUILD/examples/mpi:$PATH
