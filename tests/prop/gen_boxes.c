/* Random layouts of boxes: the tensor is cut repeatedly along straight lines, with copies and empty boxes. */
#include "gen.h"

#include <stdio.h>
#include <string.h>

typedef struct region {
    int64_t lo[ORA_MAX], hi[ORA_MAX];
} region;

static int any_cuttable_dim(gen_rng *g, int ndim, const region *r) {
    int64_t dim[ORA_MAX];
    int n = 0;
    for (int d = 0; d < ndim; d++)
        if (r->hi[d] - r->lo[d] > 1) dim[n++] = d;
    return n ? (int)dim[gen_below(g, n)] : -1;
}

/* Cuts a random region in two, `wanted` times. */
static int tile(gen_rng *g, const gen_shape *s, int wanted, region *r) {
    int n = 1;
    memset(&r[0], 0, sizeof r[0]);
    for (int d = 0; d < s->ndim; d++) r[0].hi[d] = s->size[d];
    while (n < wanted) {
        int i = (int)gen_below(g, n), d = any_cuttable_dim(g, s->ndim, &r[i]);
        if (d < 0) break;
        r[n] = r[i];
        r[i].hi[d] = r[n].lo[d] = gen_between(g, r[i].lo[d] + 1, r[i].hi[d] - 1);
        n++;
    }
    return n;
}

static region any_empty(gen_rng *g, const gen_shape *s) {
    region r = {{0}, {0}};
    for (int d = 0; d < s->ndim; d++) {
        r.lo[d] = gen_between(g, 0, s->size[d]);
        r.hi[d] = gen_between(g, r.lo[d], s->size[d]);
    }
    int d = (int)gen_below(g, s->ndim);
    r.hi[d] = r.lo[d];
    return r;
}

static bool is_empty(const gen_shape *s) {
    for (int d = 0; d < s->ndim; d++)
        if (s->size[d] == 0) return true;
    return false;
}

static void write_range(const gen_shape *s, const region *r, char out[128]) {
    size_t n = 0;
    n += (size_t)snprintf(out, 128, "[");
    for (int d = 0; d < s->ndim; d++)
        n += (size_t)snprintf(out + n, 128 - n, "%s%d:%d", d ? "," : "", (int)r->lo[d], (int)r->hi[d]);
    snprintf(out + n, 128 - n, "]");
}

static void give_to_ranks(gen_rng *g, const gen_wish *w, gen_layout *out, int box) {
    int64_t role[GEN_MAX_ROLES];
    for (int i = 0; i < w->max_ranks; i++) role[i] = i;
    gen_shuffle(g, w->max_ranks, role);
    int n = w->replicas && gen_chance(g, 25) ? (int)gen_between(g, 1, w->max_ranks < 4 ? w->max_ranks : 4) : 1;
    out->box[box].nroles = n;
    for (int i = 0; i < n; i++) out->box[box].role[i] = (int)role[i];
}

/* Renumbers the roles that are used as 0, 1, 2, ... */
static void close_ranks(gen_layout *l) {
    int number[GEN_MAX_ROLES];
    for (int i = 0; i < GEN_MAX_ROLES; i++) number[i] = -1;
    for (int b = 0; b < l->nboxes; b++)
        for (int i = 0; i < l->box[b].nroles; i++) {
            int *role = &l->box[b].role[i];
            if (number[*role] < 0) number[*role] = l->nroles++;
            *role = number[*role];
        }
}

static void write_head(const gen_wish *w, gen_layout *out) {
    size_t n = (size_t)snprintf(out->head, sizeof out->head, "%s[", ora_dtype_name(w->dtype));
    for (int d = 0; d < w->shape.ndim; d++)
        n += (size_t)snprintf(out->head + n, sizeof out->head - n, d ? ", %d" : "%d", (int)w->shape.size[d]);
    snprintf(out->head + n, sizeof out->head - n, "]");
}

void gen_box_layout(gen_rng *g, const gen_wish *w, gen_layout *out) {
    region r[GEN_MAX_BOXES];
    memset(out, 0, sizeof *out);
    out->is_boxes = true;
    write_head(w, out);
    int n = is_empty(&w->shape) ? 0 : tile(g, &w->shape, (int)gen_between(g, 1, 16), r);
    if (w->shape.ndim > 0 && gen_chance(g, 30)) {
        r[n++] = any_empty(g, &w->shape);
        if (gen_chance(g, 30)) r[n++] = any_empty(g, &w->shape);
    }
    int64_t place[GEN_MAX_BOXES];
    for (int i = 0; i < n; i++) place[i] = i;
    gen_shuffle(g, n, place);
    out->nboxes = n;
    for (int i = 0; i < n; i++) {
        write_range(&w->shape, &r[place[i]], out->box[i].range);
        give_to_ranks(g, w, out, i);
    }
    close_ranks(out);
}
