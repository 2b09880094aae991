#!/bin/sh
# Symbols: a shared library exports what its headers declare, all of it and nothing else, and all of that is rsh_*; the static library's global names begin
# with rsh_ or rshi_.  What <reshard/mpi*.h> declare is in libreshard-mpi, everything else in libreshard.
#
#   check_symbols.sh SHARED STATIC [ROOT [MPI]]
set -eu
export LC_ALL=C
shared=$1 static=$2 root=${3:-.} mpi=${4:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

defined() { nm --defined-only "$@" | awk 'NF == 3 { print $3 }' | sort -u; }
# declared EXPRESSION...: functions in the public headers that find(1) selects by it.
declared() {
    find "$root/include/reshard" -name '*.h' "$@" -exec cat {} + | tr '\n' ' ' | sed 's/;/;\n/g' | grep -o 'RSH_API [^;]*' |
        grep -o 'rsh_[a-z0-9_]*(' | tr -d '(' | sort -u
}

# compare LIBRARY: problems between $scratch/exported and $scratch/declared.
compare() {
    grep -v '^rsh_' "$scratch/exported" | sed "s/^/exported by $1, but not rsh_*: /"
    comm -13 "$scratch/exported" "$scratch/declared" | sed "s/^/declared in a header, but not in $1: /"
    comm -23 "$scratch/exported" "$scratch/declared" | sed "s/^/exported by $1, but in no header of it: /"
}

{
    defined -g "$static" | grep -v '^rshi\{0,1\}_' | sed 's/^/global, but neither rsh_* nor rshi_*: /'
    defined -D "$shared" > "$scratch/exported"
    declared ! -name 'mpi*.h' > "$scratch/declared"
    compare libreshard
    if [ -n "$mpi" ]; then
        defined -D "$mpi" > "$scratch/exported"
        declared -name 'mpi*.h' > "$scratch/declared"
        compare libreshard-mpi
    fi
} > "$scratch/problems"
cat "$scratch/problems"
[ ! -s "$scratch/problems" ]
