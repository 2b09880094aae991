/* Make: creates comms of threads, of processes, and on links. */
#include "comm/impl.h"

#include <stdio.h>
#include <string.h>

/* ---- a comm without a node ---- */

rsh_comm *rshi_comm_shell(int size) {
    rsh_comm *c = RSHI_NEW(rsh_comm);
    if (!c) return NULL;
    c->openings = rshi_calloc((size_t)size, sizeof *c->openings);
    c->process = rshi_process_new();
    if (c->openings) return c;
    rshi_free(c);
    return NULL;
}

void rshi_comm_shell_free(rsh_comm *c) {
    if (!c) return;
    rshi_free(c->openings);
    rshi_free(c->nodes);
    rshi_free(c->place);
    rshi_free(c->names);
    rshi_free(c);
}

void rshi_comm_stand_on(rsh_comm *c, rshi_node *here) {
    c->here = here;
    c->rank = here->rank;
    c->size = here->size;
    snprintf(c->name, sizeof c->name, "%s", here->world->map->name);
    rshi_comm_choose_ops(c);
}

/* ---- threads ---- */

static rsh_status make_shells(int n, rsh_comm **comms) {
    for (int r = 0; r < n; r++)
        if (!(comms[r] = rshi_comm_shell(n))) return rshi_nomem();
    return RSH_OK;
}

static rsh_status make_threads(int n, rsh_comm **comms, rshi_node **nodes) {
    RSH_TRY(make_shells(n, comms));
    RSH_TRY(rshi_threads_new(n, nodes));
    for (int r = 0; r < n; r++) rshi_comm_stand_on(comms[r], nodes[r]);
    return RSH_OK;
}

rsh_status rsh_comm_threads(int n, rsh_comm **comms) {
    RSH_REQUIRE(n >= 1 && comms, RSH_EVALUE, "rsh_comm_threads: expected n of at least 1 and an array for the "
                                             "comms, got %d and %p",
                n, (void *)comms);
    rshi_node **nodes = rshi_alloc((size_t)n, sizeof *nodes);
    if (!nodes) return rshi_nomem();
    memset(comms, 0, (size_t)n * sizeof *comms);
    rsh_status st = make_threads(n, comms, nodes);
    rshi_free(nodes);
    for (int r = 0; st && r < n; r++) {
        rshi_comm_shell_free(comms[r]);
        comms[r] = NULL;
    }
    return st;
}

/* ---- processes ---- */

static rsh_status make_processes(const char *name, rsh_comm *shell, rshi_node *node, rsh_comm **out) {
    RSH_TRY(rshi_processes_join(node, name, node->world->patience.timeout));
    rshi_comm_stand_on(shell, node);
    *out = shell;
    return RSH_OK;
}

rsh_status rsh_comm_shm(const char *name, int rank, int size, rsh_comm **out) {
    RSH_REQUIRE(name && out && size >= 1 && rank >= 0 && rank < size, RSH_EVALUE,
                "cannot join job \"%.100s\" as rank %d of %d: expected a name, an out pointer and 0 <= rank < size",
                name ? name : "(none)", rank, size);
    rsh_comm *shell = NULL;
    rshi_node *node = NULL;
    rsh_status st = rshi_processes_prepare(rank, size, &node);
    if (!st && !(shell = rshi_comm_shell(size))) st = rshi_nomem();
    if (st) {
        rshi_node_free(node);
        rshi_processes_excuse(name, rank, size, st);
        return st;
    }
    st = make_processes(name, shell, node, out);
    if (st) rshi_comm_shell_free(shell);
    return st;
}

/* ---- on a link ---- */

/* Renumbers nodes (0 or more) from 0 in order of their lowest ranks, in place; returns their number. */
static int number_nodes(int size, int64_t *node) {
    int nodes = 0;
    for (int r = 0; r < size; r++) { /* the nodes of ranks [0, r) have their final numbers */
        int64_t old = node[r], number = nodes++;
        for (int s = r; s < size; s++)
            if (node[s] == old) node[s] = -1 - number;
        while (r + 1 < size && node[r + 1] < 0) r++;
    }
    for (int r = 0; r < size; r++) node[r] = -1 - node[r];
    return nodes;
}

/* Computes the rank of every rank in its node; `count` has an entry for every node and is zeroed. */
static void place_ranks(rsh_comm *c, int *count) {
    for (int r = 0; r < c->size; r++) {
        c->place[r] = count[c->nodes[r]]++;
        if (c->nodes[r] == c->nodes[c->rank]) c->names[c->place[r]] = r;
    }
}

static rsh_status alloc_maps(rsh_comm *c, int size) {
    c->nodes = rshi_alloc((size_t)size, sizeof *c->nodes);
    c->place = rshi_calloc((size_t)size, sizeof *c->place);
    c->names = rshi_calloc((size_t)size, sizeof *c->names);
    return c->nodes && c->place && c->names ? RSH_OK : rshi_nomem();
}

static rsh_status check_neighbour(void *ctx, int i, double waited) { return rshi_node_check_peer(ctx, i, waited); }

static void attach_link_and_node(rsh_comm *c, rshi_link *link, rshi_node *here) {
    c->link = link;
    c->patience = rshi_patience_for(here->size, here->world->map->one_process, link->patience.timeout);
    here->names = c->names;
    link->neighbours = (rshi_neighbours){here->size, c->names, here, check_neighbour};
    rshi_comm_stand_on(c, here);
    c->rank = link->wire.rank;
    c->size = link->wire.size;
    snprintf(c->name, sizeof c->name, "%s", link->wire.name ? link->wire.name : "wire");
}

rsh_status rshi_comm_on_link(rshi_link *link, rshi_node *here, const int64_t *node, rsh_comm **out) {
    int size = link->wire.size;
    rsh_comm *c = rshi_comm_shell(size);
    int *count = rshi_calloc((size_t)size, sizeof *count);
    rsh_status st = c && count ? alloc_maps(c, size) : rshi_nomem();
    if (!st) {
        memcpy(c->nodes, node, (size_t)size * sizeof *node);
        if (number_nodes(size, c->nodes) > 1) c->node = c->nodes;
        attach_link_and_node(c, link, here);
        place_ranks(c, count);
        *out = c;
    } else {
        rshi_comm_shell_free(c);
    }
    rshi_free(count);
    return st;
}

rsh_status rshi_comm_mixed(const rsh_wire *wire, rshi_node *here, const int64_t *node, rsh_comm **out) {
    rshi_link *link = NULL;
    rsh_status st = rshi_link_new(wire, &link);
    if (!st) st = rshi_comm_on_link(link, here, node, out);
    if (!st) return RSH_OK;
    if (link) {
        rshi_link_leave(link, st, rsh_error_detail());
        rshi_link_close(link);
    }
    rshi_node_leave(here, st, rsh_error_detail());
    rshi_node_free(here);
    return st;
}
