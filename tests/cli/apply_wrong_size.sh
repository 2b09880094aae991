# Input with too few or too many bytes, from a file and from a pipe, is an error; nothing is written.
printf '123' > few
printf '12345' > many
reshard apply 'u8[4/x] on x=2' 'u8[4]' < few; echo "exit $?"
reshard apply 'u8[4/x] on x=2' 'u8[4]' < many; echo "exit $?"
cat few | reshard apply 'u8[4/x] on x=2' 'u8[4]'; echo "exit $?"
cat many | reshard apply 'u8[4/x] on x=2' 'u8[4]'; echo "exit $?"
timeout 200 reshard apply 'u8[4/x] on x=2' 'u8[4]' < /dev/zero; echo "exit $?" # has no end
