/* Origin: the positions of a description's parts in its text, and errors that name the position. */
#include "layout/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PREFIX = 80 }; /* room for "layout:LINE:COLUMN: " and for "layout: segment 3 of dim 1: " */

/* Computes line and column, both counted from 1; `at` is a 1-based offset. */
static void line_and_column(const char *text, int at, int *line, int *column) {
    *line = *column = 1;
    for (int i = 0; i < at - 1; i++) {
        *column = text[i] == '\n' ? 1 : *column + 1;
        *line += text[i] == '\n';
    }
}

static void write_position(const rshi_text_origin *o, rshi_text_place place, char *out) {
    line_and_column(o->text, place.at, &o->error->line, &o->error->column);
    snprintf(out, PREFIX, "layout:%d:%d: ", o->error->line, o->error->column);
}

static void write_item(rshi_text_place place, char *out) {
    int n = snprintf(out, PREFIX, "layout: ");
    if (!place.noun) return;
    n += snprintf(out + n, (size_t)(PREFIX - n), "%s", place.noun);
    if (place.number >= 0) n += snprintf(out + n, (size_t)(PREFIX - n), " %" PRId64, place.number);
    if (place.dim >= 0) n += snprintf(out + n, (size_t)(PREFIX - n), " of dim %d", place.dim);
    snprintf(out + n, (size_t)(PREFIX - n), ": ");
}

rsh_status rshi_origin_fail(const rshi_text_origin *o, rshi_text_place place, rsh_status status, const char *format,
                            ...) {
    char prefix[PREFIX], sentence[RSHI_DETAIL_BYTES - PREFIX];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    if (o->text && place.at)
        write_position(o, place, prefix);
    else
        write_item(place, prefix);
    rshi_fail(status, "%s%s", prefix, sentence);
    if (o->error) o->error->sentence = rsh_error_detail() + strlen(prefix);
    return status;
}
