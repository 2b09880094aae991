/* Text: formats and reads numbers independently of the locale, grows strings, and writes to sinks. */
#include "base/base.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers always have a decimal point ---- */

int rshi_text_format_list(char *text, size_t room, const char *format, va_list args) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = plain ? uselocale(plain) : (locale_t)0;
    int n = vsnprintf(text, room, format, args);
    if (plain) {
        uselocale(before);
        freelocale(plain);
    }
    return n;
}

int rshi_text_format(char *text, size_t room, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = rshi_text_format_list(text, room, format, args);
    va_end(args);
    return n;
}

double rshi_text_number(const char *text, char **end) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) return strtod(text, end);
    double value = strtod_l(text, end, plain);
    freelocale(plain);
    return value;
}

/* ---- a growing string ---- */

static bool reserve_text(rshi_text *t, size_t extra) {
    size_t need = t->length + extra + 1;
    if (need <= t->room) return true;
    size_t room = t->room ? t->room : 64;
    while (room < need) room *= 2;
    char *data = rshi_realloc(t->data, room, 1);
    if (!data) return false;
    t->data = data;
    t->room = room;
    return true;
}

void rshi_text_add(rshi_text *t, const char *format, ...) {
    if (t->failed) return;
    va_list args;
    va_start(args, format);
    int n = rshi_text_format_list(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || !reserve_text(t, (size_t)n)) {
        t->failed = true;
        return;
    }
    va_start(args, format);
    rshi_text_format_list(t->data + t->length, (size_t)n + 1, format, args);
    va_end(args);
    t->length += (size_t)n;
}

void rshi_text_free(rshi_text *t) {
    rshi_free(t->data);
    *t = (rshi_text){0};
}

/* ---- sinks ---- */

rsh_status rshi_sink_text(const rsh_sink *sink, const char *text) {
    size_t n = strlen(text);
    RSH_REQUIRE(!n || !sink->write(sink->ctx, text, n), RSH_EIO,
                "cannot write %zu bytes of text: the sink returned an error", n);
    return RSH_OK;
}

rsh_status rshi_sink_format(const rsh_sink *sink, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    int n = rshi_text_format_list(text, sizeof text, format, args);
    va_end(args);
    RSH_REQUIRE(n >= 0 && (size_t)n < sizeof text, RSH_EVALUE, "line of text is too long (at most %zu bytes)",
                sizeof text);
    return rshi_sink_text(sink, text);
}
