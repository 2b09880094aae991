/* Failures: if a rank differs, rejects its arguments, runs out of memory or stays away, the others never hang. */
#include "ramp.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Four ranks, one of which may do something wrong; afterwards, if requested, all ranks reshard as usual. */
typedef struct world world;
typedef rsh_status (*act)(world *w, rsh_sharded *src);
struct world {
    rsh_layout *from, *to;
    rsh_plan_opts opts;
    int odd_rank;
    act odd;
    bool again;
    rsh_status first[RANKS], second[RANKS];
    char sentence[RANKS][256];
    int64_t n; /* number of the allocation that fails */
};

static world world_of(const char *from, const char *to) {
    world w = {.from = parsed(from), .to = parsed(to), .odd_rank = -1};
    w.opts = (rsh_plan_opts)RSH_PLAN_OPTS_INIT;
    alarm(PATIENCE);
    return w;
}

static void world_end(world *w) {
    rsh_layout_free(w->from);
    rsh_layout_free(w->to);
    alarm(0);
}

static rsh_status reshard_to(rsh_sharded *src, const rsh_layout *to, const rsh_plan_opts *opts) {
    rsh_sharded *dst = NULL;
    rsh_status status = rsh_reshard(src, to, opts, &dst);
    if (status == RSH_OK) status = check_result(dst);
    rsh_sharded_free(dst);
    return status;
}

static rsh_status as_usual(world *w, rsh_sharded *src) { return reshard_to(src, w->to, &w->opts); }

static rsh_status live(void *ctx, rsh_comm *comm) {
    world *w = ctx;
    int r = rsh_comm_rank(comm);
    rsh_sharded *src = NULL;
    rsh_status status = make_source(comm, w->from, &src);
    if (status != RSH_OK) return status;
    w->first[r] = r == w->odd_rank ? w->odd(w, src) : as_usual(w, src);
    snprintf(w->sentence[r], sizeof w->sentence[r], "%s", w->first[r] == RSH_OK ? "" : rsh_error_detail());
    if (w->again) w->second[r] = as_usual(w, src);
    rsh_sharded_free(src);
    return RSH_OK;
}

static void run(world *w) {
    rsh_status status = rsh_run(RANKS, live, w);
    if (status != RSH_OK) fail_msg("%s: %s", rsh_status_name(status), rsh_error_detail());
}

static void expect_on_all(const world *w, rsh_status expected) {
    for (int r = 0; r < RANKS; r++)
        if (w->first[r] != expected)
            fail_msg("rank %d: %s, not %s: %s", r, rsh_status_name(w->first[r]), rsh_status_name(expected),
                     w->sentence[r]);
}

static void expect_usable(const world *w) {
    for (int r = 0; r < RANKS; r++)
        if (w->second[r] != RSH_OK) fail_msg("afterwards rank %d: %s", r, rsh_status_name(w->second[r]));
}

static rsh_status to_another_layout(world *w, rsh_sharded *src) {
    (void)w;
    rsh_layout *other = NULL;
    rsh_status status = rsh_layout_parse("f32[12, 8/x] on x=2", &other);
    if (status == RSH_OK) status = reshard_to(src, other, NULL);
    rsh_layout_free(other);
    return status;
}

static rsh_status with_other_options(world *w, rsh_sharded *src) {
    rsh_plan_opts opts = w->opts;
    opts.messages = !opts.messages;
    return reshard_to(src, w->to, &opts);
}

static rsh_status with_another_call(world *w, rsh_sharded *src) {
    (void)w;
    rsh_digest d;
    return rsh_sharded_digest(src, &d);
}

static rsh_status with_a_barrier(world *w, rsh_sharded *src) {
    (void)w;
    return rsh_comm_barrier(rsh_sharded_comm(src));
}

static void expect_words(const world *w, const char *words) {
    for (int r = 0; r < RANKS; r++)
        if (!strstr(w->sentence[r], words)) fail_msg("rank %d: no word of %s: %s", r, words, w->sentence[r]);
}

static void one_odd_rank(act odd, rsh_status expected, const char *words) {
    for (int r = 0; r < RANKS; r++) {
        world w = world_of("f32[12/x, 8] on x=4", "f32[12, 8/x] on x=4");
        w.odd_rank = r;
        w.odd = odd;
        w.again = true;
        run(&w);
        expect_on_all(&w, expected);
        expect_words(&w, words);
        expect_usable(&w);
        world_end(&w);
    }
}

static void a_rank_with_another_layout_is_found_by_all(void **state) {
    (void)state;
    one_odd_rank(to_another_layout, RSH_EMISMATCH, "on x=2");
}

static void a_rank_with_other_options_is_found_by_all(void **state) {
    (void)state;
    one_odd_rank(with_other_options, RSH_EMISMATCH, "options");
}

static void a_rank_with_another_call_is_found_by_all(void **state) {
    (void)state;
    one_odd_rank(with_another_call, RSH_EMISMATCH, "digest");
}

static void a_rank_in_a_barrier_is_found_by_all(void **state) {
    (void)state;
    one_odd_rank(with_a_barrier, RSH_EMISMATCH, "barrier");
}

static rsh_status leave(world *w, rsh_sharded *src) {
    (void)w;
    (void)src;
    return RSH_OK;
}

static void a_rank_with_one_call_fewer_leaves_nobody_waiting(void **state) {
    (void)state;
    for (int odd = 0; odd < RANKS; odd++) {
        world w = world_of("f32[12/x, 8] on x=4", "f32[12, 8/x] on x=4");
        w.odd_rank = odd;
        w.odd = leave;
        run(&w);
        for (int r = 0; r < RANKS; r++) assert_int_equal(w.first[r], r == odd ? RSH_OK : RSH_EPEER);
        world_end(&w);
    }
}

static rsh_status with_little_memory(world *w, rsh_sharded *src) {
    rsh_sharded *dst = NULL;
    rsh_alloc_fail_at(w->n);
    rsh_status status = rsh_reshard(src, w->to, &w->opts, &dst);
    rsh_alloc_fail_at(-1);
    if (status == RSH_OK) status = check_result(dst);
    rsh_sharded_free(dst);
    return status;
}

static rsh_status count_requests(world *w, rsh_sharded *src) {
    uint64_t before = rsh_alloc_get_stats().allocations;
    rsh_status status = as_usual(w, src);
    w->n = (int64_t)(rsh_alloc_get_stats().allocations - before);
    return status;
}

static int64_t requests(const char *from, const char *to, const rsh_plan_opts *opts, int odd_rank) {
    world w = world_of(from, to);
    w.opts = *opts;
    w.odd_rank = odd_rank;
    w.odd = count_requests;
    run(&w);
    expect_on_all(&w, RSH_OK);
    world_end(&w);
    return w.n;
}

/* All ranks return the same status, and the next move works.  If memory that is not essential is lacking, the call may
 * succeed. */
static void expect_one_answer(const world *w) {
    for (int r = 0; r < RANKS; r++) {
        if (w->first[r] != RSH_OK && w->first[r] != RSH_ENOMEM)
            fail_msg("request %d fails, rank %d: %s: %s", (int)w->n, r, rsh_status_name(w->first[r]), w->sentence[r]);
        if (w->first[r] != w->first[0])
            fail_msg("request %d fails: rank 0 has %s, rank %d %s", (int)w->n, rsh_status_name(w->first[0]), r,
                     rsh_status_name(w->first[r]));
        if (w->second[r] != RSH_OK)
            fail_msg("after request %d failed, rank %d: %s", (int)w->n, r, rsh_status_name(w->second[r]));
    }
}

static void fail_every_request(const char *from, const char *to, bool messages, int odd_rank) {
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    opts.messages = messages;
    int64_t all = requests(from, to, &opts, odd_rank);
    for (int64_t n = 0; n <= all; n++) {
        world w = world_of(from, to);
        w.opts = opts;
        w.odd_rank = odd_rank;
        w.odd = with_little_memory;
        w.n = n;
        w.again = true;
        run(&w);
        expect_one_answer(&w);
        world_end(&w);
    }
}

static void a_rank_without_memory_tells_the_others(void **state) {
    (void)state;
    fail_every_request("f32[12/x, 8] on x=4", "f32[12, 8/x] on x=4", false, 1);
    fail_every_request("f32[12, 8/x:1]/y on x=2,y=2", "f32[12, 8] boxes 0:[0:5,0:8] 3,1:[5:12,0:3] 2:[5:12,3:8]", false,
                       2);
}

static void a_rank_without_memory_for_messages_tells_the_others(void **state) {
    (void)state;
    fail_every_request("f32[12/x, 8] on x=4", "f32[12, 8/x] on x=4", true, 0);
    fail_every_request("f32[7, 5] on x=1@[3]", "f32[7/x, 5] on x=4 order(1,0)", true, 3);
}

static void a_destination_outside_the_comm_is_refused_by_all(void **state) {
    (void)state;
    world w = world_of("f32[12/x] on x=4", "f32[12/x] on x=5");
    run(&w);
    expect_on_all(&w, RSH_EVALUE);
    world_end(&w);
}

static rsh_status make_outside(void *ctx, rsh_comm *comm) {
    rsh_sharded *s = NULL;
    rsh_status status = rsh_sharded_empty(comm, ctx, &s);
    rsh_sharded_free(s);
    return status;
}

static void a_source_outside_the_comm_is_refused(void **state) {
    (void)state;
    rsh_layout *l = parsed("f32[12/x] on x=2@[0,7]");
    alarm(PATIENCE);
    assert_int_equal(rsh_run(RANKS, make_outside, l), RSH_EVALUE);
    alarm(0);
    rsh_layout_free(l);
}

static float row[RANKS][16], apart[RANKS][16];

/* Rank 2 passes a destination that begins inside its source. */
static rsh_status overlap(void *ctx, rsh_comm *comm) {
    world *w = ctx;
    int r = rsh_comm_rank(comm);
    rsh_memory from = {row[r], NULL}, to = {r == 2 ? row[r] + 1 : apart[r], NULL};
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_status status = rsh_sharded_wrap(comm, w->from, &from, &src);
    if (status == RSH_OK) status = rsh_sharded_wrap(comm, w->to, &to, &dst);
    if (status == RSH_OK) w->first[r] = rsh_reshard_into(src, dst, NULL);
    snprintf(w->sentence[r], sizeof w->sentence[r], "%s", rsh_error_detail());
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    return status;
}

static void source_and_destination_may_not_overlap(void **state) {
    (void)state;
    world w = world_of("f32[16/x] on x=4", "f32[16/x:1] on x=4");
    assert_int_equal(rsh_run(RANKS, overlap, &w), RSH_OK);
    expect_on_all(&w, RSH_EVALUE);
    world_end(&w);
}

static void source_and_destination_may_not_overlap_locally_either(void **state) {
    (void)state;
    rsh_layout *whole = parsed("f32[8]"), *halves = parsed("f32[8] boxes 0:[4:8] 0:[0:4]");
    rsh_plan *plan = NULL;
    rsh_memory src = {row[0], NULL}, dst[] = {{apart[0], NULL}, {row[0] + 2, NULL}};
    assert_int_equal(rsh_plan_new(whole, halves, NULL, &plan), RSH_OK);
    assert_int_equal(rsh_plan_run_local(plan, NULL, &src, dst), RSH_EVALUE);
    rsh_plan_free(plan);
    rsh_layout_free(whole);
    rsh_layout_free(halves);
}

static void a_comm_with_an_exec_is_not_freed(void **state) {
    (void)state;
    rsh_layout *l = parsed("f32[4]");
    rsh_comm *comm = NULL;
    rsh_plan *plan = NULL;
    rsh_exec *e = NULL;
    float a[4] = {1, 2, 3, 4}, b[4] = {0};
    rsh_memory src = {a, NULL}, dst = {b, NULL};
    assert_int_equal(rsh_comm_threads(1, &comm), RSH_OK);
    assert_int_equal(rsh_plan_new(l, l, NULL, &plan), RSH_OK);
    assert_int_equal(rsh_exec_bind(plan, comm, &src, &dst, &e), RSH_OK);
    assert_int_equal(rsh_comm_free(comm), RSH_EBUSY);
    assert_int_equal(rsh_exec_run(e), RSH_OK);
    assert_memory_equal(a, b, sizeof a);
    rsh_exec_free(e);
    assert_int_equal(rsh_comm_free(comm), RSH_OK);
    rsh_plan_free(plan);
    rsh_layout_free(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_with_another_layout_is_found_by_all),
        cmocka_unit_test(a_rank_with_other_options_is_found_by_all),
        cmocka_unit_test(a_rank_with_another_call_is_found_by_all),
        cmocka_unit_test(a_rank_in_a_barrier_is_found_by_all),
        cmocka_unit_test(a_rank_with_one_call_fewer_leaves_nobody_waiting),
        cmocka_unit_test(a_rank_without_memory_tells_the_others),
        cmocka_unit_test(a_rank_without_memory_for_messages_tells_the_others),
        cmocka_unit_test(a_destination_outside_the_comm_is_refused_by_all),
        cmocka_unit_test(a_source_outside_the_comm_is_refused),
        cmocka_unit_test(source_and_destination_may_not_overlap),
        cmocka_unit_test(source_and_destination_may_not_overlap_locally_either),
        cmocka_unit_test(a_comm_with_an_exec_is_not_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
