/* Colours: eight hues that colour-blind readers tell apart, each in shades from dark to light. */
#include "draw/impl.h"

/* After Okabe and Ito, moved a little: so that all pairs of eight hues, of eight in two shades, and of four in four
 * shades are far apart for readers of all kinds (the tests measure it). */
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
