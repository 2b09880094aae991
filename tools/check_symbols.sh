#!/bin/sh
# Symbols: the shared library exports what the headers declare, all of it and nothing else, and all of that is rsh_*;
# the static library's global names begin with rsh_ or rshi_.  What <reshard/mpi.h> declares is in a library of its own.
#
#   check_symbols.sh SHARED STATIC [ROOT]
set -eu
export LC_ALL=C
shared=$1 static=$2 root=${3:-.}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

defined() { nm --defined-only "$@" | awk 'NF == 3 { print $3 }' | sort -u; }

defined -D "$shared" > "$scratch/exported"
defined -g "$static" > "$scratch/global"
find "$root/include/reshard" -name '*.h' ! -name mpi.h -exec cat {} + | grep '^RSH_API ' | grep -o 'rsh_[a-z0-9_]*(' | tr -d '(' | sort -u > "$scratch/declared"

cd "$scratch"
{
    grep -v '^rsh_' exported | sed 's/^/exported, but not rsh_*: /'
    grep -v '^rshi\{0,1\}_' global | sed 's/^/global, but neither rsh_* nor rshi_*: /'
    comm -13 exported declared | sed 's/^/declared in a header, but not in the library: /'
    comm -23 exported declared | sed 's/^/exported, but in no header: /'
} > problems
cat problems
[ ! -s problems ]
