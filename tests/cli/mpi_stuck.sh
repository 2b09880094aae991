# Rank 0 never finishes reading its input: the other rank prints a timeout, and the job ends.
. "$(dirname "$0")/mpirun"
mkfifo never
sleep 1000 > never &
writer=$!
export RESHARD_TIMEOUT=2
ranks 2 apply --engine mpi --in never 'u8[2/x, 4] on x=2' 'u8[2, 4/x] on x=2' 2> said < /dev/null && echo "the job succeeds"
grep -q 'did not answer' said || { echo "no rank says who is stuck:"; cat said; }
kill $writer
