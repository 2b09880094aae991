#!/bin/sh
# Umbrella: the example at the top of <reshard.h> compiles without warnings and runs.
#   umbrella.sh ROOT BUILD CC
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -n '/^ \*     #include <reshard.h>/,/^ \*     int main/s/^ \*//p' "$1/include/reshard.h" > "$folder/example.c"
grep -q rsh_reshard "$folder/example.c"
"$3" -std=c11 -Wall -Wextra -Werror -Wno-unused-parameter -I"$1/include" "$folder/example.c" -o "$folder/example" \
    -L"$2" -Wl,-rpath,"$2" -lreshard
"$folder/example"
