/* Grid layout: converts a submatrix on a process grid to a layout.
 *
 * Layouts distribute blocks from position 0 on.  The mesh is the grid, rotated so that position 0 has the first block.
 * A submatrix that begins inside a block has a short first block: this becomes a separate segment on the last position,
 * and the full blocks after it are distributed from position 0 on. */
#include "scalapack/impl.h"

#include <stdlib.h>
#include <string.h>

int32_t rshs_owned_before(int32_t x, int32_t block, int32_t k, int32_t first, int32_t p) {
    int32_t turn = (k - first + p) % p, blocks = x / block;
    int32_t own = blocks / p * block;
    if (blocks % p > turn) return own + block;
    return blocks % p == turn ? own + x % block : own;
}

/* One dim of a submatrix: n indices from `begin` on, in blocks that are distributed cyclically to p processes. */
typedef struct dealt {
    int32_t n, begin, block, p;
    int32_t first;        /* the process at position 0 of the mesh */
    rsh_segment part[2];  /* the two segments of a dim that begins inside a block */
    int64_t *sizes;       /* owned: [p], sizes of the short first block */
} dealt;

static rsh_status make_dim(dealt *d, int axis, int32_t source, rsh_dim *out) {
    int32_t inside = d->begin % d->block, head = d->block - inside;
    d->first = (source + d->begin / d->block) % d->p;
    *out = (rsh_dim){.size = d->n, .cut = {.naxes = 1, .axes = {axis}, .rule = RSH_CUT_CYCLIC, .number = d->block}};
    if (d->p == 1) out->cut.number = d->n; /* with one process, one block of n is the simplest description */
    if (d->p == 1 || !inside || d->n <= head) return RSH_OK;
    d->first = (d->first + 1) % d->p;
    d->sizes = calloc((size_t)d->p, sizeof *d->sizes);
    if (!d->sizes) return rsh_fail(RSH_ENOMEM, "out of memory for a layout");
    d->sizes[d->p - 1] = head;
    d->part[0] = (rsh_segment){head, out->cut};
    d->part[0].cut.rule = RSH_CUT_SIZES, d->part[0].cut.sizes = d->sizes, d->part[0].cut.nsizes = d->p;
    d->part[1] = (rsh_segment){d->n - head, out->cut};
    *out = (rsh_dim){.nsegments = 2, .segment = d->part};
    return RSH_OK;
}

/* Lists the rank of each position: process (row, column) is at position (row - first row, column - first column). */
static int64_t *list_positions(const rshs_matrix *m, const int64_t *ranks, const dealt d[2]) {
    int64_t *out = malloc((size_t)m->P * (size_t)m->Q * sizeof *out);
    for (int64_t i = 0; i < m->P && out; i++)
        for (int64_t j = 0; j < m->Q; j++)
            out[i * m->Q + j] = ranks[(i + d[0].first) % m->P * m->Q + (j + d[1].first) % m->Q];
    return out;
}

/* Makes the layout; `rows` and `columns` are those of the submatrix.  Columns are dim 0 and rows are dim 1, so that
 * column-major memory is dense in the order of the dims, and messages need no transposition.  If `transposed`, rows are
 * dim 0. */
static rsh_status make_layout(rsh_dtype dtype, const rshs_matrix *m, const int64_t *ranks, int32_t rows,
                              int32_t columns, bool transposed, rsh_layout **out) {
    dealt d[2] = {{.n = rows, .begin = m->i, .block = m->mb, .p = m->P},
                  {.n = columns, .begin = m->j, .block = m->nb, .p = m->Q}};
    rsh_layout_desc desc = {.dtype = dtype, .ndim = 2, .naxes = 2, .has_order = true};
    int row_dim = !transposed, column_dim = transposed;
    int64_t *positions = NULL;
    strcpy(desc.axis[0].name, "p"), desc.axis[0].size = m->P;
    strcpy(desc.axis[1].name, "q"), desc.axis[1].size = m->Q;
    desc.order[0] = column_dim, desc.order[1] = row_dim; /* column-major: a column is contiguous */
    rsh_status st = make_dim(&d[0], 0, m->rsrc, &desc.dim[row_dim]);
    if (!st) st = make_dim(&d[1], 1, m->csrc, &desc.dim[column_dim]);
    if (!st && !(positions = list_positions(m, ranks, d))) st = rsh_fail(RSH_ENOMEM, "out of memory for a layout");
    desc.ranks = positions;
    if (!st) st = rsh_layout_new(&desc, out);
    free(positions);
    free(d[0].sizes);
    free(d[1].sizes);
    return st;
}

/* ---- cache of the most recent layouts ---- */

enum { CACHED = 128 };

/* The key of the cache, together with the ranks of both grids. */
typedef struct call_key {
    int32_t dtype, transposed, m, n;
    rshs_matrix matrix[2];
} call_key;

typedef struct cached_pair {
    call_key key;
    int64_t *ranks[2]; /* owned: the ranks of both grids */
    rsh_layout *layout[2];
    uint64_t used;
} cached_pair;

static cached_pair cache[CACHED]; /* only one thread uses ScaLAPACK; the cache is freed with the process */
static uint64_t clock_of_cache;

static size_t grid_bytes(const rshs_matrix *m) { return (size_t)m->P * (size_t)m->Q * sizeof(int64_t); }

static bool matches_key(const cached_pair *c, const call_key *key, const rshs_agreed *a) {
    return c->used && !memcmp(&c->key, key, sizeof *key) &&
           !memcmp(c->ranks[0], a->ranks[0], grid_bytes(&key->matrix[0])) &&
           !memcmp(c->ranks[1], a->ranks[1], grid_bytes(&key->matrix[1]));
}

static void free_cached_pair(cached_pair *c) {
    for (int s = 0; s < 2; s++) {
        rsh_layout_free(c->layout[s]);
        free(c->ranks[s]);
    }
    *c = (cached_pair){0};
}

static rsh_status fill_cached_pair(cached_pair *c, const call_key *key, const rshs_agreed *a) {
    rsh_status st = RSH_OK;
    free_cached_pair(c);
    for (int s = 0; s < 2 && !st; s++) {
        bool turned = s == 0 && key->transposed;
        c->ranks[s] = malloc(grid_bytes(&key->matrix[s]));
        if (!c->ranks[s]) st = rsh_fail(RSH_ENOMEM, "out of memory for the ranks of a grid");
        if (st) break;
        memcpy(c->ranks[s], a->ranks[s], grid_bytes(&key->matrix[s]));
        st = make_layout((rsh_dtype)key->dtype, &key->matrix[s], a->ranks[s], turned ? key->n : key->m,
                         turned ? key->m : key->n, turned, &c->layout[s]);
    }
    if (st) free_cached_pair(c);
    else c->key = *key;
    return st;
}

rsh_status rshs_layouts(const rshs_call *call, const rshs_agreed *agreed, rsh_layout *layout[2]) {
    bool transposed = call->shape == RSHS_TRANSPOSE || call->shape == RSHS_CONJUGATE;
    call_key key = {(int32_t)call->dtype, transposed, call->m, call->n, {agreed->matrix[0], agreed->matrix[1]}};
    cached_pair *oldest = cache, *found = NULL;
    for (cached_pair *c = cache; c < cache + CACHED && !found; c++) {
        if (matches_key(c, &key, agreed)) found = c;
        if (c->used < oldest->used) oldest = c;
    }
    rsh_status st = found ? RSH_OK : fill_cached_pair(oldest, &key, agreed);
    if (st) return st;
    if (!found) found = oldest;
    found->used = ++clock_of_cache;
    layout[0] = found->layout[0], layout[1] = found->layout[1];
    return RSH_OK;
}
