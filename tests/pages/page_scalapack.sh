# elsewhere: mpirun -n 6: tests/scalapack/preload.sh runs a program with the library preloaded
