/* Runs that have begun: ranks test them in any order, and if one rank gives up a run, all do. */
#include "scene.h"

#include "comm/impatience.h"

static rsh_status test_until_done(rsh_exec *e) {
    rsh_status st = RSH_OK;
    for (bool done = false; !st && !done;) st = rsh_exec_test(e, &done);
    return st;
}

/* ---- in any order ---- */

static rsh_status tests_in_any_order(void *ctx, rsh_comm *comm) {
    bound b[3];
    for (int i = 0; i < 3; i++) RSH_TRY(bind_on(ctx, comm, i % 2 ? COLUMNS : ROWS, i % 2 ? ROWS : COLUMNS, &b[i]));
    for (int k = 0; k < 10; k++) {
        for (int i = 0; i < 3; i++) RSH_TRY(rsh_exec_begin(b[i].exec));
        for (int i = 0; i < 3; i++) RSH_TRY(test_until_done(b[(i + rsh_comm_rank(comm) + k) % 3].exec));
    }
    for (int i = 0; i < 3; i++) CHECK(check_result(b[i].dst) == RSH_OK);
    for (int i = 0; i < 3; i++) unbind(&b[i]);
    return RSH_OK;
}
static void every_rank_may_test_another_run_first(void **state) {
    (void)state;
    everywhere(tests_in_any_order);
}

/* Tags of messages are reused after as many binds as there are tags, or after twice as many as an int can count. */
static rsh_status tags_come_round(void *ctx, rsh_comm *comm) {
    bound b[2];
    RSH_TRY(bind_on(ctx, comm, ROWS, COLUMNS, &b[0]));
    comm->tags += RSH_WIRE_TAGS - RSHI_COMM_TAGS - 1;
    RSH_TRY(bind_on(ctx, comm, COLUMNS, ROWS, &b[1]));
    for (int k = 0; k < 10; k++) {
        for (int i = 0; i < 2; i++) RSH_TRY(rsh_exec_begin(b[i].exec));
        for (int i = 0; i < 2; i++) RSH_TRY(rsh_exec_wait(b[(i + rsh_comm_rank(comm)) % 2].exec));
        for (int i = 0; i < 2; i++) CHECK(check_result(b[i].dst) == RSH_OK);
    }
    comm->tags = (1u << 31) - 1;
    for (int i = 0; i < 3; i++) CHECK(rshi_comm_tag(comm) >= RSHI_COMM_TAGS);
    for (int i = 0; i < 2; i++) unbind(&b[i]);
    return RSH_OK;
}
static void two_runs_of_one_tag_do_not_take_one_anothers_messages(void **state) {
    (void)state;
    everywhere(tags_come_round);
}

/* ---- a rank that leaves ---- */

static rsh_status one_leaves(void *ctx, rsh_comm *comm) {
    bound b;
    RSH_TRY(bind_on(ctx, comm, ROWS, COLUMNS, &b));
    RSH_TRY(rsh_exec_run(b.exec));
    rsh_status st = RSH_EPEER;
    if (rsh_comm_rank(comm) != 2) {
        st = rsh_exec_begin(b.exec);
        if (!st) st = test_until_done(b.exec);
    }
    unbind(&b);
    CHECK(st == RSH_EPEER);
    return RSH_OK;
}
static void who_tests_hears_that_a_rank_has_left(void **state) {
    (void)state;
    everywhere(one_leaves);
}

/* ---- a rank that has ended the run and uses its flag again ---- */

/* Rank 1 has read all that rank 0 holds, frees its exec and makes a run by itself, before rank 0 looks at its flag. */
static rsh_status run_alone(const scene *s, bound *b, rsh_comm *alone) {
    RSH_TRY(rsh_exec_run(b->exec));
    CHECK(check_result(b->dst) == RSH_OK);
    unbind(b);
    RSH_TRY(bind_on(s, alone, "f32[64]", "f32[64]", b));
    RSH_TRY(rsh_exec_run(b->exec));
    atomic_store(s->turn, 1);
    return RSH_OK;
}
static rsh_status reader_goes_on(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    bound b;
    rsh_comm *alone = NULL;
    int rank = rsh_comm_rank(comm);
    RSH_TRY(rsh_comm_split(comm, rank, 0, &alone));
    RSH_TRY(bind_on(s, comm, "f32[64] boxes 0:[0:64]", "f32[64] boxes 1:[0:64]", &b));
    rsh_status st = RSH_OK;
    if (rank == 0) {
        RSH_TRY(rsh_exec_begin(b.exec));
        while (!atomic_load(s->turn)) usleep(1000);
        rshi_set_detail("an older sentence"); /* which a run without an error leaves */
        st = rsh_exec_wait(b.exec);
        CHECK(strcmp(rsh_error_detail(), "an older sentence") == 0);
    }
    if (rank == 1) st = run_alone(s, &b, alone);
    unbind(&b);
    if (!st) st = rsh_comm_barrier(comm);
    rsh_comm_free(alone);
    return st;
}
static void a_flag_that_its_rank_uses_again_is_no_refusal(void **state) {
    (void)state;
    scene s = {.turn = mmap(NULL, sizeof *s.turn, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    assert_true((void *)s.turn != MAP_FAILED);
    for (s.where = THREADS; s.where <= PROCESSES; s.where += PROCESSES - THREADS) { /* flags refuse there */
        atomic_store(s.turn, 0);
        alarm(PATIENCE);
        rsh_status st = s.where == THREADS ? rsh_run(2, reader_goes_on, &s) : rsh_run_shm(2, reader_goes_on, &s);
        if (st) fail_msg("%s: %s: %s", names[s.where], rsh_status_name(st), rsh_error_detail());
    }
    alarm(0);
    munmap(s.turn, sizeof *s.turn);
}

/* ---- a rank that comes too late ---- */

/* Rank 1 arrives when rank 0 has given up and used its memory for something else. */
static rsh_status one_is_late(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    bound b;
    RSH_TRY(bind_on(ctx, comm, "f32[64/x, 4096] on x=2", "f32[64, 4096/x] on x=2", &b));
    int rank = rsh_comm_rank(comm);
    if (rank > 1) return unbind(&b), RSH_OK;
    if (!rank) set_timeout(comm, 0.1);
    while (rank && !atomic_load(s->turn)) usleep(1000);
    rsh_status st = rsh_exec_run(b.exec);
    bool right = check_result(b.dst) == RSH_OK;
    if (!rank) {
        const rsh_tensor *t = rsh_sharded_part(b.src, 0);
        memset(rsh_tensor_data(t), 0x55, (size_t)rsh_tensor_count(t) * sizeof(float));
    }
    unbind(&b);
    if (!rank) atomic_store(s->turn, 1);
    CHECK(rank ? st == RSH_EPEER || (st == RSH_OK && right) : st == RSH_ETIMEOUT);
    return RSH_OK;
}
static void who_comes_too_late_gets_an_error_and_not_other_data(void **state) {
    (void)state;
    everywhere(one_is_late);
}

/* ---- a farewell that overtakes earlier messages ---- */

/* Mailboxes in which messages with parts of tensors arrive later than all others. */
static rsh_wire inner[RANKS];
static double lateness; /* delay in seconds */

typedef struct slow_request {
    void *pointer; /* the request of the mailbox */
    /* 0: not delayed; -1: delayed, and not arrived yet; otherwise the time of its arrival */
    double until;
} slow_request;
_Static_assert(sizeof(slow_request) <= sizeof(rsh_wire_request), "a slow request is a request");

static rsh_status slow_receive(void *ctx, int peer, int tag, void *data, size_t bytes, rsh_wire_request *out) {
    slow_request slow = {.until = tag >= RSHI_COMM_TAGS ? -1 : 0};
    RSH_TRY(inner[0].recv(ctx, peer, tag, data, bytes, out));
    slow.pointer = out->pointer;
    memcpy(out, &slow, sizeof slow);
    return RSH_OK;
}

static rsh_status quick_send(void *ctx, int peer, int tag, const void *data, size_t bytes, rsh_wire_request *out) {
    slow_request quick = {0};
    RSH_TRY(inner[0].send(ctx, peer, tag, data, bytes, out));
    quick.pointer = out->pointer;
    memcpy(out, &quick, sizeof quick);
    return RSH_OK;
}

static rsh_status slow_test(void *ctx, rsh_wire_request *request, bool *done) {
    slow_request slow;
    memcpy(&slow, request, sizeof slow);
    RSH_TRY(inner[0].test(ctx, request, done));
    if (!*done) return RSH_OK;
    if (slow.until == -1) slow.until = rshi_seconds() + lateness;
    slow.pointer = NULL; /* a request without a mailbox pointer counts as complete */
    memcpy(request, &slow, sizeof slow);
    *done = rshi_seconds() >= slow.until;
    return RSH_OK;
}

/* As on a busy machine, where a rank may stop anywhere for a while. */
static rsh_status stalled_probe(void *ctx, int tag, int *peer) {
    usleep(60000);
    return inner[0].probe(ctx, tag, peer);
}

/* Rank 0 has sent everything and leaves. */
static rsh_status one_way(void *ctx, rsh_comm *comm) {
    bound b;
    RSH_TRY(bind_on(ctx, comm, "f32[40] boxes 0:[0:40]", "f32[40] boxes 1,2,3:[0:40]", &b));
    rsh_status st = rsh_exec_run(b.exec);
    if (!st) CHECK(check_result(b.dst) == RSH_OK);
    unbind(&b);
    return st;
}
static rsh_status two_one_ways(void *ctx, rsh_comm *comm) {
    bound b[2];
    for (int i = 0; i < 2; i++)
        RSH_TRY(bind_on(ctx, comm, "f32[40] boxes 0:[0:40]", "f32[40] boxes 1,2,3:[0:40]", &b[i]));
    for (int i = 0; i < 2; i++) RSH_TRY(rsh_exec_begin(b[i].exec));
    for (int i = 0; i < 2; i++) RSH_TRY(rsh_exec_wait(b[i].exec));
    for (int i = 0; i < 2; i++) CHECK(check_result(b[i].dst) == RSH_OK);
    for (int i = 0; i < 2; i++) unbind(&b[i]);
    return RSH_OK;
}
static void run_slowly(rsh_rank_fn fn, double late, bool stall) {
    lateness = late;
    scene s = {.where = NODES_OF_ONE};
    rshi_node *near[RANKS];
    rsh_comm *comms[RANKS];
    const int64_t node[RANKS] = {0, 1, 2, 3};
    alarm(PATIENCE);
    assert_int_equal(mailbox_wires(RANKS, inner), RSH_OK);
    for (int r = 0; r < RANKS; r++) {
        rsh_wire slow = inner[r];
        slow.send = quick_send;
        slow.recv = slow_receive;
        slow.test = slow_test;
        if (stall) slow.probe = stalled_probe;
        assert_int_equal(rshi_threads_new(1, &near[r]), RSH_OK);
        assert_int_equal(rshi_comm_mixed(&slow, near[r], node, &comms[r]), RSH_OK);
    }
    rsh_status st = rshi_run_comms(RANKS, comms, fn, &s);
    if (st) fail_msg("%s: %s", rsh_status_name(st), rsh_error_detail());
    alarm(0);
}
static void what_a_rank_sent_before_it_left_counts_when_it_comes_late(void **state) {
    (void)state;
    run_slowly(one_way, 0.02, false);
}
static void time_without_a_look_is_no_proof_that_a_rank_is_lost(void **state) {
    (void)state;
    run_slowly(two_one_ways, 0.3, true);
}

/* ---- runs on other memory, and without memory for its shadow ---- */

#define TWO_PARTS                                                                                                      \
    "f32[4, 64] boxes 0:[0:1,0:32] 0:[0:1,32:64] 1:[1:2,0:32] 1:[1:2,32:64] 2:[2:3,0:32] 2:[2:3,32:64] 3:[3:4,0:32] "  \
    "3:[3:4,32:64]"

/* The source has two parts, each of which needs a shadow.  There is no memory for the first or for the second. */
static rsh_status without_memory(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_layout *from = NULL, *to = NULL;
    rsh_plan *plan = NULL;
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_exec *e = NULL;
    float other[3][64] = {{0}};
    RSH_TRY(rsh_layout_parse(TWO_PARTS, &from));
    RSH_TRY(rsh_layout_parse("f32[4, 64/x] on x=4", &to));
    RSH_TRY(rsh_plan_new(from, to, NULL, &plan));
    RSH_TRY(make_source(comm, from, &src));
    RSH_TRY(rsh_sharded_zeros(comm, to, &dst));
    rsh_memory bound[2] = {{rsh_tensor_data(rsh_sharded_part(src, 0)), NULL},
                           {rsh_tensor_data(rsh_sharded_part(src, 1)), NULL}},
               into = memory_of(dst);
    RSH_TRY(rsh_exec_bind(plan, comm, bound, &into, &e));
    for (int k = 0; k < 3; k++) {
        /* fails for the list of shadows or, once the list exists, for the second shadow */
        rsh_alloc_fail_at(k ? 1 : 0);
        rsh_status st =
            rsh_exec_run_on(e, (rsh_memory[2]){{other[0], NULL}, {other[1], NULL}}, &(rsh_memory){other[2], NULL});
        rsh_alloc_fail_at(-1);
        CHECK(st == RSH_ENOMEM);
        RSH_TRY(rsh_comm_barrier(comm));
        memset(into.data, 0, 64 * sizeof(float));
        RSH_TRY(rsh_exec_run(e));
        CHECK(check_result(dst) == RSH_OK);
    }
    rsh_exec_free(e);
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    rsh_plan_free(plan);
    rsh_layout_free(from);
    rsh_layout_free(to);
    return RSH_OK;
}
static void a_run_on_other_memory_that_is_refused_leaves_what_was_bound(void **state) {
    (void)state;
    alarm(PATIENCE);
    rsh_status st = rsh_run_shm(RANKS, without_memory, NULL);
    if (st) fail_msg("%s: %s", rsh_status_name(st), rsh_error_detail());
    alarm(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_may_test_another_run_first),
        cmocka_unit_test(two_runs_of_one_tag_do_not_take_one_anothers_messages),
        cmocka_unit_test(who_tests_hears_that_a_rank_has_left),
        cmocka_unit_test(a_flag_that_its_rank_uses_again_is_no_refusal),
        cmocka_unit_test(who_comes_too_late_gets_an_error_and_not_other_data),
        cmocka_unit_test(what_a_rank_sent_before_it_left_counts_when_it_comes_late),
        cmocka_unit_test(time_without_a_look_is_no_proof_that_a_rank_is_lost),
        cmocka_unit_test(a_run_on_other_memory_that_is_refused_leaves_what_was_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
