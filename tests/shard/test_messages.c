/* Messages: packing, sending and combining gives the same elements as direct transport, whatever the limit on
 * scratch. */
#include "ramp.h"

#include "copy/copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One move, made directly first and then by messages. */
typedef struct move {
    rsh_layout *from, *to;
    bool adjoint;
    rsh_plan_opts opts;
    unsigned char *expected[RANKS][8]; /* expected bytes, by rank and part */
    rsh_exec_stats direct[RANKS], messages[RANKS];
} move;

static rsh_status make_plan(const move *m, const rsh_plan_opts *opts, rsh_plan **out) {
    rsh_plan *forward = NULL;
    rsh_status status = rsh_plan_new(m->from, m->to, opts, m->adjoint ? &forward : out);
    if (status == RSH_OK && m->adjoint) status = rsh_plan_adjoint(forward, out);
    rsh_plan_free(forward);
    return status;
}

/* Fills parts with numbers whose sums depend on their order. */
static void fill(const rsh_sharded *s, unsigned seed) {
    for (int64_t p = 0; p < rsh_sharded_nparts(s); p++) {
        const rsh_tensor *t = rsh_sharded_part(s, p);
        size_t size = rsh_dtype_size(rsh_tensor_dtype(t));
        for (int64_t i = 0; i < rsh_tensor_count(t); i++) {
            float value = (float)(rand_r(&seed) % 20000 - 10000) / 1777.0f;
            rshi_convert(RSH_F32, &value, rsh_tensor_dtype(t), (char *)rsh_tensor_data(t) + (size_t)i * size, 1);
        }
    }
}

static void list_memory(const rsh_sharded *s, rsh_memory *out) {
    for (int64_t p = 0; p < rsh_sharded_nparts(s); p++)
        out[p] = (rsh_memory){rsh_tensor_data(rsh_sharded_part(s, p)), NULL};
}

static size_t part_bytes(const rsh_tensor *t) {
    return (size_t)rsh_tensor_count(t) * rsh_dtype_size(rsh_tensor_dtype(t));
}

static void keep(move *m, const rsh_sharded *s) {
    for (int64_t p = 0; p < rsh_sharded_nparts(s); p++) {
        const rsh_tensor *t = rsh_sharded_part(s, p);
        unsigned char *copy = malloc(part_bytes(t) + 1);
        memcpy(copy, rsh_tensor_data(t), part_bytes(t));
        m->expected[rsh_comm_rank(rsh_sharded_comm(s))][p] = copy;
    }
}

static rsh_status check(const move *m, const rsh_sharded *s) {
    for (int64_t p = 0; p < rsh_sharded_nparts(s); p++) {
        const rsh_tensor *t = rsh_sharded_part(s, p);
        if (memcmp(m->expected[rsh_comm_rank(rsh_sharded_comm(s))][p], rsh_tensor_data(t), part_bytes(t)) != 0)
            return RSH_ERUNTIME;
        memset(rsh_tensor_data(t), 0xAA, part_bytes(t));
    }
    return RSH_OK;
}

static rsh_status run(move *m, const rsh_plan *plan, const rsh_sharded *src, const rsh_sharded *dst, bool messages) {
    rsh_comm *comm = rsh_sharded_comm(src);
    rsh_memory from[8], to[8];
    rsh_exec *e = NULL;
    list_memory(src, from);
    list_memory(dst, to);
    rsh_status status = rsh_exec_bind(plan, comm, from, to, &e);
    for (int i = 0; i < 3 && status == RSH_OK; i++) {
        status = rsh_exec_run(e);
        if (status == RSH_OK && messages) status = check(m, dst);
    }
    rsh_exec_stats *stats = &(messages ? m->messages : m->direct)[rsh_comm_rank(comm)];
    stats->struct_size = sizeof *stats;
    if (status == RSH_OK) rsh_exec_get_stats(e, stats);
    if (status == RSH_OK && !messages) keep(m, dst);
    rsh_exec_free(e);
    return status;
}

static rsh_status both_ways(void *ctx, rsh_comm *comm) {
    move *m = ctx;
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_plan *plan[2] = {NULL, NULL};
    rsh_plan_opts direct = m->opts;
    direct.messages = direct.has_max_scratch = false;
    rsh_status status = rsh_sharded_empty(comm, m->adjoint ? m->to : m->from, &src);
    if (status == RSH_OK) status = rsh_sharded_zeros(comm, m->adjoint ? m->from : m->to, &dst);
    if (status == RSH_OK) status = make_plan(m, &direct, &plan[0]);
    if (status == RSH_OK) status = make_plan(m, &m->opts, &plan[1]);
    if (status == RSH_OK) fill(src, (unsigned)rsh_comm_rank(comm) + 1);
    for (int i = 0; i < 2 && status == RSH_OK; i++) status = run(m, plan[i], src, dst, i);
    rsh_plan_free(plan[0]);
    rsh_plan_free(plan[1]);
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    return status;
}

static move move_of(const char *from, const char *to) {
    move m = {.from = parsed(from), .to = parsed(to), .opts = RSH_PLAN_OPTS_INIT};
    m.opts.messages = true;
    alarm(PATIENCE);
    return m;
}

static void move_end(move *m) {
    rsh_layout_free(m->from);
    rsh_layout_free(m->to);
    alarm(0);
}

static void forget(move *m) {
    for (int r = 0; r < RANKS; r++)
        for (int p = 0; p < 8; p++) {
            free(m->expected[r][p]);
            m->expected[r][p] = NULL;
        }
}

static void must_agree(move *m) {
    rsh_status status = rsh_run(RANKS, both_ways, m);
    if (status != RSH_OK)
        fail_msg("%s -> %s, ceiling %lld: %s: %s", rsh_layout_text(m->from), rsh_layout_text(m->to),
                 m->opts.has_max_scratch ? (long long)m->opts.max_scratch_bytes : -1LL, rsh_status_name(status),
                 rsh_error_detail());
    forget(m);
}

static rsh_status plan_under(const move *m, uint64_t ceiling) {
    rsh_plan_opts opts = m->opts;
    rsh_plan *plan = NULL;
    opts.has_max_scratch = true;
    opts.max_scratch_bytes = ceiling;
    rsh_status status = make_plan(m, &opts, &plan);
    rsh_plan_free(plan);
    return status;
}

/* Checks that a limit of `least` is enough and a byte less is not, and that a higher limit, or none, gives the same
 * elements. */
static void agree_from(move *m, uint64_t least) {
    static const uint64_t more[] = {0, 5, 100};
    assert_int_equal(plan_under(m, least), RSH_OK);
    if (least) assert_int_equal(plan_under(m, least - 1), RSH_ENOMEM);
    m->opts.has_max_scratch = true;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        m->opts.max_scratch_bytes = least + more[i];
        must_agree(m);
    }
    m->opts.has_max_scratch = false;
    must_agree(m);
}

static void agree(const char *from, const char *to, uint64_t least) {
    move m = move_of(from, to);
    agree_from(&m, least);
    move_end(&m);
}

static void copies_of_any_layout_agree(void **state) {
    (void)state;
    agree("f32[12/x, 8] on x=4", "f32[12, 8/x] on x=4", 8);
    agree("i8[12/x:2, 10] on x=4", "i8[12, 10/x:3] on x=3 order(1,0)", 2);
    agree("c128[6, 5]/x on x=4", "c128[6/x, 5] on x=4@[3,1,0,2]", 32);
    agree("f64[12, 8/x:1]/y on x=2,y=2", "f64[12, 8] boxes 0:[0:5,0:8] 3,1:[5:12,0:3] 2:[5:12,3:8]", 16);
    agree("i16[(7|4)/x, 6] on x=4", "i16[11, 6/x] on x=2 order(1,0)", 4);
    agree("f32[] on x=1@[2]", "f32[] on x=4", 8);
}

static void conversions_agree(void **state) {
    (void)state;
    agree("f32[24/x, 8] on x=4", "bf16[24, 8/x] on x=4", 8); /* sent as bf16, which is narrower */
    agree("f16[24/x, 8] on x=4", "f32[24, 8/x] on x=4 order(1,0)", 8);
    agree("f16[24/x, 8] on x=4", "bf16[24, 8/x] on x=4", 4);
    agree("f64[24/x, 8] on x=4", "i8[24, 8/x:3] on x=4", 16);
}

static void reductions_agree_in_every_op(void **state) {
    (void)state;
    static const char *const types[] = {"f16", "bf16", "f32", "f64"}, *const ops[] = {"sum", "avg", "min", "max",
                                                                                      "prod"};
    static const uint64_t size[] = {2, 2, 4, 8};
    for (int t = 0; t < 4; t++)
        for (int o = 0; o < 5; o++) {
            char from[64], sharded[64], replicated[64];
            snprintf(from, sizeof from, "%s[10, 6/y] on x=2,y=2 %s(x)", types[t], ops[o]);
            snprintf(sharded, sizeof sharded, "%s[10/x, 6] on x=4", types[t]);
            snprintf(replicated, sizeof replicated, "%s[10, 6] on x=4", types[t]);
            agree(from, sharded, 3 * size[t]);
            agree(from, replicated, 3 * size[t]); /* reduced once, then passed on */
        }
}

static void reductions_over_all_ranks_agree(void **state) {
    (void)state;
    agree("f32[33, 5] on x=4 sum(x)", "f32[33/x, 5] on x=4 order(1,0)", 20);
    agree("bf16[33, 5] on x=4 avg(x)", "f32[33, 5] on x=4", 20);
    /* a rank that passes elements on sends nothing before */
    agree("f32[33, 5] on x=2 sum(x)", "f32[33, 5] on x=2@[2,3]", 12);
    agree("u8[33, 5] on x=4 bxor(x)", "u8[33, 5/x:2] on x=3", 5);
    agree("f32[33, 5/y] on x=2,y=2 sum(x)", "f32[33/y, 5] on x=2,y=2 sum(x)", 8);
}

static void adjoints_agree(void **state) {
    (void)state;
    move m = move_of("f32[24/x, 8] on x=4", "bf16[24, 8] on x=4");
    m.adjoint = true;
    agree_from(&m, 20); /* all ranks have received each element */
    move_end(&m);
    m = move_of("f32[24, 8] on x=4 avg(x)", "f32[24/x, 8] on x=4");
    m.adjoint = true;
    agree_from(&m, 20);
    move_end(&m);
}

static void many_chunks_agree(void **state) {
    (void)state;
    agree("f32[50/x, 40] on x=2", "f32[50, 40/y] on y=2@[2,3] order(1,0)", 8);
    move m = move_of("f32[900/x, 800] on x=4", "f32[900, 800/x] on x=4 order(1,0)");
    m.opts.has_max_scratch = true;
    m.opts.max_scratch_bytes = 10000;
    must_agree(&m);
    move_end(&m);
    m = move_of("f32[900, 800] on x=4 sum(x)", "f32[900, 800] on x=4");
    must_agree(&m);
    move_end(&m);
}

static void bytes_are_counted_as_sent(void **state) {
    (void)state;
    move m = move_of("f32[24/x, 8] on x=4", "bf16[24, 8/x] on x=4");
    must_agree(&m);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(m.direct[r].bytes_wire, 0);
        assert_int_equal(m.messages[r].bytes_wire, 0); /* all ranks are on one node */
        assert_int_equal(m.messages[r].bytes_shared, 3 * 6 * 2 * 2);
        assert_int_equal(m.messages[r].bytes_local, m.direct[r].bytes_local);
    }
    move_end(&m);
}

static void a_plan_without_messages_needs_nothing(void **state) {
    (void)state;
    agree("f32[24/x, 8] on x=4", "f32[24/x, 8] on x=4 order(1,0)", 0);
    move m = move_of("f32[24, 8] on x=4", "f32[24/x, 8] on x=4");
    agree_from(&m, 0);
    move_end(&m);
}

static void a_refusal_names_what_is_needed_and_given(void **state) {
    (void)state;
    move m = move_of("f32[24, 8] on x=4 sum(x)", "f32[24/x, 8] on x=4");
    assert_int_equal(plan_under(&m, 19), RSH_ENOMEM);
    assert_string_equal(rsh_error_detail(),
                        "messages need at least 20 bytes of scratch per rank, but max_scratch_bytes is 19");
    move_end(&m);
}

static void small_tensors_take_small_chunks(void **state) {
    (void)state;
    move m = move_of("f32[12/x, 8] on x=4", "f32[12, 8/x] on x=4");
    rsh_plan *plan = NULL;
    rsh_rank_totals v = RSH_RANK_TOTALS_INIT;
    assert_int_equal(rsh_plan_new(m.from, m.to, &m.opts, &plan), RSH_OK);
    assert_int_equal(rsh_plan_get_rank_totals(plan, 0, &v), RSH_OK);
    assert_int_equal(v.scratch_bytes, 2 * 3 * 8 * 4); /* one part for each */
    rsh_plan_free(plan);
    move_end(&m);
}

/* ---- a rank that does not arrive ---- */

static rsh_status stay_away(void *ctx, rsh_comm *comm) {
    move *m = ctx;
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_plan *plan = NULL;
    rsh_exec *e = NULL;
    rsh_memory from[8], to[8];
    rsh_status status = rsh_sharded_zeros(comm, m->from, &src);
    if (status == RSH_OK) status = rsh_sharded_zeros(comm, m->to, &dst);
    if (status == RSH_OK) status = make_plan(m, &m->opts, &plan);
    if (status == RSH_OK) list_memory(src, from), list_memory(dst, to);
    if (status == RSH_OK) status = rsh_exec_bind(plan, comm, from, to, &e);
    if (status == RSH_OK && rsh_comm_rank(comm) != 2) {
        status = rsh_exec_run(e);
        status = status == RSH_EPEER ? RSH_OK : RSH_ERUNTIME;
    }
    rsh_exec_free(e);
    rsh_plan_free(plan);
    rsh_sharded_free(src);
    rsh_sharded_free(dst);
    return status;
}

static void a_rank_that_leaves_is_an_error_for_all(void **state) {
    (void)state;
    move m = move_of("f32[24, 8] on x=4 sum(x)", "f32[24, 8] on x=4");
    m.opts.has_max_scratch = true;
    for (uint64_t ceiling = 20; ceiling < 2000; ceiling *= 3) {
        m.opts.max_scratch_bytes = ceiling;
        rsh_status status = rsh_run(RANKS, stay_away, &m);
        if (status != RSH_OK) fail_msg("%s: %s", rsh_status_name(status), rsh_error_detail());
    }
    move_end(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_of_any_layout_agree),
        cmocka_unit_test(conversions_agree),
        cmocka_unit_test(reductions_agree_in_every_op),
        cmocka_unit_test(reductions_over_all_ranks_agree),
        cmocka_unit_test(adjoints_agree),
        cmocka_unit_test(many_chunks_agree),
        cmocka_unit_test(bytes_are_counted_as_sent),
        cmocka_unit_test(a_plan_without_messages_needs_nothing),
        cmocka_unit_test(a_refusal_names_what_is_needed_and_given),
        cmocka_unit_test(small_tensors_take_small_chunks),
        cmocka_unit_test(a_rank_that_leaves_is_an_error_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
