/* Simulations whose results are known. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include <reshard.h>

static rsh_plan *plan(const char *from, const char *to, int64_t ranks_per_node, rsh_reduce_order reduce) {
    rsh_layout *a, *b;
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    rsh_plan *p = NULL;
    o.ranks_per_node = ranks_per_node;
    o.reduce = reduce;
    assert_int_equal(rsh_layout_parse(from, &a), RSH_OK);
    assert_int_equal(rsh_layout_parse(to, &b), RSH_OK);
    if (rsh_plan_new(a, b, &o, &p)) fail_msg("%s -> %s: %s", from, to, rsh_error_detail());
    rsh_layout_free(a);
    rsh_layout_free(b);
    return p;
}

/* Returns a machine with 1 GB/s of memory and network cards of 100 MB/s; runs and latency cost nothing. */
static rsh_machine machine(void) {
    rsh_machine m = RSH_MACHINE_INIT;
    m.memory = 1e9;
    m.nic = 1e8;
    return m;
}

static rsh_simulation simulate(const char *from, const char *to, int64_t ranks_per_node, const rsh_machine *m) {
    rsh_plan *p = plan(from, to, ranks_per_node, RSH_REDUCE_IN_ORDER);
    rsh_simulation s = RSH_SIMULATION_INIT;
    if (rsh_simulate(p, m, &s)) fail_msg("%s", rsh_error_detail());
    rsh_plan_free(p);
    return s;
}

static void assert_close(double found, double expected) {
    if (fabs(found - expected) > 1e-9 * fabs(expected)) fail_msg("%.12g, must be %.12g", found, expected);
}

static void one_node_copies_at_the_rate_of_its_memory(void **state) {
    (void)state;
    rsh_machine m = machine();
    rsh_simulation s = simulate("f32[1024/x, 1024] on x=4", "f32[1024, 1024/x] on x=4", 0, &m);
    assert_int_equal(s.nstages, 1);
    assert_int_equal(s.nodes, 1);
    assert_int_equal(s.stage[0].bytes_copied, 1 << 22);
    assert_close(s.seconds, (1 << 22) / 1e9);
    assert_close(s.lower_bound, s.seconds);
    assert_int_equal(s.limit, RSH_RESOURCE_MEMORY);
    m.latency = 1e-6;
    m.run_bytes = 64; /* 4096 rows cut into four: runs of 1 KiB */
    s = simulate("f32[1024/x, 1024] on x=4", "f32[1024, 1024/x] on x=4", 0, &m);
    assert_close(s.seconds, (double)(1 << 22) * (1 + 64.0 / 1024) / 1e9 + 1e-6);
    m.core = 1e8; /* four ranks together could be faster than one of them alone */
    s = simulate("f32[1024/x, 1024] on x=4", "f32[1024, 1024/x] on x=4", 0, &m);
    assert_int_equal(s.limit, RSH_RESOURCE_CORE);
}

static void a_transpose_and_a_sum_have_rates_of_their_own(void **state) {
    (void)state;
    rsh_machine m = machine();
    m.transposed = 2.5e8;
    rsh_simulation s = simulate("f32[1024/x, 1024] on x=2", "f32[1024, 1024/x] on x=2 order(1,0)", 0, &m);
    assert_close(s.seconds, (1 << 22) / 2.5e8);
    m.combined = 5e8;
    s = simulate("f32[1048576] on x=4 sum(x)", "f32[1048576/x] on x=4", 0, &m);
    assert_close(s.seconds, 2.5 * (1 << 22) / 5e8); /* four contributions are read and one result is written */
    assert_close(s.lower_bound, 2.5 * (1 << 22) / 1e9);
}

static void network_cards_limit_what_passes_between_nodes(void **state) {
    (void)state;
    rsh_machine m = machine();
    rsh_simulation s = simulate("f32[1024/x, 1024] on x=4", "f32[1024, 1024/x] on x=4", 2, &m);
    assert_int_equal(s.nodes, 2);
    assert_int_equal(s.stage[0].bytes_in, 1 << 20); /* a node has half of the rows and needs half of the columns */
    assert_int_equal(s.stage[0].bytes_out, 1 << 20);
    assert_close(s.stage[0].resource[RSH_RESOURCE_NIC_IN], (1 << 20) / 1e8);
    assert_close(s.lower_bound, (1 << 20) / 1e8);
    assert_true(s.limit == RSH_RESOURCE_NIC_IN || s.limit == RSH_RESOURCE_NIC_OUT);
    s = simulate("f32[1048576]", "f32[1048576] on x=8", 2, &m);
    assert_int_equal(s.nstages, 4);
    assert_close(s.stage[1].resource[RSH_RESOURCE_NIC_OUT], (1 << 22) / 1e8); /* the stage that scatters */
    assert_close(s.lower_bound, (1 << 22) / 1e8);
    assert_true(s.seconds >= s.lower_bound);
}

static void reductions_by_node_spare_the_network_cards(void **state) {
    (void)state;
    rsh_machine m = machine();
    rsh_simulation s[2] = {RSH_SIMULATION_INIT, RSH_SIMULATION_INIT};
    for (int i = 0; i < 2; i++) {
        rsh_plan *p = plan("f32[65536] on x=16 sum(x)", "f32[65536/x] on x=16", 4, i ? RSH_REDUCE_BY_NODE : 0);
        assert_int_equal(rsh_simulate(p, &m, &s[i]), RSH_OK);
        rsh_plan_free(p);
        assert_true(s[i].lower_bound > 0 && s[i].lower_bound <= s[i].seconds);
    }
    assert_close(s[0].stage[0].resource[RSH_RESOURCE_NIC_IN], 12 * 65536 / 1e8);
    assert_close(s[1].stage[1].resource[RSH_RESOURCE_NIC_IN], 3 * 65536 / 1e8);
    assert_true(s[1].seconds < s[0].seconds);
}

static void a_few_nodes_stand_for_many(void **state) {
    (void)state;
    rsh_machine m = machine();
    rsh_simulation s = simulate("u8[4096/x, 4096] on x=1024", "u8[4096, 4096/x] on x=1024", 8, &m);
    assert_in_range(s.ranks_walked, 1, 64);
    assert_int_equal(s.ranks, 1024);
    assert_int_equal(s.nodes, 128);
    assert_int_equal(s.stage[0].bytes_in, 4096 * 4096 / 128 - 8 * 4 * 8 * 4);
    rsh_machine none = RSH_MACHINE_INIT;
    none.memory = 1;
    s = simulate("u8[0]", "u8[0] on x=3", 0, &none);
    assert_close(s.seconds, 0);
}

static void refuse(rsh_machine m, int64_t ranks_per_node, const char *word) {
    rsh_plan *p = plan("u8[64/x] on x=4", "u8[64/x] on x=4@[1,2,3,0]", ranks_per_node, RSH_REDUCE_IN_ORDER);
    rsh_simulation s = {sizeof s, .ranks = 7};
    assert_int_equal(rsh_simulate(p, &m, &s), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), word));
    assert_int_equal(s.ranks, 7);
    rsh_plan_free(p);
}

static void machines_that_are_none_are_refused(void **state) {
    (void)state;
    rsh_machine m = machine();
    m.struct_size = 3;
    refuse(m, 0, "RSH_MACHINE_INIT");
    m = machine();
    m.memory = 0;
    refuse(m, 0, "memory");
    m = machine();
    m.latency = NAN;
    refuse(m, 0, "finite");
    m = machine();
    m.nic = -1;
    refuse(m, 0, "at least 0");
    m.nic = 0;
    refuse(m, 2, "2 nodes");
}

static void this_machine_can_be_measured(void **state) {
    (void)state;
    rsh_machine m = RSH_MACHINE_INIT;
    m.nic = 5;
    if (rsh_machine_calibrate(&m)) fail_msg("%s", rsh_error_detail());
    assert_true(m.memory > 0 && m.core > 0 && m.core <= m.memory && m.transposed > 0 && m.combined > 0);
    assert_true(m.latency > 0 && m.run_bytes >= 0 && m.nic == 5);
    m.struct_size = 0;
    assert_int_equal(rsh_machine_calibrate(&m), RSH_EVALUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_node_copies_at_the_rate_of_its_memory),
        cmocka_unit_test(a_transpose_and_a_sum_have_rates_of_their_own),
        cmocka_unit_test(network_cards_limit_what_passes_between_nodes),
        cmocka_unit_test(reductions_by_node_spare_the_network_cards),
        cmocka_unit_test(a_few_nodes_stand_for_many),
        cmocka_unit_test(machines_that_are_none_are_refused),
        cmocka_unit_test(this_machine_can_be_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
