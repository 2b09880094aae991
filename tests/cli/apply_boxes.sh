# Boxes of one rank are in the order of the layout; replicas are written once for each rank.
printf 'ABCDEFGH' | reshard apply 'u8[8]' 'u8[8] boxes 0:[6:8] 0:[0:2] 1,2:[2:6]'; echo
printf 'GHABCDEFCDEF' | reshard apply 'u8[8] boxes 0:[6:8] 0:[0:2] 1,2:[2:6]' 'u8[8]'; echo
