#!/bin/bash
# A training loop asks the system for no memory after its second step: runs of 10 and of 100 steps make equally many calls.
# Threads that start together make a call more or less, depending on who is first; a loop that asked in every tenth step
# would make nine more.
#   no_new_maps.sh TEST_TRAINING
set -euo pipefail
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

calls() { # calls STEPS: mmap, munmap, brk, madvise and mremap of all threads
    RESHARD_STEPS=$1 strace -f -o "$folder/$1" -e trace=mmap,munmap,brk,madvise,mremap "$program" > "$folder/out" 2>&1 || {
        cat "$folder/out"
        exit 1
    }
    grep -cE '(mmap|munmap|brk|madvise|mremap)\(' "$folder/$1"
}

few=$(calls 10)
many=$(calls 100)
echo "10 steps: $few calls; 100 steps: $many calls"
[ $((many - few)) -le 3 ]
