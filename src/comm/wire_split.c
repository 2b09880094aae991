/* Split of a comm on a wire: the wire is split, and so is each node's comm, so that memory stays shared with the old
 * comm. */
#include "comm/hybrid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct wish {
    int colour, key, rank; /* rank in the old comm */
} wish;

/* What this rank makes of it. */
typedef struct making {
    rshi_hybrid *h;
    wish mine;
    wish *circle;  /* [size], owned: ranks of this colour, in the order of the new comm */
    int64_t *node; /* [size], owned: their nodes */
    int size;
    rsh_comm *near;
    rsh_wire wire;
    rshi_line *line;
} making;

static int by_key(const void *a, const void *b) {
    const wish *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static rsh_status gather_wishes(making *m) {
    rshi_hybrid *h = m->h;
    return h->ops.allgather(&h->base, &m->mine, h->board, sizeof m->mine);
}

static rsh_status find_circle(making *m) {
    size_t n = (size_t)m->h->base.size;
    const wish *wishes = (const wish *)m->h->board;
    m->circle = rshi_alloc(n, sizeof *m->circle);
    m->node = rshi_alloc(n, sizeof *m->node);
    if (!m->circle || !m->node) return rshi_nomem();
    for (size_t r = 0; r < n; r++)
        if (wishes[r].colour == m->mine.colour) m->circle[m->size++] = wishes[r];
    qsort(m->circle, (size_t)m->size, sizeof *m->circle, by_key);
    for (int i = 0; i < m->size; i++) m->node[i] = m->h->node[m->circle[i].rank];
    return RSH_OK;
}

/* The lowest rank that could not do its part fails the call for all. */
static rsh_status agree(making *m, rsh_status mine) {
    rshi_hybrid *h = m->h;
    int64_t status = mine;
    if (mine == RSH_EPEER || mine == RSH_ETIMEOUT) return mine; /* the comm is dead, and this rank tells the others */
    RSH_TRY(h->ops.allgather(&h->base, &status, h->board, sizeof status));
    for (int r = 0; r < h->base.size; r++) {
        memcpy(&status, h->board + (size_t)r * sizeof status, sizeof status);
        RSH_REQUIRE(status != RSH_ENOMEM, RSH_ENOMEM, "split: rank %d had no memory for the new comm", r);
        RSH_REQUIRE(!status, (rsh_status)status, "split: rank %d could not make the new comm", r);
    }
    return RSH_OK;
}

static rsh_status split_wire(making *m) {
    const rsh_wire *old = &m->h->line->wire;
    rsh_status st = old->split(old->ctx, m->mine.colour, m->mine.key, &m->wire);
    if (st || m->mine.colour < 0) return st;
    return rshi_line_new(&m->wire, &m->line);
}

/* `made` is there if another rank failed; the line and the node's comm are its own then. */
static void discard(making *m, rsh_comm *made, rsh_status why) {
    char detail[RSHI_DETAIL_BYTES];
    snprintf(detail, sizeof detail, "%s", rsh_error_detail());
    if (made) {
        made->ops->leave(made, why, detail);
        rsh_comm_free(made);
    } else {
        if (m->line) rshi_line_leave(m->line, why, detail);
        if (m->line) rshi_line_close(m->line);
        rsh_comm_free(m->near);
    }
    rshi_set_detail(detail);
}

static rsh_status make(making *m, rsh_comm **made) {
    rsh_comm *near = m->h->near;
    RSH_TRY(agree(m, m->mine.colour < 0 ? RSH_OK : find_circle(m)));
    RSH_TRY(agree(m, near->ops->split(near, m->mine.colour, m->mine.key, &m->near)));
    RSH_TRY(agree(m, split_wire(m)));
    return agree(m, m->line ? rshi_hybrid_new(m->line, m->near, m->node, made) : RSH_OK);
}

rsh_status rshi_hybrid_split(rsh_comm *c, int colour, int key, rsh_comm **out) {
    making m = {.h = rshi_hybrid_of(c), .mine = {colour, key, c->rank}};
    rsh_comm *made = NULL;
    RSH_TRY(gather_wishes(&m));
    rsh_status st = make(&m, &made);
    if (st)
        discard(&m, made, st);
    else
        *out = made;
    rshi_free(m.circle);
    rshi_free(m.node);
    return st;
}
