# Ranks that mpirun started give the same bytes as threads, on one node and on several.
. "$(dirname "$0")/mpirun"
i=0; while [ $i -lt 64 ]; do printf '%064d' $i; i=$((i + 1)); done > in
same() {
    n=$1; shift
    reshard apply "$@" < in > threads && ranks $n apply --engine mpi "$@" < in > mpi && cmp threads mpi && wc -c < mpi
}
same 2 'u8[64/x, 64] on x=2' 'u8[64, 64/x] on x=2'
same 3 'i32[32, 32]' 'i32[32/x, 32] on x=3'
same 2 'f32[16, 32] on x=2 max(x)' 'f64[16/x, 32] on x=2'
same 2 --ceiling 0 'u8[64/x:3, 64] on x=2' 'u8[64/x, 64] on x=2 order(1,0)'
export PER_NODE=1
same 2 'u8[64/x, 64] on x=2' 'u8[64, 64/x] on x=2'
same 2 'u16[16, 64] on x=2 sum(x)' 'u16[16/x, 64] on x=2'
PER_NODE=2
same 4 'i32[8/x, 32, 4] on x=4' 'i32[8, 32/x, 4] on x=4'
ranks 1 apply --engine mpi 'u8[0]' 'u8[0]' < /dev/null | wc -c
