# Engines that this build has, and one that it does not have.
for engine in threads shm mpi; do
    printf 'ABCD' | reshard apply --engine $engine 'u8[4]' 'u8[4]'; echo " exit $?"
done
reshard bench --engine mpi 'u8[4]' 'u8[4]'; echo "exit $?"
