# Layouts with different shapes are an error.
reshard explain 'f32[4, 8]' 'f32[8, 4]'
