#!/bin/sh
# Preload: a program that knows nothing but ScaLAPACK gets libreshard-scalapack by LD_PRELOAD, and can be told not to.
#
#   preload.sh LIBRARY PROGRAM LAUNCHER...       PROGRAM: bench/scalapack/change_grids
set -eu
library=$1 program=$2
shift 2
run() { "$@" env LD_PRELOAD="$library" RESHARD_SCALAPACK="$setting" "$program" 150 16 1x2 2x1 2 2>&1; }

setting=verbose
said=$(run "$@" -n 2)
case $said in *right*) ;; *) echo "wrong with the library: $said"; exit 1 ;; esac
[ "$(printf '%s\n' "$said" | grep -c 'pdgemr2d_: moved by reshard')" = 4 ] || { echo "expected 4 moved calls, got: $said"; exit 1; }
setting=off
said=$(run "$@" -n 2)
case $said in *right*) ;; *) echo "wrong with RESHARD_SCALAPACK=off: $said"; exit 1 ;; esac
setting=sideways
said=$(run "$@" -n 2 || true)
case $said in *'RESHARD_SCALAPACK must be on, off or verbose, got "sideways"'*) ;; *) echo "no word on a wrong setting: $said"; exit 1 ;; esac
