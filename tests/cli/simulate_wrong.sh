# Invalid input gives an error message.
from='f32[64/x] on x=4' to='f32[64/x] on x=4@[1,2,3,0]'
try() { reshard simulate "$@"; echo "exit $?"; }
try "$from" "$to"
try "$from" --mem 1
try "$from" "$to" "$to" --mem 1
try "$from" "$to" --mem -1
try "$from" "$to" --mem fast
try "$from" "$to" --mem 1 --nic 0
try "$from" "$to" --mem 1 --latency nan
try "$from" "$to" --mem 1 --ranks-per-node 2
try "$from" "$to" --mem 1 --ranks-per-node 0 --nic 1
try "$from" 'f32[65]' --mem 1
try "$from" "$to" --machine nowhere
echo '{"machine": {"core_gb_per_s": 1}}' > no_memory
try "$from" "$to" --machine no_memory
echo '{}' > no_machine
try "$from" "$to" --machine no_machine
echo '{"machine": {"mem_gb_per_s": 4.0, "nic_gb_per_s": 1.0}}' > machine
reshard simulate "$from" "$to" --machine machine --ranks-per-node 2 | grep -E 'memory of|card'
echo 'hello there' > words
try "$from" "$to" --machine words
mkdir folder
try "$from" "$to" --machine folder
