#!/bin/sh
# Times of pdgemr2d in a program that uses ScaLAPACK only, without and with libreshard-scalapack preloaded.
#
#   scalapack.sh BUILD [RANKS FROM TO [ROUNDS [SIZES [BLOCKS]]]]
#
#   scalapack.sh build 2 1x2 2x1 5 '2000 4000 8000' '32 64 128 256'
#
# The two alternate, three times.  For each, the shortest time of a round is printed, and the least CPU time that all
# ranks together needed for a round.  Every element is compared with its global index.
set -eu
build=$1 ranks=${2:-2} from=${3:-1x2} to=${4:-2x1} rounds=${5:-5} sizes=${6:-2000 4000 8000 16000} blocks=${7:-32 64 128 256}
library=$(cd "$build" && pwd)/libreshard-scalapack.so
program=$build/tests/scalapack/change-grids-openmpi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for file in "$library" "$program"; do [ -e "$file" ] || { echo "scalapack.sh: $file does not exist; build it first (it needs Open MPI and ScaLAPACK)" >&2; exit 1; }; done

run() { mpirun.openmpi --oversubscribe -n "$ranks" "$@" "$program" "$n" "$nb" "$from" "$to" "$rounds"; }
least() { # least "WALL CPU" "WALL CPU VERDICT": the smaller of the two, for each
    case $2 in *right) ;; *) echo "scalapack.sh: wrong result: $2" >&2; exit 1 ;; esac
    echo "$1 $2" | awk '{ if (NF == 3) print $1, $2; else print ($3 < $1 ? $3 : $1), ($4 < $2 ? $4 : $2) }'
}

echo "N x N doubles, blocks of NB x NB, $from to $to on $ranks ranks; seconds of the best of $((3 * rounds)) calls"
printf '%6s %5s | %10s %10s %6s | %10s %10s %6s\n' N NB ScaLAPACK reshard ratio 'CPU: Sca' reshard ratio
for n in $sizes; do
    for nb in $blocks; do
        theirs='' ours=''
        for turn in 1 2 3; do
            theirs=$(least "$theirs" "$(run)")
            ours=$(least "$ours" "$(run -x LD_PRELOAD="$library")")
        done
        echo "$n $nb $theirs $ours" |
            awk '{ printf "%6d %5d | %10.4f %10.4f %6.2f | %10.4f %10.4f %6.2f\n", $1, $2, $3, $5, $3 / $5, $4, $6, $4 / $6 }'
    done
done
