#!/bin/sh
# The moves by which copying is judged, each beside memcpy of the same bytes in the same run.
#
#   table.sh COMMAND        COMMAND: path of the built `reshard`
set -eu
command=$1
printf '%-38s %-42s %9s %9s %9s\n' from to GB/s memcpy fraction
row() { # row FROM TO [KEY]
    json=$("$command" bench "$1" "$2" --json)
    value() { printf '%s\n' "$json" | sed -n "s/^ *\"$1\": \\([^,]*\\),*\$/\\1/p"; }
    printf '%-38s %-42s %9.2f %9.2f %9.3f\n' "$1" "$2" "$(value gb_per_s)" "$(value memcpy_gb_per_s)" "$(value "${3:-fraction_of_memcpy}")"
}
row 'f32[8192/x, 8192] on x=2' 'f32[8192, 8192/x] on x=2'
row 'f32[8192/x, 8192] on x=8' 'f32[8192, 8192/x] on x=8'
row 'f32[8192/x, 8192] on x=4' 'f32[8192/x, 8192] on x=4@[1,2,3,0]'
row 'f32[8192, 8192/x:128] on x=4' 'f32[8192/x:96, 8192] on x=4'
row 'bf16[64, 2048/x, 1024] on x=4' 'bf16[64/x, 2048, 1024] on x=4'
row 'f32[8192/x, 8192] on x=4' 'f32[8192, 8192] on x=4'
row 'f32[8191/x, 8193] on x=4' 'f32[8191, 8193/x~] on x=4'
row 'u8[8192, 8192/x:64] on x=4' 'u8[8192/x, 8192] on x=4'
row 'f32[8192/x, 8192] on x=2' 'f32[8192, 8192/x] on x=2 order(1,0)'
row 'f32[8192, 8192] on x=4 sum(x)' 'f32[8192/x, 8192] on x=4' fraction_of_reference
small() { # small RANKS: one bound run of 16 KiB
    json=$("$command" bench "f32[64/x, 64] on x=$1" "f32[64, 64/x] on x=$1" --json)
    printf '16 KiB, rows to columns, %s ranks: %s s a run\n' "$1" "$(printf '%s\n' "$json" | sed -n 's/^ *"seconds": \([^,]*\),*$/\1/p')"
}
small 2
small 4
