/* The oracle compared with numbers computed by hand; the library is not linked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

/* Writes the elements of each part in memory order, with bars between parts: "0 1 2|3 4". */
static void show(const ora_layout *l, char *out, size_t room) {
    size_t n = 0;
    out[0] = 0;
    for (int64_t i = 0; i < l->nparts; i++) {
        if (i) n += (size_t)snprintf(out + n, room - n, "|");
        for (int64_t j = 0; j < l->part[i].count; j++)
            n += (size_t)snprintf(out + n, room - n, j ? " %d" : "%d", (int)l->part[i].element[j]);
    }
}

static void expect_elements(const char *text, const char *expected) {
    char found[4096];
    ora_layout *l = ora_parse(text);
    show(l, found, sizeof found);
    assert_string_equal(found, expected);
    ora_free(l);
}

static void expect_counts(const char *text, const char *expected) {
    char found[256] = "";
    ora_layout *l = ora_parse(text);
    for (int64_t i = 0; i < l->nparts; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), i ? " %d" : "%d", (int)l->part[i].count);
    assert_string_equal(found, expected);
    ora_free(l);
}

static void chunks_are_as_large_as_the_first_and_then_run_out(void **state) {
    (void)state;
    expect_counts("f32[17/x] on x=8", "3 3 3 3 3 2 0 0");
    expect_counts("f32[10/x] on x=4", "3 3 3 1");
    expect_counts("f32[5/x] on x=4", "2 2 1 0");
    expect_counts("f32[9/x] on x=4", "3 3 3 0");
    expect_counts("f32[0/x] on x=3", "0 0 0");
    expect_elements("f32[5/x] on x=4", "0 1|2 3|4|");
}

static void balanced_parts_differ_by_at_most_one(void **state) {
    (void)state;
    expect_counts("f32[10/x~] on x=4", "3 3 2 2");
    expect_counts("f32[3/x~] on x=4", "1 1 1 0");
    expect_counts("f32[17/(x,y)~] on x=2,y=4", "3 2 2 2 2 2 2 2");
}

static void nested_axes_cut_what_the_outer_axis_left(void **state) {
    (void)state;
    expect_counts("f32[10/(a,b)] on a=2,b=2", "3 2 3 2");
    expect_counts("f32[10/(b,a)] on a=2,b=2", "3 3 2 2");
    expect_elements("f32[10/(b,a)] on a=2,b=2", "0 1 2|5 6 7|3 4|8 9");
    expect_counts("f32[5/(a,b)] on a=4,b=2", "1 1 1 1 1 0 0 0");
}

static void units_are_never_cut(void **state) {
    (void)state;
    expect_counts("f32[10/x%4] on x=2", "8 2");
    expect_counts("f32[10/x%4] on x=4", "4 4 2 0");
    expect_counts("f32[20/(a,b)%3] on a=2,b=2", "6 6 6 2");
    expect_counts("f32[3/x%128] on x=2", "3 0");
}

static void blocks_are_dealt_round_robin(void **state) {
    (void)state;
    expect_elements("f32[10/x:2] on x=2", "0 1 4 5 8 9|2 3 6 7");
    expect_elements("f32[7/(a,b):1] on a=2,b=2", "0 4|1 5|2 6|3");
    expect_elements("f32[7/(b,a):1] on a=2,b=2", "0 4|2 6|1 5|3");
}

static void explicit_sizes_stand_as_written(void **state) {
    (void)state;
    expect_counts("f32[10/x{4,3,0,3}] on x=4", "4 3 0 3");
    expect_elements("f32[6/(b,a){1,2,0,3}] on a=2,b=2", "0||1 2|3 4 5");
}

static void each_segment_is_cut_on_its_own(void **state) {
    (void)state;
    expect_elements("f32[(4|2|3)/x] on x=2", "0 1 4 6 7|2 3 5 8");
    expect_elements("f32[(5|3)/x:2] on x=2", "0 1 4 5 6|2 3 7");
    expect_elements("f32[(5|3)/x%2] on x=2", "0 1 2 3 5 6|4 7");
}

static void a_segment_is_replicated_along_axes_it_does_not_name(void **state) {
    (void)state;
    expect_elements("f32[(4/(kv,rep)|2/kv)] on kv=2,rep=2", "0 4|1 4|2 5|3 5");
    expect_elements("f32[(2/x|2)] on x=2", "0 2 3|1 2 3");
}

static void several_dims_make_a_product(void **state) {
    (void)state;
    expect_elements("f32[2/a, 4/b] on a=2,b=2", "0 1|2 3|4 5|6 7");
    expect_elements("f32[2, 3/x] on x=2", "0 1 3 4|2 5");
    expect_elements("f32[2, 3/x:1] on x=2", "0 2 3 5|1 4");
}

static void order_says_how_a_part_is_stored(void **state) {
    (void)state;
    expect_elements("f32[2, 3] order(1,0)", "0 3 1 4 2 5");
    expect_elements("f32[2, 2/x, 2] on x=1 order(2,0,1)", "0 2 4 6 1 3 5 7");
}

static void flat_parts_are_ranges_of_the_flattened_tensor(void **state) {
    (void)state;
    expect_counts("f32[1000, 37]/dp on dp=4", "9250 9250 9250 9250");
    expect_elements("f32[2, 5]/x on x=4", "0 1 2|3 4 5|6 7 8|9");
    expect_elements("f32[]/x on x=2", "0|");
    expect_elements("f32[4, 2]/x{3,5} on x=2", "0 1 2|3 4 5 6 7");
}

static void flat_over_cuts_flattens_each_position(void **state) {
    (void)state;
    expect_elements("f32[4/tp, 3]/dp on dp=2,tp=2", "0 1 2|6 7 8|3 4 5|9 10 11");
    expect_elements("f32[2, 3/tp]/dp on dp=2,tp=2", "0 1|2|3 4|5");
}

static void mesh_positions_name_ranks(void **state) {
    (void)state;
    expect_elements("f32[4/x] on x=4@[3,2,1,0]", "3|2|1|0");
    expect_elements("f32[2] on x=2", "0 1|0 1");
    ora_layout *l = ora_parse("f32[4/x] on x=2@8-9");
    assert_int_equal(l->part[0].rank, 8);
    assert_int_equal(l->part[1].rank, 9);
    assert_true(ora_has_rank(l, 9) && !ora_has_rank(l, 0));
    assert_true(ora_rank_holds(l, 9, 2) && !ora_rank_holds(l, 9, 1));
    ora_free(l);
}

static void boxes_are_parts_in_written_order(void **state) {
    (void)state;
    expect_elements("f32[2,4] boxes 1:[0:2,2:4] 0,2:[0:1,0:2] 0:[1:2,0:2]", "0 1|4 5|2 3 6 7|0 1");
    expect_elements("f32[0, 4] boxes", "");
    expect_elements("f32[] boxes 0:[]", "0");
    expect_elements("f32[3] boxes 5:[2:3] 5:[1:1] 5:[0:2]", "2||0 1");
}

static void same_parts_looks_at_elements_not_at_words(void **state) {
    (void)state;
    ora_layout *a = ora_parse("f32[6/x] on x=3"), *b = ora_parse("f32[ 6 / x ~ ]on x=3"),
               *c = ora_parse("f32[6/x:1] on x=3");
    assert_true(ora_same_parts(a, b));
    assert_false(ora_same_parts(a, c));
    ora_free(a);
    ora_free(b);
    ora_free(c);
}

static double converted(ora_dtype from, const void *src, ora_dtype to, uint64_t *bits) {
    unsigned char element[16] = {0};
    ora_encode(to, ora_decode(from, src), element);
    memcpy(bits, element, sizeof *bits);
    ora_number n = ora_decode(to, element);
    return n.is_integer ? (double)(int64_t)n.bits : (double)n.re;
}

static double of_double(double x, ora_dtype to, uint64_t *bits) { return converted(ORA_F64, &x, to, bits); }

static void floats_round_to_nearest_even(void **state) {
    (void)state;
    uint64_t bits;
    assert_true(of_double(2049.0, ORA_F16, &bits) == 2048.0);
    assert_true(of_double(2051.0, ORA_F16, &bits) == 2052.0);
    assert_true(of_double(65519.0, ORA_F16, &bits) == 65504.0);
    assert_true(isinf(of_double(65520.0, ORA_F16, &bits)));
    assert_int_equal(bits, 0x7c00);
    of_double(1.0, ORA_BF16, &bits);
    assert_int_equal(bits, 0x3f80);
    of_double(-0x1p-24, ORA_F16, &bits);
    assert_int_equal(bits, 0x8001);
    of_double(0x1p-25, ORA_F16, &bits);
    assert_int_equal(bits, 0);
    of_double(0x1.8p-25, ORA_F16, &bits);
    assert_int_equal(bits, 1);
    of_double(0x1.ffffffp0, ORA_F32, &bits);
    assert_int_equal(bits, 0x40000000);
}

static void one_rounding_not_two(void **state) {
    (void)state;
    uint64_t bits;
    /* just above a tie of f16; rounding through f32 would make it the tie and round down */
    assert_true(of_double(1.0 + 0x1p-11 + 0x1p-40, ORA_F16, &bits) == 1.0 + 0x1p-10);
    int64_t i = ((int64_t)1 << 53) + 1; /* a tie of f64, which would be just above a tie of f32 */
    assert_true(converted(ORA_I64, &i, ORA_F64, &bits) == 0x1p53);
    i = ((int64_t)1 << 60) + ((int64_t)1 << 36) + 1;
    assert_true(converted(ORA_I64, &i, ORA_F32, &bits) == 0x1p60 + 0x1p37);
}

/* A few thousand random bit patterns: the compiler converts the common pairs, rounding to nearest even. */
static void common_conversions_are_those_of_the_compiler(void **state) {
    (void)state;
    uint64_t x = 1, bits;
    for (int i = 0; i < 5000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint64_t mixed = x ^ (x >> 29), shorter = mixed >> (i % 64);
        int64_t whole = (int64_t)shorter;
        double d = ldexp((double)(int64_t)mixed, (int)(x >> 40) % 200 - 160), back;
        float f = (float)d;
        of_double(d, ORA_F32, &bits);
        assert_memory_equal(&bits, &f, sizeof f);
        back = (double)f;
        converted(ORA_F32, &f, ORA_F64, &bits);
        assert_memory_equal(&bits, &back, sizeof back);
        f = (float)whole;
        converted(ORA_I64, &whole, ORA_F32, &bits);
        assert_memory_equal(&bits, &f, sizeof f);
        d = (double)shorter;
        converted(ORA_U64, &shorter, ORA_F64, &bits);
        assert_memory_equal(&bits, &d, sizeof d);
    }
}

static void eight_bit_floats_have_their_own_ends(void **state) {
    (void)state;
    uint64_t bits;
    assert_true(of_double(448.0, ORA_F8E4M3, &bits) == 448.0);
    assert_int_equal(bits, 0x7e);
    assert_true(of_double(464.0, ORA_F8E4M3, &bits) == 448.0);
    of_double(-464.5, ORA_F8E4M3, &bits);
    assert_int_equal(bits, 0xff);
    of_double((double)INFINITY, ORA_F8E4M3, &bits);
    assert_int_equal(bits, 0x7f);
    assert_true(of_double(0x1p-9, ORA_F8E4M3, &bits) == 0x1p-9);
    assert_int_equal(bits, 1);
    assert_true(of_double(57344.0, ORA_F8E5M2, &bits) == 57344.0);
    of_double(61440.0, ORA_F8E5M2, &bits);
    assert_int_equal(bits, 0x7c);
    unsigned char e4m3 = 0x38, e5m2 = 0x3c;
    assert_true(ora_decode(ORA_F8E4M3, &e4m3).re == 1 && ora_decode(ORA_F8E5M2, &e5m2).re == 1);
}

static void floats_become_integers_toward_zero_and_saturate(void **state) {
    (void)state;
    uint64_t bits;
    assert_true(of_double(-2.9, ORA_I8, &bits) == -2);
    assert_true(of_double(300.0, ORA_I8, &bits) == 127);
    assert_true(of_double(-300.0, ORA_I8, &bits) == -128);
    assert_true(of_double(-1.0, ORA_U16, &bits) == 0);
    assert_true(of_double((double)NAN, ORA_I32, &bits) == 0);
    of_double(1e30, ORA_U64, &bits);
    assert_true(bits == UINT64_MAX);
    of_double(1e30, ORA_I64, &bits);
    assert_true(bits == INT64_MAX);
    of_double(-1e30, ORA_I64, &bits);
    assert_true(bits == (uint64_t)INT64_MIN);
}

static void integers_wrap_and_bool_is_not_zero(void **state) {
    (void)state;
    uint64_t bits;
    int32_t i = -1;
    converted(ORA_I32, &i, ORA_U64, &bits);
    assert_true(bits == UINT64_MAX);
    i = 0x1234567;
    assert_true(converted(ORA_I32, &i, ORA_U8, &bits) == 0x67);
    i = 256;
    assert_true(converted(ORA_I32, &i, ORA_BOOL, &bits) == 1);
    assert_true(of_double(0.25, ORA_BOOL, &bits) == 1 && of_double(-0.0, ORA_BOOL, &bits) == 0);
    assert_true(of_double((double)NAN, ORA_BOOL, &bits) == 1);
    unsigned char yes = 1;
    assert_true(converted(ORA_BOOL, &yes, ORA_F8E4M3, &bits) == 1);
}

static void reals_become_complex_with_zero_beside_them(void **state) {
    (void)state;
    unsigned char element[16];
    float f[2];
    double d = -2.5;
    ora_encode(ORA_C64, ora_decode(ORA_F64, &d), element);
    memcpy(f, element, sizeof f);
    assert_true(f[0] == -2.5f && f[1] == 0.0f);
    assert_true(ora_converts(ORA_I8, ORA_C128) && !ora_converts(ORA_C64, ORA_F64) && !ora_converts(ORA_C64, ORA_BOOL));
}

static long double reduced(ora_op op, ora_dtype t, int64_t n, const void *element) {
    const unsigned char *at[8];
    for (int64_t i = 0; i < n; i++) at[i] = (const unsigned char *)element + (size_t)i * ora_size(t);
    ora_number r = ora_reduce(op, t, n, at);
    return r.is_integer ? (long double)(int64_t)r.bits : r.re;
}

static void nans_of_reductions_are_one_nan(void **state) {
    (void)state;
    const uint32_t a = 0xff800123, b = 0x7fc00001, zero = 0;
    const unsigned char *list[2] = {(const unsigned char *)&a, (const unsigned char *)&b};
    uint32_t out;
    ora_reduce_to(ORA_SUM, ORA_F32, 1, list, NULL, ORA_F32, &out);
    assert_int_equal(out, a);
    ora_reduce_to(ORA_SUM, ORA_F32, 2, list, NULL, ORA_F32, &out);
    assert_int_equal(out, 0x7fc00000);
    list[1] = (const unsigned char *)&zero;
    ora_reduce_to(ORA_MIN, ORA_F32, 2, list, NULL, ORA_F32, &out);
    assert_int_equal(out, 0x7fc00000);
    const unsigned char low = 0xfe, *lows[2] = {&low, &low}; /* -448, twice */
    unsigned char sum;
    ora_reduce_to(ORA_SUM, ORA_F8E4M3, 2, lows, NULL, ORA_F8E4M3, &sum);
    assert_int_equal(sum, 0x7f);
}

static void reductions_work_in_the_accumulator(void **state) {
    (void)state;
    signed char i8[] = {100, 100, -3};
    assert_true(reduced(ORA_SUM, ORA_I8, 3, i8) == -59);
    assert_true(reduced(ORA_MIN, ORA_I8, 3, i8) == -3 && reduced(ORA_MAX_OP, ORA_I8, 3, i8) == 100);
    float f32[] = {16777216.0f, 1.0f, 1.0f};
    assert_true(reduced(ORA_SUM, ORA_F32, 3, f32) == 16777216.0L);
    uint16_t f16[] = {0x6800, 0x3c00, 0x3c00}; /* 2048, 1, 1: f32 represents the ones */
    assert_true(reduced(ORA_SUM, ORA_F16, 3, f16) == 2050.0L);
    double f64[] = {1.0, 2.0, 4.0};
    assert_true(reduced(ORA_AVG, ORA_F64, 3, f64) == 7.0 / 3.0);
    float nan[] = {1.0f, (float)NAN, 0.0f};
    assert_true(isnan(reduced(ORA_MIN, ORA_F32, 3, nan)) && isnan(reduced(ORA_MAX_OP, ORA_F32, 3, nan)));
    float c64[] = {1, 2, 3, 4};
    assert_true(reduced(ORA_PROD, ORA_C64, 2, c64) == -5);
}

static void identities_are_those_of_the_op(void **state) {
    (void)state;
    unsigned char e[16];
    ora_identity(ORA_MIN, ORA_F8E4M3, e);
    assert_int_equal(e[0], 0x7e);
    ora_identity(ORA_MAX_OP, ORA_F8E4M3, e);
    assert_int_equal(e[0], 0xfe);
    ora_identity(ORA_MIN, ORA_F8E5M2, e);
    assert_int_equal(e[0], 0x7c);
    ora_identity(ORA_MAX_OP, ORA_I8, e);
    assert_int_equal(e[0], 0x80);
    ora_identity(ORA_MIN, ORA_BOOL, e);
    assert_int_equal(e[0], 1);
    ora_identity(ORA_BAND, ORA_BOOL, e);
    assert_int_equal(e[0], 1);
    ora_identity(ORA_BAND, ORA_U16, e);
    assert_int_equal(e[0] & e[1], 0xff);
    ora_identity(ORA_PROD, ORA_BF16, e);
    assert_int_equal(e[1] << 8 | e[0], 0x3f80);
}

static void a_move_to_partial_gives_one_position_the_value(void **state) {
    (void)state;
    ora_layout *from = ora_parse("i32[2]"), *to = ora_parse("i32[2] on x=2 sum(x)");
    int32_t src[] = {7, 8}, a[2], b[2];
    unsigned char *s[] = {(unsigned char *)src}, *d[] = {(unsigned char *)a, (unsigned char *)b};
    assert_true(ora_move(from, s, to, d, 0));
    assert_true(a[0] == 7 && a[1] == 8 && b[0] == 0 && b[1] == 0);
    assert_true(ora_move(to, d, to, d, 0) && a[0] == 7 && b[0] == 0);
    ora_free(from);
    ora_free(to);
}

static void a_move_from_partial_reduces(void **state) {
    (void)state;
    ora_layout *from = ora_parse("i32[2] on y=2,x=2 max(x)"), *to = ora_parse("f64[2/z] on z=2@[1,0]");
    int32_t p[2][2] = {{1, 9}, {5, 2}};
    double out[2];
    unsigned char *s[] = {(void *)p[0], (void *)p[1], (void *)p[0], (void *)p[1]},
                  *d[] = {(void *)&out[0], (void *)&out[1]};
    assert_true(ora_move(from, s, to, d, 0));
    assert_true(out[0] == 9 && out[1] == 5);
    ora_layout *other = ora_parse("i32[2] on x=2 min(x)");
    assert_false(ora_move(from, s, other, d, 0));
    ora_free(from);
    ora_free(to);
    ora_free(other);
}

static void least_bytes_counts_what_a_rank_needs_and_has_not(void **state) {
    (void)state;
    ora_layout *a = ora_parse("f32[8/x] on x=4"), *b = ora_parse("f16[8] on x=4"), *c = ora_parse("f32[8/x] on x=2");
    assert_int_equal(ora_least_bytes(a, a), 0);
    assert_int_equal(ora_least_bytes(a, b), 4 * 6 * 2);
    assert_int_equal(ora_least_bytes(c, a), (0 + 2 + 2 + 2) * 4);
    assert_int_equal(ora_least_between_nodes(a, b, 2), 2 * 4 * 2);
    ora_free(a);
    ora_free(b);
    ora_free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_as_large_as_the_first_and_then_run_out),
        cmocka_unit_test(balanced_parts_differ_by_at_most_one),
        cmocka_unit_test(nested_axes_cut_what_the_outer_axis_left),
        cmocka_unit_test(units_are_never_cut),
        cmocka_unit_test(blocks_are_dealt_round_robin),
        cmocka_unit_test(explicit_sizes_stand_as_written),
        cmocka_unit_test(each_segment_is_cut_on_its_own),
        cmocka_unit_test(a_segment_is_replicated_along_axes_it_does_not_name),
        cmocka_unit_test(several_dims_make_a_product),
        cmocka_unit_test(order_says_how_a_part_is_stored),
        cmocka_unit_test(flat_parts_are_ranges_of_the_flattened_tensor),
        cmocka_unit_test(flat_over_cuts_flattens_each_position),
        cmocka_unit_test(mesh_positions_name_ranks),
        cmocka_unit_test(boxes_are_parts_in_written_order),
        cmocka_unit_test(same_parts_looks_at_elements_not_at_words),
        cmocka_unit_test(floats_round_to_nearest_even),
        cmocka_unit_test(one_rounding_not_two),
        cmocka_unit_test(common_conversions_are_those_of_the_compiler),
        cmocka_unit_test(eight_bit_floats_have_their_own_ends),
        cmocka_unit_test(floats_become_integers_toward_zero_and_saturate),
        cmocka_unit_test(integers_wrap_and_bool_is_not_zero),
        cmocka_unit_test(reals_become_complex_with_zero_beside_them),
        cmocka_unit_test(reductions_work_in_the_accumulator),
        cmocka_unit_test(nans_of_reductions_are_one_nan),
        cmocka_unit_test(identities_are_those_of_the_op),
        cmocka_unit_test(a_move_to_partial_gives_one_position_the_value),
        cmocka_unit_test(a_move_from_partial_reduces),
        cmocka_unit_test(least_bytes_counts_what_a_rank_needs_and_has_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
