/* Colours: eight hues that colour-blind readers can distinguish, each in shades from dark to light. */
#include "draw/impl.h"

/* Based on the palette of Okabe and Ito, adjusted so that all pairs of eight hues, of eight hues in two shades, and of
 * four hues in four shades are clearly different, also for colour-blind readers (the tests measure it). */
static const rshi_colour hues[RSHI_HUES] = {{0, 106, 188},  {225, 154, 0},  {4, 145, 101},  {198, 111, 171},
                                            {99, 198, 249}, {194, 106, 16}, {250, 215, 70}, {80, 80, 93}};

static int blend(int a, int b, double x) { return (int)(a + (b - a) * x + 0.5); }

static rshi_colour mix(rshi_colour a, rshi_colour b, double x) {
    return (rshi_colour){blend(a.red, b.red, x), blend(a.green, b.green, x), blend(a.blue, b.blue, x)};
}

rshi_colour rshi_colour_of(int hue, double level) {
    const rshi_colour black = {0, 0, 0}, white = {255, 255, 255};
    double away = level - RSHI_LEVEL_PLAIN;
    return away < 0 ? mix(hues[hue], black, -0.9 * away) : mix(hues[hue], white, 0.9 * away);
}

bool rshi_colour_dark(rshi_colour c) { return 299 * c.red + 587 * c.green + 114 * c.blue < 140000; }
