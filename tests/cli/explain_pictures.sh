# Pictures are written to files; the text is still printed to stdout.
reshard explain --svg move.svg --html move.html 'u8[8/x, 8] on x=4' 'u8[8, 8/x] on x=4' | head -n 2
head -c 4 move.svg; echo
grep -c 'class="moves"' move.svg
head -n 1 move.html
tail -n 1 move.html
reshard explain --svg no/such/folder.svg 'u8[4]' 'u8[4]'; echo "exit $?"
reshard explain --svg /dev/full 'u8[4]' 'u8[4]'; echo "exit $?"
reshard explain --svg '' 'u8[4]' 'u8[4]' 2>&1 | head -n 1
reshard explain --svg same --html same 'u8[4]' 'u8[4]' 2>&1 | head -n 1
ls same 2> /dev/null
