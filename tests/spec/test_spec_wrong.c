/* Wrong calls and wrong kinds: result pointers that are NULL, kinds that return the wrong metadata, and kinds that fail
 * without an error message. */
#include "make.h"

/* ---- user-defined kinds with errors ---- */

static rsh_status build_one(int ndim, const int64_t *size, const rsh_tensor_props *props, rsh_tensor_meta **out) {
    const int64_t zero[RSH_MAX_NDIM] = {0};
    rsh_shard_meta m;
    rsh_status st = rsh_shard_meta_make(ndim, zero, ndim, size, "rank:0", &m);
    return st ? st : rsh_tensor_meta_new(1, &m, ndim, size, props, out);
}

static rsh_status build_right(const void *self, int ndim, const int64_t *size, const rsh_tensor_props *props,
                              rsh_tensor_meta **out) {
    (void)self;
    return build_one(ndim, size, props, out);
}

static rsh_status build_without_props(const void *self, int ndim, const int64_t *size, const rsh_tensor_props *props,
                                      rsh_tensor_meta **out) {
    (void)self, (void)props;
    return build_one(ndim, size, NULL, out);
}

static rsh_status build_longer(const void *self, int ndim, const int64_t *size, const rsh_tensor_props *props,
                               rsh_tensor_meta **out) {
    int64_t longer[RSH_MAX_NDIM];
    (void)self;
    for (int d = 0; d < ndim; d++) longer[d] = size[d] + 1;
    return build_one(ndim, longer, props, out);
}

static rsh_status build_flat(const void *self, int ndim, const int64_t *size, const rsh_tensor_props *props,
                             rsh_tensor_meta **out) {
    (void)self, (void)ndim;
    return build_one(1, size, props, out);
}

static rsh_status build_silently(const void *self, int ndim, const int64_t *size, const rsh_tensor_props *props,
                                 rsh_tensor_meta **out) {
    (void)self, (void)ndim, (void)size, (void)props, (void)out;
    return RSH_EKEY;
}

static rsh_status build_beyond(const void *self, int ndim, const int64_t *size, const rsh_tensor_props *props,
                               rsh_tensor_meta **out) {
    (void)self, (void)ndim, (void)size;
    return build_one(RSH_MAX_NDIM + 1, NULL, props, out);
}

static rsh_status print_silently(const void *self, const rsh_sink *sink) {
    (void)self, (void)sink;
    return RSH_EATTR;
}

static const int64_t size[2] = {4, 6};

static rsh_status build_with(rsh_status (*build)(const void *, int, const int64_t *, const rsh_tensor_props *,
                                                 rsh_tensor_meta **)) {
    const rsh_spec_kind kind = {.name = "mine", .build = build};
    rsh_tensor_props props = RSH_TENSOR_PROPS_INIT;
    rsh_tensor_meta *m = NULL;
    rsh_spec *s = NULL;
    props.dtype = RSH_F64;
    assert_int_equal(rsh_spec_new(&kind, NULL, &s), RSH_OK);
    rsh_status st = rsh_spec_build(s, 2, size, &props, &m);
    if (st)
        assert_null(m);
    else
        rsh_tensor_meta_free(m);
    rsh_spec_free(s);
    return st;
}

static void a_kind_must_build_the_size_and_properties_it_was_asked_for(void **state) {
    (void)state;
    assert_int_equal(build_with(build_right), RSH_OK);
    assert_int_equal(build_with(build_without_props), RSH_ERUNTIME);
    assert_non_null(strstr(rsh_error_detail(), "f64"));
    assert_int_equal(build_with(build_longer), RSH_ERUNTIME);
    assert_non_null(strstr(rsh_error_detail(), "size 5"));
    assert_int_equal(build_with(build_flat), RSH_ERUNTIME);
}

static void a_kind_that_fails_without_a_word_does_not_get_the_words_of_an_older_failure(void **state) {
    (void)state;
    rsh_remote_device p;
    rsh_spec *s = NULL;
    assert_int_equal(rsh_remote_device_parse("rank:foo", &p), RSH_EVALUE);
    assert_int_equal(build_with(build_silently), RSH_EKEY);
    assert_null(strstr(rsh_error_detail(), "foo"));
    assert_non_null(strstr(rsh_error_detail(), "\"mine\" failed to build"));
    assert_int_equal(build_with(build_beyond), RSH_EVALUE); /* the kind's own error message is kept */
    assert_non_null(strstr(rsh_error_detail(), "9 dims"));
    assert_int_equal(
        rsh_spec_new(&(rsh_spec_kind){.name = "mine", .build = build_right, .print = print_silently}, NULL, &s),
        RSH_EATTR);
    assert_non_null(strstr(rsh_error_detail(), "\"mine\" failed to print"));
    assert_null(s);
}

/* ---- calls ---- */

static void answers_need_a_place(void **state) {
    (void)state;
    int64_t n;
    const rsh_remote_device *placements;
    rsh_spec *s = NULL;
    assert_int_equal(rsh_spec_chunk_ranks(0, 2, NULL, &s), RSH_OK);
    assert_int_equal(rsh_spec_chunk_dim(s, 2, NULL), RSH_EVALUE);
    assert_int_equal(rsh_spec_chunk_placements(s, NULL, &placements), RSH_EVALUE);
    assert_int_equal(rsh_spec_chunk_placements(s, &n, NULL), RSH_EVALUE);
    assert_int_equal(rsh_spec_chunk_index(s, 0, NULL), RSH_EVALUE);
    assert_int_equal(rsh_spec_chunk_params(s, 4, 2, 0, NULL, &n), RSH_EVALUE);
    assert_int_equal(rsh_spec_chunk_params(s, 4, 2, 0, &n, NULL), RSH_EVALUE);
    rsh_spec_free(s);
}

static void any_blank_may_stand_between_words(void **state) {
    (void)state;
    static const char *const texts[] = {"chunk(0;rank:0)", "chunk (0; rank:0)", "chunk\t(\t0\t;\trank:0\t)\t",
                                        "\n chunk\n(0 ;\r\n rank:0)\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        rsh_spec *s = NULL;
        assert_int_equal(rsh_spec_parse(texts[i], &s), RSH_OK);
        assert_string_equal(rsh_spec_text(s), "chunk(0; rank:0/cpu)");
        rsh_spec_free(s);
    }
    rsh_spec *s = NULL;
    assert_int_equal(rsh_spec_parse("chunk", &s), RSH_EVALUE);
    assert_int_equal(rsh_spec_parse("chunks(0; rank:0)", &s), RSH_EVALUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kind_must_build_the_size_and_properties_it_was_asked_for),
        cmocka_unit_test(a_kind_that_fails_without_a_word_does_not_get_the_words_of_an_older_failure),
        cmocka_unit_test(answers_need_a_place),
        cmocka_unit_test(any_blank_may_stand_between_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
