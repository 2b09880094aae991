/* Mesh: arrays of ranks, their comms and coordinates, slices, the current mesh. */
#include <inttypes.h>

#include "../comm/ranks.h"
#include "mesh/mesh.h"

static const char *const DP_TP[] = {"dp", "tp"};
static const char *const ABC[] = {"a", "b", "c"};

/* Checks that the ranks of the comm, by their numbers in the parent, are the expected list. */
static rsh_status comm_is(rsh_comm *c, int64_t me, int n, const int64_t *expected) {
    int64_t all[24];
    CHECK(c && rsh_comm_size(c) == n);
    RSH_TRY(rsh_comm_allgather(c, &me, all, sizeof me));
    for (int i = 0; i < n; i++) CHECK(all[i] == expected[i]);
    return RSH_OK;
}

static rsh_status two_by_four(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    int64_t me = rsh_comm_rank(c);
    RSH_TRY(rsh_mesh_new(c, 2, (const int64_t[]){2, 4}, NULL, DP_TP, &m));
    CHECK(rsh_mesh_ndim(m) == 2 && rsh_mesh_size(m) == 8);
    CHECK(rsh_mesh_dim_size(m, 0) == 2 && rsh_mesh_dim_size(m, 1) == 4);
    CHECK(rsh_mesh_dim_size(m, 2) == -1 && rsh_mesh_parent(m) == c && !strcmp(rsh_mesh_dim_name(m, 1), "tp"));
    const int64_t *at = rsh_mesh_coordinate(m);
    CHECK(at[0] == me / 4 && at[1] == me % 4);
    RSH_TRY(comm_is(rsh_mesh_dim_comm(m, 0), me, 2, (const int64_t[]){me % 4, me % 4 + 4}));
    int64_t row = me / 4 * 4;
    RSH_TRY(comm_is(rsh_mesh_dim_comm(m, 1), me, 4, (const int64_t[]){row, row + 1, row + 2, row + 3}));
    RSH_TRY(comm_is(rsh_mesh_comm(m), me, 8, (const int64_t[]){0, 1, 2, 3, 4, 5, 6, 7}));
    int dim = -1;
    RSH_TRY(rsh_mesh_find_dim(m, "tp", &dim));
    CHECK(dim == 1);
    CHECK_STATUS(RSH_EKEY, rsh_mesh_find_dim(m, "pp", &dim));
    CHECK_SAYS("dp, tp");
    rsh_mesh_free(m);
    return RSH_OK;
}
static void test_device_mesh_2d(void **state) {
    (void)state;
    run_ranks(8, two_by_four, NULL);
}

/* Checks every line of a mesh of three dims, whose ranks are in any order. */
static rsh_status lines_of_three(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    int64_t me = rsh_comm_rank(c), ranks[12], position = -1;
    const int64_t shape[] = {2, 3, 2}, step[] = {6, 2, 1};
    for (int i = 0; i < 12; i++) ranks[i] = i * 5 % 12;
    RSH_TRY(rsh_mesh_new(c, 3, shape, ranks, ABC, &m));
    for (int i = 0; i < 12; i++)
        if (ranks[i] == me) position = i;
    for (int d = 0; d < 3; d++) {
        int64_t line[3], at = position / step[d] % shape[d];
        for (int k = 0; k < shape[d]; k++) line[k] = ranks[position + (k - at) * step[d]];
        CHECK(rsh_mesh_coordinate(m)[d] == at && rsh_comm_rank(rsh_mesh_dim_comm(m, d)) == at);
        RSH_TRY(comm_is(rsh_mesh_dim_comm(m, d), me, (int)shape[d], line));
    }
    rsh_mesh_free(m);
    return RSH_OK;
}
static void test_device_mesh_nd(void **state) {
    (void)state;
    run_ranks(12, lines_of_three, NULL);
}

/* Ranks in descending order: groups that sort their members would put the data in the wrong order. */
static rsh_status descending(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    int64_t me = rsh_comm_rank(c);
    const int64_t ranks[] = {5, 1, 3, 0};
    RSH_TRY(rsh_mesh_new(c, 2, (const int64_t[]){2, 2}, ranks, NULL, &m));
    int64_t position = -1;
    for (int i = 0; i < 4; i++)
        if (ranks[i] == me) position = i;
    if (position < 0) {
        CHECK(!rsh_mesh_coordinate(m) && !rsh_mesh_comm(m) && !rsh_mesh_dim_comm(m, 0));
    } else {
        CHECK(rsh_comm_rank(rsh_mesh_comm(m)) == position);
        RSH_TRY(comm_is(rsh_mesh_comm(m), me, 4, ranks));
        const int64_t row = position / 2 * 2, column = position % 2;
        RSH_TRY(comm_is(rsh_mesh_dim_comm(m, 0), me, 2, (const int64_t[]){ranks[column], ranks[column + 2]}));
        RSH_TRY(comm_is(rsh_mesh_dim_comm(m, 1), me, 2, (const int64_t[]){ranks[row], ranks[row + 1]}));
        CHECK(rsh_comm_rank(rsh_mesh_dim_comm(m, 1)) == rsh_mesh_coordinate(m)[1]);
    }
    CHECK(!rsh_mesh_dim_name(m, 0));
    rsh_mesh_free(m);
    return RSH_OK;
}
static void ranks_stand_in_the_order_of_their_coordinates(void **state) {
    (void)state;
    run_ranks(6, descending, NULL);
}

static rsh_status slices(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL, *b = NULL, *ac = NULL, *all = NULL, *wrong = NULL;
    int64_t me = rsh_comm_rank(c);
    RSH_TRY(rsh_mesh_new(c, 3, (const int64_t[]){2, 2, 2}, NULL, ABC, &m));
    RSH_TRY(rsh_mesh_slice(m, 1, (const char *const[]){"b"}, &b));
    RSH_TRY(rsh_mesh_slice(m, 2, (const char *const[]){"a", "c"}, &ac));
    RSH_TRY(rsh_mesh_slice(m, 3, ABC, &all));
    CHECK_STATUS(RSH_EKEY, rsh_mesh_slice(m, 2, (const char *const[]){"c", "a"}, &wrong));
    CHECK_STATUS(RSH_EKEY, rsh_mesh_slice(m, 1, (const char *const[]){"d"}, &wrong));
    CHECK_STATUS(RSH_EKEY, rsh_mesh_slice(m, 4, (const char *const[]){"a", "b", "c", "d"}, &wrong));
    CHECK_STATUS(RSH_EVALUE, rsh_mesh_slice(m, 0, ABC, &wrong));
    CHECK(!wrong && rsh_mesh_equal(all, m) && !rsh_mesh_equal(ac, m));
    rsh_mesh_free(m); /* the slices hold references */
    int64_t low = me & 5, mid = me & 2;
    if (me < 8) {
        RSH_TRY(comm_is(rsh_mesh_comm(b), me, 2, (const int64_t[]){low, low + 2}));
        RSH_TRY(comm_is(rsh_mesh_comm(ac), me, 4, (const int64_t[]){mid, mid + 1, mid + 4, mid + 5}));
        RSH_TRY(comm_is(rsh_mesh_dim_comm(ac, 1), me, 2, (const int64_t[]){me & 6, me | 1}));
        CHECK(rsh_mesh_coordinate(ac)[0] == me / 4 && rsh_mesh_coordinate(ac)[1] == me % 2);
    } else {
        CHECK(!rsh_mesh_comm(b) && !rsh_mesh_comm(ac) && !rsh_mesh_coordinate(ac) && rsh_mesh_size(ac) == 4);
    }
    rsh_mesh_free(b);
    rsh_mesh_free(ac);
    rsh_mesh_free(all);
    return RSH_OK;
}
static void a_slice_varies_along_the_named_dims_only(void **state) {
    (void)state;
    run_ranks(8, slices, NULL);
    run_ranks(9, slices, NULL);
}

static rsh_status refusals(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    const int64_t two[] = {2, 2};
    CHECK_STATUS(RSH_ERUNTIME, rsh_mesh_new(c, 2, (const int64_t[]){2, 3}, NULL, NULL, &m));
    CHECK_SAYS("which has 4");
    CHECK_STATUS(RSH_ERUNTIME, rsh_mesh_new(c, 2, (const int64_t[]){INT64_MAX, INT64_MAX}, NULL, NULL, &m));
    CHECK_STATUS(RSH_EVALUE, rsh_mesh_new(c, 2, (const int64_t[]){2, 0}, NULL, NULL, &m));
    CHECK_STATUS(RSH_EVALUE, rsh_mesh_new(c, 0, two, NULL, NULL, &m));
    CHECK_STATUS(RSH_EVALUE, rsh_mesh_new(c, 9, two, NULL, NULL, &m));
    CHECK_STATUS(RSH_ERUNTIME, rsh_mesh_new(c, 2, two, NULL, (const char *const[]){"x", "x"}, &m));
    CHECK_STATUS(RSH_ERUNTIME, rsh_mesh_new(c, 2, two, NULL, (const char *const[]){"x", ""}, &m));
    CHECK_STATUS(RSH_EVALUE, rsh_mesh_new(c, 2, two, (const int64_t[]){0, 1, 2, 2}, NULL, &m));
    CHECK_SAYS("rank 2 more than once");
    CHECK_STATUS(RSH_EVALUE, rsh_mesh_new(c, 2, two, (const int64_t[]){0, 1, 2, 4}, NULL, &m));
    CHECK_STATUS(RSH_EVALUE, rsh_mesh_new(c, 2, two, (const int64_t[]){0, -1, 2, 3}, NULL, &m));
    bool odd = rsh_comm_rank(c) % 2; /* a mistake of one rank is an error on every rank */
    CHECK_STATUS(RSH_EVALUE, rsh_mesh_new(c, odd ? 9 : 2, two, NULL, NULL, &m));
    CHECK_STATUS(RSH_EMISMATCH, rsh_mesh_new(c, 2, two, NULL, odd ? DP_TP : NULL, &m));
    CHECK_STATUS(RSH_EMISMATCH, rsh_mesh_new(c, 1, (const int64_t[]){odd ? 3 : 4}, NULL, NULL, &m));
    CHECK(!m);
    RSH_TRY(rsh_mesh_new(c, 2, two, NULL, NULL, &m));
    rsh_mesh *slice = NULL;
    CHECK_STATUS(RSH_ERUNTIME, rsh_mesh_slice(m, 1, DP_TP, &slice));
    rsh_mesh_free(m);
    RSH_TRY(rsh_mesh_new(c, 3, (const int64_t[]){2, 1, 2}, NULL, ABC, &m));
    CHECK_STATUS(RSH_EKEY, rsh_mesh_slice(m, 2, odd ? DP_TP : ABC, &slice));
    CHECK_STATUS(RSH_EMISMATCH, rsh_mesh_slice(m, 2, odd ? ABC + 1 : ABC, &slice));
    CHECK(!slice);
    rsh_mesh_free(m);
    return rsh_comm_barrier(c);
}
static void a_mesh_that_cannot_be_is_refused_on_every_rank(void **state) {
    (void)state;
    run_ranks(4, refusals, NULL);
}

static rsh_status without_memory(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *m = NULL;
    bool ran_out = true;
    for (int64_t i = 0; ran_out && i < 200; i++) {
        if (rsh_comm_rank(c) == 1) rsh_alloc_fail_at(i);
        rsh_status st = rsh_mesh_new(c, 2, (const int64_t[]){2, 2}, NULL, DP_TP, &m);
        rsh_alloc_fail_at(-1);
        CHECK(st == RSH_OK || st == RSH_ENOMEM);
        ran_out = st == RSH_ENOMEM;
    }
    CHECK(!ran_out);
    rsh_mesh_free(m);
    return rsh_comm_barrier(c);
}
static void a_rank_without_memory_fails_the_mesh_for_all(void **state) {
    (void)state;
    run_ranks(4, without_memory, NULL);
}

static rsh_status current(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_mesh *outer = NULL, *inner = NULL, *now = NULL;
    CHECK_STATUS(RSH_ERUNTIME, rsh_mesh_current(&now));
    CHECK_STATUS(RSH_ERUNTIME, rsh_mesh_pop());
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){2}, NULL, NULL, &outer));
    RSH_TRY(rsh_mesh_new(c, 1, (const int64_t[]){1}, NULL, NULL, &inner));
    RSH_TRY(rsh_mesh_push(outer));
    RSH_TRY(rsh_mesh_push(inner));
    RSH_TRY(rsh_mesh_current(&now));
    CHECK(now == inner);
    rsh_mesh_free(inner); /* the stack still holds a reference */
    CHECK(rsh_mesh_size(now) == 1);
    RSH_TRY(rsh_mesh_pop());
    RSH_TRY(rsh_mesh_current(&now));
    CHECK(now == outer);
    RSH_TRY(rsh_mesh_pop());
    CHECK_STATUS(RSH_ERUNTIME, rsh_mesh_current(&now));
    rsh_mesh_free(outer);
    return RSH_OK;
}
static void the_current_mesh_is_the_one_pushed_last(void **state) {
    (void)state;
    run_ranks(2, current, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_mesh_2d),
        cmocka_unit_test(test_device_mesh_nd),
        cmocka_unit_test(ranks_stand_in_the_order_of_their_coordinates),
        cmocka_unit_test(a_slice_varies_along_the_named_dims_only),
        cmocka_unit_test(a_mesh_that_cannot_be_is_refused_on_every_rank),
        cmocka_unit_test(a_rank_without_memory_fails_the_mesh_for_all),
        cmocka_unit_test(the_current_mesh_is_the_one_pushed_last),
    };
    return RUN_EVERYWHERE(tests);
}
