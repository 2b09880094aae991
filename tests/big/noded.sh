#!/bin/sh
# Noded: runs a program as a rank of mpirun on one of NODES nodes, assigned round robin, so that one machine uses the wire.
#
#   mpirun ... noded.sh NODES PROGRAM [ARGUMENT...]      INPUT: a file that rank 0 reads as its standard input
nodes=$1
shift
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
export RESHARD_NODE=node$((rank % nodes))
[ "$rank" = 0 ] && [ "${INPUT:-}" ] && exec "$@" < "$INPUT"
exec "$@"
