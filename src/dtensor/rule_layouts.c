/* Rule layouts: creates the layouts of an op's tensors, including tensors that are ranges of a letter.
 *
 * A range is cut like its letter: each rank has the elements of the range that are in its chunk of the letter.  Such a
 * layout has explicit sizes, which placements cannot express.  It exists only between a move and the op. */
#include "dtensor/solution.h"

static bool cuts_dim(const rsh_place *p, int dim) { return p->kind == RSH_PLACE_SHARD && p->dim == dim; }

/* Computes the chunk of a dim of n elements at a position of the mesh.  The mesh dims that shard it cut it from first
 * to last. */
static void chunk_at(const rsh_mesh *mesh, const rsh_place *places, int dim, int64_t n, int64_t position, int64_t *lo,
                     int64_t *size) {
    int64_t below = rsh_mesh_size(mesh);
    *lo = 0;
    *size = n;
    for (int a = 0; a < rsh_mesh_ndim(mesh); a++) {
        int64_t parts = rsh_mesh_dim_size(mesh, a), each = rshi_ceil_div(*size, parts);
        below /= parts;
        if (!cuts_dim(&places[a], dim)) continue;
        int64_t from = rshi_min(each * (position / below % parts), *size);
        *lo += from;
        *size = rshi_min(each, *size - from);
    }
}

/* Returns whether this is the first position among those that have the same chunk of the dim. */
static bool is_first(const rsh_mesh *mesh, const rsh_place *places, int dim, int64_t position) {
    for (int a = rsh_mesh_ndim(mesh) - 1; a >= 0; a--) {
        int64_t n = rsh_mesh_dim_size(mesh, a);
        if (!cuts_dim(&places[a], dim) && position % n) return false;
        position /= n;
    }
    return true;
}

/* Computes how much of the range is in each chunk of the letter (`sizes` may be NULL).  Returns whether these are the
 * chunks of the range itself. */
static bool range_sizes(const rsh_mesh *mesh, const rsh_place *places, const rsh_rule_tensor *t, int d, int64_t *sizes,
                        int64_t *n) {
    bool same = true;
    *n = 0;
    for (int64_t at = 0; at < rsh_mesh_size(mesh); at++) {
        int64_t lo, size, own_lo, own_size;
        if (!is_first(mesh, places, d, at)) continue;
        chunk_at(mesh, places, d, t->of[d], at, &lo, &size);
        chunk_at(mesh, places, d, t->shape[d], at, &own_lo, &own_size);
        int64_t from = rshi_max(lo, t->start[d]), to = rshi_min(lo + size, t->start[d] + t->shape[d]);
        if (sizes) sizes[*n] = rshi_max(to - from, 0);
        same &= rshi_max(to - from, 0) == own_size;
        ++*n;
    }
    return same;
}

/* Returns the dim along which the tensor is a cut range; -1: none. */
static int range_dim(const rsh_mesh *mesh, const rsh_place *places, const rsh_rule_tensor *t) {
    for (int d = 0; d < t->ndim; d++)
        for (int a = 0; t->of[d] && a < rsh_mesh_ndim(mesh); a++)
            if (cuts_dim(&places[a], d)) return d;
    return -1;
}

bool rshi_rule_is_range(const rsh_mesh *mesh, const rsh_place *places, const rsh_rule_tensor *t) {
    int d = range_dim(mesh, places, t);
    int64_t n;
    return d >= 0 && !range_sizes(mesh, places, t, d, NULL, &n);
}

static rsh_status cut_range(rsh_mesh *mesh, const rsh_place *places, const rsh_rule_tensor *t, const rsh_layout *placed,
                            rsh_layout **worked) {
    int d = range_dim(mesh, places, t);
    if (!rshi_rule_is_range(mesh, places, t)) return RSH_OK;
    rsh_layout_desc desc = *rsh_layout_describe(placed);
    int64_t *sizes = rshi_calloc((size_t)rsh_mesh_size(mesh), sizeof *sizes);
    if (!sizes) return rshi_nomem();
    range_sizes(mesh, places, t, d, sizes, &desc.dim[d].cut.nsizes);
    desc.dim[d].cut.rule = RSH_CUT_SIZES;
    desc.dim[d].cut.sizes = sizes;
    rsh_status st = rsh_layout_new(&desc, worked);
    rshi_free(sizes);
    return st;
}

rsh_status rshi_rule_layouts(rsh_mesh *mesh, const rsh_place *places, const rsh_rule_tensor *t, rsh_layout **placed,
                             rsh_layout **worked) {
    *worked = NULL;
    RSH_TRY(rshi_dtensor_layout(mesh, rsh_mesh_ndim(mesh), places, t->dtype, t->ndim, t->shape, placed));
    rsh_status st = cut_range(mesh, places, t, *placed, worked);
    if (!st) return RSH_OK;
    rsh_layout_free(*placed);
    *placed = NULL;
    return st;
}
