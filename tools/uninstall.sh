#!/bin/sh
# Uninstall: removes the files that CMake installed, and directories named reshard* that are then empty.
#
#   tools/uninstall.sh MANIFEST [DESTDIR]
#
# MANIFEST is install_manifest.txt in a build directory; it lists the files of the last installation from there.
set -eu
manifest=$1 root=${2:-}
[ -f "$manifest" ] || { echo "uninstall: $manifest does not exist; nothing was installed from that build directory" >&2; exit 1; }

each() { # each COMMAND: runs it for every file; the last line of a manifest has no newline
    while IFS= read -r file || [ -n "$file" ]; do "$1" "$root$file"; done < "$manifest"
}
drop_folders() { # removes empty directories, from that of the file up to the one whose name begins with reshard
    folder=${1%/*}
    while case $folder in */reshard*) true ;; *) false ;; esac; do
        rmdir "$folder" 2> /dev/null || return 0
        folder=${folder%/*}
    done
}
drop_file() { rm -f "$1"; }
each drop_file
each drop_folders
