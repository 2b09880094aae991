#!/bin/sh
# Peers: the same moves with MPI, ScaLAPACK, FFTW, PyTorch and reshard.  A library that is not installed is left out, and
# a line says so.
#
#   peers.sh PROGRAM [ROUNDS]      PROGRAM: path of the built bench/peers; ROUNDS: 25
#
# All but PyTorch alternate in one program; PyTorch runs right after it (in bench_torch it alternates with reshard).
set -eu
program=$1 rounds=${2:-25}
here=$(dirname "$0")
python=${RESHARD_PYTHON:-/usr/bin/python3}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

launcher=
for name in mpirun.openmpi mpirun; do
    if [ ! "$launcher" ] && command -v $name > /dev/null; then launcher=$name; fi
done
[ "$launcher" != mpirun.openmpi ] || launcher="$launcher --oversubscribe"

gloo() { # gloo N: a row like those of the program
    seconds=$("$python" "$here/gloo_reshard.py" "$1" "$1" "$rounds" | sed -n 's/.*"best_seconds": \([-+.0-9e]*\).*/\1/p')
    awk -v s="$seconds" -v n="$1" 'BEGIN { printf "%-34s %14.9f %9.2f\n", "PyTorch reshard, gloo", s, n * n * 4 / s / 1e9 }'
}

peers() { # peers N RANKS
    if [ -x "$program" ] && [ "$launcher" ]; then
        $launcher -n "$2" "$program" "$1" "$rounds"
    else
        echo "MPI, ScaLAPACK and the engine mpi are left out: there is no MPI"
    fi
}

for n in 8192 64; do
    peers $n 2
    if "$python" -c 'import torch' 2> /dev/null; then
        gloo $n
    else
        echo "PyTorch is left out: $python has no torch"
    fi
done
for ranks in 4 8 32; do peers 8192 $ranks; done
peers 64 4

pencils=$(dirname "$program")/pencils
for ranks in 2 4; do
    for n in 256 512; do
        if [ -x "$pencils" ] && [ "$launcher" ]; then $launcher -n $ranks "$pencils" $n; fi
    done
done
