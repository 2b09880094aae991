#!/usr/bin/env bash
# Compares what `reshard simulate` predicts with measurements: the moves of table.sh on threads, and over a link of 1 Gbit/s.
#
#   simulate.sh COMMAND [threads|hosts]       COMMAND: path of the built `reshard`; both
#
# On threads the machine is calibrated right before each move.  Rates drift, so each move is measured three times and the median
# ratio is shown.  The link connects two network namespaces that act as hosts, with two ranks each; this needs root, ip, tc and Open MPI,
# and is left out if one of them is missing.
set -euo pipefail
command=$(realpath "$1")
part=${2:-both}
skip() { echo "simulate: the link is left out: $1"; exit 0; }
. "$(dirname "$0")/../tools/two_hosts.sh"

value() { sed -n "s/^ *\"$1\": \\([^,]*\\),*\$/\\1/p" "$2"; }
heading() { printf '%-38s %-42s %12s %12s %9s\n' "$1" "" "predicted, s" "seen, s" ratio; }
row() { # row FROM TO SIMULATED BENCHED: files with the answers
    awk -v from="$1" -v to="$2" -v a="$(value seconds "$3")" -v b="$(value seconds "$4")" -v limit="$(value limit "$3")" \
        'BEGIN { printf "%-38s %-42s %12.6f %12.6f %9.2f  %s\n", from, to, a, b, a / b, limit }'
}

moves() { # moves FUNCTION: called with FROM and TO of each
    "$1" 'f32[8192/x, 8192] on x=2' 'f32[8192, 8192/x] on x=2'
    "$1" 'f32[8192/x, 8192] on x=8' 'f32[8192, 8192/x] on x=8'
    "$1" 'f32[8192/x, 8192] on x=4' 'f32[8192/x, 8192] on x=4@[1,2,3,0]'
    "$1" 'f32[8192, 8192/x:128] on x=4' 'f32[8192/x:96, 8192] on x=4'
    "$1" 'bf16[64, 2048/x, 1024] on x=4' 'bf16[64/x, 2048, 1024] on x=4'
    "$1" 'f32[8192/x, 8192] on x=4' 'f32[8192, 8192] on x=4'
    "$1" 'f32[8191/x, 8193] on x=4' 'f32[8191, 8193/x~] on x=4'
    "$1" 'u8[8192, 8192/x:64] on x=4' 'u8[8192/x, 8192] on x=4'
    "$1" 'f32[8192/x, 8192] on x=2' 'f32[8192, 8192/x] on x=2 order(1,0)'
    "$1" 'f32[8192, 8192] on x=4 sum(x)' 'f32[8192/x, 8192] on x=4'
}

# ---- threads ----

on_threads() {
    for _ in 1 2 3; do
        "$command" simulate "$1" "$2" --calibrate --json > "$scratch/simulated"
        "$command" bench "$1" "$2" --json > "$scratch/benched"
        row "$1" "$2" "$scratch/simulated" "$scratch/benched"
    done | awk '{ print $(NF - 1) "\t" $0 }' | sort -n | sed -n 2p | cut -f 2-
}

if [ "$part" != hosts ]; then
    heading "on threads"
    moves on_threads
fi

# ---- two hosts with a link of 1 Gbit/s ----

LATENCY=200 # us

[ "$part" != threads ] || exit 0
"$command" doctor | grep -q "^engines.*mpi" || skip "the command was built without MPI"
hosts_make
hosts_limit

smaller() { echo "$1" | sed 's/8192/2048/g; s/8191/2047/; s/8193/2049/; s/2048\(.*1024\)/128\1/'; }
on_hosts() { # half of the ranks on each host, on a sixteenth of the elements
    local n=${1##*x=} half from to
    n=${n%%[!0-9]*}
    half=$((n / 2))
    from=$(smaller "$1") to=$(smaller "$2")
    "$command" simulate "$from" "$to" --machine "$scratch/machine" --nic $HOSTS_GB --latency $LATENCY --ranks-per-node $half --json > "$scratch/simulated"
    hosts_run 120 "$n" "$command" bench "$from" "$to" --engine mpi --repeat 3 --json > "$scratch/benched"
    row "$from" "$to" "$scratch/simulated" "$scratch/benched"
}

"$command" simulate --calibrate --json > "$scratch/machine"
heading "two hosts, 1 Gbit/s"
moves on_hosts
