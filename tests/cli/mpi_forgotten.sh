# Under mpirun without --engine mpi, each process would do all of the work: the first one prints an error, and all stop.
export OMPI_COMM_WORLD_SIZE=2
for rank in 0 1; do
    OMPI_COMM_WORLD_RANK=$rank reshard bench 'u8[4]' 'u8[4]'; echo "exit $?"
    OMPI_COMM_WORLD_RANK=$rank reshard apply 'u8[4]' 'u8[4]' < /dev/zero; echo "exit $?"
done
printf ABCD | OMPI_COMM_WORLD_RANK=1 reshard apply --engine local 'u8[4]' 'u8[4]'; echo " exit $?" # it is meant
unset OMPI_COMM_WORLD_SIZE
printf ABCD | PMI_SIZE=1 PMI_RANK=0 reshard apply 'u8[4]' 'u8[4]'; echo " exit $?"
