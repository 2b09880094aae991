/* Words: formats sets of ranks, numbers and texts for pictures. */
#include "draw/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LISTED 4 /* limit of ranks in a label */

void rshi_ranks_add(rshi_ranks *s, int64_t rank) {
    if (s->count && s->last == rank) return;
    if (s->count < RSHI_RANKS_NAMED) s->first[s->count] = rank;
    s->hash = rshi_hash(&rank, sizeof rank, s->hash);
    s->last = rank;
    s->count++;
}

bool rshi_ranks_equal(const rshi_ranks *a, const rshi_ranks *b) { return a->count == b->count && a->hash == b->hash; }

static void list_label(const rshi_ranks *s, char label[RSHI_DRAW_LABEL]) {
    int n = 0;
    for (int64_t i = 0; i < s->count && i < LISTED && n < RSHI_DRAW_LABEL; i++)
        n += snprintf(label + n, (size_t)(RSHI_DRAW_LABEL - n), "%s%" PRId64, i ? "," : "", s->first[i]);
    if (s->count > LISTED && n < RSHI_DRAW_LABEL)
        snprintf(label + n, (size_t)(RSHI_DRAW_LABEL - n), ",.. (%" PRId64 ")", s->count);
}

void rshi_ranks_label(const rshi_ranks *s, char label[RSHI_DRAW_LABEL]) {
    bool consecutive = s->last - s->first[0] + 1 == s->count; /* ranks are ascending */
    label[0] = '\0';
    if (consecutive && s->count > 2)
        snprintf(label, RSHI_DRAW_LABEL, "%" PRId64 "-%" PRId64, s->first[0], s->last);
    else
        list_label(s, label);
}

void rshi_layout_shown(const rsh_layout *l, char text[RSHI_LAYOUT_SHOWN]) {
    const char *whole = rsh_layout_text(l);
    size_t length = strlen(whole);
    if (length < RSHI_LAYOUT_SHOWN)
        memcpy(text, whole, length + 1);
    else
        rshi_text_format(text, RSHI_LAYOUT_SHOWN, "%.*s ... (%zu letters)", RSHI_LAYOUT_SHOWN - 64, whole, length);
}

void rshi_bytes_label(int64_t bytes, char label[RSHI_DRAW_LABEL]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double x = (double)bytes;
    int u = 0;
    for (; x >= 1024 && u < 6; u++) x /= 1024;
    rshi_text_format(label, RSHI_DRAW_LABEL, u ? "%.1f %s" : "%.0f %s", x, units[u]);
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
