/* Split of a comm: splits its node, so that memory stays shared with the old comm, and its wire if it has one. */
#include "comm/impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a comm of one node ---- */

/* Splits a comm of one node.  The new comm is allocated before the ranks agree, so it has room for the largest possible
 * number of ranks. */
rsh_status rshi_comm_split_node(rsh_comm *c, int colour, int key, rsh_comm **out) {
    rsh_comm *shell = colour < 0 ? NULL : rshi_comm_shell(c->size);
    rshi_node *node = NULL;
    rsh_status mine = colour < 0 || shell ? RSH_OK : rshi_nomem();
    rsh_status st = rshi_node_split(c->here, colour, key, mine, &node);
    if (st) {
        rshi_comm_shell_free(shell);
        return st;
    }
    if (node) rshi_comm_stand_on(shell, node);
    *out = shell;
    return RSH_OK;
}

/* ---- a comm on a link ---- */

/* State of this rank's split. */
typedef struct making {
    rsh_comm *old;
    rshi_wish mine;
    rshi_wish *circle;  /* [size], owned: the ranks of this colour, in the order of the new comm */
    int64_t *node; /* [size], owned: node of each rank in `circle` */
    int size;
    rshi_node *near;
    rsh_wire wire;
    rshi_link *link;
} making;

static rsh_status gather_wishes(making *m) {
    return m->old->ops->allgather(m->old, &m->mine, m->old->link->cards, sizeof m->mine);
}

static rsh_status find_circle(making *m) {
    size_t n = (size_t)m->old->size;
    m->circle = rshi_alloc(n, sizeof *m->circle);
    m->node = rshi_alloc(n, sizeof *m->node);
    if (!m->circle || !m->node) return rshi_nomem();
    m->size = rshi_wishes_of(m->old->size, (const rshi_wish *)m->old->link->cards, m->mine.colour, m->circle);
    for (int i = 0; i < m->size; i++) m->node[i] = m->old->nodes[m->circle[i].rank];
    return RSH_OK;
}

/* If ranks failed, all fail with the status of the lowest of them. */
static rsh_status agree_on_status(making *m, rsh_status mine) {
    rsh_comm *c = m->old;
    int64_t status = mine;
    /* the comm has failed, and this rank tells the others */
    if (mine == RSH_EPEER || mine == RSH_ETIMEOUT) return mine;
    RSH_TRY(c->ops->allgather(c, &status, c->link->cards, sizeof status));
    for (int r = 0; r < c->size; r++) {
        memcpy(&status, c->link->cards + (size_t)r * sizeof status, sizeof status);
        RSH_REQUIRE(status != RSH_ENOMEM, RSH_ENOMEM, "split: rank %d ran out of memory", r);
        RSH_REQUIRE(!status, (rsh_status)status, "split: rank %d could not make the new comm", r);
    }
    return RSH_OK;
}

static rsh_status split_wire(making *m) {
    const rsh_wire *old = &m->old->link->wire;
    rsh_status st = old->split(old->ctx, m->mine.colour, m->mine.key, &m->wire);
    if (st || m->mine.colour < 0) return st;
    return rshi_link_new(&m->wire, &m->link);
}

/* `made` is not NULL if another rank failed; it then owns the link and the node. */
static void discard_split(making *m, rsh_comm *made, rsh_status why) {
    char detail[RSHI_DETAIL_BYTES];
    snprintf(detail, sizeof detail, "%s", rsh_error_detail());
    if (made) {
        made->ops->leave(made, why, detail);
        rsh_comm_free(made);
    } else {
        if (m->link) rshi_link_leave(m->link, why, detail);
        if (m->link) rshi_link_close(m->link);
        rshi_node_free(m->near);
    }
    rshi_set_detail(detail);
}

static rsh_status split_parts(making *m, rsh_comm **made) {
    rshi_node *here = m->old->here;
    RSH_TRY(agree_on_status(m, m->mine.colour < 0 ? RSH_OK : find_circle(m)));
    RSH_TRY(agree_on_status(m, rshi_node_split(here, m->mine.colour, m->mine.key, RSH_OK, &m->near)));
    RSH_TRY(agree_on_status(m, split_wire(m)));
    return agree_on_status(m, m->link ? rshi_comm_on_link(m->link, m->near, m->node, made) : RSH_OK);
}

rsh_status rshi_comm_split_link(rsh_comm *c, int colour, int key, rsh_comm **out) {
    making m = {.old = c, .mine = {colour, key, c->rank}};
    rsh_comm *made = NULL;
    RSH_TRY(gather_wishes(&m));
    rsh_status st = split_parts(&m, &made);
    if (st)
        discard_split(&m, made, st);
    else
        *out = made;
    rshi_free(m.circle);
    rshi_free(m.node);
    return st;
}
