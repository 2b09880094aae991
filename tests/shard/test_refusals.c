/* Wrong arguments on one rank, and runs that are abandoned: every rank gets an error, and no memory is read after it
 * was freed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <reshard.h>

#define RANKS 4

typedef struct scene {
    rsh_layout *from, *to;
    rsh_status status[RANKS];
} scene;

static void set_up(scene *s) {
    assert_int_equal(rsh_layout_parse("f32[16/x, 8] on x=4", &s->from), RSH_OK);
    assert_int_equal(rsh_layout_parse("f32[16, 8/x] on x=4", &s->to), RSH_OK);
}

static void tear_down(scene *s) {
    rsh_layout_free(s->from);
    rsh_layout_free(s->to);
}

static void expect_all(const scene *s, rsh_status want) {
    for (int r = 0; r < RANKS; r++) assert_int_equal(s->status[r], want);
}

static rsh_status reshard_to_nothing_on_rank_2(void *ctx, rsh_comm *comm) {
    scene *s = ctx;
    rsh_sharded *src = NULL, *dst = NULL;
    int rank = rsh_comm_rank(comm);
    rsh_status st = rsh_sharded_zeros(comm, s->from, &src);
    if (st) return st;
    s->status[rank] = rsh_reshard(src, rank == 2 ? NULL : s->to, NULL, &dst);
    if (dst) st = RSH_ERUNTIME;
    if (!st) st = rsh_reshard(src, s->to, NULL, &dst); /* the comm works as before */
    rsh_sharded_free(dst);
    rsh_sharded_free(src);
    return st;
}

static void a_missing_layout_on_one_rank_is_refused_on_all(void **state) {
    (void)state;
    scene s = {0};
    set_up(&s);
    assert_int_equal(rsh_run(RANKS, reshard_to_nothing_on_rank_2, &s), RSH_OK);
    expect_all(&s, RSH_EVALUE);
    tear_down(&s);
}

static rsh_status bind_nothing_on_rank_1(void *ctx, rsh_comm *comm) {
    scene *s = ctx;
    rsh_plan *plan = NULL;
    rsh_exec *e = NULL;
    float src[32] = {0}, dst[32];
    rsh_memory in = {src, NULL}, out = {dst, NULL};
    int rank = rsh_comm_rank(comm);
    rsh_status st = rsh_plan_new(s->from, s->to, NULL, &plan);
    if (st) return st;
    s->status[rank] = rsh_exec_bind(rank == 1 ? NULL : plan, comm, &in, &out, &e);
    rsh_plan_free(plan);
    return e ? RSH_ERUNTIME : RSH_OK;
}

static void a_missing_plan_on_one_rank_is_refused_on_all(void **state) {
    (void)state;
    scene s = {0};
    set_up(&s);
    assert_int_equal(rsh_run(RANKS, bind_nothing_on_rank_1, &s), RSH_OK);
    expect_all(&s, RSH_EVALUE);
    tear_down(&s);
}

/* Every rank begins a run; rank 0 frees its exec without waiting. */
static rsh_status begin_and_leave(void *ctx, rsh_comm *comm) {
    scene *s = ctx;
    rsh_plan *plan = NULL;
    rsh_exec *e = NULL;
    float src[32], dst[32];
    rsh_memory in = {src, NULL}, out = {dst, NULL};
    int rank = rsh_comm_rank(comm);
    for (int i = 0; i < 32; i++) src[i] = (float)(32 * rank + i);
    rsh_status st = rsh_plan_new(s->from, s->to, NULL, &plan);
    if (!st) st = rsh_exec_bind(plan, comm, &in, &out, &e);
    if (!st) st = rsh_exec_begin(e);
    if (!st && rank) st = rsh_exec_wait(e);
    rsh_exec_free(e);
    for (int i = 0; i < 32 && !st; i++)
        if (dst[i] != (float)(i / 2 * 8 + 2 * rank + i % 2)) st = RSH_ERUNTIME;
    rsh_plan_free(plan);
    return st;
}

static void freeing_an_exec_finishes_the_run_that_was_begun(void **state) {
    (void)state;
    scene s = {0};
    set_up(&s);
    assert_int_equal(rsh_run(RANKS, begin_and_leave, &s), RSH_OK);
    tear_down(&s);
}

static void options_are_checked_before_they_are_used(void **state) {
    (void)state;
    scene s = {0};
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    int64_t node = 0;
    rsh_plan *p;
    set_up(&s);
    o.node_of = &node;
    o.nnode_of = -1;
    assert_int_equal(rsh_plan_new(s.from, s.to, &o, &p), RSH_EVALUE);
    o.nnode_of = 1;
    assert_int_equal(rsh_plan_new(s.from, s.to, &o, &p), RSH_EVALUE);
    tear_down(&s);
}

static void strides_beyond_64_bits_are_refused(void **state) {
    (void)state;
    scene s = {0};
    rsh_plan *p;
    float data[512];
    int64_t far[2] = {INT64_MAX / 2, 1};
    rsh_memory src[RANKS], dst[RANKS];
    set_up(&s);
    for (int r = 0; r < RANKS; r++) {
        src[r] = (rsh_memory){data + 32 * r, r == 3 ? far : NULL};
        dst[r] = (rsh_memory){data + 256 + 32 * r, NULL};
    }
    assert_int_equal(rsh_plan_new(s.from, s.to, NULL, &p), RSH_OK);
    assert_int_equal(rsh_plan_run_local(p, NULL, src, dst), RSH_EVALUE);
    rsh_plan_free(p);
    tear_down(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_layout_on_one_rank_is_refused_on_all),
        cmocka_unit_test(a_missing_plan_on_one_rank_is_refused_on_all),
        cmocka_unit_test(freeing_an_exec_finishes_the_run_that_was_begun),
        cmocka_unit_test(options_are_checked_before_they_are_used),
        cmocka_unit_test(strides_beyond_64_bits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
