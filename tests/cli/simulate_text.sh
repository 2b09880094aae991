# Prints the time of a move on a given machine, by stage and resource.
reshard simulate 'f32[1024/x, 1024] on x=4' 'f32[1024, 1024/x] on x=4' --mem 1 --nic 0.1 --latency 5 --ranks-per-node 2
echo
reshard simulate 'f32[1048576]' 'f32[1048576] on x=8' --mem 10 --core 5 --nic 1 --ranks-per-node 2 | tail -n 9
echo
reshard simulate --by-node 'f32[65536] on x=16 sum(x)' 'f32[65536/x] on x=16' --mem 20 --nic 1 --latency 1 --ranks-per-node 4 --json
