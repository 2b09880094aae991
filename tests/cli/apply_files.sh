# One input and one output file per rank; names may have the rank in several digits, and percent signs.
printf 'ABCD' > rank0.bin
printf 'EFGH' > rank1.bin
for engine in local threads shm; do
    reshard apply --engine $engine 'u8[8/x] on x=2' 'u8[8/x] on x=4' --in rank%d.bin --out $engine%03d%%; echo "exit $?"
    for r in 0 1 2 3; do printf '%s ' "$(cat $engine''00$r%)"; done; echo
done
reshard apply 'u8[8/x] on x=2' 'u8[8]' --in rank%d.bin; echo
cat rank?.bin | reshard apply 'u8[8/x] on x=2' 'u8[8/x] on x=4@[8,6,4,2]' --out part%d
ls part*; cat part2; echo
cat rank?.bin > whole
reshard apply 'u8[8/x] on x=2' 'u8[8]' --in whole --out whole; cat whole; echo # a file may become itself
reshard apply 'u8[8]' 'u8[8]' --in - < whole --out -; echo
# Errors are reported before anything is written.
reshard apply 'u8[10/x] on x=2' 'u8[10]' --in rank%d.bin --out never; echo "exit $?"
reshard apply 'u8[12/x] on x=3' 'u8[12]' --in rank%d.bin --out never; echo "exit $?"
reshard apply 'u8[8]' 'u8[8]' --in whole --out no/such/folder; echo "exit $?"
reshard apply 'u8[8]' 'u8[8]' --in whole --out /dev/full; echo "exit $?"
reshard apply --engine shm 'u8[8]' 'u8[8]' --in whole --out /dev/full; echo "exit $?"
reshard apply 'u8[8]' 'u8[8]' --in 'x%s'; echo "exit $?"
ls never 2> /dev/null
# A rank without elements has an empty file.
reshard apply 'u8[8]' 'u8[8/x{8,0}] on x=2' --in whole --out empty%d; wc -c < empty1
