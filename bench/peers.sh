#!/bin/sh
# Peers: the same moves by MPI, ScaLAPACK, PyTorch and us.  What is not installed is left out, and said so.
#
#   peers.sh PROGRAM [ROUNDS]      PROGRAM: path of the built bench/peers; ROUNDS: 25
set -eu
program=$1 rounds=${2:-25}
here=$(dirname "$0")
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

python=/usr/bin/python3
if ! [ -e "$here/gloo_reshard.py" ]; then
    echo "PyTorch is left out: there is no $here/gloo_reshard.py"
elif ! $python -c 'import torch' 2> /dev/null; then
    echo "PyTorch is left out: $python has no torch"
else
    $python "$here/gloo_reshard.py"
fi
