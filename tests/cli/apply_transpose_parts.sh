# Moves a 4 x 4 tensor from bands of rows to bands of columns, read from a file and from a pipe.
printf 'ABCDEFGHIJKLMNOP' > in
reshard apply 'u8[4/x, 4] on x=2' 'u8[4, 4/x] on x=2' < in; echo
cat in | reshard apply 'u8[4/x, 4] on x=2' 'u8[4, 4/x] on x=2'; echo
reshard apply 'u8[4, 4]' 'u8[4, 4] order(1,0)' < in; echo
