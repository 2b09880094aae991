#!/bin/sh
# Other MPI: a process whose MPI has no engine, or that was compiled for another MPI, gets a message and no crash.
#
#   other_mpi.sh PROGRAM BUILD OWN OTHER       OWN, OTHER: openmpi or mpich; engines are there for OWN, and if not "" for OTHER
set -eu
program=$1 build=$2 own=$3 other=$4
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

says() { # says VERSION FAMILY EXPECTED
    said=$("$program" "$1" "$2") || { echo "$1 for $2: failed, saying $said"; exit 1; }
    case $said in *"$3"*) ;; *) echo "$1 for $2: expected \"$3\", got: $said"; exit 1 ;; esac
}
version() { if [ "$1" = openmpi ]; then echo "Open MPI v4.1.4"; else echo "MPICH Version: 4.0.2"; fi; }

says "$(version "$own")" "$own" "RSH_ERUNTIME: MPI is not running"
says "Fancy MPI 1.0, in colour" "$own" 'RSH_EUNSUP: no engine for the MPI of this process: expected Open MPI, MPICH or an MPI with MPICH'"'"'s ABI, got "Fancy MPI 1.0"'
if [ "$other" ]; then
    says "$(version "$other")" "$own" "RSH_EUNSUP: this program was compiled for $own, but its MPI calls go to $(version "$other")"
fi

# An installation without engines.
cmake --install "$build" --prefix "$scratch" > /dev/null
lib=$(dirname "$(find "$scratch" -name libreshard-mpi.so)")
rm "$lib"/libreshard-mpi-*
LD_LIBRARY_PATH=$lib
export LD_LIBRARY_PATH
says "$(version "$own")" "$own" "RSH_EUNSUP: no engine for the MPI of this process: it is $(version "$own"), and libreshard-mpi-$own.so."
