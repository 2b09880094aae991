/* Ranks: sets of ranks as pictures need them, to be named and compared, not listed. */
#include "draw/impl.h"

#include <inttypes.h>
#include <stdio.h>

#define NAMED ((int64_t)(sizeof((rshi_ranks *)0)->first / sizeof(int64_t)))

void rshi_ranks_add(rshi_ranks *s, int64_t rank) {
    if (s->count && s->last == rank) return;
    s->consecutive = !s->count || (s->consecutive && rank == s->last + 1);
    if (s->count < NAMED) s->first[s->count] = rank;
    s->hash = rshi_hash(&rank, sizeof rank, s->hash);
    s->last = rank;
    s->count++;
}

bool rshi_ranks_equal(const rshi_ranks *a, const rshi_ranks *b) { return a->count == b->count && a->hash == b->hash; }

static void list(const rshi_ranks *s, char label[RSHI_DRAW_LABEL]) {
    int n = 0;
    for (int64_t i = 0; i < s->count && i < NAMED && n < RSHI_DRAW_LABEL; i++)
        n += snprintf(label + n, (size_t)(RSHI_DRAW_LABEL - n), "%s%" PRId64, i ? "," : "", s->first[i]);
    if (s->count > NAMED && n < RSHI_DRAW_LABEL)
        snprintf(label + n, (size_t)(RSHI_DRAW_LABEL - n), ",.. (%" PRId64 ")", s->count);
}

void rshi_ranks_label(const rshi_ranks *s, char label[RSHI_DRAW_LABEL]) {
    label[0] = '\0';
    if (s->consecutive && s->count > 2)
        snprintf(label, RSHI_DRAW_LABEL, "%" PRId64 "-%" PRId64, s->first[0], s->last);
    else
        list(s, label);
}
