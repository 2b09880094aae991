# Engines that are always available, and one that may be missing.
for engine in local threads shm; do
    printf 'ABCD' | reshard apply --engine $engine 'u8[4]' 'u8[4]'; echo " exit $?"
done
# Engines have ranks, which read RESHARD_TIMEOUT; `local`, the default of apply, has no ranks.
for engine in '' '--engine local' '--engine threads' '--engine shm'; do
    printf 'ABCD' | RESHARD_TIMEOUT=soon reshard apply $engine 'u8[4]' 'u8[4]'; echo " exit $?"
done
reshard bench --engine local 'u8[4]' 'u8[4]'; echo "exit $?"
export RESHARD_MPI_LIBRARY=./nowhere.so
printf 'ABCD' | reshard apply --engine mpi 'u8[4]' 'u8[4]'; echo "exit $?"
reshard bench --engine mpi 'u8[4]' 'u8[4]'; echo "exit $?"
