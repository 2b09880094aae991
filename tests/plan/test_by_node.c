/* Reductions by node whose bytes, scratch and bits are known. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <reshard.h>

static rsh_plan *plan(const char *from, const char *to, const rsh_plan_opts *opts, rsh_status expected) {
    rsh_layout *a, *b;
    rsh_plan *p = NULL;
    assert_int_equal(rsh_layout_parse(from, &a), RSH_OK);
    assert_int_equal(rsh_layout_parse(to, &b), RSH_OK);
    rsh_status status = rsh_plan_new(a, b, opts, &p);
    if (status != expected) fail_msg("%s -> %s: %s: %s", from, to, rsh_status_name(status), rsh_error_detail());
    rsh_layout_free(a);
    rsh_layout_free(b);
    return p;
}

static rsh_plan_opts by_node(int64_t ranks_per_node) {
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    o.ranks_per_node = ranks_per_node;
    o.reduce = RSH_REDUCE_BY_NODE;
    return o;
}

static rsh_plan_totals totals(const char *from, const char *to, const rsh_plan_opts *opts) {
    rsh_plan *p = plan(from, to, opts, RSH_OK);
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    assert_int_equal(rsh_plan_get_totals(p, &t), RSH_OK);
    rsh_plan_free(p);
    return t;
}

static void a_node_sends_one_result_and_not_every_contribution(void **state) {
    (void)state;
    rsh_plan_opts o = by_node(4), in_order = by_node(4);
    in_order.reduce = RSH_REDUCE_IN_ORDER;
    const char *from = "f32[1024, 64] on x=16 sum(x)";
    const char *rows = "f32[1024/x, 64] on x=16", *all = "f32[1024, 64] on x=16";
    int64_t tensor = 1024 * 64 * 4;
    rsh_plan_totals t = totals(from, rows, &o);
    assert_int_equal(totals(from, rows, &in_order).bytes_between_nodes, 12 * tensor);
    assert_int_equal(t.bytes_between_nodes, 3 * tensor); /* each rank reads one result of each other node */
    assert_int_equal(t.scratch_bytes, tensor / 4);       /* the four ranks of a node share the work */
    t = totals(from, all, &o);
    assert_int_equal(totals(from, all, &in_order).bytes_between_nodes, (12 + 3) * tensor);
    assert_int_equal(t.bytes_between_nodes, (3 + 3) * tensor); /* and results that others combined enter a node once */
}

static void small_floats_are_combined_by_node_where_that_saves_bytes(void **state) {
    (void)state;
    rsh_plan_opts two = by_node(2), four = by_node(4);
    rsh_plan_totals t = totals("bf16[4096] on x=8 sum(x)", "bf16[4096/x] on x=8", &two);
    assert_int_equal(t.scratch_bytes, 0); /* four results of 4 bytes, eight contributions of 2 */
    assert_int_equal(t.bytes_between_nodes, 6 * 4096 * 2);
    t = totals("bf16[4096] on x=8 sum(x)", "bf16[4096/x] on x=8", &four);
    assert_int_equal(t.scratch_bytes, 4096); /* a quarter of the elements, as f32 */
    assert_int_equal(t.bytes_between_nodes, 4096 * 4);
}

static void a_ceiling_below_the_scratch_is_refused(void **state) {
    (void)state;
    rsh_plan_opts o = by_node(4);
    o.has_max_scratch = true;
    o.max_scratch_bytes = 4096;
    rsh_plan_free(plan("f32[4096] on x=8 sum(x)", "f32[4096/x] on x=8", &o, RSH_OK));
    o.max_scratch_bytes = 4095;
    assert_null(plan("f32[4096] on x=8 sum(x)", "f32[4096/x] on x=8", &o, RSH_ENOMEM));
    assert_non_null(strstr(rsh_error_detail(), "4096"));
    assert_non_null(strstr(rsh_error_detail(), "4095"));
    o.messages = true; /* buffers and scratch together */
    o.max_scratch_bytes = 4096 + 4;
    assert_null(plan("f32[4096] on x=8 sum(x)", "f32[4096/x] on x=8", &o, RSH_ENOMEM));
    o.max_scratch_bytes = 4096 + 200;
    rsh_plan_totals t = totals("f32[4096] on x=8 sum(x)", "f32[4096/x] on x=8", &o);
    assert_in_range(t.scratch_bytes, 4096, 4096 + 200);
}

/* Sums one element over eight ranks: 1e8 absorbs a single 3, but 6, the sum of two, changes the result. */
static float sum_of_eight(const rsh_plan_opts *opts) {
    float value[8] = {1e8f, 0, 3, 3, -1e8f, 0, 0, 0}, sum = 0;
    rsh_memory src[8], dst = {.data = &sum};
    for (int r = 0; r < 8; r++) src[r] = (rsh_memory){.data = &value[r]};
    rsh_plan *p = plan("f32[1] on x=8 sum(x)", "f32[1]", opts, RSH_OK);
    assert_int_equal(rsh_plan_run_local(p, NULL, src, &dst), RSH_OK);
    rsh_plan_free(p);
    return sum;
}

static void nodes_are_combined_in_the_order_of_their_lowest_position(void **state) {
    (void)state;
    rsh_plan_opts o = by_node(2), map = by_node(0);
    assert_true(sum_of_eight(NULL) == 0.0f);
    assert_true(sum_of_eight(&o) == 8.0f); /* 1e8 + 6 is 100000008 */
    o.ranks_per_node = 4;
    assert_true(sum_of_eight(&o) == 0.0f); /* 3 and 3 follow 1e8 on the first node */
    static const int64_t node_of[8] = {9, 9, 9, 4, 9, 4, 9, 9}; /* 1e8, 3 and -1e8 on one node, 3 on the other */
    map.node_of = node_of;
    map.nnode_of = 8;
    assert_true(sum_of_eight(&map) == 3.0f);
}

static void a_share_states_its_scratch_and_says_what_lies_there(void **state) {
    (void)state;
    rsh_plan_opts o = by_node(2);
    rsh_plan *p = plan("bf16[64] on x=8@[7,6,5,4,3,2,1,0] sum(x)", "bf16[64]", &o, RSH_OK);
    rsh_share *share;
    assert_int_equal(rsh_plan_share(p, 3, &share), RSH_OK);
    assert_null(share->scratch); /* four results of 4 bytes are as many as eight contributions of 2 */
    rsh_share_free(share);
    rsh_plan_free(p);
    p = plan("f32[64] on x=8@[7,6,5,4,3,2,1,0] sum(x)", "f32[64]", &o, RSH_OK);
    assert_int_equal(rsh_plan_share(p, 3, &share), RSH_OK);
    assert_int_equal(share->scratch[0], 32);
    assert_int_equal(share->nreceives, 1);
    const rsh_transfer *t = &share->receives[0];
    assert_true(t->dst.in_scratch && !t->dst.in_dst && t->stage == 0 && t->nsrc == 2 && t->count == 32);
    assert_true(t->src[0].rank == 3 && t->src[1].rank == 2 && !t->src[0].in_scratch); /* in the order of positions */
    assert_int_equal(share->nsends, 2); /* to rank 2, for its slice; and the rank's own result */
    rsh_share_free(share);
    rsh_plan_free(p);
}

/* What a rank does in a plan: transfers of all kinds, and elements of scratch. */
static int64_t work_of(const rsh_plan *p, int64_t rank, int64_t *scratch) {
    rsh_share *share;
    assert_int_equal(rsh_plan_share(p, rank, &share), RSH_OK);
    int64_t n = share->ncopies + share->nreceives + share->nsends;
    *scratch = share->scratch ? share->scratch[0] : 0;
    rsh_share_free(share);
    return n;
}

/* On one node, or if every sum stays inside its node, all destinations read the contributions in order. */
static void sums_inside_nodes_are_planned_as_in_order(void **state) {
    (void)state;
    static const char *const from[] = {"f32[4096] on x=4 sum(x)", "f32[4096/y] on y=4,x=4 sum(x)",
                                       "f32[4096/y] on y=4,x=4 sum(x)", "f32[4096] on x=4 sum(x)"};
    static const char *const to[] = {"f32[4096/x] on x=4", "f32[4096/(y,x)] on y=4,x=4", "f32[4096/y] on y=4,x=4",
                                     "f8e4m3[4096/x] on x=4@4-7"};
    for (int i = 0; i < 4; i++) {
        rsh_plan_opts o = by_node(4), in_order = by_node(4);
        in_order.reduce = RSH_REDUCE_IN_ORDER;
        rsh_plan *p = plan(from[i], to[i], &o, RSH_OK), *q = plan(from[i], to[i], &in_order, RSH_OK);
        rsh_plan_totals t = totals(from[i], to[i], &o), u = totals(from[i], to[i], &in_order);
        int64_t scratch, unused;
        assert_memory_equal(&t, &u, sizeof t);
        assert_int_equal(t.scratch_bytes, 0);
        assert_int_equal(rsh_plan_nstages(p), rsh_plan_nstages(q));
        for (int64_t r = 0; r < 16; r++) {
            assert_int_equal(work_of(p, r, &scratch), work_of(q, r, &unused));
            assert_int_equal(scratch, 0);
        }
        rsh_plan_free(p);
        rsh_plan_free(q);
    }
}

/* Every replica of the sum is on a node of its own, and serves the ranks there.  This once took minutes. */
static void replicas_on_nodes_of_their_own_are_read_in_order(void **state) {
    (void)state;
    rsh_plan_opts o = by_node(8), in_order = by_node(8);
    in_order.reduce = RSH_REDUCE_IN_ORDER;
    const char *from = "f32[65536] on dp=256,tp=8 sum(tp)", *to = "f32[65536] on dp=256,tp=8";
    rsh_plan_totals t = totals(from, to, &o), u = totals(from, to, &in_order);
    assert_memory_equal(&t, &u, sizeof t);
}

/* Each replica is on two nodes, and rank 0 has contribution 0 of one on its own. */
static void replicas_on_several_nodes_are_combined(void **state) {
    (void)state;
    rsh_plan_opts o = by_node(2);
    assert_int_equal(totals("f32[4096] on r=2,x=4 sum(x)", "f32[4096]", &o).scratch_bytes, 2048 * 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_sends_one_result_and_not_every_contribution),
        cmocka_unit_test(small_floats_are_combined_by_node_where_that_saves_bytes),
        cmocka_unit_test(a_ceiling_below_the_scratch_is_refused),
        cmocka_unit_test(nodes_are_combined_in_the_order_of_their_lowest_position),
        cmocka_unit_test(a_share_states_its_scratch_and_says_what_lies_there),
        cmocka_unit_test(sums_inside_nodes_are_planned_as_in_order),
        cmocka_unit_test(replicas_on_nodes_of_their_own_are_read_in_order),
        cmocka_unit_test(replicas_on_several_nodes_are_combined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
