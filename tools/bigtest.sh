#!/usr/bin/env bash
# Bigtest: what is too long for every edit.  Sections run in order, or alone by name:
#
#   bigtest.sh [compilers] [asan] [tsan] [prop] [shortage] [fuzz] [mutants] [kill] [large] [hosts] [ceiling] [stopped] [engines] [cgroup] [digest] [ckpt] [dtensor] [gpt] [scalapack] [python] [abi] [musl] [aarch64] [debian] [bare]
#
#   compilers  gcc and clang, release and debug, warnings as errors, all tests
#   asan       address and undefined-behaviour sanitizers, all tests
#   tsan       thread sanitizer, all tests
#   prop       the random tests on RESHARD_CASES pairs of layouts (200000), from a new seed (RESHARD_SEED)
#   shortage   every request for memory of every op that meets others fails once, on rank 0 and on rank 1; 40,000 refused runs
#   fuzz       every fuzzer for FUZZ_SECONDS (600)
#   mutants    one-line breaks that the tests must notice (tools/mutants.txt)
#   kill       a rank of shm is killed at a random moment, KILLS (100) times: the others hear of it, and nothing is left behind
#   large      a message of 4.5 GiB on each engine (12 GiB of memory)
#   hosts      two hosts by network namespaces: what crosses between them, over a slow link, and when it is cut (root)
#   ceiling    1 GiB over the wire with 1 MiB of scratch
#   stopped    a rank is stopped in the middle of a transfer: the other one gets an error, and its memory back for good
#   engines    PAIRS (200) random pairs of layouts through `apply` on every engine
#   cgroup     jobs in a control group that allows less shared memory than they ask for (root)
#   digest     a million changes of each kind, from a new seed, that a digest must notice
#   ckpt       conversions killed at KILLS (200) random moments and gone on with, a disk that fills up, PAIRS (200) pairs of layouts of many windows
#   dtensor    every placement to every other on 2x2, 4x2 and 2x2x2 ranks in all sizes from 1 to 9, and moves between random meshes
#   gpt        the example train_gpt at full size: f64 for 50 steps on threads, shm and mpi, with the same losses, and f32 for 200 steps
#   scalapack  CALLS (20000) random calls of ScaLAPACK's routines on 2 to 8 ranks, from a new seed (RESHARD_SEED), against ScaLAPACK itself
#   python     20,000 random pairs through the Python package, and 100,000 calls of each kind without a leak
#   abi        the shared libraries against the baselines in packaging/abi, by abidiff
#   musl       the library with musl-gcc, and tests of the core; jansson and cmocka are built from Debian's sources (network)
#   aarch64    the same by a cross compiler, with RESHARD_SIMD=generic, under qemu-user (network)
#   debian     dpkg-buildpackage in a copy of the last commit, and lintian on what it makes
#   bare       a Debian 12 with git, make and gcc, made by debootstrap: the README's lines in the README's order (root, network)
#
# Sections that need what this machine has not (an MPI, memory, root, debootstrap) are skipped, in part or as a whole, and say so.  If a
# section was skipped and none failed, the exit status is 77.
#
# Build folders stay in BIGTEST_DIR (build-bigtest), so that a second run is quick.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
jobs=${JOBS:-$(nproc)}
dir=${BIGTEST_DIR:-build-bigtest}
mkdir -p "$dir"

build() { # build FOLDER CMAKE-ARGUMENTS...: everything, or $targets
    local folder=$dir/$1
    shift
    cmake -S . -B "$folder" -DRESHARD_WERROR=ON -DRESHARD_TESTS=ON "$@" > "$folder.log" 2>&1 &&
        cmake --build "$folder" -j"$jobs" ${targets:+--target $targets} >> "$folder.log" 2>&1 || { tail -n 40 "$folder.log"; return 1; }
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

shortage() {
    local targets="test_op_shortage test_refused_runs"
    build shortage -DCMAKE_BUILD_TYPE=Release
    RESHARD_CASES=40000 check shortage -R 'op_shortage|refused_runs' --timeout 1800
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
        echo "$name, ${FUZZ_SECONDS:-600} s"
        "$program" -max_total_time="${FUZZ_SECONDS:-600}" -artifact_prefix="$dir/corpus/$name-" -rss_limit_mb=4096 \
            "$corpus" $(ls -d "tests/fuzz/corpus_${name#fuzz_}" 2> /dev/null) > "$dir/$name.log" 2>&1 ||
            { tail -n 60 "$dir/$name.log"; return 1; }
        tail -n 1 "$dir/$name.log"
    done
}

mutants() { python3 tools/mutants.py --keep "$dir/mutants"; }

programs() { # what the sections below run, in $dir/programs; where there is an MPI, with the engine mpi
    local targets="big reshard-command"
    build programs -DCMAKE_BUILD_TYPE=Release
}
big=$dir/programs/tests/big
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks() { # ranks NUMBER SECONDS PROGRAM...: each on a node of its own
    local number=$1 seconds=$2
    shift 2
    timeout "$seconds" mpirun.openmpi --oversubscribe --bind-to none -n "$number" sh tests/big/noded.sh "$number" "$@"
}
mpi_is_there() { # mpi_is_there SECTION
    [ -x "$big/big_hosts" ] || { echo "$1: mpi is left out: no MPI was found when this was built"; return 1; }
    command -v mpirun.openmpi > /dev/null || { echo "$1: mpi is left out: there is no mpirun.openmpi"; return 1; }
}

kill() { # no script of bigtest's own ends a process
    programs
    timeout 1800 "$big/big_kill" "${KILLS:-100}"
}

large() {
    programs
    local free
    free=$(awk '/MemAvailable/ { print int($2 / 1024 / 1024) }' /proc/meminfo)
    [ "$free" -ge 11 ] || { echo "large: skipped: $free GiB of memory are free, and it takes 11"; return 77; }
    timeout 600 "$big/big_large" threads
    timeout 600 "$big/big_large" threads messages
    timeout 600 "$big/big_large" shm
    timeout 600 "$big/big_large" shm messages
    mpi_is_there large || return 77
    ranks 2 900 "$big/big_large" mpi
}

hosts() {
    programs
    mpi_is_there hosts || return 77
    bash tests/big/hosts.sh "$big/big_hosts"
}

ceiling() {
    programs
    mpi_is_there ceiling || return 77
    ranks 2 600 "$big/big_ceiling"
}

stopped() {
    programs
    mpi_is_there stopped || return 77
    local call who
    for call in run exchange; do
        for who in sender receiver; do
            echo "stopped: $call, the $who"
            RESHARD_TIMEOUT=2 OMPI_MCA_btl=tcp,self OMPI_MCA_pml=ob1 ranks 2 60 "$big/big_stopped" $call $who
        done
    done
}

engines() {
    programs
    bash tests/big/apply_engines.sh "$dir/programs/reshard" "$big/big_pairs" "${PAIRS:-200}"
}

cgroup() {
    programs
    bash tests/big/cgroup.sh "$big/big_cgroup"
}

digest() {
    local targets=test_digest_changes
    build programs -DCMAKE_BUILD_TYPE=Release
    RESHARD_CHANGES=1000000 RESHARD_SEED=${RESHARD_SEED:-$(date +%s)} "$dir/programs/tests/shard/test_digest_changes"
}

ckpt() {
    local targets=reshard-command
    build programs -DCMAKE_BUILD_TYPE=Release
    python3 tests/ckpt/check_kill.py "$dir/programs/reshard" "${KILLS:-200}"
    python3 tests/ckpt/check_windows.py "$dir/programs/reshard" "${PAIRS:-200}"
}

dtensor() {
    local targets="test_dtensor test_between_meshes" seed=${RESHARD_SEED:-$(date +%s)}
    build programs -DCMAKE_BUILD_TYPE=Release
    RESHARD_ALL=1 RESHARD_SEED=$seed "$dir/programs/tests/dtensor/test_dtensor"
    RESHARD_ALL=1 RESHARD_SEED=$seed "$dir/programs/tests/dtensor/test_between_meshes"
}

gpt() {
    local targets=examples-nn-train_gpt program=$dir/programs/examples/nn/train_gpt
    programs
    build programs -DCMAKE_BUILD_TYPE=Release
    losses() { sed -n 's/.*4 ranks.*\(loss .*\), differs.*/\1/p' "$1"; }
    "$program" --full --f64 --steps 50 | tee "$dir/gpt-threads.txt"
    "$dir/programs/reshard" run -n 4 -- "$program" --full --f64 --steps 50 --join | tee "$dir/gpt-shm.txt"
    cmp <(losses "$dir/gpt-threads.txt") <(losses "$dir/gpt-shm.txt")
    if mpi_is_there gpt; then
        mpirun.openmpi --oversubscribe --bind-to none -n 4 "$program" --full --f64 --steps 50 --mpi | tee "$dir/gpt-mpi.txt"
        cmp <(losses "$dir/gpt-threads.txt") <(losses "$dir/gpt-mpi.txt")
    fi
    "$program" --full --steps 200 --svg "$dir/gpt.svg"
}

scalapack() {
    local targets=scalapack-calls-openmpi n seed=${RESHARD_SEED:-$(date +%s%N)} calls=${CALLS:-20000} library
    library=$(ldconfig -p | sed -n 's/.*libscalapack-openmpi\.so\.[^ ]* .*=> //p' | head -n 1)
    programs
    mpi_is_there scalapack || return 0
    if [ ! "$library" ]; then echo "scalapack is left out: there is no libscalapack-openmpi"; return 0; fi
    build programs -DCMAKE_BUILD_TYPE=Release
    for n in 2 3 4 6 8; do
        mpirun.openmpi --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -n $n \
            "$dir/programs/tests/scalapack/scalapack-calls-openmpi" "$library" $((calls / 5)) $((seed + n))
    done
}

python() {
    local targets=python
    build python -DCMAKE_BUILD_TYPE=Release
    RESHARD_CASES=20000 RESHARD_CALLS=50000 check python -R '^python: (pairs|leaks)' --timeout 7200
}

abi() {
    local targets="reshard reshard-mpi reshard-nn reshard-scalapack"
    build abi -DCMAKE_BUILD_TYPE=RelWithDebInfo -DRESHARD_MPI=ON -DRESHARD_NN=ON
    sh tools/abi.sh check "$dir/abi"
}

musl() { bash tests/big/port.sh musl "$dir/musl"; }
aarch64() { bash tests/big/port.sh aarch64 "$dir/aarch64"; }

debian() {
    local tool copy=$dir/debian/reshard
    for tool in dpkg-buildpackage dh lintian; do
        command -v $tool > /dev/null || { echo "debian: skipped: $tool not found; install debhelper, dpkg-dev and lintian"; return 77; }
    done
    rm -rf "$dir/debian"
    mkdir -p "$copy"
    git archive HEAD | tar x -C "$copy"
    (cd "$copy" && dpkg-buildpackage -us -uc) > "$dir/debian.log" 2>&1 || { tail -n 40 "$dir/debian.log"; return 1; }
    lintian --allow-root --fail-on error,warning,info -I "$dir"/debian/*.changes
}

bare() { bash tests/big/bare.sh; }

all="compilers asan tsan prop shortage fuzz mutants kill large hosts ceiling stopped engines cgroup digest ckpt dtensor gpt scalapack python abi musl aarch64 debian bare"
for section in ${@:-$all}; do
    [[ " $all " == *" $section "* ]] || { echo "bigtest: no section \"$section\"; there are $all" >&2; exit 2; }
done
skipped=
for section in ${@:-$all}; do
    echo "==== $section"
    began=$SECONDS
    # not in a condition, where set -e would be off inside the section
    set +e
    (set -e; $section)
    status=$?
    set -e
    case $status in
        0) echo "==== $section passed in $((SECONDS - began)) s" ;;
        77) echo "==== $section skipped"; skipped="$skipped $section" ;;
        *) echo "==== $section FAILED"; exit 1 ;;
    esac
done
[ -z "$skipped" ] || { echo "==== skipped:$skipped"; exit 77; }
