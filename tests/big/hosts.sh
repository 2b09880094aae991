#!/usr/bin/env bash
# Hosts: tests two hosts, which are network namespaces of this machine with TCP between them.
#
#   hosts.sh PROGRAM [SECTION]...    PROGRAM: the built big_hosts
#
#   moves   results are right, and the bytes on the link are those that the plan states
#   stream  over a link of 1 Gbit/s, from one host to the other: at least 0.9 of the rate of plain MPI messages
#   duplex  the same in both directions at once, rows to columns, by 2, 4 and 8 ranks
#   cut     the link goes down in the middle: every rank gets an error within seconds
set -euo pipefail
program=$(realpath "$1")
shift
skip() { echo "hosts: skipped: $1"; exit 77; }
. "$(dirname "$0")/../../tools/two_hosts.sh"
hosts_make
VARIABLES=(RESHARD_TIMEOUT)
export RESHARD_TIMEOUT=${RESHARD_TIMEOUT:-60}

moves() { hosts_run 120 4 "$program" moves; }

stream() {
    hosts_limit
    hosts_run 180 4 "$program" stream
    hosts_unlimit
}

duplex() {
    local n
    hosts_limit
    for n in 2 4 8; do hosts_run 180 $n "$program" duplex; done
    hosts_unlimit
}

cut() {
    local pid began
    mkdir "$scratch/verdicts"
    RESHARD_TIMEOUT=3 hosts_run 60 4 "$program" cut "$scratch/verdicts" > "$scratch/log" 2>&1 &
    pid=$!
    began=$SECONDS
    while [ "$(find "$scratch/verdicts" -name 'ready*' | wc -l)" -lt 4 ] && [ $((SECONDS - began)) -lt 30 ]; do sleep 0.1; done
    sleep 1
    ip -n "${host[0]}" link set eth0 down
    began=$SECONDS
    while [ "$(find "$scratch/verdicts" -name 'rank*' | wc -l)" -lt 4 ] && [ $((SECONDS - began)) -lt 20 ]; do sleep 0.1; done
    cat "$scratch"/verdicts/rank* 2> /dev/null || true
    hosts_end_ranks
    wait $pid || true
    if [ "$(grep -l 'RSH_EPEER\|RSH_ETIMEOUT' "$scratch"/verdicts/rank* 2> /dev/null | wc -l)" != 4 ]; then
        echo "hosts: cut: not every rank got RSH_EPEER or RSH_ETIMEOUT within 20 s"
        cat "$scratch/log"
        return 1
    fi
}

for section in ${@:-moves stream duplex cut}; do
    echo "hosts: $section"
    $section
done
