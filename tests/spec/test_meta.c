/* Metadata of whole tensors: equality with and without order, and the JSON form. */
#include "spec/make.h"

#include <reshard/alloc.h>

#include <jansson.h>

typedef struct text {
    char *data;
    size_t length;
} text;

static int append(void *ctx, const char *piece, size_t length) {
    text *t = ctx;
    t->data = realloc(t->data, t->length + length + 1);
    assert_non_null(t->data);
    memcpy(t->data + t->length, piece, length);
    t->data[t->length += length] = 0;
    return 0;
}

static text save(const rsh_tensor_meta *m) {
    text t = {0};
    assert_int_equal(rsh_tensor_meta_save(m, &(rsh_sink){append, &t}), RSH_OK);
    return t;
}

static rsh_tensor_meta *make(int64_t n, const rsh_shard_meta *shards, int ndim, const int64_t *size) {
    rsh_tensor_meta *m = NULL;
    assert_int_equal(rsh_tensor_meta_new(n, shards, ndim, size, NULL, &m), RSH_OK);
    return m;
}

/* ---- JSON ---- */

static void expect_round_trip(const rsh_tensor_meta *m) {
    rsh_tensor_meta *back = NULL;
    text t = save(m);
    assert_int_equal(rsh_tensor_meta_load(t.data, t.length, &back), RSH_OK);
    assert_true(rsh_tensor_meta_equal(m, back));
    rsh_tensor_meta_free(back);
    free(t.data);
}

static void every_combination_of_properties_comes_back(void **state) {
    (void)state;
    rsh_shard_meta list[] = {BOX(2, (0, 0), (5, 5), 0), BOX(2, (5, 0), (5, 5), 1)};
    rsh_tensor_meta *m = make(2, list, 2, DIMS(10, 5));
    int combinations = 0;
    for (int dtype = 0; dtype < RSH_NDTYPES; dtype++)
        for (int bits = 0; bits < 8; bits++)
            for (int format = 0; format < 3; format++, combinations++) {
                m->props = (rsh_tensor_props){(rsh_dtype)dtype, bits & 1 ? RSH_SPARSE : RSH_STRIDED, bits & 2,
                                              (rsh_memory_format)format, bits & 4};
                expect_round_trip(m);
            }
    assert_int_equal(combinations, 17 * 2 * 2 * 3 * 2);
    rsh_tensor_meta_free(m);
}

static void placements_of_every_form_and_the_largest_numbers_come_back(void **state) {
    (void)state;
    static const char *const placements[] = {"rank:3/cuda:1",   "rank:3",   "cuda:1", "cpu",
                                             "trainer0/cuda:0", "trainer0", NULL};
    enum { N = sizeof placements / sizeof *placements };
    rsh_shard_meta list[N];
    int64_t big = INT64_C(9007199254740993); /* 2^53 + 1, which a double cannot represent */
    for (int i = 0; i < N; i++)
        assert_int_equal(
            rsh_shard_meta_make(2, DIMS(big + i, 0), 2, DIMS(INT64_MAX - big - N, 0), placements[i], &list[i]), RSH_OK);
    rsh_tensor_meta *m = make(N, list, 2, DIMS(INT64_MAX, 0)), *none = make(0, NULL, 0, NULL);
    expect_round_trip(m);
    expect_round_trip(none);
    rsh_tensor_meta_free(m);
    rsh_tensor_meta_free(none);
}

static void the_text_is_as_documented(void **state) {
    (void)state;
    rsh_shard_meta list[] = {BOX(2, (0, 0), (2, 4), 1), BOX(2, (2, 0), (1, 4), -1)};
    rsh_tensor_meta *m = make(2, list, 2, DIMS(3, 4));
    text t = save(m);
    assert_string_equal(
        t.data, "{\n  \"version\": 1,\n  \"size\": [3, 4],\n  \"dtype\": \"f32\",\n  \"layout\": \"strided\",\n"
                "  \"requires_grad\": false,\n  \"memory_format\": 0,\n  \"pin_memory\": false,\n  \"shards\": [\n"
                "    {\"offsets\": [0, 0], \"sizes\": [2, 4], \"placement\": \"rank:1/cpu\"},\n"
                "    {\"offsets\": [2, 0], \"sizes\": [1, 4], \"placement\": null}\n  ]\n}\n");
    free(t.data);
    rsh_tensor_meta_free(m);
}

static void a_memory_format_that_does_not_exist_is_refused_both_ways(void **state) {
    (void)state;
    rsh_tensor_meta *m = make(0, NULL, 1, DIMS(0)), *back = NULL;
    text t = save(m), none = {0};
    char *digit = strstr(t.data, "memory_format\": 0") + strlen("memory_format\": ");
    *digit = '3';
    assert_int_equal(rsh_tensor_meta_load(t.data, t.length, &back), RSH_ERUNTIME);
    m->props.memory_format = (rsh_memory_format)3;
    assert_int_equal(rsh_tensor_meta_save(m, &(rsh_sink){append, &none}), RSH_ERUNTIME);
    assert_int_equal(none.length, 0);
    assert_null(back);
    free(t.data);
    rsh_tensor_meta_free(m);
}

/* Changes one value of a valid text, given by a path of keys, and expects an error; if value is NULL, removes the
 * key. */
static void expect_refused(const char *good, const char *where, const char *key, const char *value) {
    rsh_tensor_meta *back = NULL;
    json_t *o = json_loads(good, 0, NULL), *in = *where ? json_array_get(json_object_get(o, where), 0) : o;
    assert_non_null(in);
    if (value)
        json_object_set_new(in, key, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(in, key);
    char *bad = json_dumps(o, 0);
    rsh_status st = rsh_tensor_meta_load(bad, strlen(bad), &back);
    if (st != RSH_ERUNTIME || back) print_message("%s\n", bad);
    assert_int_equal(st, RSH_ERUNTIME);
    assert_null(back);
    free(bad);
    json_decref(o);
}

static void malformed_texts_are_refused(void **state) {
    (void)state;
    static const char *const bad[][3] = {
        {"", "version", "2"},
        {"", "version", NULL},
        {"", "size", NULL},
        {"", "size", "[3, -4]"},
        {"", "size", "[3.0, 4]"},
        {"", "size", "3"},
        {"", "size", "[3]"},
        {"", "size", "[0,0,0,0,0,0,0,0,0]"},
        {"", "dtype", "\"f99\""},
        {"", "dtype", "7"},
        {"", "dtype", NULL},
        {"", "layout", "\"dense\""},
        {"", "layout", "0"},
        {"", "requires_grad", "0"},
        {"", "requires_grad", NULL},
        {"", "memory_format", "-1"},
        {"", "memory_format", "4294967296"},
        {"", "memory_format", "true"},
        {"", "pin_memory", "null"},
        {"", "shards", NULL},
        {"", "shards", "{}"},
        {"", "shards", "[1]"},
        {"shards", "offsets", NULL},
        {"shards", "offsets", "[0]"},
        {"shards", "offsets", "[0, -1]"},
        {"shards", "offsets", "[0, \"1\"]"},
        {"shards", "sizes", NULL},
        {"shards", "sizes", "[1, 2, 3]"},
        {"shards", "sizes", "[9223372036854775807, 1]"},
        {"shards", "placement", NULL},
        {"shards", "placement", "3"},
        {"shards", "placement", "\"rank:x\""},
        {"shards", "placement", "\"rank:0/gpu\""},
    };
    rsh_shard_meta list[] = {BOX(2, (2, 0), (1, 4), 1)};
    rsh_tensor_meta *m = make(1, list, 2, DIMS(3, 4)), *back = NULL;
    text t = save(m);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) expect_refused(t.data, bad[i][0], bad[i][1], bad[i][2]);
    for (size_t n = 0; n + 2 < t.length; n += 3) assert_int_equal(rsh_tensor_meta_load(t.data, n, &back), RSH_ERUNTIME);
    assert_int_equal(rsh_tensor_meta_load("[]", 2, &back), RSH_ERUNTIME);
    assert_int_equal(rsh_tensor_meta_load("7", 1, &back), RSH_ERUNTIME);
    static const char twice[] = "{\"version\": 1, \"version\": 1}", huge[] = "{\"version\": 99999999999999999999}";
    assert_int_equal(rsh_tensor_meta_load(twice, sizeof twice - 1, &back), RSH_ERUNTIME);
    assert_int_equal(rsh_tensor_meta_load(huge, sizeof huge - 1, &back), RSH_ERUNTIME);
    assert_null(back);
    free(t.data);
    rsh_tensor_meta_free(m);
}

static int refuse(void *ctx, const char *piece, size_t length) {
    (void)piece, (void)length;
    return --*(int *)ctx < 0;
}

static void a_sink_that_refuses_stops_the_writing(void **state) {
    (void)state;
    rsh_shard_meta list[] = {BOX(1, (0), (2), 0)};
    rsh_tensor_meta *m = make(1, list, 1, DIMS(2));
    for (int pieces = 0; pieces < 10; pieces++) {
        int left = pieces;
        assert_int_equal(rsh_tensor_meta_save(m, &(rsh_sink){refuse, &left}), RSH_EIO);
    }
    rsh_tensor_meta_free(m);
}

/* ---- creating and comparing ---- */

static void metadata_that_mean_nothing_are_refused(void **state) {
    (void)state;
    rsh_tensor_meta *m = NULL;
    rsh_shard_meta a = BOX(1, (0), (2), 0);
    rsh_tensor_props props = RSH_TENSOR_PROPS_INIT;
    assert_int_equal(rsh_tensor_meta_new(1, &a, 2, DIMS(2, 2), NULL, &m), RSH_EVALUE);
    assert_int_equal(rsh_tensor_meta_new(1, &a, 1, DIMS(-2), NULL, &m), RSH_EVALUE);
    assert_int_equal(rsh_tensor_meta_new(-1, &a, 1, DIMS(2), NULL, &m), RSH_EVALUE);
    assert_int_equal(rsh_tensor_meta_new(1, NULL, 1, DIMS(2), NULL, &m), RSH_EVALUE);
    props.dtype = RSH_DTYPE_NONE;
    assert_int_equal(rsh_tensor_meta_new(1, &a, 1, DIMS(2), &props, &m), RSH_EVALUE);
    a.sizes[0] = -1;
    assert_int_equal(rsh_tensor_meta_new(1, &a, 1, DIMS(2), NULL, &m), RSH_EVALUE);
    assert_null(m);
}

static void properties_of_a_tensor_are_its_dtype_and_the_usual(void **state) {
    (void)state;
    rsh_tensor *t = NULL;
    assert_int_equal(rsh_tensor_zeros(RSH_BF16, 1, DIMS(3), &t), RSH_OK);
    rsh_tensor_props p = rsh_tensor_get_props(t), q = {RSH_BF16, RSH_STRIDED, false, RSH_CONTIGUOUS, false};
    assert_true(rsh_tensor_props_equal(&p, &q));
    q.pin_memory = true;
    assert_false(rsh_tensor_props_equal(&p, &q));
    rsh_tensor_free(t);
}

static void expect_compared(const rsh_tensor_meta *a, const rsh_tensor_meta *b, bool equal, bool same) {
    assert_int_equal(rsh_tensor_meta_equal(a, b), equal);
    assert_int_equal(rsh_tensor_meta_equal(b, a), equal);
    assert_int_equal(rsh_tensor_meta_same(a, b), same);
    assert_int_equal(rsh_tensor_meta_same(b, a), same);
}

static void order_and_empty_shards_matter_to_equal_and_not_to_same(void **state) {
    (void)state;
    rsh_shard_meta list[] = {BOX(1, (0), (2), 2), BOX(1, (2), (2), 0), BOX(1, (4), (1), 1), BOX(1, (5), (0), 3)};
    rsh_shard_meta back[] = {list[3], list[2], list[1], list[0]}, other[] = {list[0], list[1], BOX(1, (4), (1), 3)};
    rsh_tensor_meta *a = make(4, list, 1, DIMS(5)), *b = make(4, back, 1, DIMS(5)), *c = make(3, list, 1, DIMS(5)),
                    *d = make(3, other, 1, DIMS(5)), *e = make(2, list, 1, DIMS(5)), *f = NULL;
    assert_int_equal(rsh_tensor_meta_copy(a, &f), RSH_OK);
    expect_compared(a, f, true, true);
    expect_compared(a, b, false, true);
    expect_compared(a, c, false, true);
    expect_compared(a, d, false, false);
    expect_compared(a, e, false, false);
    f->props.requires_grad = true;
    expect_compared(a, f, false, false);
    rsh_alloc_fail_at(0); /* the result is the same if memory runs out */
    assert_true(rsh_tensor_meta_same(a, b));
    rsh_alloc_fail_at(1);
    assert_true(rsh_tensor_meta_same(a, b));
    rsh_alloc_fail_at(0);
    assert_false(rsh_tensor_meta_same(a, d));
    rsh_alloc_fail_at(-1);
    rsh_tensor_meta *all[] = {a, b, c, d, e, f};
    for (int i = 0; i < 6; i++) rsh_tensor_meta_free(all[i]);
}

static void shuffled_metadata_stay_the_same_until_one_shard_changes(void **state) {
    (void)state;
    uint64_t seed = make_seed("same");
    for (int i = 0; i < 2000; i++) {
        rsh_shard_meta list[16], mixed[20];
        int order[20];
        int64_t size[] = {6, 5, 0, 0, 0, 0, 0, 0}, n = make_tiling(&seed, 2, size, 15, 4, list);
        make_permutation(&seed, (int)n, order);
        for (int64_t k = 0; k < n; k++) mixed[k] = list[order[k]];
        int64_t more = n + make_below(&seed, 4);
        for (int64_t k = n; k < more; k++)
            mixed[k] = make_box(2, DIMS(make_below(&seed, 7), 5), DIMS(0, 0), (int)make_below(&seed, 4));
        rsh_tensor_meta *a = make(n, list, 2, size), *b = make(more, mixed, 2, size);
        assert_true(rsh_tensor_meta_same(a, b));
        rsh_shard_meta *m = &b->shards[make_below(&seed, n)];
        if (rsh_shard_meta_count(m)) {
            m->placement.rank += 1 + (int)make_below(&seed, 3);
            assert_false(rsh_tensor_meta_same(a, b));
        }
        rsh_tensor_meta_free(a);
        rsh_tensor_meta_free(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_combination_of_properties_comes_back),
        cmocka_unit_test(placements_of_every_form_and_the_largest_numbers_come_back),
        cmocka_unit_test(the_text_is_as_documented),
        cmocka_unit_test(a_memory_format_that_does_not_exist_is_refused_both_ways),
        cmocka_unit_test(malformed_texts_are_refused),
        cmocka_unit_test(a_sink_that_refuses_stops_the_writing),
        cmocka_unit_test(metadata_that_mean_nothing_are_refused),
        cmocka_unit_test(properties_of_a_tensor_are_its_dtype_and_the_usual),
        cmocka_unit_test(order_and_empty_shards_matter_to_equal_and_not_to_same),
        cmocka_unit_test(shuffled_metadata_stay_the_same_until_one_shard_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
