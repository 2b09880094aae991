/* Mesh: arranges ranks of a parent comm in an array, with a comm for all of them and one for each line of ranks.
 *
 * Comms are split with the coordinate as key, so their ranks are in the order of the array, whatever their numbers in
 * the parent. */
#include "mesh/impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Returns the distance of neighbours along a dim in row-major order. */
static int64_t dim_step(const rsh_mesh *m, int dim) {
    int64_t step = 1;
    for (int d = dim + 1; d < m->ndim; d++) step *= m->shape[d];
    return step;
}

/* ---- comms ---- */

static bool is_parent(const rsh_mesh *m) {
    if (m->size != m->parent->size) return false;
    for (int64_t i = 0; i < m->size; i++)
        if (m->ranks[i] != i) return false;
    return true;
}

static rsh_status make_comm(rsh_mesh *m) {
    if (is_parent(m)) {
        m->comm = m->parent;
        return RSH_OK;
    }
    m->owns_comm = true;
    return rsh_comm_split(m->parent, m->position < 0 ? -1 : 0, (int)m->position, &m->comm);
}

/* Creates the comm of this rank's line along a dim.  A line is identified by the position of its first rank. */
static rsh_status make_line(rsh_mesh *m, int dim) {
    if (m->ndim == 1) {
        m->line[dim] = m->comm;
        return RSH_OK;
    }
    m->owns_line[dim] = true;
    int64_t first = m->position - m->coordinate[dim] * dim_step(m, dim);
    return rsh_comm_split(m->comm, (int)first, (int)m->coordinate[dim], &m->line[dim]);
}

static rsh_status make_comms(rsh_mesh *m) {
    RSH_TRY(make_comm(m));
    for (int d = 0; m->position >= 0 && d < m->ndim; d++) RSH_TRY(make_line(m, d));
    return RSH_OK;
}

/* ---- creating ---- */

static void mesh_text(const rsh_mesh *m, rshi_text *what) {
    rshi_text_add(what, "a mesh");
    for (int d = 0; d < m->ndim; d++)
        rshi_text_add(what, "%s%s%s%" PRId64, d ? "," : " ", m->names[d] ? m->names[d] : "", m->names[d] ? "=" : "",
                      m->shape[d]);
    for (int64_t i = 0; i < m->size && what->length < RSHI_DETAIL_BYTES; i++)
        rshi_text_add(what, "%s%" PRId64, i ? "," : " of ranks ", m->ranks[i]);
}

/* Fails on all ranks unless all pass the same arguments. m is NULL if this rank has failed. */
static rsh_status agree_on_mesh(rsh_comm *parent, const rsh_mesh *m, rsh_status mine) {
    rshi_text what = {0};
    if (m) mesh_text(m, &what);
    if (!mine && what.failed) mine = rshi_nomem();
    uint64_t fingerprint = what.data ? rshi_hash(what.data, what.length, 0) : 0;
    if (m) fingerprint = rshi_hash(m->ranks, (size_t)m->size * sizeof *m->ranks, fingerprint);
    rsh_status st = rshi_comm_open(parent, "new mesh", fingerprint, what.data, mine);
    rshi_text_free(&what);
    return st;
}

/* Completes a mesh and takes ownership of m.  `made` is the status of creating the handle on this rank. */
static rsh_status finish_mesh(rsh_comm *parent, rsh_status made, rsh_mesh *m, rsh_mesh **out) {
    rsh_status st = agree_on_mesh(parent, made ? NULL : m, made);
    if (!st) st = make_comms(m);
    if (st) rshi_mesh_destroy(m);
    else *out = m;
    return st;
}

rsh_status rsh_mesh_new(rsh_comm *parent, int ndim, const int64_t *shape, const int64_t *ranks,
                        const char *const *names, rsh_mesh **out) {
    RSH_NEEDS(parent);
    rsh_mesh *m = NULL;
    rsh_status st = out ? RSH_OK : rshi_fail(RSH_EVALUE, "rsh_mesh_new: out is NULL");
    if (!st) st = rshi_mesh_handle(parent, ndim, shape, ranks, names, &m);
    return finish_mesh(parent, st, m, out);
}

rsh_mesh *rsh_mesh_hold(const rsh_mesh *m) {
    rsh_mesh *held = (rsh_mesh *)m; /* the count of references is not part of the immutable state */
    if (held) atomic_fetch_add_explicit(&held->refs, 1, memory_order_relaxed);
    return held;
}

void rsh_mesh_free(rsh_mesh *m) {
    if (m && atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) == 1) rshi_mesh_destroy(m);
}

/* ---- slices ---- */

static rsh_status find_names(const rsh_mesh *m, int n, const char *const *names, int *dims) {
    RSH_REQUIRE(m->names[0], RSH_ERUNTIME, "cannot slice a mesh whose dims have no names; give names to rsh_mesh_new");
    RSH_REQUIRE(n >= 1 && names, RSH_EVALUE, "mesh slice: expected at least one name, got %d%s", n,
                names ? "" : " (NULL)");
    for (int i = 0; i < n; i++) {
        RSH_REQUIRE(i < m->ndim, RSH_EKEY, "mesh slice: got %d names for a mesh of %d dims", n, m->ndim);
        RSH_TRY(rsh_mesh_find_dim(m, names[i], &dims[i]));
        RSH_REQUIRE(!i || dims[i] > dims[i - 1], RSH_EKEY,
                    "mesh slice: names must be in the mesh's order, got \"%s\" before \"%s\"", names[i - 1], names[i]);
    }
    return RSH_OK;
}

/* Returns the position, in the whole mesh, of the slice's first rank: this rank's position without the chosen
 * coordinates.  Ranks that are not in the mesh get the first slice. */
static int64_t first_position(const rsh_mesh *m, int n, const int *dims) {
    int64_t first = rshi_max(m->position, 0);
    for (int i = 0; m->position >= 0 && i < n; i++) first -= m->coordinate[dims[i]] * dim_step(m, dims[i]);
    return first;
}

static void slice_ranks(const rsh_mesh *m, int n, const int *dims, int64_t size, int64_t *ranks) {
    int64_t first = first_position(m, n, dims);
    for (int64_t i = 0; i < size; i++) {
        int64_t at = first, left = i;
        for (int k = n - 1; k >= 0; k--) {
            at += left % m->shape[dims[k]] * dim_step(m, dims[k]);
            left /= m->shape[dims[k]];
        }
        ranks[i] = m->ranks[at];
    }
}

static rsh_status slice_handle(rsh_mesh *m, int n, const char *const *names, const int *dims, rsh_mesh **out) {
    int64_t shape[RSH_MAX_AXES], size = 1;
    for (int i = 0; i < n; i++) size *= shape[i] = m->shape[dims[i]];
    int64_t *ranks = rshi_alloc((size_t)size, sizeof *ranks);
    if (!ranks) return rshi_nomem();
    slice_ranks(m, n, dims, size, ranks);
    rsh_status st = rshi_mesh_handle(m->parent, n, shape, ranks, names, out);
    rshi_free(ranks);
    if (st) return st;
    (*out)->whole = rsh_mesh_hold(m);
    for (int i = 0; m->position >= 0 && i < n; i++) (*out)->line[i] = m->line[dims[i]];
    return RSH_OK;
}

/* Fails on all ranks unless all choose the same dims; a rank that has failed reports its error here. */
static rsh_status agree_on_dims(rsh_mesh *m, int n, const int *dims, rsh_status mine) {
    rshi_text what = {0};
    rshi_text_add(&what, "a slice by dims");
    for (int i = 0; !mine && i < n; i++) rshi_text_add(&what, i ? ", %d" : " %d", dims[i]);
    if (!mine && what.failed) mine = rshi_nomem();
    uint64_t fingerprint = what.data ? rshi_hash(what.data, what.length, 0) : 0;
    rsh_status st = rshi_comm_open(m->parent, "slice of a mesh", fingerprint, what.data, mine);
    rshi_text_free(&what);
    return st;
}

/* Creates the comm of a slice.  Every rank of the parent takes part; ranks outside the mesh belong to no slice. */
static rsh_status split_slice(rsh_mesh *m, int n, const int *dims, rsh_mesh *slice) {
    int colour = m->position < 0 ? -1 : (int)first_position(m, n, dims);
    slice->owns_comm = true;
    return rsh_comm_split(m->parent, colour, (int)slice->position, &slice->comm);
}

/* Returns whether the slice has a comm already.  The answer is the same on all ranks, even on one that has failed. */
static bool is_local_slice(const rsh_mesh *m, int n) { return n <= 1 || n >= m->ndim; }

rsh_status rsh_mesh_slice(rsh_mesh *m, int n, const char *const *names, rsh_mesh **out) {
    RSH_NEEDS(m);
    int dims[RSH_MAX_AXES] = {0};
    rsh_mesh *slice = NULL;
    rsh_status st = out ? RSH_OK : rshi_fail(RSH_EVALUE, "rsh_mesh_slice: out is NULL");
    if (!st) st = find_names(m, n, names, dims);
    if (!st) st = slice_handle(m, n, names, dims, &slice);
    if (!is_local_slice(m, n)) st = agree_on_dims(m, n, dims, st);
    if (!st && is_local_slice(m, n)) slice->comm = m->position < 0 ? NULL : n == m->ndim ? m->comm : slice->line[0];
    else if (!st) st = split_slice(m, n, dims, slice);
    if (st) rshi_mesh_destroy(slice);
    else *out = slice;
    return st;
}
