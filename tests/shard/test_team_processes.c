/* Teams of processes: memory that the others cannot reach, and movers that die or stop in the middle. */
#include "one_core.h"

#include <signal.h>

#include "comm/impatience.h"
#include "shard/team.h"

#define MEMBERS 5
#define WIDE "f32[%d/x, %d] on x=%d"
#define TALL "f32[%d, %d/x] on x=%d"

static rsh_status bind_joint(rsh_comm *comm, int rows, int columns, bound *b) {
    char from[64], to[64];
    snprintf(from, sizeof from, WIDE, rows, columns, MEMBERS);
    snprintf(to, sizeof to, TALL, rows, columns, MEMBERS);
    RSH_TRY(bind_on(&(scene){.where = PROCESSES}, comm, from, to, b));
    CHECK(b->exec->team && b->exec->joint);
    return RSH_OK;
}

static size_t bytes_of(const rsh_sharded *s) { return (size_t)rsh_tensor_count(rsh_sharded_part(s, 0)) * 4; }

static void clear(const rsh_sharded *s) { memset(memory_of(s).data, 0xff, bytes_of(s)); }

/* ---- memory ---- */

/* Some ranks run on private memory every time, others in every second run. */
static rsh_status run_on_private_memory(void *ctx, rsh_comm *comm) {
    bound b;
    int rank = rsh_comm_rank(comm);
    (void)ctx;
    RSH_TRY(bind_joint(comm, 40, 35, &b));
    void *src = malloc(bytes_of(b.src)), *dst = malloc(bytes_of(b.dst));
    CHECK(src && dst);
    memcpy(src, memory_of(b.src).data, bytes_of(b.src));
    for (int i = 0; i < 20; i++) {
        bool private = rank % 2 || i % 2;
        rsh_memory from = {private ? src : memory_of(b.src).data, NULL};
        rsh_memory to = {private ? dst : memory_of(b.dst).data, NULL};
        memset(dst, 0xff, bytes_of(b.dst));
        clear(b.dst);
        RSH_TRY(rsh_exec_run_on(b.exec, &from, &to));
        if (private) memcpy(memory_of(b.dst).data, dst, bytes_of(b.dst));
        CHECK(check_result(b.dst) == RSH_OK);
    }
    free(src);
    free(dst);
    unbind(&b);
    return RSH_OK;
}

static void private_memory_is_moved_by_others(void **state) {
    (void)state;
    on_processes(MEMBERS, run_on_private_memory);
}

static rsh_status bind_private_memory(void *ctx, rsh_comm *comm) {
    bound b;
    rsh_exec *e;
    (void)ctx;
    RSH_TRY(bind_joint(comm, 40, 35, &b));
    void *dst = malloc(bytes_of(b.dst));
    rsh_memory from = memory_of(b.src), to = {rsh_comm_rank(comm) == 3 ? dst : memory_of(b.dst).data, NULL};
    CHECK(dst);
    RSH_TRY(rsh_exec_bind(b.plan, comm, &from, &to, &e));
    CHECK(!e->team && !e->joint);
    RSH_TRY(rsh_exec_run(e));
    if (rsh_comm_rank(comm) == 3) memcpy(memory_of(b.dst).data, dst, bytes_of(b.dst));
    CHECK(check_result(b.dst) == RSH_OK);
    rsh_exec_free(e);
    free(dst);
    unbind(&b);
    return RSH_OK;
}

static void ranks_bound_to_private_memory_are_no_team(void **state) {
    (void)state;
    on_processes(MEMBERS, bind_private_memory);
}

/* ---- movers that do not continue ---- */

enum { LAST = MEMBERS - 1 };

typedef struct fate {
    int signal;
    rsh_status expected;
    const char *sentence;
    atomic_int mover, pid, told, went_on;
} fate;

static fate *story; /* in shared memory */
static int this_rank;
static char *trap; /* a page of memory */

/* Signal handler: a process that was only stopped continues where it was. */
static void meet_it(int number) {
    (void)number;
    atomic_store(&story->mover, this_rank);
    atomic_store(&story->pid, (int)getpid());
    raise(story->signal);
    mprotect(trap, 4096, PROT_READ | PROT_WRITE);
}

/* Makes the last member's destination inaccessible to the mover, which reaches it after making other members' moves. */
static rsh_status set_trap(const bound *b) {
    rshi_joint *j = b->exec->joint;
    const rshi_parts *last = &j->parts[LAST];
    rshi_joint_look_up(j);
    trap = j->base[last->number + last->nsrc];
    CHECK(trap && (uintptr_t)trap % 4096 == 0);
    signal(SIGSEGV, meet_it);
    CHECK(!mprotect(trap, 4096, PROT_NONE));
    return RSH_OK;
}

static bool is_clear(const rsh_sharded *s) {
    const unsigned char *at = memory_of(s).data;
    size_t i = 0;
    while (i < bytes_of(s) && at[i] == 0xff) i++;
    return i == bytes_of(s);
}

static void wait_for(atomic_int *count, int n) {
    while (atomic_load(count) < n) usleep(1000);
}

/* The last rank that gets the error lets the mover continue.  Whatever it still writes must not be memory of a rank
 * that has given up. */
static rsh_status use_memory_again(const bound *b) {
    clear(b->dst);
    if (atomic_fetch_add(&story->told, 1) + 1 == MEMBERS - 1 && story->signal == SIGSTOP)
        CHECK(!kill(atomic_load(&story->pid), SIGCONT));
    if (story->signal == SIGSTOP) wait_for(&story->went_on, 1);
    CHECK(is_clear(b->dst));
    return RSH_OK;
}

/* The mover may have read memory that others had already reused. */
static rsh_status expect_failure_of_mover(rsh_status st) {
    atomic_store(&story->went_on, 1);
    CHECK(st);
    return RSH_OK;
}

static rsh_status expect_failure(rsh_status st, const bound *b) {
    char sentence[64];
    if (atomic_load(&story->pid) == (int)getpid()) return expect_failure_of_mover(st);
    CHECK(st == story->expected || st == RSH_EPEER); /* for ranks that got the error from another rank */
    snprintf(sentence, sizeof sentence, story->sentence, atomic_load(&story->mover));
    CHECK(strstr(rsh_error_detail(), sentence));
    return use_memory_again(b);
}

static rsh_status run_into_it(void *ctx, rsh_comm *comm) {
    bound b;
    (void)ctx;
    this_rank = rsh_comm_rank(comm);
    RSH_TRY(bind_joint(comm, 100, 100, &b));
    RSH_TRY(rsh_exec_run(b.exec));
    CHECK(check_result(b.dst) == RSH_OK);
    RSH_TRY(set_trap(&b));
    RSH_TRY(rsh_comm_barrier(comm));
    if (story->signal == SIGSTOP) set_timeout(comm, 2);
    RSH_TRY(expect_failure(rsh_exec_run(b.exec), &b));
    unbind(&b);
    return RSH_OK;
}

static void expect_error_on_all(fate f) {
    story = shared_memory(sizeof *story);
    *story = f;
    alarm(PATIENCE);
    rsh_status st = rsh_run_shm(MEMBERS, run_into_it, NULL);
    alarm(0);
    if (st != (f.signal == SIGKILL ? RSH_EPEER : RSH_OK)) fail_msg("%s: %s", rsh_status_name(st), rsh_error_detail());
    assert_int_equal(atomic_load(&story->told), MEMBERS - 1);
    munmap(story, sizeof *story);
}

static void a_mover_that_dies_is_missed_by_all(void **state) {
    (void)state;
    expect_error_on_all((fate){.signal = SIGKILL, .expected = RSH_EPEER, .sentence = "rank %d has died"});
}

static void a_mover_that_was_stopped_writes_to_nobody_who_has_given_up(void **state) {
    (void)state;
    expect_error_on_all((fate){.signal = SIGSTOP, .expected = RSH_ETIMEOUT, .sentence = "rank %d did not answer"});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_ONE_CORE(private_memory_is_moved_by_others),
        ON_ONE_CORE(ranks_bound_to_private_memory_are_no_team),
        ON_ONE_CORE(a_mover_that_dies_is_missed_by_all),
        ON_ONE_CORE(a_mover_that_was_stopped_writes_to_nobody_who_has_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
