/* Copy: copies, converts and fills the elements of tensors. */
#include "math/impl.h"

#include <string.h>

void rshi_math_copy(const rsh_tensor *from, const rsh_tensor *to) {
    int64_t ss[RSHI_MOVE_DIMS] = {0};
    rshi_move m = {.nsrc = 1, .ss = ss, .from = rsh_tensor_dtype(from)};
    const char *src = rsh_tensor_data(from);
    rshi_byte_strides(from, ss);
    rshi_run_move(&m, to, &src);
    rsh_tensor_bump_version(to);
}

rsh_status rsh_math_convert(const rsh_tensor *from, rsh_dtype dtype, rsh_tensor **out) {
    rsh_tensor *made;
    RSH_REQUIRE(from && out, RSH_EVALUE, "rsh_math_convert: tensor and out must not be NULL");
    RSH_REQUIRE((unsigned)dtype < RSH_NDTYPES, RSH_EVALUE, "%d is not a dtype", (int)dtype);
    RSH_TRY(rsh_dtype_check_convert(rsh_tensor_dtype(from), dtype));
    RSH_TRY(rsh_tensor_empty(dtype, rsh_tensor_ndim(from), rsh_tensor_shape(from), &made));
    rshi_math_copy(from, made);
    *out = made;
    return RSH_OK;
}

rsh_status rsh_math_copy(const rsh_tensor *from, const rsh_tensor *to) {
    rsh_tensor *between = NULL;
    RSH_REQUIRE(from && to, RSH_EVALUE, "rsh_math_copy: from and to must not be NULL");
    RSH_TRY(rshi_require_shape("copy", from, to));
    RSH_TRY(rsh_dtype_check_convert(rsh_tensor_dtype(from), rsh_tensor_dtype(to)));
    if (rshi_share_memory(from, to)) RSH_TRY(rsh_math_convert(from, rsh_tensor_dtype(to), &between));
    rshi_math_copy(between ? between : from, to);
    rsh_tensor_free(between);
    return RSH_OK;
}

rsh_status rsh_math_fill(const rsh_tensor *t, const void *value) {
    RSH_REQUIRE(t && value, RSH_EVALUE, t ? "rsh_math_fill: value is NULL" : "rsh_math_fill: tensor is NULL");
    rshi_move m = {.from = rsh_tensor_dtype(t)};
    memcpy(m.value, value, rshi_item(t));
    rshi_run_move(&m, t, NULL);
    rsh_tensor_bump_version(t);
    return RSH_OK;
}

rsh_status rsh_math_fill_number(const rsh_tensor *t, double value) {
    unsigned char element[16] = {0};
    RSH_REQUIRE(t, RSH_EVALUE, "rsh_math_fill_number: tensor is NULL");
    rshi_convert(RSH_F64, &value, rsh_tensor_dtype(t), element, 1);
    return rsh_math_fill(t, element);
}
