/* Handle: a mesh without its comms: shape, ranks, names, and the position of this rank. */
#include "mesh/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout/layout.h"

/* ---- checks ---- */

static rsh_status check_shape(const rsh_comm *parent, int ndim, const int64_t *shape, int64_t *size) {
    RSH_REQUIRE(ndim >= 1 && ndim <= RSH_MAX_AXES, RSH_EVALUE, "mesh cannot have %d dims: expected 1 to %d", ndim,
                RSH_MAX_AXES);
    RSH_REQUIRE(shape, RSH_EVALUE, "mesh has %d dims but its shape is NULL", ndim);
    for (int d = 0; d < ndim; d++)
        RSH_REQUIRE(shape[d] >= 1, RSH_EVALUE, "dim %d of the mesh must have size 1 or more, got %" PRId64, d,
                    shape[d]);
    RSH_REQUIRE(rshi_product(ndim, shape, size) && *size <= parent->size, RSH_ERUNTIME,
                "mesh has more ranks than its parent, which has %d", parent->size);
    return RSH_OK;
}

static rsh_status check_ranks(const rsh_comm *parent, int64_t n, const int64_t *ranks) {
    int64_t *sorted = rshi_alloc((size_t)n, sizeof *sorted);
    if (!sorted) return rshi_nomem();
    memcpy(sorted, ranks, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, rshi_compare_int64);
    rsh_status st = RSH_OK;
    for (int64_t i = 0; !st && i < n; i++) {
        if (sorted[i] < 0 || sorted[i] >= parent->size)
            st = rshi_fail(RSH_EVALUE, "mesh names rank %" PRId64 "; the parent has ranks 0 to %d", sorted[i],
                           parent->size - 1);
        else if (i && sorted[i] == sorted[i - 1])
            st = rshi_fail(RSH_EVALUE, "mesh names rank %" PRId64 " more than once", sorted[i]);
    }
    rshi_free(sorted);
    return st;
}

static rsh_status check_names(int ndim, const char *const *names) {
    for (int d = 0; d < ndim; d++) {
        RSH_REQUIRE(names[d] && *names[d], RSH_ERUNTIME, "dim %d of the mesh has no name; name all dims or none", d);
        for (int e = 0; e < d; e++)
            RSH_REQUIRE(strcmp(names[d], names[e]), RSH_ERUNTIME,
                        "mesh has two dims named \"%s\"; names must be unique", names[d]);
    }
    return RSH_OK;
}

/* ---- creating ---- */

static char *duplicate(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = rshi_alloc(bytes, 1);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

static rsh_status copy_names(rsh_mesh *m, const char *const *names) {
    for (int d = 0; names && d < m->ndim; d++)
        if (!(m->names[d] = duplicate(names[d]))) return rshi_nomem();
    return RSH_OK;
}

static bool is_taken(const rsh_mesh *m, const char *axis) {
    for (int d = 0; d < m->ndim; d++)
        if (m->names[d] && !strcmp(m->names[d], axis)) return true;
    return false;
}

/* Chooses axis names for the layouts.  The notation does not allow every name of a mesh dim ("sum", "dp-1").  Such a
 * dim becomes m<dim>, with as many m's as it takes to differ from all names. */
static void name_axes(rsh_mesh *m) {
    for (int d = 0; d < m->ndim; d++) {
        rsh_axis *axis = &m->axis[d];
        axis->size = m->shape[d];
        bool spelled = m->names[d] && strlen(m->names[d]) < sizeof axis->name && rshi_axis_can_be(m->names[d]);
        if (spelled) snprintf(axis->name, sizeof axis->name, "%s", m->names[d]);
        for (int length = 1; !spelled && length < 16; length++) {
            snprintf(axis->name, sizeof axis->name, "%.*s%d", length, "mmmmmmmmmmmmmmmm", d);
            if (!is_taken(m, axis->name)) break;
        }
    }
}

static void find_self(rsh_mesh *m) {
    m->position = -1;
    for (int64_t i = 0; i < m->size; i++)
        if (m->ranks[i] == m->parent->rank) m->position = i;
    int64_t left = m->position;
    for (int d = m->ndim - 1; m->position >= 0 && d >= 0; d--) {
        m->coordinate[d] = left % m->shape[d];
        left /= m->shape[d];
    }
}

rsh_status rshi_mesh_handle(rsh_comm *parent, int ndim, const int64_t *shape, const int64_t *ranks,
                            const char *const *names, rsh_mesh **out) {
    int64_t size = 0;
    RSH_TRY(check_shape(parent, ndim, shape, &size));
    if (ranks) RSH_TRY(check_ranks(parent, size, ranks));
    if (names) RSH_TRY(check_names(ndim, names));
    rsh_mesh *m = RSHI_NEW(rsh_mesh);
    if (!m) return rshi_nomem();
    m->refs = 1;
    m->parent = parent;
    m->ndim = ndim;
    m->size = size;
    memcpy(m->shape, shape, (size_t)ndim * sizeof *shape);
    m->ranks = rshi_alloc((size_t)size, sizeof *m->ranks);
    rsh_status st = m->ranks ? copy_names(m, names) : rshi_nomem();
    if (st) {
        rshi_mesh_destroy(m);
        return st;
    }
    for (int64_t i = 0; i < size; i++) m->ranks[i] = ranks ? ranks[i] : i;
    name_axes(m);
    find_self(m);
    *out = m;
    return RSH_OK;
}

void rshi_mesh_destroy(rsh_mesh *m) {
    if (!m) return;
    if (m->notes.drop) m->notes.drop(m->notes.what);
    for (int d = m->ndim - 1; d >= 0; d--)
        /* tensors that are freed later may have execs on this comm */
        if (m->owns_line[d]) rshi_comm_give_up(m->line[d]);
    if (m->owns_comm) rshi_comm_give_up(m->comm);
    for (int d = 0; d < m->ndim; d++) rshi_free(m->names[d]);
    rshi_free(m->ranks);
    rshi_known_free(m);
    rsh_mesh_free(m->whole);
    rshi_free(m);
}

rshi_mesh_notes *rshi_mesh_notes_of(rsh_mesh *m) { return &m->notes; }

/* ---- getters ---- */

int rsh_mesh_ndim(const rsh_mesh *m) { return m ? m->ndim : -1; }
int64_t rsh_mesh_size(const rsh_mesh *m) { return m ? m->size : -1; }
static bool has_dim(const rsh_mesh *m, int dim) { return m && dim >= 0 && dim < m->ndim; }
int64_t rsh_mesh_dim_size(const rsh_mesh *m, int dim) { return has_dim(m, dim) ? m->shape[dim] : -1; }
const int64_t *rsh_mesh_shape(const rsh_mesh *m) { return m ? m->shape : NULL; }
const int64_t *rsh_mesh_ranks(const rsh_mesh *m) { return m ? m->ranks : NULL; }
const char *rsh_mesh_dim_name(const rsh_mesh *m, int dim) { return has_dim(m, dim) ? m->names[dim] : NULL; }
const int64_t *rsh_mesh_coordinate(const rsh_mesh *m) { return m && m->position >= 0 ? m->coordinate : NULL; }
rsh_comm *rsh_mesh_comm(const rsh_mesh *m) { return m && m->position >= 0 ? m->comm : NULL; }
rsh_comm *rsh_mesh_dim_comm(const rsh_mesh *m, int dim) { return has_dim(m, dim) ? m->line[dim] : NULL; }
rsh_comm *rsh_mesh_parent(const rsh_mesh *m) { return m ? m->parent : NULL; }

rsh_status rsh_mesh_find_dim(const rsh_mesh *m, const char *name, int *dim) {
    RSH_NEEDS(m);
    RSH_NEEDS(name);
    RSH_NEEDS(dim);
    for (int d = 0; d < m->ndim; d++) {
        if (!m->names[d] || strcmp(m->names[d], name)) continue;
        *dim = d;
        return RSH_OK;
    }
    if (!m->names[0]) return rshi_fail(RSH_EKEY, "mesh has no dim \"%s\": its dims have no names", name);
    rshi_text have = {0};
    for (int d = 0; d < m->ndim; d++) rshi_text_add(&have, "%s%s", d ? ", " : "", m->names[d]);
    rsh_status st = rshi_fail(RSH_EKEY, "mesh has no dim \"%s\"; its dims are %s", name, have.data ? have.data : "?");
    rshi_text_free(&have);
    return st;
}

static bool same_name(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

bool rsh_mesh_equal(const rsh_mesh *a, const rsh_mesh *b) {
    if (!a || !b) return false;
    if (a == b) return true;
    if (a->parent != b->parent || a->ndim != b->ndim || a->size != b->size) return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->shape[d] != b->shape[d] || !same_name(a->names[d], b->names[d])) return false;
    return !memcmp(a->ranks, b->ranks, (size_t)a->size * sizeof *a->ranks);
}
