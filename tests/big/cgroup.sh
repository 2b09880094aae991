#!/usr/bin/env bash
# Cgroup: a job that asks for more shared memory than its control group allows gets RSH_ENOMEM, and is not killed.
#
#   cgroup.sh PROGRAM         PROGRAM: the built big_cgroup
#
# Needs root and the memory controller, of version 1 or 2.  Groups are named after this process and are removed when it ends.
set -euo pipefail
program=$(realpath "$1")
skip() { echo "cgroup: skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "making control groups needs root"

if [ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
    version=1 top=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
elif grep -qs memory /sys/fs/cgroup/cgroup.controllers; then
    version=2 top=/sys/fs/cgroup limit=memory.max
else
    skip "there is no memory controller"
fi
outer=$top/reshard$$ inner=$top/reshard$$/job
clean() { rmdir "$inner" "$outer" 2> /dev/null || true; }
trap clean EXIT
mkdir "$outer" 2> /dev/null || skip "no control group can be made in $top"
if [ $version = 2 ]; then
    echo +memory > "$top/cgroup.subtree_control" 2> /dev/null || skip "$top does not pass its memory controller on"
    echo +memory > "$outer/cgroup.subtree_control"
fi
mkdir "$inner"

# in_group MIB RANKS: runs the program in the inner group and prints its output
in_group() { sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$inner" timeout 120 "$program" "$@"; }
expect() { # expect PATTERN MIB RANKS
    local said
    said=$(in_group "$2" "$3") || said="$said exit status $?"
    # shellcheck disable=SC2053
    [[ $said == $1 ]] || { echo "cgroup: $2 MiB on $3 ranks: $said"; exit 1; }
}
limit_to() { echo "$2" > "$1/$limit" && [ $version = 1 ] || echo 0 > "$1/memory.swap.max" 2> /dev/null || true; }

for group in "$inner" "$outer"; do # the group's own limit, then only its parent's
    limit_to "$group" 67108864
    for i in 1 2 3 4 5; do
        for ranks in 1 2 4 8; do
            expect "RSH_ENOMEM: *$group/$limit allows 67108864 bytes*" 200 $ranks
            expect "RSH_ENOMEM: *$group/$limit allows 67108864 bytes*" 80 $ranks
            expect done 32 $ranks
        done
    done
    limit_to "$group" $([ $version = 1 ] && echo -1 || echo max)
done
expect done 200 4
echo "cgroup: version $version: refused beyond the limit, and done within"
