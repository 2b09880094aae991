#!/bin/sh
# Fortran examples: reshard.f03 is Fortran 2003, the sizes that it assumes are right, and the examples run.
#
#   fortran_examples.sh BUILD CC FC [MPIFC LAUNCHER...]      MPIFC: an MPI's Fortran wrapper; without it only the local example runs
set -eu
build=$1 cc=$2 fc=$3 mpifc=${4:-}
[ $# -lt 4 ] || shift 4
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
flags="-Ifortran -J$scratch -Wall -Werror -O1"
libraries="-L$build -Wl,-rpath,$build"

CC=$cc python3 tools/fortran.py asserts > "$scratch/asserts.c"
$cc -std=c11 -Iinclude -fsyntax-only "$scratch/asserts.c"
printf "program p\nuse, intrinsic :: iso_c_binding\nimplicit none\ninclude 'reshard.f03'\nend program\n" > "$scratch/included.f90"
$fc $flags -std=f2003 -c "$scratch/included.f90" -o "$scratch/included.o"

$fc $flags -std=f2018 fortran/reshard_module.f90 examples/fortran/checkpoint.f90 -o "$scratch/checkpoint" $libraries -lreshard
said=$("$scratch/checkpoint" "$scratch/matrix.ckpt")
[ "$said" = 'saved and loaded "matrix": 48000 bytes' ] || { echo "checkpoint says: $said"; exit 1; }
if said=$("$scratch/checkpoint" "$scratch/matrix.ckpt" 2>&1); then echo "an error did not stop the program"; exit 1; fi
case $said in *"reshard: invalid value: "*matrix.ckpt*) ;; *) echo "no message on an error: $said"; exit 1 ;; esac

[ "$mpifc" ] || exit 0
$mpifc $flags -std=f2018 fortran/reshard_module.f90 examples/fortran/pencils.f90 -o "$scratch/pencils" $libraries -lreshard-mpi -lreshard
for n in 2 3; do
    said=$("$@" -n $n "$scratch/pencils")
    [ "$said" = 'x-pencils became y-pencils and came back' ] || { echo "pencils on $n ranks says: $said"; exit 1; }
done
