# Input begins at the current position of stdin.
printf 'skipABCD' > in
(dd bs=1 count=4 2> /dev/null > /dev/null; reshard apply 'u8[4/x] on x=2' 'u8[4]') < in; echo
