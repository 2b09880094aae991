# Threads and processes give the same bytes as one caller.
i=0; while [ $i -lt 64 ]; do printf '%064d' $i; i=$((i + 1)); done > in
same() {
    reshard apply "$@" < in > local && reshard apply --engine threads "$@" < in > threads &&
        reshard apply --engine shm "$@" < in > shm && cmp local threads && cmp local shm && wc -c < shm
}
same 'u8[64/x, 64] on x=4' 'u8[64, 64/x] on x=4'
same 'i32[32, 32]' 'i32[32/x, 32] on x=3'
same 'u16[8, 64] on x=4 sum(x)' 'u16[8, 64] on x=4'
same 'f32[16, 32] on x=2 max(x)' 'f64[16/x, 32] on x=4'
same --ceiling 0 'u8[64/x:3, 64] on x=4' 'u8[64/x, 64] on x=2 order(1,0)'
reshard apply --engine shm 'u8[0]' 'u8[0]' < /dev/null | wc -c
