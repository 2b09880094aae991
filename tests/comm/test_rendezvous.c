/* Rendezvous: when processes do not come together, all of them are told why, by the rank that knows. */
#include "ranks.h"
#include "sanitized.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 4

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

/* n processes with these guises; none of them may end by a signal. */
static outcome *join_all(int n, const guise *guises) {
    outcome *outcomes =
        mmap(NULL, (size_t)n * sizeof *outcomes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child[8];
    char job[64];
    assert_true(outcomes != MAP_FAILED && n <= 8);
    snprintf(job, sizeof job, "rendezvous %ld", (long)getpid());
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

int main(void) {
    alarm(120);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_without_descriptors_says_so_to_all),
        cmocka_unit_test(a_rank_without_addresses_says_so_to_all),
        cmocka_unit_test(two_of_the_same_rank_are_told_to_all),
        cmocka_unit_test(different_sizes_are_told_to_all),
        cmocka_unit_test(who_is_missing_is_told_to_those_who_came_first),
        cmocka_unit_test(a_limit_on_files_is_a_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
