/* Combine: several tensors combined into one, element by element and left to right. */
#include "math/impl.h"

static rsh_status check_combine(rsh_op op, int n, const rsh_tensor *const *from, const rsh_tensor *to) {
    RSH_REQUIRE(n > 0 && from && to, RSH_EVALUE, "combine: expected at least one tensor and an output, got %d tensors",
                n);
    for (int k = 0; k < n; k++) RSH_REQUIRE(from[k], RSH_EVALUE, "combine: tensor %d is NULL", k);
    rsh_dtype dtype = rsh_tensor_dtype(from[0]);
    RSH_REQUIRE(op > RSH_OP_NONE && op < RSH_OP_COUNT, RSH_EVALUE, "combine: %d is not a reduction", (int)op);
    RSH_TRY(rsh_op_check(op, dtype));
    for (int k = 0; k < n; k++) {
        RSH_TRY(rshi_require_shape("combine", from[k], to));
        RSH_REQUIRE(rsh_tensor_dtype(from[k]) == dtype, RSH_EVALUE,
                    "combine: dtypes must be equal, tensor 0 is %s, tensor %d is %s",
                    rsh_dtype_name(dtype), k, rsh_dtype_name(rsh_tensor_dtype(from[k])));
    }
    return rsh_dtype_check_convert(dtype, rsh_tensor_dtype(to));
}

static rsh_status combine_into(rsh_op op, int n, const rsh_tensor *const *from, const rsh_tensor *to) {
    int64_t *ss = rshi_calloc((size_t)n * RSHI_MOVE_DIMS, sizeof *ss);
    const char **src = rshi_alloc((size_t)n, sizeof *src);
    bool ok = ss && src;
    for (int k = 0; ok && k < n; k++) {
        src[k] = rsh_tensor_data(from[k]);
        rshi_byte_strides(from[k], ss + (size_t)k * RSHI_MOVE_DIMS);
    }
    if (ok) {
        bool avg = op == RSH_OP_AVG;
        rshi_move m = {.nsrc = n,
                       .ss = ss,
                       .from = rsh_tensor_dtype(from[0]),
                       .op = n == 1 ? RSH_OP_NONE : avg ? RSH_OP_SUM : op,
                       .divisor = avg ? n : 0};
        rshi_run_move(&m, to, src);
    }
    rshi_free(src);
    rshi_free(ss);
    return ok ? RSH_OK : rshi_nomem();
}

rsh_status rsh_math_combine(rsh_op op, int n, const rsh_tensor *const *from, const rsh_tensor *to) {
    /* a temporary result, needed if writing `to` would overwrite elements that are not read yet */
    rsh_tensor *apart = NULL;
    bool shared = false;
    RSH_TRY(check_combine(op, n, from, to));
    for (int k = 0; k < n; k++) shared |= rshi_share_memory(from[k], to);
    if (shared)
        RSH_TRY(rsh_tensor_empty(rsh_tensor_dtype(to), rsh_tensor_ndim(to), rsh_tensor_shape(to), &apart));
    rsh_status st = combine_into(op, n, from, apart ? apart : to);
    if (!st && apart) rshi_math_copy(apart, to);
    if (!st && !apart) rsh_tensor_bump_version(to);
    rsh_tensor_free(apart);
    return st;
}
