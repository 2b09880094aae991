/* Pictures for terminals: the same text, with colours around the blocks. */
#include <reshard.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct page {
    char text[1 << 16];
    size_t length;
} page;

static int put(void *ctx, const char *text, size_t length) {
    page *p = ctx;
    if (p->length + length >= sizeof p->text) return 1;
    memcpy(p->text + p->length, text, length);
    p->text[p->length += length] = '\0';
    return 0;
}

static void draw(const char *from, const char *to, rsh_picture_format form, page *p) {
    rsh_layout *a, *b;
    rsh_plan *plan;
    rsh_sink sink = {put, p};
    p->length = 0;
    assert_int_equal(rsh_layout_parse(from, &a), RSH_OK);
    assert_int_equal(rsh_layout_parse(to, &b), RSH_OK);
    assert_int_equal(rsh_plan_new(a, b, NULL, &plan), RSH_OK);
    assert_int_equal(rsh_draw_plan(plan, 0, form, &sink), RSH_OK);
    rsh_plan_free(plan);
    rsh_layout_free(a);
    rsh_layout_free(b);
}

/* Removes "ESC [ ... m"; returns how many there were. */
static int strip(page *p) {
    int n = 0;
    char *to = p->text;
    for (const char *from = p->text; *from;) {
        if (strncmp(from, "\033[", 2)) {
            *to++ = *from++;
            continue;
        }
        from = strchr(from, 'm') + 1;
        n++;
    }
    *to = '\0';
    return n;
}

static const char *const moves[][2] = {{"f32[64/x, 64] on x=4", "f32[64, 64/x] on x=4"},
                                       {"f32[64]", "f32[64/x] on x=3"},
                                       {"f32[4096/x, 64] on x=4096", "f32[4096, 64/x] on x=4096"},
                                       {"f32[64, 64] on x=4 sum(x)", "f32[64/x, 64] on x=4"},
                                       {"f32[5, 6, 7/x] on x=2", "f32[5/x, 6, 7] on x=3"},
                                       {"u8[8, 8] boxes 3:[0:4,0:8] 1,5:[4:8,0:8]", "u8[8/x~, 8] on x=3"},
                                       {"f32[64/x:1, 64] on x=16", "f32[64, 64/x] on x=16"}};

static void without_its_colours_it_is_the_text(void **state) {
    (void)state;
    page *text = calloc(1, sizeof *text), *ansi = calloc(1, sizeof *ansi);
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        draw(moves[i][0], moves[i][1], RSH_PICTURE_TEXT, text);
        draw(moves[i][0], moves[i][1], RSH_PICTURE_ANSI, ansi);
        assert_int_equal(strip(ansi) > 0, !strstr(moves[i][0], "sum")); /* a sum does not have the colour of a rank */
        assert_string_equal(ansi->text, text->text);
    }
    free(text);
    free(ansi);
}

static void every_line_ends_without_colour(void **state) {
    (void)state;
    page *p = calloc(1, sizeof *p);
    draw(moves[0][0], moves[0][1], RSH_PICTURE_ANSI, p);
    for (char *line = strtok(p->text, "\n"); line; line = strtok(NULL, "\n")) {
        char *last = NULL;
        for (char *at = line; (at = strstr(at, "\033[")); at++) last = at;
        if (last) assert_int_equal(strncmp(last, "\033[0m", 4), 0);
    }
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_its_colours_it_is_the_text),
        cmocka_unit_test(every_line_ends_without_colour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
