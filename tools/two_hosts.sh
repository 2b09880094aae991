# Two hosts: simulates two hosts on this machine by network namespaces with a link between them, and runs ranks of Open MPI on
# both.  Bash scripts source this file, define `skip REASON`, which exits, and call
#
#   hosts_make                                    needs root, ip, unshare and Open MPI
#   hosts_limit, hosts_unlimit                    limit the link to 1 Gbit/s in each direction, and remove the limit; needs tc
#   hosts_run SECONDS RANKS PROGRAM ARGUMENTS...  runs half of the ranks on each host, with the environment variables in VARIABLES
#   hosts_end_ranks                               kills all processes in the namespaces, which were all started here
#
# $scratch is a directory; ${host[0]} and ${host[1]} are the names of the namespaces, which contain the process id; eth0 is
# the link.  All of them are removed when the script exits.
HOSTS_GB=0.1178 # payload of TCP over 1 Gbit/s in each direction, in GB/s: 1448 of 1538 bytes
VARIABLES=()
scratch=$(mktemp -d)
host=("rsh$$a" "rsh$$b")

hosts_end_ranks() {
    local pid name
    for name in "${host[@]}"; do
        for pid in $(ip netns pids "$name" 2> /dev/null); do kill -9 "$pid" 2> /dev/null || true; done
    done
}

hosts_clean() {
    local name
    if command -v ip > /dev/null; then
        hosts_end_ranks
        for name in "${host[@]}"; do ip netns del "$name" 2> /dev/null || true; done
    fi
    rm -rf "$scratch"
}
trap hosts_clean EXIT
trap 'exit 130' INT TERM

hosts_make() {
    local tool i link=("v$$a" "v$$b")
    [ "$(id -u)" = 0 ] || skip "network namespaces need root"
    for tool in ip tc unshare mpirun.openmpi; do command -v $tool > /dev/null || skip "$tool not found"; done
    ip netns add "${host[0]}" 2> "$scratch/why" || skip "ip netns add: $(cat "$scratch/why")"
    ip netns add "${host[1]}"
    ip link add "${link[0]}" type veth peer name "${link[1]}"
    for i in 0 1; do
        ip link set "${link[i]}" netns "${host[i]}"
        ip -n "${host[i]}" link set "${link[i]}" name eth0
        ip -n "${host[i]}" address add "10.231.77.$((i + 1))/24" dev eth0
        ip -n "${host[i]}" link set eth0 up
        ip -n "${host[i]}" link set lo up
    done
    # The remote shell of Open MPI, which starts its daemon on the other host; arguments: HOST COMMAND...
    cat > "$scratch/agent" << AGENT
#!/bin/sh
shift
exec ip netns exec ${host[1]} unshare --uts sh -c "hostname ${host[1]}; \$*"
AGENT
    chmod +x "$scratch/agent"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

hosts_limit() {
    local i
    for i in 0 1; do
        ip netns exec "${host[i]}" tc qdisc add dev eth0 root tbf rate 1gbit burst 256kb latency 50ms 2> "$scratch/why" ||
            skip "tc: $(cat "$scratch/why")"
    done
}
hosts_unlimit() {
    local i
    for i in 0 1; do ip netns exec "${host[i]}" tc qdisc del dev eth0 root; done
}

hosts_run() {
    local seconds=$1 ranks=$2 name pass=()
    shift 2
    for name in "${VARIABLES[@]}"; do pass+=(-x "$name"); done
    printf '10.231.77.1 slots=%s\n10.231.77.2 slots=%s\n' $((ranks / 2)) $((ranks / 2)) > "$scratch/hosts"
    timeout -k 5 "$seconds" ip netns exec "${host[0]}" unshare --uts sh -c "hostname ${host[0]}; exec \"\$@\"" - \
        mpirun.openmpi --hostfile "$scratch/hosts" -n "$ranks" --map-by slot --bind-to none "${pass[@]}" \
        --mca plm rsh --mca plm_rsh_agent "$scratch/agent" --mca btl tcp,self --mca pml ob1 \
        --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --mca orte_tmpdir_base "$scratch" "$@" < /dev/null
}
