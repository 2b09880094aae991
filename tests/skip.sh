#!/bin/sh
# Skip: what a test does that this machine or build cannot run.  It says why and exits with 77, which ctest reports as skipped.
#
#   skip.sh CAUSE WHY
#
# RESHARD_MAY_SKIP lists the causes that are accepted, by their words, as in "root terminal"; if it is set, any other cause is
# a failure.  Unset: every cause is accepted.
case " ${RESHARD_MAY_SKIP-$1} " in
    *" $1 "*) echo "skipped ($1): $2"; exit 77 ;;
esac
echo "FAILED: skipped ($1): $2; RESHARD_MAY_SKIP does not list it"
exit 1
