/* Known layouts: a cache of recent layouts of a mesh, so that a loop does not format and check the same texts again. */
#include "mesh/impl.h"

#include <string.h>

/* Fills in the key of a lookup.  Negative dims are kept as the caller passed them. */
static void fill_question(rsh_mesh_numbering numbers, int n, const rsh_place *places, rsh_dtype dtype, int ndim,
                          const int64_t *shape, rshi_asked_layout *q) {
    memset(q, 0, sizeof *q);
    q->numbers = numbers;
    q->dtype = dtype;
    q->ndim = ndim;
    memcpy(q->places, places, (size_t)n * sizeof *places);
    memcpy(q->shape, shape, (size_t)ndim * sizeof *shape);
}

rsh_layout *rshi_known_layout(const rsh_mesh *m, rsh_mesh_numbering numbers, int n, const rsh_place *places,
                              rsh_dtype dtype, int ndim, const int64_t *shape) {
    rshi_asked_layout q;
    if (!m->known || ndim < 0 || ndim > RSH_MAX_NDIM || (ndim && !shape)) return NULL;
    fill_question(numbers, n, places, dtype, ndim, shape, &q);
    for (int i = 0; i < RSHI_KNOWN; i++)
        if (m->known[i].layout && !memcmp(&m->known[i].question, &q, sizeof q)) return m->known[i].layout;
    return NULL;
}

void rshi_known_add(const rsh_mesh *mesh, rsh_mesh_numbering numbers, int n, const rsh_place *places, rsh_dtype dtype,
                    int ndim, const int64_t *shape, rsh_layout *layout) {
    /* the cache is not part of the mesh's immutable state, and only one thread uses it */
    rsh_mesh *m = (rsh_mesh *)mesh;
    if (!m->known) m->known = rshi_calloc(RSHI_KNOWN, sizeof *m->known);
    if (!m->known) return; /* without memory for the cache, nothing is cached */
    rshi_known *k = &m->known[m->next_known++ % RSHI_KNOWN];
    rsh_layout_free(k->layout);
    *k = (rshi_known){.layout = rsh_layout_hold(layout)};
    fill_question(numbers, n, places, dtype, ndim, shape, &k->question);
}

rshi_known *rshi_known_of(const rsh_mesh *m, rsh_mesh_numbering numbers, const rsh_layout *layout) {
    for (int i = 0; m->known && i < RSHI_KNOWN; i++) {
        rshi_known *k = &m->known[i];
        if (k->layout == layout && k->question.numbers == (int64_t)numbers) return k;
    }
    return NULL;
}

void rshi_known_free(rsh_mesh *m) {
    for (int i = 0; m->known && i < RSHI_KNOWN; i++) rsh_layout_free(m->known[i].layout);
    rshi_free(m->known);
}
