/* Refused runs: every rank that learns of a refused run gets the error message of that run, not of another one. */
#include "one_core.h"
#include "seed.h"

enum { MANY = 20, DESTINATIONS = 15 };

/* ---- runs one after the other, each refused by a different rank ---- */

/* Each rank reads only some neighbours, so most ranks learn of a refusal from a rank that only passes it on. */
static const char *const chain[2] = {"f32[60/x] on x=20", "f32[60/x] on x=15"};
/* Each rank reads all others, so the ranks are a team if there are more of them than cores. */
static const char *const all[2] = {"f32[60/x, 60] on x=20", "f32[60, 60/x] on x=20"};

static uint64_t seed;
static int runs;

static uint64_t draw(int run, int salt) { return rshi_hash(&run, sizeof run, seed + (uint64_t)salt); }

/* Delays some of the ranks. */
static void dawdle(uint64_t number) {
    if (number % 8 == 0) usleep((useconds_t)(number / 8 % 100));
}

static rsh_status refuse_in_turn(void *ctx, rsh_comm *comm) {
    const char *const *layouts = ctx;
    bound b;
    int rank = rsh_comm_rank(comm);
    RSH_TRY(bind_on(&(scene){.where = THREADS}, comm, layouts[0], layouts[1], &b));
    rsh_memory src = memory_of(b.src), dst = memory_of(b.dst), none = {NULL, NULL};
    for (int k = 0; k < runs; k++) {
        char sentence[64];
        int refuser = (int)(draw(k, 0) % DESTINATIONS);
        snprintf(sentence, sizeof sentence, "rank %d: source part 0 has no memory", refuser);
        dawdle(draw(k, 1 + rank));
        rsh_status st = rsh_exec_run_on(b.exec, rank == refuser ? &none : &src, &dst);
        /* a rank that needs nothing from the refusing one may be done */
        CHECK(st == RSH_EVALUE || (!st && rank != refuser && layouts == chain));
        CHECK(!st || strcmp(rsh_error_detail(), sentence) == 0);
    }
    unbind(&b);
    return RSH_OK;
}

static void check(rsh_status st, const char *what) {
    alarm(0);
    if (st) fail_msg("%s, RESHARD_SEED=%llu: %s", what, (unsigned long long)seed, rsh_error_detail());
}

static void every_run_of_neighbours_has_its_own_refusal(void **state) {
    (void)state;
    alarm(PATIENCE);
    check(rsh_run(MANY, refuse_in_turn, (void *)chain), "threads");
    alarm(PATIENCE);
    check(rsh_run_shm(MANY, refuse_in_turn, (void *)chain), "processes");
}

static void every_run_of_a_team_has_its_own_refusal(void **state) {
    (void)state;
    alarm(PATIENCE);
    check(rsh_run(MANY, refuse_in_turn, (void *)all), "threads");
    alarm(PATIENCE);
    check(rsh_run_shm(MANY, refuse_in_turn, (void *)all), "processes");
}

/* ---- two runs in progress ---- */

/* Rank 1 has no memory for its source in one run, and none for its destination in the next. */
static rsh_status refuse_both(bound *a, bound *b) {
    rsh_memory dst = memory_of(a->dst), src = memory_of(b->src), none = {NULL, NULL};
    CHECK(rsh_exec_run_on(a->exec, &none, &dst) == RSH_EVALUE);
    CHECK(rsh_exec_run_on(b->exec, &src, &none) == RSH_EVALUE);
    return RSH_OK;
}

/* The others learn of both refusals before they wait for the first run. */
static rsh_status hear_of_both(bound *a, bound *b) {
    RSH_TRY(rsh_exec_begin(a->exec));
    RSH_TRY(rsh_exec_begin(b->exec));
    CHECK(rsh_exec_wait(b->exec) == RSH_EVALUE);
    CHECK(strcmp(rsh_error_detail(), "rank 1: destination part 0 has no memory") == 0);
    CHECK(rsh_exec_wait(a->exec) == RSH_EVALUE);
    CHECK(strcmp(rsh_error_detail(), "rank 1: source part 0 has no memory") == 0);
    return RSH_OK;
}

static rsh_status two_at_once(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    bound a, b;
    if (s->where != THREADS && s->where != PROCESSES) return RSH_OK; /* with messages the comm is abandoned */
    RSH_TRY(bind_on(s, comm, ROWS, COLUMNS, &a));
    RSH_TRY(bind_on(s, comm, COLUMNS, ROWS, &b));
    for (int k = 0; k < 10; k++) RSH_TRY(rsh_comm_rank(comm) == 1 ? refuse_both(&a, &b) : hear_of_both(&a, &b));
    unbind(&a);
    unbind(&b);
    return RSH_OK;
}

static void each_of_two_runs_under_way_has_its_own_refusal(void **state) {
    (void)state;
    everywhere(two_at_once);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_run_of_neighbours_has_its_own_refusal),
        ON_ONE_CORE(every_run_of_a_team_has_its_own_refusal),
        cmocka_unit_test(each_of_two_runs_under_way_has_its_own_refusal),
        ON_ONE_CORE(each_of_two_runs_under_way_has_its_own_refusal),
    };
    const char *cases = getenv("RESHARD_CASES");
    seed = seed_of_tests();
    runs = cases ? atoi(cases) : 200;
    printf("RESHARD_SEED=%llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
