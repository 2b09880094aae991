#!/bin/sh
# Times of pdgemr2d in a program that knows nothing but ScaLAPACK, without and with libreshard-scalapack preloaded.
#
#   scalapack.sh BUILD [RANKS FROM TO [ROUNDS [SIZES [BLOCKS]]]]
#
#   scalapack.sh build 2 1x2 2x1 5 '2000 4000 8000' '32 64 128 256'
#
# Both take turns, three times; each is told by its fastest round.  Every element is compared with its global index.
set -eu
build=$1 ranks=${2:-2} from=${3:-1x2} to=${4:-2x1} rounds=${5:-5} sizes=${6:-2000 4000 8000 16000} blocks=${7:-32 64 128 256}
library=$(cd "$build" && pwd)/libreshard-scalapack.so
program=$build/tests/scalapack/change-grids-openmpi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for file in "$library" "$program"; do [ -e "$file" ] || { echo "scalapack.sh: there is no $file" >&2; exit 1; }; done

run() { mpirun.openmpi --oversubscribe -n "$ranks" "$@" "$program" "$n" "$nb" "$from" "$to" "$rounds"; }
least() { # least BEFORE "SECONDS VERDICT"
    case $2 in *right) ;; *) echo "scalapack.sh: wrong result: $2" >&2; exit 1 ;; esac
    awk -v a="$1" -v b="${2%% *}" 'BEGIN { print a == "" || b < a ? b : a }'
}

echo "N x N doubles, blocks of NB x NB, $from to $to on $ranks ranks; seconds of the fastest of $((3 * rounds)) calls"
printf '%6s %5s %12s %12s %7s\n' N NB ScaLAPACK reshard ratio
for n in $sizes; do
    for nb in $blocks; do
        theirs='' ours=''
        for turn in 1 2 3; do
            theirs=$(least "$theirs" "$(run)")
            ours=$(least "$ours" "$(run -x LD_PRELOAD="$library")")
        done
        printf '%6d %5d %12s %12s %7s\n' "$n" "$nb" "$theirs" "$ours" "$(awk -v a="$theirs" -v b="$ours" 'BEGIN { printf "%.2f", a / b }')"
    done
done
