# bench verifies moves of every dtype, op, conversion, order and kind of layout.
check() { reshard bench --json --repeat 1 "$1" "$2" | grep -q '"verified": true' || echo "$1 -> $2"; }
for type in bool u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64 f8e4m3 f8e5m2 c64 c128; do
    check "$type[30/x, 7] on x=3" "$type[30, 7/y] on y=2"
done
for op in sum min max prod; do
    check "f32[20, 6] on x=3,y=2 $op(x)" "f32[20/x, 6] on x=3"
    check "i16[20, 6] on x=3,y=2@[5,4,3,2,1,0] $op(y)" "i16[20, 6]"
    check "bf16[20, 6] on x=3,y=2 $op(x,y)" "f32[20/z, 6] on z=2"
    check "f32[20, 6]" "f32[20, 6] on x=3 $op(x)"
    check "i8[20/x, 6] on x=3,y=2 $op(y)" "i8[20, 6/x] on x=2,y=2 $op(y)"
done
for op in band bor bxor; do
    check "u8[20, 6] on x=3 $op(x)" "u8[20/x, 6] on x=3"
    check "i64[20, 6]" "i64[20, 6] on x=3 $op(x)"
done
check 'f32[20, 6] on x=3 avg(x)' 'f32[20/x, 6] on x=3'
check 'c64[20, 6] on x=3 avg(x)' 'c64[20, 6] on x=3 avg(x)'
check 'f32[20, 6]' 'f32[20, 6] on x=3 avg(x)'
check 'f64[20/x:3, 6/y:2] on x=2,y=2' 'f8e4m3[20, 6]/z on z=4'
check 'i32[20, 6/x] on x=2 order(1,0)' 'u8[20/x, 6] on x=5'
check 'f32[5, 6, 7/x] on x=2 order(2,0,1)' 'f32[5/x, 6, 7] on x=3 order(1,2,0)'
check 'u8[8, 8] boxes 3:[0:4,0:8] 1,5:[4:8,0:8]' 'u8[8/x~, 8] on x=3'
check 'f32[(8/(a,b)|4/a), 3] on a=2,b=2' 'f32[(8|4)/x, 3] on x=3@2-4'
check 'f32[]' 'f32[] on x=3'
check 'f32[0, 3]' 'f32[0, 3/x] on x=3'
