/* Colours: they must be clearly different, even for readers who lack one kind of cones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <reshard/draw.h>

typedef struct colour {
    double red, green, blue; /* linear light */
} colour;

/* Linear light as seen by readers who lack one kind of cones (Machado, Oliveira and Fernandes, 2009), and as it is. */
static const double eyes[3][3][3] = {
    {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
    {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}};

static double positive(double x) { return x > 0 ? x : 0; }

static colour seen(colour c, int eye) {
    const double(*m)[3] = eyes[eye];
    return (colour){positive(m[0][0] * c.red + m[0][1] * c.green + m[0][2] * c.blue),
                    positive(m[1][0] * c.red + m[1][1] * c.green + m[1][2] * c.blue),
                    positive(m[2][0] * c.red + m[2][1] * c.green + m[2][2] * c.blue)};
}

/* Converts to Oklab (Ottosson, 2020), in which distances correspond to visible differences; 0.02 is just visible. */
static void oklab(colour c, double out[3]) {
    double l = cbrt(0.4122214708 * c.red + 0.5363325363 * c.green + 0.0514459929 * c.blue);
    double m = cbrt(0.2119034982 * c.red + 0.6806995451 * c.green + 0.1073969566 * c.blue);
    double s = cbrt(0.0883024619 * c.red + 0.2817188376 * c.green + 0.6299787005 * c.blue);
    out[0] = 0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s;
    out[1] = 1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s;
    out[2] = 0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s;
}

static double apart(colour a, colour b) {
    double least = 9, x[3], y[3];
    for (int eye = 0; eye < 3; eye++) {
        oklab(seen(a, eye), x);
        oklab(seen(b, eye), y);
        least = fmin(least, hypot(hypot(x[0] - y[0], x[1] - y[1]), x[2] - y[2]));
    }
    return least;
}

/* ---- the colours of a picture ---- */

static int append(void *ctx, const char *text, size_t length) {
    char **all = ctx;
    size_t n = strlen(*all);
    *all = realloc(*all, n + length + 1);
    memcpy(*all + n, text, length);
    (*all)[n + length] = '\0';
    return 0;
}

static double light(const char *hex) {
    char two[3] = {hex[0], hex[1], '\0'};
    double x = (double)strtol(two, NULL, 16) / 255;
    return x <= 0.04045 ? x / 12.92 : pow((x + 0.055) / 1.055, 2.4);
}

/* Lists the colours of the boxes that ranks hold, in order; returns their number. */
static int colours_of(const char *text, colour *out) {
    rsh_layout *l = NULL;
    char *svg = calloc(1, 1);
    int n = 0;
    assert_int_equal(rsh_layout_parse(text, &l), RSH_OK);
    assert_int_equal(rsh_draw_layout(l, RSH_PICTURE_SVG, &(rsh_sink){append, &svg}), RSH_OK);
    for (char *at = strstr(svg, "class=\"held\""); at; at = strstr(at + 1, "class=\"held\"")) {
        const char *hex = strstr(at, "fill=\"#") + 7;
        out[n++] = (colour){light(hex), light(hex + 2), light(hex + 4)};
    }
    free(svg);
    rsh_layout_free(l);
    return n;
}

static void expect_apart(const char *text, int ranks, double least) {
    colour c[64];
    assert_int_equal(colours_of(text, c), ranks);
    for (int i = 0; i < ranks; i++)
        for (int k = 0; k < i; k++)
            if (apart(c[i], c[k]) < least)
                fail_msg("%s: ranks %d and %d are %.3f apart", text, k, i, apart(c[i], c[k]));
}

static void up_to_eight_ranks_are_told_apart(void **state) {
    (void)state;
    for (int n = 2; n <= 8; n++) {
        char text[64];
        snprintf(text, sizeof text, "f32[%d/x] on x=%d", n, n);
        expect_apart(text, n, 0.08);
    }
}

static void sixteen_ranks_are_told_apart(void **state) {
    (void)state;
    expect_apart("f32[16/x] on x=16", 16, 0.045);
    expect_apart("f32[4/x, 4/y] on x=4,y=4", 16, 0.045);
    expect_apart("f32[8/x, 2/y] on x=8,y=2", 16, 0.045);
}

static void replicas_have_one_colour_and_only_cuts_give_others(void **state) {
    (void)state;
    colour c[64];
    assert_int_equal(colours_of("f32[8, 8] on dp=2,tp=4", c), 1);
    expect_apart("f32[8/tp, 8] on dp=64,tp=4", 4, 0.08);
    expect_apart("f32[8/tp, 8] on tp=4,dp=64", 4, 0.08);
    expect_apart("f32[6, 4] boxes 3:[0:3,0:2] 9:[3:6,0:2] 4:[0:6,2:4]", 3, 0.08);
}

/* Ranks that share only some segments have different colours; a shared segment has the colour of its first rank. */
static void ranks_that_share_a_segment_are_told_apart(void **state) {
    (void)state;
    colour c[64];
    assert_int_equal(colours_of("bf16[(40/(kv,rep)|20/kv|20/kv)] on kv=2,rep=2", c), 8);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++) assert_true(apart(c[i], c[k]) > 0.06);
    assert_true(apart(c[4], c[0]) < 1e-9 && apart(c[6], c[0]) < 1e-9);
    assert_true(apart(c[5], c[2]) < 1e-9 && apart(c[7], c[2]) < 1e-9);
}

/* On a mesh, ranks along one axis have the same hue and ranks along the other the same shade, so rows and columns
 * differ in different ways. */
static void one_axis_gives_the_hue_the_other_the_shade(void **state) {
    (void)state;
    colour c[64];
    double x[3], y[3];
    assert_int_equal(colours_of("f32[4/x, 3/y] on x=4,y=3", c), 12);
    for (int row = 0; row < 4; row++)
        for (int k = 1; k < 3; k++) {
            oklab(c[3 * row + k - 1], x);
            oklab(c[3 * row + k], y);
            assert_true(y[0] > x[0] + 0.04); /* y is lighter */
            double turn = atan2(x[2], x[1]) - atan2(y[2], y[1]);
            assert_true(fabs(turn) < 0.35); /* an angle in radians: the hue is still the same */
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(up_to_eight_ranks_are_told_apart),
        cmocka_unit_test(sixteen_ranks_are_told_apart),
        cmocka_unit_test(replicas_have_one_colour_and_only_cuts_give_others),
        cmocka_unit_test(ranks_that_share_a_segment_are_told_apart),
        cmocka_unit_test(one_axis_gives_the_hue_the_other_the_shade),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
