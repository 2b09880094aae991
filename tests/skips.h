/* skips: tests that cannot run on this machine or in this build.  cmocka counts them as neither
 * passed nor failed, so a program that has skipped one and failed none exits with 77, which ctest
 * reports as skipped. */
#ifndef RESHARD_TESTS_SKIPS_H
#define RESHARD_TESTS_SKIPS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "may_skip.h"

static int tests_skipped;

/* Skips the test that calls it. */
static inline void skip_test(const char *cause, const char *why) {
    if (!may_skip(cause))
        fail_msg("skipped (%s): %s; RESHARD_MAY_SKIP does not list it", cause, why);
    print_message("skipped (%s): %s\n", cause, why);
    tests_skipped++;
    skip();
}

/* The exit status of a program with this many failed tests. */
static inline int exit_status(int failed) { return failed ? 1 : tests_skipped ? EXIT_SKIPPED : 0; }

#endif
