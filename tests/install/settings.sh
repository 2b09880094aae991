#!/bin/sh
# Settings: `make` asks for tests in `make test` alone, whatever was asked before; a parent project keeps its build type and warnings;
# an MPI whose headers are not installed is left out.
#
#   settings.sh [CC]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
cc=${1:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "$1"; exit 1; }
unset MAKEFLAGS MAKELEVEL MFLAGS || true

asks() { make -C "$root" -n NO_SETUP=1 "$@" | grep -o 'RESHARD_TESTS=[A-Z]*' | sort -u | tr '\n' ' '; }
for target in all run bench install; do
    [ "$(asks $target)" = "RESHARD_TESTS=OFF " ] || fail "make $target asks for: $(asks $target)"
done
[ "$(asks test)" = "RESHARD_TESTS=ON " ] || fail "make test asks for: $(asks test)"

printf '%s\n' 'cmake_minimum_required(VERSION 3.22)' 'project(parent LANGUAGES C)' "add_subdirectory($root reshard)" \
    'file(WRITE ${CMAKE_BINARY_DIR}/type "${CMAKE_BUILD_TYPE}")' > "$scratch/CMakeLists.txt"
CFLAGS='' cmake -S "$scratch" -B "$scratch/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON > "$scratch/log" 2>&1 ||
    { cat "$scratch/log"; exit 1; }
[ ! -s "$scratch/build/type" ] || fail "a parent without a build type gets $(cat "$scratch/build/type")"
grep -q 'CMAKE_BUILD_TYPE:[A-Z]*=.' "$scratch/build/CMakeCache.txt" && fail "a build type is put into the parent's cache"
grep -q -- '-W' "$scratch/build/compile_commands.json" && fail "warnings are switched on in a parent project"
grep -q 'layout/parse.c' "$scratch/build/compile_commands.json" || fail "the library is no part of the parent's build"

# Packages that need an MPI to run install its compiler wrapper, but not mpi.h.
printf '%s\n' '#!/bin/sh' 'case $1 in -show) echo "cc -L/nowhere -lmpi" ;; *) exit 1 ;; esac' > "$scratch/mpicc"
chmod +x "$scratch/mpicc"
without_header() {
    CFLAGS='' cmake -S "$root" -B "$scratch/no-header" -DCMAKE_C_COMPILER="$cc" -DRESHARD_TESTS=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
        -DRESHARD_MPICC="$scratch/mpicc" -DRESHARD_MPICH_MPICC="$scratch/mpicc" "$@" > "$scratch/log" 2>&1
}
without_header || { cat "$scratch/log"; fail "a wrapper without mpi.h stops the build"; }
grep -q 'does not find mpi.h' "$scratch/log" || fail "nobody says that mpi.h is missing"
grep -q 'src/mpi/' "$scratch/no-header/compile_commands.json" && fail "an engine is built without mpi.h"
! without_header -DRESHARD_MPI=ON || fail "RESHARD_MPI=ON is accepted without mpi.h"

# What is missing is named, with the package to install.
without() { # without WORDS CMAKE-ARGUMENTS...: fails with these words
    words=$1
    shift
    CFLAGS='' cmake -S "$root" -B "$scratch/without" -DCMAKE_C_COMPILER="$cc" -DRESHARD_TESTS=OFF "$@" > "$scratch/log" 2>&1 &&
        fail "cmake succeeds with $*"
    tr -s ' \n' '  ' < "$scratch/log" | grep -q "$words" || { cat "$scratch/log"; fail "cmake $* does not say: $words"; }
}
without 'pkg-config not found: install it' -DPKG_CONFIG_EXECUTABLE="$scratch/no-pkg-config"
rm -rf "$scratch/without"
PKG_CONFIG_LIBDIR=$scratch/nowhere PKG_CONFIG_PATH= without 'jansson not found by pkg-config: install it'

# `make python` without headers of Python says what it needs.
printf '%s\n' '#!/bin/sh' 'exit 1' > "$scratch/python3"
chmod +x "$scratch/python3"
without_header -DRESHARD_MPI=OFF -DRESHARD_PYTHON_EXECUTABLE="$scratch/python3" || { cat "$scratch/log"; fail "a python3 that fails stops the build"; }
cmake --build "$scratch/no-header" --target python > "$scratch/log" 2>&1 && fail "the Python package is built without Python"
grep -q 'needs the headers of Python 3.11' "$scratch/log" || { cat "$scratch/log"; fail "make python does not say what it needs"; }

# Folders may have blanks in their names, and other users can enter them.
mkdir "$scratch/bin"
printf '%s\n' '#!/bin/sh' 'printf "<%s>" "$DESTDIR" "$@" "$(umask)"' > "$scratch/bin/cmake"
chmod +x "$scratch/bin/cmake"
installs() { (umask 077 && PATH=$scratch/bin:$PATH make -s -C "$root" -o all NO_SETUP=1 install "$@"); }
[ "$(installs PREFIX='/opt/my prefix' DESTDIR='/tmp/my stage')" = '</tmp/my stage><--install><build><--prefix></opt/my prefix><0022>' ] ||
    fail "make install with blanks calls cmake with $(installs PREFIX='/opt/my prefix' DESTDIR='/tmp/my stage')"
[ "$(installs PREFIX=here)" = "<><--install><build><--prefix><$(cd "$root" && pwd -P)/here><0022>" ] || fail "a relative PREFIX becomes $(installs PREFIX=here)"

# Ubuntu has no package chromium.
printf '%s\n' '#!/bin/sh' 'exit 1' > "$scratch/bin/dpkg-query"
printf '%s\n' '#!/bin/sh' 'echo 0' > "$scratch/bin/id"
printf '%s\n' '#!/bin/sh' 'exit 0' > "$scratch/bin/apt-get"
chmod +x "$scratch/bin"/*
echo 'ID=ubuntu' > "$scratch/ubuntu"
echo 'ID=debian' > "$scratch/debian"
missing() { OS_RELEASE=$scratch/$1 PATH=$scratch/bin:$PATH sh "$root/tools/setup.sh" test 2>&1; }
case $(missing ubuntu) in *' chromium'*) fail "on Ubuntu setup.sh installs chromium: $(missing ubuntu)" ;; *g++*) ;; *) fail "$(missing ubuntu)" ;; esac
case $(missing debian) in *' chromium'*) ;; *) fail "on Debian setup.sh leaves out chromium: $(missing debian)" ;; esac
