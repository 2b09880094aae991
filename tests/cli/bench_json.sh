# JSON of a few rounds of a small move; everything except the measured numbers is fixed.
reshard bench --json --repeat 2 'f32[64/x, 64] on x=2' 'f32[64, 64/x] on x=2'
