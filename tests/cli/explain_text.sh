# Rows to columns: prints a picture, the totals and each rank.
reshard explain 'f32[4096/tp,11008]on tp=4' 'f32[4096, 11008/(tp)] on tp=4'
