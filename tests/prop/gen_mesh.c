/* Random mesh layouts: chooses what each axis does, and writes the text. */
#include "gen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum role { REPLICATES, CUTS, CUTS_FLAT, IS_PARTIAL } role;

typedef struct mesh {
    int naxes;
    const char *name[ORA_MAX];
    int64_t size[ORA_MAX];
    role role[ORA_MAX];
    int dim[ORA_MAX]; /* the dim of an axis that CUTS */
    bool flat;
    bool uneven; /* flat over segments that have their own cuts */
} mesh;

static void append(char *text, size_t room, const char *format, ...) {
    size_t n = strlen(text);
    va_list args;
    va_start(args, format);
    int wrote = vsnprintf(text + n, room - n, format, args);
    va_end(args);
    if (wrote < 0 || n + (size_t)wrote >= room) abort();
}

static void any_axes(gen_rng *g, const gen_wish *w, mesh *m) {
    static const char *const pool[] = {"dp", "tp", "x", "y", "kv", "rep", "e_2", "Pipe", "z9", "on_"};
    static const int64_t sizes[] = {1, 1, 2, 2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 11};
    int64_t pick[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, room = w->max_ranks;
    gen_shuffle(g, 10, pick);
    int wanted = (int)gen_between(g, 1, gen_chance(g, 5) ? 6 : 4);
    for (int tries = 0; m->naxes < wanted && tries < 20; tries++) {
        int64_t size = sizes[gen_below(g, (int64_t)(sizeof sizes / sizeof *sizes))];
        if (size > room) continue;
        room /= size;
        m->name[m->naxes] = pool[pick[m->naxes]];
        m->size[m->naxes++] = size;
    }
    if (m->naxes == 0) {
        m->name[0] = "x";
        m->size[m->naxes++] = 1;
    }
}

static role any_role(gen_rng *g, const gen_wish *w, const mesh *m) {
    if (w->op != ORA_NONE && gen_chance(g, 30)) return IS_PARTIAL;
    if (w->replicas && gen_chance(g, 20)) return REPLICATES;
    if (m->flat && gen_chance(g, 50)) return CUTS_FLAT;
    if (w->shape.ndim > 0) return CUTS;
    return w->replicas ? REPLICATES : CUTS_FLAT;
}

static void any_roles(gen_rng *g, const gen_wish *w, mesh *m) {
    m->flat = gen_chance(g, 20);
    for (int a = 0; a < m->naxes; a++) {
        m->role[a] = any_role(g, w, m);
        m->dim[a] = (int)gen_below(g, w->shape.ndim);
    }
    if (m->uneven) { /* one axis for the segments and one for the flat cut; further axes are random */
        m->role[0] = CUTS;
        m->role[1] = CUTS_FLAT;
    }
    if (w->op != ORA_NONE) m->role[gen_between(g, m->uneven ? 2 : 0, m->naxes - 1)] = IS_PARTIAL;
    m->flat = false;
    for (int a = 0; a < m->naxes; a++) m->flat = m->flat || m->role[a] == CUTS_FLAT;
}

/* Lists the axes with this role (and dim) in any order. */
static int pick_axes(gen_rng *g, const mesh *m, role role, int dim, int64_t *axis) {
    int n = 0;
    for (int a = 0; a < m->naxes; a++)
        if (m->role[a] == role && (role != CUTS || m->dim[a] == dim)) axis[n++] = a;
    gen_shuffle(g, n, axis);
    return n;
}

static int64_t together(const mesh *m, int n, const int64_t *axis) {
    int64_t p = 1;
    for (int i = 0; i < n; i++) p *= m->size[axis[i]];
    return p;
}

static void add_sizes(gen_rng *g, int64_t n, int64_t p, char *text) {
    int64_t size[ORA_MAX_SIZES];
    gen_split(g, n, p, size);
    for (int64_t i = 0; i < p; i++) append(text, GEN_TEXT / 2, "%s%d", i ? "," : "{", (int)size[i]);
    append(text, GEN_TEXT / 2, "}");
}

typedef struct rules {
    bool cyclic, sizes;
} rules;

static void add_cut(gen_rng *g, const mesh *m, int n, const int64_t *axis, int64_t size, rules allowed, char *text) {
    append(text, GEN_TEXT / 2, n > 1 ? "/(" : "/");
    for (int i = 0; i < n; i++) append(text, GEN_TEXT / 2, "%s%s", i ? "," : "", m->name[axis[i]]);
    append(text, GEN_TEXT / 2, n > 1 ? ")" : "");
    switch (gen_below(g, 7)) {
    case 0: append(text, GEN_TEXT / 2, "~"); break;
    case 1: append(text, GEN_TEXT / 2, "%%%d", (int)gen_between(g, 1, size / 3 + 2)); break;
    case 2:
        if (allowed.cyclic) append(text, GEN_TEXT / 2, ":%d", (int)gen_between(g, 1, size / 4 + 2));
        break;
    case 3:
        if (allowed.sizes) add_sizes(g, size, together(m, n, axis), text);
        break;
    default: break;
    }
}

/* Writes segments such as (4/(kv,rep)|2/kv|3): some name fewer axes, and at least one names one. */
static void add_own_cuts(gen_rng *g, const mesh *m, int n, int64_t *axis, int nsegments, const int64_t *size,
                         char *text) {
    int sure = (int)gen_below(g, nsegments);
    for (int s = 0; s < nsegments; s++) {
        int mine = (int)gen_between(g, s == sure ? 1 : 0, n);
        gen_shuffle(g, n, axis);
        append(text, GEN_TEXT / 2, "%s%d", s ? "|" : "(", (int)size[s]);
        if (mine) add_cut(g, m, mine, axis, size[s], (rules){true, true}, text);
    }
    append(text, GEN_TEXT / 2, ")");
}

static void add_segments(gen_rng *g, const gen_wish *w, const mesh *m, int n, int64_t *axis, int64_t size, char *text) {
    int64_t part[5];
    int nsegments = (int)gen_between(g, gen_chance(g, 10) ? 1 : 2, 4);
    gen_split(g, size, nsegments, part);
    if (nsegments > 1 && gen_chance(g, 20)) { /* adds a segment of size 0 */
        int64_t empty = gen_below(g, nsegments), other = (empty + 1) % nsegments;
        int64_t both = part[empty] + part[other];
        part[empty] = 0;
        part[other] = both;
    }
    if (w->replicas && (m->uneven || gen_chance(g, 50))) {
        add_own_cuts(g, m, n, axis, nsegments, part, text);
        return;
    }
    for (int s = 0; s < nsegments; s++) append(text, GEN_TEXT / 2, "%s%d", s ? "|" : "(", (int)part[s]);
    append(text, GEN_TEXT / 2, ")");
    add_cut(g, m, n, axis, size, (rules){true, false}, text);
}

static void add_dim(gen_rng *g, const gen_wish *w, const mesh *m, int d, char *text) {
    int64_t axis[ORA_MAX], size = w->shape.size[d];
    int n = pick_axes(g, m, CUTS, d, axis);
    if (d) append(text, GEN_TEXT / 2, ", ");
    if (n && (m->uneven || gen_chance(g, 25))) {
        add_segments(g, w, m, n, axis, size, text);
        return;
    }
    append(text, GEN_TEXT / 2, "%d", (int)size);
    if (n) add_cut(g, m, n, axis, size, (rules){true, true}, text);
}

static void add_flat(gen_rng *g, const gen_wish *w, const mesh *m, char *text) {
    int64_t axis[ORA_MAX], count = 1;
    int n = pick_axes(g, m, CUTS_FLAT, 0, axis);
    if (!n) return;
    bool cut = false;
    for (int a = 0; a < m->naxes; a++) cut = cut || m->role[a] == CUTS;
    for (int d = 0; d < w->shape.ndim; d++) count *= w->shape.size[d];
    add_cut(g, m, n, axis, count, (rules){false, !cut}, text);
}

static void add_partial(gen_rng *g, const gen_wish *w, const mesh *m, char *text) {
    int64_t axis[ORA_MAX];
    int n = pick_axes(g, m, IS_PARTIAL, 0, axis);
    for (int i = 0; i < n; i++)
        append(text, 256, i ? ",%s" : " %s(%s", i ? m->name[axis[i]] : ora_op_name(w->op), i ? "" : m->name[axis[i]]);
    if (n) append(text, 256, ")");
}

static void add_order(gen_rng *g, const gen_wish *w, char *text) {
    int64_t dim[ORA_MAX];
    for (int d = 0; d < w->shape.ndim; d++) dim[d] = d;
    gen_shuffle(g, w->shape.ndim, dim);
    append(text, 256, " order");
    for (int d = 0; d < w->shape.ndim; d++) append(text, 256, "%s%d", d ? "," : "(", (int)dim[d]);
    append(text, 256, ")");
}

static void add_mesh(const mesh *m, gen_layout *out) {
    out->nroles = 1;
    for (int a = 0; a < m->naxes; a++) {
        append(out->mesh, sizeof out->mesh, "%s%s=%d", a ? "," : "", m->name[a], (int)m->size[a]);
        out->nroles *= (int)m->size[a];
    }
}

void gen_mesh_layout(gen_rng *g, const gen_wish *w, gen_layout *out) {
    mesh m = {0};
    memset(out, 0, sizeof *out);
    any_axes(g, w, &m);
    m.uneven = w->replicas && w->shape.ndim > 0 && m.naxes >= (w->op != ORA_NONE ? 3 : 2) && gen_chance(g, 25);
    any_roles(g, w, &m);
    append(out->head, sizeof out->head, "%s[", ora_dtype_name(w->dtype));
    for (int d = 0; d < w->shape.ndim; d++) add_dim(g, w, &m, d, out->head);
    append(out->head, sizeof out->head, "]");
    add_flat(g, w, &m, out->head);
    add_mesh(&m, out);
    add_partial(g, w, &m, out->tail);
    if (w->shape.ndim > 0 && !m.flat && gen_chance(g, 25)) add_order(g, w, out->tail);
}
