#!/bin/sh
# Setup: installs the missing Debian packages that a target of the Makefile needs.
#
#   tools/setup.sh build | test | python | ci | bench | bigtest ...
#
# Prints nothing if no package is missing.  Without root and sudo it prints the command to run, and fails.  On systems
# without dpkg it only checks that cmake is installed.
set -eu

packages=
for group; do
    case $group in
        build) packages="$packages libc6-dev cmake pkg-config libjansson-dev libxxhash-dev" ;;
        test) packages="$packages g++ gfortran python3 groff locales zsh fish libcmocka-dev openmpi-bin libopenmpi-dev libscalapack-openmpi-dev libopenblas-dev chromium" ;;
        python) packages="$packages python3-dev python3-numpy python3-pytest python3-pip python3-venv python3-wheel python3-build" ;;
        ci) packages="$packages python3-torch python3-mpi4py" ;;
        bench) packages="$packages libopenmpi-dev openmpi-bin libscalapack-mpi-dev libfftw3-mpi-dev libfftw3-dev libopenblas-dev python3-torch python3-numpy python3-dev python3-mpi4py iproute2" ;;
        bigtest) packages="$packages clang libclang-rt-14-dev libopenmpi-dev openmpi-bin mpich libmpich-dev libscalapack-mpich-dev iproute2 debootstrap
            abigail-tools xz-utils musl-tools gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static dpkg-dev debhelper lintian" ;;
        *) echo "setup: unknown group \"$group\"; expected build, test, python, ci, bench or bigtest" >&2; exit 2 ;;
    esac
done

if ! command -v dpkg-query > /dev/null; then
    command -v cmake > /dev/null || { echo "setup: cmake not found; install the equivalents of these Debian packages:$packages" >&2; exit 1; }
    exit 0
fi

# Ubuntu has Chromium as a snap only; without a browser the tests of pages in one are skipped.
if grep -qx 'ID=ubuntu' "${OS_RELEASE:-/etc/os-release}" 2> /dev/null; then
    packages=$(echo " $packages " | sed 's/ chromium / /')
fi

missing=
for package in $packages; do
    case $(dpkg-query -W -f '${Status}' "$package" 2> /dev/null || true) in
        *"ok installed") ;;
        *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo > /dev/null && sudo -n true 2> /dev/null; then
    as_root=sudo
else
    echo "setup: packages are missing; run" >&2
    echo "    sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 1
fi

echo "setup: installing$missing" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { $as_root env DEBIAN_FRONTEND=noninteractive apt-get update &&
       $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } > "$log" 2>&1; then
    tail -n 30 "$log" >&2
    echo "setup: apt-get failed; its last lines are above" >&2
    exit 1
fi
