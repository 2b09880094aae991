#!/usr/bin/env bash
# Engines: for random pairs of layouts, including sums, `apply` on threads, shm and mpi gives the same bytes as one caller.
#
#   apply_engines.sh COMMAND PAIRS [COUNT [RANKS]]     COMMAND: the built reshard; PAIRS: the built big_pairs; COUNT: 200; RANKS: at most 6
#
# RESHARD_SEED sets the seed; NO_MPI=1 omits mpi.  Ranks of mpi are in turn on one node, on two nodes, and each on its own node.
set -euo pipefail
command=$(realpath "$1") pairs=$(realpath "$2") count=${3:-200} ranks=${4:-6}
here=$(cd "$(dirname "$0")" && pwd)
seed=${RESHARD_SEED:-20261116} # as in tests/seed.h
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 RESHARD_TIMEOUT=${RESHARD_TIMEOUT:-60}
cd "$scratch"

mpi=
if [ "${NO_MPI:-}" ]; then :
elif ! command -v mpirun.openmpi > /dev/null; then echo "engines: mpi is left out: there is no mpirun.openmpi"
elif ! mpirun.openmpi --stdin none --oversubscribe -n 1 "$command" apply --engine mpi 'u8[0]' 'u8[0]' < /dev/null > /dev/null 2> why; then
    echo "engines: mpi is left out: $(grep reshard: why || head -n 1 why)"
else mpi=yes
fi

echo "engines: $count pairs, RESHARD_SEED=$seed"
"$pairs" "$count" "$seed" "$ranks" > list
number=0 bad=0
while IFS=$'\t' read -r group bytes from to <&3; do
    number=$((number + 1))
    "$pairs" parts "$from" $((seed + number)) > in
    [ "$(wc -c < in)" = "$bytes" ] || { echo "engines: pair $number: the oracle and the library disagree on its size"; exit 1; }
    engines="threads shm" nodes=1
    timeout 60 "$command" apply "$from" "$to" < in > local
    timeout 60 "$command" apply --engine threads "$from" "$to" < in > threads || echo "threads failed" >> threads
    timeout 60 "$command" apply --engine shm "$from" "$to" < in > shm || echo "shm failed" >> shm
    if [ $mpi ]; then
        engines="threads shm mpi"
        case $((number % 3)) in 0) nodes=1 ;; 1) nodes=2 ;; *) nodes=$group ;; esac
        # Rank 0 opens the file itself: Open MPI 4.1's mpirun sometimes crashes when it forwards its standard input.
        INPUT=in timeout 60 mpirun.openmpi --stdin none --oversubscribe --bind-to none -n "$group" sh "$here/noded.sh" "$nodes" \
            "$command" apply --engine mpi "$from" "$to" < /dev/null > mpi || echo "mpi failed" >> mpi
    fi
    for engine in $engines; do
        cmp local $engine && continue
        echo "engines: pair $number on $engine${mpi:+, $nodes nodes}: $from  to  $to"
        bad=$((bad + 1))
    done
done 3< list
echo "engines: $number pairs, $bad differ"
[ $bad = 0 ]
