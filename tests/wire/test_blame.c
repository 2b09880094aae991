/* Blame: a rank that has waited too long names the rank that is missing, not one that is itself waiting. */
#include "comm/impatience.h"
#include "comm/ranks.h"

#include <math.h>
#include <stdatomic.h>
#include <unistd.h>


static const int apart[] = {0, 1, 2, 3, 4, 5, 6, 7}, two_and_two[] = {0, 0, 1, 1}, three_and_one[] = {0, 0, 0, 1};

/* The ranks, as bits, that arrive only after the others have given up. */
typedef struct absence {
    int ranks;
    unsigned missing;
    rsh_status (*call)(rsh_comm *c);
    const char *blame;
    const char *or_blame; /* alternative, if ranks wait for different missing ranks; may be NULL */
    double timeout; /* in seconds */
    atomic_int failed;
} absence;

static rsh_status barrier(rsh_comm *c) { return rsh_comm_barrier(c); }

/* Each rank sends much data to the next one. */
static rsh_status ring(rsh_comm *c) {
    enum { BYTES = 100000 };
    char *in = malloc(BYTES), *out = calloc(1, BYTES);
    rsh_status st = rsh_comm_exchange(c, 1, &(rsh_message){(c->rank + 1) % c->size, out, BYTES}, 1,
                                      &(rsh_message){(c->rank + c->size - 1) % c->size, in, BYTES});
    free(in);
    free(out);
    return st;
}

static rsh_status waits(void *ctx, rsh_comm *c) {
    absence *a = ctx;
    int missing = __builtin_popcount(a->missing);
    RSH_TRY(rsh_comm_barrier(c));
    set_timeout(c, a->timeout);
    if (a->missing >> c->rank & 1) {
        while (a->failed < a->ranks - missing) usleep(1000);
        return RSH_OK;
    }
    rsh_status st = a->call(c);
    bool blamed = strstr(rsh_error_detail(), a->blame) || (a->or_blame && strstr(rsh_error_detail(), a->or_blame));
    a->failed++;
    CHECK(st == RSH_ETIMEOUT || st == RSH_EPEER);
    CHECK(blamed);
    return RSH_OK;
}

/* On a busy machine a rank may answer so late that it counts as missing, which is correct.  So each attempt has twice
 * the timeout of the one before, up to half a minute. */
#define TIMEOUT 0.2 /* seconds, of the first attempt */
enum { ATTEMPTS = 8 };

static void blame(absence a, const int *node) {
    rsh_status st = RSH_ERUNTIME;
    for (int i = 0; st && i < ATTEMPTS; i++) {
        a.failed = 0;
        a.timeout = ldexp(TIMEOUT, i);
        st = run_on_nodes(a.ranks, node, waits, &a);
    }
    if (st) fail_msg("%d ranks: %s", a.ranks, rsh_error_detail());
}

static void a_rank_that_does_not_come_is_named_by_all(void **state) {
    (void)state;
    blame((absence){.ranks = 4, .missing = 8, .call = barrier, .blame = "rank 3 did not answer"}, apart);
    blame((absence){.ranks = 8, .missing = 2, .call = barrier, .blame = "rank 1 did not answer"}, apart);
    blame((absence){.ranks = 4, .missing = 4, .call = barrier, .blame = "rank 2 did not answer"}, two_and_two);
    blame((absence){.ranks = 4, .missing = 1, .call = ring, .blame = "rank 0 did not answer"}, three_and_one);
}

static void of_several_that_do_not_come_all_are_named(void **state) {
    (void)state;
    absence a = {.ranks = 4, .missing = 6, .call = barrier, .blame = "ranks 1 and 2 did not answer"};
    a.or_blame = "did not answer";
    blame(a, apart);
}

/* Each of two ranks waits for the other, in different calls. */
static rsh_status cross(void *ctx, rsh_comm *c) {
    const double *timeout = ctx;
    char byte[1000] = {0};
    rsh_wire_request request;
    RSH_TRY(rsh_comm_barrier(c));
    set_timeout(c, *timeout);
    if (c->rank == 1) {
        rsh_status st = rsh_comm_barrier(c);
        CHECK(st == RSH_ETIMEOUT || st == RSH_EPEER);
    } else {
        double begin = rshi_seconds();
        rsh_status st = RSH_OK;
        RSH_TRY(c->ops->recv(c, 1, rshi_comm_tag(c), byte, sizeof byte, &request));
        while (!st) {
            usleep(1000);
            st = c->ops->check_peer(c, 1, rshi_seconds() - begin);
        }
        c->ops->cancel(c, &request);
        CHECK(st == RSH_ETIMEOUT || st == RSH_EPEER);
        rshi_comm_verdict(c, st);
    }
    CHECK_SAYS("the missing rank is unknown");
    return RSH_OK;
}
static void where_all_wait_nobody_is_named(void **state) {
    (void)state;
    rsh_status st = RSH_ERUNTIME;
    for (int i = 0; st && i < ATTEMPTS; i++) st = run_on_nodes(2, apart, cross, &(double){ldexp(TIMEOUT, i)});
    if (st) fail_msg("%s", rsh_error_detail());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_does_not_come_is_named_by_all),
        cmocka_unit_test(of_several_that_do_not_come_all_are_named),
        cmocka_unit_test(where_all_wait_nobody_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
