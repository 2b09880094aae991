/* Text of tensors. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <reshard.h>

static char text[4096];
static int keep(void *ctx, const char *t, size_t n) {
    (void)ctx;
    if (strlen(text) + n >= sizeof text) return 1;
    strncat(text, t, n);
    return 0;
}
static const char *print(const rsh_tensor *t) {
    text[0] = '\0';
    assert_int_equal(rsh_tensor_print(t, &(rsh_sink){keep, NULL}), RSH_OK);
    return text;
}

static void expect(rsh_dtype dtype, int ndim, const int64_t *shape, const void *data, const char *expected) {
    rsh_tensor *t;
    assert_int_equal(rsh_tensor_wrap((void *)(uintptr_t)data, dtype, ndim, shape, NULL, NULL, NULL, &t), RSH_OK);
    assert_string_equal(print(t), expected);
    rsh_tensor_free(t);
}

static void elements_are_written_as_their_dtype_is(void **state) {
    (void)state;
    setlocale(LC_ALL, "de_DE.UTF-8"); /* a decimal comma, if the machine has that locale */
    int64_t two = 2, pair[2] = {2, 2};
    expect(RSH_F32, 2, pair, (float[]){0, 1.5f, -2e10f, 1 / 3.0f},
           "tensor([[0, 1.5],\n        [-2e+10, 0.33333]], size=[2, 2], dtype=f32)");
    expect(RSH_F64, 1, &two, (double[]){1.0 / 0.0, -0.5}, "tensor([inf, -0.5], size=[2], dtype=f64)");
    expect(RSH_BF16, 1, &two, (uint16_t[]){0x3f80, 0xc000}, "tensor([1, -2], size=[2], dtype=bf16)");
    expect(RSH_I8, 1, &two, (int8_t[]){-128, 7}, "tensor([-128, 7], size=[2], dtype=i8)");
    expect(RSH_U64, 1, &two, (uint64_t[]){UINT64_MAX, 0}, "tensor([18446744073709551615, 0], size=[2], dtype=u64)");
    expect(RSH_BOOL, 1, &two, (uint8_t[]){1, 0}, "tensor([true, false], size=[2], dtype=bool)");
    expect(RSH_C64, 1, &two, (float[]){1, -2, 0.5f, 3}, "tensor([1-2i, 0.5+3i], size=[2], dtype=c64)");
    expect(RSH_I32, 0, NULL, (int32_t[]){9}, "tensor(9, size=[], dtype=i32)");
    expect(RSH_I32, 2, (int64_t[]){2, 0}, (int32_t[]){9}, "tensor([], size=[2, 0], dtype=i32)");
    setlocale(LC_ALL, "C");
}

static void long_dims_show_their_ends_and_strides_are_followed(void **state) {
    (void)state;
    static int32_t data[2048];
    rsh_tensor *t, *turned;
    for (int i = 0; i < 2048; i++) data[i] = i;
    expect(RSH_I32, 1, (int64_t[]){2048}, data, "tensor([0, 1, 2, ..., 2045, 2046, 2047], size=[2048], dtype=i32)");
    assert_int_equal(rsh_tensor_wrap(data, RSH_I32, 2, (int64_t[]){2, 3}, NULL, NULL, NULL, &t), RSH_OK);
    assert_int_equal(rsh_tensor_transpose(t, 0, 1, &turned), RSH_OK);
    assert_string_equal(print(turned), "tensor([[0, 3],\n        [1, 4],\n        [2, 5]], size=[3, 2], dtype=i32)");
    rsh_tensor_free(t), rsh_tensor_free(turned);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(elements_are_written_as_their_dtype_is),
                                       cmocka_unit_test(long_dims_show_their_ends_and_strides_are_followed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
