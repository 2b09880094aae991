#!/bin/sh
# The moves that measure copying.  Each is compared with the fastest plain pass over memory of this machine (the stream;
# bytes read and written are counted) and with memcpy, both measured in the same round.
#
#   table.sh COMMAND [WORD]        COMMAND: path of the built `reshard`; WORD: only rows that have it in their name
#
# "asked" is the target: the share of the stream that two cores should reach.  A move that must touch more cache lines
# than its bytes fill has a factor: the lines that it touches, divided by the lines that its bytes fill.
set -eu
command=$1 word=${2:-}
printf '%-34s %8s %8s %8s %8s %8s\n' move GB/s stream memcpy share asked
row() { # row NAME ASKED FROM TO [FACTOR]
    case $1 in *"$word"*) ;; *) return 0 ;; esac
    json=$("$command" bench "$3" "$4" --json)
    value() { printf '%s\n' "$json" | sed -n "s/^ *\"$1\": \\([^,]*\\),*\$/\\1/p"; }
    share=$(awk "BEGIN { print $(value fraction_of_stream) * ${5:-1} }")
    printf '%-34s %8.2f %8.2f %8.2f %8.2f %8s\n' "$1" "$(value gb_per_s)" "$(value stream_gb_per_s)" \
        "$(value memcpy_gb_per_s)" "$share" "$2"
}
r='f32[8192/x, 8192] on x'
c='f32[8192, 8192/x] on x'
row 'rows to columns, 2 ranks'     0.93 "$r=2" "$c=2"
row 'rows to columns, 4 ranks'     0.93 "$r=4" "$c=4"
row 'rows to columns, 8 ranks'     0.9  "$r=8" "$c=8"
row 'rows to columns, 16 ranks'    0.75 "$r=16" "$c=16"
row 'rows to columns, 32 ranks'    0.7  "$r=32" "$c=32"
row 'rows to columns, 64 ranks'    0.65 "$r=64" "$c=64"
row 'rows to columns, 256 ranks'   0.45 "$r=256" "$c=256"
row 'rows to columns, 1,000 ranks' 0.25 "$r=1000" "$c=1000"
row 'shift by one rank'            -    "$r=4" "$r=4@[1,2,3,0]"
row 'rows to replicas'             -    "$r=4" 'f32[8192, 8192] on x=4'
row 'rows to columns, odd sizes'   -    'f32[8191/x, 8193] on x=4' 'f32[8191, 8193/x~] on x=4'
row 'bf16, middle dim to first'    -    'bf16[64, 2048/x, 1024] on x=4' 'bf16[64/x, 2048, 1024] on x=4'
row 'u8, cyclic :64 to rows'       -    'u8[8192, 8192/x:64] on x=4' 'u8[8192/x, 8192] on x=4'
row 'cyclic :128 to :96'           0.75 'f32[8192, 8192/x:128] on x=4' 'f32[8192/x:96, 8192] on x=4'
row 'cyclic :128 to :96, 2 x 2'    0.75 'f32[8192/x:128, 8192/y:128] on x=2,y=2' 'f32[8192/x:96, 8192/y:96] on x=2,y=2'
row 'transposed, f32'              0.7  "$r=2" "$c=2 order(1,0)"
row 'transposed, bf16'             0.6  'bf16[8192/x, 8192] on x=2' 'bf16[8192, 8192/x] on x=2 order(1,0)'
row 'transposed, u8'               0.6  'u8[16384/x, 16384] on x=2' 'u8[16384, 16384/x] on x=2 order(1,0)'
row 'transposed, f64'              0.6  'f64[8192/x, 4096] on x=2' 'f64[8192, 4096/x] on x=2 order(1,0)'
row 'transposed, c128'             0.6  'c128[4096/x, 4096] on x=2' 'c128[4096, 4096/x] on x=2 order(1,0)'
row 'transposed, f32, odd sizes'   0.6  'f32[8191/x, 8193] on x=2' 'f32[8191, 8193/x] on x=2 order(1,0)'
row 'runs of 36 B to rows'         0.7  'f32[8192, 8192/x:9] on x=4' 'f32[8192/x, 8192] on x=4'
row 'every second element'         0.7  "$r=2" 'f32[8192, 8192/x:1] on x=2' 1.5
row 'f32 to f8e4m3'                0.75 "$r=2" 'f8e4m3[8192/x, 8192] on x=2'
row 'f8e4m3 to f32'                0.75 'f8e4m3[8192/x, 8192] on x=2' "$r=2"
row 'f32 to bf16, transposed'      0.55 "$r=2" 'bf16[8192, 8192/x] on x=2 order(1,0)'
row 'sum of 4 f32'                 0.85 'f32[8192, 8192] on x=4 sum(x)' "$r=4"
row 'sum of 8 f32'                 0.8  'f32[8192, 8192] on x=8 sum(x)' "$r=8"
row 'sum of 4 bf16'                0.75 'bf16[8192, 8192] on x=4 sum(x)' 'bf16[8192/x, 8192] on x=4'
small() { # small RANKS: one bound run of 16 KiB
    case "16 KiB" in *"$word"*) ;; *) return 0 ;; esac
    json=$("$command" bench "f32[64/x, 64] on x=$1" "f32[64, 64/x] on x=$1" --json)
    seconds=$(printf '%s\n' "$json" | sed -n 's/^ *"seconds": \([^,]*\),*$/\1/p')
    printf '16 KiB, rows to columns, %s ranks: %s s a run\n' "$1" "$seconds"
}
small 2
small 4
