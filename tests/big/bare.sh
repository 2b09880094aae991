#!/usr/bin/env bash
# Bare: runs the commands of the README, in order, in a chroot of Debian 12 with only git, make and gcc.
#
# The last commit is cloned into it.  The first configure happens without cmocka, python3 and an MPI; the second, by plain cmake,
# with cmocka alone.  Everything is mounted in a separate namespace, so that nothing stays mounted.  BARE_MIRROR
# names a mirror (default: the mirror of the machine); the machine's settings of apt, including proxies, are used too.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
[ "$(id -u)" = 0 ] || { echo "bare: skipped: a chroot takes root"; exit 77; }
command -v debootstrap > /dev/null || { echo "bare: skipped: there is no debootstrap"; exit 77; }
unshare --mount --pid --fork true 2> /dev/null || { echo "bare: skipped: no namespaces can be made here"; exit 77; }

scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/reshard-bare.XXXXXX")
trap 'rm -rf --one-file-system "$scratch"' EXIT
bare=$scratch/debian
mirror=${BARE_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' 2> /dev/null | head -n 1 || true)}
eval "$(apt-config shell proxy Acquire::http::Proxy)"
[ -z "${proxy:-}" ] || export http_proxy=$proxy

timed() { # timed WHAT COMMAND...
    local what=$1 began=$SECONDS
    shift
    "$@" > "$scratch/log" 2>&1 || { tail -n 60 "$scratch/log"; echo "bare: $what FAILED after $((SECONDS - began)) s"; exit 1; }
    echo "bare: $what: $((SECONDS - began)) s"
}
inside() { # inside COMMAND: in the clone, as a user of that machine would type it
    unshare --mount --pid --fork --kill-child bash -euc '
        mount --make-rprivate /
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev"
        mount -t tmpfs -o mode=1777 shm "$1/dev/shm"
        exec chroot "$1" env -i HOME=/root PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin RESHARD_SEED="${RESHARD_SEED:-}" \
            bash -euc "cd /root/reshard && $2"' - "$bare" "$1"
}

timed "debootstrap" debootstrap --variant=minbase --include=git,make,gcc bookworm "$bare" "${mirror:-http://deb.debian.org/debian}"
apt-config dump Acquire > "$bare/etc/apt/apt.conf.d/90machine"
cp /etc/resolv.conf "$bare/etc/resolv.conf"
[ ! -e /etc/hosts ] || cp /etc/hosts "$bare/etc/hosts"
git clone --quiet "$root" "$bare/root/reshard"
: "${RESHARD_SEED:=$(date +%s)}"
export RESHARD_SEED
echo "bare: RESHARD_SEED=$RESHARD_SEED"

timed "make run" inside 'make run'
timed "cmake with cmocka, without python3" inside '
    if command -v python3; then exit 1; fi
    apt-get install -y --no-install-recommends libcmocka-dev
    cmake -S . -B /tmp/plain && cmake --build /tmp/plain --target test_parse && rm -rf /tmp/plain'
timed "make test" inside 'make test'
grep 'tests passed' "$scratch/log"
timed "make install, and a program that loads the library" inside '
    make install PREFIX=/usr/local
    version=$(pkg-config --modversion reshard)
    cc tests/install/consumer.c -o /tmp/consumer $(pkg-config --cflags --libs reshard)
    /tmp/consumer $version && reshard --help'
