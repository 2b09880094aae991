/* Kept: after a failure a wire may still use memory of the library, but never memory of the caller.
 *
 * Mailboxes stop in the middle of a call, and every rank gets an error.  Each rank makes its memory inaccessible at
 * once, and exec and comm are freed.  Then the mailboxes deliver the messages that they still have. */
#include "ramp.h"

#include "comm/comm.h"
#include "comm/impatience.h"
#include "comm/mailboxes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 3, BYTES = 3 << 20 };
static const int apart[MOST] = {0, 1, 2};

/* Memory that is kept for the wire has no owner any more, so it looks like a leak. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:rshi_link_new\nleak:rshi_link_exchange\nleak:rshi_messages_new\n";
}

typedef struct world {
    int ranks;
    rsh_status (*call)(struct world *w, rsh_comm *c, char *in, char *out);
    char *in[MOST], *out[MOST]; /* buffers of BYTES each */
    rsh_layout *from, *to;
    pthread_barrier_t ready;
    atomic_int failed;
} world;

/* ---- calls that use a caller's memory ---- */

/* Called when all ranks have arrived: from now on no long message arrives, and timeouts are short. */
static void stop(world *w, rsh_comm *c) {
    pthread_barrier_wait(&w->ready);
    set_timeout(c, 0.1);
    if (rsh_comm_rank(c) == 0) mailboxes_stop();
    pthread_barrier_wait(&w->ready);
}

static rsh_status exchange_long(world *w, rsh_comm *c, char *in, char *out) {
    int n = rsh_comm_size(c), me = rsh_comm_rank(c);
    stop(w, c);
    return rsh_comm_exchange(c, 1, &(rsh_message){(me + 1) % n, out, BYTES}, 1,
                             &(rsh_message){(me + n - 1) % n, in, BYTES});
}

static rsh_status gather_small(world *w, rsh_comm *c, char *in, char *out) {
    stop(w, c);
    return rsh_comm_allgather(c, out, in, 3000);
}

static rsh_status gather_long(world *w, rsh_comm *c, char *in, char *out) {
    stop(w, c);
    return rsh_comm_allgather(c, out, in, BYTES / MOST);
}

static rsh_status run_exec(world *w, rsh_comm *c, char *in, char *out) {
    rsh_plan *plan = NULL;
    rsh_exec *e = NULL;
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    rsh_status st = rsh_plan_opts_from_comm(c, &opts);
    if (!st) st = rsh_plan_new(w->from, w->to, &opts, &plan);
    if (!st) st = rsh_exec_bind(plan, c, &(rsh_memory){out, NULL}, &(rsh_memory){in, NULL}, &e);
    if (!st) st = rsh_exec_run(e);
    stop(w, c);
    if (!st) st = rsh_exec_run(e);
    mprotect(in, BYTES, PROT_NONE);
    mprotect(out, BYTES, PROT_NONE);
    rsh_exec_free(e);
    rsh_plan_free(plan);
    return st;
}

/* ---- the failure ---- */

static rsh_status fail_in_call(void *ctx, rsh_comm *c) {
    world *w = ctx;
    int me = rsh_comm_rank(c);
    rsh_status st = w->call(w, c, w->in[me], w->out[me]);
    mprotect(w->in[me], BYTES, PROT_NONE);
    mprotect(w->out[me], BYTES, PROT_NONE);
    w->failed += st == RSH_ETIMEOUT || st == RSH_EPEER;
    return RSH_OK;
}

static char *map(int value) {
    char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return memset(p, value, BYTES);
}

static void fail_and_deliver(world *w) {
    pthread_barrier_init(&w->ready, NULL, (unsigned)w->ranks);
    for (int r = 0; r < w->ranks; r++) w->in[r] = map(100 + r), w->out[r] = map(r);
    rsh_status st = run_on_nodes(w->ranks, apart, fail_in_call, w);
    assert_int_equal(st, RSH_OK);
    assert_int_equal(w->failed, w->ranks);
    /* this process dies if it accesses memory that a rank has made inaccessible */
    assert_true(mailboxes_deliver() > 0);
    for (int r = 0; r < w->ranks; r++) munmap(w->in[r], BYTES), munmap(w->out[r], BYTES);
    pthread_barrier_destroy(&w->ready);
}

static void after_an_exchange_that_failed_nothing_uses_its_memory(void **state) {
    (void)state;
    fail_and_deliver(&(world){.ranks = 2, .call = exchange_long});
    fail_and_deliver(&(world){.ranks = 3, .call = exchange_long});
}

static void after_an_allgather_that_failed_nothing_uses_its_memory(void **state) {
    (void)state;
    fail_and_deliver(&(world){.ranks = 3, .call = gather_small});
    fail_and_deliver(&(world){.ranks = 3, .call = gather_long});
}

static void run_failing(int ranks, const char *from, const char *to) {
    world w = {.ranks = ranks, .call = run_exec, .from = parsed(from), .to = parsed(to)};
    fail_and_deliver(&w);
    rsh_layout_free(w.from);
    rsh_layout_free(w.to);
}

static void after_a_run_that_failed_nothing_uses_its_memory(void **state) {
    (void)state;
    /* messages are contiguous in the destination and need no unpacking */
    run_failing(2, "u8[3000000/x] on x=2", "u8[3000000/x] on x=2@[1,0]");
    run_failing(3, "u8[1200/x, 1200] on x=3", "u8[1200, 1200/x] on x=3");
    run_failing(3, "f32[200000] on x=3 sum(x)", "f32[200000] on x=3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_an_exchange_that_failed_nothing_uses_its_memory),
        cmocka_unit_test(after_an_allgather_that_failed_nothing_uses_its_memory),
        cmocka_unit_test(after_a_run_that_failed_nothing_uses_its_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
