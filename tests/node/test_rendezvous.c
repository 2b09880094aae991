/* Rendezvous: when processes do not come together, all of them are told why, by the rank that knows. */
#include "comm/ranks.h"
#include "comm/sanitized.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/meeting.h"

#define RANKS 4
#define NOBODY 65534 /* another user */

/* How a process fared, in memory that it shares with the test. */
typedef struct outcome {
    rsh_status status;
    double seconds;
    char detail[400];
} outcome;

/* What a process does before it comes. */
typedef struct guise {
    int rank, size;
    int delay;      /* milliseconds */
    int limit;      /* a resource of setrlimit, or -1 */
    rlim_t at_most; /* of it */
} guise;

static void join_as(const char *job, const guise *g, outcome *out) {
    rsh_comm *comm = NULL;
    usleep((useconds_t)g->delay * 1000);
    if (g->limit >= 0) setrlimit((__rlimit_resource_t)g->limit, &(struct rlimit){g->at_most, g->at_most});
    double start = rshi_seconds();
    out->status = rsh_comm_shm(job, g->rank, g->size, &comm);
    out->seconds = rshi_seconds() - start;
    snprintf(out->detail, sizeof out->detail, "%s", out->status ? rsh_error_detail() : "");
    rsh_comm_free(comm);
    _exit(0);
}

static void name_job(char job[64]) { snprintf(job, 64, "rendezvous %ld", (long)getpid()); }

/* n processes with these guises; none of them may end by a signal. */
static outcome *join_all(int n, const guise *guises) {
    outcome *outcomes =
        mmap(NULL, (size_t)n * sizeof *outcomes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child[8];
    char job[64];
    assert_true(outcomes != MAP_FAILED && n <= 8);
    name_job(job);
    for (int i = 0; i < n; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (!child[i]) join_as(job, &guises[i], &outcomes[i]);
    }
    for (int i = 0; i < n; i++) {
        int how;
        assert_int_equal(waitpid(child[i], &how, 0), child[i]);
        if (!WIFEXITED(how)) fail_msg("process %d was ended by signal %d", i, WTERMSIG(how));
    }
    return outcomes;
}

static void as_usual(guise *guises) {
    for (int i = 0; i < RANKS; i++) guises[i] = (guise){i, RANKS, 0, -1, 0};
}

static void all_are_told(int n, const guise *guises, rsh_status status, const char *words) {
    outcome *o = join_all(n, guises);
    for (int i = 0; i < n; i++) {
        if (o[i].status != status || !strstr(o[i].detail, words))
            fail_msg("process %d: %s: %s, where \"%s\" was expected", i, rsh_status_name(o[i].status), o[i].detail,
                     words);
        if (o[i].seconds > 20) fail_msg("process %d heard it after %g seconds", i, o[i].seconds);
    }
    munmap(o, (size_t)n * sizeof *o);
}

/* Rank `first` comes, is stopped for longer than RESHARD_TIMEOUT and goes on; then the other one comes. */
static outcome *meet_a_suspended(int first) {
    outcome *o = mmap(NULL, 2 * sizeof *o, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const guise guises[2] = {{first, 2, 0, -1, 0}, {1 - first, 2, 0, -1, 0}};
    pid_t child[2];
    char job[64];
    assert_true(o != MAP_FAILED);
    snprintf(job, sizeof job, "suspended %d %ld", first, (long)getpid());
    for (int i = 0; i < 2; i++) {
        if (!(child[i] = fork())) join_as(job, &guises[i], &o[i]);
        if (i) break;
        usleep(300000);
        kill(child[0], SIGSTOP);
        usleep(2700000);
        kill(child[0], SIGCONT);
        usleep(200000); /* to look at its watch */
    }
    for (int i = 0; i < 2; i++) assert_int_equal(waitpid(child[i], NULL, 0), child[i]);
    return o;
}

static void a_rank_that_was_suspended_while_it_waited_is_met(void **state) {
    (void)state;
    setenv("RESHARD_TIMEOUT", "2.5", 1);
    for (int first = 0; first < 2; first++) {
        outcome *o = meet_a_suspended(first);
        for (int i = 0; i < 2; i++)
            if (o[i].status)
                fail_msg("rank %d first: %s: %s", first, rsh_status_name(o[i].status), o[i].detail);
        munmap(o, 2 * sizeof *o);
    }
    unsetenv("RESHARD_TIMEOUT");
}

/* Descriptors that a process of this test has open already. */
static rlim_t open_descriptors(void) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return (rlim_t)fd;
}

static void a_rank_without_descriptors_says_so_to_all(void **state) {
    (void)state;
    for (int r = 0; r < RANKS; r++)
        for (rlim_t more = 3; more < 7; more++) {
            guise guises[RANKS];
            as_usual(guises);
            guises[r].limit = RLIMIT_NOFILE;
            guises[r].at_most = open_descriptors() + more;
            outcome *o = join_all(RANKS, guises);
            for (int i = 0; i < RANKS; i++)
                if (!o[i].status != !o[0].status || o[i].seconds > 20)
                    fail_msg("rank %d with %d descriptors: rank %d: %s: %s", r, (int)more, i,
                             rsh_status_name(o[i].status), o[i].detail);
            munmap(o, RANKS * sizeof *o);
        }
}

static void a_rank_without_addresses_says_so_to_all(void **state) {
    (void)state;
#ifdef SANITIZED
    print_message("skipped: a sanitizer takes more addresses than this test leaves; the plain build runs it\n");
    skip();
#endif
    static const rlim_t limits[] = {(rlim_t)40 << 20, (rlim_t)300 << 20,
                                    (rlim_t)2 << 30}; /* none for its own arena, and none for those of others */
    for (int r = 0; r < RANKS; r++)
        for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
            guise guises[RANKS];
            as_usual(guises);
            guises[r].limit = RLIMIT_AS;
            guises[r].at_most = limits[k];
            all_are_told(RANKS, guises, RSH_ENOMEM, "no address range");
        }
}

static void two_of_the_same_rank_are_told_to_all(void **state) {
    (void)state;
    guise guises[RANKS];
    as_usual(guises);
    guises[2].rank = 1;
    all_are_told(RANKS, guises, RSH_EMISMATCH, "rank 1 of the job");
}

static void different_sizes_are_told_to_all(void **state) {
    (void)state;
    guise guises[RANKS];
    as_usual(guises);
    guises[1].size = RANKS + 1;
    guises[3].delay = 200; /* also to those who come when it is over */
    all_are_told(RANKS, guises, RSH_EMISMATCH, "knows of 4 ranks, rank 1 of 5");
}

static void who_is_missing_is_told_to_those_who_came_first(void **state) {
    (void)state;
    guise guises[RANKS - 1] = {{0, RANKS, 300, -1, 0}, {1, RANKS, 0, -1, 0}, {3, RANKS, 100, -1, 0}};
    setenv("RESHARD_TIMEOUT", "0.6", 1);
    all_are_told(RANKS - 1, guises, RSH_ETIMEOUT, "rank 2 did not");
    unsetenv("RESHARD_TIMEOUT");
}

/* A limit on the size of files counts for shared memory too, and would end the process. */
static void a_limit_on_files_is_a_lack_of_memory(void **state) {
    (void)state;
    guise guises[RANKS];
    as_usual(guises);
    guises[0].limit = RLIMIT_FSIZE;
    guises[0].at_most = 4096;
    all_are_told(RANKS, guises, RSH_ENOMEM, "memory");
}

/* ---- strangers ---- */

/* The socket address of the test's job, for a process that is none of its ranks. */
typedef struct place {
    struct sockaddr_un address;
    socklen_t bytes;
} place;

static int connect_to(const place *at) {
    int fd;
    if (rshi_socket_open(&fd)) _exit(1);
    if (!connect(fd, (const struct sockaddr *)&at->address, at->bytes)) return fd;
    close(fd);
    return -1;
}

static int connect_at_last(const place *at) {
    int fd;
    while ((fd = connect_to(at)) < 0) usleep(1000);
    return fd;
}

static _Noreturn void stay_silent(const place *at, atomic_int *ready) {
    (void)ready;
    connect_at_last(at);
    for (;;) pause();
}

static _Noreturn void come_and_go(const place *at, atomic_int *ready) {
    (void)ready;
    for (;;) close(connect_at_last(at));
}

static _Noreturn void hold_the_name(const place *at, atomic_int *ready) {
    int fd;
    if (rshi_socket_open(&fd) || bind(fd, (const struct sockaddr *)&at->address, at->bytes) || listen(fd, 8)) _exit(1);
    atomic_store(ready, 1);
    for (;;) pause();
}

/* Whatever it is told is noted. */
static _Noreturn void listen_in(const place *at, atomic_int *heard) {
    for (;;) {
        char text[2000];
        int fd = connect_at_last(at);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 1000) > 0 && recv(fd, text, sizeof text, 0) > 0) atomic_fetch_add(heard, 1);
        close(fd);
    }
}

typedef struct stranger {
    pid_t pid;
    atomic_int *word; /* shared with it */
} stranger;

static stranger start_stranger(void (*act)(const place *at, atomic_int *word), uid_t user) {
    stranger s = {.word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    place at;
    char job[64];
    name_job(job);
    at.bytes = rshi_socket_address(job, &at.address);
    assert_true(s.word != MAP_FAILED);
    s.pid = fork();
    assert_true(s.pid >= 0);
    if (s.pid) return s;
    alarm(60);
    if (setresuid(user, user, user)) _exit(1);
    act(&at, s.word);
    _exit(1);
}

static int end_stranger(stranger *s) {
    int word = atomic_load(s->word), how;
    kill(s->pid, SIGKILL);
    assert_int_equal(waitpid(s->pid, &how, 0), s->pid);
    assert_true(WIFSIGNALED(how));
    munmap(s->word, 4096);
    return word;
}

static void needs_another_user(void) {
    if (geteuid() == 0) return;
    print_message("skipped: only root can become another user\n");
    skip();
}

static void a_job_meets_beside(void (*act)(const place *at, atomic_int *word)) {
    guise guises[RANKS];
    as_usual(guises);
    for (int i = 1; i < RANKS; i++) guises[i].delay = 200;
    stranger s = start_stranger(act, geteuid());
    all_are_told(RANKS, guises, RSH_OK, "");
    end_stranger(&s);
}

static void a_silent_process_keeps_nobody_waiting(void **state) {
    (void)state;
    a_job_meets_beside(stay_silent);
}

static void a_process_that_comes_and_goes_ends_no_meeting(void **state) {
    (void)state;
    a_job_meets_beside(come_and_go);
}

static void a_silent_process_is_named_when_a_rank_is_missing(void **state) {
    (void)state;
    guise guises[RANKS - 1] = {{0, RANKS, 0, -1, 0}, {1, RANKS, 0, -1, 0}, {3, RANKS, 100, -1, 0}};
    char words[80];
    stranger s = start_stranger(stay_silent, geteuid());
    snprintf(words, sizeof words, "rank 2 did not; connected, but silent: process %ld", (long)s.pid);
    setenv("RESHARD_TIMEOUT", "1", 1);
    all_are_told(RANKS - 1, guises, RSH_ETIMEOUT, words);
    unsetenv("RESHARD_TIMEOUT");
    end_stranger(&s);
}

static void another_user_learns_nothing_of_a_failure(void **state) {
    (void)state;
    needs_another_user();
    guise guises[RANKS];
    as_usual(guises);
    guises[1].size = RANKS + 1;
    guises[3].delay = 400; /* so that rank 0 turns callers away for a while */
    stranger s = start_stranger(listen_in, NOBODY);
    all_are_told(RANKS, guises, RSH_EMISMATCH, "knows of 4 ranks");
    assert_int_equal(end_stranger(&s), 0);
}

static void who_holds_the_name_is_told(uid_t user, rsh_status status, const char *format) {
    guise guises[RANKS];
    char words[100];
    as_usual(guises);
    stranger s = start_stranger(hold_the_name, user);
    while (!atomic_load(s.word)) usleep(1000);
    snprintf(words, sizeof words, format, (long)s.pid);
    /* the others take it for rank 0 where it is of the same user, and would wait for its word */
    all_are_told(user == geteuid() ? 1 : RANKS, guises, status, words);
    end_stranger(&s);
}

static void another_user_who_holds_the_name_is_named(void **state) {
    (void)state;
    needs_another_user();
    who_holds_the_name_is_told(NOBODY, RSH_EPEER, "is held by process %ld of another user (uid 65534)");
}

static void another_rank_0_is_named(void **state) {
    (void)state;
    who_holds_the_name_is_told(geteuid(), RSH_EBUSY, "process %ld is already waiting as rank 0");
}

/* ---- numbers ---- */

int main(void) {
    alarm(120);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_without_descriptors_says_so_to_all),
        cmocka_unit_test(a_rank_without_addresses_says_so_to_all),
        cmocka_unit_test(two_of_the_same_rank_are_told_to_all),
        cmocka_unit_test(different_sizes_are_told_to_all),
        cmocka_unit_test(who_is_missing_is_told_to_those_who_came_first),
        cmocka_unit_test(a_limit_on_files_is_a_lack_of_memory),
        cmocka_unit_test(a_silent_process_keeps_nobody_waiting),
        cmocka_unit_test(a_process_that_comes_and_goes_ends_no_meeting),
        cmocka_unit_test(a_silent_process_is_named_when_a_rank_is_missing),
        cmocka_unit_test(another_user_learns_nothing_of_a_failure),
        cmocka_unit_test(another_user_who_holds_the_name_is_named),
        cmocka_unit_test(another_rank_0_is_named),
        cmocka_unit_test(a_rank_that_was_suspended_while_it_waited_is_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
