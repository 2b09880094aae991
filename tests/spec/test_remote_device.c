/* Remote devices and devices: parsing and printing. */
#include "spec/make.h"

typedef struct form {
    const char *text, *worker;
    int rank;
    rsh_device_type type;
    int index;
    const char *printed;
} form;

static const form forms[] = {
    {"rank:3/cuda:1", "", 3, RSH_DEVICE_CUDA, 1, "rank:3/cuda:1"},
    {"rank:3", "", 3, RSH_DEVICE_CPU, -1, "rank:3/cpu"},
    {"rank:0/cpu", "", 0, RSH_DEVICE_CPU, -1, "rank:0/cpu"},
    {"cuda:1", "", -1, RSH_DEVICE_CUDA, 1, "cuda:1"},
    {"cuda", "", -1, RSH_DEVICE_CUDA, -1, "cuda"},
    {"cpu", "", -1, RSH_DEVICE_CPU, -1, "cpu"},
    {"cpu:0", "", -1, RSH_DEVICE_CPU, 0, "cpu:0"},
    {"trainer0/cuda:0", "trainer0", -1, RSH_DEVICE_CUDA, 0, "trainer0/cuda:0"},
    {"trainer0", "trainer0", -1, RSH_DEVICE_CPU, -1, "trainer0/cpu"},
    {"cpu/cpu", "cpu", -1, RSH_DEVICE_CPU, -1, "cpu/cpu"},
    {"7", "7", -1, RSH_DEVICE_CPU, -1, "7/cpu"},
    {"rank:007/meta", "", 7, RSH_DEVICE_META, -1, "rank:7/meta"},
    {"rank:2147483647/cpu", "", 2147483647, RSH_DEVICE_CPU, -1, "rank:2147483647/cpu"},
};

static void every_form_of_the_text_is_read_and_printed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const form *f = &forms[i];
        rsh_remote_device p, again;
        char text[RSH_REMOTE_DEVICE_TEXT];
        assert_int_equal(rsh_remote_device_parse(f->text, &p), RSH_OK);
        assert_string_equal(p.worker, f->worker);
        assert_int_equal(p.rank, f->rank);
        assert_int_equal(p.device.type, f->type);
        assert_int_equal(p.device.index, f->index);
        rsh_remote_device_print(&p, text);
        assert_string_equal(text, f->printed);
        assert_int_equal(rsh_remote_device_parse(text, &again), RSH_OK);
        assert_true(rsh_remote_device_equal(&p, &again));
    }
}

static void placements_are_equal_if_all_three_parts_are(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (size_t j = 0; j < sizeof forms / sizeof *forms; j++) {
            rsh_remote_device a, b;
            assert_int_equal(rsh_remote_device_parse(forms[i].text, &a), RSH_OK);
            assert_int_equal(rsh_remote_device_parse(forms[j].text, &b), RSH_OK);
            assert_int_equal(rsh_remote_device_equal(&a, &b), !strcmp(forms[i].printed, forms[j].printed));
        }
}

static void malformed_placements_are_refused_by_kind(void **state) {
    (void)state;
    static const char *const value[] = {"",
                                        "/cpu",
                                        "a/b/c",
                                        "rank:0/cpu/0",
                                        "random:0",
                                        "rank:foo",
                                        "rank:-1",
                                        "cuda:foo",
                                        "rank:",
                                        "a:b:c",
                                        "rank:0:1",
                                        "rank:99999999999",
                                        "cuda:01",
                                        "cuda:-1",
                                        "two words",
                                        "a,b",
                                        "a;b",
                                        "a(b)",
                                        "\"x\"",
                                        "rank:0:1/cpu",
                                        "cuda:foo/cpu",
                                        "a-name-that-is-longer-than-what-there-is-room-for-in-a-placement-of-ours"};
    static const char *const runtime[] = {"rank:0/foo",   "rank:0/cuda:foo", "rank:0/cpu2",    "rank:0/",
                                          "trainer0/gpu", "rank:0/cuda:",    "rank:0/cuda:1:2"};
    rsh_remote_device p = {.rank = 77};
    for (size_t i = 0; i < sizeof value / sizeof *value; i++)
        assert_int_equal(rsh_remote_device_parse(value[i], &p), RSH_EVALUE);
    for (size_t i = 0; i < sizeof runtime / sizeof *runtime; i++)
        assert_int_equal(rsh_remote_device_parse(runtime[i], &p), RSH_ERUNTIME);
    assert_int_equal(rsh_remote_device_parse(NULL, &p), RSH_EVALUE);
    assert_int_equal(p.rank, 77);
}

static void every_device_is_read_with_and_without_an_index(void **state) {
    (void)state;
    static const char *const names[] = {
#define NAME(name, text) text,
        RSH_DEVICE_MAP(NAME)
#undef NAME
    };
    for (int i = 0; i < RSH_DEVICE_COUNT; i++) {
        char text[40];
        rsh_device plain, numbered;
        assert_int_equal(rsh_device_parse(names[i], &plain), RSH_OK);
        snprintf(text, sizeof text, "%s:12", names[i]);
        assert_int_equal(rsh_device_parse(text, &numbered), RSH_OK);
        assert_true((int)plain.type == i && plain.index == -1 && (int)numbered.type == i && numbered.index == 12);
        assert_int_equal(plain.index, -1);
        assert_int_equal(plain.type, i);
    }
    rsh_device d;
    assert_int_equal(rsh_device_parse("gpu", &d), RSH_ERUNTIME);
    assert_int_equal(rsh_device_parse("cpu:", &d), RSH_ERUNTIME);
    assert_int_equal(rsh_device_parse("", &d), RSH_ERUNTIME);
}

static void a_placement_must_be_a_rank_of_the_group(void **state) {
    (void)state;
    rsh_remote_device p;
    assert_int_equal(rsh_remote_device_parse("rank:3/cpu", &p), RSH_OK);
    assert_int_equal(rsh_remote_device_check(&p, 4), RSH_OK);
    assert_int_equal(rsh_remote_device_check(&p, 3), RSH_EVALUE);
    assert_int_equal(rsh_remote_device_check(NULL, 3), RSH_EVALUE);
    assert_int_equal(rsh_remote_device_parse("cpu", &p), RSH_OK);
    assert_int_equal(rsh_remote_device_check(&p, 4), RSH_EVALUE);
    assert_int_equal(rsh_remote_device_parse("trainer0/cpu", &p), RSH_OK);
    assert_int_equal(rsh_remote_device_check(&p, 4), RSH_ERUNTIME);
    assert_non_null(strstr(rsh_error_detail(), "trainer0"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_the_text_is_read_and_printed),
        cmocka_unit_test(placements_are_equal_if_all_three_parts_are),
        cmocka_unit_test(malformed_placements_are_refused_by_kind),
        cmocka_unit_test(every_device_is_read_with_and_without_an_index),
        cmocka_unit_test(a_placement_must_be_a_rank_of_the_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
