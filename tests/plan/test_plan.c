/* Plans whose numbers are known. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <reshard/plan.h>

#include "plan/impl.h"

static rsh_layout *layout(const char *text) {
    rsh_layout *l;
    if (rsh_layout_parse(text, &l)) fail_msg("%s: %s", text, rsh_error_detail());
    return l;
}

static rsh_plan *plan(const char *from, const char *to, int64_t ranks_per_node) {
    rsh_layout *a = layout(from), *b = layout(to);
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    rsh_plan *p;
    o.ranks_per_node = ranks_per_node;
    if (rsh_plan_new(a, b, &o, &p)) fail_msg("%s -> %s: %s", from, to, rsh_error_detail());
    rsh_layout_free(a);
    rsh_layout_free(b);
    return p;
}

static rsh_plan_totals totals(const char *from, const char *to, int64_t ranks_per_node) {
    rsh_plan *p = plan(from, to, ranks_per_node);
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    assert_int_equal(rsh_plan_get_totals(p, &t), RSH_OK);
    rsh_plan_free(p);
    return t;
}

static void rows_to_columns_move_all_but_the_diagonal(void **state) {
    (void)state;
    rsh_plan_totals t = totals("f32[64/x, 64] on x=4", "f32[64, 64/x] on x=4", 0);
    assert_int_equal(t.tensor_bytes, 16384);
    assert_int_equal(t.bytes_moved, 12288);
    assert_int_equal(t.lower_bound, 12288);
    assert_int_equal(t.bytes_local, 4096);
    assert_int_equal(t.max_send, 3072);
    assert_int_equal(t.max_recv, 3072);
    assert_int_equal(t.messages, 12);
    assert_int_equal(t.scratch_bytes, 0);
}

static rsh_plan *adjoint_of(const char *from, const char *to, int64_t ranks_per_node) {
    rsh_plan *p = plan(from, to, ranks_per_node), *adjoint;
    if (rsh_plan_adjoint(p, &adjoint)) fail_msg("%s -> %s: %s", from, to, rsh_error_detail());
    rsh_plan_free(p);
    return adjoint;
}

static void the_adjoint_of_an_all_reduce_costs_what_the_all_reduce_does(void **state) {
    (void)state;
    for (int64_t ranks_per_node = 0; ranks_per_node <= 4; ranks_per_node += 2) {
        const char *from = "f32[4096] on x=16 sum(x)", *to = "f32[4096] on x=16";
        rsh_plan_totals forth = totals(from, to, ranks_per_node), back = RSH_PLAN_TOTALS_INIT;
        rsh_plan *adjoint = adjoint_of(from, to, ranks_per_node);
        assert_int_equal(rsh_plan_get_totals(adjoint, &back), RSH_OK);
        assert_memory_equal(&forth, &back, sizeof back);
        rsh_plan_free(adjoint);
    }
}

static void adjoints_of_sums_and_averages_have_different_fingerprints(void **state) {
    (void)state;
    rsh_plan *sum = adjoint_of("f32[64] on x=4 sum(x)", "f32[64/x] on x=4", 0);
    rsh_plan *avg = adjoint_of("f32[64] on x=4 avg(x)", "f32[64/x] on x=4", 0);
    assert_true(rsh_plan_fingerprint(sum) != rsh_plan_fingerprint(avg));
    rsh_plan_free(sum);
    rsh_plan_free(avg);
}

/* Every rank combines a quarter in f32, and reads the other quarters in bf16. */
static void combined_slices_are_sent_in_the_dtype_of_the_destination(void **state) {
    (void)state;
    assert_int_equal(totals("f32[4096] on x=4 sum(x)", "bf16[4096] on x=4", 0).bytes_moved,
                     4 * 3 * 1024 * (4 + 2));
    assert_int_equal(totals("bf16[4096] on x=4 sum(x)", "f32[4096] on x=4", 0).bytes_moved,
                     4 * 3 * 1024 * (2 + 4));
}

/* The transpose of a copy to several ranks is a sum, and bool values cannot be added.  An axis of size 1 needs no
 * sum. */
static void a_copy_of_bool_has_an_adjoint_unless_it_needs_sums(void **state) {
    (void)state;
    static const char *const to[] = {"bool[4] on x=2", "bool[4] boxes 0,1:[0:4]", "bool[4] on x=2,y=1"};
    rsh_plan_free(adjoint_of("bool[4] on x=1", "bool[4] on x=1", 0));
    rsh_plan_free(adjoint_of("bool[4/y] on y=2", "bool[4/y] on x=1,y=2", 0));
    for (int i = 0; i < 3; i++) {
        rsh_plan *p = plan("bool[4/x] on x=2", to[i], 0), *adjoint = NULL;
        assert_int_equal(rsh_plan_adjoint(p, &adjoint), RSH_EUNSUP);
        assert_non_null(strstr(rsh_error_detail(), "bool values cannot be added"));
        rsh_plan_free(p);
    }
}

/* Counts the transfers of one of 2,048 ranks. */
static void the_adjoint_of_a_sum_has_few_transfers_in_a_share(void **state) {
    static const char *const from[] = {"f32[65536] on x=2048 sum(x)", "f32[65536] on dp=2,tp=1024 sum(tp)",
                                       "f32[65536] on dp=512,tp=4 sum(tp)"};
    static const char *const to[] = {"f32[65536] on x=2048", "f32[65536] on dp=2,tp=1024", "f32[65536] on dp=512,tp=4"};
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int64_t ranks_per_node = 0; ranks_per_node <= 16; ranks_per_node += 16) {
            rsh_plan *adjoint = adjoint_of(from[i], to[i], ranks_per_node);
            rsh_share *share;
            assert_int_equal(rsh_plan_share(adjoint, 5, &share), RSH_OK);
            assert_true(rsh_plan_nstages(adjoint) > 1);
            assert_true(share->ncopies + share->nreceives <= 2 * 2048);
            assert_true(share->nsends <= 2 * 2048);
            rsh_share_free(share);
            rsh_plan_free(adjoint);
        }
}

static void the_bound_of_an_adjoint_counts_elements_of_the_destination(void **state) {
    (void)state;
    rsh_plan *p = plan("f64[4] on x=2@[1,2] sum(x)", "f32[4]", 0), *adjoint;
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    assert_int_equal(rsh_plan_adjoint(p, &adjoint), RSH_OK);
    assert_int_equal(rsh_plan_get_totals(adjoint, &t), RSH_OK);
    assert_int_equal(t.bytes_moved, 32);
    assert_int_equal(t.lower_bound, 32);
    rsh_plan_free(adjoint);
    rsh_plan_free(p);
}

static void three_cut_dims_take_one_hop(void **state) {
    (void)state;
    rsh_plan_totals t = totals("f32[512/y, 512, 512/x] on x=4,y=2", "f32[512, 512/(x,y), 512] on x=4,y=2", 0);
    assert_int_equal(t.max_recv * 64, t.tensor_bytes * 7);
    assert_int_equal(t.bytes_moved, t.lower_bound);
}

static void sixty_five_thousand_ranks_have_exact_totals(void **state) {
    (void)state;
    rsh_plan_totals t = totals("f32[65536/x, 65536] on x=65536", "f32[65536, 65536/x] on x=65536", 0);
    assert_int_equal(t.bytes_moved, INT64_C(65536) * 65535 * 4);
    assert_int_equal(t.lower_bound, t.bytes_moved);
    assert_int_equal(t.messages, INT64_C(65536) * 65535);
    t = totals("f32[65536/x, 65536] on x=4096,r=16", "f32[65536, 65536/x] on x=4096,r=16", 0);
    assert_int_equal(t.bytes_moved, INT64_C(65536) * 4095 * 16 * 16 * 4);
    assert_int_equal(t.max_send, t.max_recv);
}

static void replicas_share_the_sending(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
        int k;
    } cases[] = {
        {"f32[1024, 1024] on r=4", "f32[1024, 1024/x] on x=8@4-11", 4},
        {"f32[1024, 1024] on r=4", "f32[1024, 1024/x] on x=5@4-8", 4},
        {"f32[1024, 1024] on r=2", "f32[1024/x, 1024] on x=3@2-4", 2},
        {"f32[1024/x, 1024] on x=2,r=2", "f32[1024/z, 1024] on y=2,z=2@4-7", 2},
        {"f32[1024, 1024] on r=3", "f32[1024, 1024] on s=4@3-6", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rsh_plan_totals t = totals(cases[i].from, cases[i].to, 0);
        int64_t senders = cases[i].k;
        if (strstr(cases[i].from, "x=2")) senders *= 2;
        if (100 * t.max_send * senders > 105 * t.bytes_moved)
            fail_msg("%s -> %s: one rank sends %lld of %lld bytes", cases[i].from, cases[i].to, (long long)t.max_send,
                     (long long)t.bytes_moved);
    }
}

static void small_cells_are_not_cut(void **state) {
    (void)state;
    rsh_plan_totals t = totals("f32[16] on r=4", "f32[16] on x=1@4-4", 0);
    assert_int_equal(t.messages, 1);
    t = totals("f32[262144] on r=4", "f32[262144] on x=1@4-4", 0);
    assert_int_equal(t.messages, 4);
    assert_int_equal(t.max_send, 262144);
}

static void a_byte_enters_a_node_once(void **state) {
    (void)state;
    rsh_plan_totals t = totals("f32[1024] on x=1", "f32[1024] on r=8@4-11", 4);
    assert_int_equal(t.bytes_between_nodes, 2 * 4096);
    assert_int_equal(t.lower_bound_between_nodes, 2 * 4096);
    assert_int_equal(t.bytes_moved, 8 * 4096);
    assert_int_equal(t.lower_bound, 8 * 4096);
}

/* Ranks 0 and 1 hold one copy of the second segment; ranks 2 and 3 hold another, in different flat ranges. */
static void a_copy_on_the_node_is_taken_first(void **state) {
    (void)state;
    static const char *const from = "f32[(60/x:20|64)]/y on x=2,y=2";
    rsh_plan *p = plan(from, "f32[124] on z=1@5-5", 0);
    assert_true(rshi_layout_irregular(p->pair[0].from));
    rsh_plan_free(p);
    int64_t nodes[] = {0, 0, 1, 1, 2, 1};
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    rsh_layout *a = layout(from), *b = layout("f32[124] on z=1@5-5");
    o.node_of = nodes;
    o.nnode_of = 6;
    assert_int_equal(rsh_plan_new(a, b, &o, &p), RSH_OK);
    assert_int_equal(rsh_plan_get_totals(p, &t), RSH_OK);
    assert_int_equal(t.bytes_moved, 4 * 124);
    assert_int_equal(t.bytes_between_nodes, 4 * 40); /* blocks 0 and 2, 20 elements each */
    assert_int_equal(t.lower_bound_between_nodes, 4 * 40);
    rsh_plan_free(p);
    rsh_layout_free(a);
    rsh_layout_free(b);
}

/* Moves from rank 0 to ranks of several nodes; checks how much the busiest sender sends, in percent of the tensor. */
static void no_rank_sends_to_every_node(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
        int64_t ranks_per_node, percent;
        int stages;
    } cases[] = {
        {"f32[4096, 4096] on w=1", "f32[4096, 4096] on x=16", 4, 100, 4}, /* once, to the ranks of its own node */
        {"f32[1048576] on w=1", "f32[1048576] on x=8", 2, 100, 4},
        {"f32[4096, 4096] on w=2@[0,4]", "f32[4096, 4096] on x=32", 4, 100,
         4}, /* two sources, each with other ranks on its node */
        {"f32[4096, 4096] on w=1", "f32[4096, 4096] on x=8", 1, 100, 3}, /* no other rank on its node */
        {"f32[4096, 4096] on w=1", "f32[4096, 4096] on x=12@4-15", 4, 100, 3}, /* only to ranks of other nodes */
        {"f32[4096, 4096] on w=1", "f32[4096, 4096] on x=8@1-8", 1, 100, 3},
        {"f32[4096, 4096] on w=1", "f32[4096, 4096] on x=10@4-13", 4, 106, 3}, /* nodes of 4, 4 and 2 */
        {"f32[4096, 4096] on w=2", "f32[4096, 4096] on x=32@4-35", 4, 100,
         3}, /* each of two sources sends half; then the receivers pass it on */
        {"f32[4096, 4096] on w=1", "f32[4096/c, 4096] on x=8,c=2@4-19", 4, 100, 3},
        {"f32[4096, 4096] on w=1", "f32[4096, 4096] on x=4@4-7", 4, 100, 2}, /* on one node nothing changes */
        /* all ranks send the same amount, so nothing can be gained */
        {"f32[4096/x, 4096] on x=16", "f32[4096, 4096] on x=16", 4, 93, 2},
        /* passing it on would take twice the bytes */
        {"bf16[4096, 4096] on w=1", "f32[4096, 4096] on x=8@1-8", 1, 800, 1},
        {"u8[32767] on w=1", "u8[32767] on x=8@1-8", 1, 800, 1},              /* smaller than two slices of 16 KiB */
        {"u8[65536] on w=1", "u8[65536] on x=8@1-8", 1, 175, 3},              /* four slices, passed on to 7 ranks */
        {"u8[131072] on w=1", "u8[131072] on x=8@1-8", 1, 100, 3},
        {"u8[4194304] on w=1", "u8[4194304] on x=1024@1024-2047", 16, 150,
         3}, /* too many ranks to compare both ways; slices of 64 KiB for 16 ranks */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rsh_plan *p = plan(cases[i].from, cases[i].to, cases[i].ranks_per_node);
        rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
        assert_int_equal(rsh_plan_get_totals(p, &t), RSH_OK);
        int64_t bytes =
            rsh_layout_count(rsh_plan_from(p, 0)) * (int64_t)rsh_dtype_size(rsh_layout_dtype(rsh_plan_from(p, 0)));
        if (rshi_plan_stages(p) != cases[i].stages || t.max_send * 100 / bytes > cases[i].percent)
            fail_msg("%s -> %s: %d stages, one rank sends %lld of %lld bytes", cases[i].from, cases[i].to,
                     rshi_plan_stages(p), (long long)t.max_send, (long long)bytes);
        assert_int_equal(t.bytes_moved, t.lower_bound);
        if (cases[i].from[0] != 'b') assert_int_equal(t.bytes_between_nodes, t.lower_bound_between_nodes);
        rsh_plan_free(p);
    }
}

/* Totals that overflow are an error, the largest that fit are exact, and planning itself still works. */
static void totals_that_do_not_fit_are_refused(void **state) {
    (void)state;
    static const char *const too_large[][2] = {
        {"u8[4611686018427387904]", "u8[4611686018427387904] on x=2"},
        {"f32[1152921504606846976]", "f32[1152921504606846976] on x=4"},
        {"f64[576460752303423488/x] on x=8", "f64[576460752303423488] on x=8"},
        {"u8[4611686018427387904] on x=2 max(x)", "u8[4611686018427387904]"},
        {"f32[1152921504606846976/x] on x=2,r=2", "f32[1152921504606846976/x:3] on r=4,x=4"},
    };
    for (size_t i = 0; i < sizeof too_large / sizeof *too_large; i++)
        for (int64_t per_node = 0; per_node < 3; per_node++) {
            rsh_plan *p = plan(too_large[i][0], too_large[i][1], per_node);
            rsh_plan_totals t = {sizeof t, .bytes_moved = 7};
            rsh_rank_totals v = RSH_RANK_TOTALS_INIT;
            assert_int_equal(rsh_plan_get_totals(p, &t), RSH_EVALUE);
            assert_non_null(strstr(rsh_error_detail(), "63 bits"));
            assert_int_equal(t.bytes_moved, 7);
            assert_int_equal(rsh_plan_get_rank_totals(p, 0, &v), RSH_EVALUE);
            rsh_plan_free(p);
        }
    rsh_plan_totals t = totals("u8[4611686018427387903] on w=1", "u8[4611686018427387903] on x=2@1-2", 0);
    assert_int_equal(t.bytes_moved, INT64_C(2) * 4611686018427387903);
    assert_int_equal(t.max_send, t.lower_bound);
    t = totals("u8[4611686018427387904/x] on x=1024", "u8[4611686018427387904/x:4096] on x=1024", 8);
    assert_int_equal(t.bytes_moved + t.bytes_local, INT64_C(4611686018427387904));
    assert_int_equal(t.bytes_moved, t.lower_bound);
}

static void a_reduction_to_replicas_scatters_and_gathers(void **state) {
    (void)state;
    rsh_plan_totals t = totals("f32[64, 64] on x=4 sum(x)", "f32[64, 64] on x=4", 0);
    assert_int_equal(t.bytes_moved, 2 * 3 * 16384);
    assert_int_equal(t.lower_bound, t.bytes_moved);
    assert_int_equal(t.max_recv, 2 * 3 * 4096);
}

static void shapes_that_differ_are_both_named(void **state) {
    (void)state;
    rsh_layout *a = layout("f32[4, 6]"), *b = layout("f32[6, 4]");
    rsh_plan *p;
    assert_int_equal(rsh_plan_new(a, b, NULL, &p), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "[4, 6]"));
    assert_non_null(strstr(rsh_error_detail(), "[6, 4]"));
    rsh_layout_free(a);
    rsh_layout_free(b);
}

static void a_rotation_of_ranks_is_relabelled_away(void **state) {
    (void)state;
    rsh_layout *from = layout("f32[64/x, 64] on x=8"), *to = layout("f32[64/x, 64] on x=8@[1,2,3,4,5,6,7,0]"), *better;
    rsh_plan *p;
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    bool exact = false;
    assert_int_equal(
        rsh_plan_relabel(1, (const rsh_layout *const *)&from, (const rsh_layout *const *)&to, NULL, &better, &exact),
        RSH_OK);
    assert_true(exact);
    assert_int_equal(rsh_plan_new(from, better, NULL, &p), RSH_OK);
    assert_int_equal(rsh_plan_get_totals(p, &t), RSH_OK);
    assert_int_equal(t.bytes_moved, 0);
    rsh_plan_free(p);
    rsh_layout_free(from);
    rsh_layout_free(to);
    rsh_layout_free(better);
}

static void a_layout_without_a_mesh_is_relabelled_too(void **state) {
    (void)state;
    rsh_layout *from = layout("f32[8/x] on x=2"), *to = layout("f32[8]"), *better, *other = layout("f32[6]");
    assert_int_equal(
        rsh_plan_relabel(1, (const rsh_layout *const *)&from, (const rsh_layout *const *)&to, NULL, &better, NULL),
        RSH_OK);
    assert_true(rsh_layout_equal(to, better));
    rsh_layout_free(better);
    assert_int_equal(
        rsh_plan_relabel(1, (const rsh_layout *const *)&from, (const rsh_layout *const *)&other, NULL, &better, NULL),
        RSH_EVALUE);
    rsh_layout_free(from);
    rsh_layout_free(to);
    rsh_layout_free(other);
}

static void long_cyclic_dims_cost_no_more_than_short_ones(void **state) {
    (void)state;
    rsh_plan_totals t = totals("u8[4000000000000/x:3] on x=4", "u8[4000000000000/x] on x=4", 0);
    assert_int_equal(t.bytes_moved, t.lower_bound);
    assert_int_equal(t.messages, 12);
}

/* Otherwise the share of a sum would grow with the square of the number of ranks. */
static void a_send_of_a_sum_lists_its_sender_only(void **state) {
    (void)state;
    enum { RANKS = 4096, ME = 5 };
    rsh_plan *p = plan("f32[4096] on x=4096 sum(x)", "f32[4096/x] on x=4096", 0);
    rsh_share *share;
    assert_int_equal(rsh_plan_share(p, ME, &share), RSH_OK);
    assert_int_equal(share->nreceives, 1);
    assert_int_equal(share->receives[0].nsrc, RANKS);
    assert_int_equal(share->nsends, RANKS - 1);
    for (int64_t i = 0; i < share->nsends; i++) {
        assert_int_equal(share->sends[i].nsrc, 1);
        assert_int_equal(share->sends[i].src[0].rank, ME);
        assert_int_equal(share->sends[i].src[0].first[0], share->sends[i].dst.rank);
    }
    rsh_share_free(share);
    rsh_plan_free(p);
}

static void sums_by_node_of_many_ranks_have_exact_totals(void **state) {
    (void)state;
    rsh_layout *a = layout("f32[2048] on x=2048 sum(x)"), *b = layout("f32[2048/x] on x=2048");
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    rsh_plan *p;
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    o.ranks_per_node = 8;
    o.reduce = RSH_REDUCE_BY_NODE;
    assert_int_equal(rsh_plan_new(a, b, &o, &p), RSH_OK);
    assert_int_equal(rsh_plan_get_totals(p, &t), RSH_OK);
    int64_t ranks = 2048, nodes = ranks / 8;
    assert_int_equal(t.bytes_between_nodes, 4 * ranks * (nodes - 1));
    /* every rank combines an eighth of 8 contributions, and reads one element of every node */
    assert_int_equal(t.max_recv, 4 * (7 * nodes + nodes));
    assert_int_equal(t.bytes_moved, 4 * (ranks * (7 * nodes + nodes) - nodes));
    rsh_plan_free(p);
    rsh_layout_free(a);
    rsh_layout_free(b);
}

/* Checks both buffers of a rank, which are half as large if many ranks share a node. */
static void buffers_are_smaller_where_many_ranks_share_a_node(void **state) {
    (void)state;
    const int64_t mib = 1 << 20;
    const char *few[] = {"f32[15360/x, 4096] on x=15", "f32[15360, 4096/x] on x=15"};
    const char *many[] = {"f32[16384/x, 4096] on x=16", "f32[16384, 4096/x] on x=16"};
    assert_int_equal(totals(few[0], few[1], 0).scratch_messages, 2 * mib);
    assert_int_equal(totals(many[0], many[1], 0).scratch_messages, mib);
    assert_int_equal(totals(many[0], many[1], 8).scratch_messages, 2 * mib);
    assert_int_equal(totals(many[0], many[1], 64).scratch_messages, mib);
}

static int64_t scratch_on_nodes(const int64_t *node_of, int64_t n) {
    rsh_layout *a = layout("f32[16384/x, 4096] on x=32"), *b = layout("f32[16384, 4096/x] on x=32");
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    rsh_plan *p;
    rsh_plan_totals t = RSH_PLAN_TOTALS_INIT;
    o.node_of = node_of;
    o.nnode_of = n;
    assert_int_equal(rsh_plan_new(a, b, &o, &p), RSH_OK);
    assert_int_equal(rsh_plan_get_totals(p, &t), RSH_OK);
    rsh_plan_free(p);
    rsh_layout_free(a);
    rsh_layout_free(b);
    return t.scratch_messages;
}

static void buffers_follow_the_fullest_node_of_a_map(void **state) {
    (void)state;
    int64_t node_of[32];
    for (int r = 0; r < 32; r++) node_of[r] = r % 3; /* nodes of 11, 11 and 10 ranks */
    assert_int_equal(scratch_on_nodes(node_of, 32), 2 << 20);
    for (int r = 0; r < 32; r++) node_of[r] = r % 2 ? 5 : r; /* 16 ranks on node 5, one rank on each other node */
    assert_int_equal(scratch_on_nodes(node_of, 32), 1 << 20);
    node_of[31] = 6;
    assert_int_equal(scratch_on_nodes(node_of, 32), 2 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_to_columns_move_all_but_the_diagonal),
        cmocka_unit_test(the_adjoint_of_an_all_reduce_costs_what_the_all_reduce_does),
        cmocka_unit_test(the_adjoint_of_a_sum_has_few_transfers_in_a_share),
        cmocka_unit_test(adjoints_of_sums_and_averages_have_different_fingerprints),
        cmocka_unit_test(combined_slices_are_sent_in_the_dtype_of_the_destination),
        cmocka_unit_test(a_copy_of_bool_has_an_adjoint_unless_it_needs_sums),
        cmocka_unit_test(the_bound_of_an_adjoint_counts_elements_of_the_destination),
        cmocka_unit_test(three_cut_dims_take_one_hop),
        cmocka_unit_test(sixty_five_thousand_ranks_have_exact_totals),
        cmocka_unit_test(replicas_share_the_sending),
        cmocka_unit_test(small_cells_are_not_cut),
        cmocka_unit_test(a_byte_enters_a_node_once),
        cmocka_unit_test(a_copy_on_the_node_is_taken_first),
        cmocka_unit_test(no_rank_sends_to_every_node),
        cmocka_unit_test(totals_that_do_not_fit_are_refused),
        cmocka_unit_test(a_reduction_to_replicas_scatters_and_gathers),
        cmocka_unit_test(shapes_that_differ_are_both_named),
        cmocka_unit_test(a_rotation_of_ranks_is_relabelled_away),
        cmocka_unit_test(a_layout_without_a_mesh_is_relabelled_too),
        cmocka_unit_test(long_cyclic_dims_cost_no_more_than_short_ones),
        cmocka_unit_test(a_send_of_a_sum_lists_its_sender_only),
        cmocka_unit_test(sums_by_node_of_many_ranks_have_exact_totals),
        cmocka_unit_test(buffers_are_smaller_where_many_ranks_share_a_node),
        cmocka_unit_test(buffers_follow_the_fullest_node_of_a_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
