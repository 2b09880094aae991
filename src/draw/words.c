/* Words: numbers and texts as pictures print them. */
#include "draw/impl.h"

#include <stdio.h>

void rshi_bytes_label(int64_t bytes, char label[RSHI_DRAW_LABEL]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double x = (double)bytes;
    int u = 0;
    for (; x >= 1024 && u < 6; u++) x /= 1024;
    snprintf(label, RSHI_DRAW_LABEL, u ? "%.1f %s" : "%.0f %s", x, units[u]);
}

static const char *entity(char c) {
    switch (c) {
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '&': return "&amp;";
    case '"': return "&quot;";
    default: return NULL;
    }
}

rsh_status rshi_sink_escaped(const rsh_sink *sink, const char *text) {
    for (; *text; text++) {
        char one[2] = {*text, '\0'};
        const char *safe = entity(*text);
        RSH_TRY(rshi_sink_text(sink, safe ? safe : one));
    }
    return RSH_OK;
}
