# With --ranks-per-node, explain prints the bytes between nodes.
reshard explain --json --ranks-per-node 2 'u8[64/x, 64] on x=4' 'u8[64, 64/x] on x=4' | grep nodes
reshard explain --ranks-per-node 2 'u8[64/x, 64] on x=4' 'u8[64, 64/x] on x=4' | grep nodes
