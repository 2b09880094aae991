/* Moves that are large enough for streaming stores: rows with gaps, rows that alternate, and odd sizes. */
#include "ramp.h"
#include "seed.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t seed, state;

static int64_t between(int64_t a, int64_t b) { /* splitmix64 */
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return a + (int64_t)((z ^ z >> 31) % (uint64_t)(b - a + 1));
}

typedef struct pair {
    char from[160], to[160];
} pair;

static rsh_status move(void *ctx, rsh_comm *comm) {
    const pair *p = ctx;
    rsh_layout *from = parsed(p->from), *to = parsed(p->to);
    rsh_sharded *src = NULL, *dst = NULL;
    rsh_status st = make_source(comm, from, &src);
    if (!st) st = rsh_reshard(src, to, NULL, &dst);
    if (!st) st = rsh_comm_agree(comm, check_result(dst));
    rsh_sharded_free(dst);
    rsh_sharded_free(src);
    rsh_layout_free(to);
    rsh_layout_free(from);
    return st;
}

static void check(int ranks, const pair *p) {
    if (rsh_run(ranks, move, (void *)p))
        fail_msg("RESHARD_SEED=%llu: %s -> %s: %s", (unsigned long long)seed, p->from, p->to, rsh_error_detail());
}

/* Draws a shape of about 2.3 million elements, or 9 MB. */
static void any_shape(long long *rows, long long *cols) {
    *cols = between(700, 3000);
    *rows = 2300000 / *cols;
}

static void rows_become_columns_on_many_ranks(void **unused) {
    (void)unused;
    for (int i = 0; i < 2; i++) {
        static const int ranks[] = {3, 150};
        long long rows, cols;
        pair p;
        any_shape(&rows, &cols);
        snprintf(p.from, sizeof p.from, "f32[%lld/x, %lld] on x=%d", rows, cols, ranks[i]);
        snprintf(p.to, sizeof p.to, "f32[%lld, %lld/x] on x=%d", rows, cols, ranks[i]);
        check(ranks[i], &p);
    }
}

static void blocks_of_any_length_change_their_length(void **unused) {
    (void)unused;
    for (int i = 0; i < 2; i++) {
        long long rows, cols, a = between(1, 140), b = i % 2 ? between(1, 140) : a % 30 + 1;
        pair p;
        any_shape(&rows, &cols);
        snprintf(p.from, sizeof p.from, "f32[%lld/x:%lld, %lld/y:%lld] on x=2,y=2", rows, a, cols, a);
        snprintf(p.to, sizeof p.to, "f32[%lld/x:%lld, %lld/y:%lld] on x=2,y=2", rows, b, cols, b);
        check(4, &p);
    }
}

static void short_blocks_become_rows(void **unused) {
    (void)unused;
    for (int i = 0; i < 2; i++) {
        long long rows, cols, a = between(1, 40);
        int ranks = (int)between(2, 9);
        pair p;
        any_shape(&rows, &cols);
        snprintf(p.from, sizeof p.from, "f32[%lld, %lld/x:%lld] on x=%d", rows, cols, a, ranks);
        snprintf(p.to, sizeof p.to, "f32[%lld/x, %lld] on x=%d", rows, cols, ranks);
        check(ranks, &p);
    }
}

static void odd_sizes_are_transposed(void **unused) {
    (void)unused;
    long long rows, cols;
    pair p;
    any_shape(&rows, &cols);
    snprintf(p.from, sizeof p.from, "f32[%lld/x, %lld] on x=2", rows, cols);
    snprintf(p.to, sizeof p.to, "f32[%lld, %lld/x] on x=2 order(1,0)", rows, cols);
    check(2, &p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_become_columns_on_many_ranks),
        cmocka_unit_test(blocks_of_any_length_change_their_length),
        cmocka_unit_test(short_blocks_become_rows),
        cmocka_unit_test(odd_sizes_are_transposed),
    };
    seed = state = seed_of_tests();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
