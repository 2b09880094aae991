/* Fork: if a forked child uses or frees objects of its parent, it gets an error or a no-op, and the parent's ranks
 * continue. */
#include <sys/wait.h>
#include <unistd.h>

#include <reshard/torch.h>

#include "comm/ranks.h"

#define ROWS 512 /* f32[512, 512] on two ranks: parts whose memory an arena returns to the system when they are freed */
#define ALARM 20 /* seconds after which a child that hangs is killed */

typedef struct things {
    rsh_comm *comm;
    rsh_layout *rows, *columns;
    rsh_plan *plan;
    rsh_sharded *src, *dst;
    rsh_exec *exec;
    rsh_pool *pool;
} things;

static rsh_memory memory_of(const rsh_sharded *s) {
    return (rsh_memory){rsh_tensor_data(rsh_sharded_part(s, 0)), NULL};
}

static rsh_status make(things *x) {
    RSH_TRY(rsh_layout_parse("f32[512/x, 512] on x=2", &x->rows));
    RSH_TRY(rsh_layout_parse("f32[512, 512/x] on x=2", &x->columns));
    RSH_TRY(rsh_plan_new(x->rows, x->columns, NULL, &x->plan));
    RSH_TRY(rsh_sharded_empty(x->comm, x->rows, &x->src));
    RSH_TRY(rsh_sharded_zeros(x->comm, x->columns, &x->dst));
    float *data = memory_of(x->src).data;
    int first = rsh_comm_rank(x->comm) * ROWS / 2 * ROWS;
    for (int i = 0; i < ROWS / 2 * ROWS; i++) data[i] = (float)(first + i);
    rsh_memory from = memory_of(x->src), to = memory_of(x->dst);
    RSH_TRY(rsh_exec_bind(x->plan, x->comm, &from, &to, &x->exec));
    return rsh_pool_new(3, &x->pool);
}

static rsh_status unmake(things *x) {
    rsh_pool_free(x->pool);
    rsh_exec_free(x->exec);
    rsh_sharded_free(x->dst);
    rsh_sharded_free(x->src);
    rsh_plan_free(x->plan);
    rsh_layout_free(x->columns);
    rsh_layout_free(x->rows);
    return RSH_OK;
}

static void add_up(void *ctx, int64_t i, int worker) {
    (void)worker;
    *(int64_t *)ctx += i;
}

/* Every use of the parent's comm returns an error that says so. */
static rsh_status uses_are_refused(things *x) {
    rsh_comm *part = NULL;
    rsh_sharded *made = NULL;
    rsh_exec *exec = NULL;
    rsh_digest digest;
    bool done;
    rsh_memory from = memory_of(x->src), to = memory_of(x->dst);
    CHECK_STATUS(RSH_ERUNTIME, rsh_comm_barrier(x->comm));
    CHECK_SAYS("forked child");
    CHECK_STATUS(RSH_ERUNTIME, rsh_comm_split(x->comm, 0, 0, &part));
    CHECK_STATUS(RSH_ERUNTIME, rsh_exec_run(x->exec));
    CHECK_SAYS("forked child");
    CHECK_STATUS(RSH_ERUNTIME, rsh_exec_begin(x->exec));
    CHECK_STATUS(RSH_ERUNTIME, rsh_exec_test(x->exec, &done));
    CHECK_STATUS(RSH_ERUNTIME, rsh_exec_wait(x->exec));
    CHECK_STATUS(RSH_ERUNTIME, rsh_exec_run_on(x->exec, &from, &to));
    CHECK_STATUS(RSH_ERUNTIME, rsh_exec_bind(x->plan, x->comm, &from, &to, &exec));
    CHECK_STATUS(RSH_ERUNTIME, rsh_sharded_zeros(x->comm, x->rows, &made));
    CHECK_STATUS(RSH_ERUNTIME, rsh_reshard(x->src, x->columns, NULL, &made));
    CHECK_STATUS(RSH_ERUNTIME, rsh_sharded_digest(x->src, &digest));
    CHECK_STATUS(RSH_ERUNTIME, rsh_group_init(x->comm) ? RSH_EVALUE : rsh_group_barrier(NULL));
    return rsh_group_destroy();
}

static rsh_status be_child(things *x) {
    int64_t sum = 0;
    RSH_TRY(uses_are_refused(x));
    /* the calling thread does all tasks, because the workers belong to the parent */
    rsh_pool_run(x->pool, 10, add_up, &sum);
    CHECK(sum == 45);
    RSH_TRY(unmake(x));
    CHECK_STATUS(RSH_ERUNTIME, rsh_comm_free(x->comm));
    CHECK_SAYS("forked child");
    return RSH_OK;
}

static rsh_status fork_child(things *x) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        alarm(ALARM);
        rsh_status st = be_child(x);
        if (st) fprintf(stderr, "in the child: %s\n", rsh_error_detail());
        _exit(st != RSH_OK);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
    return RSH_OK;
}

static rsh_status check_columns(const things *x) {
    const float *data = memory_of(x->dst).data;
    int left = rsh_comm_rank(x->comm) * ROWS / 2;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < ROWS / 2; j++) CHECK(data[i * ROWS / 2 + j] == (float)(i * ROWS + left + j));
    return RSH_OK;
}

static rsh_status go_on_after_a_fork(void *ctx, rsh_comm *comm) {
    (void)ctx;
    things x = {.comm = comm};
    RSH_TRY(make(&x));
    RSH_TRY(fork_child(&x));
    RSH_TRY(rsh_comm_barrier(comm));
    RSH_TRY(rsh_exec_run(x.exec));
    RSH_TRY(check_columns(&x));
    RSH_TRY(rsh_exec_begin(x.exec)); /* once more while a run is in progress */
    RSH_TRY(fork_child(&x));
    RSH_TRY(rsh_exec_wait(x.exec));
    RSH_TRY(check_columns(&x));
    return unmake(&x);
}

static void ranks_that_are_threads_outlive_their_children(void **state) {
    (void)state;
    rsh_status st = rsh_run(2, go_on_after_a_fork, NULL);
    if (st) fail_msg("%s", rsh_error_detail());
}

static void ranks_that_are_processes_outlive_their_children(void **state) {
    (void)state;
    rsh_status st = rsh_run_shm(2, go_on_after_a_fork, NULL);
    if (st) fail_msg("%s", rsh_error_detail());
}

static rsh_status barrier(void *ctx, rsh_comm *comm) {
    (void)ctx;
    return rsh_comm_barrier(comm);
}

/* A child may use objects that it makes itself. */
static void a_child_makes_ranks_of_its_own(void **state) {
    (void)state;
    rsh_comm *comm = NULL;
    assert_int_equal(rsh_comm_threads(1, &comm), RSH_OK);
    assert_int_equal(rsh_run_shm(2, barrier, NULL), RSH_OK);
    assert_int_equal(rsh_comm_barrier(comm), RSH_OK);
    assert_int_equal(rsh_comm_free(comm), RSH_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_are_threads_outlive_their_children),
        cmocka_unit_test(ranks_that_are_processes_outlive_their_children),
        cmocka_unit_test(a_child_makes_ranks_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
