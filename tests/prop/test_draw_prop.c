/* Scenes of random moves compared with the oracle: which rank holds each drawn cell, and where the cell comes from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "planned.h"

/* ---- the scene ---- */

typedef struct paper {
    char *text;
    size_t length, room;
} paper;

static int write_paper(void *ctx, const char *text, size_t length) {
    paper *p = ctx;
    if (p->length + length >= p->room) p->text = realloc(p->text, p->room = 2 * (p->length + length) + 1);
    memcpy(p->text + p->length, text, length);
    p->length += length;
    return 0;
}

static bool scene_of(prop_case *c, const rsh_plan *plan, json_t **scene) {
    paper p = {0};
    json_error_t error;
    PROP_OK(c, rsh_draw_plan(plan, 0, RSH_PICTURE_JSON, &(rsh_sink){write_paper, &p}));
    *scene = json_loadb(p.text, p.length, 0, &error);
    free(p.text);
    PROP(c, *scene, "no JSON: %s at %d", error.text, error.position);
    return true;
}

static int64_t number(const json_t *list, size_t i) { return (int64_t)json_integer_value(json_array_get(list, i)); }

/* ---- cells ---- */

enum { ROWS, COLUMNS, SLICES, DIRECTIONS };

typedef struct direction {
    int dim, gap, n;
    const json_t *at;
} direction;

static void directions(const json_t *scene, direction out[DIRECTIONS]) {
    static const char *const names[] = {"rows", "columns", "slices"};
    for (int i = 0; i < DIRECTIONS; i++) {
        const json_t *d = json_object_get(scene, names[i]);
        out[i].at = json_object_get(d, "at");
        out[i].dim = (int)json_integer_value(json_object_get(d, "dim"));
        out[i].gap = (int)json_integer_value(json_object_get(d, "gap"));
        out[i].n = (int)json_array_size(out[i].at) - 1;
    }
}

/* Returns the first or the last element of a cell. */
static int64_t element_of(const ora_layout *l, const direction d[DIRECTIONS], const int *cell, bool last) {
    int64_t index[ORA_MAX] = {0};
    for (int i = 0; i < DIRECTIONS; i++)
        if (d[i].dim >= 0)
            index[d[i].dim] = last ? number(d[i].at, (size_t)cell[i] + 1) - 1 : number(d[i].at, (size_t)cell[i]);
    return ora_linear(l, index);
}

static bool has_rank(const json_t *holders, int64_t rank) {
    const json_t *runs = json_object_get(holders, "ranks");
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);
        int64_t first = number(run, 0), step = number(run, 1), count = number(run, 2);
        if (rank >= first && rank <= first + step * (count - 1) && (rank - first) % step == 0) return true;
    }
    return false;
}

static bool cell_is_held(prop_case *c, const ora_layout *l, const direction d[DIRECTIONS], const int *cell,
                         const json_t *holders) {
    for (int last = 0; last < 2; last++) {
        int64_t element = element_of(l, d, cell, last);
        for (int64_t r = 0; r < RANKS; r++)
            PROP(c, has_rank(holders, r) == ora_rank_holds(l, r, element), "rank %d, element %d of cell %d %d %d",
                 (int)r, (int)element, cell[0], cell[1], cell[2]);
    }
    return true;
}

static bool in_gap(const direction d[DIRECTIONS], const int *cell) {
    return cell[0] == d[0].gap || cell[1] == d[1].gap || cell[2] == d[2].gap;
}

/* State of calling fn for each cell of each rectangle of a list by slices. */
typedef struct visit {
    prop_case *c;
    const planned *p;
    const json_t *scene;
    const ora_layout *l;
    const json_t *holders;
    direction d[DIRECTIONS];
    int64_t seen; /* number of cells outside of gaps */
} visit;
typedef bool (*cell_fn)(visit *v, const json_t *rect, const int *cell);

static bool each_cell(visit *v, const json_t *slices, cell_fn fn) {
    for (int k = 0; k < (int)json_array_size(slices); k++)
        for (size_t i = 0; i < json_array_size(json_array_get(slices, (size_t)k)); i++) {
            const json_t *rect = json_array_get(json_array_get(slices, (size_t)k), i);
            for (int r = (int)number(rect, 0); r < number(rect, 2); r++)
                for (int q = (int)number(rect, 1); q < number(rect, 3); q++) {
                    int cell[DIRECTIONS] = {r, q, k};
                    if (!fn(v, rect, cell)) return false;
                    v->seen += !in_gap(v->d, cell);
                }
        }
    return true;
}

static bool held_cell(visit *v, const json_t *rect, const int *cell) {
    return cell_is_held(v->c, v->l, v->d, cell, json_array_get(v->holders, (size_t)number(rect, 4)));
}

/* Counts the cells outside of gaps that some rank holds. */
static int64_t cells_held(const visit *v) {
    int64_t n = 0;
    for (int k = 0; k < v->d[2].n; k++)
        for (int r = 0; r < v->d[0].n; r++)
            for (int q = 0; q < v->d[1].n; q++) {
                int cell[DIRECTIONS] = {r, q, k};
                bool held = false;
                for (int64_t rank = 0; rank < RANKS && !in_gap(v->d, cell) && !held; rank++)
                    held = ora_rank_holds(v->l, rank, element_of(v->l, v->d, cell, false));
                n += held;
            }
    return n;
}

static bool side_is_right(visit v, int side) {
    const json_t *s = json_array_get(json_object_get(v.scene, "sides"), (size_t)side);
    v.l = side ? v.p->to_o : v.p->from_o;
    v.holders = json_object_get(s, "holders");
    if (!each_cell(&v, json_object_get(s, "held"), held_cell)) return false;
    if (v.l->count) PROP(v.c, v.seen == cells_held(&v), "side %d draws %d cells", side, (int)v.seen);
    return true;
}

/* ---- origins ---- */

static int64_t first_rank(const json_t *holders) {
    return number(json_array_get(json_object_get(holders, "ranks"), 0), 0);
}

/* Without partials: the first holder keeps what it had, and gets the rest from ranks that had it. */
static bool origin_cell(visit *v, const json_t *rect, const int *cell) {
    enum { STAYS = 1, MOVES = 2 };
    const ora_layout *before = v->p->from_o;
    int64_t element = element_of(before, v->d, cell, false), kind = number(rect, 4);
    int64_t to = first_rank(json_array_get(v->holders, (size_t)number(rect, 5)));
    const json_t *from = json_array_get(rect, 7);
    bool had = ora_rank_holds(before, to, element);
    PROP(v->c, kind == STAYS || kind == MOVES, "kind %d", (int)kind);
    PROP(v->c, (kind == STAYS) == had, "element %d of rank %d is of kind %d", (int)element, (int)to, (int)kind);
    for (size_t i = 0; i < json_array_size(from); i++)
        PROP(v->c, ora_rank_holds(before, number(from, i), element), "rank %d sends element %d, which it has not",
             (int)number(from, i), (int)element);
    PROP(v->c, json_array_size(from) > 0, "element %d comes from nowhere", (int)element);
    return true;
}

static bool origins_are_right(visit v) {
    v.l = v.p->to_o;
    v.holders = json_object_get(json_array_get(json_object_get(v.scene, "sides"), 1), "holders");
    if (!each_cell(&v, json_object_get(v.scene, "origins"), origin_cell)) return false;
    if (v.l->count) PROP(v.c, v.seen == cells_held(&v), "%d cells have an origin", (int)v.seen);
    return true;
}

/* ---- what ranks move ---- */

static bool ranks_are_right(prop_case *c, const planned *p, const json_t *scene) {
    const json_t *ranks = json_object_get(scene, "ranks");
    for (size_t i = 0; i < json_array_size(ranks); i++) {
        const json_t *r = json_array_get(ranks, i), *to = json_object_get(r, "to");
        int64_t rank = (int64_t)json_integer_value(json_object_get(r, "rank"));
        for (size_t k = 0; k < json_array_size(to); k++) {
            int64_t peer = number(json_array_get(to, k), 0), bytes = number(json_array_get(to, k), 1);
            PROP(c, p->matrix[rank][peer] == bytes, "%d to %d: %d bytes", (int)rank, (int)peer, (int)bytes);
        }
        PROP(c, json_integer_value(json_object_get(r, "kept")) == p->matrix[rank][rank], "rank %d keeps something else",
             (int)rank);
    }
    return true;
}

static bool check_scene(prop_case *c, const planned *p, bool partial) {
    visit v = {.c = c, .p = p};
    json_t *scene = NULL;
    if (!scene_of(c, p->plan, &scene)) return false;
    v.scene = scene;
    directions(scene, v.d);
    bool ok =
        side_is_right(v, 0) && side_is_right(v, 1) && (partial || origins_are_right(v)) && ranks_are_right(c, p, scene);
    json_decref(scene);
    return ok;
}

static bool drawn(prop_case *c, const gen_pair_wish *w) {
    planned p;
    gen_pair(&c->rng, w, c->from, c->to);
    bool ok = planned_new(c, &p, NULL) && check_scene(c, &p, w->partials > 0);
    planned_free(&p);
    return ok;
}

static bool whole_values(prop_case *c) { return drawn(c, &(gen_pair_wish){0, 10, false, true, 12, false}); }
static bool partial_values(prop_case *c) { return drawn(c, &(gen_pair_wish){100, 10, false, true, 12, false}); }
static bool large_tensors(prop_case *c) { return drawn(c, &(gen_pair_wish){0, 0, false, true, 12, true}); }

static void scenes_show_who_holds_what_and_where_it_comes_from(void **state) {
    (void)state;
    prop_run("scenes", 200, whole_values);
}

static void scenes_of_partial_layouts_show_who_holds_what(void **state) {
    (void)state;
    prop_run("scenes, partial", 100, partial_values);
}

static void scenes_of_large_tensors_are_right_beside_the_gaps(void **state) {
    (void)state;
    prop_run("scenes, large", 40, large_tensors);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scenes_show_who_holds_what_and_where_it_comes_from),
        cmocka_unit_test(scenes_of_partial_layouts_show_who_holds_what),
        cmocka_unit_test(scenes_of_large_tensors_are_right_beside_the_gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
