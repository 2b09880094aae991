/* Ranks of golden tests: runs every case of a file on as many ranks as it needs, as threads, as processes, and on two
 * nodes with messages between them.  If a test is built with GOLDEN_MPI, it is one rank of an MPI job instead;
 * GOLDEN_PER_NODE then says how many ranks a node has. */
#include "golden.h"

#include <stdatomic.h>
#include <sys/mman.h>

#ifdef GOLDEN_MPI
#include <reshard/mpi_world.h>
#else
#include "comm/mailboxes.h"
#endif

#define MOST_RANKS 4

/* Counts, in memory that the processes of the engine shm share with the test. */
typedef struct tally {
    atomic_int compared, different; /* counted once per rank and case */
} tally;

typedef struct session {
    const char *name;
    const json_t *cases;
    bool (*mine)(const json_t *the_case); /* selects the cases of this test; NULL: all cases */
    golden_fn fn;
    tally *tally;
} session;

/* Returns how many ranks the case needs; 0: it is not for this test. */
static int world_of(const session *s, size_t i) {
    const json_t *c = json_array_get(s->cases, i);
    return !s->mine || s->mine(c) ? (int)golden_number(c, "world", 0) : 0;
}

static void compare(session *s, rsh_comm *comm, size_t i) {
    int rank = rsh_comm_rank(comm);
    rsh_status st = s->fn(json_array_get(s->cases, i), rank);
    atomic_fetch_add(&s->tally->compared, 1);
    if (!st) return;
    atomic_fetch_add(&s->tally->different, 1);
    fprintf(stderr, "%s, case %zu, rank %d of %d, %s: %s: %s\n", s->name, i, rank, rsh_comm_size(comm),
            rsh_comm_engine(comm), rsh_status_name(st), rsh_error_detail());
}

static rsh_status be_rank(void *ctx, rsh_comm *comm) {
    session *s = ctx;
    RSH_TRY(rsh_group_init(comm));
    for (size_t i = 0; i < json_array_size(s->cases); i++)
        if (world_of(s, i) == rsh_comm_size(comm)) compare(s, comm, i);
    return rsh_group_destroy();
}

/* Returns the number of cases of this test, and of ranks times cases. */
static int wanted(const session *s, int *ranks) {
    int n = 0;
    *ranks = 0;
    for (size_t i = 0; i < json_array_size(s->cases); i++) n += world_of(s, i) > 0, *ranks += world_of(s, i);
    return n;
}

static void add_up(session *s);

static void run_engine(session *s, const char *engine, rsh_status (*run)(int n, rsh_rank_fn fn, void *ctx)) {
    atomic_store(&s->tally->compared, 0);
    for (int world = 1; world <= MOST_RANKS; world++) {
        rsh_status st = run(world, be_rank, s);
        if (st) fail_msg("%s, %d ranks, %s: %s: %s", s->name, world, engine, rsh_status_name(st), rsh_error_detail());
    }
    add_up(s);
    int ranks, cases = wanted(s, &ranks);
    print_message("%s, %s: %d cases compared, %d answers of ranks\n", s->name, engine, cases,
                  atomic_load(&s->tally->compared));
    assert_true(cases > 0);
    assert_int_equal(atomic_load(&s->tally->compared), ranks);
}

#ifdef GOLDEN_MPI
static rsh_comm *job; /* opened on first use, closed at the end */

static void leave_job(void) { rsh_mpi_close(job); }

/* Sets RESHARD_NODE.  Both MPIs state the rank of this process in the environment. */
static void choose_node(void) {
    const char *per_node = getenv("GOLDEN_PER_NODE"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    char name[32];
    if (!rank) rank = getenv("PMI_RANK");
    if (!per_node || !rank) return;
    snprintf(name, sizeof name, "node %d", atoi(rank) / atoi(per_node));
    setenv("RESHARD_NODE", name, 1);
}

static rsh_status join_job(void) {
    if (job) return RSH_OK;
    choose_node();
    RSH_TRY(rsh_mpi_open(&job));
    RSH_REQUIRE(rsh_comm_size(job) == MOST_RANKS, RSH_EVALUE, "the job has %d ranks, not %d", rsh_comm_size(job),
                MOST_RANKS);
    return atexit(leave_job) ? RSH_ERUNTIME : RSH_OK;
}

/* Runs on the first n ranks of the job. */
static rsh_status run_in_job(int n, rsh_rank_fn fn, void *ctx) {
    rsh_comm *world = NULL;
    RSH_TRY(join_job());
    RSH_TRY(rsh_comm_split(job, rsh_comm_rank(job) < n ? 0 : -1, rsh_comm_rank(job), &world));
    rsh_status st = rsh_comm_agree(job, world ? fn(ctx, world) : RSH_OK);
    rsh_comm_free(world);
    return st;
}

/* Adds up the comparisons of all ranks. */
static void add_up(session *s) {
    int64_t mine = atomic_load(&s->tally->compared), all = 0;
    assert_int_equal(rsh_comm_allreduce(job, &mine, &all, 1, RSH_I64, RSH_OP_SUM), RSH_OK);
    atomic_store(&s->tally->compared, (int)all);
}

static void run_everywhere(session *s) { run_engine(s, "mpi", run_in_job); }
#else
static rsh_status run_on_two_nodes(int n, rsh_rank_fn fn, void *ctx) {
    static const int node[MOST_RANKS] = {0, 1, 0, 1};
    return run_on_nodes(n, node, fn, ctx);
}

static void add_up(session *s) { (void)s; /* all ranks share the counts */ }

static void run_everywhere(session *s) {
    run_engine(s, "threads", rsh_run);
    run_engine(s, "shm", rsh_run_shm);
    run_engine(s, "two nodes", run_on_two_nodes);
}
#endif

void golden_ranks(const char *name, bool (*mine)(const json_t *the_case), golden_fn fn) {
    json_t *cases = golden_load(name);
    session s = {.name = name, .cases = cases, .mine = mine, .fn = fn};
    s.tally = mmap(NULL, sizeof *s.tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(s.tally != MAP_FAILED);
    run_everywhere(&s);
    int different = atomic_load(&s.tally->different);
    munmap(s.tally, sizeof *s.tally);
    json_decref(cases);
    assert_int_equal(different, 0);
}

rsh_status golden_group(const json_t *ranks, rsh_group **out) {
    int list[MOST_SHARDS];
    *out = NULL;
    if (!json_is_array(ranks)) return RSH_OK;
    return rsh_group_new(golden_ints(ranks, list), list, out);
}

bool golden_member(const json_t *ranks, int rank) {
    if (!json_is_array(ranks)) return true;
    for (size_t i = 0; i < json_array_size(ranks); i++)
        if (json_integer_value(json_array_get(ranks, i)) == rank) return true;
    return false;
}
