#!/usr/bin/env bash
# Port: builds the library and its tests with another C library, or for another processor, and runs them.
#
#   port.sh musl FOLDER      musl-gcc; omits the command, which needs argp
#   port.sh aarch64 FOLDER   aarch64-linux-gnu-gcc; tests run under qemu-user
#
# The libraries that reshard needs, jansson and cmocka, are built from Debian's sources.  apt-get fetches them into FOLDER;
# the machine's own settings stay as they are.  RESHARD_CASES (20) is the number of random cases of each property.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
kind=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
prefix=$folder/prefix
jobs=${JOBS:-$(nproc)}

needs() { # needs PROGRAM PACKAGE
    command -v "$1" > /dev/null || { echo "$kind: skipped: $1 not found; install $2"; exit 77; }
}
logged() { # logged NAME COMMAND...
    local log=$folder/$1.log
    shift
    "$@" > "$log" 2>&1 || { tail -n 40 "$log"; echo "$kind: FAILED: $*"; exit 1; }
}

needs apt-get apt
needs dpkg-source dpkg-dev
case $kind in
    musl)
        needs musl-gcc musl-tools
        cat > "$folder/toolchain.cmake" <<END
set(CMAKE_C_COMPILER musl-gcc)
END
        rooms='|arena' left_out='^$'
        options="-DRESHARD_COMMAND=OFF" ;;
    aarch64)
        needs aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
        needs qemu-aarch64-static qemu-user-static
        # The compiler only recommends the C library's headers and startup files.
        [ -e "$(aarch64-linux-gnu-gcc -print-file-name=crti.o)" ] || { echo "$kind: skipped: crti.o not found; install libc6-dev-arm64-cross"; exit 77; }
        cat > "$folder/toolchain.cmake" <<END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu)
END
        export RESHARD_SIMD=generic
        # Tests of arenas need more address space than qemu supports, and the kernel cannot start programs of another processor.
        rooms= left_out=' on shm| on 3 processes|, avx2$'
        options="-DRESHARD_COMMAND=ON" ;;
    *) echo "port.sh musl | aarch64 FOLDER" >&2; exit 2 ;;
esac
cat >> "$folder/toolchain.cmake" <<END
set(CMAKE_FIND_ROOT_PATH $prefix)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
END

# A source package of this Debian, unpacked at $folder/NAME.
source_of() {
    local sources=$folder/apt
    [ ! -d "$folder/$1" ] || return 0
    if [ ! -d "$sources/lists" ]; then
        mkdir -p "$sources/lists/partial" "$sources/parts"
        for file in /etc/apt/sources.list.d/*.sources; do
            [ ! -e "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" > "$sources/parts/${file##*/}"
        done
        [ ! -e /etc/apt/sources.list ] || sed -n 's/^deb /deb-src /p' /etc/apt/sources.list > "$sources/parts/all.list"
        logged apt-update apt-get -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$sources/parts" \
            -o Dir::State::Lists="$sources/lists" update
    fi
    (cd "$folder" && logged "apt-$1" apt-get -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$sources/parts" \
        -o Dir::State::Lists="$sources/lists" --download-only source "$1")
    logged "unpack-$1" dpkg-source --no-check -x "$folder/$1"_*.dsc "$folder/$1"
}
dependency() { # dependency NAME CMAKE-ARGUMENTS...
    local name=$1
    shift
    [ ! -e "$folder/$name.done" ] || return 0
    source_of "$name"
    logged "$name-configure" cmake -S "$folder/$name" -B "$folder/build-$name" -DCMAKE_TOOLCHAIN_FILE="$folder/toolchain.cmake" \
        -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_BUILD_TYPE=Release "$@"
    logged "$name-build" cmake --build "$folder/build-$name" -j"$jobs" --target install
    touch "$folder/$name.done"
}
dependency jansson -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF -DJANSSON_BUILD_SHARED_LIBS=ON
dependency cmocka -DWITH_EXAMPLES=OFF -DUNIT_TESTING=OFF
mkdir -p "$prefix/include"
cp /usr/include/xxhash.h "$prefix/include/" # a header that needs nothing of its system

export PKG_CONFIG_LIBDIR=$prefix/lib/pkgconfig
logged configure cmake -S "$root" -B "$folder/reshard" -DCMAKE_TOOLCHAIN_FILE="$folder/toolchain.cmake" -DCMAKE_BUILD_TYPE=Release \
    -DRESHARD_WERROR=ON -DRESHARD_TESTS=ON -DRESHARD_BENCH=OFF -DRESHARD_MPI=OFF -DRESHARD_NN=OFF -DRESHARD_PYTHON=OFF $options \
    ${CMAKE_C_COMPILER_LAUNCHER:+-DCMAKE_C_COMPILER_LAUNCHER=$CMAKE_C_COMPILER_LAUNCHER}
logged build cmake --build "$folder/reshard" -j"$jobs"
# qemu keeps tables of all reserved addresses, and an arena reserves as much as it can, up to 1 TiB.
[ $kind != aarch64 ] || ulimit -v 8388608
RESHARD_CASES=${RESHARD_CASES:-20} ctest --test-dir "$folder/reshard" --output-on-failure --no-tests=error -j"$jobs" --timeout 1800 \
    -L "^(base|copy|examples|layout|plan|prop|shard|simd|spec|tensor$rooms)\$" -E "$left_out" -LE fortran # whose compiler is for this machine
