#!/bin/sh
# Lonely: what libreshard-scalapack says where it cannot help, and that it ends the program.
#
#   lonely.sh PROGRAM
set -u
check() { # check ARGUMENT SENTENCE
    if said=$("$1" "$2" 2>&1); then echo "$2: the program did not fail"; exit 1; fi
    case $said in *"$3"*) ;; *) echo "$2: expected \"$3\", got: $said"; exit 1 ;; esac
}
check "$1" 64 'libreshard-scalapack: pdgemr2d_: expected a ScaLAPACK with 32-bit integers, found one with 64-bit integers'
check "$1" unsupported 'libreshard-scalapack: pdgemr2d_: reshard does not support this call, and no ScaLAPACK is loaded'
