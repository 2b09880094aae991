/* Form: what holes stand for, which tensors match, which errors are reported at which position, and what happens if
 * memory runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <reshard/alloc.h>
#include <reshard/layout.h>

static rsh_form *parsed(const char *text, const rsh_layout_desc *mesh) {
    rsh_form *f;
    if (rsh_form_parse(text, mesh, NULL, &f)) fail_msg("\"%s\": %s", text, rsh_error_detail());
    return f;
}

typedef struct filled {
    const char *form;
    int ndim;
    int64_t shape[3];
    const char *layout; /* result for a bf16 tensor */
} filled;

static void holes_are_filled_from_the_tensor(void **state) {
    static const filled table[] = {
        {"[_/tp%128, _] on tp=4", 2, {4096, 11008}, "bf16[4096/tp%128, 11008] on tp=4"},
        {"[_, _/tp%128] on tp=4", 2, {4096, 11008}, "bf16[4096, 11008/tp%128] on tp=4"},
        {"[(4096|1024|1024)/tp%128, _] on tp=4", 2, {6144, 7}, "bf16[(4096|1024|1024)/tp%128, 7] on tp=4"},
        {"[(4096|_|1024)/tp, _] on tp=4", 2, {6144, 7}, "bf16[(4096|1024|1024)/tp, 7] on tp=4"},
        {"[(_/x|4)] on x=2", 1, {4}, "bf16[(0/x|4)] on x=2"},
        {"[(_)/x] on x=2", 1, {4}, "bf16[4/x] on x=2"},
        {"[...] on tp=4@0-3", 3, {2, 3, 4}, "bf16[2, 3, 4] on tp=4"},
        {"[...]", 0, {0}, "bf16[]"},
        {"[ ... ]/dp on dp=4", 2, {1000, 37}, "bf16[1000, 37]/dp on dp=4"},
        {"[...]/dp{3,5} on dp=2", 2, {2, 4}, "bf16[2, 4]/dp{3,5} on dp=2"},
        {"[_, 2]/dp{3,5} on dp=2", 2, {4, 2}, "bf16[4, 2]/dp{3,5} on dp=2"},
        {"[_, _]/dp{3,5} on dp=2", 2, {2, 4}, "bf16[2, 4]/dp{3,5} on dp=2"},
        {"[_/tp{4,3,0,3}] on tp=4", 1, {10}, "bf16[10/tp{4,3,0,3}] on tp=4"},
        {"f32[_/tp~, 8] on tp=4", 2, {9, 8}, "f32[9/tp~, 8] on tp=4"},
        {"f32[4]", 1, {4}, "f32[4]"},
        {"[]", 0, {0}, "bf16[]"},
        {"[_, _] on x=2 avg(x) order(1,0)", 2, {3, 4}, "bf16[3, 4] on x=2 avg(x) order(1,0)"},
        {"[_, 8] boxes 0:[0:4,0:8] 1,5:[4:8,0:8]", 2, {8, 8}, "bf16[8, 8] boxes 0:[0:4,0:8] 1,5:[4:8,0:8]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        rsh_form *f = parsed(table[i].form, NULL);
        rsh_layout *l;
        if (rsh_form_fill(f, RSH_BF16, table[i].ndim, table[i].shape, NULL, &l))
            fail_msg("\"%s\": %s", table[i].form, rsh_error_detail());
        assert_string_equal(rsh_layout_text(l), table[i].layout);
        assert_string_equal(rsh_form_text(f), table[i].form);
        rsh_layout_free(l);
        rsh_form_free(f);
    }
}

/* Parses a shape such as "6144, 4096". */
static int read_shape(char *text, int64_t *shape) {
    int n = 0;
    for (char *word = strtok(text, ", "); word; word = strtok(NULL, ", ")) shape[n++] = strtoll(word, NULL, 10);
    return n;
}

/* In tables of the manual a bar is escaped by a backslash. */
static char *without_backslashes(char *text) {
    char *to = text;
    for (const char *at = text; *at; at++)
        if (*at != '\\') *to++ = *at;
    *to = 0;
    return text;
}

/* Checks the lines of the table, | `form` | sizes | `layout` |, each for an f32 tensor. */
static void the_manual_is_right_about_forms(void **state) {
    FILE *file = fopen("docs/notation.md", "r");
    char line[512], form[256], sizes[64], layout[256];
    int found = 0;
    (void)state;
    if (!file) fail_msg("docs/notation.md is not here: run this test from the root of the repository, as ctest does");
    while (fgets(line, sizeof line, file)) {
        int64_t shape[RSH_MAX_NDIM];
        rsh_layout *l;
        if (sscanf(line, "| `%255[^`]` | %63[0-9, ] | `%255[^`]` |", form, sizes, layout) != 3) continue;
        rsh_form *f = parsed(without_backslashes(form), NULL);
        int ndim = read_shape(sizes, shape);
        assert_int_equal(rsh_form_fill(f, RSH_F32, ndim, shape, NULL, &l), RSH_OK);
        assert_string_equal(rsh_layout_text(l), without_backslashes(layout));
        rsh_layout_free(l);
        rsh_form_free(f);
        found++;
    }
    fclose(file);
    assert_int_equal(found, 4);
}

static void a_form_describes_itself_with_its_holes(void **state) {
    rsh_form *f = parsed("[_/tp, (_|4)/dp, 7] on dp=2,tp=4@8-15", NULL);
    const rsh_layout_desc *desc = rsh_form_describe(f);
    (void)state;
    assert_false(rsh_form_has_dtype(f));
    assert_int_equal(desc->ndim, 3);
    assert_int_equal(desc->dim[0].size, RSH_HOLE);
    assert_int_equal(desc->dim[0].cut.axes[0], 1);
    assert_int_equal(desc->dim[1].segment[0].size, RSH_HOLE);
    assert_int_equal(desc->dim[1].segment[1].size, 4);
    assert_int_equal(desc->dim[2].size, 7);
    assert_int_equal(desc->first_rank, 8);
    rsh_form_free(f);
    f = parsed("f16[...]", NULL);
    assert_true(rsh_form_has_dtype(f));
    assert_int_equal(rsh_form_describe(f)->dtype, RSH_F16);
    assert_int_equal(rsh_form_describe(f)->ndim, RSH_HOLE);
    rsh_form_free(f);
}

static void a_form_without_a_mesh_is_on_the_one_that_is_given(void **state) {
    static const char *const table[][2] = {
        {"[_/tp]", "u8[8/tp] on dp=2,tp=2@[3,1,2,0]"},
        {"[...] sum(dp)", "u8[8] on dp=2,tp=2@[3,1,2,0] sum(dp)"},
        {"[_/x] on x=2", "u8[8/x] on x=2"}, /* uses its own dtype */
        {"[_] boxes 0:[0:8]", "u8[8] boxes 0:[0:8]"},
    };
    const int64_t shape[] = {8};
    rsh_form *mesh = parsed("[...] on dp=2,tp=2@[3,1,2,0]", NULL), *f;
    rsh_layout *l;
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        f = parsed(table[i][0], rsh_form_describe(mesh));
        assert_int_equal(rsh_form_fill(f, RSH_U8, 1, shape, NULL, &l), RSH_OK);
        assert_string_equal(rsh_layout_text(l), table[i][1]);
        rsh_layout_free(l);
        rsh_form_free(f);
    }
    assert_int_equal(rsh_form_parse("[_/tq]", rsh_form_describe(mesh), NULL, &f), RSH_EVALUE);
    assert_string_equal(rsh_error_detail(), "layout:1:4: axis \"tq\" is not in the mesh \"dp=2,tp=2\"");
    rsh_form_free(mesh);
    rsh_layout_desc bad = {.naxes = 1, .axis = {{"x", 0}}};
    assert_int_equal(rsh_form_parse("[_/x]", &bad, NULL, &f), RSH_EVALUE);
    bad.naxes = 9;
    assert_int_equal(rsh_form_parse("[_/x]", &bad, NULL, &f), RSH_EVALUE);
}

typedef struct bad {
    const char *text;
    int column;
    const char *words;
} bad;

static void forms_that_fit_no_tensor_are_refused_when_they_are_read(void **state) {
    static const bad table[] = {
        {"", 1, "expected a dtype or \"[\", found the end"},
        {"f33[_]", 1, "\"f33\" is not a dtype"},
        {"[_x]", 3, "expected \",\" or \"]\", found \"x\""},
        {"[..]", 2, "expected a size, found \".\""},
        {"[..., 4]", 5, "expected \"]\", found \",\""},
        {"[4, ...]", 5, "expected a size, found \".\""},
        {"[_/_]", 4, "expected an axis, found \"_\""},
        {"[_/x:_] on x=2", 6, "expected a block size, found \"_\""},
        {"[_] on x=_", 10, "expected the size of an axis, found \"_\""},
        {"[_/tp]", 4, "axis \"tp\" is not defined"},
        {"[(_|4)] on x=2", 2, "no segment is cut"},
        {"[_/x, _/x] on x=2", 9, "axis \"x\" already cuts"},
        {"[_/x{1,2,3}] on x=2", 4, "expected 2 sizes (one per part), got 3"},
        {"[...] order(1,0)", 7, "\"order\" cannot be used with [...]; write _ for each dim"},
        {"[...] boxes 0:[0:1]", 7, "\"boxes\" cannot be used with [...]"},
        {"[_, 3]/x{4,4} on x=2", 8, "sizes add up to 8, expected 6"},
        {"[_, 4] boxes 0:[0:2,0:4] 1:[3:5,0:4]", 8, "no box holds element [2,0]"},
        {"[...] on x=4@[0,1]", 14, "expected 4 ranks (one per mesh position), got 2"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        rsh_text_error error = {0};
        rsh_form *f = NULL;
        rsh_status st = rsh_form_parse(table[i].text, NULL, &error, &f);
        if (st != RSH_EVALUE || error.line != 1 || error.column != table[i].column ||
            !strstr(error.sentence, table[i].words))
            fail_msg("\"%s\" gave %s, column %d: %s", table[i].text, rsh_status_name(st), error.column,
                     rsh_error_detail());
        assert_null(f);
    }
}

typedef struct misfit {
    const char *form;
    int ndim;
    int64_t shape[3];
    int column;
    const char *words;
} misfit;

static void tensors_that_do_not_fit_are_refused_at_the_place(void **state) {
    static const misfit table[] = {
        {"[_, 8]", 2, {4, 9}, 5, "size 8 does not match dim 1 of the tensor, which has size 9"},
        {"[_, _]", 3, {4, 9, 1}, 2, "tensor has 3 dims, but the form has 2"},
        {"f32[]", 1, {4}, 1, "tensor has 1 dim, but the form has 0"},
        {"[(4|2)/x] on x=2", 1, {7}, 2, "the segments add up to 6, but dim 0 of the tensor has size 7"},
        {"[(4|_|2)/x] on x=2", 1, {5}, 2, "the segments add up to 6 without the _, but dim 0 of the tensor has size 5"},
        {"[(_|_)/x] on x=2", 1, {4}, 2, "dim 0 has 2 segments of size _; only one can be inferred"},
        {"[_,\n _/x{4,4}] on x=2", 2, {4, 9}, 4, "sizes add up to 8, expected 9"},
        {"[...]/x{4,4} on x=2", 2, {3, 3}, 7, "sizes add up to 8, expected 9"},
        {"[...]", 2, {INT64_MAX, 2}, 2, "larger than 2^63 bytes"},
        {"[_] boxes 0:[0:4]", 1, {5}, 5, "no box holds element [4]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        rsh_form *f = parsed(table[i].form, NULL);
        rsh_text_error error = {0};
        rsh_layout *l = NULL;
        rsh_status st = rsh_form_fill(f, RSH_F32, table[i].ndim, table[i].shape, &error, &l);
        if (st != RSH_EVALUE || error.column != table[i].column || !strstr(error.sentence, table[i].words))
            fail_msg("\"%s\" gave %s, column %d: %s", table[i].form, rsh_status_name(st), error.column,
                     rsh_error_detail());
        assert_int_equal(error.line, strchr(table[i].form, '\n') ? 2 : 1);
        assert_null(l);
        rsh_form_free(f);
    }
}

static void an_op_must_exist_for_the_dtype_of_the_tensor(void **state) {
    rsh_form *f = parsed("[_] on x=2 avg(x)", NULL);
    rsh_layout *l = NULL;
    (void)state;
    assert_int_equal(rsh_form_fill(f, RSH_I32, 1, (int64_t[]){4}, NULL, &l), RSH_ETYPE);
    assert_string_equal(rsh_error_detail(), "layout:1:12: reduction \"avg\" is not defined for dtype i32");
    rsh_form_free(f);
    assert_int_equal(rsh_form_parse("i32[_] on x=2 avg(x)", NULL, NULL, &f), RSH_ETYPE);
}

static void wrong_arguments_are_refused(void **state) {
    rsh_form *f = parsed("[...]", NULL), *none;
    rsh_layout *l;
    int64_t shape[9] = {-1};
    (void)state;
    assert_int_equal(rsh_form_parse(NULL, NULL, NULL, &none), RSH_EVALUE);
    assert_int_equal(rsh_form_parse("[]", NULL, NULL, NULL), RSH_EVALUE);
    assert_int_equal(rsh_form_fill(NULL, RSH_F32, 0, NULL, NULL, &l), RSH_EVALUE);
    assert_int_equal(rsh_form_fill(f, RSH_F32, 1, NULL, NULL, &l), RSH_EVALUE);
    assert_int_equal(rsh_form_fill(f, RSH_F32, 0, NULL, NULL, NULL), RSH_EVALUE);
    assert_int_equal(rsh_form_fill(f, RSH_F32, 1, shape, NULL, &l), RSH_EVALUE);
    assert_int_equal(rsh_form_fill(f, RSH_F32, 9, shape, NULL, &l), RSH_EVALUE);
    assert_int_equal(rsh_form_fill(f, RSH_F32, -1, shape, NULL, &l), RSH_EVALUE);
    assert_int_equal(rsh_form_fill(f, RSH_DTYPE_NONE, 0, NULL, NULL, &l), RSH_EVALUE);
    rsh_form_free(f);
    rsh_form_free(NULL);
}

static rsh_status parse_and_fill(const char *text, int ndim, const int64_t *shape) {
    rsh_form *f = NULL;
    rsh_layout *l = NULL;
    rsh_status st = rsh_form_parse(text, NULL, NULL, &f);
    if (!st) st = rsh_form_fill(f, RSH_F32, ndim, shape, NULL, &l);
    rsh_form_free(f);
    rsh_layout_free(l);
    return st;
}

static void every_allocation_may_fail_and_nothing_leaks(void **state) {
    static const char *const texts[] = {
        "[(4|_)/tp, _] on dp=2,tp=2@[3,2,1,0]",
        "[...]/dp{36,36} on dp=2",
        "[_, _] boxes 0:[0:6,0:12] 1,5:[6:6,0:12]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint64_t live = rsh_alloc_get_stats().live;
        rsh_status st = RSH_ENOMEM;
        for (int64_t n = 0; st == RSH_ENOMEM; n++) {
            rsh_alloc_fail_at(n);
            st = parse_and_fill(texts[i], 2, (int64_t[]){6, 12});
            rsh_alloc_fail_at(-1);
            assert_int_equal(rsh_alloc_get_stats().live, live);
            assert_true(n < 1000);
        }
        assert_int_equal(st, RSH_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holes_are_filled_from_the_tensor),
        cmocka_unit_test(the_manual_is_right_about_forms),
        cmocka_unit_test(a_form_describes_itself_with_its_holes),
        cmocka_unit_test(a_form_without_a_mesh_is_on_the_one_that_is_given),
        cmocka_unit_test(forms_that_fit_no_tensor_are_refused_when_they_are_read),
        cmocka_unit_test(tensors_that_do_not_fit_are_refused_at_the_place),
        cmocka_unit_test(an_op_must_exist_for_the_dtype_of_the_tensor),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(every_allocation_may_fail_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
