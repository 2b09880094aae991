# Error messages about layouts say what is wrong and what to write instead.
reshard explain 'float32[4]' 'f32[4]'
reshard explain 'F16[4]' 'f16[4]'
reshard explain 'f32[4/x]' 'f32[4]'
reshard explain 'f32[4096/4]' 'f32[4096]'
reshard explain 'f32[4] on x=2 mean(x)' 'f32[4]'
reshard explain 'f32[4/x, 4/x] on x=2' 'f32[4, 4]'
reshard explain 'f32[4, 4] boxes 0:[0:4,0:5]' 'f32[4, 4]'
reshard apply 'f32[1000000000000]' 'f32[1000000000000]' < /dev/zero 2>&1 | sed 's/has .*/has N/'
exit 0
