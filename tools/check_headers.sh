#!/bin/sh
# Headers: checks that each public header compiles alone, as C and as C++, and uses no internal names.  Also checks that
# <reshard.h> includes the headers of the core, <reshard/train.h> those for training, <reshard/torch.h> those of the
# PyTorch API, and <reshard/nn.h> those of libreshard-nn.
#
# The headers of libreshard-mpi and libreshard-scalapack are in none of these.  <reshard/mpi.h> is checked only if MPI_FLAGS give the
# include directory of an MPI.
#
#   check_headers.sh [ROOT [CC [CXX [MPI_FLAGS]]]]
set -u
root=${1:-.} cc=${2:-cc} cxx=${3:-c++} mpi=${4:-}
failed=0

fail() {
    echo "$1"
    failed=1
}

cd "$root/include" || exit 2
for header in reshard.h reshard/*.h reshard/torch/*.h reshard/nn/*.h; do
    flags=
    if [ "$header" = reshard/mpi.h ]; then
        [ -n "$mpi" ] || continue
        flags="$mpi -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -Wno-pedantic -Wno-unused-parameter"
    fi
    for try in "$cc -x c -std=c11" "$cxx -x c++ -std=c++11"; do
        printf '#include <%s>\n#include <%s>\n' "$header" "$header" |
            $try -I. -Wall -Wextra -Wpedantic -Werror $flags -fsyntax-only - || fail "$header: does not compile with $try"
    done
    if grep -n 'rshi_\|RSHI_' "$header"; then fail "$header: uses an internal name (rshi_ or RSHI_)"; fi
    case $header in
        reshard.h | reshard/mpi* | reshard/scalapack.h | reshard/train.h | reshard/torch.h | reshard/nn.h) continue ;;
        reshard/grad.h | reshard/mesh.h | reshard/dtensor.h | reshard/rule.h | reshard/stash.h) whole=reshard/train.h ;;
        reshard/torch/*) whole=reshard/torch.h ;;
        reshard/nn/*) whole=reshard/nn.h ;;
        *) whole=reshard.h ;;
    esac
    grep -q "#include <$header>" $whole || fail "$whole: does not include <$header>"
done
exit $failed
