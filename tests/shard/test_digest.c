/* Digests: the formula and the test vectors of docs/digest.md, also computed in steps. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include <reshard.h>

static void expect(const char *layout, void *data, const char *want) {
    rsh_layout *l;
    rsh_memory m = {data, NULL};
    rsh_digest d;
    char text[RSH_DIGEST_TEXT];
    assert_int_equal(rsh_layout_parse(layout, &l), RSH_OK);
    assert_int_equal(rsh_digest_local(l, &m, &d), RSH_OK);
    rsh_digest_text(d, text);
    assert_string_equal(text, want);
    rsh_layout_free(l);
}

static void digests_are_those_of_the_documentation(void **state) {
    (void)state;
    float f[4] = {0, 1, 2, 3};
    unsigned char u[6] = {1, 2, 3, 4, 5, 6};
    double c[2] = {1, -1};
    uint16_t h[3000];
    for (int i = 0; i < 3000; i++) h[i] = (uint16_t)i;
    expect("f32[4]", f, "d2:02e7e4698158e4eb909726683e191c9b");
    expect("f32[2, 2]", f, "d2:151593650cd7a35449479289c2fdd1e8");
    expect("u8[2, 3]", u, "d2:01e86e79322e7541f09192fc88e08ded");
    expect("c128[]", c, "d2:037b7e7428c8ba6911ba6e209f2c2f33");
    expect("u16[3000]", h, "d2:c1b88e1fe55366d6f37ea18070709e82");
    expect("f32[0]", f, "d2:ed3d7bfd6861e91f3d0aa38005017bd7");
}

/* ---- a second implementation, written from the page ---- */

static uint64_t scramble(uint64_t x) {
    x = (x ^ (x >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ (x >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}

static uint64_t term(uint64_t word_start, uint64_t block_start, uint64_t block, uint64_t place, uint32_t word) {
    uint64_t word_key = scramble(word_start + place) >> 32 | 1, block_key = scramble(block_start + block) | 1;
    return word * word_key * block_key;
}

static void add_plainly(rsh_digest *d, size_t size, const unsigned char *element, uint64_t index) {
    uint64_t words = size <= 4 ? 1 : size <= 8 ? 2 : 4, per_block = 1024 / words;
    for (uint64_t w = 0; w * 4 < size; w++) {
        uint64_t block = index / per_block, place = index % per_block * words + w;
        uint32_t word = 0;
        memcpy(&word, element + w * 4, size - w * 4 < 4 ? size - w * 4 : 4);
        d->hi += term(UINT64_C(0x2545f4914f6cdd1d), UINT64_C(0x9e3779b97f4a7c15), block, place, word);
        d->lo += term(UINT64_C(0x94d049bb133111eb), UINT64_C(0xd6e8feb86659fd93), block, place, word);
    }
}

static void same(rsh_digest a, rsh_digest b) {
    assert_int_equal(a.hi, b.hi);
    assert_int_equal(a.lo, b.lo);
}

static uint64_t seed = 1;
static uint64_t any(uint64_t below) { return scramble(seed++) % below; }

static unsigned char bytes[16 * 3000 + 64];

static void windows_of_any_itemsize_add_what_the_page_says(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)any(256);
    for (size_t size = 1; size <= 16; size++)
        for (int k = 0; k < 40; k++) {
            int64_t n = (int64_t)any(k % 2 ? 3000 : 20), bits = (int64_t)any(63);
            int64_t first = (int64_t)(any(UINT64_MAX) >> (1 + bits)), cut = (int64_t)any((uint64_t)n + 1);
            if (first > INT64_MAX - n) first = INT64_MAX - n;
            const unsigned char *data = bytes + any(64);
            rsh_digest want = {0, 0}, got = {0, 0}, other = {0, 0};
            for (int64_t i = 0; i < n; i++) add_plainly(&want, size, data + (size_t)i * size, (uint64_t)(first + i));
            assert_int_equal(rsh_digest_add(&other, size, data + (size_t)cut * size, n - cut, first + cut), RSH_OK);
            assert_int_equal(rsh_digest_add(&got, size, data, cut, first), RSH_OK);
            rsh_digest_merge(&got, other);
            same(got, want);
        }
}

/* A tensor a[7][9][11][5] in memory; its boxes are views. */
enum { A = 7, B = 9, C = 11, D = 5 };

static void add_view(rsh_digest *d, size_t size, const int64_t *from, const int64_t *to, bool dense) {
    const int64_t shape[4] = {A, B, C, D}, strides[4] = {B * C * D, C * D, D, 1};
    int64_t sizes[4], first = 0;
    unsigned char copy[16 * A * B * C * D], *out = copy;
    for (int i = 0; i < 4; i++) sizes[i] = to[i] - from[i], first += from[i] * strides[i];
    if (!dense) {
        const unsigned char *data = bytes + (size_t)first * size;
        assert_int_equal(rsh_digest_add_box(d, size, 4, shape, from, sizes, data, strides), RSH_OK);
        return;
    }
    for (int64_t a = from[0]; a < to[0]; a++)
        for (int64_t b = from[1]; b < to[1]; b++)
            for (int64_t c = from[2]; c < to[2]; c++)
                for (int64_t e = from[3]; e < to[3]; e++, out += size)
                    memcpy(out, bytes + (size_t)(((a * B + b) * C + c) * D + e) * size, size);
    assert_int_equal(rsh_digest_add_box(d, size, 4, shape, from, sizes, copy, NULL), RSH_OK);
}

static void boxes_that_tile_a_tensor_add_up_to_it(void **state) {
    (void)state;
    const int64_t shape[4] = {A, B, C, D};
    for (size_t size = 1; size <= 12; size++) /* there are A * B * C * D * 12 bytes */
        for (int k = 0; k < 30; k++) {
            rsh_digest whole = {0, 0}, tiled = {0, 0};
            int64_t cut[4];
            for (int i = 0; i < 4; i++) cut[i] = (int64_t)any((uint64_t)shape[i] + 1);
            assert_int_equal(rsh_digest_add(&whole, size, bytes, A * B * C * D, 0), RSH_OK);
            for (int corner = 0; corner < 16; corner++) {
                int64_t from[4], to[4];
                for (int i = 0; i < 4; i++) {
                    from[i] = corner >> i & 1 ? cut[i] : 0;
                    to[i] = corner >> i & 1 ? shape[i] : cut[i];
                }
                add_view(&tiled, size, from, to, any(2));
            }
            same(tiled, whole);
        }
}

static void views_of_any_strides_are_walked(void **state) {
    (void)state;
    const int64_t shape[2] = {6, 4}, zero[2] = {0, 0}, transposed[2] = {1, 6}, reversed[2] = {-4, -1};
    uint16_t x[24], y[24], z[24];
    rsh_digest a = {0, 0}, b = {0, 0}, c = {0, 0};
    for (int i = 0; i < 24; i++) x[i] = (uint16_t)any(65536);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 4; j++) y[j * 6 + i] = x[i * 4 + j], z[23 - (i * 4 + j)] = x[i * 4 + j];
    assert_int_equal(rsh_digest_add(&a, 2, x, 24, 0), RSH_OK);
    assert_int_equal(rsh_digest_add_box(&b, 2, 2, shape, zero, shape, y, transposed), RSH_OK);
    assert_int_equal(rsh_digest_add_box(&c, 2, 2, shape, zero, shape, z + 23, reversed), RSH_OK);
    same(a, b);
    same(a, c);
}

static void parts_begin_with_dtype_and_shape(void **state) {
    (void)state;
    float f[4] = {0, 1, 2, 3};
    const int64_t shape[2] = {2, 2}, negative[1] = {-1};
    rsh_layout *l;
    rsh_memory m = {f, NULL};
    rsh_digest want, got;
    assert_int_equal(rsh_layout_parse("f32[2, 2]", &l), RSH_OK);
    assert_int_equal(rsh_digest_local(l, &m, &want), RSH_OK);
    rsh_layout_free(l);
    assert_int_equal(rsh_digest_begin("f32", 2, shape, &got), RSH_OK);
    assert_int_equal(rsh_digest_add(&got, 4, f, 4, 0), RSH_OK);
    same(got, want);
    assert_int_equal(rsh_digest_begin("", 2, shape, &got), RSH_EVALUE);
    assert_int_equal(rsh_digest_begin("f64_f64_f64_f64_f", 2, shape, &got), RSH_EVALUE);
    assert_int_equal(rsh_digest_begin("f32", 9, shape, &got), RSH_EVALUE);
    assert_int_equal(rsh_digest_begin("f32", 1, negative, &got), RSH_EVALUE);
}

static void windows_and_boxes_out_of_range_are_refused(void **state) {
    (void)state;
    const int64_t shape[1] = {4}, at[1] = {3}, two[1] = {2}, huge[2] = {INT64_MAX, 3}, none[2] = {0, 0};
    rsh_digest d = {5, 6};
    assert_int_equal(rsh_digest_add(&d, 17, bytes, 1, 0), RSH_EVALUE);
    assert_int_equal(rsh_digest_add(&d, 0, bytes, 1, 0), RSH_EVALUE);
    assert_int_equal(rsh_digest_add(&d, 4, bytes, -1, 0), RSH_EVALUE);
    assert_int_equal(rsh_digest_add(&d, 4, bytes, 1, -1), RSH_EVALUE);
    assert_int_equal(rsh_digest_add(&d, 4, bytes, 1, INT64_MAX), RSH_EVALUE);
    assert_int_equal(rsh_digest_add(&d, 4, NULL, 0, 7), RSH_OK);
    assert_int_equal(rsh_digest_add_box(&d, 4, 1, shape, at, two, bytes, NULL), RSH_EVALUE);
    assert_int_equal(rsh_digest_add_box(&d, 4, 2, huge, none, none, NULL, NULL), RSH_EVALUE);
    same(d, (rsh_digest){5, 6});
}

static void texts_are_read_back(void **state) {
    (void)state;
    rsh_digest d = {UINT64_C(0x0123456789abcdef), 42}, got = {0, 0};
    char text[RSH_DIGEST_TEXT];
    rsh_digest_text(d, text);
    assert_int_equal(rsh_digest_parse(text, &got), RSH_OK);
    same(got, d);
    text[1] = '1';
    assert_int_equal(rsh_digest_parse(text, &got), RSH_EVALUE);
    assert_int_equal(rsh_digest_parse("d2:0123456789abcdef000000000000002A", &got), RSH_EVALUE);
    assert_int_equal(rsh_digest_parse("d2:0123456789abcdef000000000000002", &got), RSH_EVALUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_those_of_the_documentation),
        cmocka_unit_test(windows_of_any_itemsize_add_what_the_page_says),
        cmocka_unit_test(boxes_that_tile_a_tensor_add_up_to_it),
        cmocka_unit_test(views_of_any_strides_are_walked),
        cmocka_unit_test(parts_begin_with_dtype_and_shape),
        cmocka_unit_test(windows_and_boxes_out_of_range_are_refused),
        cmocka_unit_test(texts_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
