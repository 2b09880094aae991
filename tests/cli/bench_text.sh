# Tables of the same move, and of a reduction, which reads more than it writes.
reshard bench --repeat 2 'f32[64/x, 64] on x=2' 'f32[64, 64/x] on x=2'
reshard bench --repeat 2 'f32[64, 64] on x=4 sum(x)' 'f32[64/x, 64] on x=4'
