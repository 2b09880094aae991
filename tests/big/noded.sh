#!/bin/sh
# Noded: runs a program as a rank of mpirun on one of NODES nodes, dealt round robin, so that messages cross the wire on one machine.
#
#   mpirun ... noded.sh NODES PROGRAM [ARGUMENT...]      INPUT: a file that rank 0 reads as its standard input
nodes=$1
shift
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
export RESHARD_NODE=node$((rank % nodes))
[ "$rank" = 0 ] && [ "${INPUT:-}" ] && exec "$@" < "$INPUT"
exec "$@"
