# Engines that are always there, and one that may be missing.
for engine in threads shm; do
    printf 'ABCD' | reshard apply --engine $engine 'u8[4]' 'u8[4]'; echo " exit $?"
done
export RESHARD_MPI_LIBRARY=./nowhere.so
printf 'ABCD' | reshard apply --engine mpi 'u8[4]' 'u8[4]'; echo "exit $?"
reshard bench --engine mpi 'u8[4]' 'u8[4]'; echo "exit $?"
