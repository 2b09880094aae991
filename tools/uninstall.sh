#!/bin/sh
# Uninstall: remove the files that CMake installed, and the folders with our name that are empty then.
#
#   tools/uninstall.sh MANIFEST [DESTDIR]
#
# MANIFEST is the install_manifest.txt of a build folder, which lists what the last install from there wrote.
set -eu
manifest=$1 root=${2:-}
[ -f "$manifest" ] || { echo "uninstall: $manifest does not exist; nothing was installed from that folder" >&2; exit 1; }

each() { # each COMMAND: with every file as its argument; the last line of a manifest has no end
    while IFS= read -r file || [ -n "$file" ]; do "$1" "$root$file"; done < "$manifest"
}
drop_folders() { # from the file's own up to the one whose name begins with reshard
    folder=${1%/*}
    while case $folder in */reshard*) true ;; *) false ;; esac; do
        rmdir "$folder" 2> /dev/null || return 0
        folder=${folder%/*}
    done
}
drop_file() { rm -f "$1"; }
each drop_file
each drop_folders
