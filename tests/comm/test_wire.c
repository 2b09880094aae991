/* Comms on wires: nodes, messages between nodes, and what the tests of other engines do not cover. */
#include "ranks.h"
#include "sanitized.h"

#include "comm/impl.h"

#include <unistd.h>

static const int two_and_two[] = {0, 0, 1, 1}, each_alone[] = {0, 1, 2}, odd[] = {5, 7, 5, 5, 2, 7};

static rsh_status knows_nodes(void *ctx, rsh_comm *c) {
    const int *expected = ctx;
    int most = 0;
    for (int r = 0; r < c->size; r++) {
        CHECK(rsh_comm_node(c, r) == expected[r]);
        if (expected[r] > most) most = expected[r];
    }
    CHECK(rsh_comm_nnodes(c) == most + 1);
    CHECK(!strcmp(rsh_comm_engine(c), "mailboxes"));
    return RSH_OK;
}
static void nodes_are_numbered_in_order_of_their_lowest_ranks(void **state) {
    (void)state;
    int numbered[] = {0, 1, 0, 0, 2, 1}, one[3] = {0};
    assert_int_equal(run_on_nodes(6, odd, knows_nodes, numbered), RSH_OK);
    assert_int_equal(run_on_nodes(4, two_and_two, knows_nodes, (int *)two_and_two), RSH_OK);
    assert_int_equal(run_on_nodes(3, NULL, knows_nodes, one), RSH_OK);
}

/* Each rank publishes a number; ranks of its node can read it, other ranks cannot. */
static rsh_status reads_its_node(void *ctx, rsh_comm *c) {
    (void)ctx;
    int *mine = c->ops->shared_alloc(c, 64);
    rshi_handle handle, all[8];
    CHECK(mine);
    *mine = 100 + c->rank;
    RSH_TRY(c->ops->publish(c, mine, sizeof *mine, &handle));
    RSH_TRY(rsh_comm_allgather(c, &handle, all, sizeof handle));
    for (int r = 0; r < c->size; r++) {
        const int *theirs = c->ops->reach(c, r, all[r]);
        CHECK(!theirs == !rshi_comm_near(c, c->rank, r));
        if (theirs) CHECK(*theirs == 100 + r);
    }
    RSH_TRY(rsh_comm_barrier(c));
    c->ops->shared_free(c, mine, 64);
    return RSH_OK;
}
static void memory_is_read_within_a_node_only(void **state) {
    (void)state;
    assert_int_equal(run_on_nodes(6, odd, reads_its_node, NULL), RSH_OK);
    assert_int_equal(run_on_nodes(3, NULL, reads_its_node, NULL), RSH_OK);
}

/* Sends messages around a ring, several at once, short and long. */
static rsh_status sends_around(void *ctx, rsh_comm *c) {
    (void)ctx;
    enum { N = 6 };
    static const size_t sizes[N] = {0, 1, 200, 5000, 70000, 3};
    int to = (c->rank + 1) % c->size, from = (c->rank + c->size - 1) % c->size, tag = rshi_comm_tag(c);
    char *out[N], *in[N];
    rsh_wire_request requests[2 * N];
    for (int i = 0; i < N; i++) {
        out[i] = memset(malloc(sizes[i] + 1), c->rank + i, sizes[i]);
        in[i] = malloc(sizes[i] + 1);
        RSH_TRY(c->ops->recv(c, from, tag, in[i], sizes[i], &requests[i]));
        RSH_TRY(c->ops->send(c, to, tag, out[i], sizes[i], &requests[N + i]));
    }
    for (int i = 0, done = 0; i < 2 * N; i += done) {
        bool yes = false;
        RSH_TRY(c->ops->test(c, &requests[i], &yes));
        RSH_TRY(c->ops->check_peer(c, from, 0));
        done = yes;
    }
    int wrong = 0;
    for (int i = 0; i < N; i++) {
        for (size_t b = 0; b < sizes[i]; b++) wrong += in[i][b] != from + i;
        free(in[i]);
        free(out[i]);
    }
    CHECK(!wrong);
    return rsh_comm_barrier(c);
}
static void messages_between_nodes_keep_their_order(void **state) {
    (void)state;
    assert_int_equal(run_on_nodes(3, each_alone, sends_around, NULL), RSH_OK);
    assert_int_equal(run_on_nodes(4, two_and_two, sends_around, NULL), RSH_OK);
}

/* Rank 0 fails.  The other ranks learn of it when they ask, on any node, and their receives are cancelled. */
static rsh_status asks(void *ctx, rsh_comm *c) {
    (void)ctx;
    if (c->rank == 0) {
        usleep(3000);
        return rshi_fail(RSH_EIO, "no paper");
    }
    char byte[1000];
    rsh_wire_request request;
    RSH_TRY(c->ops->recv(c, 0, rshi_comm_tag(c), byte, sizeof byte, &request));
    rsh_status st;
    do {
        usleep(100);
        st = c->ops->check_peer(c, c->rank % 2 ? 0 : -1, 0);
    } while (!st);
    c->ops->cancel(c, &request);
    CHECK(st == RSH_EPEER);
    CHECK_SAYS("rank 0 failed with RSH_EIO: no paper");
    CHECK_STATUS(RSH_ETIMEOUT, c->ops->check_peer(c, (c->rank + 1) % c->size ? c->rank : c->rank, 1e9));
    return RSH_OK;
}
static void a_question_names_the_rank_that_failed(void **state) {
    (void)state;
    assert_int_equal(run_on_nodes(4, two_and_two, asks, NULL), RSH_EIO);
    assert_int_equal(run_on_nodes(3, each_alone, asks, NULL), RSH_EIO);
}

/* Error messages of a node's comm name ranks by their numbers in the whole comm. */
static rsh_status waits_within_its_node(void *ctx, rsh_comm *c) {
    rshi_flag *flag = ctx;
    if (c->rank == 3) return rshi_fail(RSH_EKEY, "no key");
    if (c->rank != 2) return RSH_OK;
    CHECK_STATUS(RSH_EPEER, c->ops->wait(c, 3, flag, 1));
    CHECK_SAYS("rank 3 failed with RSH_EKEY: no key");
    CHECK_STATUS(RSH_ERUNTIME, c->ops->wait(c, 0, flag, 1));
    return RSH_OK;
}
static void a_rank_of_a_node_is_named_by_its_rank_in_the_comm(void **state) {
    (void)state;
    rshi_flag flag = {0};
    assert_int_equal(run_on_nodes(4, two_and_two, waits_within_its_node, &flag), RSH_EKEY);
}

/* Sends messages in pieces, because no rank has room for a gigabyte. */
static rsh_status in_pieces(void *ctx, rsh_comm *c) {
    (void)ctx;
    enum { BYTES = 100000 };
    c->link->piece = 777;
    unsigned char *out = malloc(BYTES), *in = calloc(1, BYTES);
    for (int i = 0; i < BYTES; i++) out[i] = (unsigned char)(i * 7 + c->rank);
    int to = (c->rank + 1) % c->size, from = (c->rank + c->size - 1) % c->size;
    rsh_status st = rsh_comm_exchange(c, 1, &(rsh_message){to, out, BYTES}, 1, &(rsh_message){from, in, BYTES});
    int wrong = 0;
    for (int i = 0; i < BYTES; i++) wrong += in[i] != (unsigned char)(i * 7 + from);
    free(out);
    free(in);
    RSH_TRY(st);
    CHECK(!wrong);
    return RSH_OK;
}
static void long_messages_travel_in_pieces(void **state) {
    (void)state;
    assert_int_equal(run_on_nodes(3, each_alone, in_pieces, NULL), RSH_OK);
}

/* A split keeps ranks of a node on one node, and becomes a comm of one node if it can. */
static rsh_status splits_by_node(void *ctx, rsh_comm *c) {
    (void)ctx;
    rsh_comm *mine = NULL, *across = NULL;
    int node = rsh_comm_node(c, c->rank);
    RSH_TRY(rsh_comm_split(c, node, 0, &mine));
    CHECK(rsh_comm_nnodes(mine) == 1 && !mine->ops->send);
    RSH_TRY(rsh_comm_split(c, 0, -c->rank, &across));
    CHECK(rsh_comm_nnodes(across) == rsh_comm_nnodes(c));
    for (int r = 0; r < c->size; r++)
        CHECK(rshi_comm_near(across, c->size - 1 - c->rank, r) == rshi_comm_near(c, c->rank, c->size - 1 - r));
    RSH_TRY(reads_its_node(NULL, across));
    RSH_TRY(reads_its_node(NULL, mine));
    RSH_TRY(rsh_comm_free(mine));
    return rsh_comm_free(across);
}
static void a_split_keeps_ranks_of_a_node_together(void **state) {
    (void)state;
    assert_int_equal(run_on_nodes(6, odd, splits_by_node, NULL), RSH_OK);
}

/* If a rank fails to make its comm, the others get an error and do not wait. */
typedef struct wiring {
    rsh_wire wires[3];
    rshi_node *near[3];
    int64_t which; /* number of the allocation of rank 1 that fails */
    atomic_int made;
} wiring;
static rsh_status makes_comm(void *ctx, rsh_comm *helper) {
    wiring *w = ctx;
    const int64_t node[3] = {0, 1, 2};
    rsh_comm *c = NULL;
    if (helper->rank == 1) rsh_alloc_fail_at(w->which);
    rsh_status st = rshi_comm_mixed(&w->wires[helper->rank], w->near[helper->rank], node, &c);
    rsh_alloc_fail_at(-1);
    CHECK(st == RSH_OK || (st == RSH_ENOMEM && helper->rank == 1));
    if (st) return RSH_OK;
    if (helper->rank == 1) atomic_store(&w->made, 1);
    st = rsh_comm_barrier(c);
    CHECK(st == RSH_OK || st == RSH_EPEER);
    if (st) CHECK_SAYS("rank 1 failed with RSH_ENOMEM");
    return rsh_comm_free(c);
}
static void a_rank_without_memory_for_its_comm_is_named_by_the_others(void **state) {
    (void)state;
    wiring w = {0};
    for (; !w.made; w.which++) {
        assert_int_equal(mailbox_wires(3, w.wires), RSH_OK);
        for (int r = 0; r < 3; r++) assert_int_equal(rshi_threads_new(1, &w.near[r]), RSH_OK);
        run_ranks(3, makes_comm, &w);
    }
    assert_true(w.which > 3);
}

/* ---- rsh_comm_wire: threads that find one another as processes do ---- */

/* Checks that the address range has room for four arenas that four ranks map, in one process. */
static void needs_address_range(void) {
#ifdef SANITIZED_THREAD
    skip_test("sanitizer", "the thread sanitizer leaves too little address space for the arenas of four ranks");
#endif
}

typedef struct hosts {
    rsh_wire wires[4];
    uint64_t host[4];
    const int *expected;
} hosts;
static rsh_status finds_nodes(void *ctx, rsh_comm *helper) {
    hosts *h = ctx;
    rsh_comm *c = NULL;
    h->wires[helper->rank].host = h->host[helper->rank];
    RSH_TRY(rsh_comm_wire(&h->wires[helper->rank], &c));
    rsh_status st = knows_nodes((void *)h->expected, c);
    if (!st) st = reads_its_node(NULL, c);
    if (!st) st = splits_by_node(NULL, c);
    if (st) c->ops->leave(c, st, rsh_error_detail());
    rsh_comm_free(c);
    return st;
}
static void ranks_of_one_host_share_a_node(void **state) {
    (void)state;
    needs_address_range();
    static const int one[4] = {0}, turn[4] = {0, 1, 0, 1}, all[4] = {0, 1, 2, 3};
    hosts cases[] = {{.host = {0, 0, 0, 0}, .expected = one},
                     {.host = {9, 5, 9, 5}, .expected = turn},
                     {.host = {4, 3, 2, 1}, .expected = all}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(mailbox_wires(4, cases[i].wires), RSH_OK);
        run_ranks(4, finds_nodes, &cases[i]);
    }
}

/* Every allocation of rank 1 fails once: it returns an error or its node is divided, and no rank waits. */
typedef struct shortage {
    rsh_wire wires[3];
    int64_t which;
    atomic_int whole;
} shortage;
static rsh_status makes_whole_comm(void *ctx, rsh_comm *helper) {
    shortage *s = ctx;
    rsh_comm *c = NULL;
    s->wires[helper->rank].host = helper->rank == 2; /* rank 1 can share memory only with rank 0 */
    if (helper->rank == 1) rsh_alloc_fail_at(s->which);
    rsh_status st = rsh_comm_wire(&s->wires[helper->rank], &c);
    rsh_alloc_fail_at(-1);
    CHECK(st == RSH_OK || st == RSH_ENOMEM || st == RSH_EPEER);
    if (st) {
        CHECK_SAYS("memory");
        return RSH_OK;
    }
    atomic_store(&s->whole, rsh_comm_nnodes(c) == 2);
    st = rsh_comm_barrier(c);
    rsh_comm_free(c);
    return st;
}
static void making_a_comm_on_a_wire_survives_every_failed_allocation(void **state) {
    (void)state;
    setenv("RESHARD_TIMEOUT", "6", 1); /* rank 0 waits a third of it for rank 1, which has no memory to join */
    shortage s = {0};
    for (; !s.whole && s.which < 100; s.which++) {
        assert_int_equal(mailbox_wires(3, s.wires), RSH_OK);
        run_ranks(3, makes_whole_comm, &s);
    }
    unsetenv("RESHARD_TIMEOUT");
    assert_true(s.whole && s.which > 10);
}

static rsh_status refuses(void *ctx, rsh_comm *helper) {
    hosts *h = ctx;
    rsh_comm *c = NULL;
    CHECK_STATUS(RSH_EVALUE, rsh_comm_wire(&h->wires[helper->rank], helper->rank ? &c : NULL));
    return RSH_OK;
}
static void a_wire_that_lacks_something_is_refused(void **state) {
    (void)state;
    hosts h = {0};
    assert_int_equal(mailbox_wires(2, h.wires), RSH_OK);
    h.wires[1].probe = NULL;
    run_ranks(2, refuses, &h);
    assert_int_equal(rsh_comm_wire(NULL, NULL), RSH_EVALUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_numbered_in_order_of_their_lowest_ranks),
        cmocka_unit_test(memory_is_read_within_a_node_only),
        cmocka_unit_test(messages_between_nodes_keep_their_order),
        cmocka_unit_test(a_question_names_the_rank_that_failed),
        cmocka_unit_test(a_rank_of_a_node_is_named_by_its_rank_in_the_comm),
        cmocka_unit_test(long_messages_travel_in_pieces),
        cmocka_unit_test(a_split_keeps_ranks_of_a_node_together),
        cmocka_unit_test(a_rank_without_memory_for_its_comm_is_named_by_the_others),
        cmocka_unit_test(ranks_of_one_host_share_a_node),
        cmocka_unit_test(making_a_comm_on_a_wire_survives_every_failed_allocation),
        cmocka_unit_test(a_wire_that_lacks_something_is_refused),
    };
    return exit_status(cmocka_run_group_tests(tests, NULL, NULL));
}
