/* Value equal: compares two values exactly or within tolerances.  Every rank gets the same answer. */
#include <reshard/math.h>

#include "nn/impl.h"

typedef struct measure {
    bool exact; /* compare exactly; otherwise within these tolerances */
    double rtol, atol;
    bool equal_nan;
} measure;

static bool same_part(const rsh_tensor *a, const rsh_tensor *b, const measure *m) {
    bool same = false;
    rsh_status st = m->exact ? rsh_math_equal(a, b, &same)
                             : rsh_math_allclose(a, b, m->rtol, m->atol, m->equal_nan, &same);
    return !st && same;
}

/* Compares the parts of this rank.  Values with different shapes, dtypes or cuts are not equal. */
static bool same_here(const rsh_value *a, const rsh_value *b, const measure *m) {
    bool same = rsh_value_dtype(a) == rsh_value_dtype(b) && rsh_value_nparts(a) == rsh_value_nparts(b);
    if (same && rsh_value_sharded(a)) same = rsh_layout_same_parts(rsh_value_layout(a), rsh_value_layout(b));
    for (int64_t i = 0; same && i < rsh_value_nparts(a); i++)
        same = same_part(rsh_value_part(a, i), rsh_value_part(b, i), m);
    return same;
}

static rsh_status check_arguments(const rsh_value *a, const rsh_value *b, const measure *m, const bool *out) {
    if (!a || !b || !out) return rshn_fail(RSH_EVALUE, "cannot compare values: %s is NULL", !a ? "a" : b ? "out" : "b");
    if (!(m->rtol >= 0 && m->atol >= 0))
        return rshn_fail(RSH_EVALUE, "allclose: tolerances must not be negative, got rtol %g, atol %g", m->rtol,
                         m->atol);
    if (!rsh_value_sharded(a) != !rsh_value_sharded(b))
        return rshn_fail(RSH_ETYPE, "cannot compare a sharded tensor with a plain one; gather it first");
    return RSH_OK;
}

static rsh_status compare_values(const rsh_value *a, const rsh_value *b, const measure *m, bool *out) {
    rsh_comm *comm = rsh_value_comm(a);
    rsh_status st = check_arguments(a, b, m, out);
    if (!st && comm != rsh_value_comm(b)) return *out = false, RSH_OK;
    if (comm) st = rsh_comm_agree(comm, st);
    if (st) return st;
    int64_t mine = same_here(a, b, m), all = mine;
    if (comm) NN_TRY(rsh_comm_allreduce(comm, &mine, &all, 1, RSH_I64, RSH_OP_MIN));
    *out = all != 0;
    return RSH_OK;
}

rsh_status rsh_nn_equal(const rsh_value *a, const rsh_value *b, bool *out) {
    return compare_values(a, b, &(measure){.exact = true}, out);
}

rsh_status rsh_nn_allclose(const rsh_value *a, const rsh_value *b, double rtol, double atol, bool equal_nan,
                           bool *out) {
    return compare_values(a, b, &(measure){false, rtol, atol, equal_nan}, out);
}
