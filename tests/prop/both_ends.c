/* Both ends: lists the transfers between two ranks as lines of numbers, sorted, so that both ends can be compared. */
#include "both_ends.h"

#include <stdlib.h>
#include <string.h>

typedef struct line_end {
    int64_t part, kind, first[RSH_MAX_NDIM], step[RSH_MAX_LOOPS];
} line_end;

/* Everything that both ends of a transfer must have in common, for one of its sources. */
typedef struct line {
    int64_t fact[8], n[RSH_MAX_LOOPS], dim[RSH_MAX_LOOPS];
    line_end src, dst;
} line;

static line_end line_end_of(const rsh_transfer *t, const rsh_transfer_end *end) {
    line_end e = {.part = end->part, .kind = end->in_dst + 2 * end->in_scratch + 4 * end->flat};
    for (int d = 0; d < (end->flat ? 1 : t->ndim); d++) e.first[d] = end->first[d];
    for (int l = 0; l < t->nloops; l++) e.step[l] = end->step[l];
    return e;
}

static line line_of(const rsh_transfer *t, const rsh_transfer_end *src) {
    line w = {.fact = {t->stage, t->nloops, t->count, t->element_bytes, t->from, t->to, t->op, t->divisor},
              .src = line_end_of(t, src),
              .dst = line_end_of(t, &t->dst)};
    for (int l = 0; l < t->nloops; l++) w.n[l] = t->n[l], w.dim[l] = t->dim[l];
    return w;
}

static int compare_lines(const void *a, const void *b) { return memcmp(a, b, sizeof(line)); }

/* Lists every source on rank `source` of the transfers into rank `destination`, sorted; the caller frees the list. */
static line *lines_between(const rsh_transfer *t, int64_t nt, int64_t source, int64_t destination, int64_t *n) {
    line *list = NULL;
    for (int fill = 0; fill < 2; fill++) {
        if (fill) list = prop_alloc((size_t)*n * sizeof *list);
        *n = 0;
        for (int64_t i = 0; i < nt; i++)
            for (int64_t k = 0; k < t[i].nsrc && t[i].dst.rank == destination; k++) {
                if (t[i].src[k].rank != source) continue;
                if (fill) list[*n] = line_of(&t[i], &t[i].src[k]);
                ++*n;
            }
    }
    qsort(list, (size_t)*n, sizeof *list, compare_lines);
    return list;
}

bool both_ends_agree(prop_case *c, const rsh_share *from, const rsh_share *to) {
    int64_t n, m;
    line *sent = lines_between(from->sends, from->nsends, from->rank, to->rank, &n);
    line *received = lines_between(to->receives, to->nreceives, from->rank, to->rank, &m);
    bool same = n == m && !memcmp(sent, received, (size_t)n * sizeof *sent);
    free(sent);
    free(received);
    PROP(c, same, "rank %lld sends %lld times to rank %lld, which receives %lld times, or something else",
         (long long)from->rank, (long long)n, (long long)to->rank, (long long)m);
    return true;
}
