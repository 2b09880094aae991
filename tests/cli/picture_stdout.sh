# With --svg=- and --html=-, stdout has only the picture.
reshard explain --svg=- 'u8[8/x, 8] on x=4' 'u8[8, 8/x] on x=4' > move.svg
reshard explain --html=- 'u8[8/x, 8] on x=4' 'u8[8, 8/x] on x=4' > move.html
head -c 4 move.svg; echo
head -n 1 move.html
reshard explain --svg=- 'u8[4]' 'u8[4]' | grep -c tensor
reshard explain --svg=- 'u8[4]' 'u8[4]' > /dev/full; echo "exit $?"
reshard explain --svg=- --html=- 'u8[4]' 'u8[4]'; echo "exit $?"
reshard explain --svg=- --json 'u8[4]' 'u8[4]'; echo "exit $?"
reshard explain --matrix 'u8[400/x, 400] on x=400' 'u8[400, 400/x] on x=400' > /dev/full; echo "exit $?" # longer than a buffer
