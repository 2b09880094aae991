/* Struct sizes: options and results of programs with older and newer headers follow the rule of <reshard/status.h>. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <reshard/plan.h>
#include <reshard/simulate.h>

#include "base/base.h"

/* The struct as the library knows it; an older version had only the first member, a newer one has `more`. */
typedef struct known_opts {
    size_t struct_size;
    int64_t first, second;
} known_opts;
typedef struct newer_opts {
    size_t struct_size;
    int64_t first, second, more;
} newer_opts;
#define KNOWN_INIT {sizeof(known_opts), 1, 2}

static rsh_status read_opts(const void *given, known_opts *out) {
    *out = (known_opts)KNOWN_INIT;
    return RSHI_READ_OPTIONS(given, KNOWN_INIT, out);
}

static void assert_holds(const known_opts *o, int64_t first, int64_t second) {
    assert_int_equal(o->struct_size, sizeof *o);
    assert_int_equal(o->first, first);
    assert_int_equal(o->second, second);
}

static void no_options_are_the_defaults(void **state) {
    (void)state;
    known_opts o;
    assert_int_equal(read_opts(NULL, &o), RSH_OK);
    assert_holds(&o, 1, 2);
    assert_int_equal(read_opts(&(known_opts){sizeof(known_opts), 7, 8}, &o), RSH_OK);
    assert_holds(&o, 7, 8);
}

static void options_of_older_headers_get_the_defaults_that_they_lack(void **state) {
    (void)state;
    known_opts o;
    assert_int_equal(read_opts(&(known_opts){offsetof(known_opts, second), 7, 8}, &o), RSH_OK);
    assert_holds(&o, 7, 2);
    assert_int_equal(read_opts(&(known_opts){sizeof(size_t), 7, 8}, &o), RSH_OK);
    assert_holds(&o, 1, 2);
}

static void options_of_newer_headers_are_read_unless_they_use_what_is_new(void **state) {
    (void)state;
    known_opts o;
    assert_int_equal(read_opts(&(newer_opts){sizeof(newer_opts), 7, 8, 0}, &o), RSH_OK);
    assert_holds(&o, 7, 8);
    assert_int_equal(read_opts(&(newer_opts){sizeof(newer_opts), 7, 8, INT64_MIN}, &o), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "KNOWN_INIT"));
    assert_non_null(strstr(rsh_error_detail(), "update the library"));
    assert_holds(&o, 1, 2); /* nothing is written on failure */
}

static void sizes_that_cannot_be_right_are_refused(void **state) {
    (void)state;
    const size_t wrong[] = {0, 1, sizeof(size_t) - 1, sizeof(known_opts) + 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        known_opts o;
        assert_int_equal(read_opts(&(known_opts){wrong[i], 7, 8}, &o), RSH_EVALUE);
        assert_non_null(strstr(rsh_error_detail(), "start from KNOWN_INIT"));
        assert_int_equal(rshi_struct_check(&(known_opts){wrong[i], 0, 0}, sizeof o, "KNOWN_INIT"), RSH_EVALUE);
    }
    known_opts o = KNOWN_INIT;
    assert_int_equal(rsh_options_read(NULL, sizeof o, NULL, &o), RSH_EVALUE);
    assert_int_equal(rsh_options_read(NULL, sizeof o, "KNOWN_INIT", NULL), RSH_EVALUE);
    assert_int_equal(rsh_options_read(NULL, 3, "KNOWN_INIT", &o), RSH_EVALUE);
}

static void results_fill_what_the_caller_has_and_no_more(void **state) {
    (void)state;
    const known_opts made = {sizeof made, 7, 8};
    known_opts older = {offsetof(known_opts, second), -1, -2};
    newer_opts newer = {sizeof newer, -1, -2, -3};
    rshi_result_write(&made, sizeof made, &older);
    assert_true(older.struct_size == offsetof(known_opts, second) && older.first == 7 && older.second == -2);
    rshi_result_write(&made, sizeof made, &newer);
    assert_true(newer.struct_size == sizeof newer && newer.first == 7 && newer.second == 8 && newer.more == 0);
}

/* Public functions follow the rule too: plan options, and totals that an older program requests. */
static void plans_follow_the_rule(void **state) {
    (void)state;
    rsh_layout *from, *to;
    rsh_plan *p = NULL;
    struct {
        rsh_plan_opts known;
        char more[16];
    } opts = {.known = RSH_PLAN_OPTS_INIT};
    assert_int_equal(rsh_layout_parse("f32[8/x] on x=4", &from), RSH_OK);
    assert_int_equal(rsh_layout_parse("f32[8] on x=4", &to), RSH_OK);
    opts.known.struct_size = sizeof opts;
    assert_int_equal(rsh_plan_new(from, to, &opts.known, &p), RSH_OK);
    rsh_plan_free(p);
    opts.more[15] = 1;
    assert_int_equal(rsh_plan_new(from, to, &opts.known, &p), RSH_EVALUE);
    opts.known.struct_size = offsetof(rsh_plan_opts, ranks_per_node);
    opts.known.ranks_per_node = -1; /* beyond the given size, so not read */
    assert_int_equal(rsh_plan_new(from, to, &opts.known, &p), RSH_OK);

    rsh_plan_totals older = {offsetof(rsh_plan_totals, lower_bound), .bytes_moved = -1, .lower_bound = -1};
    assert_int_equal(rsh_plan_get_totals(p, &older), RSH_OK);
    assert_true(older.bytes_moved == 96 && older.lower_bound == -1);
    assert_int_equal(rsh_plan_get_totals(p, &(rsh_plan_totals){0}), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "RSH_PLAN_TOTALS_INIT"));
    assert_int_equal(rsh_plan_get_rank_totals(p, 0, &(rsh_rank_totals){0}), RSH_EVALUE);
    assert_int_equal(rsh_simulate(p, &(rsh_machine){sizeof(rsh_machine), .memory = 1}, &(rsh_simulation){0}),
                     RSH_EVALUE);
    rsh_plan_free(p);
    rsh_layout_free(from), rsh_layout_free(to);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_options_are_the_defaults),
        cmocka_unit_test(options_of_older_headers_get_the_defaults_that_they_lack),
        cmocka_unit_test(options_of_newer_headers_are_read_unless_they_use_what_is_new),
        cmocka_unit_test(sizes_that_cannot_be_right_are_refused),
        cmocka_unit_test(results_fill_what_the_caller_has_and_no_more),
        cmocka_unit_test(plans_follow_the_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
