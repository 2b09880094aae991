# Ranks that mpirun started give the same bytes as threads.
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
ranks 1 apply --engine mpi 'u8[0]' 'u8[0]' < /dev/null | wc -c
