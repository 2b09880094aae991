# Inherited signal settings do not keep the launcher, or its ranks, from noticing the end of their children; SIGTERM ends it.
env --ignore-signal=CHLD true 2> /dev/null || { printf "coreutils\nenv cannot ignore signals (coreutils 8.31)\n"; exit 77; }
timeout -s KILL 200 env --ignore-signal=CHLD reshard run -n 2 true; echo "exit $?"
timeout -s KILL 200 env --ignore-signal=CHLD reshard run -n 2 sh -c 'test $RESHARD_RANK = 0 || exit 7'; echo "exit $?"
# bit 17 of the ignored signals is SIGCHLD, bit 1 SIGHUP
timeout -s KILL 200 env --ignore-signal=CHLD,HUP reshard run -n 1 sh -c 'grep SigIgn /proc/self/status' | {
    read -r name bits
    echo "SIGCHLD ignored: $((0x$bits >> 16 & 1)), SIGHUP ignored: $((0x$bits & 1))"
}
timeout --preserve-status -k 20 1 env --ignore-signal=CHLD reshard run -n 2 sleep 100 2> /dev/null; echo "exit $?"

# ranks that ignore SIGTERM: the second one ends them
reshard run -n 2 sh -c 'trap "" TERM; touch ready$RESHARD_RANK; sleep 100; sleep 100' & launcher=$!
while [ ! -e ready0 ] || [ ! -e ready1 ]; do sleep 0.02; done
while readlink /proc/$launcher/exe > /dev/null; do # two signals that come at once may count as one
    kill $launcher
    sleep 0.3
done
wait $launcher; echo "exit $?"
