/* Status: names, texts and the calling thread's last sentence. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>

#define STRING_(x) #x
#define STRING(x) STRING_(x)

static _Thread_local char detail[RSHI_DETAIL_BYTES];
static _Thread_local uint64_t sentences; /* that stood in it so far */

const char *rsh_version(void) {
    return STRING(RSH_VERSION_MAJOR) "." STRING(RSH_VERSION_MINOR) "." STRING(RSH_VERSION_PATCH);
}

const char *rsh_status_name(rsh_status status) {
    switch (status) {
#define NAME(name, number, text)                                                                   \
    case RSH_##name:                                                                               \
        return "RSH_" #name;
        RSH_STATUS_MAP(NAME)
#undef NAME
    }
    return "RSH_?";
}

const char *rsh_status_text(rsh_status status) {
    switch (status) {
#define TEXT(name, number, text)                                                                   \
    case RSH_##name:                                                                               \
        return text;
        RSH_STATUS_MAP(TEXT)
#undef TEXT
    }
    return "unknown status";
}

const char *rsh_error_detail(void) { return detail; }

rsh_status rshi_fail(rsh_status status, const char *format, ...) {
    char text[RSHI_DETAIL_BYTES]; /* the arguments may point into `detail` */
    va_list args;
    va_start(args, format);
    rshi_text_format_list(text, sizeof text, format, args);
    va_end(args);
    rshi_set_detail(text);
    return status;
}

rsh_status rsh_fail(rsh_status status, const char *sentence) {
    RSH_NEEDS(sentence);
    RSH_REQUIRE(status > RSH_OK && status <= RSH_EBUSY, RSH_EVALUE, "%d is not the status of a failure", (int)status);
    return rshi_fail(status, "%s", sentence);
}

void rshi_set_detail(const char *text) {
    size_t n = strnlen(text, sizeof detail - 1);
    memmove(detail, text, n);
    detail[n] = '\0';
    sentences++;
}

uint64_t rshi_sentences(void) { return sentences; }
