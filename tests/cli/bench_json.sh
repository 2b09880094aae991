# Few rounds of a small move: numbers vary, the rest does not.
reshard bench --json --repeat 2 'f32[64/x, 64] on x=2' 'f32[64, 64/x] on x=2'
