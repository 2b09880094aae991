/* Ends of ranks that are processes: what rsh_run_shm reports about them, whatever the program does with its
 * children. */
#include "ranks.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/node.h"

static void reap_all(int signal) {
    (void)signal;
    int before = errno; /* errno of the code that was interrupted */
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
    errno = before;
}

static const struct sigaction hidings[] = {
    {.sa_handler = SIG_IGN},
    {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT},
    {.sa_handler = reap_all},
    {.sa_handler = reap_all, .sa_flags = SA_RESTART},
};

/* On the last rank, ends as `ctx` says; the others return at once. */
typedef enum manner { RETURN, FAIL, KILLED, EXIT } manner;
static rsh_status ends_somehow(void *ctx, rsh_comm *c) {
    if (rsh_comm_rank(c) + 1 < rsh_comm_size(c)) return RSH_OK;
    switch (*(manner *)ctx) {
    case FAIL: return rshi_fail(RSH_EINDEX, "rank %d had enough", rsh_comm_rank(c));
    case KILLED: raise(SIGKILL); break;
    case EXIT: _exit(0);
    case RETURN: break;
    }
    return RSH_OK;
}

static void ends_are_told(int n) {
    static const struct {
        manner how;
        rsh_status status;
        const char *words;
    } cases[] = {{RETURN, RSH_OK, ""},
                 {FAIL, RSH_EINDEX, "had enough"},
                 {KILLED, RSH_EPEER, "rank"},
                 {EXIT, RSH_EPEER, "rank"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        manner how = cases[i].how;
        rsh_status st = rsh_run_shm(n, ends_somehow, &how);
        if (st != cases[i].status || (st && !strstr(rsh_error_detail(), cases[i].words)))
            fail_msg("%d ranks, case %zu: %s: %s", n, i, rsh_status_name(st), rsh_error_detail());
    }
}

static void the_end_of_a_rank_is_known_to_a_program_that_does_not_wait_for_it(void **state) {
    (void)state;
    struct sigaction before;
    assert_int_equal(sigaction(SIGCHLD, NULL, &before), 0);
    ends_are_told(3);
    for (size_t i = 0; i < sizeof hidings / sizeof *hidings; i++) {
        assert_int_equal(sigaction(SIGCHLD, &hidings[i], NULL), 0);
        for (int n = 1; n <= 3; n++) ends_are_told(n);
    }
    sigaction(SIGCHLD, &before, NULL);
}

/* Returns the peak memory of this process in KiB. */
static long most_memory(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

static void an_absurd_number_of_ranks_is_refused_before_anything_is_made(void **state) {
    (void)state;
    static const int sizes[] = {INT32_MAX, RSHI_PROCESSES + 1};
    rsh_comm *c = NULL;
    manner how = RETURN;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        long before = most_memory();
        assert_int_equal(rsh_comm_shm("crowd", 1, sizes[i], &c), RSH_EVALUE);
        assert_non_null(strstr(rsh_error_detail(), "65536"));
        assert_int_equal(rsh_run_shm(sizes[i], ends_somehow, &how), RSH_EVALUE);
        assert_true(most_memory() - before < 65536); /* a word for each rank would take 8 GiB */
    }
}

int main(void) {
    alarm(120);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_rank_is_known_to_a_program_that_does_not_wait_for_it),
        cmocka_unit_test(an_absurd_number_of_ranks_is_refused_before_anything_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
