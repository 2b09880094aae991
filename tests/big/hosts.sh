#!/usr/bin/env bash
# Hosts: two hosts on this machine, each a network namespace with two ranks, and real TCP between them.
#
#   hosts.sh PROGRAM         PROGRAM: the built big_hosts
#
#   moves   results are right, and what travels is what the plan says
#   stream  over a link of 1 Gbit/s: at least 0.9 of the rate of plain MPI messages of the same bytes
#   cut     the link goes down in the middle: every rank gets an error within seconds
#
# Needs root, ip, tc and Open MPI.  Namespaces are named after this process; they and all that runs in them go with it.
set -euo pipefail
program=$(realpath "$1")
skip() { echo "hosts: skipped: $1"; exit 0; }
[ "$(id -u)" = 0 ] || skip "making network namespaces needs root"
for tool in ip tc unshare mpirun.openmpi; do command -v $tool > /dev/null || skip "there is no $tool"; done

host=("rsh$$a" "rsh$$b")
address=(10.231.77.1 10.231.77.2)
scratch=$(mktemp -d)
ip netns add "${host[0]}" 2> "$scratch/why" || { why=$(cat "$scratch/why"); rm -rf "$scratch"; skip "ip netns add: $why"; }

end_ranks() { # whatever runs in the namespaces was started here
    local pid name
    for name in "${host[@]}"; do
        for pid in $(ip netns pids "$name" 2> /dev/null); do kill -9 "$pid" 2> /dev/null || true; done
    done
}
clean() {
    end_ranks
    for name in "${host[@]}"; do ip netns del "$name" 2> /dev/null || true; done
    rm -rf "$scratch"
}
trap clean EXIT
trap 'exit 130' INT TERM

# ---- the network ----

ip netns add "${host[1]}"
ip link add "v$$a" type veth peer name "v$$b"
link=("v$$a" "v$$b")
for i in 0 1; do
    ip link set "${link[i]}" netns "${host[i]}"
    ip -n "${host[i]}" link set "${link[i]}" name eth0
    ip -n "${host[i]}" address add "${address[i]}/24" dev eth0
    ip -n "${host[i]}" link set eth0 up
    ip -n "${host[i]}" link set lo up
    echo "${address[i]} slots=2" >> "$scratch/hosts"
done

# What Open MPI starts its daemon on the other host with: HOST COMMAND...
cat > "$scratch/agent" << AGENT
#!/bin/sh
shift
exec ip netns exec ${host[1]} unshare --uts sh -c "hostname ${host[1]}; \$*"
AGENT
chmod +x "$scratch/agent"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 RESHARD_TIMEOUT=${RESHARD_TIMEOUT:-60}
launch() { # launch SECONDS ARGUMENTS...: the program on all four ranks
    local seconds=$1
    shift
    timeout -k 5 "$seconds" ip netns exec "${host[0]}" unshare --uts sh -c "hostname ${host[0]}; exec \"\$@\"" - \
        mpirun.openmpi --hostfile "$scratch/hosts" -n 4 --map-by slot --bind-to none -x RESHARD_TIMEOUT \
        --mca plm rsh --mca plm_rsh_agent "$scratch/agent" --mca btl tcp,self --mca pml ob1 \
        --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --mca orte_tmpdir_base "$scratch" "$program" "$@" < /dev/null
}

# ---- sections ----

moves() { launch 120 moves; }

stream() {
    for i in 0 1; do
        ip netns exec "${host[i]}" tc qdisc add dev eth0 root tbf rate 1gbit burst 256kb latency 50ms 2> "$scratch/why" ||
            { echo "hosts: stream skipped: tc: $(cat "$scratch/why")"; return 0; }
    done
    launch 180 stream
    for i in 0 1; do ip netns exec "${host[i]}" tc qdisc del dev eth0 root; done
}

cut() {
    local pid began
    mkdir "$scratch/verdicts"
    RESHARD_TIMEOUT=3 launch 60 cut "$scratch/verdicts" > "$scratch/log" 2>&1 &
    pid=$!
    began=$SECONDS
    while [ "$(find "$scratch/verdicts" -name 'ready*' | wc -l)" -lt 4 ] && [ $((SECONDS - began)) -lt 30 ]; do sleep 0.1; done
    sleep 1
    ip -n "${host[0]}" link set eth0 down
    began=$SECONDS
    while [ "$(find "$scratch/verdicts" -name 'rank*' | wc -l)" -lt 4 ] && [ $((SECONDS - began)) -lt 20 ]; do sleep 0.1; done
    cat "$scratch"/verdicts/rank* 2> /dev/null || true
    end_ranks
    wait $pid || true
    if [ "$(grep -l 'RSH_EPEER\|RSH_ETIMEOUT' "$scratch"/verdicts/rank* 2> /dev/null | wc -l)" != 4 ]; then
        echo "hosts: cut: not every rank got RSH_EPEER or RSH_ETIMEOUT within 20 s"
        cat "$scratch/log"
        return 1
    fi
}

for section in ${2:-moves stream cut}; do
    echo "hosts: $section"
    $section
done
