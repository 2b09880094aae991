#!/usr/bin/env bash
# Mutants: breaks the library one line at a time and requires that the tests notice.
#
#   mutants.sh [TABLE [NAME...]]      TABLE defaults to tools/mutants.txt; NAMEs run those breaks only
#
# Each break is made in a copy of the tree, built in one shared build folder and tested with the tests that its line of
# the table names.  A break that compiles and passes them, does not apply, or changes more or less than one line is a
# failure of this script.  MUTANTS_DIR keeps the copy between runs.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
table=${1:-$root/tools/mutants.txt}
[ $# -eq 0 ] || shift
jobs=${JOBS:-$(nproc)}
scratch=${MUTANTS_DIR:-$(mktemp -d)}
[ -n "${MUTANTS_DIR:-}" ] || trap 'rm -rf "$scratch"' EXIT
copy=$scratch/tree build=$scratch/build log=$scratch/log
export RESHARD_SEED=${RESHARD_SEED:-1}

trim() { sed 's/^ *//; s/ *$//' <<< "$1"; }

build_and_test() { # $1: pattern of test names; 0 passed, 1 tests failed, 2 did not build
    cmake --build "$build" -j"$jobs" > "$log" 2>&1 || return 2
    ctest --test-dir "$build" -R "$1" --timeout 120 --stop-on-failure --no-tests=error > "$log" 2>&1 || return 1
}

mkdir -p "$scratch"
rm -rf "$copy"
mkdir "$copy"
tar -C "$root" --exclude=./.git --exclude='./build*' -cf - . | tar -C "$copy" -xf -
cmake -S "$copy" -B "$build" -DCMAKE_BUILD_TYPE=Release -DRESHARD_TESTS=ON -DRESHARD_EXAMPLES=OFF -DRESHARD_BENCH=OFF > "$log"
if ! build_and_test .; then
    tail -n 30 "$log"
    echo "mutants: the tests fail on the unbroken tree"
    exit 1
fi

survived=0 count=0
while IFS='|' read -r name file tests break; do
    name=$(trim "$name") file=$(trim "$file") tests=$(trim "$tests") break=$(trim "$break")
    case $name in '' | '#'*) continue ;; esac
    if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
    count=$((count + 1))
    if [ ! -f "$copy/$file" ]; then
        verdict="NO SUCH FILE" survived=$((survived + 1))
    elif [[ $(ctest --test-dir "$build" -N -R "$tests") != *"Test "*"#"* ]]; then
        verdict="NO SUCH TESTS" survived=$((survived + 1))
    else
        cp -p "$copy/$file" "$scratch/original"
        sed -i -E -e "$break" "$copy/$file"
        changed=$(diff "$scratch/original" "$copy/$file" | grep -c '^>' || true)
        removed=$(diff "$scratch/original" "$copy/$file" | grep -c '^<' || true)
        result=0
        if [ "$changed,$removed" != 1,1 ]; then
            verdict="CHANGES $removed LINES TO $changed, not one" survived=$((survived + 1))
        else
            touch "$copy/$file"
            build_and_test "$tests" || result=$?
            case $result in
                0) verdict="SURVIVED" survived=$((survived + 1)) ;;
                1) verdict="caught by $(grep -m1 -oE '[0-9]+ - .*\(.*\)' "$log" | sed -E 's/^[0-9]+ - //' || echo a test)" ;;
                2) verdict="DOES NOT COMPILE" survived=$((survived + 1)) ;;
            esac
        fi
        cp "$scratch/original" "$copy/$file"
    fi
    printf '%-40s %-28s %s\n' "$name" "$file" "$verdict"
done < "$table"
echo "mutants: $count breaks, $((count - survived)) caught"
[ "$survived" -eq 0 ]
