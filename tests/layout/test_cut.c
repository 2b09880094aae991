/* Sizes of parts compared with sizes computed by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <reshard/layout.h>

/* Compares the sizes of dim 0 on all ranks, as text. */
static void expect_sizes(const char *text, const char *want) {
    rsh_layout *l;
    char got[256] = "";
    assert_int_equal(rsh_layout_parse(text, &l), RSH_OK);
    for (int64_t i = 0; i < rsh_layout_nranks(l); i++) {
        rsh_part p;
        assert_int_equal(rsh_layout_part(l, rsh_layout_rank(l, i), 0, &p), RSH_OK);
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%lld", i ? " " : "", (long long)p.shape[0]);
    }
    assert_string_equal(got, want);
    rsh_layout_free(l);
}

static void the_chunk_rule_gives_ceil_first_and_nothing_last(void **state) {
    (void)state;
    expect_sizes("f32[12/x] on x=4", "3 3 3 3");
    expect_sizes("f32[11/x] on x=4", "3 3 3 2");
    expect_sizes("f32[13/x] on x=4", "4 4 4 1");
    expect_sizes("f32[10/x] on x=4", "3 3 3 1");
    expect_sizes("f32[9/x] on x=4", "3 3 3 0");
    expect_sizes("f32[5/x] on x=4", "2 2 1 0");
    expect_sizes("f32[6/x] on x=4", "2 2 2 0");
    expect_sizes("f32[2/x] on x=4", "1 1 0 0");
    expect_sizes("f32[1/x] on x=4", "1 0 0 0");
    expect_sizes("f32[0/x] on x=4", "0 0 0 0");
    expect_sizes("f32[21/x] on x=4", "6 6 6 3");
    expect_sizes("f32[7/x] on x=8", "1 1 1 1 1 1 1 0");
    expect_sizes("f32[10/x] on x=8", "2 2 2 2 2 0 0 0");
    expect_sizes("f32[17/x] on x=8", "3 3 3 3 3 2 0 0");
}

static void other_rules_cut_as_they_say(void **state) {
    (void)state;
    expect_sizes("f32[10/x~] on x=4", "3 3 2 2");
    expect_sizes("f32[10/x{4,3,0,3}] on x=4", "4 3 0 3");
    expect_sizes("f32[10/x%4] on x=2", "8 2");
    expect_sizes("f32[3584/x%128] on x=8", "512 512 512 512 512 512 512 0");
    expect_sizes("f32[10/x:3] on x=2", "6 4");
    expect_sizes("f32[10/(y,x)] on x=2,y=2", "3 3 2 2");
    expect_sizes("f32[(4|2|2)/x] on x=2", "4 4");
    expect_sizes("f32[(8/(k,r)|4/k|4/k)] on k=2,r=2", "6 6 6 6");
    expect_sizes("f32[10, 3]/x on x=4", "8 8 8 6");
}

static void a_local_offset_leads_back_to_its_index(void **state) {
    (void)state;
    rsh_layout *l;
    int64_t index[2] = {5, 7}, offset, back[2];
    assert_int_equal(rsh_layout_parse("f32[8/x:2, 10/y] on x=2,y=2 order(1,0)", &l), RSH_OK);
    /* rank 1 = (x 0, y 1) holds rows 0,1,4,5 and columns 5..9, column-major: row 5 is the fourth, column 7 the third */
    assert_int_equal(rsh_layout_local_offset(l, 1, 0, index, &offset), RSH_OK);
    assert_int_equal(offset, 2 * 4 + 3);
    assert_int_equal(rsh_layout_global_index(l, 1, 0, offset, back), RSH_OK);
    assert_memory_equal(index, back, sizeof back);
    assert_int_equal(rsh_layout_local_offset(l, 0, 0, index, &offset), RSH_EKEY);
    assert_int_equal(rsh_layout_global_index(l, 1, 0, 20, back), RSH_EINDEX);
    assert_int_equal(rsh_layout_local_offset(l, 9, 0, index, &offset), RSH_EINDEX);
    rsh_layout_free(l);
}

static bool same_parts(const char *a, const char *b) {
    rsh_layout *l, *m;
    assert_int_equal(rsh_layout_parse(a, &l), RSH_OK);
    assert_int_equal(rsh_layout_parse(b, &m), RSH_OK);
    bool same = rsh_layout_same_parts(l, m);
    rsh_layout_free(l);
    rsh_layout_free(m);
    return same;
}

static void same_parts_looks_at_elements_and_not_at_spelling(void **state) {
    (void)state;
    assert_true(same_parts("f32[6/x~] on x=3", "f32[6/x] on x=3"));
    assert_true(same_parts("f32[4/x, 4] on x=2", "f32[4, 4]/x on x=2"));
    assert_true(same_parts("f32[4/x] on x=2", "f32[4] boxes 0:[0:2] 1:[2:4]"));
    assert_false(same_parts("f32[7/x~] on x=3", "f32[7/x] on x=3"));
    assert_false(same_parts("f32[4, 4] order(1,0)", "f32[4, 4]"));
    assert_false(same_parts("f32[6/x] on x=3", "f32[6/x] on x=3@[1,0,2]"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_chunk_rule_gives_ceil_first_and_nothing_last),
        cmocka_unit_test(other_rules_cut_as_they_say),
        cmocka_unit_test(a_local_offset_leads_back_to_its_index),
        cmocka_unit_test(same_parts_looks_at_elements_and_not_at_spelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
