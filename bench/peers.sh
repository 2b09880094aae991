#!/bin/sh
# Peers: the same moves by MPI, ScaLAPACK, PyTorch and us.  What is not installed is left out, and said so.
#
#   peers.sh PROGRAM [ROUNDS]      PROGRAM: path of the built bench/peers; ROUNDS: 25
#
# All but PyTorch take turns in one program; PyTorch runs right after it (bench_torch lets it and us take turns).
# With RESHARD_BENCH_ROWS=FILE the rows are also added to that file, one JSON object a line, for plot.py.
set -eu
program=$1 rounds=${2:-25}
here=$(dirname "$0")
python=${RESHARD_PYTHON:-/usr/bin/python3}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# Prints its input; rows of a name (34 letters) and seconds become JSON as well.  $1: elements of a side; $2: ranks
keep() {
    awk -v n="$1" -v ranks="$2" -v rows="${RESHARD_BENCH_ROWS:-/dev/null}" '{ print }
        length($0) > 34 && substr($0, 35) ~ /^ +[0-9.]+ +[0-9.]+/ {
            name = substr($0, 1, 34); sub(/ +$/, "", name); split(substr($0, 35), v, " ")
            printf "{\"table\": \"f32 %d x %d, %d ranks, rows to columns\", \"name\": \"%s\", \"seconds\": %s}\n", n, n, ranks, name, v[1] >> rows }'
}

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
        $launcher -n "$2" "$program" "$1" "$rounds" | keep "$1" "$2"
    else
        echo "MPI, ScaLAPACK and the engine mpi are left out: there is no MPI"
    fi
}

for n in 8192 64; do
    peers $n 2
    if "$python" -c 'import torch' 2> /dev/null; then
        gloo $n | keep $n 2
    else
        echo "PyTorch is left out: $python has no torch"
    fi
done
for ranks in 4 8 32; do peers 8192 $ranks; done
peers 64 4
