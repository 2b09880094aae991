#!/bin/sh
# Symbols: checks that each shared library exports exactly the functions that its headers declare, that their names begin with rsh_, and that global
# names of the static library begin with rsh_ or rshi_.  libreshard-mpi has the functions of <reshard/mpi*.h>, libreshard-nn those of <reshard/nn.h> and
# <reshard/nn/*.h>, libreshard-scalapack those of <reshard/scalapack.h> and ScaLAPACK's own names, libreshard all others.
#
#   check_symbols.sh SHARED STATIC [ROOT [LIBRARY ...]]     LIBRARY: libreshard-mpi.so, libreshard-scalapack.so, libreshard-nn.so
set -eu
export LC_ALL=C
shared=$1 static=$2 root=${3:-.}
if [ $# -gt 3 ]; then shift 3; else set --; fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Prints defined symbols without their versions, and without the symbol of the version itself (type A).
defined() { nm --defined-only "$@" | awk 'NF == 3 && $2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u; }
# declared EXPRESSION...: prints the functions that are declared in the public headers that find(1) selects.
declared() {
    find "$root/include/reshard" -name '*.h' "$@" -exec cat {} + | tr '\n' ' ' | sed 's/;/;\n/g' | grep -o 'RSH_API [^;]*' |
        grep -o 'rsh_[a-z0-9_]*(' | tr -d '(' | sort -u
}

# compare LIBRARY: prints the differences between $scratch/exported and $scratch/declared.
compare() {
    grep -v '^rsh_' "$scratch/exported" | sed "s/^/exported by $1, but not rsh_*: /"
    comm -13 "$scratch/exported" "$scratch/declared" | sed "s/^/declared in a header, but not in $1: /"
    comm -23 "$scratch/exported" "$scratch/declared" | sed "s/^/exported by $1, but not declared in its headers: /"
}

{
    defined -g "$static" | grep -v '^rshi\{0,1\}_' | sed 's/^/global, but neither rsh_* nor rshi_*: /'
    defined -D "$shared" > "$scratch/exported"
    declared ! -name 'mpi*.h' ! -name scalapack.h ! -path '*/nn/*' ! -name nn.h > "$scratch/declared"
    compare libreshard
    for library; do
        name=$(basename "$library" .so)
        defined -D "$library" > "$scratch/exported"
        case $name in
            libreshard-mpi) declared -name 'mpi*.h' > "$scratch/declared" ;;
            libreshard-nn) declared '(' -path '*/nn/*' -o -name nn.h ')' > "$scratch/declared" ;;
        esac
        if [ "$name" = libreshard-scalapack ]; then
            declared -name scalapack.h > "$scratch/declared"
            names=$(grep -c -E '^C?p[sdczi](ge|tr)mr2d_?$|^p(stran|dtran|[cz]tran[uc])_$' "$scratch/exported")
            [ "$names" = 26 ] || echo "exported by $name: $names ScaLAPACK routines, expected 26"
            sed -i -E '/^C?p[sdczi](ge|tr)mr2d_?$|^p(stran|dtran|[cz]tran[uc])_$/d' "$scratch/exported"
        fi
        compare "$name"
    done
} > "$scratch/problems"
cat "$scratch/problems"
[ ! -s "$scratch/problems" ]
