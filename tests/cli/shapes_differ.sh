# Layouts of two different tensors.
reshard explain 'f32[4, 8]' 'f32[8, 4]'
