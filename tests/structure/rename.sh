#!/bin/sh
# Rename: an old program compiles after tools/rename-0.1.0.sh, which changes whole names only, and nothing a second time.
#   rename.sh CC
set -eu
root=$(pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
r=rsh_ # old names are put together, since this file is searched for them too
fail() { echo "$*"; exit 1; }

mkdir -p "$tree/a folder"
program="$tree/a folder/program.c"
cp tests/structure/old_program.before "$program"
printf "${r}rules" > "$tree/no_newline.md"
printf "${r}rules\n" > "$tree/CHANGELOG.md"
printf "${r}rules\\0\n" > "$tree/data.bin"

sh tools/rename-0.1.0.sh --check "$tree" > "$tree/log" && fail "--check finds nothing in an old program"
cmp -s tests/structure/old_program.before "$program" || fail "--check changes a file"
grep -qF "a folder/program.c:9: ${r}call_out is now rsh_call_set_output" "$tree/log" || fail "--check does not say where"
rm "$tree/log"
sh tools/rename-0.1.0.sh "$tree"
"$1" -std=c11 -Wall -Werror -fsyntax-only -I"$root/include" "$program"
grep -qF 'rsh_locale and my_rsh_local are not rsh_local_exec' "$program" || fail "a part of a name was renamed"
grep -qF '(comm, 2, (const int64_t[]){2, rsh_comm_nnodes(comm)}, NULL, names, out)' "$program" || fail "NULL is misplaced"
grep -qF 'rsh_comm_agree(rsh_group_comm(rsh_group_default()), st)' "$program" || fail "the group has no comm"
grep -qF 'rsh_exec_stats stats = RSH_EXEC_STATS_INIT, again = RSH_EXEC_STATS_INIT;' "$program" || fail "stats have no size"
grep -qF 'rsh_plan_totals totals = RSH_PLAN_TOTALS_INIT;' "$program" || fail "totals have no size"
grep -qF 'static bool partly;' "$program" || fail "a variable was taken for a member"
[ "$(cat "$tree/no_newline.md"; echo .)" = "rsh_ckpt_rules." ] || fail "a newline was added at the end of a file"
[ "$(cat "$tree/CHANGELOG.md")" = ${r}rules ] || fail "CHANGELOG.md was changed"
printf "${r}rules\\0\n" | cmp -s - "$tree/data.bin" || fail "a binary file was changed"
sh tools/rename-0.1.0.sh --check "$tree" || fail "old names are left"
cp "$program" "$tree/once"
sh tools/rename-0.1.0.sh "$tree"
cmp -s "$program" "$tree/once" || fail "a second run changes the program again"

sh tools/rename-0.1.0.sh --list | while read -r old new; do
    if sh tools/rename-0.1.0.sh --list | grep -q "^$new "; then echo "$old becomes $new, which is an old name itself"; fi
done > "$tree/loops"
[ ! -s "$tree/loops" ] || fail "$(cat "$tree/loops")"
sh tools/rename-0.1.0.sh --check include src cli examples docs bench tests tools
