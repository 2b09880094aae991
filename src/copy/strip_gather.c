/* Gather: collects strips of short rows that are consecutive in the destination in a tile, and writes whole lines. */
#include "copy/impl.h"

#include <string.h>

#define SHORT_RUN 256  /* bytes: longer rows are streamed one by one */
#define MOST      1024 /* bytes: larger strips are not collected */

_Static_assert(RSHI_GATHER_ROOM >= MOST + RSHI_LINE, "a strip must fit behind a nearly full tile");

bool rshi_gather_takes(const rshi_strip *r) {
    return r->run < SHORT_RUN && r->run % RSHI_LINE && r->dr == r->run && (int64_t)r->rows * r->run <= MOST;
}

void rshi_gather_end(rshi_gather *g) {
    if (g->to > g->from)
        rshi_rows_copy(true, 1, g->to - g->from, g->dst + g->from, 0, g->tile + g->from, 0);
    g->from = g->to = 0;
    g->dst = NULL;
}

/* Writes whole lines; an incomplete line waits for the next strip. */
static void write_lines(rshi_gather *g) {
    size_t lines = g->to - g->to % RSHI_LINE;
    rshi_rows_copy(true, 1, lines - g->from, g->dst + g->from, 0, g->tile + g->from, 0);
    memcpy(g->tile, g->tile + lines, RSHI_LINE);
    g->dst += lines;
    g->from = 0;
    g->to -= lines;
}

void rshi_gather_add(rshi_gather *g, const rshi_strip *r, char *dst, const char *src) {
    char *to = dst + r->dst;
    if (!g->dst || g->dst + g->to != to) {
        rshi_gather_end(g);
        g->from = g->to = (uintptr_t)to % RSHI_LINE;
        g->dst = to - g->from;
    }
    rshi_rows_copy(false, r->rows, (size_t)r->run, g->tile + g->to, r->run, src + r->src, r->sr);
    g->to += (size_t)r->rows * (size_t)r->run;
    if (g->to >= RSHI_GATHER_TILE) write_lines(g);
}
