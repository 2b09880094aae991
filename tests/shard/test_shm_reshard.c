/* The engine shm gives the same bits as one process alone, in whatever memory the caller's parts are. */
#include "ramp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct pair {
    const char *from, *to;
} pair;

static const pair pairs[] = {
    {"f32[16/x, 12] on x=4", "f32[16, 12/x] on x=4"},
    {"f32[16/x, 12] on x=2", "f32[16, 12/x] on x=4"},
    {"f32[16, 12]", "f32[16/x, 12] on x=4"},
    {"f32[16/x, 12] on x=4", "f32[16, 12]"},
    {"f32[16/x, 12] on x=4", "f32[16, 12] on x=4"},
    {"f32[16, 12] on x=4", "f32[16/x, 12] on x=4"},
    {"f32[16/a, 12/b] on a=2,b=2", "f32[16/b, 12/a] on a=2,b=2"},
    {"f32[16/(a,b), 12] on a=2,b=2", "f32[16/a, 12] on a=2,b=2"},
    {"f32[16/x:1, 12] on x=4", "f32[16/x:3, 12] on x=4"},
    {"f32[10/x~, 7] on x=4", "f32[10, 7/x~] on x=4"},
    {"f32[10/x{4,3,0,3}, 7] on x=4", "f32[10/x, 7] on x=3"},
    {"f32[16/x, 12] on x=4 order(1,0)", "f32[16/x, 12] on x=2"},
    {"f32[8, 8] boxes 0:[0:4,0:8] 1,3:[4:8,0:8]", "f32[8/x, 8] on x=4"},
    {"f32[100, 3]/x on x=4", "f32[100/x, 3] on x=4"},
    {"f32[16/x, 12] on x=4", "bf16[16, 12/x] on x=4"},
    {"i32[9, 5/x] on x=2", "f64[9/x, 5] on x=4"},
    {"f32[16, 12] on x=4 sum(x)", "f32[16, 12] on x=4"},
    {"f32[16, 12] on x=4 sum(x)", "f32[16/x, 12] on x=4"},
    {"f32[16, 12/b] on a=2,b=2 avg(a)", "f32[16/a, 12] on a=2,b=2"},
    {"i32[40] on x=4 max(x)", "i32[40] on x=3"},
    {"bf16[64, 33] on x=4 sum(x)", "f32[64, 33] on x=4"},
    {"f32[0, 12/x] on x=4", "f32[0/x, 12] on x=4"},
    {"f32[300/x, 500] on x=4", "f32[300, 500/x] on x=4"},
    {"u8[1000/x, 1001] on x=4", "u8[1000, 1001/x] on x=3"},
};
#define PAIRS (int)(sizeof pairs / sizeof *pairs)

/* All parts of one layout, by rank. */
typedef struct held {
    rsh_memory *memory;
    int64_t first[RANKS + 1];
    size_t size;
} held;

static held hold(const rsh_layout *l, bool fill) {
    held h = {.size = rsh_dtype_size(rsh_layout_dtype(l))};
    for (int r = 0; r < RANKS; r++) h.first[r + 1] = h.first[r] + rsh_layout_nparts(l, r);
    h.memory = calloc((size_t)h.first[RANKS] + 1, sizeof *h.memory);
    for (int r = 0; r < RANKS; r++)
        for (int64_t p = 0; p < rsh_layout_nparts(l, r); p++) {
            rsh_part part;
            if (rsh_layout_part(l, r, p, &part)) return h;
            unsigned char *data = calloc((size_t)part.count + 1, h.size);
            for (size_t i = 0; fill && i < (size_t)part.count * h.size; i++)
                data[i] = (unsigned char)((i * 7 + (size_t)r * 13) % 61);
            h.memory[h.first[r] + p].data = data;
        }
    return h;
}

static void let_go(held *h) {
    for (int64_t i = 0; i < h->first[RANKS]; i++) free(h->memory[i].data);
    free(h->memory);
}

/* Data of all ranks, made before the processes are forked. */
typedef struct trial {
    rsh_layout *from, *to;
    rsh_plan *plan;
    held src, expected;
} trial;

static size_t bytes_of(const rsh_layout *l, int rank, int64_t part) {
    rsh_part shape;
    return rsh_layout_part(l, rank, part, &shape) ? 0 : (size_t)shape.count * rsh_dtype_size(rsh_layout_dtype(l));
}

/* Returns whether the rank's parts are as expected; elements are `step` elements apart in memory. */
static bool as_expected(const trial *t, int rank, const rsh_memory *dst, int64_t step) {
    size_t size = t->expected.size;
    for (int64_t p = 0; p < rsh_layout_nparts(t->to, rank); p++) {
        const char *want = t->expected.memory[t->expected.first[rank] + p].data, *got = dst[p].data;
        for (size_t i = 0; i < bytes_of(t->to, rank, p) / size; i++)
            if (memcmp(want + i * size, got + i * (size_t)step * size, size)) return false;
    }
    return true;
}

static rsh_status run_twice(const trial *t, rsh_comm *comm, const rsh_memory *src, const rsh_memory *dst, int64_t step,
                            bool *good) {
    rsh_exec *e = NULL;
    rsh_status st = rsh_exec_bind(t->plan, comm, src, dst, &e);
    for (int i = 0; !st && i < 2; i++) st = rsh_exec_run(e);
    *good = !st && as_expected(t, rsh_comm_rank(comm), dst, step);
    rsh_exec_free(e);
    return st;
}

/* ---- three kinds of memory ---- */

static rsh_status in_arenas(const trial *t, rsh_comm *comm, bool *good) {
    int rank = rsh_comm_rank(comm);
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_memory in[8] = {0}, out[8] = {0};
    rsh_status st = rsh_sharded_empty(comm, t->from, &src);
    if (!st) st = rsh_sharded_zeros(comm, t->to, &dst);
    if (st) return st;
    for (int64_t p = 0; p < rsh_sharded_nparts(src); p++) {
        in[p].data = rsh_tensor_data(rsh_sharded_part(src, p));
        memcpy(in[p].data, t->src.memory[t->src.first[rank] + p].data, bytes_of(t->from, rank, p));
    }
    for (int64_t p = 0; p < rsh_sharded_nparts(dst); p++) out[p].data = rsh_tensor_data(rsh_sharded_part(dst, p));
    st = run_twice(t, comm, in, out, 1, good);
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    return st;
}

static rsh_status in_private_memory(const trial *t, rsh_comm *comm, bool *good) {
    int rank = rsh_comm_rank(comm);
    rsh_memory out[8] = {0};
    for (int64_t p = 0; p < rsh_layout_nparts(t->to, rank); p++) out[p].data = calloc(bytes_of(t->to, rank, p) + 1, 1);
    rsh_status st = run_twice(t, comm, t->src.memory + t->src.first[rank], out, 1, good);
    for (int64_t p = 0; p < rsh_layout_nparts(t->to, rank); p++) free(out[p].data);
    return st;
}

/* Writes every third element of private destinations; the elements between must not change. */
static rsh_status with_gaps(const trial *t, rsh_comm *comm, bool *good) {
    enum { STEP = 3 };
    int rank = rsh_comm_rank(comm);
    size_t size = t->expected.size;
    rsh_memory out[8] = {0};
    int64_t strides[8][RSH_MAX_NDIM];
    for (int64_t p = 0; p < rsh_layout_nparts(t->to, rank); p++) {
        rsh_part shape;
        if (rsh_layout_part(t->to, rank, p, &shape)) return RSH_ERUNTIME;
        for (int d = 0; d < shape.ndim; d++) strides[p][d] = shape.strides[d] * STEP;
        out[p] = (rsh_memory){malloc(STEP * bytes_of(t->to, rank, p) + 1), strides[p]};
        memset(out[p].data, 0x5b, STEP * bytes_of(t->to, rank, p));
    }
    rsh_status st = run_twice(t, comm, t->src.memory + t->src.first[rank], out, STEP, good);
    for (int64_t p = 0; p < rsh_layout_nparts(t->to, rank); p++) {
        const unsigned char *data = out[p].data;
        for (size_t i = 0; i < STEP * bytes_of(t->to, rank, p); i++)
            if (i / size % STEP && data[i] != 0x5b) *good = false;
        free(out[p].data);
    }
    return st;
}

/* ---- all pairs ---- */

typedef rsh_status (*way)(const trial *t, rsh_comm *comm, bool *good);
typedef struct trials {
    trial list[PAIRS];
    way way;
} trials;

/* The exit status of a rank is the number of the pair that failed. */
static rsh_status try_all(void *ctx, rsh_comm *comm) {
    const trials *all = ctx;
    for (int i = 0; i < PAIRS; i++) {
        bool good = true;
        rsh_status st = all->way(&all->list[i], comm, &good);
        if (st) return st;
        if (!good) printf("rank %d: wrong bytes: %s -> %s\n", rsh_comm_rank(comm), pairs[i].from, pairs[i].to);
        fflush(stdout);
        if (!good) return RSH_ERUNTIME;
    }
    return RSH_OK;
}

static void try_way(way way, bool messages) {
    static trials all;
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    opts.messages = messages;
    all.way = way;
    for (int i = 0; i < PAIRS; i++) {
        trial *t = &all.list[i];
        *t = (trial){.from = parsed(pairs[i].from), .to = parsed(pairs[i].to)};
        if (rsh_plan_new(t->from, t->to, &opts, &t->plan)) fail_msg("%s: %s", pairs[i].from, rsh_error_detail());
        t->src = hold(t->from, true);
        t->expected = hold(t->to, false);
        if (rsh_plan_run_local(t->plan, NULL, t->src.memory, t->expected.memory))
            fail_msg("%s: %s", pairs[i].from, rsh_error_detail());
    }
    rsh_status st = rsh_run_shm(RANKS, try_all, &all);
    for (int i = 0; i < PAIRS; i++) {
        let_go(&all.list[i].src);
        let_go(&all.list[i].expected);
        rsh_plan_free(all.list[i].plan);
        rsh_layout_free(all.list[i].from);
        rsh_layout_free(all.list[i].to);
    }
    if (st) fail_msg("%s: %s", rsh_status_name(st), rsh_error_detail());
}

static void parts_in_arenas_move_as_in_one_process(void **state) {
    (void)state;
    try_way(in_arenas, false);
}

static void private_parts_move_as_in_one_process(void **state) {
    (void)state;
    try_way(in_private_memory, false);
}

static void private_parts_with_gaps_keep_what_lies_between(void **state) {
    (void)state;
    try_way(with_gaps, false);
}

static void messages_move_private_parts_too(void **state) {
    (void)state;
    try_way(in_private_memory, true);
}

/* ---- other functions ---- */

static rsh_status reshards(void *ctx, rsh_comm *comm) {
    rsh_layout *from = ((rsh_layout **)ctx)[0], *to = ((rsh_layout **)ctx)[1];
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_status st = make_source(comm, from, &src);
    if (!st) st = rsh_reshard(src, to, NULL, &dst);
    rsh_sharded_free(src);
    if (!st) st = check_result(dst);
    rsh_sharded_free(dst);
    return st;
}
static void a_reshard_gives_every_element_its_place(void **state) {
    (void)state;
    rsh_layout *both[2] = {parsed("f32[64/x, 48] on x=4"), parsed("f32[64, 48/x] on x=4")};
    if (rsh_run_shm(RANKS, reshards, both)) fail_msg("%s", rsh_error_detail());
    rsh_layout_free(both[0]);
    rsh_layout_free(both[1]);
}

/* Binds to arenas, runs on private memory, and then on arenas again: the peers must learn of it each time. */
static rsh_status runs_on_other_memory(void *ctx, rsh_comm *comm) {
    const trial *t = ctx;
    int rank = rsh_comm_rank(comm);
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_exec *e = NULL;
    rsh_exec_stats stats = RSH_EXEC_STATS_INIT;
    rsh_status st = rsh_sharded_zeros(comm, t->from, &src);
    if (!st) st = rsh_sharded_zeros(comm, t->to, &dst);
    if (st) return st;
    rsh_memory in = {rsh_tensor_data(rsh_sharded_part(src, 0)), NULL},
               out = {rsh_tensor_data(rsh_sharded_part(dst, 0)), NULL};
    rsh_memory other = {calloc(bytes_of(t->to, rank, 0) + 1, 1), NULL};
    st = rsh_exec_bind(t->plan, comm, &in, &out, &e);
    if (!st) st = rsh_exec_run_on(e, t->src.memory + t->src.first[rank], &other);
    if (!st && !as_expected(t, rank, &other, 1)) st = RSH_ERUNTIME;
    memcpy(in.data, t->src.memory[t->src.first[rank]].data, bytes_of(t->from, rank, 0));
    if (!st) st = rsh_exec_run(e);
    if (!st && !as_expected(t, rank, &out, 1)) st = RSH_ERUNTIME;
    if (!st) st = rsh_exec_get_stats(e, &stats);
    if (!st && stats.bytes_shadow) st = RSH_ERUNTIME;
    rsh_exec_free(e);
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    free(other.data);
    return st;
}
static void a_run_on_private_memory_is_seen_by_the_peers(void **state) {
    (void)state;
    trial t = {.from = parsed("f32[64/x, 48] on x=4"), .to = parsed("f32[64, 48/x] on x=4")};
    assert_int_equal(rsh_plan_new(t.from, t.to, NULL, &t.plan), RSH_OK);
    t.src = hold(t.from, true);
    t.expected = hold(t.to, false);
    assert_int_equal(rsh_plan_run_local(t.plan, NULL, t.src.memory, t.expected.memory), RSH_OK);
    if (rsh_run_shm(RANKS, runs_on_other_memory, &t)) fail_msg("%s", rsh_error_detail());
    let_go(&t.src);
    let_go(&t.expected);
    rsh_plan_free(t.plan);
    rsh_layout_free(t.from);
    rsh_layout_free(t.to);
}

/* Memory of the caller is sent in messages, whose scratch is bounded even without a limit. */
typedef struct tight {
    rsh_layout *from, *to;
    rsh_plan_opts opts;
} tight;

static rsh_status run_tight(const tight *t, rsh_comm *comm, const rsh_plan *plan, rsh_sharded *src, rsh_sharded *dst) {
    rsh_memory in = {rsh_tensor_data(rsh_sharded_part(src, 0)), NULL},
               out = {rsh_tensor_data(rsh_sharded_part(dst, 0)), NULL};
    rsh_exec *e = NULL;
    rsh_exec_stats stats = RSH_EXEC_STATS_INIT;
    rsh_alloc_reset_peak();
    rsh_status st = rsh_exec_bind(plan, comm, &in, &out, &e);
    for (int i = 0; i < 2 && !st; i++) st = rsh_exec_run(e);
    if (!st) st = rsh_exec_get_stats(e, &stats);
    if (!st && stats.bytes_shadow) st = RSH_ERUNTIME;
    rsh_plan_totals totals = RSH_PLAN_TOTALS_INIT;
    if (!st) st = rsh_plan_get_totals(plan, &totals);
    uint64_t peak = rsh_alloc_get_stats().scratch_peak;
    if (!st && (!peak || peak > (uint64_t)totals.scratch_messages)) st = RSH_ERUNTIME;
    if (!st && t->opts.has_max_scratch && peak > t->opts.max_scratch_bytes) st = RSH_ERUNTIME;
    rsh_exec_free(e);
    if (!st && rsh_alloc_get_stats().scratch_bytes) st = RSH_ERUNTIME;
    return st ? st : check_result(dst);
}

static rsh_status move_private_memory(void *ctx, rsh_comm *comm) {
    const tight *t = ctx;
    rsh_memory in = {malloc(bytes_of(t->from, rsh_comm_rank(comm), 0)), NULL},
               out = {malloc(bytes_of(t->to, rsh_comm_rank(comm), 0)), NULL};
    rsh_sharded *made = NULL, *src = NULL, *dst = NULL;
    rsh_plan *plan = NULL;
    rsh_status st = make_source(comm, t->from, &made);
    if (!st) memcpy(in.data, rsh_tensor_data(rsh_sharded_part(made, 0)), bytes_of(t->from, rsh_comm_rank(comm), 0));
    if (!st) st = rsh_sharded_wrap(comm, t->from, &in, &src);
    if (!st) st = rsh_sharded_wrap(comm, t->to, &out, &dst);
    if (!st) st = rsh_plan_new(t->from, t->to, &t->opts, &plan);
    if (!st) st = run_tight(t, comm, plan, src, dst);
    rsh_plan_free(plan);
    rsh_sharded_free(made);
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    free(in.data);
    free(out.data);
    return st;
}

static void private_memory_keeps_a_ceiling(void **state) {
    (void)state;
    static const uint64_t ceilings[] = {0, 8, 4096, 16383, 16384, 1 << 20}; /* limits on scratch; 0: none */
    alarm(PATIENCE);
    for (size_t i = 0; i < sizeof ceilings / sizeof *ceilings; i++) {
        /* sends a message for every two elements, so only a few, because it takes minutes on a busy machine */
        bool tiny = ceilings[i] == 8;
        tight t = {parsed(tiny ? "f32[32/x, 16] on x=4" : "f32[256/x, 64] on x=4"),
                   parsed(tiny ? "f32[32, 16/x] on x=4" : "f32[256, 64/x] on x=4"), RSH_PLAN_OPTS_INIT};
        t.opts.has_max_scratch = ceilings[i] > 0;
        t.opts.max_scratch_bytes = ceilings[i];
        if (rsh_run_shm(RANKS, move_private_memory, &t))
            fail_msg("ceiling %llu: %s", (unsigned long long)ceilings[i], rsh_error_detail());
        rsh_layout_free(t.from);
        rsh_layout_free(t.to);
    }
    alarm(0);
}

/* Together the ranks move more than the caches hold: rows of 1 KiB, 2 KiB, slightly over 4 KiB, and one element. */
static void private_memory_moves_beyond_the_caches(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"f32[4096/x, 1024] on x=4", "f32[4096, 1024/x] on x=4"},
                                           {"f32[2048/x, 2048] on x=4", "f32[2048, 2048/x] on x=4"},
                                           {"f32[1020/x, 4100] on x=4", "f32[1020, 4100/x] on x=4"},
                                           {"f32[2048/x, 2048] on x=4", "f32[2048, 2048/x] on x=4 order(1,0)"}};
    alarm(PATIENCE);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        tight t = {parsed(pairs[i][0]), parsed(pairs[i][1]), RSH_PLAN_OPTS_INIT};
        if (rsh_run_shm(RANKS, move_private_memory, &t)) fail_msg("%s: %s", pairs[i][1], rsh_error_detail());
        rsh_layout_free(t.from);
        rsh_layout_free(t.to);
    }
    alarm(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_in_arenas_move_as_in_one_process),
        cmocka_unit_test(private_parts_move_as_in_one_process),
        cmocka_unit_test(private_parts_with_gaps_keep_what_lies_between),
        cmocka_unit_test(messages_move_private_parts_too),
        cmocka_unit_test(a_reshard_gives_every_element_its_place),
        cmocka_unit_test(a_run_on_private_memory_is_seen_by_the_peers),
        cmocka_unit_test(private_memory_keeps_a_ceiling),
        cmocka_unit_test(private_memory_moves_beyond_the_caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
