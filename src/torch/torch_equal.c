/* Equal: compares two sharded tensors.  Every rank gets the same answer. */
#include "torch/impl.h"

#include "math/math.h"

typedef struct measure {
    bool exact; /* compare exactly; otherwise within these tolerances */
    double rtol, atol;
    bool equal_nan;
} measure;

static bool same_data(const rsh_tensor *a, const rsh_tensor *b, const measure *m) {
    bool same = false;
    rsh_status st = m->exact ? rsh_math_equal(a, b, &same)
                             : rsh_math_allclose(a, b, m->rtol, m->atol, m->equal_nan, &same);
    return !st && same;
}

/* Compares this rank's shards. */
static rsh_status same_here(const rsh_torch_tensor *a, const rsh_torch_tensor *b, const measure *m, bool *out) {
    *out = rsh_tensor_props_equal(&a->props, &b->props);
    if (*out) RSH_TRY(rshi_torch_cut_alike(a, b, out));
    for (int64_t i = 0; *out && i < a->sharded->nparts; i++) {
        if (!rsh_tensor_count(a->shards[i].tensor)) continue;
        const rsh_shard *other = rshi_torch_find(b, &a->shards[i], i);
        *out = other && same_data(a->shards[i].tensor, other->tensor, m);
    }
    return RSH_OK;
}

static rsh_status check_arguments(const rsh_torch_tensor *b, const measure *m, const bool *out) {
    RSH_REQUIRE(b && out, RSH_EVALUE, "rsh_torch_equal: a, b and out must not be NULL");
    RSH_REQUIRE(m->exact || (m->rtol >= 0 && m->atol >= 0), RSH_EVALUE,
                "allclose: tolerances must not be negative, got rtol %g, atol %g",
                m->rtol, m->atol);
    return RSH_OK;
}

/* Compares the shards of all ranks with one exchange: each rank sends its verdict; if verdicts differ, some rank has
 * found a difference. */
static rsh_status compare_all(const rsh_torch_tensor *a, const rsh_torch_tensor *b, const measure *m, bool *out) {
    RSH_REQUIRE(a, RSH_EVALUE, "rsh_torch_equal: a, b and out must not be NULL");
    bool same = false, mine = false;
    rsh_status st = check_arguments(b, m, out);
    if (!st && a->sharded->comm != b->sharded->comm) {
        *out = false;
        return RSH_OK;
    }
    if (!st) st = same_here(a, b, m, &mine);
    RSH_TRY(rshi_comm_open_word(a->sharded->comm, m->exact ? "torch_equal" : "torch_allclose", mine, st, &same));
    *out = mine && same;
    return RSH_OK;
}

rsh_status rsh_torch_equal(const rsh_torch_tensor *a, const rsh_torch_tensor *b, bool *out) {
    return compare_all(a, b, &(measure){.exact = true}, out);
}

rsh_status rsh_torch_allclose(const rsh_torch_tensor *a, const rsh_torch_tensor *b, double rtol, double atol,
                              bool equal_nan, bool *out) {
    return compare_all(a, b, &(measure){false, rtol, atol, equal_nan}, out);
}
