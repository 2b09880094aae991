#!/usr/bin/env bash
# Golden tests of the command.
#
#   run.sh COMMAND [--update] [NAME...]
#
# Each NAME.sh runs in its own scratch directory, with the command as `reshard` on the PATH.  Its output is compared with
# NAME.stdout and NAME.stderr, and its exit status with NAME.exit; missing files mean no output, and status 0.  In
# NAME.stdout.glob and NAME.stderr.glob a `*` matches any part of a line.  A case that exits with 77 is skipped; it prints
# the cause and the reason, one line each (see skip.sh).  --update records output that does not match, except in .glob files.
set -u
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
command=$(realpath "${1:?usage: run.sh COMMAND [--update] [NAME...]}")
shift
[ -x "$command" ] || { echo "run.sh: $command is not a command"; exit 1; }
update=
[ "${1:-}" = --update ] && update=yes && shift

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin"
ln -s "$command" "$scratch/bin/reshard"
PATH=$scratch/bin:$PATH

# Do the lines of file $1 match those of glob file $2?
matches() {
    local wanted got
    [ "$(wc -l < "$1")" = "$(wc -l < "$2")" ] || return 1
    while IFS= read -r wanted <&3 && IFS= read -r got <&4; do
        wanted=${wanted//\\/\\\\}
        wanted=${wanted//\[/\\[}
        wanted=${wanted//\?/\\?}
        # shellcheck disable=SC2053
        [[ $got == $wanted ]] || return 1
    done 3< "$2" 4< "$1"
}

# Compares what case $1 gave as $2 (stdout, stderr, exit) with its record, or records it.
check() {
    local got=$scratch/$1.$2 want=$here/$1.$2
    if [ -e "$want.glob" ]; then
        matches "$got" "$want.glob" && return 0
        want=$want.glob
    else
        [ -e "$want" ] || want=/dev/null
        cmp -s "$got" "$want" && return 0
        if [ $update ]; then
            [ -s "$got" ] && cp "$got" "$here/$1.$2" || rm -f "$here/$1.$2"
            echo "recorded $1.$2"
            return 0
        fi
    fi
    echo "--- $1: $2"
    diff "$want" "$got"
    return 1
}

run_case() {
    local status bad=0
    mkdir "$scratch/$1"
    (cd "$scratch/$1" && timeout 600 sh "$here/$1.sh" > "../$1.stdout" 2> "../$1.stderr" < /dev/null)
    status=$?
    if [ $status = 77 ]; then
        sh "$here/../skip.sh" "$(sed -n 1p "$scratch/$1.stdout")" "$1: $(sed 1d "$scratch/$1.stdout")"
        [ $? = 77 ] || return 1
        skipped=$((skipped + 1))
        return 0
    fi
    if [ $status = 0 ]; then : > "$scratch/$1.exit"; else echo $status > "$scratch/$1.exit"; fi
    for part in stdout stderr exit; do check "$1" $part || bad=1; done
    return $bad
}

failed=0
skipped=0
if [ $# = 0 ]; then
    for file in "$here"/*.sh; do
        name=$(basename "$file" .sh)
        [ "$name" = run ] || set -- "$@" "$name"
    done
fi
for name; do run_case "$name" || failed=$((failed + 1)); done
echo "$# cases, $failed failed, $skipped skipped"
[ $failed = 0 ] || exit 1
[ $skipped = 0 ] || exit 77
