/* Output: writes diagnostics to stderr and answers to stdout, and reports if stdout cannot be written.
 *
 * Both streams are replaced.  Diagnostics and answers contain arguments and names from files, so control characters are
 * escaped on their way to a terminal.  The first error of writing to stdout is kept. */
#include "cli.h"
#include "interrupt.h"
#include "progress.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool quiet;
static bool stuck; /* this rank has waited for another one in vain */
static bool to_terminal, in_colour; /* of stdout */
static int lost; /* errno of the first failed write to stdout; 0: none */

void be_quiet(void) { quiet = true; }
bool is_quiet(void) { return quiet; }

/* ---- the streams ---- */

static bool write_all(int fd, const char *data, size_t bytes) {
    while (bytes) {
        ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        data += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* Returns the length of the printable UTF-8 character at `p`; 0: it is a control character or invalid UTF-8. */
static size_t printable(const unsigned char *p, size_t left) {
    size_t n = *p < 0x80 ? 1 : *p < 0xc2 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : *p < 0xf5 ? 4 : 0;
    if (!n || n > left || (n == 1 && ((*p < ' ' && *p != '\n') || *p == 0x7f))) return 0;
    if (n == 2 && *p == 0xc2 && p[1] < 0xa0) return 0; /* C1 control characters */
    for (size_t i = 1; i < n; i++)
        if (p[i] >> 6 != 2) return 0;
    return n;
}

size_t spell(const char *text, size_t length, char *out, size_t room) {
    const unsigned char *p = (const unsigned char *)text, *end = p + length;
    size_t n = 0;
    while (p < end && n + 5 < room) {
        size_t step = printable(p, (size_t)(end - p));
        if (step)
            memcpy(out + n, p, step), n += step;
        else
            n += (size_t)snprintf(out + n, 5, "\\x%02x", *p);
        p += step ? step : 1;
    }
    out[n] = '\0';
    return (size_t)(p - (const unsigned char *)text);
}

void print_name(const char *name, size_t most, size_t width) {
    char text[1024];
    size_t n = 0, left = strnlen(name, most);
    while (left) {
        size_t line = strcspn(name, "\n"), step = line < left ? line : left;
        step = step ? spell(name, step, text, sizeof text) : (strcpy(text, "\\x0a"), 1);
        n += (size_t)printf("%s", text);
        name += step;
        left -= step;
    }
    if (n < width) printf("%*s", (int)(width - n), "");
}

static bool write_spelled(int fd, const char *data, size_t bytes) {
    char line[1024];
    for (size_t done = 0; done < bytes;) {
        done += spell(data + done, bytes - done, line, sizeof line);
        if (!write_all(fd, line, strlen(line))) return false;
    }
    return true;
}

static ssize_t put_diagnostics(void *cookie, const char *data, size_t bytes) {
    (void)cookie;
    return write_spelled(STDERR_FILENO, data, bytes) ? (ssize_t)bytes : 0;
}

/* Writes an answer; bytes that do not go to a terminal are not escaped. */
static ssize_t put_answer(void *cookie, const char *data, size_t bytes) {
    (void)cookie;
    if ((to_terminal && !in_colour ? write_spelled : write_all)(STDOUT_FILENO, data, bytes)) return (ssize_t)bytes;
    if (!lost) lost = errno;
    return 0;
}

void answer_in_colour(void) { in_colour = true; }

void open_output(void) {
    FILE *answers = fopencookie(NULL, "w", (cookie_io_functions_t){.write = put_answer});
    FILE *diagnostics = fopencookie(NULL, "w", (cookie_io_functions_t){.write = put_diagnostics});
    if (!answers || !diagnostics) return;
    to_terminal = isatty(STDOUT_FILENO);
    setvbuf(answers, NULL, to_terminal ? _IOLBF : _IOFBF, BUFSIZ);
    setvbuf(diagnostics, NULL, _IOLBF, BUFSIZ);
    stdout = answers;
    stderr = diagnostics;
}

/* Closes stdout.  A stdout that is already closed is not an error if nothing was written to it. */
void close_stdout(void) {
    fflush(stdout);
    if (!lost && close(STDOUT_FILENO) && errno != EBADF) lost = errno;
    if (lost) fail("standard output: %s", strerror(lost));
    fflush(stderr);
    if (lost) _exit(FAILED);
}

/* ---- messages ---- */

static void print_message(const char *format, va_list args) {
    if (quiet) return;
    progress_clear();
    fputs("reshard: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

int fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    print_message(format, args);
    va_end(args);
    interrupt_speaks(false);
    return FAILED;
}

void note(const char *format, ...) {
    va_list args;
    va_start(args, format);
    print_message(format, args);
    va_end(args);
}

bool rank_is_stuck(void) { return stuck; }

/* Usually only rank 0 prints errors.  After a timeout this rank prints its error too, because rank 0 may be the missing
 * rank. */
int fail_library(rsh_status status) {
    if (status == RSH_ETIMEOUT) {
        stuck = true;
        quiet = false;
    }
    const char *detail = rsh_error_detail();
    return fail("%s", *detail ? detail : rsh_status_text(status));
}

rsh_status sentence(rsh_status status, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return rsh_fail(status, text);
}

int to_stream(void *stream, const char *text, size_t length) { return fwrite(text, 1, length, stream) != length; }

double clock_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
