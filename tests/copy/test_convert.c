/* Every pair of dtypes compared with the definition: exhaustive for 8- and 16-bit sources, edges and random bits for
 * the others. */
#include "copy/copy.h"
#include "random_case.h"
#include "reference.h"

#define MOST 200000 /* elements of a list of sources */

static char source[MOST * 16], result[MOST * 16];
static size_t count;

static void add(rsh_dtype t, const void *value) {
    size_t size = rsh_dtype_size(t);
    assert_true(count < MOST);
    memcpy(source + count++ * size, value, size);
}

static void add_every_code(rsh_dtype t) {
    size_t bits = 8 * rsh_dtype_size(t);
    for (uint32_t code = 0; code < (uint32_t)1 << bits; code++) add(t, &code);
}

static void add_integer(rsh_dtype t, uint64_t x) { add(t, &x); }

/* Adds powers of two and their neighbours, odd patterns below the rounding position of every float type, and numbers of
 * random width. */
static void add_integers(rsh_dtype t) {
    for (int b = 0; b < 64; b++)
        for (int low = 0; low < 64; low++)
            for (int delta = -1; delta <= 1; delta++) {
                uint64_t x = ((uint64_t)1 << b) + ((uint64_t)1 << low) + (uint64_t)(int64_t)delta;
                add_integer(t, x);
                add_integer(t, -x);
            }
    for (int i = 0; i < 20000; i++) add_integer(t, random_bits() >> random_in(0, 63));
}

static void add_real(rsh_dtype t, double x) {
    float single = (float)x;
    if (t == RSH_F32 || t == RSH_C64)
        add(RSH_F32, &single);
    else
        add(RSH_F64, &x);
}

/* Adds a number, its negative, and the neighbours of both. */
static void add_around(rsh_dtype t, double x) {
    bool single = t == RSH_F32;
    double up = single ? (double)nextafterf((float)x, INFINITY) : nextafter(x, INFINITY);
    double down = single ? (double)nextafterf((float)x, -INFINITY) : nextafter(x, -INFINITY);
    double all[] = {x, up, down};
    for (int i = 0; i < 3; i++) add_real(t, all[i]), add_real(t, -all[i]);
}

/* Adds all numbers of a small format and the midpoints between them. */
static void add_ties(rsh_dtype t, rsh_dtype target) {
    small_format f = {0};
    assert_true(reference_is_small(target, &f));
    int top = small_top(f), step = top > 4096 ? 7 : 1;
    for (int code = 0; code < top + 4; code += step) {
        double a = (double)small_magnitude(f, code), b = (double)small_magnitude(f, code + 1);
        add_around(t, a);
        add_around(t, (a + b) / 2);
    }
}

static void add_reals(rsh_dtype t) {
    add_ties(t, RSH_F8E4M3), add_ties(t, RSH_F8E5M2), add_ties(t, RSH_F16), add_ties(t, RSH_BF16);
    for (int e = -1080; e < 1024; e++) add_around(t, ldexp(1.0, e));
    double odd[] = {0.0, INFINITY, (double)NAN, 1e300, 3.4028235677973366e38, 65520.0, 464.0, 61440.0};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) add_around(t, odd[i]);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = random_bits();
        add(t, &bits);
    }
}

static void add_sources(rsh_dtype t) {
    rsh_dtype part = reference_component(t);
    count = 0;
    if (rsh_dtype_size(part) <= 2)
        add_every_code(part);
    else if (reference_is_integer(part))
        add_integers(part);
    else
        add_reals(part);
    if (part != t) count /= 2;
}

static void check_pair(rsh_dtype from, rsh_dtype to) {
    size_t a = rsh_dtype_size(from), b = rsh_dtype_size(to);
    char expected[16];
    memset(result, 0xa5, sizeof result);
    rshi_convert(from, source, to, result, count);
    for (size_t i = 0; i < count; i++) {
        reference_convert(from, source + i * a, to, expected);
        if (reference_same(to, expected, result + i * b)) continue;
        fail_with_seed("%s to %s, element %zu of value %.20Lg: got %.20Lg, expected %.20Lg", rsh_dtype_name(from),
                       rsh_dtype_name(to), i, reference_read(reference_component(from), source + i * a),
                       reference_read(reference_component(to), result + i * b),
                       reference_read(reference_component(to), expected));
    }
    if (count * b < sizeof result) assert_int_equal((unsigned char)result[count * b], 0xa5);
}

static bool converts(rsh_dtype from, rsh_dtype to) { return rsh_dtype_check_convert(from, to) == RSH_OK; }

static void every_pair_rounds_once_and_as_defined(void **state) {
    (void)state;
    for (int from = 0; from < RSH_NDTYPES; from++) {
        add_sources((rsh_dtype)from);
        for (int to = 0; to < RSH_NDTYPES; to++)
            if (converts((rsh_dtype)from, (rsh_dtype)to)) check_pair((rsh_dtype)from, (rsh_dtype)to);
    }
}

static void expect_f32(float x, rsh_dtype to, unsigned bits) {
    unsigned got = 0;
    rshi_convert(RSH_F32, &x, to, &got, 1);
    assert_int_equal(got, bits);
}

static void the_ends_of_the_small_floats_are_the_published_ones(void **state) {
    (void)state;
    expect_f32(448.0f, RSH_F8E4M3, 0x7e), expect_f32(464.0f, RSH_F8E4M3, 0x7e), expect_f32(465.0f, RSH_F8E4M3, 0x7f);
    expect_f32(-INFINITY, RSH_F8E4M3, 0xff), expect_f32(0.001953125f, RSH_F8E4M3, 0x01);
    expect_f32(57344.0f, RSH_F8E5M2, 0x7b), expect_f32(61439.0f, RSH_F8E5M2, 0x7b),
        expect_f32(61440.0f, RSH_F8E5M2, 0x7c);
    expect_f32(65504.0f, RSH_F16, 0x7bff), expect_f32(65519.0f, RSH_F16, 0x7bff), expect_f32(65520.0f, RSH_F16, 0x7c00);
    expect_f32(5.9604645e-8f, RSH_F16, 0x0001), expect_f32(2.9802322e-8f, RSH_F16, 0x0000);
    expect_f32(1.0f, RSH_BF16, 0x3f80), expect_f32(3.4028235e38f, RSH_BF16, 0x7f80);
}

static void a_nan_keeps_its_sign_and_stays_a_nan(void **state) {
    (void)state;
    uint32_t quiet = 0xffc00000u, low_payload = 0x7f800001u;
    float x, y;
    memcpy(&x, &quiet, 4), memcpy(&y, &low_payload, 4);
    expect_f32(x, RSH_BF16, 0xffc0), expect_f32(x, RSH_F16, 0xfe00), expect_f32(x, RSH_F8E5M2, 0xfe);
    expect_f32(y, RSH_BF16, 0x7fc0), expect_f32(y, RSH_F16, 0x7e00), expect_f32(y, RSH_F8E4M3, 0x7f);
    expect_f32(x, RSH_I32, 0), expect_f32(x, RSH_BOOL, 1);
}

static void any_non_zero_byte_is_true(void **state) {
    (void)state;
    unsigned char bytes[3] = {0, 1, 0x80};
    float real[3];
    int64_t integer[3];
    rshi_convert(RSH_BOOL, bytes, RSH_F32, real, 3);
    rshi_convert(RSH_BOOL, bytes, RSH_I64, integer, 3);
    assert_true(real[0] == 0 && real[1] == 1 && real[2] == 1);
    assert_true(integer[0] == 0 && integer[1] == 1 && integer[2] == 1);
}

static void unaligned_elements_convert_too(void **state) {
    (void)state;
    char src[4 * 130 + 1], dst[8 * 130 + 3];
    for (int i = 0; i < 130; i++) {
        float x = (float)i / 3;
        memcpy(src + 1 + 4 * i, &x, 4);
    }
    rshi_convert(RSH_F32, src + 1, RSH_F64, dst + 3, 130);
    for (int i = 0; i < 130; i++) {
        double y;
        memcpy(&y, dst + 3 + 8 * i, 8);
        assert_true(y == (double)((float)i / 3));
    }
}

int main(void) {
    random_start();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_rounds_once_and_as_defined),
        cmocka_unit_test(the_ends_of_the_small_floats_are_the_published_ones),
        cmocka_unit_test(a_nan_keeps_its_sign_and_stays_a_nan),
        cmocka_unit_test(any_non_zero_byte_is_true),
        cmocka_unit_test(unaligned_elements_convert_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
