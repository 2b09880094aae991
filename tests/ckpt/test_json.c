/* JSON, token by token: valid texts, invalid texts, and strings that cross the windows of a file. */
#include "ckpt/ckpt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Writes one letter for each token, until the end or an error ("!"). */
static void letters(const char *text, char *out) {
    static const char names[] = ".{}[]ksntfz";
    rshi_json j;
    rshi_json_token t;
    assert_int_equal(rshi_json_open_text(&j, text, strlen(text), "x"), RSH_OK);
    for (;;) {
        if (rshi_json_next(&j, &t)) {
            *out++ = '!';
            break;
        }
        *out++ = names[t];
        if (t == RSHI_JSON_END) break;
    }
    *out = 0;
    rshi_json_close(&j);
}

static void right_texts_are_read(void **state) {
    (void)state;
    static const char *const right[][2] = {
        {"{}", "{}."},
        {" [ ] ", "[]."},
        {"1", "n."},
        {"{\"a\":[1,-2.5e3,true,false,null,\"s\"]}", "{k[nntfzs]}."},
        {"[[[]],{}]", "[[[]]{}]."},
        {"\"\\u00e9\\ud83d\\ude00\\n\"", "s."},
        {"[0,-0,0.5,1E+2]", "[nnnn]."},
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        char got[100];
        letters(right[i][0], got);
        assert_string_equal(got, right[i][1]);
    }
}

static void wrong_texts_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",          "{",           "[1,]",        "{\"a\"}", "{\"a\":}", "{1:2}", "[1 2]",       "01",
        "1.",        "-",           "1e",          "+1",      "tru",      "nul",   "\"a",         "\"\\x\"",
        "\"\\u12\"", "\"\\ud800\"", "\"\\udc00\"", "{} {}",   "[}",       "{]",    "\"\\u0000\"", ",",
        "{,}",       "[,]",         "{\"a\":1,}",  "]",       "\x01",     "NaN",   "\"\xc0\x80\""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char got[100];
        letters(wrong[i], got);
        if (!strchr(got, '!')) fail_msg("%s was read as %s", wrong[i], got);
        if (strncmp(rsh_error_detail(), "x: byte ", 8)) fail_msg("%s", rsh_error_detail());
    }
}

static void depth_is_bounded(void **state) {
    (void)state;
    char text[200] = "", got[300];
    for (int i = 0; i < RSHI_JSON_DEEP; i++) strcat(text, "[");
    for (int i = 0; i < RSHI_JSON_DEEP; i++) strcat(text, "]");
    letters(text, got);
    assert_null(strchr(got, '!'));
    memset(text, '[', 100);
    letters(text, got);
    assert_non_null(strchr(got, '!'));
}

static void numbers_know_whether_they_are_integers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool is_int;
        int64_t value;
    } numbers[] = {{"0", true, 0},
                   {"-7", true, -7},
                   {"9223372036854775807", true, INT64_MAX},
                   {"-9223372036854775808", true, INT64_MIN},
                   {"9223372036854775808", false, 0},
                   {"1.0", false, 0},
                   {"1e3", false, 0}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        rshi_json j;
        assert_int_equal(rshi_json_open_text(&j, numbers[i].text, strlen(numbers[i].text), "x"), RSH_OK);
        assert_int_equal(rshi_json_want(&j, RSHI_JSON_NUMBER), RSH_OK);
        assert_int_equal(j.is_int, numbers[i].is_int);
        if (j.is_int) assert_true(j.number == numbers[i].value);
        rshi_json_close(&j);
    }
}

static void strings_may_be_longer_than_a_window(void **state) {
    (void)state;
    FILE *f = tmpfile();
    assert_non_null(f);
    fputs("..[\"", f);
    for (int i = 0; i < 200000; i++) fputc("abc"[i % 3], f);
    fputs("\\u00e9\",1]", f);
    fflush(f);
    rshi_json j;
    assert_int_equal(rshi_json_open(&j, fileno(f), 2, (uint64_t)ftell(f) - 2, "x"), RSH_OK);
    assert_int_equal(rshi_json_want(&j, RSHI_JSON_LIST), RSH_OK);
    assert_int_equal(rshi_json_want(&j, RSHI_JSON_STRING), RSH_OK);
    assert_int_equal(j.length, 200002);
    assert_int_equal(j.at, 3);
    assert_string_equal(j.text + 199999, "b\xc3\xa9");
    assert_int_equal(rshi_json_want(&j, RSHI_JSON_NUMBER), RSH_OK);
    assert_int_equal(j.at, 200000 + 12);
    assert_int_equal(rshi_json_want(&j, RSHI_JSON_LIST_END), RSH_OK);
    assert_int_equal(rshi_json_want(&j, RSHI_JSON_END), RSH_OK);
    rshi_json_close(&j);
    fclose(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_texts_are_read),
        cmocka_unit_test(wrong_texts_are_refused),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(numbers_know_whether_they_are_integers),
        cmocka_unit_test(strings_may_be_longer_than_a_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
