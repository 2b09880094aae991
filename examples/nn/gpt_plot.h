/* gpt_plot: draws trainings as SVG: losses, and the largest number of bytes that a rank keeps. */
#ifndef GPT_PLOT_H
#define GPT_PLOT_H

#include <math.h>
#include <stdio.h>

/* One training. */
typedef struct curve {
    char name[64];
    int steps;
    const double *loss; /* [steps] */
    double kept;        /* bytes for backward */
} curve;

enum { WIDE = 420, HIGH = 240, LEFT = 60, TOP = 50, SECOND = 560 }; /* pixels */

static inline const char *colour(int k) {
    static const char *const list[] = {"#1b1b1b", "#d1495b", "#edae49", "#00798c", "#66a182"};
    return list[k % 5];
}

/* Curves may coincide, so later ones are thinner and all are visible. */
static inline void plot_losses(FILE *f, int n, const curve *c, double most) {
    for (int k = 0; k < n; k++) {
        fprintf(f, "<polyline fill='none' stroke='%s' stroke-width='%g' points='", colour(k),
                7 - 1.1 * k);
        for (int i = 0; i < c[k].steps; i++)
            fprintf(f, "%.1f,%.1f ", LEFT + (double)WIDE * i / (c[k].steps - 1 + (c[k].steps == 1)),
                    TOP + HIGH * (1 - c[k].loss[i] / most));
        fprintf(f, "'/>\n");
    }
}

static inline void plot_kept(FILE *f, int n, const curve *c, double most) {
    double wide = (double)WIDE / n;
    for (int k = 0; k < n; k++) {
        double high = HIGH * c[k].kept / most, left = SECOND + wide * k;
        fprintf(f, "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='%s'/>\n", left + 8,
                TOP + HIGH - high, wide - 16, high, colour(k));
        fprintf(f, "<text x='%.1f' y='%.1f' text-anchor='middle'>%.3f</text>\n", left + wide / 2,
                TOP + HIGH - high - 5, c[k].kept / c[0].kept);
    }
}

static inline void plot_axis(FILE *f, int left, double most, const char *unit) {
    for (int i = 0; i <= 4; i++) {
        int y = TOP + HIGH * i / 4;
        fprintf(f, "<path d='M%d %dh%d' stroke='#ddd'/>", left, y, WIDE);
        fprintf(f, "<text x='%d' y='%d' text-anchor='end'>%.*f%s</text>\n", left - 6, y + 4,
                most < 10 ? 2 : 0, most * (4 - i) / 4, unit);
    }
}

static inline void plot_names(FILE *f, int n, const curve *c) {
    for (int k = 0; k < n; k++) {
        int x = LEFT + k % 3 * 210, y = TOP + HIGH + 52 + k / 3 * 20;
        fprintf(f, "<rect x='%d' y='%d' width='12' height='12' fill='%s'/>", x, y - 11, colour(k));
        fprintf(f, "<text x='%d' y='%d'>%s</text>\n", x + 18, y, c[k].name);
    }
}

/* Returns nonzero if the file cannot be written. */
static inline int plot(const char *path, const char *title, int n, const curve *c) {
    FILE *f = fopen(path, "w");
    double most = 0, kept = 0;
    if (!f) return 1;
    for (int k = 0; k < n; k++) kept = fmax(kept, c[k].kept);
    for (int i = 0; i < c->steps; i++) most = fmax(most, c->loss[i]);
    fprintf(f, "<svg xmlns='http://www.w3.org/2000/svg' width='1010' height='390' "
               "font-family='sans-serif' font-size='12'>\n"
               "<rect width='1010' height='390' fill='white'/>\n");
    fprintf(f, "<text x='%d' y='28' font-size='15'>%s</text>\n", LEFT, title);
    fprintf(f,
            "<text x='%d' y='28' font-size='15'>kept for backward on the fullest rank; "
            "shares of the first</text>\n",
            SECOND);
    plot_axis(f, LEFT, most, "");
    plot_axis(f, SECOND, kept / 1e6, " MB");
    plot_losses(f, n, c, most);
    plot_kept(f, n, c, kept);
    plot_names(f, n, c);
    fprintf(f, "</svg>\n");
    return fclose(f);
}

#endif
