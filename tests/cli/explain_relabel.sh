# With --relabel, a permutation of ranks moves nothing.
reshard explain --json --relabel 'u8[8/x, 8] on x=4' 'u8[8/x, 8] on x=4@[3,2,1,0]' | grep -v seconds
reshard explain --relabel 'u8[8/x, 8] on x=4' 'u8[8/x, 8] on x=4@[3,2,1,0]' | grep relabelling
