/* Stash: caches the layouts of packed tensors, and numbers tickets. */
#include "stash/impl.h"

#include <string.h>

rsh_status rsh_stash_new(rsh_comm *comm, rsh_stash **out) {
    RSH_NEEDS(comm);
    RSH_NEEDS(out);
    rsh_stash *s = RSHI_NEW(rsh_stash);
    if (!s) return rshi_nomem();
    *s = (rsh_stash){.refs = 1, .comm = comm};
    *out = s;
    return RSH_OK;
}

void rshi_stash_drop(rsh_stash *s) {
    if (--s->refs) return;
    for (int64_t i = 0; i < s->n; i++) {
        rsh_layout_free(s->list[i].cut);
        rsh_layout_free(s->list[i].whole);
    }
    rshi_free(s->list);
    rshi_free(s);
}

void rsh_stash_free(rsh_stash *s) {
    if (s) rshi_stash_drop(s);
}

void rsh_stash_restart(rsh_stash *s) {
    if (s) s->packed = 0;
}

/* ---- layouts ---- */

static bool fits(const rshi_cutting *c, rsh_dtype dtype, int ndim, const int64_t *shape, int dim) {
    return c->dtype == dtype && c->ndim == ndim && c->dim == dim &&
           !memcmp(c->shape, shape, (size_t)ndim * sizeof *shape);
}

/* Creates the layout "f32[7/ranks, 3] on ranks=4", and the same layout without the cut. */
static rsh_status new_layouts(const rsh_stash *s, rsh_dtype dtype, int ndim, const int64_t *shape, int dim,
                              rshi_cutting *out) {
    rsh_layout_desc desc = {.dtype = dtype, .ndim = ndim, .naxes = 1, .axis = {{"ranks", rsh_comm_size(s->comm)}}};
    *out = (rshi_cutting){.dtype = dtype, .ndim = ndim, .dim = dim};
    memcpy(out->shape, shape, (size_t)ndim * sizeof *shape);
    for (int d = 0; d < ndim; d++) desc.dim[d].size = shape[d];
    RSH_TRY(rsh_layout_new(&desc, &out->whole));
    desc.dim[dim].cut = (rsh_cut){.naxes = 1};
    rsh_status st = rsh_layout_new(&desc, &out->cut);
    if (st) rsh_layout_free(out->whole);
    return st;
}

rsh_status rshi_stash_cutting(rsh_stash *s, rsh_dtype dtype, int ndim, const int64_t *shape, int dim,
                              const rshi_cutting **out) {
    for (int64_t i = 0; i < s->n; i++) {
        if (!fits(&s->list[i], dtype, ndim, shape, dim)) continue;
        *out = &s->list[i];
        return RSH_OK;
    }
    RSH_TRY(RSHI_GROW(s->list, s->n + 1, &s->room));
    RSH_TRY(new_layouts(s, dtype, ndim, shape, dim, &s->list[s->n]));
    *out = &s->list[s->n++];
    return RSH_OK;
}
