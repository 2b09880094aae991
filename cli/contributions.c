/* Contributions: finds them from the mesh and the partial axes of a layout. */
#include "contributions.h"

int64_t contributions_count(const rsh_layout *l) {
    const rsh_layout_desc *desc = rsh_layout_describe(l);
    int64_t n = 1;
    for (int i = 0; i < desc->npartial; i++) n *= desc->axis[desc->partial[i]].size;
    return n;
}

/* Returns the position of a rank in the mesh.  A rank that is not in the layout holds nothing, so any position may be
 * returned for it. */
static int64_t mesh_position(const rsh_layout *l, int64_t rank) {
    const rsh_layout_desc *desc = rsh_layout_describe(l);
    int64_t i = 0, last = rsh_layout_nranks(l) - 1;
    if (!desc->ranks) return rank - desc->first_rank;
    while (i < last && desc->ranks[i] != rank) i++;
    return i;
}

static int64_t coordinate(const rsh_layout_desc *desc, int64_t position, int axis) {
    for (int a = desc->naxes - 1; a > axis; a--) position /= desc->axis[a].size;
    return position % desc->axis[axis].size;
}

int64_t contribution_of(const rsh_layout *l, int64_t rank) {
    const rsh_layout_desc *desc = rsh_layout_describe(l);
    if (!desc->npartial) return 0;
    int64_t position = mesh_position(l, rank), number = 0;
    for (int i = 0; i < desc->npartial; i++) {
        int axis = desc->partial[i];
        number = number * desc->axis[axis].size + coordinate(desc, position, axis);
    }
    return number;
}

bool contributions_same(const rsh_layout *a, const rsh_layout *b) {
    const rsh_layout_desc *x = rsh_layout_describe(a), *y = rsh_layout_describe(b);
    if (x->npartial != y->npartial) return false;
    for (int i = 0; i < x->npartial; i++)
        if (x->axis[x->partial[i]].size != y->axis[y->partial[i]].size) return false;
    return true;
}
