#!/bin/sh
# Skip: for tests that cannot run on this machine or in this build.  Prints the reason and exits with 77, which ctest reports as skipped.
#
#   skip.sh CAUSE WHY
#
# RESHARD_MAY_SKIP lists the accepted causes, separated by blanks, such as "root terminal".  If it is set, any other cause is a
# failure.  If it is unset, every cause is accepted.
case " ${RESHARD_MAY_SKIP-$1} " in
    *" $1 "*) echo "skipped ($1): $2"; exit 77 ;;
esac
echo "FAILED: skipped ($1): $2; RESHARD_MAY_SKIP does not list it"
exit 1
