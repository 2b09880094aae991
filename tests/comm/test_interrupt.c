/* Interrupt: a function of the caller ends waits; a rank that has failed tells the others why. */
#include "ranks.h"

#include <reshard/progress.h>

#include <stdatomic.h>
#include <unistd.h>

static int stop_after_three(void *ctx) { return ++*(int *)ctx >= 3; }

static atomic_bool over; /* rank 1 has given up */

/* Rank 0 enters the barrier only after rank 1 has given up. */
static rsh_status one_gives_up(void *ctx, rsh_comm *c) {
    int asked = 0;
    (void)ctx;
    if (rsh_comm_rank(c) == 0) {
        while (!over) usleep(1000);
        CHECK_STATUS(RSH_EPEER, rsh_comm_barrier(c));
        CHECK_SAYS("rank 1");
        CHECK_SAYS("interrupted");
        return RSH_OK;
    }
    rsh_interrupt_set(stop_after_three, &asked);
    rsh_status st = rsh_comm_barrier(c);
    rsh_interrupt_set(NULL, NULL);
    bool said = strstr(rsh_error_detail(), "interrupted");
    over = true;
    CHECK(st == RSH_ETIMEOUT && said && asked == 3);
    CHECK_STATUS(RSH_ETIMEOUT, rsh_comm_barrier(c)); /* the comm has failed permanently */
    return RSH_OK;
}
static void a_wait_that_is_interrupted_ends_and_the_comm_has_failed(void **state) {
    (void)state;
    over = false;
    run_ranks(2, one_gives_up, NULL);
}

static rsh_status tells_why(void *ctx, rsh_comm *c) {
    (void)ctx;
    if (rsh_comm_rank(c) == 1) {
        CHECK_STATUS(RSH_EVALUE, rsh_comm_fail(c, RSH_OK, "fine"));
        CHECK_STATUS(RSH_EVALUE, rsh_comm_fail(c, RSH_EKEY, NULL));
        CHECK_STATUS(RSH_OK, rsh_comm_fail(c, RSH_EKEY, "KeyError: layer 7"));
        CHECK_STATUS(RSH_OK, rsh_comm_fail(c, RSH_EIO, "what comes later does not count"));
        CHECK_STATUS(RSH_EKEY, rsh_comm_barrier(c));
        return RSH_OK;
    }
    CHECK_STATUS(RSH_EPEER, rsh_comm_barrier(c));
    CHECK_SAYS("rank 1");
    CHECK_SAYS("KeyError: layer 7");
    return RSH_OK;
}
static void a_rank_that_says_it_failed_tells_the_others_why(void **state) {
    (void)state;
    run_ranks(3, tells_why, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_that_is_interrupted_ends_and_the_comm_has_failed),
        cmocka_unit_test(a_rank_that_says_it_failed_tells_the_others_why),
    };
    return RUN_EVERYWHERE(tests);
}
