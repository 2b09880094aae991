/* Describe: the description of a layout makes an equal layout; threads share references to a layout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include <reshard/alloc.h>
#include <reshard/layout.h>

static rsh_layout *parsed(const char *text) {
    rsh_layout *l;
    if (rsh_layout_parse(text, &l)) fail_msg("\"%s\": %s", text, rsh_error_detail());
    return l;
}

static void what_comes_out_can_be_put_in_again(void **state) {
    static const char *const texts[] = {
        "f32[]",
        "bf16[4096/tp, 11008] on dp=2,tp=4",
        "f32[4096/(dp,tp)%128, 8/pp~] on dp=2,tp=4,pp=2@8-23",
        "f32[100/x:8, 10/y{4,3,0,3}] on x=2,y=4@[7,6,5,4,3,2,1,0]",
        "f32[(4096|1024|1024)/tp, 4096] on tp=4",
        "f32[(4096/(kv,rep)|1024/kv|0), 4096] on kv=2,rep=4",
        "f32[(10/p{0,0,10}|990/p:64), 600] on p=3",
        "f32[1000, 37]/dp on dp=4",
        "f32[8]/dp{3,5} on dp=2",
        "f32[4096/dp] on dp=2,tp=4,pp=2 avg(tp,pp)",
        "f32[64/x, 32, 16] on x=2 order(2,0,1)",
        "f32[8, 8] boxes 0:[0:4,0:8] 1,5:[4:8,0:8]",
        "f32[6] boxes 0:[0:2] 0:[4:6] 1:[2:4]",
        "f32[] boxes 3:[]",
        "f32[0, 4] boxes",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        rsh_layout *l = parsed(texts[i]), *again = NULL;
        assert_int_equal(rsh_layout_new(rsh_layout_describe(l), &again), RSH_OK);
        assert_string_equal(rsh_layout_text(again), texts[i]);
        assert_true(rsh_layout_equal(l, again));
        rsh_layout_free(l);
        rsh_layout_free(again);
    }
}

static void a_description_is_canonical(void **state) {
    rsh_layout *l = parsed("f32[(8)/(b), (4/a|2)] on a=2,b=2,c=2,d=1@[5,6,7,8,9,10,11,12] max(d,c) order(0,1)");
    const rsh_layout_desc *desc = rsh_layout_describe(l);
    (void)state;
    assert_int_equal(desc->dtype, RSH_F32);
    assert_int_equal(desc->ndim, 2);
    assert_int_equal(desc->dim[0].nsegments, 0);
    assert_int_equal(desc->dim[0].size, 8);
    assert_int_equal(desc->dim[0].cut.axes[0], 1);
    assert_int_equal(desc->dim[1].nsegments, 2);
    assert_int_equal(desc->dim[1].size, 6);
    assert_int_equal(desc->dim[1].segment[0].cut.naxes, 1);
    assert_int_equal(desc->dim[1].segment[1].cut.naxes, 0);
    assert_int_equal(desc->naxes, 4);
    assert_string_equal(desc->axis[2].name, "c");
    assert_null(desc->ranks);
    assert_int_equal(desc->first_rank, 5);
    assert_int_equal(desc->op, RSH_OP_MAX);
    assert_int_equal(desc->npartial, 2);
    assert_int_equal(desc->partial[0], 2);
    assert_int_equal(desc->partial[1], 3);
    assert_false(desc->has_order);
    rsh_layout_free(l);
}

static void boxes_and_sizes_come_out_as_lists(void **state) {
    rsh_layout *l = parsed("f32[4] boxes 5,1:[2:4] 0:[0:2]");
    const rsh_layout_desc *desc = rsh_layout_describe(l);
    (void)state;
    assert_true(desc->is_boxes);
    assert_int_equal(desc->nboxes, 2);
    assert_int_equal(desc->boxes[0].ranks[0], 0);
    assert_int_equal(desc->boxes[1].nranks, 2);
    assert_int_equal(desc->boxes[1].ranks[0], 1);
    assert_int_equal(desc->boxes[1].ranks[1], 5);
    assert_int_equal(desc->boxes[1].box.lo[0], 2);
    rsh_layout_free(l);
    l = parsed("f32[10/x{4,3,0,3}] on x=4@[3,2,1,0]");
    desc = rsh_layout_describe(l);
    assert_int_equal(desc->dim[0].cut.nsizes, 4);
    assert_int_equal(desc->dim[0].cut.sizes[1], 3);
    assert_int_equal(desc->ranks[0], 3);
    rsh_layout_free(l);
}

static void nothing_of_a_description_is_kept(void **state) {
    int64_t sizes[] = {1, 3}, ranks[] = {4, 2};
    rsh_layout_desc desc = {.dtype = RSH_F32, .ndim = 1, .naxes = 1, .axis = {{"x", 2}}, .ranks = ranks};
    rsh_layout *l, *again;
    (void)state;
    desc.dim[0] = (rsh_dim){4, {.naxes = 1, .rule = RSH_CUT_SIZES, .sizes = sizes, .nsizes = 2}, 0, NULL};
    assert_int_equal(rsh_layout_new(&desc, &l), RSH_OK);
    memset(sizes, 0xff, sizeof sizes);
    memset(ranks, 0xff, sizeof ranks);
    assert_int_equal(rsh_layout_new(rsh_layout_describe(l), &again), RSH_OK);
    rsh_layout_free(l);
    assert_string_equal(rsh_layout_text(again), "f32[4/x{1,3}] on x=2@[4,2]");
    rsh_layout_free(again);
}

/* ---- references ---- */

enum { THREADS = 4, HOLDS = 5000 };

static void *hold_and_free(void *layout) {
    for (int i = 0; i < HOLDS; i++) {
        rsh_layout *held = rsh_layout_hold(layout), *more = rsh_layout_hold(held);
        rsh_layout_free(held);
        rsh_layout_free(more);
    }
    rsh_layout_free(layout); /* the reference of this thread; the last one to be dropped frees the layout */
    return NULL;
}

static void any_thread_may_take_and_drop_references(void **state) {
    rsh_layout *l = parsed("f32[(8/x|4), 10/y{4,6}] on x=2,y=2@[3,1,2,0]");
    pthread_t thread[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, hold_and_free, rsh_layout_hold(l)), 0);
    rsh_layout_free(l);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

static void the_last_reference_frees(void **state) {
    uint64_t live = rsh_alloc_get_stats().live;
    rsh_layout *l = parsed("f32[8, 8] boxes 0:[0:4,0:8] 5,1:[4:8,0:8]");
    (void)state;
    rsh_layout_hold(l);
    rsh_layout_free(l);
    assert_true(rsh_alloc_get_stats().live > live);
    assert_int_equal(rsh_layout_nranks(l), 3);
    rsh_layout_free(l);
    assert_int_equal(rsh_alloc_get_stats().live, live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_out_can_be_put_in_again),
        cmocka_unit_test(a_description_is_canonical),
        cmocka_unit_test(boxes_and_sizes_come_out_as_lists),
        cmocka_unit_test(nothing_of_a_description_is_kept),
        cmocka_unit_test(any_thread_may_take_and_drop_references),
        cmocka_unit_test(the_last_reference_frees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
