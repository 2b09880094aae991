#!/bin/bash
# A training loop asks the system for no memory after its third step: the program says when that is over and when the last
# one is, and between the two no thread of it makes a call that maps memory.
#   no_new_maps.sh TEST_TRAINING
set -euo pipefail
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

RESHARD_STEPS=100 strace -f -o "$folder/calls" -e trace=write,mmap,munmap,brk,madvise,mremap "$program" > "$folder/out" 2>&1 || {
    cat "$folder/out"
    exit 1
}
awk '/write\(2, "steady from here/ { steady = 1; runs++ }
     /write\(2, "steady until here/ { steady = 0; ends++ }
     steady && /(mmap|munmap|brk|madvise|mremap)\(/ { print; calls++ }
     /(mmap|munmap|brk|madvise|mremap)\(/ { all++ }
     END { print runs + 0 " runs: " calls + 0 " calls in their steps, " all + 0 " in all"; exit !(runs && runs == ends && all && !calls) }' "$folder/calls"
