/* Progress of adding up totals: what is reported to the caller, and what remains after the caller stops the work. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <reshard/alloc.h>
#include <reshard/plan.h>

/* One plan for each way in which totals are added up. */
static const struct kind {
    const char *from[2], *to[2]; /* layouts of one tensor or of two */
    int64_t ranks_per_node;
    bool by_node, adjoint, restarts;
} kinds[] = {
    {{"f32[96/x~, 7] on x=96"}, {"f32[96/x:3, 7] on x=96"}, 0, false, false, false},
    {{"f32[96/x~, 7] on x=96"}, {"f32[96/x:3, 7] on x=96"}, 8, false, false, false},
    {{"f32[96/x, 12] on x=8,y=12"}, {"f32[96, 12/y] on x=8,y=12"}, 8, false, false, false},
    {{"f32[96/x, 12] on x=8,y=12 sum(y)"}, {"f32[96/x, 12] on x=8,y=12"}, 8, false, false, false},
    {{"f32[96/x, 12] on x=8,y=12 sum(y)"}, {"f32[96/(x,y), 12] on x=8,y=12"}, 8, true, false, false},
    {{"f32[96, 12] boxes 0:[0:40, 0:12] 1:[40:96, 0:12]"}, {"f32[96/x, 12] on x=32"}, 0, false, false, false},
    {{"f32[96/x, 12] on x=8", "f32[96, 12/x] on x=6"}, {"f32[96, 12/x] on x=6", "f32[96/x, 12] on x=8"}, 0, 0, 0, 0},
    {{"f32[96/x, 12] on x=8,y=12 sum(y)"}, {"f32[96/(x,y), 12] on x=8,y=12"}, 8, true, true, false},
    {{"f32[1024, 1024] on r=4"}, {"f32[1024, 1024/x] on x=5@4-8"}, 0, false, false, false},
    {{"f32[96, 12] boxes 0:[0:40, 0:12] 1:[40:60, 0:12] 0:[60:96, 0:12]"}, {"f32[96/x, 12] on x=32"}, 0, 0, 0, true},
};
#define KINDS (int)(sizeof kinds / sizeof *kinds)

static rsh_plan *make(const struct kind *k) {
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    rsh_layout *from[2] = {NULL, NULL}, *to[2] = {NULL, NULL};
    rsh_plan *p, *adjoint;
    int64_t n = k->from[1] ? 2 : 1;
    o.ranks_per_node = k->ranks_per_node;
    o.reduce = k->by_node ? RSH_REDUCE_BY_NODE : RSH_REDUCE_IN_ORDER;
    for (int64_t i = 0; i < n; i++)
        if (rsh_layout_parse(k->from[i], &from[i]) || rsh_layout_parse(k->to[i], &to[i]))
            fail_msg("%s", rsh_error_detail());
    if (rsh_plan_new_many(n, (const rsh_layout *const *)from, (const rsh_layout *const *)to, &o, &p))
        fail_msg("%s", rsh_error_detail());
    for (int64_t i = 0; i < n; i++) rsh_layout_free(from[i]), rsh_layout_free(to[i]);
    if (!k->adjoint) return p;
    assert_int_equal(rsh_plan_adjoint(p, &adjoint), RSH_OK);
    rsh_plan_free(p);
    return adjoint;
}

/* What was reported to a caller. */
typedef struct told {
    int64_t calls, stop; /* stop: number of the call that stops the work; -1: none */
    int totals;          /* number of different totals */
    uint64_t done, total;
} told;

static int tell(void *ctx, uint64_t done, uint64_t total) {
    told *t = ctx;
    assert_true(done <= total && total > 0);
    if (total != t->total) {
        assert_int_equal(done, 0);
        t->totals++;
    } else {
        assert_true(done > t->done);
    }
    t->done = done;
    t->total = total;
    return t->calls++ == t->stop;
}

static void what_is_told_rises_to_the_total(void **state) {
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        rsh_plan *p = make(&kinds[i]), *q = make(&kinds[i]);
        rsh_plan_totals with = RSH_PLAN_TOTALS_INIT, without = RSH_PLAN_TOTALS_INIT;
        told t = {.stop = -1};
        assert_int_equal(rsh_plan_get_totals_with(p, tell, &t, &with), RSH_OK);
        assert_int_equal(t.done, t.total);
        assert_int_equal(t.totals, kinds[i].restarts ? 2 : 1);
        assert_true(t.calls > 5 && t.calls <= 2 * 1002);
        assert_int_equal(rsh_plan_get_totals(q, &without), RSH_OK);
        assert_memory_equal(&with, &without, sizeof with);
        assert_int_equal(rsh_plan_fingerprint(p), rsh_plan_fingerprint(q));
        rsh_plan_free(p);
        rsh_plan_free(q);
    }
}

static void many_ranks_are_told_a_thousand_times_at_most(void **state) {
    (void)state;
    rsh_plan *p = make(&(struct kind){{"f32[65536/x~, 7] on x=65536"}, {"f32[65536/x:3, 7] on x=65536"}, 8, 0, 0, 0});
    rsh_plan_totals totals = RSH_PLAN_TOTALS_INIT;
    told t = {.stop = -1};
    assert_int_equal(rsh_plan_get_totals_with(p, tell, &t, &totals), RSH_OK);
    assert_true(t.calls > 500 && t.calls <= 1002);
    rsh_plan_free(p);
}

static void totals_that_are_kept_are_not_told_again(void **state) {
    (void)state;
    rsh_plan *p = make(&kinds[0]);
    rsh_plan_totals first = RSH_PLAN_TOTALS_INIT, again = RSH_PLAN_TOTALS_INIT;
    told t = {.stop = 0};
    assert_int_equal(rsh_plan_get_totals_with(p, NULL, NULL, &first), RSH_OK);
    assert_int_equal(rsh_plan_get_totals_with(p, tell, &t, &again), RSH_OK);
    assert_int_equal(t.calls, 0);
    assert_memory_equal(&first, &again, sizeof first);
    rsh_plan_free(p);
}

/* Stops at each call in turn, until there are not so many calls. */
static void a_caller_may_stop_it_at_any_time(void **state) {
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        rsh_plan *p = make(&kinds[i]);
        rsh_plan_totals totals = RSH_PLAN_TOTALS_INIT, untouched = RSH_PLAN_TOTALS_INIT;
        uint64_t live = rsh_alloc_get_stats().live;
        memset(&totals, 7, sizeof totals);
        totals.struct_size = sizeof totals;
        untouched = totals;
        for (int64_t stop = 0;; stop++) {
            told t = {.stop = stop};
            rsh_status st = rsh_plan_get_totals_with(p, tell, &t, &totals);
            if (!st) break;
            assert_int_equal(st, RSH_ERUNTIME);
            assert_non_null(strstr(rsh_error_detail(), "stopped by the caller"));
            assert_int_equal(t.calls, stop + 1);
            assert_memory_equal(&totals, &untouched, sizeof totals);
            assert_int_equal(rsh_alloc_get_stats().live, live);
        }
        assert_int_equal(rsh_alloc_get_stats().live, live + 1); /* the plan keeps the totals */
        rsh_plan_free(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_told_rises_to_the_total),
        cmocka_unit_test(many_ranks_are_told_a_thousand_times_at_most),
        cmocka_unit_test(totals_that_are_kept_are_not_told_again),
        cmocka_unit_test(a_caller_may_stop_it_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
