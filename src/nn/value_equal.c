/* Value equal: do two values hold the same numbers, or close ones?  Every rank gets the same answer. */
#include <reshard/math.h>

#include "nn/impl.h"

typedef struct measure {
    bool exact; /* equal; otherwise close within: */
    double rtol, atol;
    bool equal_nan;
} measure;

static bool same_part(const rsh_tensor *a, const rsh_tensor *b, const measure *m) {
    bool same = false;
    rsh_status st = m->exact ? rsh_math_equal(a, b, &same)
                             : rsh_math_allclose(a, b, m->rtol, m->atol, m->equal_nan, &same);
    return !st && same;
}

/* What this rank sees.  Values of other sizes, dtypes or cuts are not the same. */
static bool same_here(const rsh_value *a, const rsh_value *b, const measure *m) {
    bool same = rsh_value_dtype(a) == rsh_value_dtype(b) && rsh_value_nparts(a) == rsh_value_nparts(b);
    if (same && rsh_value_sharded(a)) same = rsh_layout_same_parts(rsh_value_layout(a), rsh_value_layout(b));
    for (int64_t i = 0; same && i < rsh_value_nparts(a); i++)
        same = same_part(rsh_value_part(a, i), rsh_value_part(b, i), m);
    return same;
}

static rsh_status check(const rsh_value *a, const rsh_value *b, const measure *m, const bool *out) {
    if (!a || !b || !out) return rshn_fail(RSH_EVALUE, "a comparison needs two values and a place for the answer");
    if (!(m->rtol >= 0 && m->atol >= 0))
        return rshn_fail(RSH_EVALUE, "allclose: tolerances must not be negative, got rtol %g, atol %g", m->rtol,
                         m->atol);
    if (!rsh_value_sharded(a) != !rsh_value_sharded(b))
        return rshn_fail(RSH_ETYPE, "a comparison of a sharded tensor with a plain one");
    return RSH_OK;
}

static rsh_status compare(const rsh_value *a, const rsh_value *b, const measure *m, bool *out) {
    rsh_comm *comm = rsh_value_comm(a);
    rsh_status st = check(a, b, m, out);
    if (!st && comm != rsh_value_comm(b)) return *out = false, RSH_OK;
    if (comm) st = rsh_comm_agree(comm, st);
    if (st) return st;
    int64_t mine = same_here(a, b, m), all = mine;
    if (comm) NN_TRY(rsh_comm_allreduce(comm, &mine, &all, 1, RSH_I64, RSH_OP_MIN));
    *out = all != 0;
    return RSH_OK;
}

rsh_status rsh_nn_equal(const rsh_value *a, const rsh_value *b, bool *out) {
    return compare(a, b, &(measure){.exact = true}, out);
}

rsh_status rsh_nn_allclose(const rsh_value *a, const rsh_value *b, double rtol, double atol, bool equal_nan,
                           bool *out) {
    return compare(a, b, &(measure){false, rtol, atol, equal_nan}, out);
}
