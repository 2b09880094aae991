# If stdout cannot be written, the command fails and does not crash.
reshard --help > /dev/full; echo "exit $?"
reshard explain 'u8[4]' 'u8[4]' > /dev/full; echo "exit $?"
reshard explain --json 'u8[4]' 'u8[4]' > /dev/full; echo "exit $?"
reshard doctor > /dev/full; echo "exit $?"
printf 'ABCD' | reshard apply 'u8[4]' 'u8[4]' > /dev/full; echo "exit $?"
# The reader has closed the pipe; it reports that through the fifo.
mkfifo closed
{ read -r _ < closed; sleep 0.3; reshard explain 'u8[4]' 'u8[4]'; echo "exit $?" >&2; } | { exec 0<&-; echo > closed; }
{ read -r _ < closed; sleep 0.3; head -c 16777216 /dev/zero | reshard apply 'u8[16777216]' 'u8[16777216]'; echo "exit $?" >&2; } | { exec 0<&-; echo > closed; }
reshard explain 'u8[4]' 'u8[4]' >&-; echo "exit $?"
