/* Overlaps of strided memory: the answers are compared with marked bytes, and binding must use them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <reshard.h>

#include "shard/memory.h"
#include "seed.h"

/* ---- marked bytes ---- */

enum { DIMS = 4, BYTES = 1 << 14, CASES = 60000 };

typedef struct view {
    int64_t size, shape[DIMS], strides[DIMS], at; /* `at`: offset of element 0,...,0 in the buffer */
    int nd;
} view;

static uint64_t seed, state;

static int64_t between(int64_t a, int64_t b) { /* splitmix64 */
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return a + (int64_t)((z ^ z >> 31) % (uint64_t)(b - a + 1));
}

/* Marks the bytes of a view; returns true if one of them was marked before. */
static bool mark(const view *v, unsigned char *bytes) {
    int64_t i[DIMS] = {0};
    bool twice = false;
    for (;;) {
        int64_t at = v->at;
        for (int d = 0; d < v->nd; d++) at += i[d] * v->strides[d] * v->size;
        for (int64_t b = at; b < at + v->size; b++) twice |= bytes[b]++ > 0;
        int d = v->nd - 1;
        while (d >= 0 && ++i[d] == v->shape[d]) i[d--] = 0;
        if (d < 0) return twice;
    }
}

static view any_view(void) {
    view v = {.size = (int64_t)1 << between(0, 3), .nd = (int)between(0, DIMS), .at = BYTES / 2 + between(-40, 40)};
    for (int d = 0; d < v.nd; d++) {
        v.shape[d] = between(1, 4);
        v.strides[d] = between(-2, 25) * (between(0, 1) ? 1 : between(1, 4));
    }
    return v;
}

/* Makes a box of a dense array, with steps and with dims in another order: strides nest. */
static view array_view(const int64_t *array, int nd, int64_t size) {
    view v = {.size = size, .nd = nd, .at = BYTES / 4};
    int64_t stride = 1;
    for (int d = nd - 1; d >= 0; d--) {
        int64_t step = between(1, 2), lo = between(0, array[d] - 1), n = between(1, (array[d] - lo - 1) / step + 1);
        bool back = between(0, 3) == 0;
        v.shape[d] = n;
        v.strides[d] = back ? -step * stride : step * stride;
        v.at += (back ? lo + (n - 1) * step : lo) * stride * size;
        stride *= array[d];
    }
    return v;
}

static rshi_lattice lattice(const view *v, const unsigned char *base) {
    return rshi_lattice_of(base + v->at, v->size, v->nd, v->shape, v->strides);
}

static void expect(const char *what, bool shared, rshi_sharing found, int case_) {
    if (found == (shared ? RSHI_SHARED : RSHI_APART)) return;
    fail_msg("RESHARD_SEED=%llu, case %d: %s: %s, found %d", (unsigned long long)seed, case_, what,
             shared ? "shared" : "apart", (int)found);
}

static void check_pair(const view *a, const view *b, int64_t allowed, int case_) {
    static unsigned char bytes[BYTES], one[BYTES];
    int64_t steps = allowed;
    rshi_lattice x = lattice(a, bytes), y = lattice(b, bytes);
    memset(bytes, 0, sizeof bytes);
    memset(one, 0, sizeof one);
    expect("one view", mark(a, one), rshi_lattice_folds(&x, &steps), case_);
    mark(b, bytes);
    bool shared = false;
    for (int i = 0; i < BYTES; i++) shared |= one[i] && bytes[i];
    steps = allowed;
    expect("two views", shared, rshi_lattices_meet(&x, &y, &steps), case_);
    steps = allowed;
    expect("the other way round", shared, rshi_lattices_meet(&y, &x, &steps), case_);
}

static void any_views_share_what_marked_bytes_say(void **s) {
    (void)s;
    for (int i = 0; i < CASES; i++) {
        view a = any_view(), b = any_view();
        check_pair(&a, &b, RSHI_LATTICE_STEPS, i);
    }
}

static void views_of_one_array_are_decided_in_a_few_steps(void **s) {
    (void)s;
    for (int i = 0; i < CASES; i++) {
        int64_t array[DIMS] = {between(1, 6), between(1, 6), between(1, 6), between(1, 6)};
        int64_t size = (int64_t)1 << between(0, 2);
        int nd = (int)between(1, DIMS);
        view a = array_view(array, nd, size), b = array_view(array, nd, size);
        check_pair(&a, &b, 200, i);
    }
}

static void large_views_of_one_array_are_decided_too(void **s) {
    (void)s;
    const int64_t half[] = {1 << 20, 1 << 19}, strides[] = {1 << 20, 1};
    char *base = (char *)(uintptr_t)(1 << 20);
    rshi_lattice left = rshi_lattice_of(base, 4, 2, half, strides),
                 right = rshi_lattice_of(base + (4 << 19), 4, 2, half, strides),
                 odd = rshi_lattice_of(base + (4 << 19) - 4, 4, 2, half, strides);
    int64_t steps = 10;
    assert_int_equal(rshi_lattices_meet(&left, &right, &steps), RSHI_APART);
    assert_int_equal(rshi_lattices_meet(&left, &odd, &steps), RSHI_SHARED);
}

static void a_search_that_would_take_too_long_says_so(void **s) {
    (void)s;
    const int64_t shape[] = {60000, 60000, 60000}, a[] = {1000003, 1000033, 999983}, b[] = {1000037, 999979, 1000039};
    int64_t steps = 1000;
    rshi_lattice x = rshi_lattice_of((char *)8, 1, 3, shape, a), y = rshi_lattice_of((char *)13, 1, 3, shape, b);
    assert_int_equal(rshi_lattices_meet(&x, &y, &steps), RSHI_UNDECIDED);
    assert_true(steps < 0);
}

/* ---- binding ---- */

static rsh_plan *plan_of(const char *from, const char *to, rsh_layout *l[2]) {
    rsh_plan *p = NULL;
    assert_int_equal(rsh_layout_parse(from, &l[0]), RSH_OK);
    assert_int_equal(rsh_layout_parse(to, &l[1]), RSH_OK);
    assert_int_equal(rsh_plan_new(l[0], l[1], NULL, &p), RSH_OK);
    return p;
}

static void plan_gone(rsh_plan *p, rsh_layout *l[2]) {
    rsh_plan_free(p);
    rsh_layout_free(l[0]);
    rsh_layout_free(l[1]);
}

static const int64_t row_of_12[] = {12, 1};

static void the_left_half_of_a_matrix_moves_to_its_right_half(void **s) {
    (void)s;
    rsh_layout *l[2];
    rsh_plan *p = plan_of("f32[5, 6]", "f32[5, 6]", l);
    float m[5 * 12];
    rsh_memory left = {m, row_of_12}, right = {m + 6, row_of_12}, shifted = {m + 5, row_of_12};
    for (int i = 0; i < 60; i++) m[i] = (float)i;
    assert_int_equal(rsh_plan_run_local(p, NULL, &left, &shifted), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "a source and a destination share memory"));
    assert_int_equal(rsh_plan_run_local(p, NULL, &left, &right), RSH_OK);
    for (int i = 0; i < 60; i++) assert_true(m[i] == (float)(i % 12 < 6 ? i : i - 6));
    plan_gone(p, l);
}

static void a_destination_that_holds_two_elements_in_one_place_is_refused(void **s) {
    (void)s;
    rsh_layout *l[2];
    rsh_plan *p = plan_of("f32[4, 6]", "f32[4, 6]", l);
    float m[64] = {0}, out[64];
    const int64_t nowhere[] = {0, 1}, narrow[] = {5, 1}, woven[] = {1, 4};
    rsh_memory src = {m, nowhere}, dst = {out, nowhere};
    assert_int_equal(rsh_plan_run_local(p, NULL, &src, &dst), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "two elements share memory"));
    dst.strides = narrow;
    assert_int_equal(rsh_plan_run_local(p, NULL, &src, &dst), RSH_EVALUE);
    dst.strides = woven;
    assert_int_equal(rsh_plan_run_local(p, NULL, &src, &dst), RSH_OK); /* elements of a source may share memory */
    plan_gone(p, l);
}

/* All ranks have columns of one matrix: rank r reads its block of the left half and writes a block of the right
 * half. */
typedef struct scene {
    const rsh_plan *plan;
    float m[4 * 12];
} scene;

static rsh_status columns_on_rank(void *ctx, rsh_comm *comm) {
    scene *w = ctx;
    int r = rsh_comm_rank(comm);
    rsh_memory src = {w->m + 2 * r, row_of_12}, dst = {w->m + 6 + 2 * ((r + 1) % 3), row_of_12};
    rsh_memory bad = {w->m + 1 + 2 * r, row_of_12};
    rsh_exec *e = NULL;
    RSH_TRY(rsh_exec_bind(w->plan, comm, &src, &dst, &e));
    rsh_status st = rsh_exec_run_on(e, &src, &bad) == RSH_EVALUE ? RSH_OK : RSH_ERUNTIME; /* an error on every rank */
    if (!st) st = rsh_exec_run_on(e, &src, &dst);
    rsh_exec_free(e);
    return st;
}

static void thread_ranks_may_hold_columns_of_one_matrix(void **s) {
    (void)s;
    rsh_layout *l[2];
    rsh_plan *p = plan_of("f32[4, 6/x] on x=3", "f32[4, 6/x] on x=3@[2,0,1]", l);
    scene w = {.plan = p};
    for (int i = 0; i < 48; i++) w.m[i] = (float)i;
    assert_int_equal(rsh_run(3, columns_on_rank, &w), RSH_OK);
    for (int i = 0; i < 48; i++) assert_true(w.m[i] == (float)(i % 12 < 6 ? i : i - 6));
    plan_gone(p, l);
}

/* One rank has many parts, which are columns of one matrix. */
static void many_columns_of_one_rank_are_apart_until_two_touch(void **s) {
    (void)s;
    enum { PARTS = 64 };
    rsh_layout *l[2];
    rsh_plan *p = plan_of("i32[8, 64]", "i32[8, 64/x:1] on x=64", l);
    static int32_t in[8 * PARTS], out[8 * PARTS];
    const int64_t row[] = {PARTS, 1};
    rsh_memory src = {in, NULL}, dst[PARTS];
    for (int i = 0; i < 8 * PARTS; i++) in[i] = i;
    for (int k = 0; k < PARTS; k++) dst[k] = (rsh_memory){out + k, row};
    assert_int_equal(rsh_plan_run_local(p, NULL, &src, dst), RSH_OK);
    assert_memory_equal(in, out, sizeof in);
    dst[40].data = out + 39;
    assert_int_equal(rsh_plan_run_local(p, NULL, &src, dst), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "two destinations share memory"));
    plan_gone(p, l);
}

int main(void) {
    state = seed = seed_of_tests();
    printf("RESHARD_SEED=%llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_views_share_what_marked_bytes_say),
        cmocka_unit_test(views_of_one_array_are_decided_in_a_few_steps),
        cmocka_unit_test(large_views_of_one_array_are_decided_too),
        cmocka_unit_test(a_search_that_would_take_too_long_says_so),
        cmocka_unit_test(the_left_half_of_a_matrix_moves_to_its_right_half),
        cmocka_unit_test(a_destination_that_holds_two_elements_in_one_place_is_refused),
        cmocka_unit_test(thread_ranks_may_hold_columns_of_one_matrix),
        cmocka_unit_test(many_columns_of_one_rank_are_apart_until_two_touch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
