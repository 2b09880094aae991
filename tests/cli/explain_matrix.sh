# --matrix prints the bytes between ranks, including bytes that stay, without zeros.
reshard explain --json --matrix 'u8[6/x, 4] on x=3' 'u8[6/x, 4] on x=2@1-2'
reshard explain --matrix 'u8[6/x, 4] on x=3' 'u8[6/x, 4] on x=2@1-2' | tail -n 6
