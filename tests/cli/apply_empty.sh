# A tensor without elements has no bytes.
reshard apply 'f32[0, 4/x] on x=2' 'f32[0, 4]' | wc -c
