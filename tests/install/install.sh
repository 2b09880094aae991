#!/usr/bin/env bash
# Install: what a user gets.  Installs a build into a scratch folder, moves that, and builds and runs one program
# against it twice: with pkg-config and with find_package.
#
#   install.sh BUILD [CC]
set -euo pipefail
build=$1 cc=${2:-cc}
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
manifest=$build/install_manifest.txt # what `make uninstall` removes: that of the user's installation stays
if [ -e "$manifest" ]; then cp -p "$manifest" "$scratch/manifest"; fi
leave() {
    if [ -e "$scratch/manifest" ]; then cp -p "$scratch/manifest" "$manifest"; else rm -f "$manifest"; fi
    rm -rf "$scratch"
}
trap leave EXIT

quietly() { "$@" > "$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }; }

quietly cmake --install "$build" --prefix "$scratch/first"
grep -q "LD_LIBRARY_PATH=$scratch/first/" "$scratch/log" || { echo "installing does not say how the loader finds the library"; exit 1; }
mv "$scratch/first" "$scratch/prefix" # nothing in it may know where it was
prefix=$scratch/prefix

pc=$(find "$prefix" -name reshard.pc)
lib=${pc%/pkgconfig/reshard.pc}

for file in include/reshard.h include/reshard/shard.h include/reshard/torch.h include/reshard/torch/tensor.h "${lib#$prefix/}"/{libreshard.so,libreshard.a,cmake/reshard/reshard-config.cmake}; do
    [ -e "$prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done
for file in LICENSE README.md docs/notation.md examples/01_reshard.c examples/rules/hf-qwen.rules; do
    [ -e "$prefix/share/doc/reshard/$file" ] || { echo "not installed: share/doc/reshard/$file"; exit 1; }
done
if [ -x "$build/reshard" ]; then
    "$prefix/bin/reshard" --help > /dev/null || { echo "the installed command does not run"; exit 1; }
    for file in man/man1/reshard.1 man/man1/reshard-apply.1 man/man5/reshard-rules.5 man/man7/reshard-layout.7 bash-completion/completions/reshard zsh/site-functions/_reshard \
        fish/vendor_completions.d/reshard.fish; do
        [ -e "$prefix/share/$file" ] || { echo "not installed: share/$file"; exit 1; }
    done
fi

if command -v python3 > /dev/null; then # which makes the manual
    [ -e "$prefix/share/doc/reshard/manual.html" ] || { echo "not installed: share/doc/reshard/manual.html"; exit 1; }
    grep -q 'rsh_sharded_zeros' "$prefix/share/man/man3/rsh_sharded_empty.3" || { echo "rsh_sharded_empty(3) lacks a prototype"; exit 1; }
    grep -q 'so man3/rsh_sharded_empty.3' "$prefix/share/man/man3/rsh_sharded_zeros.3" || { echo "rsh_sharded_zeros(3) is no alias"; exit 1; }
fi

export PKG_CONFIG_PATH=$lib/pkgconfig
version=$(pkg-config --modversion reshard)
for package in reshard $([ ! -e "$lib/libreshard-nn.so" ] || echo reshard-nn); do
    found=$(cd "$(pkg-config --variable=prefix $package)" && pwd)
    [ "$found" = "$prefix" ] || { echo "$package.pc: prefix is $found, expected $prefix"; exit 1; }
done

# pkg-config, shared and static
$cc -std=c11 "$here/consumer.c" -o "$scratch/shared" $(pkg-config --cflags --libs reshard)
LD_LIBRARY_PATH=$lib "$scratch/shared" "$version"
$cc -std=c11 "$here/consumer.c" -o "$scratch/static" $(pkg-config --cflags reshard) \
    "$lib/libreshard.a" $(pkg-config --static --libs-only-l reshard | sed 's/-lreshard//') -pthread
"$scratch/static" "$version"

# libreshard-mpi, where it was built
if [ -e "$lib/libreshard-mpi.so" ]; then
    [ -e "$prefix/include/reshard/mpi.h" ] || { echo "not installed: include/reshard/mpi.h"; exit 1; }
    printf '#include <reshard/mpi_world.h>\nint main(void) { return !rsh_mpi_close; }\n' > "$scratch/world.c"
    $cc -std=c11 "$scratch/world.c" -o "$scratch/world" $(pkg-config --cflags --libs reshard-mpi)
    LD_LIBRARY_PATH=$lib "$scratch/world"
    ls "$lib"/libreshard-mpi-*.so.* > /dev/null || { echo "not installed: an engine of libreshard-mpi"; exit 1; }
fi

for file in reshard.f03 reshard_module.f90; do
    [ -e "$prefix/include/$file" ] || { echo "not installed: include/$file"; exit 1; }
done

# libreshard-scalapack, where it was built
if [ -e "$lib/libreshard-scalapack.so" ]; then
    printf '#include <reshard/scalapack.h>\nint main(void) { return rsh_scalapack_get_stats(0) != RSH_EVALUE; }\n' > "$scratch/stats.c"
    $cc -std=c11 "$scratch/stats.c" -o "$scratch/stats" $(pkg-config --cflags --libs reshard-scalapack)
    LD_LIBRARY_PATH=$lib "$scratch/stats"
elif [ -e "$prefix/include/reshard/scalapack.h" ]; then
    echo "installed without its library: include/reshard/scalapack.h"; exit 1
fi

# libreshard-nn, where it was built
if [ -e "$lib/libreshard-nn.so" ]; then
    [ -e "$prefix/include/reshard/nn/ops.h" ] || { echo "not installed: include/reshard/nn/ops.h"; exit 1; }
    printf '#include <reshard/nn.h>\nint main(void) { return rsh_nn_threads() != 1; }\n' > "$scratch/ops.c"
    $cc -std=c11 "$scratch/ops.c" -o "$scratch/ops" $(pkg-config --cflags --libs reshard-nn)
    LD_LIBRARY_PATH=$lib "$scratch/ops"
elif [ -e "$prefix/include/reshard/nn.h" ]; then
    echo "installed without its library: include/reshard/nn.h"; exit 1
fi

# find_package, shared and static
quietly cmake -S "$here" -B "$scratch/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc"
quietly cmake --build "$scratch/cmake"
"$scratch/cmake/consumer" "$version"
"$scratch/cmake/consumer-static" "$version"
