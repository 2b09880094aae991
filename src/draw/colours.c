/* Colours: palettes that colour-blind readers can tell apart, and the marks' share in them. */
#include "draw/impl.h"

/* Okabe and Ito, with grey for black. */
static const rshi_colour few[] = {{0, 114, 178},  {230, 159, 0},  {0, 158, 115},  {204, 121, 167},
                                  {86, 180, 233}, {213, 94, 0},   {240, 228, 66}, {153, 153, 153}};
#define FEW ((int64_t)(sizeof few / sizeof *few))

/* Stops of a scale from dark blue to yellow whose lightness rises evenly (after cividis). */
static const rshi_colour scale[] = {{0, 34, 78},     {18, 53, 112},   {59, 73, 107},   {87, 93, 109}, {112, 113, 115},
                                    {138, 134, 120}, {165, 156, 116}, {195, 179, 105}, {225, 204, 85}, {254, 232, 56}};
#define STOPS ((int)(sizeof scale / sizeof *scale))

static int blend(int a, int b, double x) { return (int)(a + (b - a) * x + 0.5); }

static rshi_colour mix(rshi_colour a, rshi_colour b, double x) {
    return (rshi_colour){blend(a.red, b.red, x), blend(a.green, b.green, x), blend(a.blue, b.blue, x)};
}

static rshi_colour on_scale(double x) {
    double at = x * (STOPS - 1);
    int i = at >= STOPS - 1 ? STOPS - 2 : (int)at;
    return mix(scale[i], scale[i + 1], at - i);
}

/* More colours than can be told apart are not made up: beyond 64 they repeat. */
rshi_colour rshi_colour_of(int64_t i, int64_t n, bool pale) {
    rshi_colour c = n <= FEW || n > RSHI_DRAW_INTERVALS ? few[i % FEW] : on_scale((double)i / (double)(n - 1));
    return pale ? mix(c, (rshi_colour){255, 255, 255}, 0.72) : c;
}

rshi_colour rshi_colour_heat(double x) { return mix((rshi_colour){239, 243, 248}, (rshi_colour){8, 64, 129}, x); }

bool rshi_colour_dark(rshi_colour c) { return 299 * c.red + 587 * c.green + 114 * c.blue < 140000; }

/* Where a rank stands among the ranks of a layout; 0 if it is not there. */
static int64_t place_of(const rsh_layout *l, int64_t rank) {
    int64_t lo = 0, hi = rsh_layout_nranks(l) - 1;
    while (lo < hi) {
        int64_t middle = lo + (hi - lo) / 2;
        if (rsh_layout_rank(l, middle) < rank) lo = middle + 1;
        else hi = middle;
    }
    return lo;
}

rshi_colour rshi_figure_colour(const rshi_scene *s, const rshi_figure *m) {
    const rsh_layout *l = s->side[0].layout;
    if (m->source < 0) return (rshi_colour){222, 222, 222};
    return rshi_colour_of(place_of(l, m->source), rsh_layout_nranks(l), m->pale);
}
