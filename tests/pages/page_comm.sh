# elsewhere: mpicc program.c: tests/install builds programs against an installed library
