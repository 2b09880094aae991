# explain --json prints the layouts in canonical form.
reshard explain --json 'f32[4096/tp,11008]on tp=4' 'f32[4096, 11008/(tp)] on tp=4'
