/* Ranks of golden tests: every case of a file in a world of the size it wants, as threads and as processes. */
#include "golden.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define MOST_RANKS 4

/* In memory that the processes of the engine shm share with the test. */
typedef struct tally {
    atomic_int compared, different; /* ranks times cases */
} tally;

typedef struct session {
    const char *name;
    const json_t *cases;
    bool (*mine)(const json_t *the_case); /* NULL: all cases */
    golden_fn fn;
    tally *tally;
} session;

/* How many ranks the case wants; 0: it is not for this test. */
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
    fprintf(stderr, "%s, case %zu, rank %d of %d, %s: %s: %s\n", s->name, i, rank, rsh_comm_size(comm), rsh_comm_engine(comm), rsh_status_name(st),
            rsh_error_detail());
}

static rsh_status be_rank(void *ctx, rsh_comm *comm) {
    session *s = ctx;
    RSH_TRY(rsh_group_init(comm));
    for (size_t i = 0; i < json_array_size(s->cases); i++)
        if (world_of(s, i) == rsh_comm_size(comm)) compare(s, comm, i);
    return rsh_group_destroy();
}

/* Cases of this test, and ranks times cases. */
static int wanted(const session *s, int *ranks) {
    int n = 0;
    *ranks = 0;
    for (size_t i = 0; i < json_array_size(s->cases); i++) n += world_of(s, i) > 0, *ranks += world_of(s, i);
    return n;
}

static void run_engine(session *s, const char *engine, rsh_status (*run)(int n, rsh_rank_fn fn, void *ctx)) {
    atomic_store(&s->tally->compared, 0);
    for (int world = 1; world <= MOST_RANKS; world++) {
        rsh_status st = run(world, be_rank, s);
        if (st) fail_msg("%s, %d ranks, %s: %s: %s", s->name, world, engine, rsh_status_name(st), rsh_error_detail());
    }
    int ranks, cases = wanted(s, &ranks);
    print_message("%s, %s: %d cases compared, %d answers of ranks\n", s->name, engine, cases, atomic_load(&s->tally->compared));
    assert_true(cases > 0);
    assert_int_equal(atomic_load(&s->tally->compared), ranks);
}

void golden_ranks(const char *name, bool (*mine)(const json_t *the_case), golden_fn fn) {
    json_t *cases = golden_load(name);
    session s = {.name = name, .cases = cases, .mine = mine, .fn = fn};
    s.tally = mmap(NULL, sizeof *s.tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(s.tally != MAP_FAILED);
    run_engine(&s, "threads", rsh_run);
    run_engine(&s, "shm", rsh_run_shm);
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
