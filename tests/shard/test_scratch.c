/* Scratch: a run needs as much memory besides source and destination as the plan states, and allocates none while it
 * runs. */
#include "ramp.h"

#include <unistd.h>

/* What one rank allocated while it bound and ran a plan. */
typedef struct ledger {
    const char *from_text, *to_text;
    rsh_layout *from, *to;
    rsh_plan_opts opts;
    uint64_t requests[RANKS], peak[RANKS];
    int64_t stated[RANKS];
} ledger;

static rsh_status run_three_times(rsh_exec *e, uint64_t *requests) {
    uint64_t before = rsh_alloc_get_stats().allocations;
    rsh_status status = RSH_OK;
    for (int i = 0; i < 3 && status == RSH_OK; i++) status = rsh_exec_run(e);
    *requests = rsh_alloc_get_stats().allocations - before;
    return status;
}

static rsh_status bind_and_run(ledger *k, const rsh_plan *plan, rsh_sharded *src, rsh_sharded *dst) {
    int r = rsh_comm_rank(rsh_sharded_comm(src));
    rsh_memory from[8], to[8];
    rsh_exec *e = NULL;
    for (int64_t p = 0; p < rsh_sharded_nparts(src); p++)
        from[p] = (rsh_memory){rsh_tensor_data(rsh_sharded_part(src, p)), NULL};
    for (int64_t p = 0; p < rsh_sharded_nparts(dst); p++)
        to[p] = (rsh_memory){rsh_tensor_data(rsh_sharded_part(dst, p)), NULL};
    rsh_alloc_reset_peak();
    uint64_t held = rsh_alloc_get_stats().scratch_bytes;
    rsh_status status = rsh_exec_bind(plan, rsh_sharded_comm(src), from, to, &e);
    if (status == RSH_OK) status = run_three_times(e, &k->requests[r]);
    k->peak[r] = rsh_alloc_get_stats().scratch_peak - held;
    rsh_exec_free(e);
    return status == RSH_OK ? check_result(dst) : status;
}

static rsh_status keep_ledger(void *ctx, rsh_comm *comm) {
    ledger *k = ctx;
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_plan *plan = NULL;
    rsh_rank_totals view = RSH_RANK_TOTALS_INIT;
    rsh_status status = make_source(comm, k->from, &src);
    if (status == RSH_OK) status = rsh_sharded_zeros(comm, k->to, &dst);
    if (status == RSH_OK) status = rsh_plan_new(k->from, k->to, &k->opts, &plan);
    if (status == RSH_OK) status = rsh_plan_get_rank_totals(plan, rsh_comm_rank(comm), &view);
    if (status == RSH_OK) status = bind_and_run(k, plan, src, dst);
    k->stated[rsh_comm_rank(comm)] = k->opts.messages ? view.scratch_messages : view.scratch_bytes;
    rsh_plan_free(plan);
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    return status;
}

static const char *const pairs[][2] = {
    {"f32[12/x, 8] on x=4", "f32[12, 8/x] on x=4"},
    {"f32[12/x, 8] on x=4", "f32[12, 8] on x=4 order(1,0)"},
    {"f32[12, 8/x:1]/y on x=2,y=2", "f32[12, 8] boxes 0:[0:5,0:8] 3,1:[5:12,0:3] 2:[5:12,3:8]"},
    {"f32[64, 64]/x on x=3", "f32[64/y, 64/x:3] on y=2,x=2"},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

static ledger ledger_of(int pair, bool messages) {
    ledger k = {.from_text = pairs[pair][0], .to_text = pairs[pair][1], .opts = RSH_PLAN_OPTS_INIT};
    k.from = parsed(k.from_text);
    k.to = parsed(k.to_text);
    k.opts.messages = messages;
    alarm(PATIENCE);
    return k;
}

static void ledger_end(ledger *k) {
    rsh_layout_free(k->from);
    rsh_layout_free(k->to);
    alarm(0);
}

static void run(ledger *k) {
    rsh_status status = rsh_run(RANKS, keep_ledger, k);
    if (status != RSH_OK)
        fail_msg("%s -> %s: %s: %s", k->from_text, k->to_text, rsh_status_name(status), rsh_error_detail());
}

static void running_allocates_nothing(void **state) {
    (void)state;
    for (int i = 0; i < 2 * PAIRS; i++) {
        ledger k = ledger_of(i / 2, i % 2);
        run(&k);
        for (int r = 0; r < RANKS; r++) assert_int_equal(k.requests[r], 0);
        ledger_end(&k);
    }
}

static void scratch_peaks_at_what_was_stated(void **state) {
    (void)state;
    for (int i = 0; i < 2 * PAIRS; i++) {
        ledger k = ledger_of(i / 2, i % 2);
        run(&k);
        for (int r = 0; r < RANKS; r++)
            if ((int64_t)k.peak[r] != k.stated[r])
                fail_msg("%s -> %s, messages %d, rank %d: peak %llu, stated %lld", k.from_text, k.to_text, i % 2, r,
                         (unsigned long long)k.peak[r], (long long)k.stated[r]);
        ledger_end(&k);
    }
}

static rsh_status plan_under(const ledger *k, uint64_t ceiling) {
    rsh_plan_opts opts = k->opts;
    rsh_plan *plan = NULL;
    opts.has_max_scratch = true;
    opts.max_scratch_bytes = ceiling;
    rsh_status status = rsh_plan_new(k->from, k->to, &opts, &plan);
    rsh_plan_free(plan);
    return status;
}

static uint64_t least_ceiling(const ledger *k) {
    uint64_t low = 0, high = (uint64_t)1 << 30;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (plan_under(k, middle) == RSH_OK)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void a_byte_below_the_least_ceiling_is_refused(void **state) {
    (void)state;
    for (int i = 0; i < 2 * PAIRS; i++) {
        ledger k = ledger_of(i / 2, i % 2);
        uint64_t least = least_ceiling(&k);
        if (least > 0) assert_int_equal(plan_under(&k, least - 1), RSH_ENOMEM);
        k.opts.has_max_scratch = true;
        k.opts.max_scratch_bytes = least;
        run(&k);
        for (int r = 0; r < RANKS; r++) assert_in_range(k.peak[r], 0, least);
        ledger_end(&k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_allocates_nothing),
        cmocka_unit_test(scratch_peaks_at_what_was_stated),
        cmocka_unit_test(a_byte_below_the_least_ceiling_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
