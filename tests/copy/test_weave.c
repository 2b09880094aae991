/* Weaves of random rows compared with a loop over bytes; every byte around the destination is checked. */
#include "copy/copy.h"
#include "random_case.h"

#include <stdbool.h>
#include <string.h>

#define ROOM  (1 << 19) /* bytes of each buffer */
#define GUARD 0x5a
#define MOST  RSHI_WEAVE_MOST

static _Alignas(64) char from_memory[ROOM], to_memory[ROOM], expected[ROOM];

/* Rows of one source: planes x rows x run, with the source at `at` and its own steps. */
typedef struct thread_of_rows {
    int64_t at, run, rows, plane_step, row_step;
} thread_of_rows;

typedef struct scene {
    int n;
    int64_t unit, planes, round, plane_step, at; /* steps and offset of the destination in bytes */
    thread_of_rows of[MOST];
} scene;

static scene any_scene(void) {
    scene s = {.n = (int)random_in(2, MOST), .unit = (int64_t)1 << random_in(0, 3), .planes = random_in(2, 11)};
    bool lines = random_in(0, 1), gaps = random_in(0, 1); /* the same in all sources */
    int64_t rows = random_in(2, 30);
    for (int k = 0; k < s.n; k++) {
        thread_of_rows *t = &s.of[k];
        t->run = lines ? 64 * random_in(2, 6) : s.unit * random_in(1, 400 / s.unit / s.n + 2);
        t->rows = rows + random_in(0, 1);
        t->row_step = !gaps && random_in(0, 1) ? t->run : t->run + s.unit * random_in(1, 40);
        t->plane_step = t->row_step * t->rows + s.unit * random_in(0, 20);
        t->at = random_in(0, 200);
        s.round += t->run;
    }
    s.plane_step = s.round * (rows + 1) + (lines && random_in(0, 1) ? 64 : s.unit) * random_in(0, 100);
    s.at = lines && random_in(0, 1) ? 128 : random_in(1, 200);
    return s;
}

static bool fits(const scene *s) {
    if (s->at + s->planes * s->plane_step > ROOM || s->round > 8192) return false;
    for (int k = 0; k < s->n; k++)
        if (s->of[k].at + s->planes * s->of[k].plane_step > ROOM || s->of[k].run >= s->round) return false;
    return true;
}

static rshi_move describe(const scene *s, int k, int64_t *ss) {
    static const rsh_dtype of_size[] = {[1] = RSH_U8, [2] = RSH_BF16, [4] = RSH_F32, [8] = RSH_I64};
    const thread_of_rows *t = &s->of[k];
    rshi_move m = {.nd = 3, .nsrc = 1, .ss = ss, .from = of_size[s->unit], .to = of_size[s->unit]};
    int64_t n[] = {s->planes, t->rows, t->run / s->unit}, ds[] = {s->plane_step, s->round, s->unit};
    int64_t steps[] = {t->plane_step, t->row_step, s->unit};
    memcpy(m.n, n, sizeof n);
    memcpy(m.ds, ds, sizeof ds);
    memcpy(ss, steps, sizeof steps);
    rshi_move_prepare(&m, SIZE_MAX);
    return m;
}

/* Computes the first `count` rows of every plane of every source, and one more row of the first `tail` sources. */
static void expect(const scene *s, int64_t count, int tail) {
    int64_t offset = 0;
    memset(expected, GUARD, ROOM);
    for (int k = 0; k < s->n; offset += s->of[k++].run)
        for (int64_t p = 0; p < s->planes; p++)
            for (int64_t r = 0; r < count + (k < tail); r++)
                memcpy(expected + s->at + offset + p * s->plane_step + r * s->round,
                       from_memory + s->of[k].at + p * s->of[k].plane_step + r * s->of[k].row_step,
                       (size_t)s->of[k].run);
}

/* Runs the move as a whole, or plane by plane in two pieces. */
static void run_woven(const scene *s, const rshi_move *m) {
    const char *src[MOST];
    for (int k = 0; k < s->n; k++) src[k] = from_memory + s->of[k].at;
    memset(to_memory, GUARD, ROOM);
    if (random_in(0, 1)) {
        rshi_move_run(m, 0, 0, m->n[0], to_memory + s->at, src);
    } else {
        for (int64_t p = 0; p < s->planes; p++) {
            int64_t half = random_in(0, m->n[1]);
            rshi_move_run(m, 1, 0, half, to_memory + s->at + p * m->ds[0], src);
            rshi_move_run(m, 1, half, m->n[1], to_memory + s->at + p * m->ds[0], src);
            for (int k = 0; k < s->n; k++) src[k] += s->of[k].plane_step;
        }
    }
    rshi_copy_fence();
}

static int tails; /* number of weaves in which only some sources have a last row */

/* Returns true if the moves could be woven. */
static bool try_weave(const scene *s) {
    rshi_move part[MOST], whole;
    const rshi_move *list[MOST];
    int64_t ss[MOST][RSHI_MOVE_DIMS], runs[MOST], strides[MOST * RSHI_MOVE_DIMS], count;
    for (int k = 0; k < s->n; k++) {
        part[k] = describe(s, k, ss[k]);
        list[k] = &part[k];
        if (!rshi_move_weavable(&part[k]) || rshi_move_compare_steps(&part[0], &part[k])) return false;
    }
    if (!rshi_move_weave(list, s->n, &whole, runs, strides, &count)) return false;
    expect(s, count, whole.tail);
    for (int k = 0; k < whole.tail; k++) assert_int_equal(s->of[k].rows, count + 1);
    tails += whole.tail > 0;
    run_woven(s, &whole);
    if (memcmp(to_memory, expected, ROOM))
        fail_with_seed("a weave of %d sources with rounds of %lld bytes at %lld differs", s->n, (long long)s->round,
                       (long long)s->at);
    return true;
}

static void rows_of_several_sources_are_woven(void **state) {
    (void)state;
    random_start();
    for (size_t i = 0; i < ROOM; i++) from_memory[i] = (char)random_bits();
    int woven = 0;
    for (int tried = 0; woven < 200; tried++) { /* more than half of the cases are woven */
        scene s = any_scene();
        assert_true(tried < 4000);
        woven += fits(&s) && try_weave(&s);
    }
    assert_true(tails > 20);
}

static void rows_that_leave_gaps_are_not_woven(void **state) {
    (void)state;
    random_start();
    scene s = {.n = 2, .unit = 4, .planes = 2, .round = 100, .plane_step = 4000, .at = 0};
    s.of[0] = s.of[1] = (thread_of_rows){.run = 40, .rows = 8, .plane_step = 400, .row_step = 40};
    rshi_move part[2], whole;
    const rshi_move *list[] = {&part[0], &part[1]};
    int64_t ss[2][RSHI_MOVE_DIMS], runs[2], strides[2 * RSHI_MOVE_DIMS], count;
    for (int k = 0; k < 2; k++) part[k] = describe(&s, k, ss[k]);
    assert_true(rshi_move_weavable(&part[0]));
    assert_false(rshi_move_weave(list, 2, &whole, runs, strides, &count));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_several_sources_are_woven),
        cmocka_unit_test(rows_that_leave_gaps_are_not_woven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
