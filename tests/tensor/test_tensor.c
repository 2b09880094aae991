/* Tensors: creating, wrapping, viewing, and freeing in any order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/tensor.h"

#define DIMS(...) (const int64_t[]){__VA_ARGS__}

static void a_new_tensor_is_dense_and_aligned(void **state) {
    (void)state;
    rsh_tensor *t = NULL;
    assert_int_equal(rsh_tensor_empty(RSH_F32, 3, DIMS(2, 3, 4), &t), RSH_OK);
    assert_int_equal(rsh_tensor_count(t), 24);
    assert_int_equal(rsh_tensor_ndim(t), 3);
    assert_int_equal(rsh_tensor_dtype(t), RSH_F32);
    assert_memory_equal(rsh_tensor_shape(t), DIMS(2, 3, 4), 24);
    assert_memory_equal(rsh_tensor_strides(t), DIMS(12, 4, 1), 24);
    assert_true(rsh_tensor_dense(t));
    assert_int_equal((uintptr_t)rsh_tensor_data(t) % 64, 0);
    memset(rsh_tensor_data(t), 1, 24 * 4);
    rsh_tensor_free(t);
    rsh_tensor_free(NULL);
}

static void zeros_are_zero_small_and_large(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 1000, 3 << 20};
    for (int i = 0; i < 3; i++) {
        rsh_tensor *t = NULL;
        assert_int_equal(rsh_tensor_zeros(RSH_U8, 1, &counts[i], &t), RSH_OK);
        const char *data = rsh_tensor_data(t);
        assert_true(!data[0] && !memcmp(data, data + 1, (size_t)counts[i] - 1));
        rsh_tensor_free(t);
    }
}

static void scalars_and_empty_tensors_are_tensors(void **state) {
    (void)state;
    rsh_tensor *t = NULL;
    assert_int_equal(rsh_tensor_empty(RSH_C128, 0, NULL, &t), RSH_OK);
    assert_int_equal(rsh_tensor_count(t), 1);
    assert_true(rsh_tensor_dense(t));
    rsh_tensor_free(t);
    assert_int_equal(rsh_tensor_empty(RSH_C128, 3, DIMS(4, 0, 5), &t), RSH_OK);
    assert_int_equal(rsh_tensor_count(t), 0);
    assert_true(rsh_tensor_dense(t));
    rshi_span span = rshi_tensor_span(t);
    assert_true(span.start == span.end);
    rsh_tensor_free(t);
    assert_int_equal(rsh_tensor_wrap(NULL, RSH_F32, 1, DIMS(0), NULL, NULL, NULL, &t), RSH_OK);
    rsh_tensor *view = NULL;
    assert_int_equal(rsh_tensor_view(t, 0, 2, DIMS(0, 3), NULL, &view), RSH_OK);
    rsh_tensor_free(view);
    rsh_tensor_free(t);
}

static void bad_forms_are_refused_and_nothing_is_written(void **state) {
    (void)state;
    rsh_tensor *t = NULL;
    int64_t big = (int64_t)1 << 40;
    assert_int_equal(rsh_tensor_empty(RSH_F32, 9, DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1), &t), RSH_EVALUE);
    assert_int_equal(rsh_tensor_empty(RSH_F32, -1, NULL, &t), RSH_EVALUE);
    assert_int_equal(rsh_tensor_empty(RSH_F32, 1, NULL, &t), RSH_EVALUE);
    assert_int_equal(rsh_tensor_empty(RSH_F32, 2, DIMS(2, -1), &t), RSH_EVALUE);
    assert_int_equal(rsh_tensor_empty(RSH_F32, 2, DIMS(big, big), &t), RSH_EVALUE);
    assert_int_equal(rsh_tensor_empty(RSH_F32, 3, DIMS(0, big, big), &t), RSH_EVALUE);
    assert_int_equal(rsh_tensor_empty(RSH_F64, 1, DIMS(INT64_MAX / 4), &t), RSH_EVALUE);
    assert_int_equal(rsh_tensor_empty(RSH_DTYPE_NONE, 1, DIMS(1), &t), RSH_EVALUE);
    assert_int_equal(rsh_tensor_empty(RSH_U8, 1, DIMS(INT64_MAX), &t), RSH_ENOMEM);
    assert_int_equal(rsh_tensor_wrap(NULL, RSH_F32, 1, DIMS(1), NULL, NULL, NULL, &t), RSH_EVALUE);
    assert_int_equal(rsh_tensor_wrap(&big, RSH_F32, 1, DIMS(3), DIMS(INT64_MAX / 4), NULL, NULL, &t), RSH_EVALUE);
    assert_int_equal(rsh_tensor_wrap(&big, RSH_F32, 1, DIMS(3), DIMS(INT64_MIN), NULL, NULL, &t), RSH_EVALUE);
    assert_int_equal(rsh_tensor_empty(RSH_F32, 0, NULL, NULL), RSH_EVALUE);
    assert_null(t);
}

static void count_call(void *ctx) { ++*(int *)ctx; }

static void the_deleter_is_called_once_when_the_last_share_goes(void **state) {
    (void)state;
    float data[12];
    int calls = 0;
    rsh_tensor *t = NULL, *view = NULL, *second = NULL;
    assert_int_equal(rsh_tensor_wrap(data, RSH_F32, 2, DIMS(3, 4), NULL, count_call, &calls, &t), RSH_OK);
    assert_int_equal(rsh_tensor_view(t, 5, 1, DIMS(2), DIMS(4), &view), RSH_OK);
    assert_int_equal(rsh_tensor_view(view, 1, 1, DIMS(2), NULL, &second), RSH_OK);
    assert_ptr_equal(rsh_tensor_data(second), &data[6]);
    rsh_tensor_free(t);
    rsh_tensor_free(second);
    assert_int_equal(calls, 0);
    rsh_tensor_free(view);
    assert_int_equal(calls, 1);
}

static void a_wrap_that_fails_leaves_the_memory_to_the_caller(void **state) {
    (void)state;
    float data[4];
    int calls = 0;
    rsh_tensor *t = NULL;
    for (int64_t which = 0; which < 2; which++) {
        rsh_alloc_fail_at(which);
        assert_int_equal(rsh_tensor_wrap(data, RSH_F32, 1, DIMS(4), NULL, count_call, &calls, &t), RSH_ENOMEM);
    }
    rsh_alloc_fail_at(-1);
    assert_int_equal(calls, 0);
    assert_null(t);
}

static void every_failed_allocation_is_enomem_and_nothing_leaks(void **state) {
    (void)state;
    rsh_tensor *t = NULL, *view = NULL;
    uint64_t live = rsh_alloc_get_stats().live;
    for (int64_t which = 0; which < 3; which++) {
        rsh_alloc_fail_at(which);
        assert_int_equal(rsh_tensor_zeros(RSH_F32, 1, DIMS(4), &t), RSH_ENOMEM);
        assert_int_equal(rsh_alloc_get_stats().live, live);
    }
    rsh_alloc_fail_at(-1);
    assert_int_equal(rsh_tensor_zeros(RSH_F32, 1, DIMS(4), &t), RSH_OK);
    rsh_alloc_fail_at(0);
    assert_int_equal(rsh_tensor_view(t, 0, 1, DIMS(4), NULL, &view), RSH_ENOMEM);
    rsh_alloc_fail_at(-1);
    rsh_tensor_free(t);
    assert_int_equal(rsh_alloc_get_stats().live, live);
}

static void a_view_of_library_memory_stays_inside(void **state) {
    (void)state;
    rsh_tensor *t = NULL, *view = NULL, *back = NULL;
    assert_int_equal(rsh_tensor_empty(RSH_I16, 2, DIMS(3, 4), &t), RSH_OK);
    assert_int_equal(rsh_tensor_view(t, 0, 1, DIMS(13), NULL, &view), RSH_EVALUE);
    assert_int_equal(rsh_tensor_view(t, 12, 0, NULL, NULL, &view), RSH_EVALUE);
    assert_int_equal(rsh_tensor_view(t, -1, 0, NULL, NULL, &view), RSH_EVALUE);
    assert_int_equal(rsh_tensor_view(t, 2, 1, DIMS(2), DIMS(-3), &view), RSH_EVALUE);
    assert_int_equal(rsh_tensor_view(t, INT64_MAX, 1, DIMS(2), NULL, &view), RSH_EVALUE);
    assert_int_equal(rsh_tensor_view(NULL, 0, 0, NULL, NULL, &view), RSH_EVALUE);
    assert_null(view);
    assert_int_equal(rsh_tensor_view(t, 11, 1, DIMS(12), DIMS(-1), &view), RSH_OK); /* a reversed view */
    assert_false(rsh_tensor_dense(view));
    assert_int_equal(rsh_tensor_view(view, -11, 1, DIMS(12), NULL, &back),
                     RSH_OK); /* offsets count elements in memory, not indices */
    assert_ptr_equal(rsh_tensor_data(back), rsh_tensor_data(t));
    rsh_tensor_free(back);
    rsh_tensor_free(view);
    assert_int_equal(rsh_tensor_view(t, 12, 1, DIMS(0), NULL, &view), RSH_OK); /* an empty view at the very end */
    rsh_tensor_free(view);
    assert_int_equal(rsh_tensor_view(t, 3, 2, DIMS(100, 2), DIMS(0, 1), &view), RSH_OK); /* a broadcast view */
    rsh_tensor_free(view);
    rsh_tensor_free(t);
}

static void dense_means_row_major_without_gaps(void **state) {
    (void)state;
    static char data[64];
    static const struct {
        int64_t shape[3], strides[3];
        bool dense;
    } cases[] = {
        {{2, 3, 4}, {12, 4, 1}, true}, {{2, 3, 4}, {1, 2, 6}, false}, {{1, 3, 4}, {99, 4, 1}, true},
        {{2, 1, 4}, {4, -7, 1}, true}, {{2, 3, 4}, {16, 4, 1}, false}, {{0, 3, 4}, {5, 5, 5}, true},
        {{1, 1, 1}, {0, 0, 0}, true},  {{2, 1, 1}, {0, 0, 0}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rsh_tensor *t = NULL;
        assert_int_equal(rsh_tensor_wrap(data, RSH_U8, 3, cases[i].shape, cases[i].strides, NULL, NULL, &t), RSH_OK);
        assert_int_equal(rsh_tensor_dense(t), cases[i].dense);
        rsh_tensor_free(t);
    }
}

static void a_span_covers_all_elements_whatever_the_strides(void **state) {
    (void)state;
    static int32_t data[100];
    rsh_tensor *t = NULL;
    assert_int_equal(rsh_tensor_wrap(&data[50], RSH_I32, 2, DIMS(3, 4), DIMS(-10, 2), NULL, NULL, &t), RSH_OK);
    rshi_span span = rshi_tensor_span(t);
    assert_true(span.start == (uintptr_t)&data[30] && span.end == (uintptr_t)&data[57]);
    rsh_tensor_free(t);
}

static void a_view_of_wrapped_memory_stays_inside_what_was_wrapped(void **state) {
    (void)state;
    static int32_t data[100];
    rsh_tensor *t = NULL, *view = NULL;
    assert_int_equal(rsh_tensor_wrap(&data[50], RSH_I32, 2, DIMS(3, 4), DIMS(-10, 2), NULL, NULL, &t), RSH_OK);
    assert_ptr_equal(rsh_tensor_storage(t), &data[30]);
    assert_int_equal(rsh_tensor_storage_bytes(t), 27 * sizeof *data);
    assert_int_equal(rsh_tensor_view(t, -20, 1, DIMS(27), NULL, &view), RSH_OK);
    assert_ptr_equal(rsh_tensor_data(view), &data[30]);
    rsh_tensor_free(view);
    view = NULL;
    assert_int_equal(rsh_tensor_view(t, -21, 1, DIMS(2), NULL, &view), RSH_EVALUE);
    assert_int_equal(rsh_tensor_view(t, -20, 1, DIMS(28), NULL, &view), RSH_EVALUE);
    assert_null(view);
    rsh_tensor_free(t);
    assert_int_equal(rsh_tensor_wrap(data, RSH_I32, 1, DIMS(0), NULL, NULL, NULL, &t), RSH_OK);
    assert_int_equal(rsh_tensor_storage_bytes(t), 0);
    assert_int_equal(rsh_tensor_view(t, 0, 1, DIMS(1), NULL, &view), RSH_EVALUE);
    assert_int_equal(rsh_tensor_view(t, -2, 1, DIMS(0), NULL, &view), RSH_OK); /* an empty view cannot be outside */
    rsh_tensor_free(view);
    rsh_tensor_free(t);
}

static void views_share_a_version_that_only_grows(void **state) {
    (void)state;
    rsh_tensor *t = NULL, *view = NULL, *other = NULL;
    assert_int_equal(rsh_tensor_zeros(RSH_F32, 1, DIMS(4), &t), RSH_OK);
    assert_int_equal(rsh_tensor_zeros(RSH_F32, 1, DIMS(4), &other), RSH_OK);
    assert_int_equal(rsh_tensor_view(t, 1, 1, DIMS(2), NULL, &view), RSH_OK);
    assert_int_equal(rsh_tensor_version(t), 0);
    rsh_tensor_bump_version(view);
    rsh_tensor_bump_version(t);
    assert_int_equal(rsh_tensor_version(t), 2);
    assert_int_equal(rsh_tensor_version(view), 2);
    assert_int_equal(rsh_tensor_version(other), 0);
    rsh_tensor_free(other);
    rsh_tensor_free(view);
    rsh_tensor_free(t);
}

static void a_storage_has_a_number_that_no_other_has_or_had(void **state) {
    (void)state;
    rsh_tensor *t = NULL, *view = NULL;
    uint64_t last = 0;
    assert_int_equal(rsh_tensor_storage_serial(NULL), 0);
    for (int i = 0; i < 3000; i++) { /* the next tensor reuses the memory of the last one */
        assert_int_equal(rsh_tensor_zeros(RSH_F32, 1, DIMS(4), &t), RSH_OK);
        assert_int_equal(rsh_tensor_view(t, 1, 1, DIMS(2), NULL, &view), RSH_OK);
        assert_true(rsh_tensor_storage_serial(t) > last);
        last = rsh_tensor_storage_serial(t);
        assert_int_equal(rsh_tensor_storage_serial(view), last);
        rsh_tensor_free(view);
        rsh_tensor_free(t);
    }
}

static void live_bytes_are_those_of_tensors_that_are_not_freed(void **state) {
    (void)state;
    uint64_t before = rsh_alloc_get_stats().data_bytes;
    rsh_tensor *t = NULL, *view = NULL;
    assert_int_equal(rsh_tensor_empty(RSH_F32, 1, DIMS(1000), &t), RSH_OK);
    assert_int_equal(rsh_alloc_get_stats().data_bytes, before + 4000);
    assert_int_equal(rsh_tensor_view(t, 1, 1, DIMS(2), NULL, &view), RSH_OK);
    rsh_tensor_free(t);
    assert_int_equal(rsh_alloc_get_stats().data_bytes, before + 4000);
    rsh_tensor_free(view);
    assert_int_equal(rsh_alloc_get_stats().data_bytes, before);
}

/* Threads that share a storage free it in any order. */
static void *drops(void *arg) {
    rsh_tensor **views = arg;
    for (int i = 0; i < 100; i++) rsh_tensor_free(views[i]);
    return NULL;
}
static void a_storage_may_be_shared_by_threads(void **state) {
    (void)state;
    enum { THREADS = 4 };
    rsh_tensor *t = NULL, *views[THREADS][100];
    int calls = 0;
    pthread_t threads[THREADS];
    char data[8];
    assert_int_equal(rsh_tensor_wrap(data, RSH_U8, 1, DIMS(8), NULL, count_call, &calls, &t), RSH_OK);
    for (int k = 0; k < THREADS; k++)
        for (int i = 0; i < 100; i++) assert_int_equal(rsh_tensor_view(t, k, 1, DIMS(2), NULL, &views[k][i]), RSH_OK);
    rsh_tensor_free(t);
    for (int k = 0; k < THREADS; k++) assert_int_equal(pthread_create(&threads[k], NULL, drops, views[k]), 0);
    for (int k = 0; k < THREADS; k++) pthread_join(threads[k], NULL);
    assert_int_equal(calls, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_tensor_is_dense_and_aligned),
        cmocka_unit_test(zeros_are_zero_small_and_large),
        cmocka_unit_test(scalars_and_empty_tensors_are_tensors),
        cmocka_unit_test(bad_forms_are_refused_and_nothing_is_written),
        cmocka_unit_test(the_deleter_is_called_once_when_the_last_share_goes),
        cmocka_unit_test(a_wrap_that_fails_leaves_the_memory_to_the_caller),
        cmocka_unit_test(every_failed_allocation_is_enomem_and_nothing_leaks),
        cmocka_unit_test(a_view_of_library_memory_stays_inside),
        cmocka_unit_test(dense_means_row_major_without_gaps),
        cmocka_unit_test(a_span_covers_all_elements_whatever_the_strides),
        cmocka_unit_test(a_storage_may_be_shared_by_threads),
        cmocka_unit_test(a_view_of_wrapped_memory_stays_inside_what_was_wrapped),
        cmocka_unit_test(views_share_a_version_that_only_grows),
        cmocka_unit_test(a_storage_has_a_number_that_no_other_has_or_had),
        cmocka_unit_test(live_bytes_are_those_of_tensors_that_are_not_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
