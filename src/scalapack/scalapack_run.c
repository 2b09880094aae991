/* Run: performs a call of a ScaLAPACK routine as a reshard between two layouts, on all ranks of its context or on none.
 *
 * For a trapezoid, the rectangle around it is moved into temporary memory, and the trapezoid is copied from there.  So
 * nothing outside the trapezoid is written. */
#include "scalapack/impl.h"

#include <reshard/mpi_world.h>
#include <reshard/scalapack.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rsh_scalapack_stats stats;

rsh_status rsh_scalapack_get_stats(rsh_scalapack_stats *out) {
    if (!out) return rsh_fail(RSH_EVALUE, "rsh_scalapack_get_stats: out is NULL");
    *out = stats;
    return RSH_OK;
}

typedef enum setting { SETTING_ON, SETTING_OFF, SETTING_VERBOSE } setting;

static setting read_setting(void) {
    const char *text = getenv("RESHARD_SCALAPACK");
    if (!text || !*text || !strcmp(text, "on")) return SETTING_ON;
    if (!strcmp(text, "off")) return SETTING_OFF;
    if (!strcmp(text, "verbose")) return SETTING_VERBOSE;
    fprintf(stderr, "libreshard-scalapack: RESHARD_SCALAPACK must be on, off or verbose, got \"%s\"; it is ignored\n",
            text);
    return SETTING_ON;
}

static setting current_setting(void) {
    static bool known;
    static setting value;
    if (!known) value = read_setting(), known = true;
    return value;
}

/* ---- this rank's part of a submatrix ---- */

typedef struct local_part {
    char *data;
    int32_t rows, columns;
    int64_t lld;
} local_part;

/* Finds this rank's part of a side's submatrix in its local array. */
static local_part find_local(const rshs_side *s, int32_t rows, int32_t columns, size_t item) {
    const rshs_matrix *m = &s->matrix;
    if (!s->member) return (local_part){0};
    int32_t r0 = rshs_owned_before(m->i, m->mb, s->row, m->rsrc, m->P);
    int32_t c0 = rshs_owned_before(m->j, m->nb, s->column, m->csrc, m->Q);
    int32_t r1 = rshs_owned_before(m->i + rows, m->mb, s->row, m->rsrc, m->P);
    int32_t c1 = rshs_owned_before(m->j + columns, m->nb, s->column, m->csrc, m->Q);
    char *data = s->data + ((int64_t)c0 * s->lld + r0) * (int64_t)item;
    if (r0 == r1 || c0 == c1) data = NULL; /* empty parts may have any address */
    return (local_part){data, r1 - r0, c1 - c0, s->lld};
}

static rsh_status wrap_part(rsh_comm *comm, const rsh_layout *layout, const local_part *part, bool transposed,
                       rsh_sharded **out) {
    int64_t strides[2] = {transposed ? 1 : part->lld, transposed ? part->lld : 1};
    rsh_memory memory = {part->data, part->data ? strides : NULL};
    return rsh_sharded_wrap(comm, layout, &memory, out);
}

/* ---- shapes ---- */

static void negate_imaginary(const local_part *p, rsh_dtype dtype) {
    for (int64_t j = 0; j < p->columns && p->data; j++)
        for (int64_t i = 0; i < p->rows; i++) {
            int64_t at = 2 * (j * p->lld + i) + 1;
            if (dtype == RSH_C64) ((float *)(void *)p->data)[at] = -((float *)(void *)p->data)[at];
            else ((double *)(void *)p->data)[at] = -((double *)(void *)p->data)[at];
        }
}

/* Returns the global column, within the submatrix, of local column j of a part. */
static int32_t global_column(const rshs_side *s, int32_t j) {
    const rshs_matrix *m = &s->matrix;
    int32_t local = rshs_owned_before(m->j, m->nb, s->column, m->csrc, m->Q) + j;
    int32_t turn = (s->column - m->csrc + m->Q) % m->Q;
    return (local / m->nb * m->Q + turn) * m->nb + local % m->nb - m->j;
}

/* Computes the rows [*lo, *hi) of column j that belong to the trapezoid.  Its diagonal ends in the last row and
 * column. */
static void trapezoid_rows(const rshs_call *c, int32_t j, int32_t *lo, int32_t *hi) {
    int32_t over = c->m - c->n; /* number of rows minus number of columns */
    if (c->upper) {
        *lo = 0, *hi = (over > 0 ? over : 0) + j + c->diagonal;
        if (*hi > c->m) *hi = c->m;
    } else {
        *lo = j + (over < 0 ? over : 0) + !c->diagonal, *hi = c->m;
        if (*lo < 0) *lo = 0;
    }
}

/* Copies the trapezoid from `from`, this rank's part of the whole rectangle. */
static void copy_trapezoid(const rshs_call *c, const local_part *from, const local_part *to, size_t item) {
    const rshs_side *s = &c->side[1];
    const rshs_matrix *m = &s->matrix;
    for (int32_t j = 0; j < to->columns && to->data; j++) {
        int32_t lo, hi, before = rshs_owned_before(m->i, m->mb, s->row, m->rsrc, m->P);
        trapezoid_rows(c, global_column(s, j), &lo, &hi);
        if (lo >= hi) continue;
        int64_t first = rshs_owned_before(m->i + lo, m->mb, s->row, m->rsrc, m->P) - before;
        int64_t last = rshs_owned_before(m->i + hi, m->mb, s->row, m->rsrc, m->P) - before;
        memcpy(to->data + (j * to->lld + first) * (int64_t)item, from->data + (j * from->lld + first) * (int64_t)item,
               (size_t)(last - first) * item);
    }
}

/* ---- the move ---- */

static rsh_status move_rectangle(const rshs_call *c, rsh_comm *comm, rsh_layout *layout[2], const local_part part[2]) {
    rsh_sharded *from = NULL, *to = NULL;
    bool transposed = c->shape == RSHS_TRANSPOSE || c->shape == RSHS_CONJUGATE;
    rsh_status st = wrap_part(comm, layout[0], &part[0], transposed, &from);
    if (!st) st = wrap_part(comm, layout[1], &part[1], false, &to);
    if (!st) st = rsh_reshard_into(from, to, NULL);
    if (!st && c->shape == RSHS_CONJUGATE) negate_imaginary(&part[1], c->dtype);
    rsh_sharded_free(to);
    rsh_sharded_free(from);
    return st;
}

static rsh_status move_trapezoid(const rshs_call *c, rsh_comm *comm, rsh_layout *layout[2], const local_part part[2]) {
    size_t item = rsh_dtype_size(c->dtype);
    rsh_sharded *from = NULL, *rectangle = NULL;
    rsh_status st = wrap_part(comm, layout[0], &part[0], false, &from);
    if (!st) st = rsh_reshard(from, layout[1], NULL, &rectangle);
    const rsh_tensor *t = st ? NULL : rsh_sharded_part(rectangle, 0);
    if (t && part[1].data) {
        local_part moved = {rsh_tensor_data(t), part[1].rows, part[1].columns, part[1].rows};
        copy_trapezoid(c, &moved, &part[1], item);
    }
    rsh_sharded_free(rectangle);
    rsh_sharded_free(from);
    return st;
}

static rsh_status move_shape(const rshs_call *c, rsh_comm *comm, rsh_layout *layout[2]) {
    bool transposed = c->shape == RSHS_TRANSPOSE || c->shape == RSHS_CONJUGATE;
    size_t item = rsh_dtype_size(c->dtype);
    local_part part[2] = {find_local(&c->side[0], transposed ? c->n : c->m, transposed ? c->m : c->n, item),
                          find_local(&c->side[1], c->m, c->n, item)};
    return (c->shape == RSHS_TRAPEZOID ? move_trapezoid : move_rectangle)(c, comm, layout, part);
}

/* ---- the call ---- */

/* Is this an error that all ranks get before any element moves? */
static bool is_refusal(rsh_status st) { return st == RSH_EVALUE || st == RSH_EUNSUP || st == RSH_ENOMEM; }

static bool forward_to_scalapack(const rshs_call *c, const char *why) {
    stats.forwarded++;
    if (current_setting() == SETTING_VERBOSE)
        fprintf(stderr, "libreshard-scalapack: %s: forwarded to ScaLAPACK: %s\n", c->name, why);
    return false;
}

static void abort_on_error(const rshs_call *c, rsh_status st) {
    if (st) rshs_abort(c->context, c->name, rsh_error_detail());
}

bool rshs_run(rshs_call *c) {
    rsh_comm *comm;
    rsh_layout *layout[2];
    rshs_agreed agreed;
    const char *refusal = NULL;
    if (current_setting() == SETTING_OFF) return forward_to_scalapack(c, "RESHARD_SCALAPACK=off");
    rsh_status st = rsh_comm_mpi_kept_f(rshs_communicator(c->context), &comm);
    if (st == RSH_EUNSUP) return forward_to_scalapack(c, rsh_error_detail());
    abort_on_error(c, st);
    int64_t *ranks = malloc(2 * (size_t)rsh_comm_size(comm) * sizeof *ranks);
    if (!ranks) rshs_abort(c->context, c->name, "out of memory for the ranks of a context");
    abort_on_error(c, rshs_agree(comm, c, ranks, &agreed, &refusal));
    if (!refusal) abort_on_error(c, rshs_layouts(c, &agreed, layout));
    free(ranks);
    if (refusal) return forward_to_scalapack(c, c->refusal ? c->refusal : refusal);
    st = move_shape(c, comm, layout);
    if (is_refusal(st)) return forward_to_scalapack(c, rsh_error_detail());
    abort_on_error(c, st);
    stats.moved++;
    if (current_setting() == SETTING_VERBOSE) fprintf(stderr, "libreshard-scalapack: %s: moved by reshard\n", c->name);
    return true;
}
