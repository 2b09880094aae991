/* Terms: read off the canonical text of a layout: "... on dp=2,tp=4@[...] sum(tp)". */
#include "terms.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct axis_name {
    char text[32];
} axis_name;

/* Fills the axes of the mesh; returns what follows them. */
static const char *read_axes(const char *mesh, terms *t, axis_name *name) {
    int used = 0;
    while (t->naxes < RSH_MAX_AXES &&
           sscanf(mesh, "%31[^=,@ ()]=%" SCNd64 "%n", name[t->naxes].text, &t->size[t->naxes], &used) == 2) {
        t->naxes++;
        mesh += used;
        if (*mesh != ',') break;
        mesh++;
    }
    return mesh;
}

static void read_partial(const char *axes, terms *t, const axis_name *name) {
    char word[32];
    int used = 0;
    while (sscanf(axes, "%31[^,)]%n", word, &used) == 1) {
        for (int i = 0; i < t->naxes; i++)
            if (!strcmp(word, name[i].text)) t->partial[i] = true;
        axes += used;
        if (*axes++ != ',') break;
    }
    for (int i = 0; i < t->naxes; i++)
        if (t->partial[i]) t->count *= t->size[i];
}

terms terms_of(const rsh_layout *l) {
    terms t = {.count = 1};
    axis_name name[RSH_MAX_AXES];
    const char *mesh = strstr(rsh_layout_text(l), " on ");
    if (!rsh_layout_op(l) || !mesh) return t;
    const char *rest = read_axes(mesh + strlen(" on "), &t, name);
    t.ranks = *rest == '@' ? rest : NULL;
    const char *axes = strchr(rest, '(');
    if (axes) read_partial(axes + 1, &t, name);
    return t;
}

/* Where a rank stands in "@8-11" or "@[3,2,1,0]". */
static int64_t mesh_position(const char *ranks, int64_t rank) {
    if (!ranks) return rank;
    if (ranks[1] != '[') return rank - strtoll(ranks + 1, NULL, 10);
    char *at = (char *)ranks + 1;
    for (int64_t i = 0; *at != ']'; i++)
        if (strtoll(at + 1, &at, 10) == rank) return i;
    return 0;
}

int64_t terms_position(const terms *t, int64_t rank) {
    int64_t at = mesh_position(t->ranks, rank), position = 0, step = 1;
    for (int i = t->naxes - 1; i >= 0; i--) {
        if (t->partial[i]) {
            position += at % t->size[i] * step;
            step *= t->size[i];
        }
        at /= t->size[i];
    }
    return position;
}

bool terms_same(const terms *a, const terms *b) {
    int i = 0, j = 0;
    for (;; i++, j++) {
        while (i < a->naxes && !a->partial[i]) i++;
        while (j < b->naxes && !b->partial[j]) j++;
        if (i == a->naxes || j == b->naxes) return i == a->naxes && j == b->naxes;
        if (a->size[i] != b->size[j]) return false;
    }
}
