/* Foreign memory: if a destination of one thread overlaps a part of another thread, every rank gets an error.  Views of
 * one buffer that only interleave are accepted. */
#include "comm/ranks.h"

#include <reshard/shard.h>

enum { N = 24, MOST = 12, ROUNDS = 3 };

/* Memory of all ranks. */
static float from[N][N], to[N][N];

typedef struct scene {
    int ranks;
    int clash;     /* the rank whose destination overlaps the source of `victim`; -1: none */
    int victim;
    bool messages;
} scene;

static rsh_status layout(const char *dims, int ranks, rsh_layout **out) {
    char text[64];
    snprintf(text, sizeof text, "f32[%s] on x=%d", dims, ranks);
    return rsh_layout_parse(text, out);
}

typedef struct place {
    float *src, *dst;
    int64_t strides[2]; /* strides of the destination */
} place;

/* Returns the memory of a rank: rows of `from` and, without a clash, columns of `to`, which interleave with the columns
 * of all other ranks.  With a clash, a destination is as large as the rows of a rank: a block of `to`, or the rows of
 * the victim. */
static place place_of(const scene *s, int rank, bool clash) {
    int width = N / s->ranks;
    place p = {from[rank * width], s->clash < 0 ? &to[0][rank * width] : to[rank * width], {N, 1}};
    if (s->clash >= 0) p.strides[0] = width;
    if (clash && rank == s->clash) p.dst = from[s->victim * width];
    return p;
}

static rsh_status columns_arrived(const scene *s, int rank) {
    place p = place_of(s, rank, false);
    int width = N / s->ranks;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < width; j++) CHECK(p.dst[i * p.strides[0] + j] == (float)(i * N + rank * width + j));
    return RSH_OK;
}

static void fill(void) {
    for (int i = 0; i < N * N; i++) from[i / N][i % N] = (float)i;
    memset(to, 0, sizeof to);
}

static rsh_status bind(const scene *s, rsh_comm *comm, const rsh_plan *plan, bool clash) {
    static const int64_t strides[2] = {N, 1};
    place p = place_of(s, rsh_comm_rank(comm), clash);
    rsh_exec *e = NULL;
    const rsh_memory a = {p.src, strides}, b = {p.dst, p.strides};
    RSH_TRY(rsh_exec_bind(plan, comm, &a, &b, &e));
    rsh_status st = rsh_exec_run(e);
    rsh_exec_free(e);
    return st;
}

/* Reshards twice: the first call binds, the second uses the cached binding. */
static rsh_status reshard(const scene *s, rsh_comm *comm, const rsh_layout *rows, const rsh_layout *columns,
                          bool clash) {
    const int64_t strides[2] = {N, 1}, width = N / s->ranks;
    place p = place_of(s, rsh_comm_rank(comm), clash);
    rsh_tensor *a, *b;
    rsh_sharded *x, *y;
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    opts.messages = s->messages;
    RSH_TRY(rsh_tensor_wrap(p.src, RSH_F32, 2, (int64_t[]){width, N}, strides, NULL, NULL, &a));
    RSH_TRY(rsh_tensor_wrap(p.dst, RSH_F32, 2, (int64_t[]){N, width}, p.strides, NULL, NULL, &b));
    RSH_TRY(rsh_sharded_from_tensors(comm, rows, 1, (const rsh_tensor *const *)&a, &x));
    RSH_TRY(rsh_sharded_from_tensors(comm, columns, 1, (const rsh_tensor *const *)&b, &y));
    rsh_status st = rsh_reshard_into(x, y, &opts);
    rsh_sharded_free(x), rsh_sharded_free(y);
    rsh_tensor_free(a), rsh_tensor_free(b);
    return st;
}

static rsh_status is_refused(const scene *s, rsh_status st) {
    char words[32];
    CHECK_STATUS(RSH_EVALUE, st);
    CHECK_SAYS("share memory");
    snprintf(words, sizeof words, "destination of rank %d", s->clash);
    CHECK_SAYS(words);
    snprintf(words, sizeof words, "source of rank %d", s->victim);
    CHECK_SAYS(words);
    return RSH_OK;
}

static rsh_status meet(void *ctx, rsh_comm *comm) {
    const scene *s = ctx;
    int rank = rsh_comm_rank(comm);
    rsh_layout *rows, *columns;
    rsh_plan *plan;
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    opts.messages = s->messages;
    RSH_TRY(layout("24/x, 24", s->ranks, &rows));
    RSH_TRY(layout("24, 24/x", s->ranks, &columns));
    RSH_TRY(rsh_plan_new(rows, columns, &opts, &plan));
    for (int round = 0; round < ROUNDS; round++) {
        if (s->clash >= 0) RSH_TRY(is_refused(s, bind(s, comm, plan, true)));
        RSH_TRY(bind(s, comm, plan, false));
        RSH_TRY(columns_arrived(s, rank));
        if (s->clash >= 0) RSH_TRY(is_refused(s, reshard(s, comm, rows, columns, true)));
        RSH_TRY(reshard(s, comm, rows, columns, false));
        RSH_TRY(columns_arrived(s, rank));
    }
    rsh_cache_stats stats = RSH_CACHE_STATS_INIT;
    RSH_TRY(rsh_comm_get_cache_stats(comm, &stats));
    CHECK(stats.hits > 0);
    rsh_plan_free(plan);
    rsh_layout_free(rows), rsh_layout_free(columns);
    return RSH_OK;
}

static void meet_all(int clash_of_two, int clash_of_many, int victim_of_many, bool messages) {
    scene two = {2, clash_of_two, 1 - clash_of_two, messages};
    scene many = {MOST, clash_of_many, victim_of_many, messages};
    fill();
    run_ranks(2, meet, &two);
    fill();
    run_ranks(MOST, meet, &many);
}

static void a_destination_in_another_ranks_source_is_refused_on_all(void **state) {
    (void)state;
    meet_all(0, 3, 7, false);
    meet_all(1, 11, 0, false);
}

static void so_it_is_where_all_goes_by_messages(void **state) {
    (void)state;
    meet_all(0, 3, 7, true);
}

static void columns_of_one_matrix_are_destinations_of_several_ranks(void **state) {
    (void)state;
    meet_all(-1, -1, 0, false);
    meet_all(-1, -1, 0, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_destination_in_another_ranks_source_is_refused_on_all),
        cmocka_unit_test(so_it_is_where_all_goes_by_messages),
        cmocka_unit_test(columns_of_one_matrix_are_destinations_of_several_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
