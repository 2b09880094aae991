# Rows to columns: a picture, the totals, the ranks.
reshard explain 'f32[4096/tp,11008]on tp=4' 'f32[4096, 11008/(tp)] on tp=4'
