/* Random broadcasts from few ranks to many copies, and random maps of ranks to nodes. */
#include "gen.h"

#include <stdio.h>
#include <string.h>

/* Makes copies along r; one dim may be cut along c. */
static void many_copies(gen_rng *g, const gen_shape *shape, ora_dtype t, gen_layout *out) {
    int cuts = gen_most_ranks >= 6 && gen_chance(g, 50) ? 2 : 1, cut = cuts > 1 ? (int)gen_below(g, shape->ndim) : -1;
    int most = gen_most_ranks / cuts, copies = (int)gen_between(g, most < 3 ? most : 3, most);
    static const char *const rules[] = {"/c", "/c~", "/c:7", "/c%64"};
    const char *rule = rules[gen_below(g, 4)];
    memset(out, 0, sizeof *out);
    size_t n = (size_t)snprintf(out->head, sizeof out->head, "%s[", ora_dtype_name(t));
    for (int d = 0; d < shape->ndim; d++)
        n += (size_t)snprintf(out->head + n, sizeof out->head - n, "%s%d%s", d ? ", " : "", (int)shape->size[d],
                              d == cut ? rule : "");
    snprintf(out->head + n, sizeof out->head - n, "]");
    bool copies_first = gen_chance(g, 50);
    snprintf(out->mesh, sizeof out->mesh, copies_first ? "r=%d,c=%d" : "c=%d,r=%d", copies_first ? copies : cuts,
             copies_first ? cuts : copies);
    out->nroles = copies * cuts;
}

/* Makes a tensor that is whole on a few ranks. */
static void few_copies(gen_rng *g, const gen_shape *shape, ora_dtype t, gen_layout *out) {
    memset(out, 0, sizeof *out);
    size_t n = (size_t)snprintf(out->head, sizeof out->head, "%s[", ora_dtype_name(t));
    for (int d = 0; d < shape->ndim; d++)
        n += (size_t)snprintf(out->head + n, sizeof out->head - n, d ? ", %d" : "%d", (int)shape->size[d]);
    snprintf(out->head + n, sizeof out->head - n, "]");
    out->nroles = (int)gen_between(g, 1, gen_most_ranks < 3 ? gen_most_ranks : 3);
    snprintf(out->mesh, sizeof out->mesh, "k=%d", out->nroles);
}

static void few_ranks(gen_rng *g, const gen_shape *shape, ora_dtype t, gen_layout *out) {
    gen_wish w = {*shape, t, ORA_NONE, (int)gen_between(g, 1, gen_most_ranks < 3 ? gen_most_ranks : 3), true, false};
    if (gen_chance(g, 50))
        few_copies(g, shape, t, out);
    else
        gen_any_layout(g, &w, out);
}

static void add_ranks(gen_rng *g, const gen_layout *l, char text[GEN_TEXT]) {
    int64_t rank[GEN_MAX_ROLES];
    gen_ranks(g, l->nroles, rank);
    gen_text(l, rank, text);
}

void gen_broadcast(gen_rng *g, ora_dtype from_dtype, ora_dtype to_dtype, char from[GEN_TEXT], char to[GEN_TEXT]) {
    gen_shape shape = gen_large_shape(g);
    gen_layout l;
    few_ranks(g, &shape, from_dtype, &l);
    add_ranks(g, &l, from);
    many_copies(g, &shape, to_dtype, &l);
    add_ranks(g, &l, to);
}

void gen_nodes(gen_rng *g, int64_t node_of[GEN_MAX_ROLES]) {
    int64_t per_node = gen_between(g, 1, gen_most_ranks < 12 ? gen_most_ranks / 2 : 6), nodes = gen_between(g, 2, 8);
    bool any = gen_chance(g, 40), shuffled = gen_chance(g, 30);
    for (int64_t r = 0; r < GEN_MAX_ROLES; r++) node_of[r] = any ? 3 * gen_below(g, nodes) : 100 - r / per_node;
    if (shuffled) gen_shuffle(g, GEN_MAX_ROLES, node_of);
}
