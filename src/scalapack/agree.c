/* Agreement: every rank of a call learns both matrices and the position of every rank in their grids.
 *
 * Ranks outside a grid know nothing about its matrix, so each rank reports what it knows, and all ranks read all
 * reports in the same order.  So all reach the same conclusion, including whether to forward the call to ScaLAPACK.
 *
 * The reports go through the BLACS, not through reshard.  A rank may still have messages of earlier calls in progress,
 * which MPI delivers only while the sender calls MPI.  When this exchange is over, every rank has entered the call, and
 * no rank waits for such a message any more. */
#include "scalapack/impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct report {
    int32_t m, n;
    int32_t member[2], row[2], column[2];
    int32_t refused;
    rshs_matrix matrix[2];
} report;

static report make_report(const rshs_call *call) {
    report r = {.m = call->m, .n = call->n, .refused = call->refusal != NULL};
    for (int s = 0; s < 2; s++) {
        const rshs_side *side = &call->side[s];
        if (!side->member) continue;
        r.member[s] = 1, r.row[s] = side->row, r.column[s] = side->column;
        r.matrix[s] = side->matrix;
    }
    return r;
}

/* Reads the reports on one side; `ranks` has an entry for every rank. */
static const char *read_side(int side, int size, const report *all, int64_t *ranks, rshs_matrix *out) {
    int64_t members = 0;
    for (int r = 0; r < size; r++) {
        if (!all[r].member[side]) continue;
        const rshs_matrix *m = &all[r].matrix[side];
        if (!members) *out = *m;
        if (memcmp(m, out, sizeof *m)) return "processes of a grid passed different descriptors or submatrices";
        members++;
    }
    if (!members || members != (int64_t)out->P * out->Q) return "not all processes of a grid are in the context";
    for (int64_t i = 0; i < members; i++) ranks[i] = -1;
    for (int r = 0; r < size; r++)
        if (all[r].member[side]) ranks[all[r].row[side] * (int64_t)out->Q + all[r].column[side]] = r;
    for (int64_t i = 0; i < members; i++)
        if (ranks[i] < 0) return "two processes have the same position in a grid";
    return NULL;
}

static const char *read_reports(int size, const report *all, int64_t *ranks, rshs_agreed *out) {
    for (int r = 0; r < size; r++) {
        if (all[r].refused) return "the arguments of a rank are not supported";
        if (all[r].m != all[0].m || all[r].n != all[0].n) return "m or n differ between ranks";
    }
    for (int s = 0; s < 2; s++) {
        const char *refusal = read_side(s, size, all, ranks + s * size, &out->matrix[s]);
        if (refusal) return refusal;
        out->ranks[s] = ranks + s * size;
    }
    return NULL;
}

rsh_status rshs_agree(rsh_comm *comm, const rshs_call *call, int64_t *ranks, rshs_agreed *out, const char **refusal) {
    int size = rsh_comm_size(comm);
    report *all = calloc((size_t)size, sizeof *all);
    if (!all) return rsh_fail(RSH_ENOMEM, "out of memory for the ranks of a context");
    all[rsh_comm_rank(comm)] = make_report(call);
    rshs_sum(call->context, size * (int)(sizeof *all / sizeof(int32_t)), (int *)(void *)all);
    *refusal = read_reports(size, all, ranks, out);
    free(all);
    return RSH_OK;
}
