/* Settings: an invalid environment variable causes an error; it is not replaced by the default. */
#include <sys/wait.h>
#include <unistd.h>

#include <reshard/tensor.h>

#include "comm/mailboxes.h"
#include "comm/ranks.h"

/* A question to the library.  Some settings are read only once, so each question is asked in a new child. */
typedef rsh_status (*question)(void);

static rsh_status of_threads(void) {
    rsh_comm *comms[2];
    return rsh_comm_threads(2, comms);
}

static rsh_status of_processes(void) {
    rsh_comm *comm;
    return rsh_comm_shm("settings", 0, 1, &comm);
}

static rsh_status nothing(void *ctx, rsh_comm *comm) {
    (void)ctx;
    (void)comm;
    return RSH_OK;
}

static rsh_status of_nodes(void) { return run_on_nodes(2, (int[]){0, 1}, nothing, NULL); }

static rsh_status of_a_tensor(void) {
    rsh_tensor *t;
    return rsh_tensor_empty(RSH_F32, 1, (int64_t[]){4}, &t);
}

static rsh_status of_wrapped_memory(void) {
    static float data[4];
    rsh_tensor *t;
    return rsh_tensor_wrap(data, RSH_F32, 1, (int64_t[]){4}, NULL, NULL, NULL, &t);
}

static rsh_status of_a_launcher(void) {
    rsh_comm *comm;
    return rsh_comm_join(&comm);
}

/* Checks in a child that the setting is rejected by an error message with the variable and its value. */
static int child_asks(const char *name, const char *value, question ask) {
    setenv(name, value, 1);
    alarm(120);
    rsh_status st = ask();
    bool said = strstr(rsh_error_detail(), name) && strstr(rsh_error_detail(), value);
    if (st && !said) fprintf(stderr, "%s=%s: %d, %s\n", name, value, (int)st, rsh_error_detail());
    return st == RSH_EVALUE && said ? 1 : st == RSH_OK ? 2 : 3;
}

enum { REFUSED = 1, TAKEN = 2 };
static int answer(const char *name, const char *value, question ask) {
    fflush(NULL);
    pid_t child = fork();
    if (!child) _exit(child_asks(name, value, ask));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static const question all[] = {of_threads, of_processes, of_nodes, of_a_tensor, of_wrapped_memory};
#define EACH(i) for (size_t i = 0; i < sizeof all / sizeof *all; i++)

static void bytes_to_keep_are_a_number(void **state) {
    (void)state;
    EACH(i) assert_int_equal(answer("RESHARD_CACHE_BYTES", "lots", all[i]), REFUSED);
    assert_int_equal(answer("RESHARD_CACHE_BYTES", "1GiB", of_a_tensor), REFUSED);
    assert_int_equal(answer("RESHARD_CACHE_BYTES", "-1", of_a_tensor), REFUSED);
    assert_int_equal(answer("RESHARD_CACHE_BYTES", "99999999999999999999", of_a_tensor), REFUSED);
    assert_int_equal(answer("RESHARD_CACHE_BYTES", "1000", of_a_tensor), TAKEN);
    assert_int_equal(answer("RESHARD_CACHE_BYTES", "", of_a_tensor), TAKEN);
}

static void vector_instructions_have_names(void **state) {
    (void)state;
    EACH(i) assert_int_equal(answer("RESHARD_SIMD", "sse9", all[i]), REFUSED);
    assert_int_equal(answer("RESHARD_SIMD", "AVX2", of_a_tensor), REFUSED);
    /* accepted even if the machine does not have it */
    assert_int_equal(answer("RESHARD_SIMD", "avx512", of_a_tensor), TAKEN);
    assert_int_equal(answer("RESHARD_SIMD", "generic", of_threads), TAKEN);
}

static void a_timeout_is_a_number_of_seconds(void **state) {
    (void)state;
    for (size_t i = 0; i < 3; i++) assert_int_equal(answer("RESHARD_TIMEOUT", "soon", all[i]), REFUSED);
    assert_int_equal(answer("RESHARD_TIMEOUT", "0", of_threads), REFUSED);
    assert_int_equal(answer("RESHARD_TIMEOUT", "nan", of_threads), REFUSED);
}

static void a_launcher_says_numbers(void **state) {
    (void)state;
    setenv("RESHARD_SIZE", "1", 1);
    assert_int_equal(answer("RESHARD_RANK", "first", of_a_launcher), REFUSED);
    unsetenv("RESHARD_SIZE");
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    assert_int_equal(answer("LOCAL_WORLD_SIZE", "some", of_a_launcher), REFUSED);
    assert_int_equal(answer("LOCAL_WORLD_SIZE", "1", of_a_launcher), TAKEN);
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_to_keep_are_a_number),
        cmocka_unit_test(vector_instructions_have_names),
        cmocka_unit_test(a_timeout_is_a_number_of_seconds),
        cmocka_unit_test(a_launcher_says_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
