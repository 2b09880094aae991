# Only rank 0 prints an error, whatever the number of ranks.
. "$(dirname "$0")/mpirun"
printf 'ABCDEFGH' | ranks 3 apply --engine mpi 'u8[2/x, 4] on x=2' 'u8[2, 4/x] on x=2'; echo "exit $?"
printf 'ABC' | ranks 2 apply --engine mpi 'u8[2/x, 4] on x=2' 'u8[2, 4/x] on x=2'; echo "exit $?"
ranks 2 bench --engine mpi 'u8[2/x, 4 on x=2' 'u8[2, 4/x] on x=2'; echo "exit $?"
ranks 2 bench --engine mpi 'u8[2/x, 4] on x=2' 'u8[2, 5/x] on x=2'; echo "exit $?"
