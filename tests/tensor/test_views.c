/* Views of tensors: boxes, and swapped dims. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <reshard/tensor.h>

#define DIMS(...) (const int64_t[]){__VA_ARGS__}

static int32_t at(const rsh_tensor *t, int64_t i, int64_t j) {
    return ((const int32_t *)rsh_tensor_data(t))[i * rsh_tensor_strides(t)[0] + j * rsh_tensor_strides(t)[1]];
}

/* Makes a 4 x 5 tensor in which element [i, j] is 10 * i + j. */
static rsh_tensor *make(void) {
    rsh_tensor *t = NULL;
    assert_int_equal(rsh_tensor_empty(RSH_I32, 2, DIMS(4, 5), &t), RSH_OK);
    for (int i = 0; i < 20; i++) ((int32_t *)rsh_tensor_data(t))[i] = i / 5 * 10 + i % 5;
    return t;
}

static void every_box_of_a_tensor_is_a_view_of_its_elements(void **state) {
    (void)state;
    rsh_tensor *t = make();
    for (int64_t i = 0; i <= 4; i++)
        for (int64_t j = 0; j <= 5; j++)
            for (int64_t rows = 0; i + rows <= 4; rows++)
                for (int64_t columns = 0; j + columns <= 5; columns++) {
                    rsh_tensor *box = NULL;
                    assert_int_equal(rsh_tensor_narrow(t, DIMS(i, j), DIMS(rows, columns), &box), RSH_OK);
                    assert_int_equal(rsh_tensor_count(box), rows * columns);
                    assert_memory_equal(rsh_tensor_shape(box), DIMS(rows, columns), 16);
                    for (int64_t x = 0; x < rows; x++)
                        for (int64_t y = 0; y < columns; y++) assert_int_equal(at(box, x, y), (i + x) * 10 + j + y);
                    rsh_tensor_free(box);
                }
    rsh_tensor_free(t);
}

static void a_dim_of_full_size_stays_whole_whatever_its_offset(void **state) {
    (void)state;
    rsh_tensor *t = make(), *box = NULL;
    assert_int_equal(rsh_tensor_narrow(t, DIMS(1, 99), DIMS(2, 5), &box), RSH_OK);
    assert_int_equal(at(box, 0, 0), 10);
    ((int32_t *)rsh_tensor_data(box))[0] = -1; /* the view shares memory */
    assert_int_equal(at(t, 1, 0), -1);
    rsh_tensor_free(t); /* the view holds the storage */
    assert_int_equal(at(box, 1, 4), 24);
    rsh_tensor_free(box);
}

static void a_box_that_reaches_outside_is_refused(void **state) {
    (void)state;
    rsh_tensor *t = make(), *box = NULL;
    static const int64_t bad[][4] = {{3, 0, 2, 5},
                                     {0, 1, 4, 6},
                                     {-1, 0, 2, 5},
                                     {0, 0, -1, 5},
                                     {5, 0, 0, 5},
                                     {INT64_MAX, 0, 1, 5},
                                     {0, INT64_MAX, 1, INT64_MAX}};
    for (int i = 0; i < 7; i++) assert_int_equal(rsh_tensor_narrow(t, &bad[i][0], &bad[i][2], &box), RSH_EINDEX);
    assert_int_equal(rsh_tensor_narrow(NULL, DIMS(0), DIMS(0), &box), RSH_EVALUE);
    assert_int_equal(rsh_tensor_narrow(t, NULL, DIMS(0, 0), &box), RSH_EVALUE);
    assert_null(box);
    rsh_tensor_free(t);
}

static void a_transposed_tensor_has_its_dims_swapped(void **state) {
    (void)state;
    static const int pairs[][2] = {{0, 1}, {1, 0}, {-1, 0}, {-2, -1}};
    rsh_tensor *t = make(), *turned = NULL;
    for (int k = 0; k < 4; k++) {
        assert_int_equal(rsh_tensor_transpose(t, pairs[k][0], pairs[k][1], &turned), RSH_OK);
        assert_memory_equal(rsh_tensor_shape(turned), DIMS(5, 4), 16);
        assert_false(rsh_tensor_dense(turned));
        for (int64_t i = 0; i < 5; i++)
            for (int64_t j = 0; j < 4; j++) assert_int_equal(at(turned, i, j), j * 10 + i);
        rsh_tensor_free(turned);
    }
    assert_int_equal(rsh_tensor_transpose(t, 1, -1, &turned), RSH_OK); /* swaps a dim with itself */
    assert_memory_equal(rsh_tensor_strides(turned), DIMS(5, 1), 16);
    rsh_tensor_free(turned);
    turned = NULL;
    assert_int_equal(rsh_tensor_transpose(t, 0, 2, &turned), RSH_EINDEX);
    assert_int_equal(rsh_tensor_transpose(t, -3, 0, &turned), RSH_EINDEX);
    assert_null(turned);
    rsh_tensor_free(t);
}

static void a_box_of_a_box_backwards_is_right_as_well(void **state) {
    (void)state;
    int32_t data[6] = {5, 4, 3, 2, 1, 0};
    rsh_tensor *t = NULL, *box = NULL;
    assert_int_equal(rsh_tensor_wrap(&data[5], RSH_I32, 1, DIMS(6), DIMS(-1), NULL, NULL, &t), RSH_OK);
    assert_int_equal(rsh_tensor_narrow(t, DIMS(2), DIMS(3), &box), RSH_OK);
    assert_ptr_equal(rsh_tensor_data(box), &data[3]);
    assert_int_equal(rsh_tensor_strides(box)[0], -1);
    rsh_tensor_free(box);
    rsh_tensor_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_box_of_a_tensor_is_a_view_of_its_elements),
        cmocka_unit_test(a_dim_of_full_size_stays_whole_whatever_its_offset),
        cmocka_unit_test(a_box_that_reaches_outside_is_refused),
        cmocka_unit_test(a_transposed_tensor_has_its_dims_swapped),
        cmocka_unit_test(a_box_of_a_box_backwards_is_right_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
