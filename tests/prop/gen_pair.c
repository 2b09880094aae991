/* Random pairs: layouts with ranks, other texts of the same layout, and two layouts of one shape. */
#include "gen.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int gen_most_ranks = GEN_MAX_ROLES;

void gen_any_layout(gen_rng *g, const gen_wish *wish, gen_layout *out) {
    gen_wish within = *wish;
    const gen_wish *w = &within;
    if (within.max_ranks > gen_most_ranks) within.max_ranks = gen_most_ranks;
    if (w->op == ORA_NONE && gen_chance(g, w->rather_boxes ? 40 : 22)) {
        gen_box_layout(g, w, out);
        return;
    }
    gen_mesh_layout(g, w, out);
    if (w->op == ORA_NONE && gen_chance(g, 4)) { /* without a mesh: rank 0 only */
        size_t n = (size_t)snprintf(out->head, sizeof out->head, "%s[", ora_dtype_name(w->dtype));
        for (int d = 0; d < w->shape.ndim; d++)
            n += (size_t)snprintf(out->head + n, sizeof out->head - n, d ? ", %d" : "%d", (int)w->shape.size[d]);
        snprintf(out->head + n, sizeof out->head - n, "]");
        out->mesh[0] = 0;
        out->nroles = 1;
    }
}

void gen_ranks(gen_rng *g, int n, int64_t *rank) {
    int64_t all[GEN_MAX_ROLES], first = gen_below(g, gen_most_ranks - n + 1);
    int64_t roll = gen_below(g, 100);
    for (int i = 0; i < GEN_MAX_ROLES; i++) all[i] = i;
    if (roll >= 65) gen_shuffle(g, gen_chance(g, 50) ? n : gen_most_ranks, all);
    for (int i = 0; i < n; i++) rank[i] = roll < 50 || roll >= 65 ? all[i] : first + i;
}

static void write_boxes(const gen_layout *l, const int64_t *rank, char *text, size_t n) {
    n += (size_t)snprintf(text + n, GEN_TEXT - n, " boxes");
    for (int b = 0; b < l->nboxes; b++) {
        for (int i = 0; i < l->box[b].nroles; i++)
            n += (size_t)snprintf(text + n, GEN_TEXT - n, i ? ",%d" : " %d", (int)rank[l->box[b].role[i]]);
        n += (size_t)snprintf(text + n, GEN_TEXT - n, ":%s", l->box[b].range);
    }
}

static bool counts_up(const int64_t *rank, int n, int64_t from) {
    for (int i = 0; i < n; i++)
        if (rank[i] != from + i) return false;
    return true;
}

static void write_mesh(const gen_layout *l, const int64_t *rank, char *text, size_t n) {
    n += (size_t)snprintf(text + n, GEN_TEXT - n, " on %s", l->mesh);
    if (!counts_up(rank, l->nroles, 0) && counts_up(rank, l->nroles, rank[0])) {
        snprintf(text + n, GEN_TEXT - n, "@%d-%d", (int)rank[0], (int)rank[l->nroles - 1]);
    } else if (!counts_up(rank, l->nroles, 0)) {
        for (int i = 0; i < l->nroles; i++)
            n += (size_t)snprintf(text + n, GEN_TEXT - n, i ? ",%d" : "@[%d", (int)rank[i]);
        snprintf(text + n, GEN_TEXT - n, "]");
    }
}

void gen_text(const gen_layout *l, const int64_t *rank, char text[GEN_TEXT]) {
    size_t n = (size_t)snprintf(text, GEN_TEXT, "%s", l->head);
    if (l->is_boxes)
        write_boxes(l, rank, text, n);
    else if (l->mesh[0])
        write_mesh(l, rank, text, n);
    n = strlen(text);
    snprintf(text + n, GEN_TEXT - n, "%s", l->tail);
}

/* Returns the length of an axis name directly after '/'. */
static size_t axis_length(const char *at) {
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_') n++;
    return n;
}

void gen_respell(gen_rng *g, const char *text, char out[2 * GEN_TEXT]) {
    size_t n = 0, room = 2 * GEN_TEXT - 64;
    for (size_t i = 0; text[i] && n < room; i++) {
        bool mark = !isalnum((unsigned char)text[i]) && text[i] != '_';
        if (mark && gen_chance(g, 15)) out[n++] = gen_chance(g, 80) ? ' ' : '\t';
        out[n++] = text[i];
        if (mark && gen_chance(g, 15)) out[n++] = ' ';
        if (text[i] == '/' && text[i + 1] != '(' && gen_chance(g, 30)) {
            size_t length = axis_length(text + i + 1);
            n += (size_t)snprintf(out + n, 64, "(%.*s)", (int)length, text + i + 1);
            i += length;
        }
    }
    out[n] = 0;
}

void gen_side(gen_rng *g, const gen_wish *w, char text[GEN_TEXT]) {
    gen_layout l;
    int64_t rank[GEN_MAX_ROLES];
    gen_any_layout(g, w, &l);
    gen_ranks(g, l.nroles, rank);
    gen_text(&l, rank, text);
}

static gen_wish one_side(gen_rng *g, const gen_pair_wish *w, const gen_shape *shape, ora_dtype t, ora_op op) {
    int ranks = gen_chance(g, 60) ? w->max_ranks : (int)gen_between(g, 1, w->max_ranks);
    return (gen_wish){*shape, t, op, ranks, w->replicas, false};
}

/* Chooses an op for the destination: mostly that of the source, if the dtype supports it. */
static ora_op second_op(gen_rng *g, const gen_pair_wish *w, ora_op first, ora_dtype t) {
    if (first == ORA_NONE || (w->other_op && gen_chance(g, 10))) return gen_any_op(g, t);
    return ora_op_exists(first, t) ? first : ORA_NONE;
}

void gen_pair(gen_rng *g, const gen_pair_wish *w, char from[GEN_TEXT], char to[GEN_TEXT]) {
    gen_shape shape = w->large ? gen_large_shape(g) : gen_any_shape(g);
    ora_dtype a = gen_any_dtype(g), b = gen_chance(g, w->conversions) ? gen_dtype_from(g, a) : a;
    ora_op op_a = ORA_NONE, op_b = ORA_NONE;
    if (gen_chance(g, w->partials)) {
        if (gen_chance(g, 80)) op_a = gen_any_op(g, a);
        if (op_a == ORA_NONE || gen_chance(g, 45)) op_b = second_op(g, w, op_a, b);
    }
    gen_wish source = one_side(g, w, &shape, a, op_a), destination = one_side(g, w, &shape, b, op_b);
    destination.rather_boxes = op_a != ORA_NONE;
    gen_side(g, &source, from);
    gen_side(g, &destination, to);
}
