/* Rendezvous: if processes do not find one another, each of them gets an error from the rank that knows the reason. */
#include "comm/asleep.h"
#include "comm/ranks.h"
#include "comm/sanitized.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/rendezvous.h"

#define RANKS 4
#define MOST_RANKS 8
#define NOBODY 65534   /* another user */
#define PATIENCE 200   /* seconds after which the test counts as hung */
#define ATTEMPTS 10    /* number of tries if the library itself waits for a short time only */
#define DOUBLINGS 7    /* of TIMEOUT, up to half a minute, because the machine may be busy */
#define TIMEOUT 0.5    /* seconds in the first attempt */

/* Result of a process, in memory that it shares with the test. */
typedef struct outcome {
    rsh_status status;
    char detail[400];
    atomic_bool is_told;
    _Atomic pid_t pid; /* set when it is about to join */
} outcome;

/* When a process joins.  The moment depends on what other processes do, never on seconds, because any process may be
 * slow. */
typedef enum moment {
    AT_ONCE,
    WHEN_OTHERS_WAIT,
    WHEN_ONE_IS_TOLD,
    WHEN_STRANGER_HAS_COME, /* the stranger sets its word then */
    WHEN_HALF_THE_TIMEOUT_IS_OVER,
} moment;

/* What a process does before it joins. */
typedef struct guise {
    int rank, size;
    moment when;
    int limit;      /* a resource for setrlimit, or -1 */
    rlim_t at_most; /* limit of the resource */
} guise;

typedef struct stranger {
    pid_t pid;
    atomic_int *word; /* word that it shares with the test */
} stranger;
static stranger other; /* the stranger for WHEN_STRANGER_HAS_COME */
static double timeout; /* seconds; valid after set_timeout_of */

static bool one_is_told(const outcome *all, int n) {
    for (int i = 0; i < n; i++)
        if (atomic_load(&all[i].is_told)) return true;
    return false;
}

static void await_others(const outcome *all, int n, const outcome *me) {
    for (int i = 0; i < n; i++) {
        if (&all[i] == me) continue;
        while (!atomic_load(&all[i].pid)) usleep(1000);
        await_asleep(all[i].pid);
    }
}

static void await_moment(moment when, const outcome *all, int n, const outcome *me) {
    switch (when) {
    case AT_ONCE: break;
    case WHEN_OTHERS_WAIT: await_others(all, n, me); break;
    case WHEN_ONE_IS_TOLD:
        while (!one_is_told(all, n)) usleep(1000);
        break;
    case WHEN_STRANGER_HAS_COME:
        while (!atomic_load(other.word)) usleep(1000);
        break;
    case WHEN_HALF_THE_TIMEOUT_IS_OVER: usleep((useconds_t)(5e5 * timeout)); break;
    }
}

static _Noreturn void join_as(const char *job, const guise *g, outcome *all, int n, outcome *out) {
    rsh_comm *comm = NULL;
    alarm(PATIENCE / 2);
    await_moment(g->when, all, n, out);
    if (g->limit >= 0) setrlimit(g->limit, &(struct rlimit){g->at_most, g->at_most});
    atomic_store(&out->pid, getpid());
    out->status = rsh_comm_shm(job, g->rank, g->size, &comm);
    snprintf(out->detail, sizeof out->detail, "%s", out->status ? rsh_error_detail() : "");
    atomic_store(&out->is_told, true);
    rsh_comm_free(comm);
    _exit(0);
}

static void name_job(char job[64]) { snprintf(job, 64, "rendezvous %ld", (long)getpid()); }

static outcome *new_outcomes(int n) {
    void *p = mmap(NULL, (size_t)n * sizeof(outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED && n <= MOST_RANKS);
    return p;
}

/* Starts n processes with these guises; none of them may be killed by a signal. */
static outcome *join_all(int n, const guise *guises) {
    outcome *outcomes = new_outcomes(n);
    pid_t child[MOST_RANKS];
    char job[64];
    name_job(job);
    for (int i = 0; i < n; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (!child[i]) join_as(job, &guises[i], outcomes, n, &outcomes[i]);
    }
    for (int i = 0; i < n; i++) {
        int how;
        assert_int_equal(waitpid(child[i], &how, 0), child[i]);
        if (!WIFEXITED(how)) fail_msg("process %d was ended by signal %d", i, WTERMSIG(how));
    }
    return outcomes;
}

static void as_usual(guise *guises) {
    for (int i = 0; i < RANKS; i++) guises[i] = (guise){i, RANKS, AT_ONCE, -1, 0};
}

/* Did all processes get this error?  If not, `why` says which did not. */
static bool are_told(int n, const guise *guises, rsh_status status, const char *words, char why[600]) {
    outcome *o = join_all(n, guises);
    int i = 0;
    while (i < n && o[i].status == status && strstr(o[i].detail, words)) i++;
    if (i < n)
        snprintf(why, 600, "process %d: %s: %s; expected \"%s\"", i, rsh_status_name(o[i].status),
                 o[i].detail, words);
    munmap(o, (size_t)n * sizeof *o);
    return i == n;
}

static void all_are_told(int n, const guise *guises, rsh_status status, const char *words) {
    char why[600];
    if (!are_told(n, guises, status, words, why)) fail_msg("%s", why);
}

/* Checks that all get the error.  If that depends on a timeout of the library, several attempts are made, because the
 * machine may be busy. */
static void all_are_told_at_last(int n, const guise *guises, rsh_status status, const char *words) {
    char why[600];
    int attempt = 0;
    while (attempt < ATTEMPTS && !are_told(n, guises, status, words, why)) attempt++;
    if (attempt == ATTEMPTS) fail_msg("%s", why);
}

/* For tests in which all processes wait for the whole timeout: each attempt k doubles it. */
static bool set_timeout_of(int k) {
    char text[32];
    snprintf(text, sizeof text, "%g", timeout = ldexp(TIMEOUT, k));
    return k < DOUBLINGS && !setenv("RESHARD_TIMEOUT", text, 1);
}

/* Rank `first` joins, is stopped for longer than RESHARD_TIMEOUT and continues; then the other rank joins. */
static outcome *meet_a_suspended(int first) {
    outcome *o = new_outcomes(2);
    const guise guises[2] = {{first, 2, AT_ONCE, -1, 0}, {1 - first, 2, AT_ONCE, -1, 0}};
    pid_t child[2];
    char job[64];
    snprintf(job, sizeof job, "suspended %d %ld", first, (long)getpid());
    for (int i = 0; i < 2; i++) {
        if (!(child[i] = fork())) join_as(job, &guises[i], o, 2, &o[i]);
        if (i) break;
        while (!atomic_load(&o[0].pid)) usleep(1000);
        await_asleep(child[0]);
        kill(child[0], SIGSTOP);
        usleep((useconds_t)(1.1e6 * timeout));
        kill(child[0], SIGCONT);
        await_asleep(child[0]); /* it has read its clock */
    }
    for (int i = 0; i < 2; i++) assert_int_equal(waitpid(child[i], NULL, 0), child[i]);
    return o;
}

static bool is_met(int first, char why[600]) {
    outcome *o = meet_a_suspended(first);
    bool met = !o[0].status && !o[1].status;
    const outcome *lost = o[0].status ? &o[0] : &o[1];
    if (!met) snprintf(why, 600, "rank %d first: %s: %s", first, rsh_status_name(lost->status), lost->detail);
    munmap(o, 2 * sizeof *o);
    return met;
}

static void a_rank_that_was_suspended_while_it_waited_is_met(void **state) {
    (void)state;
    char why[600];
    for (int first = 0; first < 2; first++) {
        bool met = false;
        for (int k = 1; !met && set_timeout_of(k); k++) met = is_met(first, why);
        if (!met) fail_msg("%s", why);
    }
    unsetenv("RESHARD_TIMEOUT");
}

/* Returns the number of descriptors that a process of this test has open already. */
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
            guises[r].when = WHEN_OTHERS_WAIT; /* a rank that cannot begin tries to report it for a short time only */
            guises[r].at_most = open_descriptors() + more;
            outcome *o = join_all(RANKS, guises);
            for (int i = 0; i < RANKS; i++)
                if (!o[i].status != !o[0].status)
                    fail_msg("rank %d with %d descriptors: rank %d: %s: %s", r, (int)more, i,
                             rsh_status_name(o[i].status), o[i].detail);
            munmap(o, RANKS * sizeof *o);
        }
}

static void a_rank_without_addresses_says_so_to_all(void **state) {
    (void)state;
#ifdef SANITIZED
    skip_test("sanitizer", "a sanitizer needs more address space than this test leaves; the plain build runs it");
#endif
    static const rlim_t limits[] = {(rlim_t)40 << 20, (rlim_t)300 << 20,
                                    (rlim_t)2 << 30}; /* no room for its own arena, or no room for those of others */
    for (int r = 0; r < RANKS; r++)
        for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
            guise guises[RANKS];
            as_usual(guises);
            guises[r].limit = RLIMIT_AS;
            guises[r].when = WHEN_OTHERS_WAIT;
            guises[r].at_most = limits[k];
            all_are_told(RANKS, guises, RSH_ENOMEM, "address space for an arena");
        }
}

static void two_of_the_same_rank_are_told_to_all(void **state) {
    (void)state;
    guise guises[RANKS];
    as_usual(guises);
    guises[2].rank = 1;
    all_are_told(RANKS, guises, RSH_EMISMATCH, "rank 1 of job");
}

static void different_sizes_are_told_to_all(void **state) {
    (void)state;
    guise guises[RANKS];
    as_usual(guises);
    guises[1].size = RANKS + 1;
    guises[3].when = WHEN_ONE_IS_TOLD; /* rank 0 also informs ranks that join shortly afterwards */
    setenv("RESHARD_TIMEOUT", "20", 1);
    all_are_told_at_last(RANKS, guises, RSH_EMISMATCH, "rank 0 says 4, rank 1 says 5");
    unsetenv("RESHARD_TIMEOUT");
}

/* A limit on the size of files counts for shared memory too, and would end the process. */
static void a_limit_on_files_is_a_lack_of_memory(void **state) {
    (void)state;
    guise guises[RANKS];
    as_usual(guises);
    guises[0].limit = RLIMIT_FSIZE;
    guises[0].when = WHEN_OTHERS_WAIT;
    guises[0].at_most = 4096;
    all_are_told(RANKS, guises, RSH_ENOMEM, "memory");
}

/* ---- strangers ---- */

/* The socket address of the test's job, for a process that is not one of its ranks. */
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

static _Noreturn void stay_silent(const place *at, atomic_int *here) {
    connect_at_last(at);
    atomic_store(here, 1);
    for (;;) pause();
}

static _Noreturn void come_and_go(const place *at, atomic_int *here) {
    for (;; atomic_store(here, 1)) close(connect_at_last(at));
}

/* Sends garbage of every length, up to that of a word and beyond. */
static _Noreturn void send_garbage(const place *at, atomic_int *here) {
    char bytes[sizeof(rshi_word) + 100];
    memset(bytes, 0x5a, sizeof bytes);
    for (size_t n = 1;; n = n % sizeof bytes + 1) {
        int fd = connect_at_last(at);
        send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n == 64) atomic_store(here, 1); /* now the other processes may join */
        close(fd);
    }
}

/* Sends what a rank of the next version of the library would send. */
static _Noreturn void speak_another_version(const place *at, atomic_int *here) {
    rshi_process_world world = {.base = {.size = RANKS}};
    rshi_rendezvous m = {.w = &world};
    rshi_word w = rshi_word_make(&m, 2, RSH_OK);
    ((char *)&w.magic)[7]++;
    send(connect_at_last(at), &w, sizeof w, MSG_NOSIGNAL);
    atomic_store(here, 1);
    for (;;) pause();
}

static _Noreturn void hold_the_name(const place *at, atomic_int *ready) {
    int fd;
    if (rshi_socket_open(&fd) || bind(fd, (const struct sockaddr *)&at->address, at->bytes) || listen(fd, 8)) _exit(1);
    atomic_store(ready, 1);
    for (;;) pause();
}

/* Records whatever it receives. */
static _Noreturn void listen_in(const place *at, atomic_int *heard) {
    for (;;) {
        char text[2000];
        int fd = connect_at_last(at);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 1000) > 0 && recv(fd, text, sizeof text, 0) > 0) atomic_fetch_add(heard, 1);
        close(fd);
    }
}

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
    alarm(PATIENCE / 2);
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
    skip_test("root", "only root can become another user");
}

static void a_job_meets_beside(void (*act)(const place *at, atomic_int *word)) {
    guise guises[RANKS];
    as_usual(guises);
    for (int i = 1; i < RANKS; i++) guises[i].when = WHEN_STRANGER_HAS_COME;
    other = start_stranger(act, geteuid());
    all_are_told(RANKS, guises, RSH_OK, "");
    end_stranger(&other);
}

static void a_silent_process_keeps_nobody_waiting(void **state) {
    (void)state;
    a_job_meets_beside(stay_silent);
}

static void a_process_that_comes_and_goes_ends_no_meeting(void **state) {
    (void)state;
    a_job_meets_beside(come_and_go);
}

static void a_process_that_sends_garbage_ends_no_meeting(void **state) {
    (void)state;
    a_job_meets_beside(send_garbage);
}

static const guise all_but_rank_2[RANKS - 1] = {
    {0, RANKS, AT_ONCE, -1, 0}, {1, RANKS, AT_ONCE, -1, 0}, {3, RANKS, AT_ONCE, -1, 0}};

/* Checks the error message if a rank is missing.  `act` (may be NULL) runs in a process that is not a rank; %ld in
 * `format` is its id. */
static void is_told(const guise *guises, void (*act)(const place *at, atomic_int *word), const char *format) {
    char words[100], why[600];
    bool told = false;
    for (int k = 0; !told && set_timeout_of(k); k++) {
        stranger s = {0};
        if (act) s = start_stranger(act, geteuid());
        snprintf(words, sizeof words, format, (long)s.pid);
        told = are_told(RANKS - 1, guises, RSH_ETIMEOUT, words, why);
        if (act) end_stranger(&s);
    }
    unsetenv("RESHARD_TIMEOUT");
    if (!told) fail_msg("%s", why);
}

static void who_is_missing_is_told_to_those_who_came_first(void **state) {
    (void)state;
    guise late[RANKS - 1];
    memcpy(late, all_but_rank_2, sizeof late);
    late[0].when = WHEN_HALF_THE_TIMEOUT_IS_OVER;
    is_told(late, NULL, "rank 2 did not");
}

static void a_silent_process_is_named_when_a_rank_is_missing(void **state) {
    (void)state;
    is_told(all_but_rank_2, stay_silent, "rank 2 did not; connected, but silent: process %ld");
}

static void a_process_that_sent_garbage_is_named_when_a_rank_is_missing(void **state) {
    (void)state;
    is_told(all_but_rank_2, send_garbage, "; process %ld sent data that are not from a rank");
}

static void another_version_of_the_library_is_told_to_all(void **state) {
    (void)state;
    char words[100];
    stranger s = start_stranger(speak_another_version, geteuid());
    snprintf(words, sizeof words, "process %ld of job", (long)s.pid);
    all_are_told(RANKS - 1, all_but_rank_2, RSH_EMISMATCH, words);
    end_stranger(&s);
}

static void another_user_learns_nothing_of_a_failure(void **state) {
    (void)state;
    needs_another_user();
    guise guises[RANKS];
    as_usual(guises);
    guises[1].size = RANKS + 1;
    guises[3].when = WHEN_ONE_IS_TOLD; /* meanwhile rank 0 rejects connections */
    stranger s = start_stranger(listen_in, NOBODY);
    setenv("RESHARD_TIMEOUT", "20", 1);
    all_are_told_at_last(RANKS, guises, RSH_EMISMATCH, "rank 0 says 4");
    unsetenv("RESHARD_TIMEOUT");
    assert_int_equal(end_stranger(&s), 0);
}

static void who_holds_the_name_is_told(uid_t user, rsh_status status, const char *format) {
    guise guises[RANKS];
    char words[100];
    as_usual(guises);
    stranger s = start_stranger(hold_the_name, user);
    while (!atomic_load(s.word)) usleep(1000);
    snprintf(words, sizeof words, format, (long)s.pid);
    /* if the stranger has the same user, the other ranks mistake it for rank 0 and wait for its answer */
    all_are_told(user == geteuid() ? 1 : RANKS, guises, status, words);
    end_stranger(&s);
}

static void another_user_who_holds_the_name_is_named(void **state) {
    (void)state;
    needs_another_user();
    who_holds_the_name_is_told(NOBODY, RSH_EPEER, "is in use by process %ld of another user (uid 65534)");
}

static void another_rank_0_is_named(void **state) {
    (void)state;
    who_holds_the_name_is_told(geteuid(), RSH_EBUSY, "process %ld is already rank 0");
}

int main(void) {
    alarm(PATIENCE);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_without_descriptors_says_so_to_all),
        cmocka_unit_test(a_rank_without_addresses_says_so_to_all),
        cmocka_unit_test(two_of_the_same_rank_are_told_to_all),
        cmocka_unit_test(different_sizes_are_told_to_all),
        cmocka_unit_test(who_is_missing_is_told_to_those_who_came_first),
        cmocka_unit_test(a_limit_on_files_is_a_lack_of_memory),
        cmocka_unit_test(a_silent_process_keeps_nobody_waiting),
        cmocka_unit_test(a_process_that_comes_and_goes_ends_no_meeting),
        cmocka_unit_test(a_process_that_sends_garbage_ends_no_meeting),
        cmocka_unit_test(a_silent_process_is_named_when_a_rank_is_missing),
        cmocka_unit_test(a_process_that_sent_garbage_is_named_when_a_rank_is_missing),
        cmocka_unit_test(another_version_of_the_library_is_told_to_all),
        cmocka_unit_test(another_user_learns_nothing_of_a_failure),
        cmocka_unit_test(another_user_who_holds_the_name_is_named),
        cmocka_unit_test(another_rank_0_is_named),
        cmocka_unit_test(a_rank_that_was_suspended_while_it_waited_is_met),
    };
    return exit_status(cmocka_run_group_tests(tests, NULL, NULL));
}
