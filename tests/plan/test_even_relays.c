/* Relays that are cut evenly: totals computed as sums equal what the shares of the ranks add up to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <reshard.h>

#define RANKS 400

typedef struct told {
    int64_t sent[RANKS], received[RANKS], kept[RANKS];
} told;

static int note(void *ctx, int64_t rank, int64_t sent, int64_t received, int64_t kept) {
    told *t = ctx;
    t->sent[rank] = sent, t->received[rank] = received, t->kept[rank] = kept;
    return 0;
}

static int64_t bytes_of(const rsh_transfer *list, int64_t n) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < n; i++) bytes += list[i].count * list[i].element_bytes;
    return bytes;
}

static rsh_plan *plan_of(const char *from, const char *to, int64_t ranks_per_node) {
    rsh_layout *a, *b;
    rsh_plan *p;
    rsh_plan_opts o = RSH_PLAN_OPTS_INIT;
    o.ranks_per_node = ranks_per_node;
    assert_int_equal(rsh_layout_parse(from, &a), RSH_OK);
    assert_int_equal(rsh_layout_parse(to, &b), RSH_OK);
    assert_int_equal(rsh_plan_new(a, b, &o, &p), RSH_OK);
    rsh_layout_free(a);
    rsh_layout_free(b);
    return p;
}

static void check(const char *from, const char *to, int64_t ranks_per_node) {
    rsh_plan *p = plan_of(from, to, ranks_per_node);
    static told t;
    assert_int_equal(rsh_plan_each_rank(p, note, &t), RSH_OK);
    for (int64_t r = 0; r < RANKS; r++) {
        rsh_share *s;
        assert_int_equal(rsh_plan_share(p, r, &s), RSH_OK);
        assert_int_equal(bytes_of(s->sends, s->nsends), t.sent[r]);
        assert_int_equal(bytes_of(s->receives, s->nreceives), t.received[r]);
        assert_int_equal(bytes_of(s->copies, s->ncopies), t.kept[r]);
        rsh_share_free(s);
    }
    rsh_plan_free(p);
}

/* A node of 8 ranks holds 40 of the 2,000 rows that its ranks need, which is too few to count. */
static void sums_and_shares_cut_the_same_ranges(void **state) {
    (void)state;
    check("f32[2000/x, 64] on x=400", "f32[2000, 64/y] on y=50,z=8", 8);
    check("f32[2000/x:1, 64] on x=400", "f32[2000, 64/y~] on y=50,z=8", 8);
    check("f32[2000, 64]/x on x=400", "f32[2000, 64/y] on y=50,z=8", 8);
    check("f32[2000/x, 64] on x=200,r=2", "f32[2000, 64/y] on z=8,y=50", 10);
}

/* If one size is 0, the other sizes may be arbitrarily large. */
static void a_tensor_without_elements_needs_no_transfers(void **state) {
    (void)state;
    rsh_plan *p = plan_of("u8[0, 4611686018427387904, 8]/x on x=4", "u8[0, 4611686018427387904, 8/x] on x=4", 2);
    for (int64_t r = 0; r < 4; r++) {
        rsh_share *s;
        assert_int_equal(rsh_plan_share(p, r, &s), RSH_OK);
        assert_int_equal(s->ncopies + s->nreceives + s->nsends, 0);
        rsh_share_free(s);
    }
    rsh_plan_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_shares_cut_the_same_ranges),
        cmocka_unit_test(a_tensor_without_elements_needs_no_transfers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
