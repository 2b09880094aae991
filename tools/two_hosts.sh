# Two hosts on this machine: network namespaces that a link joins, with ranks of Open MPI on both.  For scripts of bash that
# source this; they define `skip REASON`, which ends them, and call
#
#   hosts_make                                    needs root, ip, unshare and Open MPI
#   hosts_limit, hosts_unlimit                    the link to 1 Gbit/s each way, and back; needs tc
#   hosts_run SECONDS RANKS PROGRAM ARGUMENTS...  half of the ranks on each host; VARIABLES are passed on to them
#   hosts_end_ranks                               ends what runs in the namespaces: all of it was started here
#
# $scratch is a folder, ${host[0]} and ${host[1]} are the namespaces, named after this process; in each eth0 is the link.
# All of it goes when the script ends.
HOSTS_GB=0.1178 # GB/s that TCP brings over 1 Gbit/s, each way: 1448 of 1538 bytes on the wire
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
    [ "$(id -u)" = 0 ] || skip "making network namespaces needs root"
    for tool in ip tc unshare mpirun.openmpi; do command -v $tool > /dev/null || skip "there is no $tool"; done
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
    # what Open MPI starts its daemon on the other host with: HOST COMMAND...
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
