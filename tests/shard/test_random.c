/* Random numbers by global position: the tensor is the same, however it is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <reshard.h>

static const char *const layouts[] = {
    "f32[12, 10, 8]",
    "f32[12/x, 10, 8] on x=4",
    "f32[12, 10/x, 8] on x=4",
    "f32[12, 10, 8/x:1] on x=4",
    "f32[12/x:2, 10, 8/y:1] on x=2,y=2",
    "f32[12, 10/y, 8] on x=2,y=2",
    "f32[12/x, 10, 8] on x=2 order(2,0,1)",
    "f32[12, (4|6)/x, 8] on x=4",
    "f32[12, 10, 8]/x on x=4",
};

static rsh_status digest_of(rsh_comm *comm, const char *text, bool normal, rsh_digest *out) {
    rsh_layout *l = NULL;
    rsh_sharded *s = NULL;
    rsh_status st = rsh_layout_parse(text, &l);
    if (!st) st = rsh_sharded_zeros(comm, l, &s);
    if (!st) st = normal ? rsh_sharded_normal(s, 99) : rsh_sharded_uniform(s, 99);
    if (!st) st = rsh_sharded_digest(s, out);
    rsh_sharded_free(s);
    rsh_layout_free(l);
    return st;
}

static rsh_status compare_cuts(void *ctx, rsh_comm *comm) {
    (void)ctx;
    for (int normal = 0; normal < 2; normal++) {
        rsh_digest first = {0, 0}, d;
        for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
            rsh_status st = digest_of(comm, layouts[i], normal, &d);
            if (st) return st;
            if (!i) first = d;
            if (memcmp(&d, &first, sizeof d) != 0) return RSH_EMISMATCH;
        }
    }
    return RSH_OK;
}

static void a_tensor_has_the_same_numbers_however_it_is_cut(void **state) {
    (void)state;
    assert_int_equal(rsh_run(4, compare_cuts, NULL), RSH_OK);
    assert_int_equal(rsh_run_shm(4, compare_cuts, NULL), RSH_OK);
}

/* The whole tensor must equal the one that the math room fills. */
static rsh_status compare_whole(void *ctx, rsh_comm *comm) {
    (void)ctx;
    rsh_layout *l = NULL;
    rsh_sharded *s = NULL;
    rsh_tensor *t = NULL;
    bool same = false;
    rsh_status st = rsh_layout_parse("f64[7, 9]", &l);
    if (!st) st = rsh_sharded_empty(comm, l, &s);
    if (!st) st = rsh_sharded_normal(s, 5);
    if (!st) st = rsh_tensor_empty(RSH_F64, 2, rsh_layout_shape(l), &t);
    if (!st) st = rsh_math_normal(t, &(rsh_random){.seed = 5});
    if (!st) st = rsh_math_equal(t, rsh_sharded_part(s, 0), &same);
    rsh_tensor_free(t);
    rsh_sharded_free(s);
    rsh_layout_free(l);
    return st ? st : same ? RSH_OK : RSH_EMISMATCH;
}

static void a_whole_tensor_has_the_numbers_of_a_local_one(void **state) {
    (void)state;
    assert_int_equal(rsh_run(1, compare_whole, NULL), RSH_OK);
}

static rsh_status refuse(void *ctx, rsh_comm *comm) {
    rsh_layout *l = NULL;
    rsh_sharded *s = NULL;
    rsh_status st = rsh_layout_parse(ctx, &l);
    if (!st) st = rsh_sharded_zeros(comm, l, &s);
    if (!st) st = rsh_sharded_uniform(s, 1);
    rsh_sharded_free(s);
    rsh_layout_free(l);
    return st;
}

static void integers_and_partial_tensors_have_none(void **state) {
    (void)state;
    assert_int_equal(rsh_run(1, refuse, "i32[4]"), RSH_ETYPE);
    assert_int_equal(rsh_run(2, refuse, "f32[4] on x=2 sum(x)"), RSH_EUNSUP);
    assert_int_equal(rsh_sharded_uniform(NULL, 1), RSH_EVALUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_has_the_same_numbers_however_it_is_cut),
        cmocka_unit_test(a_whole_tensor_has_the_numbers_of_a_local_one),
        cmocka_unit_test(integers_and_partial_tensors_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
