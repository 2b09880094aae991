/* Nodes: ranks of one node read one another's memory while messages arrive from others, and the bytes equal those of
 * direct transport. */
#include "ramp.h"

#include "comm/mailboxes.h"
#include "copy/copy.h"
#include "seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RANKS = 8, PARTS = 8 };

/* One move on n ranks of several nodes, and its expected result. */
typedef struct move {
    int n, node[MOST_RANKS];
    rsh_layout *from, *to;
    rsh_plan_opts opts;
    unsigned char *source[MOST_RANKS][PARTS], *expected[MOST_RANKS][PARTS];
    int64_t bytes[2][MOST_RANKS][PARTS]; /* bytes of each part of source and destination */
    rsh_exec_stats stats[MOST_RANKS];
    rsh_plan_totals totals;
    uint64_t peak[MOST_RANKS], requests[MOST_RANKS];
    rsh_status first[MOST_RANKS], second[MOST_RANKS];
} move;

static unsigned seed;

/* ---- the expected result ---- */

static void fill(unsigned char *data, rsh_dtype dtype, int64_t n) {
    size_t size = rsh_dtype_size(dtype);
    for (int64_t i = 0; i < n; i++) {
        float value = (float)(rand_r(&seed) % 20000 - 10000) / 1777.0f;
        rshi_convert(RSH_F32, &value, dtype, data + (size_t)i * size, 1);
    }
}

/* Allocates memory for every part of a side, and lists it as run_local requires. */
static int64_t make_side(move *m, const rsh_layout *l, int side, rsh_memory *list) {
    int64_t n = 0;
    for (int64_t i = 0; i < rsh_layout_nranks(l); i++) {
        int64_t r = rsh_layout_rank(l, i);
        for (int64_t k = 0; k < rsh_layout_nparts(l, r); k++) {
            rsh_part part;
            assert_int_equal(rsh_layout_part(l, r, k, &part), RSH_OK);
            m->bytes[side][r][k] = part.count * (int64_t)rsh_dtype_size(rsh_layout_dtype(l));
            unsigned char *data = calloc(1, (size_t)m->bytes[side][r][k] + 1);
            if (!side) fill(data, rsh_layout_dtype(l), part.count);
            (side ? m->expected : m->source)[r][k] = data;
            list[n++] = (rsh_memory){data, NULL};
        }
    }
    return n;
}

/* Fills the parts from one whole tensor, so that replicas agree. */
static void deal_out(move *m, rsh_memory *parts) {
    rsh_layout *whole = NULL;
    rsh_plan *plan = NULL;
    if (rsh_layout_op(m->from) != RSH_OP_NONE) return;
    assert_int_equal(
        rsh_layout_whole(rsh_layout_dtype(m->from), rsh_layout_ndim(m->from), rsh_layout_shape(m->from), 0, &whole),
        RSH_OK);
    unsigned char *data = calloc((size_t)rsh_layout_count(m->from) + 1, rsh_dtype_size(rsh_layout_dtype(m->from)));
    fill(data, rsh_layout_dtype(m->from), rsh_layout_count(m->from));
    assert_int_equal(rsh_plan_new(whole, m->from, NULL, &plan), RSH_OK);
    assert_int_equal(rsh_plan_run_local(plan, NULL, &(rsh_memory){data, NULL}, parts), RSH_OK);
    rsh_plan_free(plan);
    rsh_layout_free(whole);
    free(data);
}

static void expect(move *m) {
    rsh_memory src[MOST_RANKS * PARTS], dst[MOST_RANKS * PARTS];
    rsh_plan *plan = NULL;
    make_side(m, m->from, 0, src);
    make_side(m, m->to, 1, dst);
    deal_out(m, src);
    assert_int_equal(rsh_plan_new(m->from, m->to, NULL, &plan), RSH_OK);
    assert_int_equal(rsh_plan_run_local(plan, NULL, src, dst), RSH_OK);
    rsh_plan_free(plan);
}

static move move_of(const char *from, const char *to, int n) {
    move m = {.n = n, .from = parsed(from), .to = parsed(to), .opts = RSH_PLAN_OPTS_INIT};
    for (int r = 0; r < n; r++) m.node[r] = r / 2;
    expect(&m);
    alarm(PATIENCE);
    return m;
}

static void move_end(move *m) {
    for (int r = 0; r < MOST_RANKS; r++)
        for (int k = 0; k < PARTS; k++) {
            free(m->source[r][k]);
            free(m->expected[r][k]);
        }
    rsh_layout_free(m->from);
    rsh_layout_free(m->to);
    alarm(0);
}

/* ---- on a rank ---- */

typedef struct share {
    rsh_memory src[PARTS], dst[PARTS];
    int64_t nsrc, ndst;
    rsh_plan *plan;
    rsh_exec *e;
} share;

static rsh_status share_new(move *m, rsh_comm *comm, share *s) {
    int r = rsh_comm_rank(comm);
    rsh_plan_opts opts = m->opts;
    *s = (share){.nsrc = rsh_layout_nparts(m->from, r), .ndst = rsh_layout_nparts(m->to, r)};
    for (int64_t k = 0; k < s->nsrc; k++) {
        s->src[k].data = malloc((size_t)m->bytes[0][r][k] + 1);
        memcpy(s->src[k].data, m->source[r][k], (size_t)m->bytes[0][r][k]);
    }
    for (int64_t k = 0; k < s->ndst; k++) s->dst[k].data = malloc((size_t)m->bytes[1][r][k] + 1);
    rsh_status status = rsh_plan_opts_from_comm(comm, &opts);
    if (status == RSH_OK) status = rsh_plan_new(m->from, m->to, &opts, &s->plan);
    if (r == 0) m->totals.struct_size = sizeof m->totals;
    if (status == RSH_OK && r == 0) status = rsh_plan_get_totals(s->plan, &m->totals);
    return status;
}

static void share_end(share *s) {
    rsh_exec_free(s->e);
    rsh_plan_free(s->plan);
    for (int64_t k = 0; k < s->nsrc; k++) free(s->src[k].data);
    for (int64_t k = 0; k < s->ndst; k++) free(s->dst[k].data);
}

static void wipe(move *m, int r, share *s) {
    for (int64_t k = 0; k < s->ndst; k++) memset(s->dst[k].data, 0xA5, (size_t)m->bytes[1][r][k]);
}

static rsh_status compare(move *m, int r, share *s) {
    for (int64_t k = 0; k < s->ndst; k++)
        if (memcmp(s->dst[k].data, m->expected[r][k], (size_t)m->bytes[1][r][k]) != 0) return RSH_ERUNTIME;
    for (int64_t k = 0; k < s->nsrc; k++)
        if (memcmp(s->src[k].data, m->source[r][k], (size_t)m->bytes[0][r][k]) != 0) return RSH_ERUNTIME;
    return RSH_OK;
}

/* Runs the move and overwrites the source: it belongs to its owner again when the run has returned. */
static rsh_status run_and_spoil(move *m, int r, share *s) {
    wipe(m, r, s);
    rsh_status status = rsh_exec_run(s->e);
    if (status == RSH_OK) status = compare(m, r, s);
    for (int64_t k = 0; k < s->nsrc; k++) memset(s->src[k].data, 0x5A, (size_t)m->bytes[0][r][k]);
    for (int64_t k = 0; k < s->nsrc; k++) memcpy(s->src[k].data, m->source[r][k], (size_t)m->bytes[0][r][k]);
    return status;
}

static rsh_status run_on_rank(void *ctx, rsh_comm *comm) {
    move *m = ctx;
    int r = rsh_comm_rank(comm);
    share s;
    rsh_status status = share_new(m, comm, &s);
    rsh_alloc_reset_peak();
    uint64_t held = rsh_alloc_get_stats().scratch_bytes;
    if (status == RSH_OK) status = rsh_exec_bind(s.plan, comm, s.src, s.dst, &s.e);
    uint64_t before = rsh_alloc_get_stats().allocations;
    for (int i = 0; i < 3 && status == RSH_OK; i++) status = run_and_spoil(m, r, &s);
    m->requests[r] = rsh_alloc_get_stats().allocations - before;
    m->peak[r] = rsh_alloc_get_stats().scratch_peak - held;
    m->stats[r].struct_size = sizeof m->stats[r];
    if (status == RSH_OK) rsh_exec_get_stats(s.e, &m->stats[r]);
    share_end(&s);
    return status;
}

static void describe(const move *m, char *text, size_t room) {
    size_t n = (size_t)snprintf(text, room, "%s -> %s, messages %d, nodes", rsh_layout_text(m->from),
                                rsh_layout_text(m->to), m->opts.messages);
    for (int r = 0; r < m->n && n < room; r++) n += (size_t)snprintf(text + n, room - n, " %d", m->node[r]);
}

static void must_run(move *m, rsh_rank_fn fn) {
    char what[512];
    rsh_status status = run_on_nodes(m->n, m->node, fn, m);
    describe(m, what, sizeof what);
    if (status != RSH_OK) fail_msg("%s: %s: %s", what, rsh_status_name(status), rsh_error_detail());
}

/* ---- bytes ---- */

static const char *const pairs[][2] = {
    {"f32[12/x, 10] on x=6", "f32[12, 10/x] on x=5"},
    {"i16[12/x:2, 10] on x=4", "i16[12, 10/x:3] on x=6@[5,2,4,0,1,3] order(1,0)"},
    {"f32[16/x, 8] on x=4", "f32[16, 8] on x=6"},
    {"f32[16, 8] on x=1@[3]", "f32[16, 8] on x=6"},
    {"f32[64, 9] on x=3", "f32[64/x, 9] on x=6"},
    {"f64[12, 8/x:1]/y on x=2,y=2", "f64[12, 8] boxes 0:[0:5,0:8] 3,1:[5:12,0:3] 2,4,5:[5:12,3:8]"},
    {"f32[24/x, 8] on x=6", "bf16[24, 8/x] on x=4"},
    {"f16[24/x, 8] on x=6", "f32[24, 8] on x=6"},
    {"f32[24, 6] on x=6 sum(x)", "f32[24/x, 6] on x=6"},
    {"f32[24, 6] on x=6 sum(x)", "f32[24, 6] on x=6"},
    {"f16[24, 6/y] on x=3,y=2 avg(x)", "f32[24, 6/y] on x=3,y=2"},
    {"f32[24, 6/y] on x=2,y=3 sum(x)", "f32[24/y, 6] on x=2,y=3 sum(x)"},
    {"f32[24/x, 6] on x=6", "f32[24, 6/x] on x=3,y=2 sum(y)"},
    {"i8[7, 3] on x=4 max(x)", "i8[7, 3] on x=2@[4,5]"},
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

static void any_nodes(move *m) {
    int nodes = 1 + (int)(rand_r(&seed) % (unsigned)m->n);
    for (int r = 0; r < m->n; r++) m->node[r] = (int)(rand_r(&seed) % (unsigned)nodes);
}

static uint64_t wired(const move *m) {
    uint64_t bytes = 0;
    for (int r = 0; r < m->n; r++) bytes += m->stats[r].bytes_wire;
    return bytes;
}

static void what_comes_over_wires_is_what_the_plan_counts(void **state) {
    (void)state;
    char what[512];
    for (int i = 0; i < PAIRS; i++)
        for (int k = 0; k < 8; k++) {
            move m = move_of(pairs[i][0], pairs[i][1], 6);
            any_nodes(&m);
            m.opts.messages = k % 2;
            must_run(&m, run_on_rank);
            describe(&m, what, sizeof what);
            if ((int64_t)wired(&m) != m.totals.bytes_between_nodes)
                fail_msg("%s: %llu bytes, the plan says %lld", what, (unsigned long long)wired(&m),
                         (long long)m.totals.bytes_between_nodes);
            move_end(&m);
        }
}

static void running_on_nodes_takes_no_memory(void **state) {
    (void)state;
    for (int i = 0; i < PAIRS; i++) {
        move m = move_of(pairs[i][0], pairs[i][1], 6);
        must_run(&m, run_on_rank);
        for (int r = 0; r < m.n; r++) {
            assert_int_equal(m.requests[r], 0);
            if (m.peak[r] && (int64_t)m.peak[r] != m.totals.scratch_messages) fail_msg("%s: rank %d", pairs[i][0], r);
        }
        move_end(&m);
    }
}

/* Messages of many sizes: some arrive in place, some are packed, and several are in progress at once. */
static const char *const large[][2] = {
    {"f32[1024/x, 512] on x=4", "f32[1024, 512/x] on x=4"},
    {"f32[1024/x, 512] on x=4", "f32[1024/x, 512] on x=4@[2,3,0,1]"},
    {"f32[1024/x, 512] on x=4", "f32[1024, 512/x] on x=4 order(1,0)"},
    {"f32[1024/x, 512] on x=4", "bf16[1024, 512] on x=4"},
    {"f32[512, 512] on x=4 sum(x)", "f32[512, 512] on x=4"},
    {"f32[2000000/x] on x=4", "f32[2000000/x] on x=3"},
};
enum { LARGE = sizeof large / sizeof *large };

static void a_ceiling_is_kept_to_the_byte(void **state) {
    (void)state;
    static const uint64_t ceilings[] = {20, 100, 5000, 40000, 1 << 18, 1 << 20};
    for (int i = 0; i < LARGE; i++)
        for (size_t k = i % 2; k < sizeof ceilings / sizeof *ceilings; k += 2) {
            if (ceilings[k] < 1000 && i != 4) continue; /* there would be millions of messages */
            move m = move_of(ceilings[k] < 1000 ? "f32[33, 5] on x=4 sum(x)" : large[i][0],
                             ceilings[k] < 1000 ? "f32[33/x, 5] on x=4" : large[i][1], 4);
            m.opts.has_max_scratch = true;
            m.opts.max_scratch_bytes = ceilings[k];
            must_run(&m, run_on_rank);
            for (int r = 0; r < m.n; r++) assert_in_range(m.peak[r], 0, ceilings[k]);
            move_end(&m);
        }
}

static void large_messages_arrive(void **state) {
    (void)state;
    for (int i = 0; i < LARGE; i++) {
        move m = move_of(large[i][0], large[i][1], 4);
        must_run(&m, run_on_rank);
        assert_int_equal(wired(&m), m.totals.bytes_between_nodes);
        move_end(&m);
    }
}

static void a_ceiling_that_messages_cannot_keep_is_refused_by_all(void **state) {
    (void)state;
    move m = move_of("f32[24, 8] on x=4 sum(x)", "f32[24/x, 8] on x=4", 4);
    m.opts.has_max_scratch = true;
    m.opts.max_scratch_bytes = 19;
    assert_int_equal(run_on_nodes(m.n, m.node, run_on_rank, &m), RSH_ENOMEM);
    assert_non_null(
        strstr(rsh_error_detail(), "messages need at least 20 bytes of scratch per rank, but max_scratch_bytes is 19"));
    for (int r = 0; r < m.n; r++) m.node[r] = 0; /* with one node no messages are needed */
    must_run(&m, run_on_rank);
    move_end(&m);
}

/* ---- several moves at once ---- */

static rsh_status three_at_once(void *ctx, rsh_comm *comm) {
    move *m = ctx;
    int r = rsh_comm_rank(comm);
    share s[3];
    memset(s, 0, sizeof s);
    rsh_status status = RSH_OK;
    for (int i = 0; i < 3 && status == RSH_OK; i++) {
        status = share_new(m, comm, &s[i]);
        if (status == RSH_OK) status = rsh_exec_bind(s[i].plan, comm, s[i].src, s[i].dst, &s[i].e);
    }
    for (int k = 0; k < 3 && status == RSH_OK; k++) {
        for (int i = 0; i < 3 && status == RSH_OK; i++) wipe(m, r, &s[i]), status = rsh_exec_begin(s[i].e);
        bool done[3] = {false, false, false};
        while (status == RSH_OK && !(done[0] && done[1] && done[2]))
            for (int i = 2; i >= 0 && status == RSH_OK; i--) status = rsh_exec_test(s[i].e, &done[i]);
        for (int i = 0; i < 3 && status == RSH_OK; i++) status = compare(m, r, &s[i]);
    }
    for (int i = 0; i < 3; i++) share_end(&s[i]);
    return status;
}

static void execs_under_way_at_once_keep_apart(void **state) {
    (void)state;
    for (int i = 0; i < LARGE; i++) {
        move m = move_of(large[i][0], large[i][1], 4);
        must_run(&m, three_at_once);
        move_end(&m);
    }
}

/* ---- options ---- */

static rsh_status ask_for_nodes(void *ctx, rsh_comm *comm) {
    const move *m = ctx;
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    RSH_TRY(rsh_plan_opts_from_comm(comm, &opts));
    if (opts.nnode_of != m->n) return RSH_ERUNTIME;
    for (int r = 0; r < m->n; r++)
        for (int q = 0; q < m->n; q++)
            if ((opts.node_of[r] == opts.node_of[q]) != (m->node[r] == m->node[q])) return RSH_ERUNTIME;
    return RSH_OK;
}

static rsh_status ask_for_none(void *ctx, rsh_comm *comm) {
    rsh_plan_opts opts = RSH_PLAN_OPTS_INIT;
    (void)ctx;
    RSH_TRY(rsh_plan_opts_from_comm(comm, &opts));
    return opts.node_of || opts.nnode_of ? RSH_ERUNTIME : RSH_OK;
}

static void a_comm_tells_plans_its_nodes(void **state) {
    (void)state;
    move m = move_of(pairs[0][0], pairs[0][1], 6);
    must_run(&m, ask_for_nodes);
    assert_int_equal(rsh_run(3, ask_for_none, NULL), RSH_OK);
    assert_int_equal(rsh_plan_opts_from_comm(NULL, &m.opts), RSH_EVALUE);
    move_end(&m);
}

/* ---- failure ---- */

enum { ABSENT = 3 };

/* One rank binds and leaves. */
static rsh_status stay_away(void *ctx, rsh_comm *comm) {
    move *m = ctx;
    int r = rsh_comm_rank(comm);
    share s;
    rsh_status status = share_new(m, comm, &s);
    if (status == RSH_OK) status = rsh_exec_bind(s.plan, comm, s.src, s.dst, &s.e);
    if (status == RSH_OK && r != ABSENT) {
        wipe(m, r, &s);
        m->first[r] = rsh_exec_run(s.e);
        m->second[r] = rsh_exec_run(s.e);
        for (int64_t k = 0; k < s.nsrc; k++)
            if (memcmp(s.src[k].data, m->source[r][k], (size_t)m->bytes[0][r][k]) != 0) status = RSH_ERUNTIME;
    }
    share_end(&s);
    return status;
}

static void a_rank_that_leaves_is_an_error_for_who_needs_it(void **state) {
    (void)state;
    static const char *const all[][2] = {
        {"f32[24, 8] on x=6 sum(x)", "f32[24, 8] on x=6"},
        {"f32[1200/x, 600] on x=6", "f32[1200, 600/x] on x=6"},
    };
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 4; k++) {
            move m = move_of(all[i][0], all[i][1], 6);
            if (k) any_nodes(&m);
            must_run(&m, stay_away);
            for (int r = 0; r < m.n; r++)
                if (r != ABSENT) {
                    assert_int_equal(m.first[r], RSH_EPEER);
                    assert_int_equal(m.second[r], RSH_EPEER);
                }
            move_end(&m);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_over_wires_is_what_the_plan_counts),
        cmocka_unit_test(running_on_nodes_takes_no_memory),
        cmocka_unit_test(large_messages_arrive),
        cmocka_unit_test(a_ceiling_is_kept_to_the_byte),
        cmocka_unit_test(a_ceiling_that_messages_cannot_keep_is_refused_by_all),
        cmocka_unit_test(execs_under_way_at_once_keep_apart),
        cmocka_unit_test(a_comm_tells_plans_its_nodes),
        cmocka_unit_test(a_rank_that_leaves_is_an_error_for_who_needs_it),
    };
    seed = (unsigned)seed_of_tests();
    print_message("RESHARD_SEED=%u\n", seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
