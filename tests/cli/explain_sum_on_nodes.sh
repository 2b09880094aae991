# The lower bound between nodes is 0 for this sum, so it is not printed.
reshard explain 'f32[64] on x=4 sum(x)' 'f32[64] on x=4' --ranks-per-node 2 | sed -n '/^between nodes/,/^most a rank sends/p'
