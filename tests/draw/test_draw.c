/* Pictures: what they show, how wide they are, and what happens if they cannot be made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <reshard/alloc.h>
#include <reshard/draw.h>

/* ---- a sink that stores what it gets, and may be full ---- */

typedef struct paper {
    char *text;
    size_t length, held;
    size_t room; /* 0: unlimited */
} paper;

static int write_paper(void *ctx, const char *text, size_t length) {
    paper *p = ctx;
    if (p->room && p->length + length > p->room) return 1;
    if (p->length + length >= p->held) p->text = realloc(p->text, p->held = 2 * (p->length + length) + 1);
    memcpy(p->text + p->length, text, length);
    p->length += length;
    p->text[p->length] = '\0';
    return 0;
}

typedef struct move {
    const char *from, *to;
} move;

static const move moves[] = {
    {"f32[4096/tp, 11008] on tp=4", "f32[4096, 11008/tp] on tp=4"},
    {"f32[4096/tp, 11008] on dp=2,tp=4", "f32[4096/dp, 11008/tp] on dp=2,tp=4"},
    {"f32[1000/tp] on tp=4", "f32[1000/tp:100] on tp=4"},
    {"f32[1000, 37]/dp on dp=4", "f32[1000/tp, 37] on tp=3@4-6"},
    {"f32[16, 64, 64] on dp=2,tp=4 sum(tp)", "f32[16, 64/tp, 64] on dp=2,tp=4"},
    {"bf16[(4096/(kv,rep)|1024/kv|1024/kv), 8] on kv=2,rep=2", "bf16[(4096|1024|1024)/tp, 8] on tp=3"},
    {"f32[4096/tp, 4096] on tp=4096", "f32[4096, 4096/tp] on tp=4096"},
    {"f32[]", "f32[] on x=200"},
    {"f32[0, 4]", "f32[0/x, 4] on x=3"},
    {"f32[8, 8] boxes 0:[0:4,0:8] 1,5:[4:8,0:8]", "f32[8, 8/x~] on x=3"},
    {"u8[3/a, 5/b, 7/c, 2, 1, 4, 2, 2/d] on a=3,b=5,c=7,d=2", "u8[3, 5, 7, 2, 1, 4, 2, 2] on q=1"},
    {"f32[100000/x:1, 100000/y:1] on x=2,y=2", "f32[100000/x:3, 100000] on x=32"},
};
#define MOVES (sizeof moves / sizeof *moves)

static rsh_plan *plan_of(const move *m) {
    rsh_layout *from = NULL, *to = NULL;
    rsh_plan *plan = NULL;
    assert_int_equal(rsh_layout_parse(m->from, &from), RSH_OK);
    assert_int_equal(rsh_layout_parse(m->to, &to), RSH_OK);
    assert_int_equal(rsh_plan_new(from, to, NULL, &plan), RSH_OK);
    rsh_layout_free(from);
    rsh_layout_free(to);
    return plan;
}

static char *draw(const move *m, rsh_picture_format form) {
    paper p = {0};
    rsh_sink sink = {write_paper, &p};
    rsh_plan *plan = plan_of(m);
    assert_int_equal(rsh_draw_plan(plan, 0, form, &sink), RSH_OK);
    rsh_plan_free(plan);
    return p.text;
}

static int count(const char *text, const char *word) {
    int n = 0;
    for (; (text = strstr(text, word)); text += strlen(word)) n++;
    return n;
}

/* ---- text ---- */

static void two_grids_and_an_arrow(void **state) {
    (void)state;
    char *text = draw(&(move){"u8[4/x, 4] on x=2", "u8[4, 4/x] on x=2"}, RSH_PICTURE_TEXT);
    assert_string_equal(
        text, "  u8[4/x, 4] on x=2                                       u8[4, 4/x] on x=2\n"
              "  ┌───────────────────────────────────────┐               ┌───────────────────┬───────────────────┐\n"
              "  │                                       │               │                   │                   │\n"
              "  │                   0                   │               │                   │                   │\n"
              "  │                                       │      8 B      │                   │                   │\n"
              "  ├───────────────────────────────────────┤ ╶──────────>  │         0         │         1         │\n"
              "  │                                       │     moves     │                   │                   │\n"
              "  │                   1                   │               │                   │                   │\n"
              "  │                                       │               │                   │                   │\n"
              "  └───────────────────────────────────────┘               └───────────────────┴───────────────────┘\n"
              "  4 indices of dim 0 down, 4 of dim 1 across\n");
    free(text);
}

static int columns(const char *line) {
    int n = 0;
    for (; *line && *line != '\n'; line++) n += (*line & 0xc0) != 0x80;
    return n;
}

static void no_line_is_wider_than_100_columns(void **state) {
    (void)state;
    for (size_t i = 0; i < MOVES; i++) {
        char *text = draw(&moves[i], RSH_PICTURE_TEXT);
        for (char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
            if (columns(line) > 100) fail_msg("%s: %d columns", moves[i].from, columns(line));
        free(text);
    }
}

static void repeats_are_collapsed_and_counted(void **state) {
    (void)state;
    char *text = draw(&(move){"u8[4096/x, 4] on x=4096", "u8[4096, 4] on x=4096"}, RSH_PICTURE_TEXT);
    const char *expected =
        "  u8[4096/x, 4] on x=4096                                 u8[4096, 4] on x=4096\n"
        "  ┌───────────────────────────────────────┐               ┌───────────────────────────────────────┐\n"
        "  │                   0                   │               │                                       │\n"
        "  ├───────────────────────────────────────┤               │                                       │\n"
        "  │                   1                   │               │                                       │\n"
        "  ├───────────────────────────────────────┤               │                                       │\n"
        "  │                   2                   │               │                                       │\n"
        "  ├───────────────────────────────────────┤   64.0 MiB    │                                       │\n"
        "  │                   3                   │ ╶──────────>  │                0-4095                 │\n"
        "  ├───────────────────────────────────────┤     moves     │                                       │\n"
        "  │                x 4096                 │               │                                       │\n"
        "  ├───────────────────────────────────────┤               │                                       │\n"
        "  │                 4094                  │               │                                       │\n"
        "  ├───────────────────────────────────────┤               │                                       │\n"
        "  │                 4095                  │               │                                       │\n"
        "  └───────────────────────────────────────┘               └───────────────────────────────────────┘\n"
        "  4096 indices of dim 0 down, 4 of dim 1 across\n"
        "  dim 0 repeats every index, 4096 times; indices 4 to 4093 are not drawn\n"
        "  showing 6 of 4096 ranks before, 4096 of 4096 after\n";
    assert_string_equal(text, expected);
    free(text);
    text = draw(&moves[6], RSH_PICTURE_TEXT);
    assert_non_null(strstr(text, "x 4096"));
    assert_non_null(strstr(text, "showing 6 of 4096 ranks"));
    free(text);
}

/* A gap that repeats a round of blocks has a number; any other gap has none. */
static void gaps_say_what_repeats(void **state) {
    (void)state;
    char *dealt = draw(&(move){"u8[1200/x:10] on x=4", "u8[1200/x:15] on x=4"}, RSH_PICTURE_SVG);
    assert_non_null(strstr(dealt, ">x 10</text>")); /* 120 is the least common multiple of 40 and 60 */
    free(dealt);
    char *uneven = draw(&(move){"u8[1001/x~] on x=100", "u8[1001] on x=1"}, RSH_PICTURE_SVG);
    assert_non_null(strstr(uneven, ">...</text>"));
    free(uneven);
}

static void dims_that_are_not_drawn_are_named(void **state) {
    (void)state;
    char *text = draw(&moves[4], RSH_PICTURE_TEXT);
    assert_non_null(strstr(text, "at index 0 of the other dims"));
    assert_non_null(strstr(text, "sum 0-3 or 4-7"));
    free(text);
}

static void expect_in_every_form(const move *m, const char *label, const char *before, const char *after) {
    /* in a page the script writes these sentences */
    for (int form = RSH_PICTURE_TEXT; form <= RSH_PICTURE_SVG; form++) {
        char *picture = draw(m, (rsh_picture_format)form);
        bool plain = form == RSH_PICTURE_TEXT; /* text has no tooltips */
        if (!strstr(picture, label)) fail_msg("form %d does not say \"%s\"", form, label);
        if (!plain && !strstr(picture, before)) fail_msg("form %d does not say \"%s\"", form, before);
        if (!plain && !strstr(picture, after)) fail_msg("form %d does not say \"%s\"", form, after);
        free(picture);
    }
}

static void replicas_of_a_sum_are_not_added_to_it(void **state) {
    (void)state;
    const move along_tp = {"f32[4096, 11008] on dp=2,tp=4 sum(tp)", "f32[4096/tp, 11008] on dp=2,tp=4"};
    const move along_dp = {"f32[4096, 11008] on dp=2,tp=4 max(dp)", "f32[4096/tp, 11008] on dp=2,tp=4"};
    const move along_all = {"f32[4096, 11008] on dp=2,tp=4 sum(dp,tp)", "f32[4096/tp, 11008] on dp=2,tp=4"};
    const move cut = {"f32[4096/dp, 11008] on dp=2,tp=4 sum(tp)", "f32[4096/tp, 11008] on dp=2,tp=4"};
    const move elsewhere = {"f32[4096, 11008] on dp=2,tp=2@[7,3,5,1] sum(tp)", "f32[4096, 11008] on x=1"};
    expect_in_every_form(&along_tp, "sum 0-3 or 4-7", "ranks 0-3 or 4-7, to be combined by sum",
                         "sum of ranks 0-3 or 4-7 to 0,4");
    expect_in_every_form(&along_dp, "max 0,4 (4 replicas)", "ranks 0,4 (4 replicas), to be combined by max",
                         "max of ranks 0,4 (4 replicas) to 0,4");
    expect_in_every_form(&along_all, "sum 0-7", "ranks 0-7, to be combined by sum", "sum of ranks 0-7 to 0,4");
    expect_in_every_form(&cut, "sum 4-7", "ranks 4-7, to be combined by sum", "sum of ranks 4-7 to 3,7");
    expect_in_every_form(&elsewhere, "sum 1,5 or 3,7", "ranks 1,5 or 3,7, to be combined by sum",
                         "sum of ranks 1,5 or 3,7 to 0");
}

/* Contributions that stay partial are moved, not combined. */
static void contributions_that_stay_apart_are_not_combined(void **state) {
    (void)state;
    const move m = {"f32[64, 64] on dp=2,tp=4 sum(tp)", "f32[64/dp, 64] on dp=2,tp=4 sum(tp)"};
    char *svg = draw(&m, RSH_PICTURE_SVG);
    assert_null(strstr(svg, "sum of ranks"));
    assert_non_null(strstr(svg, "ranks 4-7, to be combined by sum"));
    free(svg);
}

static void replicas_stand_side_by_side(void **state) {
    (void)state;
    char *text = draw(&moves[1], RSH_PICTURE_TEXT);
    assert_non_null(strstr(text, " 0,4 "));
    assert_non_null(strstr(text, " 3,7 "));
    free(text);
}

static void one_layout_is_one_grid(void **state) {
    (void)state;
    paper p = {0};
    rsh_sink sink = {write_paper, &p};
    rsh_layout *l = NULL;
    assert_int_equal(rsh_layout_parse("f32[8/x] on x=4", &l), RSH_OK);
    assert_int_equal(rsh_draw_layout(l, RSH_PICTURE_TEXT, &sink), RSH_OK);
    assert_string_equal(p.text, "  f32[8/x] on x=4\n"
                                "  ┌─────────┬─────────┬─────────┬─────────┐\n"
                                "  │    0    │    1    │    2    │    3    │\n"
                                "  └─────────┴─────────┴─────────┴─────────┘\n"
                                "  8 indices of dim 0 across\n");
    rsh_layout_free(l);
    free(p.text);
}

/* ---- SVG and HTML ---- */

static void a_destination_shows_where_its_cells_come_from(void **state) {
    (void)state;
    char *svg = draw(&moves[0], RSH_PICTURE_SVG);
    assert_int_equal(count(svg, "class=\"stays\""), 4);
    assert_int_equal(count(svg, "class=\"moves\""), 12);
    assert_int_equal(count(svg, "class=\"outline\""), 4);
    assert_int_equal(count(svg, "class=\"held\""), 4);
    assert_non_null(strstr(svg, "<title>2 to 3</title>"));
    assert_non_null(strstr(svg, "<title>rank 1: stays</title>"));
    free(svg);
}

/* Returns the indices of the ticks beside one panel of an SVG picture; panel 0 is on the left. */
static void ticks_of(const char *svg, int panel, char *out, size_t room) {
    *out = '\0';
    for (const char *t = strstr(svg, "<text class=\"tick\""); t; t = strstr(t + 1, "<text class=\"tick\"")) {
        const char *label = strchr(t, '>') + 1;
        if ((atoi(strstr(t, " x=\"") + 4) > 500) != (panel == 1)) continue;
        size_t n = strlen(out);
        snprintf(out + n, room - n, "%s%.*s", n ? " " : "", (int)strcspn(label, "<"), label);
    }
}

static void ticks_are_at_the_cuts_of_their_own_side(void **state) {
    (void)state;
    char left[256], right[256];
    char *svg = draw(&(move){"f32[1200/a, 800] on a=4", "f32[1200, 800/b] on b=3"}, RSH_PICTURE_SVG);
    ticks_of(svg, 0, left, sizeof left);
    ticks_of(svg, 1, right, sizeof right);
    assert_string_equal(left, "0 300 600 900 1200 0 800");
    assert_string_equal(right, "0 1200 0 267 534 800");
    free(svg);
}

static void a_heading_says_how_much_moves(void **state) {
    (void)state;
    const char *const headings[][3] = {
        {"u8[4/x, 4] on x=2", "u8[4, 4/x] on x=2", ">50 % of the bytes move: 8 B, the least possible.<"},
        {"u8[4/x, 4] on x=2", "u8[4/x, 4] on x=2", ">Nothing moves: every rank already holds what it needs.<"},
        {"u8[4/a] on a=2", "u8[4/b] on b=2@2-3", ">All the bytes move: 4 B, the least possible.<"},
        {"u8[4096/x, 4096] on x=256", "u8[4096, 4096/x] on x=256", ">More than 99 % of the bytes move: 15.9 MiB, the"},
    };
    for (size_t i = 0; i < sizeof headings / sizeof *headings; i++) {
        char *svg = draw(&(move){headings[i][0], headings[i][1]}, RSH_PICTURE_SVG);
        if (!strstr(svg, headings[i][2])) fail_msg("%s is not in the picture", headings[i][2]);
        free(svg);
    }
}

/* 8192 is not a multiple of 768, so the picture must not state a number of repetitions. */
static void what_repeats_is_counted_only_if_it_fits(void **state) {
    (void)state;
    const move m = {"f32[8192/x:128, 8192/y:128] on x=2,y=2", "f32[8192/x:96, 8192/y:96] on x=2,y=2"};
    char *svg = draw(&m, RSH_PICTURE_SVG);
    assert_non_null(strstr(svg, ">dim 0 repeats every 768 indices; indices 768 to 7391 are not drawn<"));
    assert_null(strstr(svg, ">x 10<"));
    /* one for each rank, because more labels would cover the colours */
    assert_int_equal(count(svg, "id=\"to-label"), 4);
    free(svg);
}

static void reductions_are_hatched(void **state) {
    (void)state;
    char *svg = draw(&moves[4], RSH_PICTURE_SVG);
    assert_int_equal(count(svg, "class=\"reduced\""), 4);
    assert_int_equal(count(svg, "class=\"combined\""), 4 + 1 + 1); /* and the contributions, and the legend */
    assert_int_equal(count(svg, "class=\"moves\""), 0);
    free(svg);
}

/* Checks that every opened tag is closed in the right order, which finds a forgotten quote or end. */
static void assert_balanced(const char *xml) {
    const char *open[16];
    int depth = 0;
    for (const char *tag = strchr(xml, '<'); tag; tag = strchr(tag + 1, '<')) {
        const char *end = strchr(tag, '>');
        assert_non_null(end);
        if (tag[1] == '/') {
            size_t n = (size_t)(end - tag - 2);
            assert_true(depth > 0 && !strncmp(open[--depth] + 1, tag + 2, n));
        } else if (end[-1] != '/') {
            assert_true(depth < 16);
            open[depth++] = tag;
        }
    }
    assert_int_equal(depth, 0);
}

static void svg_is_balanced_and_has_no_id_twice(void **state) {
    (void)state;
    for (size_t i = 0; i < MOVES; i++) {
        char *svg = draw(&moves[i], RSH_PICTURE_SVG);
        assert_balanced(svg);
        for (char *id = strstr(svg, " id=\""); id; id = strstr(id + 1, " id=\"")) {
            char word[64] = "";
            strncat(word, id, (size_t)(strchr(id + 5, '"') + 1 - id));
            assert_int_equal(count(svg, word), 1);
        }
        free(svg);
    }
}

/* All boxes of a class that are the same share of the tensor must have the same width. */
static void equal_parts_are_equally_wide(void **state) {
    (void)state;
    for (int parts = 2; parts <= 64; parts++) {
        char from[64], to[64], width[32] = "";
        snprintf(from, sizeof from, "u8[%d/x] on x=%d", 7 * parts, parts);
        snprintf(to, sizeof to, "u8[%d]", 7 * parts);
        char *svg = draw(&(move){from, to}, RSH_PICTURE_SVG);
        for (char *box = strstr(svg, "class=\"held\""); box; box = strstr(box + 1, "class=\"held\"")) {
            char *at = strstr(box, " width=\"");
            if (*width && strncmp(at, width, strlen(width))) fail_msg("%d parts: %.20s beside %s", parts, at, width);
            if (!*width) strncat(width, at, (size_t)(strchr(at + 8, '"') - at + 1));
        }
        free(svg);
    }
}

/* ---- failure ---- */

static void a_full_sink_is_an_error(void **state) {
    (void)state;
    rsh_plan *plan = plan_of(&moves[0]);
    for (int form = RSH_PICTURE_TEXT; form <= RSH_PICTURE_JSON; form++)
        for (size_t room = 1; room < 3000; room += 97) {
            paper p = {.room = room};
            rsh_sink sink = {write_paper, &p};
            rsh_status st = rsh_draw_plan(plan, 0, (rsh_picture_format)form, &sink);
            assert_true(st == RSH_EIO || (st == RSH_OK && p.length <= room));
            free(p.text);
        }
    rsh_plan_free(plan);
}

static void no_memory_is_an_error_and_nothing_leaks(void **state) {
    (void)state;
    rsh_plan *plan = plan_of(&moves[0]);
    rsh_plan_totals totals = RSH_PLAN_TOTALS_INIT;
    assert_int_equal(rsh_plan_get_totals(plan, &totals), RSH_OK); /* from now on the plan keeps its totals */
    for (int form = RSH_PICTURE_TEXT; form <= RSH_PICTURE_JSON; form++) {
        rsh_status st = RSH_ENOMEM;
        for (int64_t n = 0; st && n < 10000; n++) {
            paper p = {0};
            rsh_sink sink = {write_paper, &p};
            uint64_t live = rsh_alloc_get_stats().live;
            rsh_alloc_fail_at(n);
            st = rsh_draw_plan(plan, 0, (rsh_picture_format)form, &sink);
            rsh_alloc_fail_at(-1);
            assert_true(st == RSH_OK || st == RSH_ENOMEM);
            assert_int_equal(rsh_alloc_get_stats().live, live);
            free(p.text);
        }
        assert_int_equal(st, RSH_OK);
    }
    rsh_plan_free(plan);
}

static void a_tensor_or_form_that_is_not_there_is_refused(void **state) {
    (void)state;
    paper p = {0};
    rsh_sink sink = {write_paper, &p};
    rsh_plan *plan = plan_of(&moves[0]);
    assert_int_equal(rsh_draw_plan(plan, 1, RSH_PICTURE_TEXT, &sink), RSH_EINDEX);
    assert_int_equal(rsh_draw_plan(plan, -1, RSH_PICTURE_TEXT, &sink), RSH_EINDEX);
    assert_int_equal(rsh_draw_plan(plan, 0, (rsh_picture_format)7, &sink), RSH_EVALUE);
    assert_int_equal(rsh_draw_plan(plan, 0, RSH_PICTURE_TEXT, NULL), RSH_EVALUE);
    assert_int_equal(rsh_draw_layout(NULL, RSH_PICTURE_TEXT, &sink), RSH_EVALUE);
    assert_null(p.text);
    rsh_plan_free(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_grids_and_an_arrow),
        cmocka_unit_test(no_line_is_wider_than_100_columns),
        cmocka_unit_test(repeats_are_collapsed_and_counted),
        cmocka_unit_test(gaps_say_what_repeats),
        cmocka_unit_test(dims_that_are_not_drawn_are_named),
        cmocka_unit_test(replicas_stand_side_by_side),
        cmocka_unit_test(replicas_of_a_sum_are_not_added_to_it),
        cmocka_unit_test(contributions_that_stay_apart_are_not_combined),
        cmocka_unit_test(one_layout_is_one_grid),
        cmocka_unit_test(a_destination_shows_where_its_cells_come_from),
        cmocka_unit_test(ticks_are_at_the_cuts_of_their_own_side),
        cmocka_unit_test(a_heading_says_how_much_moves),
        cmocka_unit_test(what_repeats_is_counted_only_if_it_fits),
        cmocka_unit_test(reductions_are_hatched),
        cmocka_unit_test(svg_is_balanced_and_has_no_id_twice),
        cmocka_unit_test(equal_parts_are_equally_wide),
        cmocka_unit_test(a_full_sink_is_an_error),
        cmocka_unit_test(no_memory_is_an_error_and_nothing_leaks),
        cmocka_unit_test(a_tensor_or_form_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
