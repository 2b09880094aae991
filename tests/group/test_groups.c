/* Groups: the default group, subgroups and their ranks, the entered group, and exchanges of objects. */
#include "groups.h"

/* ---- the default group ---- */

static void without_a_default_group_everything_says_so(void **state) {
    (void)state;
    rsh_group *g = NULL;
    int rank;
    assert_null(rsh_group_default());
    assert_int_equal(rsh_group_rank(NULL), -1);
    assert_int_equal(rsh_group_size(NULL), -1);
    assert_null(rsh_group_comm(NULL));
    assert_int_equal(rsh_group_barrier(NULL), RSH_ERUNTIME);
    assert_int_equal(rsh_group_new(0, NULL, &g), RSH_ERUNTIME);
    assert_int_equal(rsh_group_current(&g), RSH_ERUNTIME);
    assert_int_equal(rsh_group_destroy(), RSH_ERUNTIME);
    assert_int_equal(rsh_group_to_global(NULL, 0, &rank), RSH_ERUNTIME);
    assert_int_equal(rsh_group_from_global(NULL, 0, &rank), RSH_ERUNTIME);
    assert_int_equal(rsh_group_init(NULL), RSH_EVALUE);
    assert_null(g);
}

static rsh_status default_matches_comm(void *ctx) {
    (void)ctx;
    rsh_comm *c = rsh_group_comm(NULL);
    rsh_group *current = NULL;
    int rank = -1;
    CHECK(c && rsh_group_comm(rsh_group_default()) == c);
    CHECK(rsh_group_rank(NULL) == rsh_comm_rank(c) && rsh_group_size(NULL) == rsh_comm_size(c));
    CHECK_STATUS(RSH_ERUNTIME, rsh_group_init(c));
    RSH_TRY(rsh_group_current(&current));
    CHECK(current == rsh_group_default());
    for (int r = 0; r < rsh_comm_size(c); r++) {
        RSH_TRY(rsh_group_to_global(NULL, r, &rank));
        CHECK(rank == r);
        RSH_TRY(rsh_group_from_global(NULL, r, &rank));
        CHECK(rank == r);
    }
    CHECK_STATUS(RSH_ERUNTIME, rsh_group_to_global(NULL, rsh_comm_size(c), &rank));
    CHECK_STATUS(RSH_ERUNTIME, rsh_group_from_global(NULL, -1, &rank));
    return rsh_group_barrier(NULL);
}
static void the_default_group_is_the_comm(void **state) {
    (void)state;
    run_group_counts(default_matches_comm, NULL);
}

static void a_default_group_can_be_made_again_after_it_was_destroyed(void **state) {
    (void)state;
    rsh_comm *c;
    assert_int_equal(rsh_comm_threads(1, &c), RSH_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rsh_group_init(c), RSH_OK);
        assert_int_equal(rsh_group_destroy(), RSH_OK);
    }
    rsh_comm_free(c);
}

/* ---- subgroups ---- */

static rsh_status members_of(unsigned set) {
    int n = rsh_group_size(NULL), me = rsh_group_rank(NULL), list[8], count = 0, rank = -7;
    for (int r = n - 1; r >= 0; r--)
        if (set & 1u << r) list[count++] = r; /* descending, so the group must sort them */
    rsh_group *g = NULL;
    RSH_TRY(rsh_group_new(count, list, &g));
    bool member = set & 1u << me;
    int place = __builtin_popcount(set & ((1u << me) - 1));
    CHECK(rsh_group_rank(g) == (member ? place : -1) && rsh_group_size(g) == (member ? count : -1));
    CHECK(!rsh_group_comm(g) == !member);
    CHECK_STATUS(RSH_EBUSY, rsh_group_destroy());
    for (int i = 0; i < count; i++) {
        rsh_status st = rsh_group_to_global(g, i, &rank);
        CHECK(member ? !st && rank == list[count - 1 - i] : st == RSH_ERUNTIME && rank == -7);
    }
    for (int r = -1; r <= n; r++) {
        bool there = r >= 0 && r < n && set & 1u << r;
        rsh_status st = rsh_group_from_global(g, r, &rank);
        CHECK(member && there ? !st && rank == __builtin_popcount(set & ((1u << r) - 1)) : st == RSH_ERUNTIME);
    }
    RSH_TRY(rsh_group_barrier(g));
    rsh_group_free(g);
    return RSH_OK;
}
static rsh_status every_subset(void *ctx) {
    (void)ctx;
    for (unsigned set = 0; set < 1u << rsh_group_size(NULL); set++) RSH_TRY(members_of(set));
    return RSH_OK;
}
static void members_are_sorted_and_ranks_translate(void **state) {
    (void)state;
    run_group_counts(every_subset, NULL);
}

static rsh_status new_group_refused(rsh_status expected, int n, const int *ranks, rsh_group **out) {
    CHECK_STATUS(expected, rsh_group_new(n, ranks, out));
    return rsh_group_barrier(NULL); /* all messages have been received */
}
static rsh_status wrong_members(void *ctx) {
    (void)ctx;
    int me = rsh_group_rank(NULL), size = rsh_group_size(NULL);
    const int good[2] = {0, 1}, twice[2] = {1, 1}, outside[2] = {0, size}, negative[2] = {-1, 0}, other[2] = {1, 2};
    rsh_group *g = NULL;
    RSH_TRY(new_group_refused(RSH_EVALUE, 2, me == 1 ? twice : good, &g));
    CHECK_SAYS("rank 1 more than once");
    RSH_TRY(new_group_refused(RSH_EVALUE, 2, me == 1 ? outside : good, &g));
    RSH_TRY(new_group_refused(RSH_EVALUE, 2, me == 0 ? negative : good, &g));
    RSH_TRY(new_group_refused(RSH_EVALUE, 2, me == 2 ? NULL : good, &g));
    RSH_TRY(new_group_refused(RSH_EVALUE, me == 2 ? -1 : 2, good, &g));
    RSH_TRY(new_group_refused(RSH_EVALUE, 2, good, me == 0 ? NULL : &g));
    RSH_TRY(new_group_refused(RSH_EMISMATCH, 2, me == 2 ? other : good, &g));
    CHECK_SAYS("1, 2");
    CHECK(!g);
    return RSH_OK;
}
static void wrong_members_on_one_rank_are_every_ranks_error(void **state) {
    (void)state;
    run_groups(3, wrong_members, NULL);
}

/* ---- the entered group ---- */

static rsh_status fails_within(void *ctx, rsh_group *g) {
    rsh_group *current = NULL;
    RSH_TRY(rsh_group_current(&current));
    CHECK(current == (g ? g : rsh_group_default()) && *(int *)ctx == 5);
    return RSH_EKEY;
}
static rsh_status enter_and_leave(void *ctx) {
    (void)ctx;
    const int list[1] = {0};
    int five = 5;
    rsh_group *g = NULL, *current = NULL;
    RSH_TRY(rsh_group_new(1, list, &g));
    RSH_TRY(rsh_group_enter(NULL));
    RSH_TRY(rsh_group_enter(NULL));
    RSH_TRY(rsh_group_enter(g)); /* members and non-members */
    RSH_TRY(rsh_group_current(&current));
    CHECK(current == g);
    CHECK_STATUS(RSH_ERUNTIME, rsh_group_enter(g));
    CHECK_STATUS(RSH_ERUNTIME, rsh_group_enter(NULL));
    CHECK_STATUS(RSH_ERUNTIME, rsh_group_within(NULL, fails_within, &five));
    RSH_TRY(rsh_group_current(&current));
    CHECK(current == g);
    rsh_group_leave();
    rsh_group_leave();
    rsh_group_leave();
    CHECK_STATUS(RSH_EKEY, rsh_group_within(g, fails_within, &five));
    CHECK_STATUS(RSH_EKEY, rsh_group_within(NULL, fails_within, &five));
    CHECK_STATUS(RSH_EVALUE, rsh_group_within(g, NULL, NULL));
    RSH_TRY(rsh_group_current(&current));
    CHECK(current == rsh_group_default());
    RSH_TRY(rsh_group_enter(rsh_group_default()));
    rsh_group_free(g);
    CHECK_STATUS(RSH_EBUSY, rsh_group_destroy());
    rsh_group_leave();
    return RSH_OK;
}
static void a_group_is_entered_by_one_thread_and_always_left(void **state) {
    (void)state;
    run_group_counts(enter_and_leave, NULL);
}

/* Odd ranks enter the group while even ranks read the current one. */
static rsh_status only_odd_ranks_enter(void *ctx) {
    (void)ctx;
    rsh_group *current = NULL, *g = NULL;
    const int list[2] = {0, 1};
    bool odd = rsh_group_rank(NULL) % 2;
    RSH_TRY(rsh_group_new(2, list, &g));
    if (odd) RSH_TRY(rsh_group_enter(g));
    RSH_TRY(rsh_group_barrier(NULL));
    RSH_TRY(rsh_group_current(&current));
    CHECK(current == (odd ? g : rsh_group_default()));
    RSH_TRY(rsh_group_barrier(NULL));
    rsh_group_leave();
    rsh_group_free(g);
    return RSH_OK;
}
static void rank_threads_do_not_disturb_one_another(void **state) {
    (void)state;
    run_groups(4, only_odd_ranks_enter, NULL);
}

/* ---- objects ---- */

static unsigned char byte_of(int rank, size_t i) { return (unsigned char)(rank * 37 + 11 * i + (i >> 9)); }

static rsh_status gather_objects(rsh_group *g, int rank, int size, const size_t *lengths) {
    unsigned char *mine = malloc(lengths[rank] + 1);
    rsh_objects *o = NULL;
    for (size_t i = 0; i < lengths[rank]; i++) mine[i] = byte_of(rank, i);
    rsh_status st = rsh_group_all_gather_object(g, lengths[rank] ? mine : NULL, lengths[rank], &o);
    free(mine);
    RSH_TRY(st);
    CHECK(o->n == size);
    for (int r = 0; r < size; r++) {
        CHECK(o->bytes[r] == lengths[r]);
        const unsigned char *data = o->data[r];
        for (size_t i = 0; i < lengths[r]; i++) CHECK(data[i] == byte_of(r, i));
    }
    rsh_objects_free(o);
    return RSH_OK;
}
static rsh_status objects_of_all_lengths(void *ctx) {
    (void)ctx;
    const size_t lengths[][5] = {
        {0, 0, 0, 0, 0}, {1, 0, 4096, 4097, 3}, {0, 3000001, 0, 17, 0}, {100, 100, 100, 100, 5000000}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        RSH_TRY(gather_objects(NULL, rsh_group_rank(NULL), rsh_group_size(NULL), lengths[i]));
    return RSH_OK;
}
static void objects_of_any_length_arrive_everywhere(void **state) {
    (void)state;
    run_group_counts(objects_of_all_lengths, NULL);
}

static rsh_status objects_in_subgroup(void *ctx) {
    (void)ctx;
    const int list[3] = {3, 1, 2};
    const size_t lengths[3] = {5, 0, 9};
    rsh_group *g = NULL;
    rsh_objects *o = (rsh_objects *)list;
    RSH_TRY(rsh_group_new(3, list, &g));
    if (rsh_group_rank(g) >= 0)
        RSH_TRY(gather_objects(g, rsh_group_rank(g), 3, lengths));
    else {
        RSH_TRY(rsh_group_all_gather_object(g, "abc", 3, &o));
        CHECK(!o);
    }
    rsh_group_free(g);
    return RSH_OK;
}
static void those_who_are_no_members_take_no_part(void **state) {
    (void)state;
    run_groups(4, objects_in_subgroup, NULL);
}

/* One rank returns an error, or runs out of memory at any of its allocations: all ranks get that status, and the next
 * call works. */
static rsh_status objects_refused(void *ctx) {
    (void)ctx;
    int me = rsh_group_rank(NULL);
    rsh_objects *o = NULL;
    CHECK_STATUS(RSH_EVALUE, rsh_group_all_gather_object(NULL, me == 1 ? NULL : "ab", 2, &o));
    CHECK_STATUS(RSH_EVALUE, rsh_group_all_gather_object(NULL, "ab", 2, me == 2 ? NULL : &o));
    CHECK(!o);
    bool ran_out = true;
    for (int64_t i = 0; ran_out && i < 50; i++) {
        if (me == 1) rsh_alloc_fail_at(i);
        rsh_status st = rsh_group_all_gather_object(NULL, "abc", (size_t)me, &o);
        rsh_alloc_fail_at(-1);
        CHECK(st == RSH_OK || st == RSH_ENOMEM);
        ran_out = st == RSH_ENOMEM;
        if (!st) rsh_objects_free(o);
        o = NULL;
    }
    CHECK(!ran_out);
    rsh_group *g = NULL;
    const int list[2] = {0, 2};
    ran_out = true;
    for (int64_t i = 0; ran_out && i < 50; i++) {
        if (me == 2) rsh_alloc_fail_at(i);
        rsh_status st = rsh_group_new(2, list, &g);
        rsh_alloc_fail_at(-1);
        CHECK(st == RSH_OK || st == RSH_ENOMEM);
        ran_out = st == RSH_ENOMEM;
    }
    CHECK(!ran_out);
    rsh_group_free(g);
    return rsh_group_barrier(NULL);
}
static void a_rank_without_memory_fails_the_call_for_all(void **state) {
    (void)state;
    run_groups(3, objects_refused, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_default_group_everything_says_so),
        cmocka_unit_test(the_default_group_is_the_comm),
        cmocka_unit_test(a_default_group_can_be_made_again_after_it_was_destroyed),
        cmocka_unit_test(members_are_sorted_and_ranks_translate),
        cmocka_unit_test(wrong_members_on_one_rank_are_every_ranks_error),
        cmocka_unit_test(a_group_is_entered_by_one_thread_and_always_left),
        cmocka_unit_test(rank_threads_do_not_disturb_one_another),
        cmocka_unit_test(objects_of_any_length_arrive_everywhere),
        cmocka_unit_test(those_who_are_no_members_take_no_part),
        cmocka_unit_test(a_rank_without_memory_fails_the_call_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
