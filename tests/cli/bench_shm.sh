# bench moves and checks a tensor on ranks that are processes.
reshard bench --engine shm --repeat 3 'f32[64/x, 64] on x=2' 'f32[64, 64/x] on x=2' | tail -n 1
reshard bench --engine shm --repeat 2 --json 'bf16[64, 64] on x=3 sum(x)' 'f32[64, 64] on x=3' | grep -E '"(engine|ranks|verified)"'
