/* Exchange: random lists of messages, and lists that do not match. */
#include "ranks.h"

enum { MOST_MESSAGES = 4, MOST_BYTES = 3000 };

/* Returns a seed for message k from `from` to `to` in round `round`; it determines the message's size and bytes. */
static uint64_t message_seed(uint64_t seed, int round, int from, int to, int k) {
    uint64_t key[4] = {(uint64_t)round, (uint64_t)from, (uint64_t)to, (uint64_t)k};
    return rshi_hash(key, sizeof key, seed);
}
static size_t message_bytes(uint64_t s) { return draw(&s) % 5 ? draw(&s) % MOST_BYTES : 0; }
static int message_count(uint64_t seed, int round, int from, int to) {
    uint64_t s = message_seed(seed, round, from, to, -1);
    return (int)(draw(&s) % (MOST_MESSAGES + 1));
}

static void fill(unsigned char *data, size_t bytes, uint64_t s) {
    for (size_t i = 0; i < bytes; i++) data[i] = (unsigned char)(s >> (i % 8 * 8));
}
static bool is_filled(const unsigned char *data, size_t bytes, uint64_t s) {
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != (unsigned char)(s >> (i % 8 * 8))) return false;
    return true;
}

/* Lists the messages with peers interleaved: message k of every peer precedes message k + 1 of any peer.  The first
 * peer depends on the rank. */
static int64_t list_messages(uint64_t seed, int round, rsh_comm *c, bool sending, rsh_message *list) {
    int me = rsh_comm_rank(c), n = rsh_comm_size(c);
    int64_t count = 0;
    for (int k = 0; k < MOST_MESSAGES; k++)
        for (int i = 0; i < n; i++) {
            int peer = (me * 7 + i + k) % n, from = sending ? me : peer, to = sending ? peer : me;
            if (k >= message_count(seed, round, from, to)) continue;
            uint64_t s = message_seed(seed, round, from, to, k);
            size_t bytes = message_bytes(s);
            list[count++] = (rsh_message){peer, malloc(bytes + 1), bytes};
            if (sending) fill(list[count - 1].data, bytes, s);
        }
    return count;
}

static int64_t count_wrong(uint64_t seed, int round, rsh_comm *c, int64_t nrecv, const rsh_message *recv) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < nrecv; i++) {
        int k = 0;
        for (int64_t j = 0; j < i; j++) k += recv[j].peer == recv[i].peer;
        wrong += !is_filled(recv[i].data, recv[i].bytes, message_seed(seed, round, recv[i].peer, rsh_comm_rank(c), k));
    }
    return wrong;
}

static rsh_status random_round(uint64_t seed, int round, rsh_comm *c) {
    size_t most = MOST_MESSAGES * (size_t)rsh_comm_size(c);
    rsh_message *send = calloc(most, sizeof *send), *recv = calloc(most, sizeof *recv);
    int64_t nsend = list_messages(seed, round, c, true, send), nrecv = list_messages(seed, round, c, false, recv);
    rsh_status st = rsh_comm_exchange(c, nsend, send, nrecv, recv);
    int64_t wrong = st ? 0 : count_wrong(seed, round, c, nrecv, recv);
    for (int64_t i = 0; i < nsend; i++) free(send[i].data);
    for (int64_t i = 0; i < nrecv; i++) free(recv[i].data);
    free(send);
    free(recv);
    RSH_TRY(st);
    CHECK(!wrong);
    return RSH_OK;
}

static rsh_status random_rounds(void *ctx, rsh_comm *c) {
    int rounds = rsh_comm_size(c) > 8 ? 3 : 20;
    for (int round = 0; round < rounds; round++) RSH_TRY(random_round(*(uint64_t *)ctx, round, c));
    return RSH_OK;
}
static void random_messages_arrive_in_order_and_whole(void **state) {
    (void)state;
    uint64_t seed = test_seed(20240611);
    run_all_counts(random_rounds, &seed);
}

static rsh_status two_against_one(void *ctx, rsh_comm *c) {
    (void)ctx;
    char a[8] = "abc", b[8];
    rsh_message send[2] = {{1, a, 4}, {1, a, 4}}, recv[1] = {{0, b, 4}};
    int me = rsh_comm_rank(c);
    CHECK_STATUS(RSH_EMISMATCH, rsh_comm_exchange(c, me == 0 ? 2 : 0, send, me == 1, recv));
    CHECK_SAYS("rank 0 sends 2 messages to rank 1, which expects 1");
    CHECK_STATUS(RSH_OK, rsh_comm_exchange(c, me == 0, send, me == 1, recv));
    CHECK(me != 1 || !strcmp(b, "abc"));
    return RSH_OK;
}
static void a_send_without_a_receive_is_a_mismatch_on_all_ranks(void **state) {
    (void)state;
    for (int n = 2; n <= 4; n++) run_ranks(n, two_against_one, NULL);
}

static rsh_status receives_nothing(void *ctx, rsh_comm *c) {
    bool sends = *(bool *)ctx;
    char a[8] = "abc";
    int me = rsh_comm_rank(c);
    rsh_message one = {1 - me, a, 4};
    CHECK_STATUS(RSH_EMISMATCH, rsh_comm_exchange(c, sends && me == 0, &one, !sends && me == 1, &one));
    CHECK_SAYS(sends ? "sends 1 messages to rank 1, which expects 0" : "sends 0 messages to rank 1, which expects 1");
    return RSH_OK;
}
static void a_message_that_only_one_side_knows_is_a_mismatch(void **state) {
    (void)state;
    for (int sends = 0; sends < 2; sends++) run_ranks(2, receives_nothing, &(bool){sends});
}

static rsh_status other_size(void *ctx, rsh_comm *c) {
    (void)ctx;
    char a[16] = "abc", b[16];
    int me = rsh_comm_rank(c), n = rsh_comm_size(c);
    rsh_message send = {(me + 1) % n, a, 8}, recv = {(me + n - 1) % n, b, me == 0 ? 9 : 8};
    CHECK_STATUS(RSH_EMISMATCH, rsh_comm_exchange(c, 1, &send, 1, &recv));
    CHECK_SAYS("8 bytes, expected 9");
    recv.bytes = 8;
    CHECK_STATUS(RSH_OK, rsh_comm_exchange(c, 1, &send, 1, &recv));
    CHECK(!strcmp(b, "abc"));
    return RSH_OK;
}
static void messages_of_another_size_are_a_mismatch_and_the_comm_goes_on(void **state) {
    (void)state;
    run_all_counts(other_size, NULL);
}

static rsh_status bad_lists(void *ctx, rsh_comm *c) {
    (void)ctx;
    char a[8];
    bool me = rsh_comm_rank(c) == 1;
    rsh_message far = {rsh_comm_size(c), a, 8}, nowhere = {0, NULL, 8};
    CHECK_STATUS(RSH_EVALUE, rsh_comm_exchange(c, me, &far, 0, NULL));
    CHECK_SAYS("rank 1: exchange: send 0");
    CHECK_STATUS(RSH_EVALUE, rsh_comm_exchange(c, 0, NULL, me, &nowhere));
    CHECK_STATUS(RSH_EVALUE, rsh_comm_exchange(c, me ? -1 : 0, NULL, 0, NULL));
    CHECK_STATUS(RSH_EVALUE, rsh_comm_exchange(c, me ? 3 : 0, NULL, 0, NULL));
    CHECK_STATUS(RSH_OK, rsh_comm_exchange(c, 0, NULL, 0, NULL));
    return RSH_OK;
}
static void bad_lists_are_refused_on_all_ranks(void **state) {
    (void)state;
    run_ranks(3, bad_lists, NULL);
}

/* Every rank sends an int to every rank. */
static rsh_status all_to_all(void *ctx, rsh_comm *c) {
    (void)ctx;
    int n = rsh_comm_size(c), me = rsh_comm_rank(c), wrong = 0;
    int *out = calloc((size_t)n, sizeof *out), *in = calloc((size_t)n, sizeof *in);
    rsh_message *lists = calloc(2 * (size_t)n, sizeof *lists);
    for (int r = 0; r < n; r++) {
        out[r] = me * n + r;
        lists[r] = (rsh_message){r, &out[r], sizeof *out};
        lists[n + r] = (rsh_message){r, &in[r], sizeof *in};
    }
    rsh_status st = rsh_comm_exchange(c, n, lists, n, lists + n);
    for (int r = 0; r < n; r++) wrong += in[r] != r * n + me;
    free(out);
    free(in);
    free(lists);
    RSH_TRY(st);
    CHECK(!wrong);
    return RSH_OK;
}
static void everybody_sends_to_everybody_up_to_hundreds_of_ranks(void **state) {
    (void)state;
    run_all_counts(all_to_all, NULL);
    run_ranks(300, all_to_all, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_messages_arrive_in_order_and_whole),
        cmocka_unit_test(a_send_without_a_receive_is_a_mismatch_on_all_ranks),
        cmocka_unit_test(a_message_that_only_one_side_knows_is_a_mismatch),
        cmocka_unit_test(messages_of_another_size_are_a_mismatch_and_the_comm_goes_on),
        cmocka_unit_test(bad_lists_are_refused_on_all_ranks),
        cmocka_unit_test(everybody_sends_to_everybody_up_to_hundreds_of_ranks),
    };
    return RUN_EVERYWHERE(tests);
}
