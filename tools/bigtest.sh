#!/usr/bin/env bash
# Bigtest: what is too long for every edit.  Sections run in order, or alone by name:
#
#   bigtest.sh [compilers] [asan] [tsan] [prop] [fuzz] [mutants]
#
#   compilers  gcc and clang, release and debug, warnings as errors, all tests
#   asan       address and undefined-behaviour sanitizers, all tests
#   tsan       thread sanitizer, all tests
#   prop       the random tests on RESHARD_CASES pairs of layouts (200000), from a new seed (RESHARD_SEED)
#   fuzz       every fuzzer for FUZZ_SECONDS (300)
#   mutants    one-line breaks that the tests must notice (tools/mutants.txt)
#
# Build folders stay in BIGTEST_DIR (build-bigtest), so that a second run is quick.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
jobs=${JOBS:-$(nproc)}
dir=${BIGTEST_DIR:-build-bigtest}
mkdir -p "$dir"

build() { # build FOLDER CMAKE-ARGUMENTS...
    local folder=$dir/$1
    shift
    cmake -S . -B "$folder" -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DRESHARD_TESTS=ON "$@" > "$folder.log" 2>&1 &&
        cmake --build "$folder" -j"$jobs" >> "$folder.log" 2>&1 || { tail -n 40 "$folder.log"; return 1; }
}

check() { # check FOLDER CTEST-ARGUMENTS...
    local folder=$dir/$1
    shift
    ctest --test-dir "$folder" --output-on-failure --no-tests=error "$@"
}

compilers() {
    local cc type
    for cc in gcc clang; do
        for type in Release Debug; do
            build "$cc-$type" -DCMAKE_C_COMPILER=$cc -DCMAKE_BUILD_TYPE=$type
            check "$cc-$type" -j"$jobs" --timeout 600
        done
    done
}

asan() {
    build asan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRESHARD_SANITIZE=address,undefined
    ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 check asan -j"$jobs" --timeout 1800
}

tsan() {
    build tsan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRESHARD_SANITIZE=thread
    TSAN_OPTIONS=halt_on_error=1 check tsan -j"$jobs" --timeout 1800
}

prop() {
    build prop -DCMAKE_BUILD_TYPE=Release
    export RESHARD_CASES=${RESHARD_CASES:-200000} RESHARD_SEED=${RESHARD_SEED:-$(date +%s)}
    echo "RESHARD_CASES=$RESHARD_CASES RESHARD_SEED=$RESHARD_SEED"
    check prop -L prop -j"$jobs" --timeout 14400
}

fuzz() {
    local program name corpus
    build fuzz -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRESHARD_FUZZ=ON \
        -DRESHARD_SANITIZE=address,undefined,fuzzer-no-link -DRESHARD_COMMAND=OFF -DRESHARD_EXAMPLES=OFF -DRESHARD_BENCH=OFF
    for program in "$dir"/fuzz/tests/fuzz/fuzz_*; do
        [ -x "$program" ] || { echo "no fuzzers"; return 0; }
        name=${program##*/}
        corpus=$dir/corpus/$name
        mkdir -p "$corpus"
        echo "$name, ${FUZZ_SECONDS:-300} s"
        "$program" -max_total_time="${FUZZ_SECONDS:-300}" -artifact_prefix="$dir/corpus/$name-" -rss_limit_mb=4096 \
            "$corpus" $(ls -d "tests/fuzz/corpus_${name#fuzz_}" 2> /dev/null) > "$dir/$name.log" 2>&1 ||
            { tail -n 60 "$dir/$name.log"; return 1; }
        tail -n 1 "$dir/$name.log"
    done
}

mutants() { MUTANTS_DIR=$dir/mutants bash tools/mutants.sh; }

all="compilers asan tsan prop fuzz mutants"
for section in ${@:-$all}; do
    [[ " $all " == *" $section "* ]] || { echo "bigtest: no section \"$section\"; there are $all" >&2; exit 2; }
done
for section in ${@:-$all}; do
    echo "==== $section"
    began=$SECONDS
    # not in a condition, where set -e would be off inside the section
    set +e
    (set -e; $section)
    status=$?
    set -e
    [ $status -eq 0 ] || { echo "==== $section FAILED"; exit 1; }
    echo "==== $section passed in $((SECONDS - began)) s"
done
