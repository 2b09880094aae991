/* Transposes that are written in whole lines, with every unit and with a conversion, compared with a loop over
 * elements.  Cases have odd extents, destinations at every offset in a line, and more rows than a band.  Every byte
 * around the destination is checked, and the bits equal those of single elements. */
#include "copy/copy.h"
#include "random_case.h"

#include <stdbool.h>
#include <string.h>

#define ROOM  (1 << 20) /* bytes of each buffer */
#define GUARD 0x3c

static char from_memory[ROOM], to_memory[ROOM], expected[ROOM];

/* dst[r][c] = src[c][r]; steps and offsets in bytes. */
typedef struct scene {
    rsh_dtype from, to;
    int64_t rows, cols, to_at, to_row, from_at, from_col;
} scene;

/* Fills the source with random bits.  As f32, some elements are midpoints between two numbers of bf16, NaNs, or
 * infinities of either sign. */
static void fill_source(void) {
    for (size_t i = 0; i < ROOM; i += 4) {
        uint32_t word = (uint32_t)random_bits(), kind = (uint32_t)random_in(0, 7);
        if (kind == 0) word = (word & 0xffff0000u) | 0x8000u;
        if (kind == 1) word = (word & 0x8000ffffu) | 0x7f800000u;
        if (kind == 2) word = (word & 0x80000000u) | 0x7f800000u;
        memcpy(from_memory + i, &word, 4);
    }
}

static void expect(const scene *s) {
    size_t a = rsh_dtype_size(s->from), b = rsh_dtype_size(s->to);
    memset(expected, GUARD, ROOM);
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t c = 0; c < s->cols; c++)
            rshi_convert(s->from, from_memory + s->from_at + c * s->from_col + r * (int64_t)a, s->to,
                         expected + s->to_at + r * s->to_row + c * (int64_t)b, 1);
}

static void run(const scene *s) {
    int64_t ss[RSHI_MOVE_DIMS] = {(int64_t)rsh_dtype_size(s->from), s->from_col};
    rshi_move m = {.nd = 2, .n = {s->rows, s->cols}, .nsrc = 1, .ss = ss, .from = s->from, .to = s->to};
    m.ds[0] = s->to_row, m.ds[1] = (int64_t)rsh_dtype_size(s->to);
    const char *src = from_memory + s->from_at;
    memset(to_memory, GUARD, ROOM);
    rshi_move_prepare(&m, SIZE_MAX);
    assert_int_equal(m.split, 0);
    int64_t cut = random_in(0, 1) ? m.n[0] : random_in(0, m.n[0]);
    rshi_move_run(&m, 0, 0, cut, to_memory + s->to_at, &src);
    rshi_move_run(&m, 0, cut, m.n[0], to_memory + s->to_at, &src);
    rshi_copy_fence();
}

static void check(const scene *s) {
    expect(s);
    run(s);
    for (int64_t i = 0; i < ROOM; i++)
        if (to_memory[i] != expected[i])
            fail_with_seed("%s to %s, %lld x %lld at %lld, rows of %lld bytes: byte %lld differs",
                           rsh_dtype_name(s->from), rsh_dtype_name(s->to), (long long)s->rows, (long long)s->cols,
                           (long long)s->to_at, (long long)s->to_row, (long long)i);
}

/* Places source and destination.  Sometimes they end with their buffers, so that a sanitizer notices accesses beyond
 * the end. */
static bool place(scene *s) {
    int64_t a = (int64_t)rsh_dtype_size(s->from), b = (int64_t)rsh_dtype_size(s->to);
    int64_t wide = random_in(0, 1) ? (s->cols * b + 63) / 64 * 64 : s->cols * b + b * random_in(0, 9);
    s->to_row = wide + !random_in(0, 9);
    s->from_col = s->rows * a + a * random_in(0, 9) + !random_in(0, 9);
    int64_t to_bytes = s->rows * s->to_row, from_bytes = s->cols * s->from_col;
    if (to_bytes + 64 > ROOM || from_bytes + 64 > ROOM) return false;
    s->to_at = random_in(0, 1) ? random_in(0, 63) : random_in(0, (ROOM - to_bytes) / 64) * 64;
    s->from_at = random_in(0, 1) ? random_in(0, 63) : ROOM - from_bytes;
    return s->to_at + to_bytes <= ROOM;
}

static int try_sizes(rsh_dtype from, rsh_dtype to, int times, int64_t most_rows, int64_t most_cols) {
    int tried = 0;
    for (int i = 0; i < times; i++) {
        scene s = {.from = from, .to = to, .rows = random_in(2, most_rows), .cols = random_in(2, most_cols)};
        if (!place(&s)) continue;
        check(&s);
        tried++;
    }
    return tried;
}

static const rsh_dtype pairs[][2] = {{RSH_U8, RSH_U8},     {RSH_BF16, RSH_BF16}, {RSH_F32, RSH_F32},
                                     {RSH_I64, RSH_I64},   {RSH_C128, RSH_C128}, {RSH_F32, RSH_BF16}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

static void planes_of_some_tiles_are_transposed(void **state) {
    (void)state;
    fill_source();
    for (int p = 0; p < PAIRS; p++) assert_true(try_sizes(pairs[p][0], pairs[p][1], 60, 300, 150) > 20);
}

static void planes_of_more_rows_than_a_band_are_transposed(void **state) {
    (void)state;
    fill_source();
    for (int p = 0; p < PAIRS; p++) {
        int64_t size = (int64_t)rsh_dtype_size(pairs[p][0]);
        assert_true(try_sizes(pairs[p][0], pairs[p][1], 12, 2600, ROOM / 3000 / size) > 3);
    }
}

/* Destination rows start at every offset in a line, with whole tiles and with one column more or less. */
static void rows_start_anywhere_in_a_line(void **state) {
    (void)state;
    fill_source();
    for (int p = 0; p < PAIRS; p++)
        for (int64_t at = 0; at < 64; at++) {
            int64_t cols = 64 / (int64_t)rsh_dtype_size(pairs[p][1]) * 2 + random_in(-1, 1);
            scene s = {pairs[p][0], pairs[p][1], 67, cols, at, 2048, random_in(0, 63), 67 * 16};
            check(&s);
        }
}

int main(void) {
    random_start();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planes_of_some_tiles_are_transposed),
        cmocka_unit_test(planes_of_more_rows_than_a_band_are_transposed),
        cmocka_unit_test(rows_start_anywhere_in_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
