/* Transits: reshards in steps give the same result as rsh_reshard, several at a time, and end on all ranks. */
#include "ramp.h"

#include <stdlib.h>
#include <string.h>

#include "comm/mailboxes.h"
#include "comm/ranks.h"

typedef struct pair {
    rsh_layout *rows, *columns;
} pair;

static rsh_status parse_pair(pair *p) {
    RSH_TRY(rsh_layout_parse("f32[23/x, 18] on x=4", &p->rows));
    return rsh_layout_parse("f32[23, 18/x] on x=4", &p->columns);
}
static void free_pair(pair *p) {
    rsh_layout_free(p->rows);
    rsh_layout_free(p->columns);
}

/* Begins a reshard, optionally tests until it is done, and waits for it; the source handle is freed in between. */
static rsh_status one(rsh_comm *comm, const pair *p, bool test) {
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_transit *t = NULL;
    RSH_TRY(make_source(comm, p->rows, &src));
    RSH_TRY(rsh_reshard_begin(src, p->columns, NULL, &t));
    rsh_sharded_free(src);
    for (bool done = !test; !done;) RSH_TRY(rsh_transit_test(t, &done));
    RSH_TRY(rsh_transit_wait(t, &dst));
    RSH_TRY(check_result(dst));
    rsh_sharded *again = NULL;
    CHECK_STATUS(RSH_EVALUE, rsh_transit_wait(t, &again));
    rsh_transit_free(t);
    rsh_sharded_free(dst);
    return RSH_OK;
}

static rsh_status in_steps(void *ctx, rsh_comm *comm) {
    pair p = {NULL, NULL};
    rsh_cache_stats s = RSH_CACHE_STATS_INIT;
    (void)ctx;
    RSH_TRY(parse_pair(&p));
    for (int i = 0; i < 6; i++) RSH_TRY(one(comm, &p, i % 2));
    RSH_TRY(rsh_comm_get_cache_stats(comm, &s));
    CHECK(s.misses == 1 && s.hits == 5 && s.bindings == 1); /* the binding was returned to the cache each time */
    free_pair(&p);
    return RSH_OK;
}
static void a_reshard_in_steps_is_a_reshard(void **state) {
    (void)state;
    run_ranks(RANKS, in_steps, NULL);
}

/* Several reshards of the same layouts are in progress, with another reshard in between; every rank waits in its own
 * order. */
enum { MANY = 3 };
static rsh_status many(void *ctx, rsh_comm *comm) {
    pair p = {NULL, NULL};
    (void)ctx;
    RSH_TRY(parse_pair(&p));
    for (int round = 0; round < 4; round++) {
        rsh_sharded *src[MANY], *dst = NULL;
        rsh_transit *t[MANY];
        for (int i = 0; i < MANY; i++) {
            RSH_TRY(make_source(comm, p.rows, &src[i]));
            RSH_TRY(rsh_reshard_begin(src[i], p.columns, NULL, &t[i]));
        }
        RSH_TRY(rsh_reshard(src[0], p.columns, NULL, &dst)); /* it uses a different binding */
        RSH_TRY(check_result(dst));
        rsh_sharded_free(dst);
        for (int i = 0; i < MANY; i++) {
            int k = (i + rsh_comm_rank(comm) + round) % MANY;
            RSH_TRY(rsh_transit_wait(t[k], &dst));
            RSH_TRY(check_result(dst));
            rsh_sharded_free(dst);
        }
        for (int i = 0; i < MANY; i++) rsh_transit_free(t[i]), rsh_sharded_free(src[i]);
        RSH_TRY(rsh_comm_barrier(comm));
    }
    free_pair(&p);
    return RSH_OK;
}
static void several_are_under_way(void **state) {
    (void)state;
    run_ranks(RANKS, many, NULL);
}

/* If one rank passes wrong arguments, all get the error; an abandoned transit ends; a comm that is in use is not
 * freed. */
static rsh_status wrong(void *ctx, rsh_comm *comm) {
    pair p = {NULL, NULL};
    rsh_sharded *src = NULL;
    rsh_transit *t = NULL;
    rsh_layout *other = NULL;
    (void)ctx;
    RSH_TRY(parse_pair(&p));
    RSH_TRY(rsh_layout_parse("f32[24, 18/x] on x=4", &other));
    RSH_TRY(make_source(comm, p.rows, &src));
    CHECK_STATUS(RSH_EVALUE, rsh_reshard_begin(src, rsh_comm_rank(comm) == 2 ? other : p.columns, NULL, &t));
    CHECK_STATUS(RSH_EVALUE, rsh_reshard_begin(src, rsh_comm_rank(comm) ? p.columns : NULL, NULL, &t));
    CHECK_STATUS(RSH_EMISMATCH, rsh_reshard_begin(src, rsh_comm_rank(comm) ? p.columns : p.rows, NULL, &t));
    CHECK(!t);
    RSH_TRY(rsh_reshard_begin(src, p.columns, NULL, &t));
    rsh_transit_free(t);
    RSH_TRY(rsh_comm_barrier(comm));
    rsh_sharded_free(src);
    rsh_layout_free(other);
    free_pair(&p);
    return RSH_OK;
}
static void refusals_and_ends_are_common(void **state) {
    (void)state;
    run_ranks(RANKS, wrong, NULL);
}

/* Memory runs out on one rank at any allocation; the transit begins on all ranks or on none. */
static rsh_status shortages(void *ctx, rsh_comm *comm) {
    pair p = {NULL, NULL};
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_status st = RSH_ENOMEM;
    (void)ctx;
    RSH_TRY(parse_pair(&p));
    RSH_TRY(make_source(comm, p.rows, &src));
    for (int64_t n = 0; st; n++) {
        rsh_transit *t = NULL;
        if (rsh_comm_rank(comm) == 1) rsh_alloc_fail_at(n);
        st = rsh_reshard_begin(src, p.columns, NULL, &t);
        rsh_alloc_fail_at(-1);
        CHECK(!st || st == RSH_ENOMEM);
        if (!st) RSH_TRY(rsh_transit_wait(t, &dst));
        rsh_transit_free(t);
    }
    RSH_TRY(check_result(dst));
    rsh_sharded_free(dst), rsh_sharded_free(src);
    free_pair(&p);
    return RSH_OK;
}
static void memory_that_runs_out_on_one_rank_begins_nothing(void **state) {
    (void)state;
    run_ranks(RANKS, shortages, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reshard_in_steps_is_a_reshard),
        cmocka_unit_test(several_are_under_way),
        cmocka_unit_test(refusals_and_ends_are_common),
        cmocka_unit_test(memory_that_runs_out_on_one_rank_begins_nothing),
    };
    return RUN_EVERYWHERE(tests);
}
