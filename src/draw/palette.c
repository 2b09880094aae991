/* Palette: chooses the colour of each rank: the hue by one mesh axis and the shade by the others.
 *
 * Only axes along which the picture differs are used, and only coordinates that appear.  Replicas have the same colour.
 * If a single axis has more than eight coordinates, each further group of eight gets another shade.  If there are
 * other axes as well, neighbouring coordinates share a hue and differ in shade.  Without a mesh the ranks themselves
 * are the coordinates. */
#include "draw/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns the first of the ranks that cover the same cells, so that replicas have the same colour.  If a rank has
 * several pieces, the one that fewest ranks share is used. -1: the rank is not in the picture. */
static int64_t representative(const rshi_side *side, int64_t rank) {
    int64_t i = rshi_layout_ordinal(side->layout, rank);
    const rshi_alike *best = NULL;
    for (int64_t k = i < 0 ? 0 : side->start[i]; i >= 0 && k < side->start[i + 1]; k++) {
        const rshi_alike *a = &side->alike[side->member[k]];
        if (!best || a->n < best->n) best = a;
    }
    return best ? side->rank[best->first] : -1;
}

/* Combines a rank's coordinates along some axes into one number; without axes, returns the rank. */
static int64_t number_along(const rsh_layout *l, unsigned axes, int64_t rank) {
    const rsh_layout_desc *desc = rsh_layout_describe(l);
    int64_t position = rshi_layout_position(l, rank), n = 0;
    if (!axes) return rank;
    for (int a = 0; a < desc->naxes; a++)
        if (axes >> a & 1) n = n * desc->axis[a].size + position / rshi_layout_axis_step(l, a) % desc->axis[a].size;
    return n;
}

/* Lists all coordinates that appear, ascending and without duplicates. */
static rsh_status make_scale(const rshi_side *side, unsigned axes, rshi_scale *out) {
    int64_t n = 0, *value = rshi_calloc((size_t)side->nalike + 1, sizeof *value);
    if (!value) return rshi_nomem();
    for (int64_t i = 0; i < side->nalike; i++)
        value[i] = number_along(side->layout, axes, side->rank[side->alike[i].first]);
    qsort(value, (size_t)side->nalike, sizeof *value, rshi_compare_int64);
    for (int64_t i = 0; i < side->nalike; i++)
        if (!n || value[i] != value[n - 1]) value[n++] = value[i];
    *out = (rshi_scale){axes, n, value};
    return RSH_OK;
}

/* Returns the axes along which the ranks of the picture differ. */
static unsigned varying(const rshi_side *side) {
    const rsh_layout_desc *desc = rsh_layout_describe(side->layout);
    unsigned axes = 0;
    for (int64_t i = 1; i < side->nalike; i++)
        for (int a = 0; a < desc->naxes; a++)
            if (number_along(side->layout, 1u << a, side->rank[side->alike[i].first]) !=
                number_along(side->layout, 1u << a, side->rank[side->alike[0].first]))
                axes |= 1u << a;
    return axes;
}

/* Chooses the axis with most coordinates among those with at most one coordinate per hue; if all have more, the first
 * axis. */
static rsh_status choose_hue(rshi_scene *s, unsigned axes) {
    rshi_scale *best = &s->palette.hue;
    for (int a = 0; a < RSH_MAX_AXES; a++) {
        rshi_scale scale;
        if (!(axes >> a & 1)) continue;
        RSH_TRY(make_scale(&s->side[0], 1u << a, &scale));
        bool better = !best->value || (scale.n <= RSHI_HUES && (best->n > RSHI_HUES || scale.n > best->n));
        rshi_free(better ? best->value : scale.value);
        if (better) *best = scale;
    }
    return RSH_OK;
}

rsh_status rshi_scene_palette(rshi_scene *s) {
    const rshi_side *side = &s->side[0];
    bool mesh = !rsh_layout_describe(side->layout)->is_boxes;
    unsigned axes = mesh ? varying(side) : 0;
    if (!axes) return make_scale(side, 0, &s->palette.hue);
    RSH_TRY(choose_hue(s, axes));
    unsigned rest = axes & ~s->palette.hue.axes;
    return rest ? make_scale(side, rest, &s->palette.shade) : RSH_OK;
}

/* ---- colours ---- */

static int64_t scale_index(const rshi_scale *scale, int64_t value) {
    const int64_t *at =
        scale->n ? bsearch(&value, scale->value, (size_t)scale->n, sizeof value, rshi_compare_int64) : NULL;
    return at ? at - scale->value : 0;
}

/* Returns the colour of coordinate i of n along the hue axis and j of m along the shade axes. */
static rshi_colour colour_at(int64_t i, int64_t n, int64_t j, int64_t m) {
    int64_t each = rshi_ceil_div(rshi_max(n, 1), RSHI_HUES), shades = rshi_max(m, 1) * each;
    int64_t hue = m ? i / each : i % RSHI_HUES, shade = m ? j * each + i % each : i / RSHI_HUES;
    if (shades == 1) return rshi_colour_of((int)hue, RSHI_LEVEL_PLAIN);
    double level = (double)shade / (double)(shades - 1) - RSHI_LEVEL_PLAIN;
    return rshi_colour_of((int)hue,
                          RSHI_LEVEL_PLAIN +
                              level * (shades == 2 ? 0.75 : 1)); /* two shades need less contrast */
}

rshi_colour rshi_scene_colour(const rshi_scene *s, int64_t rank) {
    const rshi_side *side = &s->side[0];
    const rshi_palette *p = &s->palette;
    int64_t seen = representative(side, rank);
    if (seen < 0) return (rshi_colour){222, 222, 222};
    return colour_at(scale_index(&p->hue, number_along(side->layout, p->hue.axes, seen)), p->hue.n,
                     p->shade.n ? scale_index(&p->shade, number_along(side->layout, p->shade.axes, seen)) : 0,
                     p->shade.n);
}

/* ---- legend ---- */

static const rshi_scale *scale_of(const rshi_scene *s, int which) {
    return which ? &s->palette.shade : &s->palette.hue;
}

void rshi_legend_name(const rshi_scene *s, int which, char label[RSHI_DRAW_LABEL]) {
    const rsh_layout_desc *desc = rsh_layout_describe(s->side[0].layout);
    unsigned axes = scale_of(s, which)->axes;
    int n = 0;
    snprintf(label, RSHI_DRAW_LABEL, "rank");
    for (int a = 0; a < desc->naxes && n < RSHI_DRAW_LABEL; a++)
        if (axes >> a & 1)
            n += snprintf(label + n, (size_t)(RSHI_DRAW_LABEL - n), "%s%.12s", n ? "," : "", desc->axis[a].name);
}

/* Writes a coordinate as "3", or along several axes as "1,0". */
static void value_label(const rshi_scene *s, const rshi_scale *scale, int64_t value, char label[RSHI_DRAW_LABEL]) {
    const rsh_layout_desc *desc = rsh_layout_describe(s->side[0].layout);
    char all[RSHI_DRAW_LABEL] = "";
    if (!scale->axes) snprintf(all, sizeof all, "%" PRId64, value);
    for (int a = desc->naxes - 1; a >= 0; a--) {
        char rest[RSHI_DRAW_LABEL];
        if (!(scale->axes >> a & 1)) continue;
        snprintf(rest, sizeof rest, "%s", all);
        if (snprintf(all, sizeof all, "%" PRId64 "%s%s", value % desc->axis[a].size, *rest ? "," : "", rest) < 0)
            return;
        value /= desc->axis[a].size;
    }
    snprintf(label, RSHI_DRAW_LABEL, "%s", all);
}

/* If there are more than eight shades, only the first, the middle and the last are listed.  If several coordinates
 * share a hue, its label is a range. */
#define FEW 8
bool rshi_legend_entry(const rshi_scene *s, int which, int64_t i, char label[RSHI_DRAW_LABEL], rshi_colour *colour) {
    const rshi_scale *scale = scale_of(s, which), *hue = &s->palette.hue, *shade = &s->palette.shade;
    int64_t n = scale->n, each = shade->n ? rshi_ceil_div(n, RSHI_HUES) : 1;
    if (which) {
        int64_t stops = n > FEW ? 3 : n, j = n > FEW ? i * (n - 1) / 2 : i;
        if (i >= stops) return false;
        value_label(s, scale, scale->value[j], label);
        *colour = colour_at(0, hue->n, j, n);
        return true;
    }
    if (i >= rshi_ceil_div(n, each)) return false;
    int64_t last = rshi_min(n, (i + 1) * each) - 1;
    char first[RSHI_DRAW_LABEL / 2];
    value_label(s, scale, scale->value[i * each], label);
    if (last > i * each) {
        snprintf(first, sizeof first, "%.20s", label);
        snprintf(label, RSHI_DRAW_LABEL, "%s-%" PRId64, first, scale->value[last]);
    }
    *colour = shade->n ? rshi_colour_of((int)i, RSHI_LEVEL_PLAIN) : colour_at(i, n, 0, 0);
    return true;
}
