"""Skips: parts of a test that cannot run on this machine.  A script that has skipped one and failed none exits with 77, which
ctest reports as skipped.

RESHARD_MAY_SKIP lists the accepted causes, separated by blanks, such as "root terminal".  If it is set, any other cause is a
failure.  If it is unset, every cause is accepted.
tests/skip.sh is the same for shell scripts.
"""
import os
import re

EXIT_SKIPPED = 77
accepted = refused = 0


def skip(cause, why):
    global accepted, refused
    listed = os.environ.get("RESHARD_MAY_SKIP")
    if listed is None or cause in listed.split():
        accepted += 1
        print(f"skipped ({cause}): {why}", flush=True)
    else:
        refused += 1
        print(f"FAILED: skipped ({cause}): {why}; RESHARD_MAY_SKIP does not list it", flush=True)


def exit_status(failures):
    """The exit status of a script with this many failures."""
    return 1 if failures or refused else EXIT_SKIPPED if accepted else 0


def is_sanitized(program):
    """Was a program built with a sanitizer, which needs address space and time of its own?"""
    with open(program, "rb") as file:
        return re.search(rb"__[at]san_init", file.read()) is not None


def has_terminals():
    """Can a terminal be opened?  Not without /dev/pts."""
    try:
        for fd in os.openpty():
            os.close(fd)
        return True
    except OSError:
        return False
