#!/bin/sh
# Checkers: makes a tree that follows all rules, and breaks one rule at a time; the checkers must report exactly that.
set -eu
root=$(pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

clean() {
    rm -rf "$tree"
    mkdir -p "$tree/src/base" "$tree/src/layout" "$tree/src/plan" "$tree/include/reshard" "$tree/cli" "$tree/tests/oracle" "$tree/tools"
    printf '# name | file | tests | expression\nother-size | src/base/alloc.c | . | s/malloc\\(1\\)/malloc(2)/\n' > "$tree/tools/mutants.txt"
    printf 'base:\nlayout: base\nplan: base layout\nmpi: layout\n' > "$tree/src/LAYERS"
    printf '#include <stdlib.h>\nvoid *door(void) { return malloc(1); }\n' > "$tree/src/base/alloc.c"
    printf '#include <reshard/layout.h>\n#include "base/base.h"\n#include "layout/impl.h"\n' > "$tree/src/layout/parse.c"
    printf '#include "layout/layout.h"\n/* malloc(1) is for others */\nconst char *t = "free(x)";\n' > "$tree/src/plan/pairs.c"
    printf '#include <reshard/status.h>\ntypedef struct rsh_layout rsh_layout;\n' > "$tree/include/reshard/layout.h"
    printf '#include <reshard.h>\n#include "verbs.h"\n' > "$tree/cli/verb.c"
    printf '\n' > "$tree/cli/verbs.h"
    printf '#include <stdint.h>\n' > "$tree/tests/oracle/oracle.c"
    printf '## The walk\n\n| | function | file | |\n|---|---|---|---|\n| 1 | `door` | base/alloc.c | |\n' > "$tree/ARCHITECTURE.md"
}

# breach CHECK FILE TEXT EXPECTED: appends TEXT to FILE; CHECK must fail and print EXPECTED.
breach() {
    clean
    mkdir -p "$tree/$(dirname "$2")"
    printf "$3\n" >> "$tree/$2"
    if said=$(python3 "$root/tools/"$1 "$tree"); then
        echo "$1 does not object to '$3' in $2"
        failed=1
    elif ! printf '%s\n' "$said" | grep -qF "$4"; then
        echo "$1, for '$3' in $2, does not say '$4' but '$said'"
        failed=1
    fi
}

clean
for check in check_layers.py check_length.py "check_tree.py names" "check_tree.py types" "check_tree.py strays" "check_tree.py tags" "check_tree.py options" "check_tree.py walk" "check_tree.py paths" "check_tree.py breaks"; do
    python3 "$root/tools/"$check "$tree" > /dev/null || { echo "$check objects to a clean tree"; failed=1; }
done

layers=check_layers.py
breach $layers src/LAYERS 'tensor: shard' 'lists shard, which must be on a line above it'
breach $layers src/attic/box.c 'int x;' 'attic is not in src/LAYERS'
breach $layers src/layout/parse.c '#include "plan/plan.h"' 'layout may not include headers of plan'
breach $layers src/layout/parse.c '#include <reshard/plan.h>' 'layout may not include headers of plan'
breach $layers src/layout/parse.c '#include <reshard.h>' 'not <reshard.h>'
breach $layers src/layout/parse.c '#include "impl.h"' 'must begin with a directory of src/'
breach $layers src/plan/pairs.c '#include "layout/impl.h"' 'may include only layout/layout.h of layout'
breach $layers src/plan/pairs.c '#include <mpi.h>' 'src/plan/pairs.c:4: only src/mpi/comm_mpi.c may include <mpi.h>'
breach $layers src/mpi/comm_mpi.c '#include "layout/layout.h"' 'only public headers and its own files'
breach $layers src/plan/pairs.c 'void *f(void) { return calloc (1, 1); }' 'calloc: memory must be allocated'
breach $layers src/plan/pairs.c 'void g(void *p) { if (p) free(p); }' 'free: memory must be allocated'
breach $layers include/reshard/layout.h '#include <reshard/plan.h>' 'layout may not include headers of plan'
breach $layers include/reshard/layout.h '#include "base/base.h"' 'public headers must use'
breach $layers cli/verb.c '#include "layout/layout.h"' 'only its own files and public headers'
breach $layers tests/oracle/oracle.c '#include <reshard/layout.h>' 'may not include headers of the library'
breach "check_tree.py names" src/plan/parse.c 'int x;' 'parse.c: src/layout/parse.c, src/plan/parse.c'
breach "check_tree.py types" src/plan/pairs.c 'typedef struct thing rshi_layout;' 'named like the public type'
breach "check_tree.py strays" src/plan/pairs.c '/* TO''DO later */' 'src/plan/pairs.c:4'
breach "check_tree.py tags" include/reshard/layout.h '/* Frees it. */\nRSH_API void rsh_layout_free(rsh_layout *l);' 'rsh_layout_free is not documented as'
breach "check_tree.py options" include/reshard/layout.h 'typedef struct rsh_cut_opts {\n    int n;\n} rsh_cut_opts;' 'rsh_cut_opts does not begin with struct_size'
breach "check_tree.py options" include/reshard/layout.h 'typedef struct rsh_cut_opts {\n    size_t struct_size;\n} rsh_cut_opts;\n#define RSH_CUT_OPTS_INIT {0}' 'RSH_CUT_OPTS_INIT does not begin with sizeof(rsh_cut_opts)'
breach "check_tree.py walk" ARCHITECTURE.md '| 2 | `pairs` | plan/pairs.c | |' 'src/plan/pairs.c does not define pairs'
breach "check_tree.py walk" ARCHITECTURE.md '| 2 | `door` | plan/door.c | |' 'there is no src/plan/door.c'
breach "check_tree.py walk" ARCHITECTURE.md '| 3 | `door` | base/alloc.c | |' 'step 3 of the walk is row 2'
breach "check_tree.py walk" ARCHITECTURE.md '## A second walk' 'no table follows ## A second walk'
breach "check_tree.py paths" ARCHITECTURE.md 'See `src/plan/door.c`.' 'ARCHITECTURE.md: there is no src/plan/door.c'
breach "check_tree.py paths" include/reshard/layout.h '/* docs/layout.md has more. */' 'there is no docs/layout.md'
breach "check_tree.py breaks" tools/mutants.txt 'gone | src/base/alloc.c | . | s/calloc/malloc/' 'gone: changes 0 lines of src/base/alloc.c'
breach "check_tree.py breaks" tools/mutants.txt 'gone | src/base/door.c | . | s/a/b/' 'src/base/door.c'
breach check_length.py src/plan/long.c "$(seq -s '\n' 701)" 'src/plan/long.c: 701 lines'
breach check_length.py include/reshard/layout.h "/* $(printf '%097d' 0) */" '103 columns; the limit is 100'
breach check_length.py src/plan/wide.c "/* $(printf '%0117d' 0) */" '123 columns; the limit is 120'
exit $failed
