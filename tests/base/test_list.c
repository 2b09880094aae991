/* Lists: how they grow, how they handle overflow, and where a key is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/base.h"

static void a_list_keeps_its_items_while_it_grows(void **state) {
    (void)state;
    int64_t *list = NULL, room = 0;
    for (int64_t i = 0; i < 1000; i++) {
        int64_t before = room;
        assert_int_equal(RSHI_GROW(list, i + 1, &room), RSH_OK);
        assert_true(room > i && (room == before || room >= 2 * before));
        list[i] = i;
    }
    for (int64_t i = 0; i < 1000; i++) assert_int_equal(list[i], i);
    assert_int_equal(RSHI_GROW(list, 100000, &room), RSH_OK);
    assert_true(room >= 100000);
    rshi_free(list);
}

static void a_list_that_cannot_grow_stays_as_it_is(void **state) {
    (void)state;
    int64_t *list = NULL, *before, room = 0, huge = INT64_MAX / 2 + 1;
    assert_int_equal(RSHI_GROW(list, 3, &room), RSH_OK);
    before = list;
    rsh_alloc_fail_at(0);
    assert_int_equal(RSHI_GROW(list, room + 1, &room), RSH_ENOMEM);
    rsh_alloc_fail_at(-1);
    assert_int_equal(RSHI_GROW(list, INT64_MAX, &room), RSH_ENOMEM);
    assert_true(list == before && room >= 3);
    assert_int_equal(RSHI_GROW(list, huge + 1, &huge), RSH_ENOMEM); /* twice that number exceeds int64_t */
    assert_true(list == before && huge == INT64_MAX / 2 + 1);
    rshi_free(list);
}

static void a_key_is_found_where_it_is_and_nowhere_else(void **state) {
    (void)state;
    struct {
        int64_t key, other;
    } list[50];
    for (int64_t n = 0; n <= 50; n++) {
        for (int64_t i = 0; i < n; i++) list[i].key = 3 * i - 20, list[i].other = -i;
        for (int64_t key = -30; key < 3 * 50; key++) {
            int64_t at = key + 20 >= 0 && (key + 20) % 3 == 0 ? (key + 20) / 3 : -1;
            assert_int_equal(rshi_find(list, n, sizeof *list, key), at < n ? at : -1);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_keeps_its_items_while_it_grows),
        cmocka_unit_test(a_list_that_cannot_grow_stays_as_it_is),
        cmocka_unit_test(a_key_is_found_where_it_is_and_nowhere_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
