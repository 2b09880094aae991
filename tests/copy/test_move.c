/* Random N-D moves compared with a loop over single elements; every byte around the destination is checked. */
#include "copy/copy.h"
#include "random_case.h"

#include <stdbool.h>
#include <string.h>

#define ROOM  (1 << 20) /* bytes of each buffer */
#define GUARD 0xa5

static char from_memory[ROOM], to_memory[ROOM], expected[ROOM];

/* One side of a case: the offset of element 0 in its buffer, and the byte strides of the dims in the case's own
 * order. */
typedef struct side {
    int64_t base;
    int64_t stride[RSHI_MOVE_DIMS];
} side;

typedef struct shape {
    int nd;
    int64_t n[RSHI_MOVE_DIMS];
    int64_t unit;
} shape;

static int64_t elements(const shape *s) {
    int64_t all = 1;
    for (int d = 0; d < s->nd; d++) all *= s->n[d];
    return all;
}

static void shuffle(int nd, int *order) {
    for (int d = 0; d < nd; d++) order[d] = d;
    for (int d = nd - 1; d > 0; d--) {
        int other = (int)random_in(0, d), t = order[d];
        order[d] = order[other];
        order[other] = t;
    }
}

/* Lays out dims from fastest to slowest in some order, sometimes with gaps or reversed; returns false if they do not
 * fit. */
static bool lay_out(const shape *s, bool in_order, bool may_repeat, side *out) {
    int order[RSHI_MOVE_DIMS];
    shuffle(s->nd, order);
    if (in_order)
        for (int d = 0; d < s->nd; d++) order[d] = s->nd - 1 - d;
    int64_t step = s->unit * (random_in(0, 7) ? 1 : random_in(1, 3)), before = 0, after = s->unit;
    for (int i = 0; i < s->nd; i++) {
        int d = order[i];
        bool backwards = !random_in(0, 9), repeats = may_repeat && !random_in(0, 15);
        int64_t span = (s->n[d] > 0 ? s->n[d] - 1 : 0) * step;
        out->stride[d] = repeats ? 0 : backwards ? -step : step;
        if (!repeats) *(backwards ? &before : &after) += span;
        step *= s->n[d] > 0 ? s->n[d] : 1;
        if (!random_in(0, 3)) step += s->unit * random_in(0, 9);
        if (!random_in(0, 3)) step = (step + 63) / 64 * 64;
    }
    if (before + after + 256 > ROOM) return false;
    int64_t slack = ROOM - before - after;
    out->base = before + (random_in(0, 1) ? random_in(0, 127) : random_in(0, slack / 64) * 64);
    if (out->base + after > ROOM) out->base = before;
    return true;
}

static int64_t address(const shape *s, const side *side, int64_t element) {
    int64_t at = side->base;
    for (int d = s->nd - 1; d >= 0; d--) {
        at += element % s->n[d] * side->stride[d];
        element /= s->n[d];
    }
    return at;
}

/* Runs a prepared move as a whole, or in pieces along a random dim. */
static void run_pieces(const rshi_move *m, int first, char *dst, const char *src) {
    if (m->nsrc && !src) fail();
    int64_t index[RSHI_MOVE_DIMS] = {0};
    for (;;) {
        char *d = dst;
        const char *s = src;
        for (int i = 0; i < first; i++) {
            d += index[i] * m->ds[i];
            if (m->nsrc) s += index[i] * m->ss[i];
        }
        for (int64_t i0 = 0, i1; i0 < m->n[first]; i0 = i1) {
            i1 = random_in(0, 2) ? rshi_min(m->n[first], i0 + random_in(1, m->n[first])) : m->n[first];
            rshi_move_run(m, first, i0, i1, d, &s);
        }
        int i = first - 1;
        while (i >= 0 && ++index[i] == m->n[i]) index[i--] = 0;
        if (i < 0) return;
    }
}

static void compare(const char *what, const shape *s, const rshi_move *m) {
    if (!memcmp(to_memory, expected, ROOM)) return;
    for (int64_t i = 0; i < ROOM; i++)
        if (to_memory[i] != expected[i])
            fail_with_seed("%s: byte %lld differs; %d dims of %lld bytes, kernel %d, stream %d", what, (long long)i,
                           s->nd, (long long)s->unit, (int)m->kernel, m->stream);
}

static rshi_move describe(const shape *s, const side *to, const side *from, int64_t *ss) {
    static const rsh_dtype of_size[] = {[1] = RSH_U8, [2] = RSH_BF16, [4] = RSH_F32, [8] = RSH_I64, [16] = RSH_C128};
    rshi_move m = {.nd = s->nd, .nsrc = from ? 1 : 0, .ss = ss, .from = of_size[s->unit], .to = of_size[s->unit]};
    memcpy(m.n, s->n, sizeof m.n);
    memcpy(m.ds, to->stride, sizeof m.ds);
    if (from) memcpy(ss, from->stride, sizeof from->stride);
    return m;
}

enum { PLAIN, STREAM, COLD, WAYS };

/* Bytes of a run that a cold move may copy as an aside, between buffers of its own. */
#define ASIDE 8192
static char aside_from[ASIDE], aside_to[ASIDE], aside_expected[ASIDE];

static rshi_aside random_aside(void) {
    int64_t at = random_in(0, 200), left = random_in(0, 2) ? random_in(0, ASIDE - 200) : 0;
    for (int i = 0; i < ASIDE; i++) aside_from[i] = (char)random_bits();
    memset(aside_to, GUARD, ASIDE);
    memset(aside_expected, GUARD, ASIDE);
    memcpy(aside_expected + at, aside_from + 200 - at, (size_t)left);
    return (rshi_aside){aside_to + at, aside_from + 200 - at, (size_t)left};
}

/* Checks that what a move has copied as an aside is right, and completes the aside. */
static void end_aside(rshi_aside *a) {
    int64_t moved = a->dst - aside_to;
    if (moved > 200 && memcmp(aside_to, aside_expected, (size_t)moved)) fail_with_seed("what was carried is wrong");
    rshi_aside_end(a, random_in(0, 1) ? SIZE_MAX : 0);
    rshi_copy_fence();
    if (a->left || memcmp(aside_to, aside_expected, ASIDE)) fail_with_seed("a run that was carried along is wrong");
}

/* Prepares and runs one case; returns the kernel that was used. */
static rshi_kernel try_copy(const shape *s, const side *to, const side *from, int way) {
    int64_t ss[RSHI_MOVE_DIMS];
    rshi_move m = describe(s, to, from, ss);
    rshi_aside aside = random_aside();
    m.aside = way == COLD ? &aside : NULL;
    memset(to_memory, GUARD, ROOM);
    memset(expected, GUARD, ROOM);
    for (int64_t i = 0, all = elements(s); i < all; i++)
        memcpy(expected + address(s, to, i), from_memory + address(s, from, i), (size_t)s->unit);
    rshi_move_prepare(&m, way == STREAM ? SIZE_MAX : 0);
    if (m.kernel != RSHI_KERNEL_NONE)
        run_pieces(&m, (int)random_in(0, m.split), to_memory + to->base, from_memory + from->base);
    rshi_copy_fence();
    compare("copy", s, &m);
    end_aside(&aside);
    return m.kernel;
}

static void random_shape(shape *s, int most_dims, int64_t most) {
    s->nd = (int)random_in(0, most_dims);
    s->unit = (int64_t)1 << random_in(0, 4);
    for (int d = 0; d < s->nd; d++) s->n[d] = random_in(0, 40) ? random_in(1, most) : 0;
}

static void fill_source(void) {
    for (size_t i = 0; i < ROOM; i += 8) {
        uint64_t word = random_bits();
        memcpy(from_memory + i, &word, 8);
    }
}

/* Counts in seen[] how often each kernel was used. */
static void random_moves(int cases, int most_dims, int64_t most, bool dst_in_order, bool src_in_order, int *seen) {
    fill_source();
    for (int i = 0; i < cases; i++) {
        shape s;
        side to, from;
        random_shape(&s, most_dims, most);
        if (!lay_out(&s, dst_in_order, false, &to) || !lay_out(&s, src_in_order, true, &from)) continue;
        seen[try_copy(&s, &to, &from, (int)random_in(0, WAYS - 1))]++;
    }
}

static void a_small_random_move_equals_the_reference(void **state) {
    (void)state;
    int seen[RSHI_KERNEL_COUNT] = {0};
    random_moves(1500, 6, 7, false, false, seen);
    for (int k = RSHI_KERNEL_NONE; k <= RSHI_KERNEL_TRANSPOSE; k++)
        if (!seen[k]) fail_with_seed("kernel %d was never taken", k);
}

static void a_move_of_long_rows_equals_the_reference(void **state) {
    (void)state;
    int seen[RSHI_KERNEL_COUNT] = {0};
    random_moves(300, 2, 5000, true, true, seen);
    random_moves(300, 3, 300, true, true, seen);
    assert_true(seen[RSHI_KERNEL_ROWS]);
}

static void a_transposed_move_equals_the_reference(void **state) {
    (void)state;
    fill_source();
    for (int i = 0; i < 400; i++) {
        shape s = {.nd = 2, .n = {random_in(2, 150), random_in(2, 150)}, .unit = (int64_t)1 << random_in(0, 4)};
        int64_t u = s.unit, pad_d = random_in(0, 2) * random_in(0, 9), pad_s = random_in(0, 2) * random_in(0, 9);
        side to = {random_in(0, 100), {(s.n[1] + pad_d) * u, u}}, from = {random_in(0, 100), {u, (s.n[0] + pad_s) * u}};
        if (s.n[0] * (s.n[1] + pad_d) * u + 200 > ROOM || s.n[1] * (s.n[0] + pad_s) * u + 200 > ROOM) continue;
        assert_int_equal(try_copy(&s, &to, &from, (int)random_in(0, WAYS - 1)), RSHI_KERNEL_TRANSPOSE);
    }
}

static void a_permuted_move_of_three_dims_equals_the_reference(void **state) {
    (void)state;
    int seen[RSHI_KERNEL_COUNT] = {0};
    random_moves(400, 4, 30, true, false, seen);
    assert_true(seen[RSHI_KERNEL_TRANSPOSE]);
}

/* Strips of a matrix, which are the most frequent move. */
static void rows_of_every_length_equal_the_reference(void **state) {
    (void)state;
    fill_source();
    for (int64_t run = 1; run < 6000; run += run < 700 ? random_in(1, 3) : random_in(1, 300)) {
        shape s = {.nd = 2, .n = {random_in(2, rshi_min(70, ROOM / (run + 300) - 1)), run}, .unit = 1};
        int64_t dr = run + random_in(0, 1) * random_in(0, 300), sr = run + random_in(0, 300);
        side to = {random_in(0, 130), {dr, 1}}, from = {random_in(0, 130), {sr, 1}};
        for (int way = 0; way < WAYS; way++) try_copy(&s, &to, &from, way);
    }
}

static void long_rows_that_are_cold_carry_a_run_along(void **state) {
    (void)state;
    shape s = {.nd = 2, .unit = 4, .n = {16, 1024}};
    side to = {.stride = {4096, 4}}, from = {.stride = {8192, 4}};
    int64_t ss[RSHI_MOVE_DIMS];
    rshi_move m = describe(&s, &to, &from, ss);
    rshi_aside aside = {aside_to, aside_from, ASIDE};
    const char *src = from_memory;
    m.aside = &aside;
    rshi_move_prepare(&m, 0);
    rshi_move_run(&m, 0, 0, m.n[0], to_memory, &src);
    assert_true(aside.left < 64); /* all whole lines have been copied */
}

static void a_fill_writes_its_value_and_nothing_else(void **state) {
    (void)state;
    for (int i = 0; i < 400; i++) {
        shape s;
        side to;
        random_shape(&s, 4, i % 4 ? 12 : 200);
        if (!lay_out(&s, random_in(0, 1), false, &to)) continue;
        rshi_move m = describe(&s, &to, NULL, NULL);
        for (int b = 0; b < 16; b++) m.value[b] = (unsigned char)random_bits();
        memset(to_memory, GUARD, ROOM);
        memset(expected, GUARD, ROOM);
        for (int64_t e = 0, all = elements(&s); e < all; e++)
            memcpy(expected + address(&s, &to, e), m.value, (size_t)s.unit);
        rshi_move_prepare(&m, random_in(0, 1) ? SIZE_MAX : 0);
        if (m.kernel != RSHI_KERNEL_NONE) run_pieces(&m, (int)random_in(0, m.split), to_memory + to.base, NULL);
        compare("fill", &s, &m);
    }
}

static rshi_kernel kernel_of(int nd, const int64_t *n, const int64_t *ds, const int64_t *source, rshi_move *out) {
    static int64_t ss[RSHI_MOVE_DIMS];
    rshi_move m = {.nd = nd, .nsrc = 1, .ss = ss, .from = RSH_F32, .to = RSH_F32};
    memcpy(m.n, n, (size_t)nd * sizeof *n);
    memcpy(m.ds, ds, (size_t)nd * sizeof *ds);
    memcpy(ss, source, (size_t)nd * sizeof *source);
    rshi_move_prepare(&m, 0);
    if (out) *out = m;
    return m.kernel;
}

static void dims_that_are_dense_on_both_sides_become_one(void **state) {
    (void)state;
    rshi_move m;
    int64_t n[] = {3, 1, 4, 5}, strides[] = {80, 7, 20, 4};
    assert_int_equal(kernel_of(4, n, strides, strides, &m), RSHI_KERNEL_CONTIGUOUS);
    assert_int_equal(m.nd, 1);
    assert_int_equal(m.n[0], 60);
}

static void the_kernel_follows_from_the_strides(void **state) {
    (void)state;
    int64_t n[] = {8, 8}, dense[] = {32, 4}, wide[] = {64, 4}, crossed[] = {4, 32}, sparse[] = {64, 8},
            empty[] = {8, 0};
    assert_int_equal(kernel_of(2, n, dense, wide, NULL), RSHI_KERNEL_ROWS);
    assert_int_equal(kernel_of(2, n, dense, crossed, NULL), RSHI_KERNEL_TRANSPOSE);
    assert_int_equal(kernel_of(2, n, crossed, dense, NULL), RSHI_KERNEL_TRANSPOSE);
    assert_int_equal(kernel_of(2, n, dense, sparse, NULL), RSHI_KERNEL_STRIDED);
    assert_int_equal(kernel_of(2, empty, dense, dense, NULL), RSHI_KERNEL_NONE);
}

static void a_single_element_moves(void **state) {
    (void)state;
    float x = 3, y = 0;
    const char *src = (const char *)&x;
    int64_t ss[RSHI_MOVE_DIMS];
    rshi_move m = {.nd = 0, .nsrc = 1, .ss = ss, .from = RSH_F32, .to = RSH_F32};
    rshi_move_prepare(&m, 4);
    rshi_move_run(&m, 0, 0, 1, (char *)&y, &src);
    assert_true(y == 3);
}

int main(void) {
    random_start();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_random_move_equals_the_reference),
        cmocka_unit_test(a_move_of_long_rows_equals_the_reference),
        cmocka_unit_test(a_transposed_move_equals_the_reference),
        cmocka_unit_test(a_permuted_move_of_three_dims_equals_the_reference),
        cmocka_unit_test(rows_of_every_length_equal_the_reference),
        cmocka_unit_test(long_rows_that_are_cold_carry_a_run_along),
        cmocka_unit_test(a_fill_writes_its_value_and_nothing_else),
        cmocka_unit_test(dims_that_are_dense_on_both_sides_become_one),
        cmocka_unit_test(the_kernel_follows_from_the_strides),
        cmocka_unit_test(a_single_element_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
