/* Patterns of names, patterns of rank files, and rule files. */
#include "ckpt/rules.h"
#include "ckpt/ckpt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void stars_match_dots_too(void **state) {
    (void)state;
    assert_true(rshi_glob("*", ""));
    assert_true(rshi_glob("*", "a.b.c"));
    assert_true(rshi_glob("*.weight", "layers.0.q.weight"));
    assert_false(rshi_glob("*.weight", "layers.0.q.bias"));
    assert_true(rshi_glob("a*b*c", "aXbYbZc"));
    assert_false(rshi_glob("a*b*c", "aXbYbZ"));
    assert_true(rshi_glob("**a**", "xxayy"));
    assert_true(rshi_glob("?.q", "0.q"));
    assert_false(rshi_glob("?.q", "10.q"));
    assert_false(rshi_glob("", "a"));
    assert_true(rshi_glob("", ""));
}

static void numbers_match_as_a_whole(void **state) {
    (void)state;
    assert_true(rshi_glob("e.<0-15>.w", "e.0.w"));
    assert_true(rshi_glob("e.<0-15>.w", "e.15.w"));
    assert_false(rshi_glob("e.<0-15>.w", "e.16.w"));
    assert_false(rshi_glob("e.<0-15>.w", "e.115.w"));
    assert_false(rshi_glob("*<0-15>.w", "e.115.w")); /* a number does not begin inside another number */
    assert_false(rshi_glob("e.<0-15>.w", "e.01.w"));
    assert_true(rshi_glob("*.<2-3>.*", "model.layers.0.experts.3.w1"));
    assert_true(rshi_glob("<a-b>", "<a-b>")); /* not a range, so it matches itself */
    assert_false(rshi_glob("<0-9>", "99999999999999999999999"));
}

static void many_stars_are_matched_quickly(void **state) {
    (void)state;
    char pattern[200], name[5001];
    memset(name, 'a', 5000);
    name[5000] = 0;
    for (int i = 0; i < 99; i++) memcpy(pattern + 2 * i, "*a", 2);
    strcpy(pattern + 198, "b");
    assert_false(rshi_glob(pattern, name));
}

static void files_are_named_and_recognised(void **state) {
    (void)state;
    char *name = NULL;
    int64_t rank, part;
    assert_int_equal(rshi_files_name("m-{rank}-{part:03}.x", 7, 12, &name), RSH_OK);
    assert_string_equal(name, "m-7-012.x");
    assert_true(rshi_files_match("m-{rank}-{part:03}.x", name, &rank, &part));
    assert_int_equal(rank, 7);
    assert_int_equal(part, 12);
    rshi_free(name);
    assert_false(rshi_files_match("m-{rank}.x", "m-7.y", &rank, &part));
    assert_false(rshi_files_match("m-{rank}.x", "m-.x", &rank, &part));
    assert_false(rshi_files_match("{rank}-{rank}", "1-2", &rank, &part)); /* one rank has only one number */
    assert_true(rshi_files_match("{rank}-{rank}", "1-01", &rank, &part));
    assert_true(rshi_files_names("a{part}", "part"));
    assert_false(rshi_files_names("a{part", "part"));
}

static rsh_ckpt_rules *rules(const char *text) {
    rsh_ckpt_rules *r = NULL;
    assert_int_equal(rsh_ckpt_rules_parse(text, "x", &r), RSH_OK);
    return r;
}

static void the_first_rule_that_matches_counts(void **state) {
    (void)state;
    rsh_ckpt_rules *r = rules("# comment\n\nmesh tp=4@4-7\r\n*.q [_/tp, _] uneven # more\n  * [...]\n");
    assert_int_equal(r->nrules, 2);
    assert_int_equal(r->nranks, 8);
    assert_int_equal(rshi_rules_match(r, "0.q"), 0);
    assert_int_equal(rshi_rules_match(r, "0.k"), 1);
    assert_true(r->rule[0].uneven && r->rule[0].has_form);
    assert_false(r->rule[1].uneven);
    assert_int_equal(r->rule[0].line, 4);
    rsh_ckpt_rules_free(r);
    r = rules("q [...]");
    assert_int_equal(rshi_rules_match(r, "k"), -1);
    rsh_ckpt_rules_free(r);
}

static void rules_give_a_tensor_its_layout(void **state) {
    (void)state;
    const int64_t shape[] = {8, 3};
    rsh_layout *l = NULL;
    rsh_ckpt_rules *r = rules("mesh tp=4\n*.q [_/tp, _]\n*.k [_]\n");
    assert_int_equal(rsh_ckpt_rules_layout(r, "0.q", RSH_F32, 2, shape, &l), RSH_OK);
    assert_string_equal(rsh_layout_text(l), "f32[8/tp, 3] on tp=4");
    rsh_layout_free(l);
    assert_int_equal(rsh_ckpt_rules_layout(r, "0.v", RSH_F32, 2, shape, &l), RSH_EKEY);
    assert_int_equal(rsh_ckpt_rules_layout(r, "0.k", RSH_F32, 2, shape, &l), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "x:3: tensor \"0.k\""));
    rsh_ckpt_rules_free(r);
}

static void rules_say_what_to_write_instead(void **state) {
    (void)state;
    rsh_ckpt_rules *r = NULL;
    assert_int_equal(rsh_ckpt_rules_parse("mesh tp=2\nq Shard(0)", "x", &r), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "for Shard(0) write [_/tp, _]"));
    assert_int_equal(rsh_ckpt_rules_parse("mesh tp=2\nq replicate", "x", &r), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "for Replicate write [...]"));
    /* begins with a byte order mark */
    assert_int_equal(rsh_ckpt_rules_parse("\xef\xbb\xbfmesh tp=2\n* [...]", "x", &r), RSH_OK);
    rsh_ckpt_rules_free(r);
}

static void wrong_rules_name_line_and_column(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"", "x: the file has no rules"},
        {"q [_/tp, _]", "x:1:6: "},
        {"optional", "x:1:9: "},
        {"drop", "x:1:5: expected the name"},
        {"drop a b", "x:1:8: expected the end"},
        {"a -> *", "x:1:1: target"},
        {"a.{i} -> b.{j}", "x:1:1: target"},
        {"a.{x,y} -> b", "x:1:1: lists"},
        {"f(x) [...]", "x:1:2: a name that contains"},
        {"\"a [...]", "x:1:1: expected a closing quote"},
        {"a{ [...]", "x:1:2: expected \"}\""},
        {"t = nothing(a)", "x:1:5: unknown function"},
        {"t = cat(0 a)", "x:1:11: expected \",\""},
        {"t = cat(0)", "x:1:10: cat: too few"},
        {"t = transpose(a, b)", "x:1:18: transpose: too many arguments"},
        {"t = slice(a, 0, 1)", "x:1:19: slice: expected 2 numbers"},
        {"t = cat(9, a)", "x:1:9: expected a dim"},
        {"t = interleave(0, 0, a)", "x:1:19: the number of groups"},
        {"t = cat(0, *)", "x:1:12: a name in an expression"},
        {"t = cat(0, split(0, a))", "x:1:1: split must be the outermost function"},
        {"t = split(0, a)", "x:1:1: target"},
        {"t.{i} = a", "x:1:1: target"},
        {"t = a.{i}", "x:1:1: \"a.{i}\" has a capture"},
        {"t = stack(0, a)", "x:1:1: stack: its operand"},
        {"t = transpose({a,b})", "x:1:1: \"{a,b}\" is a list of tensors"},
        {"t.{i}.{j} = cat(0, a.{i}, b.{j})", "x:1:1: at least one operand must have all"},
        {"{n*}.s scales {n*}.w", "x:1:21: expected \"by\""},
        {"{n*}.s scales {n*}.w by 128,x", "x:1:29: expected a block size"},
        {"mesh tp=2\nq [_/tp, _", "x:2:"},
        {"q [...]\nmesh tp=2", "x:2:1: "},
        {"files ../{rank}\nq [...]", "x:1:7: "},
        {"files /a/{rank}\nq [...]", "x:1:7: "},
        {"files {rank} {rank}\nq [...]", "x:1:7: "},
        {"mesh\nq [...]", "x:1:5: "},
        {"mesh: tp=2\nq [...]", "x:1:5: unexpected \":\""},
        {"mesh tp=2\nq Shard(0)", "x:2:3: \"Shard\" is not a dtype"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rsh_ckpt_rules *r = NULL;
        assert_int_equal(rsh_ckpt_rules_parse(wrong[i][0], "x", &r), RSH_EVALUE);
        if (strncmp(rsh_error_detail(), wrong[i][1], strlen(wrong[i][1])))
            fail_msg("%s: %s, not %s", wrong[i][0], rsh_error_detail(), wrong[i][1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stars_match_dots_too),
        cmocka_unit_test(numbers_match_as_a_whole),
        cmocka_unit_test(many_stars_are_matched_quickly),
        cmocka_unit_test(files_are_named_and_recognised),
        cmocka_unit_test(the_first_rule_that_matches_counts),
        cmocka_unit_test(rules_give_a_tensor_its_layout),
        cmocka_unit_test(wrong_rules_name_line_and_column),
        cmocka_unit_test(rules_say_what_to_write_instead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
