#!/bin/sh
# Peers: the same moves by MPI, ScaLAPACK and us.  What is not installed is left out, and said so.  PyTorch is bench_torch's.
#
#   peers.sh PROGRAM [ROUNDS]      PROGRAM: path of the built bench/peers; ROUNDS: 25
set -eu
program=$1 rounds=${2:-25}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
launch() { # launch RANKS PROGRAM...: by Open MPI's mpirun where there are several, and on as many cores as there are
    ranks=$1
    shift
    if command -v mpirun.openmpi > /dev/null; then
        mpirun.openmpi --oversubscribe -n "$ranks" "$@"
    else
        mpirun -n "$ranks" "$@"
    fi
}

if [ -x "$program" ]; then
    launch 2 "$program" 8192 "$rounds"
    launch 2 "$program" 64 "$rounds"
else
    echo "MPI and ScaLAPACK are left out: no MPI was found when this was built"
fi
