/* The engine shm: ranks are processes that this program forks. */
#include "rank_trials.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const int process_counts[] = {1, 2, 3, 4, 8};

static void run_processes(int n, rsh_rank_fn fn, void *ctx) {
    rsh_status st = rsh_run_shm(n, fn, ctx);
    if (st) fail_msg("%d processes: %s: %s", n, rsh_status_name(st), rsh_error_detail());
}

static void run_all_processes(rsh_rank_fn fn, void *ctx) {
    for (size_t i = 0; i < sizeof process_counts / sizeof *process_counts; i++)
        run_processes(process_counts[i], fn, ctx);
}

/* Allocates memory that forked processes share with the test. */
static void *share(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

/* ---- collective calls ---- */

static rsh_status is_shm(void *ctx, rsh_comm *c) {
    (void)ctx;
    CHECK(!strcmp(rsh_comm_engine(c), "shm"));
    return RSH_OK;
}
static void a_comm_of_processes_is_one_of_shm(void **state) {
    (void)state;
    run_all_processes(is_shm, NULL);
}

static void nobody_passes_a_barrier_before_everybody_has_come(void **state) {
    (void)state;
    atomic_int *count = share(sizeof *count);
    for (size_t i = 0; i < sizeof process_counts / sizeof *process_counts; i++) {
        atomic_store(count, 0);
        run_processes(process_counts[i], keeps_step, count);
    }
    munmap(count, sizeof *count);
}

static void allgather_brings_every_block_to_everybody(void **state) {
    (void)state;
    run_all_processes(gathers, &(size_t){3000000});
}

static void allreduce_adds_over_all_ranks(void **state) {
    (void)state;
    run_all_processes(adds, NULL);
}

/* Exchanges between all ranks, from private memory and from the arena, with messages smaller and larger than the
 * staging buffer. */
static rsh_status exchanges(void *ctx, rsh_comm *c) {
    (void)ctx;
    static const size_t sizes[] = {0, 1, 1000, 1500000};
    enum { KINDS = 4 };
    int n = rsh_comm_size(c), me = rsh_comm_rank(c);
    rsh_message send[8 * KINDS], recv[8 * KINDS];
    int64_t k = 0;
    for (int p = n - 1; p >= 0; p--)
        for (int s = 0; s < KINDS; s++, k++) {
            bool shared = (p + s + me) % 2;
            rshi_data d = {malloc(sizes[s] + 1), NULL, NULL};
            if (shared) RSH_TRY(c->ops->data_alloc(c, sizes[s] + 1, false, &d));
            paint(d.data, 7 * me + p, sizes[s]);
            send[k] = (rsh_message){p, d.data, sizes[s]};
            recv[k] = (rsh_message){p, calloc(1, sizes[s] + 1), sizes[s]};
        }
    for (int round = 0; round < 2; round++) {
        RSH_TRY(rsh_comm_exchange(c, k, send, k, recv));
        for (int64_t i = 0; i < k; i++) {
            CHECK(painted(recv[i].data, 7 * recv[i].peer + me, recv[i].bytes));
            memset(recv[i].data, 0, recv[i].bytes);
        }
    }
    return RSH_OK;
}
static void exchange_delivers_from_private_and_from_shared_memory(void **state) {
    (void)state;
    run_all_processes(exchanges, NULL);
}

static rsh_status exchanges_wrongly(void *ctx, rsh_comm *c) {
    (void)ctx;
    char out[3000000], in[3000000];
    int n = rsh_comm_size(c), me = rsh_comm_rank(c);
    memset(out, 1, sizeof out);
    rsh_message send = {(me + 1) % n, out, me == 1 ? sizeof out - 1 : sizeof out},
                recv = {(me + n - 1) % n, in, sizeof in};
    CHECK_STATUS(RSH_EMISMATCH, rsh_comm_exchange(c, 1, &send, 1, &recv));
    CHECK_SAYS("message 0 from rank 1 to rank 2 has 2999999 bytes, expected 3000000");
    return rsh_comm_barrier(c);
}
static void messages_of_different_sizes_are_told_to_everybody(void **state) {
    (void)state;
    run_processes(3, exchanges_wrongly, NULL);
}

static rsh_status splits(void *ctx, rsh_comm *c) {
    (void)ctx;
    int n = rsh_comm_size(c), me = rsh_comm_rank(c);
    for (int i = 0; i < 5; i++) {
        rsh_comm *part, *nobody;
        RSH_TRY(rsh_comm_split(c, me % 2, -me, &part));
        CHECK(rsh_comm_size(part) == (n + 1 - me % 2) / 2);
        CHECK(rsh_comm_rank(part) == (n - 1 - me) / 2);
        int mine = me, all[8];
        RSH_TRY(rsh_comm_allgather(part, &mine, all, sizeof mine));
        CHECK(all[rsh_comm_rank(part)] == me);
        for (int r = 1; r < rsh_comm_size(part); r++) CHECK(all[r] == all[r - 1] - 2);
        RSH_TRY(rsh_comm_split(part, -1, 0, &nobody));
        CHECK(!nobody);
        RSH_TRY(rsh_comm_free(part));
    }
    return rsh_comm_barrier(c);
}
static void split_orders_ranks_by_key_and_can_be_done_again_and_again(void **state) {
    (void)state;
    run_all_processes(splits, NULL);
}

static rsh_status passes_a_token(void *ctx, rsh_comm *c) {
    (void)ctx;
    int n = rsh_comm_size(c), me = rsh_comm_rank(c), before = (me + n - 1) % n;
    rshi_flag *mine = c->ops->flag_take(c);
    rshi_handle h, all[8];
    RSH_TRY(c->ops->publish(c, mine, sizeof *mine, &h));
    RSH_TRY(rsh_comm_allgather(c, &h, all, sizeof h));
    rshi_flag *theirs = c->ops->reach(c, before, all[before]);
    CHECK(theirs);
    for (uint64_t k = 1; k <= 100; k++) {
        if (!me) c->ops->post(c, mine, k);
        RSH_TRY(c->ops->wait(c, before, theirs, k));
        if (me) c->ops->post(c, mine, k);
    }
    RSH_TRY(rsh_comm_barrier(c));
    c->ops->flag_give(c, mine);
    return RSH_OK;
}
static void a_token_goes_round_a_ring_of_flags(void **state) {
    (void)state;
    run_all_processes(passes_a_token, NULL);
}

/* ---- memory ---- */

static rsh_status reads_a_peer(void *ctx, rsh_comm *c) {
    (void)ctx;
    int n = rsh_comm_size(c), me = rsh_comm_rank(c), peer = (me + 1) % n;
    static unsigned char own[64];
    for (size_t bytes = 10; bytes < 4000000; bytes *= 20) {
        rshi_data d;
        rshi_handle h[2], all[16];
        RSH_TRY(c->ops->data_alloc(c, bytes, true, &d));
        CHECK(!memchr(d.data, 1, bytes) && (uintptr_t)d.data % 64 == 0);
        paint(d.data, me, bytes);
        RSH_TRY(c->ops->publish(c, d.data, bytes, &h[0]));
        RSH_TRY(c->ops->publish(c, own, sizeof own, &h[1]));
        CHECK(c->ops->is_shared(c, d.data) && !c->ops->is_shared(c, own));
        RSH_TRY(rsh_comm_allgather(c, h, all, sizeof h));
        CHECK(painted(c->ops->reach(c, peer, all[2 * peer]), peer, bytes));
        CHECK(c->ops->reach(c, me, all[2 * me + 1]) == own);
        CHECK(peer == me || !c->ops->reach(c, peer, all[2 * peer + 1]));
        RSH_TRY(rsh_comm_barrier(c));
        d.release(d.owner);
    }
    return RSH_OK;
}
static void peers_read_an_arena_and_never_private_memory(void **state) {
    (void)state;
    run_all_processes(reads_a_peer, NULL);
}

static void data_outlives_its_comm(void **state) {
    (void)state;
    rsh_comm *c = NULL;
    rshi_data d;
    assert_int_equal(rsh_comm_shm("one", 0, 1, &c), RSH_OK);
    assert_int_equal(c->ops->data_alloc(c, 100000, false, &d), RSH_OK);
    paint(d.data, 3, 100000);
    assert_int_equal(rsh_comm_free(c), RSH_OK);
    assert_true(painted(d.data, 3, 100000));
    d.release(d.owner);
}

/* ---- failure ---- */

static rsh_status disagrees(void *ctx, rsh_comm *c) {
    (void)ctx;
    int64_t mine = 1, sum;
    rsh_status st =
        rsh_comm_rank(c) == 1 ? rsh_comm_barrier(c) : rsh_comm_allreduce(c, &mine, &sum, 1, RSH_I64, RSH_OP_SUM);
    CHECK_STATUS(RSH_EMISMATCH, st);
    CHECK_SAYS("rank 0 in allreduce (call 0), rank 1 in barrier (call 0)");
    return rsh_comm_barrier(c);
}
static void ranks_that_disagree_are_told_so(void **state) {
    (void)state;
    run_processes(3, disagrees, NULL);
}

static rsh_status leaves_early(void *ctx, rsh_comm *c) {
    (void)ctx;
    if (rsh_comm_rank(c) == 1) return RSH_OK;
    CHECK_STATUS(RSH_EPEER, rsh_comm_barrier(c));
    CHECK_SAYS("rank 1 has left");
    CHECK_STATUS(RSH_EPEER, rsh_comm_barrier(c));
    return RSH_OK;
}
static void a_rank_that_leaves_is_named(void **state) {
    (void)state;
    run_processes(4, leaves_early, NULL);
}

static rsh_status fails_early(void *ctx, rsh_comm *c) {
    (void)ctx;
    if (rsh_comm_rank(c) == 2) return rshi_fail(RSH_EVALUE, "a reason of its own");
    CHECK_STATUS(RSH_EPEER, rsh_comm_barrier(c));
    CHECK_SAYS("rank 2 failed with EVALUE: a reason of its own");
    return RSH_OK;
}
static void a_rank_that_fails_is_quoted(void **state) {
    (void)state;
    assert_int_equal(rsh_run_shm(3, fails_early, NULL), RSH_EVALUE);
    assert_string_equal(rsh_error_detail(), "a reason of its own");
}

/* Data that a test of deaths shares with its processes. */
typedef struct deaths {
    atomic_long naps; /* sleeps of the survivor that slept most often before it learned of the death */
    atomic_int heard;
    int victim;
    long after; /* delay in microseconds */
} deaths;

/* Returns how often this process has slept. */
static long sleeps(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_nvcsw;
}

static rsh_status works_until_somebody_dies(void *ctx, rsh_comm *c) {
    deaths *d = ctx;
    double start = rshi_seconds();
    char out[5000] = {0}, in[5000];
    int n = rsh_comm_size(c), me = rsh_comm_rank(c);
    rsh_message send = {(me + 1) % n, out, sizeof out}, recv = {(me + n - 1) % n, in, sizeof in};
    rsh_status st = RSH_OK;
    long before = 0;
    while (!st) {
        if (me == d->victim && (rshi_seconds() - start) * 1e6 > (double)d->after) kill(getpid(), SIGKILL);
        before = sleeps();
        st = rsh_comm_exchange(c, 1, &send, 1, &recv);
    }
    long naps = sleeps() - before;
    if (naps > atomic_load(&d->naps)) atomic_store(&d->naps, naps);
    char name[32];
    snprintf(name, sizeof name, "rank %d has died", d->victim);
    CHECK(st == RSH_EPEER);
    CHECK_SAYS(name);
    atomic_fetch_add(&d->heard, 1);
    return RSH_OK;
}
/* A sleep takes a twentieth of a second, or longer on a busy machine, so time is counted in sleeps; `bigtest kill`
 * prints seconds.  Sleeps of a survivor also count while the victim gets no core to die on, so there are several
 * attempts. */
enum { NAPS_OF_A_SECOND = 20, ATTEMPTS = 10 };
static void survivors_hear_within_a_second_of_naps_that_a_rank_was_killed(void **state) {
    (void)state;
    deaths *d = share(sizeof *d);
    uint64_t seed = test_seed(11);
    for (int i = 0; i < 8; i++) {
        int attempt = 0;
        do {
            *d = (deaths){.victim = i % 4, .after = (long)(draw(&seed) % 20000)};
            assert_int_equal(rsh_run_shm(4, works_until_somebody_dies, d), RSH_EPEER);
            assert_int_equal(atomic_load(&d->heard), 3);
        } while (atomic_load(&d->naps) > NAPS_OF_A_SECOND && ++attempt < ATTEMPTS);
        assert_in_range(atomic_load(&d->naps), 0, NAPS_OF_A_SECOND);
    }
    munmap(d, sizeof *d);
}

/* Shared memory is anonymous: no line of this process's maps has it in a file, whatever other processes keep in
 * /dev/shm. */
static rsh_status looks_at_its_memory(void *ctx, rsh_comm *c) {
    (void)ctx;
    rshi_data d;
    RSH_TRY(c->ops->data_alloc(c, 100000, false, &d));
    paint(d.data, 3, 100000);
    char line[1000];
    FILE *maps = fopen("/proc/self/maps", "r");
    int named = 0, anonymous = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        named += strstr(line, "/dev/shm") != NULL;
        anonymous += strstr(line, "/memfd:reshard (deleted)") != NULL;
    }
    if (maps) fclose(maps);
    d.release(d.owner);
    CHECK(!named && anonymous);
    return RSH_OK;
}

static void nothing_is_left_behind(void **state) {
    (void)state;
    run_all_processes(looks_at_its_memory, NULL);
    errno = 0;
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* ---- how processes find one another ---- */

/* Another run of this test may be on this machine. */
static void name_job(char job[64], const char *word) { snprintf(job, 64, "%s %ld", word, (long)getpid()); }

static void a_rank_that_never_comes_is_named(void **state) {
    (void)state;
    rsh_comm *c = NULL;
    char job[64], words[200];
    name_job(job, "nobody else");
    setenv("RESHARD_TIMEOUT", "0.2", 1);
    assert_int_equal(rsh_comm_shm(job, 0, 3, &c), RSH_ETIMEOUT);
    snprintf(words, sizeof words, "1 of 3 ranks of job \"%s\" arrived within 0.2 seconds", job);
    assert_non_null(strstr(rsh_error_detail(), words));
    assert_int_equal(rsh_comm_shm(job, 1, 3, &c), RSH_ETIMEOUT);
    snprintf(words, sizeof words, "rank 0 of job \"%s\" did not arrive within 0.2 seconds", job);
    assert_non_null(strstr(rsh_error_detail(), words));
    unsetenv("RESHARD_TIMEOUT");
}

static void a_name_is_free_again_for_the_next_comm(void **state) {
    (void)state;
    char job[64];
    name_job(job, "again");
    pid_t child = fork();
    bool ok = true;
    for (int i = 0; ok && i < 20; i++) {
        rsh_comm *c = NULL;
        ok = !rsh_comm_shm(job, child ? 0 : 1, 2, &c) && !rsh_comm_barrier(c) && !rsh_comm_free(c);
    }
    if (!child) _exit(!ok);
    int how;
    waitpid(child, &how, 0);
    assert_true(ok && WIFEXITED(how) && !WEXITSTATUS(how));
}

static void without_a_launcher_a_process_is_alone(void **state) {
    (void)state;
    rsh_comm *c = NULL;
    assert_int_equal(rsh_comm_join(&c), RSH_OK);
    assert_int_equal(rsh_comm_size(c), 1);
    assert_int_equal(rsh_comm_barrier(c), RSH_OK);
    assert_int_equal(rsh_comm_free(c), RSH_OK);
}

static void what_a_launcher_says_is_quoted_when_it_makes_no_sense(void **state) {
    (void)state;
    rsh_comm *c = NULL;
    setenv("RANK", "3", 1);
    setenv("WORLD_SIZE", "2", 1);
    assert_int_equal(rsh_comm_join(&c), RSH_EVALUE);
    assert_string_equal(rsh_error_detail(),
                        "torchrun did not set a valid rank and size: RANK is \"3\", WORLD_SIZE is \"2\"");
    setenv("WORLD_SIZE", "8", 1);
    setenv("LOCAL_WORLD_SIZE", "4", 1);
    assert_int_equal(rsh_comm_join(&c), RSH_EUNSUP);
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    unsetenv("LOCAL_WORLD_SIZE");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_comm_of_processes_is_one_of_shm),
        cmocka_unit_test(nobody_passes_a_barrier_before_everybody_has_come),
        cmocka_unit_test(allgather_brings_every_block_to_everybody),
        cmocka_unit_test(allreduce_adds_over_all_ranks),
        cmocka_unit_test(exchange_delivers_from_private_and_from_shared_memory),
        cmocka_unit_test(messages_of_different_sizes_are_told_to_everybody),
        cmocka_unit_test(split_orders_ranks_by_key_and_can_be_done_again_and_again),
        cmocka_unit_test(a_token_goes_round_a_ring_of_flags),
        cmocka_unit_test(peers_read_an_arena_and_never_private_memory),
        cmocka_unit_test(data_outlives_its_comm),
        cmocka_unit_test(ranks_that_disagree_are_told_so),
        cmocka_unit_test(a_rank_that_leaves_is_named),
        cmocka_unit_test(a_rank_that_fails_is_quoted),
        cmocka_unit_test(survivors_hear_within_a_second_of_naps_that_a_rank_was_killed),
        cmocka_unit_test(a_rank_that_never_comes_is_named),
        cmocka_unit_test(a_name_is_free_again_for_the_next_comm),
        cmocka_unit_test(without_a_launcher_a_process_is_alone),
        cmocka_unit_test(what_a_launcher_says_is_quoted_when_it_makes_no_sense),
        cmocka_unit_test(nothing_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
