#!/bin/sh
# Abi: compares the shared libraries with the baselines in packaging/abi, by abidiff (Debian package abigail-tools).
#
#   tools/abi.sh check FOLDER    fails if a function or variable was removed, or a public type changed; new ones are allowed
#   tools/abi.sh update FOLDER   writes the baselines
#
# FOLDER has the libraries with debug information (CMAKE_BUILD_TYPE=RelWithDebInfo).  A baseline is what abidw says of a
# library, without what the public headers do not show.  A release that changes its ABI has another minor version.
set -eu
command=${1:-}
folder=${2:-}
root=$(cd "$(dirname "$0")/.." && pwd)
baselines=$root/packaging/abi
case $command in
    check | update) [ -d "$folder" ] || { echo "abi: $folder is not a folder" >&2; exit 2; } ;;
    *) echo "usage: tools/abi.sh check|update FOLDER" >&2; exit 2 ;;
esac
for tool in abidw abidiff; do
    command -v $tool > /dev/null || { echo "abi: skipped: $tool not found; install abigail-tools"; exit 77; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

describe() { # describe LIBRARY FILE
    abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-parameter-names --no-write-default-sizes --drop-private-types \
        --drop-undefined-syms --type-id-style hash --headers-dir "$root/include" --out-file "$2" "$1"
}

# Structs that the public headers declare and do not define may change, and so may what only the library knows.
headers() { find "$root/include" -name '*.h' -exec cat {} +; }
headers | sed -nE 's/^typedef struct (rsh_[a-z_]+) rsh_[a-z_]+;.*/\1/p' | sort -u > "$scratch/declared"
headers | sed -nE 's/^(typedef )?struct (rsh_[a-z_]+) \{.*/\2/p' | sort -u > "$scratch/defined"
printf '[suppress_type]\n  name_regexp = ^(%s|rsh[ins]_.*)$\n' "$(comm -23 "$scratch/declared" "$scratch/defined" | paste -s -d '|' -)" > "$scratch/opaque"

status=0
for name in reshard reshard-mpi reshard-nn reshard-scalapack; do
    library=$folder/lib$name.so
    new=$scratch/$name.abi
    old=$scratch/$name.old.abi
    [ -e "$library" ] || { echo "abi: $library is missing: build it with -DRESHARD_MPI=ON -DRESHARD_NN=ON" >&2; exit 1; }
    describe "$library" "$new"
    grep -q '<function-decl' "$new" || { echo "abi: $library has no debug information: set CMAKE_BUILD_TYPE=RelWithDebInfo" >&2; exit 1; }
    if [ "$command" = update ]; then
        mkdir -p "$baselines"
        xz -9 -c "$new" > "$baselines/$name.abi.xz"
    else
        xz -dc "$baselines/$name.abi.xz" > "$old"
        if abidiff --no-added-syms --suppressions "$scratch/opaque" "$old" "$new"; then
            echo "lib$name: the ABI is that of the baseline"
        else
            status=1
        fi
    fi
done
[ $status = 0 ] || echo "abi: the ABI has changed: raise the minor version, or undo it.  If only structs with struct_size have grown at their end, or" \
    "the version is not released yet, run tools/abi.sh update FOLDER" >&2
exit $status
