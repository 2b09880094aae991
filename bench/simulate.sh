#!/usr/bin/env bash
# What `reshard simulate` predicts beside what is seen: the moves of table.sh on threads here, and over a link of 1 Gbit/s.
#
#   simulate.sh COMMAND [threads|hosts]       COMMAND: path of the built `reshard`; both
#
# On threads the machine is measured right before each move, since rates here drift.  The link joins two hosts that are network
# namespaces, with two ranks each; that needs root, ip, tc and Open MPI, and is left out where they are missing.
set -euo pipefail
command=$(realpath "$1")
part=${2:-both}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

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
    "$command" simulate "$1" "$2" --calibrate --json > "$scratch/simulated"
    "$command" bench "$1" "$2" --json > "$scratch/benched"
    row "$1" "$2" "$scratch/simulated" "$scratch/benched"
}

if [ "$part" != hosts ]; then
    heading "on threads"
    moves on_threads
fi

# ---- two hosts with a link of 1 Gbit/s ----

RATE=0.1178 # GB/s that TCP brings over 1 Gbit/s, each way: 1448 of 1538 bytes on the wire
LATENCY=200 # us

skip() { echo "simulate: the link is left out: $1"; exit 0; }
[ "$part" != threads ] || exit 0
[ "$(id -u)" = 0 ] || skip "making network namespaces needs root"
for tool in ip tc unshare mpirun.openmpi; do command -v $tool > /dev/null || skip "there is no $tool"; done
"$command" doctor | grep -q "^engines.*mpi" || skip "the command was built without MPI"
host=("rsm$$a" "rsm$$b")
ip netns add "${host[0]}" 2> "$scratch/why" || skip "ip netns add: $(cat "$scratch/why")"
clean() { # whatever runs in the namespaces was started here
    local name pid
    for name in "${host[@]}"; do
        for pid in $(ip netns pids "$name" 2> /dev/null); do kill -9 "$pid" 2> /dev/null || true; done
        ip netns del "$name" 2> /dev/null || true
    done
    rm -rf "$scratch"
}
trap clean EXIT
trap 'exit 130' INT TERM
ip netns add "${host[1]}"
ip link add "w$$a" type veth peer name "w$$b"
link=("w$$a" "w$$b")
for i in 0 1; do
    ip link set "${link[i]}" netns "${host[i]}"
    ip -n "${host[i]}" link set "${link[i]}" name eth0
    ip -n "${host[i]}" address add "10.231.78.$((i + 1))/24" dev eth0
    ip -n "${host[i]}" link set eth0 up
    ip -n "${host[i]}" link set lo up
    ip netns exec "${host[i]}" tc qdisc add dev eth0 root tbf rate 1gbit burst 256kb latency 50ms 2> "$scratch/why" ||
        skip "tc: $(cat "$scratch/why")"
done
cat > "$scratch/agent" << AGENT
#!/bin/sh
shift
exec ip netns exec ${host[1]} unshare --uts sh -c "hostname ${host[1]}; \$*"
AGENT
chmod +x "$scratch/agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

smaller() { echo "$1" | sed 's/8192/2048/g; s/8191/2047/; s/8193/2049/; s/2048\(.*1024\)/128\1/'; }
on_hosts() { # half of the ranks on each host, on a sixteenth of the elements
    local n=${1##*x=} half from to
    n=${n%%[!0-9]*}
    half=$((n / 2))
    from=$(smaller "$1") to=$(smaller "$2")
    printf '10.231.78.1 slots=%s\n10.231.78.2 slots=%s\n' $half $half > "$scratch/hosts"
    "$command" simulate "$from" "$to" --machine "$scratch/machine" --nic $RATE --latency $LATENCY --ranks-per-node $half --json > "$scratch/simulated"
    timeout -k 5 120 ip netns exec "${host[0]}" unshare --uts sh -c "hostname ${host[0]}; exec \"\$@\"" - \
        mpirun.openmpi --hostfile "$scratch/hosts" -n "$n" --map-by slot --bind-to none \
        --mca plm rsh --mca plm_rsh_agent "$scratch/agent" --mca btl tcp,self --mca pml ob1 \
        --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --mca orte_tmpdir_base "$scratch" \
        "$command" bench "$from" "$to" --engine mpi --repeat 3 --json > "$scratch/benched" < /dev/null
    row "$from" "$to" "$scratch/simulated" "$scratch/benched"
}

"$command" simulate --calibrate --json > "$scratch/machine"
heading "two hosts, 1 Gbit/s"
moves on_hosts
