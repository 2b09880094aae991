/* Talk: sentences on stderr, and answers that must arrive. */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool quiet;

void be_quiet(void) { quiet = true; }
bool is_quiet(void) { return quiet; }

int fail(const char *format, ...) {
    va_list args;
    if (quiet) return FAILED;
    fputs("reshard: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return FAILED;
}

int fail_library(rsh_status status) {
    const char *detail = rsh_error_detail();
    return fail("%s", *detail ? detail : rsh_status_text(status));
}

/* A stdout that was never open is no loss as long as nothing was to be written there. */
void close_stdout(void) {
    bool lost = ferror(stdout);
    errno = 0;
    if (fflush(stdout) || (fclose(stdout) && errno != EBADF)) lost = true;
    if (!lost) return;
    fail("standard output: %s", errno ? strerror(errno) : "the answer was not written");
    _exit(FAILED);
}

int to_stream(void *stream, const char *text, size_t length) { return fwrite(text, 1, length, stream) != length; }

double clock_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
