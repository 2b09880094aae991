/* Text: numbers are read and written with a decimal point, even if the program's locale has a comma. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <reshard.h>

#include "base/base.h"
#include "skips.h"
#include "wait/wait.h"

static char folder[64];
static bool commas;

/* musl accepts every locale name, but always writes a point. */
static bool has_comma(const char *name) { return setlocale(LC_NUMERIC, name) && *localeconv()->decimal_point == ','; }

/* Sets a locale with a decimal comma; makes one if the machine has none.  Returns false if that fails. */
static bool write_with_commas(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    char command[200];
    snprintf(folder, sizeof folder, "/tmp/reshard-locale-%ld", (long)getpid());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (has_comma(names[i])) return true;
    snprintf(command, sizeof command, "mkdir -p %s && localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2> /dev/null", folder,
             folder);
    if (system(command)) return false;
    setenv("LOCPATH", folder, 1);
    return has_comma("de_DE.UTF-8");
}

static int start(void **state) {
    (void)state;
    commas = write_with_commas();
    return 0;
}

static int end(void **state) {
    (void)state;
    char command[100];
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0;
}

/* Checks that the program's own numbers still follow its locale. */
static void see_commas(void) {
    char text[16];
    snprintf(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, commas ? "1,5" : "1.5");
    if (commas) return;
    skip_test("locale", "there is no locale with a decimal comma, and none could be made (Debian package locales)");
}

static void a_timeout_is_read_alike_in_every_locale(void **state) {
    (void)state;
    double seconds = 0;
    setenv("RESHARD_TIMEOUT", "1.5", 1);
    rsh_status point = rshi_read_timeout(&seconds);
    setenv("RESHARD_TIMEOUT", "1,5", 1);
    rsh_status comma = rshi_read_timeout(&(double){0});
    unsetenv("RESHARD_TIMEOUT");
    assert_int_equal(point, RSH_OK);
    assert_true(seconds == 1.5);
    assert_int_equal(comma, RSH_EVALUE);
    see_commas();
}

static void sentences_have_a_decimal_point(void **state) {
    (void)state;
    rshi_fail(RSH_EVALUE, "after %g seconds, %.2f of them", 2.5, 0.25);
    assert_string_equal(rsh_error_detail(), "after 2.5 seconds, 0.25 of them");
    rsh_tensor *t;
    assert_int_equal(rsh_tensor_zeros(RSH_F32, 1, (int64_t[]){2}, &t), RSH_OK);
    bool same;
    assert_int_equal(rsh_math_allclose(t, t, -0.5, 0, false, &same), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "rtol -0.5"));
    rsh_tensor_free(t);
    see_commas();
}

static int collect(void *ctx, const char *text, size_t length) {
    rshi_text_add(ctx, "%.*s", (int)length, text);
    return 0;
}

static void one_of_a_thing_is_counted_in_the_singular(void **state) {
    (void)state;
    static const char *const said[][2] = {
        {"cannot have 1 dims: expected 0 to 8", "cannot have 1 dim: expected 0 to 8"},
        {"a mesh of 1 dims of 2 ranks", "a mesh of 1 dim of 2 ranks"},
        {"11 ranks, 21 bytes, -1 dims, 0.1 seconds", "11 ranks, 21 bytes, -1 dims, 0.1 seconds"},
        {"rank 1 names other members than rank 0", "rank 1 names other members than rank 0"},
        {"tensors of 2 and 1 dims", "tensors of 2 and 1 dims"},
        {"tensor \"layer 1 values\" has 1 values", "tensor \"layer 1 values\" has 1 value"},
        {"it has 1 axes, 1 entries (1 boxes)", "it has 1 axis, 1 entry (1 box)"},
        {"1 dimsum, 1 dim, 1", "1 dimsum, 1 dim, 1"},
        {"1 ", "1 "},
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        assert_int_equal(rsh_fail(RSH_EVALUE, said[i][0]), RSH_EVALUE);
        assert_string_equal(rsh_error_detail(), said[i][1]);
    }
}

static void texts_and_sinks_have_a_decimal_point(void **state) {
    (void)state;
    rshi_text t = {0};
    const rsh_sink sink = {collect, &t};
    rshi_text_add(&t, "%g ", 0.5);
    assert_int_equal(rshi_sink_format(&sink, "{\"x\": %.3f}", 0.125), RSH_OK);
    assert_string_equal(t.data, "0.5 {\"x\": 0.125}");
    rshi_text_free(&t);
    see_commas();
}

static void tensors_and_pictures_have_a_decimal_point(void **state) {
    (void)state;
    rshi_text t = {0};
    const rsh_sink sink = {collect, &t};
    rsh_tensor *x;
    rsh_layout *rows, *columns;
    rsh_plan *plan;
    assert_int_equal(rsh_tensor_wrap((float[]){0.5f}, RSH_F32, 1, (int64_t[]){1}, NULL, NULL, NULL, &x), RSH_OK);
    assert_int_equal(rsh_tensor_print(x, &sink), RSH_OK);
    assert_non_null(strstr(t.data, "0.5"));
    assert_int_equal(rsh_layout_parse("f32[48/x, 48] on x=2", &rows), RSH_OK);
    assert_int_equal(rsh_layout_parse("f32[48, 48/x] on x=2", &columns), RSH_OK);
    assert_int_equal(rsh_plan_new(rows, columns, NULL, &plan), RSH_OK);
    for (int picture = RSH_PICTURE_TEXT; picture <= RSH_PICTURE_HTML; picture++) {
        rshi_text_free(&t);
        assert_int_equal(rsh_draw_plan(plan, 0, (rsh_picture_format)picture, &sink), RSH_OK);
        assert_null(strstr(t.data, "4,5 KiB")); /* half of 48 x 48 x 4 bytes moves */
        /* in a page the script writes it */
        if (picture != RSH_PICTURE_HTML) assert_non_null(strstr(t.data, "4.5 KiB"));
    }
    rshi_text_free(&t);
    rsh_plan_free(plan);
    rsh_layout_free(rows), rsh_layout_free(columns);
    rsh_tensor_free(x);
    see_commas();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timeout_is_read_alike_in_every_locale),
        cmocka_unit_test(sentences_have_a_decimal_point),
        cmocka_unit_test(one_of_a_thing_is_counted_in_the_singular),
        cmocka_unit_test(texts_and_sinks_have_a_decimal_point),
        cmocka_unit_test(tensors_and_pictures_have_a_decimal_point),
    };
    return exit_status(cmocka_run_group_tests(tests, start, end));
}
