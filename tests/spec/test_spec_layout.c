/* Specs as layouts, and layouts as specs. */
#include "spec/make.h"

static void expect_layout(const char *spec, int ndim, const int64_t *size, const char *layout) {
    rsh_spec *s = NULL;
    rsh_layout *l = NULL;
    assert_int_equal(rsh_spec_parse(spec, &s), RSH_OK);
    assert_int_equal(rsh_spec_layout(s, RSH_F32, ndim, size, &l), RSH_OK);
    assert_string_equal(rsh_layout_text(l), layout);
    rsh_layout_free(l);
    rsh_spec_free(s);
}

static void chunks_with_an_owner_each_become_a_mesh(void **state) {
    (void)state;
    expect_layout("chunk(0; rank:2, rank:3, rank:1, rank:0)", 2, DIMS(13, 21), "f32[13/x, 21] on x=4@[2,3,1,0]");
    expect_layout("chunk(-1; rank:0, rank:1, rank:2, rank:3)", 2, DIMS(13, 21), "f32[13, 21/x] on x=4");
    expect_layout("chunk(0; rank:1, rank:2, rank:3, rank:0)", 1, DIMS(5), "f32[5/x] on x=4@[1,2,3,0]");
    expect_layout("chunk(0; rank:0, rank:1)", 2, DIMS(0, 4), "f32[0/x, 4] on x=2");
    expect_layout("chunk(1; rank:0)", 2, DIMS(3, 4), "f32[3, 4]");
    expect_layout("chunk(1; rank:5)", 2, DIMS(3, 4), "f32[3, 4] boxes 5:[0:3,0:4]");
}

static void other_owners_and_boxes_become_boxes(void **state) {
    (void)state;
    expect_layout("chunk(0; rank:0, rank:0, rank:1, rank:1, rank:2)", 2, DIMS(10, 20),
                  "f32[10, 20] boxes 0:[0:2,0:20] 0:[2:4,0:20] 1:[4:6,0:20] 1:[6:8,0:20] 2:[8:10,0:20]");
    expect_layout("chunk(0; rank:1, rank:0, rank:1, rank:0)", 1, DIMS(5),
                  "f32[5] boxes 0:[2:4] 0:[5:5] 1:[0:2] 1:[4:5]");
    expect_layout("boxes([0,0]+[2,2] rank:1; [2,0]+[2,2] rank:0; [0,2]+[4,2] rank:3)", 2, DIMS(4, 4),
                  "f32[4, 4] boxes 0:[2:4,0:2] 1:[0:2,0:2] 3:[0:4,2:4]");
    expect_layout("boxes([]+[] rank:2)", 0, NULL, "f32[] boxes 2:[]");
    expect_layout("boxes([0,0]+[0,2] rank:1; [0,2]+[0,1] rank:1)", 2, DIMS(0, 3),
                  "f32[0, 3] boxes 1:[0:0,0:2] 1:[0:0,2:3]");
}

/* Checks that each shard is a part of its rank, with the shard's number among the shards of that rank. */
static void expect_parts(const rsh_tensor_meta *m, const rsh_layout *l) {
    int64_t seen[64] = {0}, index[RSH_MAX_NDIM];
    for (int64_t i = 0; i < m->nshards; i++) {
        const rsh_shard_meta *s = &m->shards[i];
        rsh_part p;
        int64_t part = seen[s->placement.rank]++;
        assert_int_equal(rsh_layout_part(l, s->placement.rank, part, &p), RSH_OK);
        assert_int_equal(p.count, rsh_shard_meta_count(s));
        for (int d = 0; d < m->ndim; d++) assert_int_equal(p.shape[d], s->sizes[d]);
        if (p.count) assert_int_equal(rsh_layout_global_index(l, s->placement.rank, part, 0, index), RSH_OK);
        for (int d = 0; p.count && d < m->ndim; d++) assert_int_equal(index[d], s->offsets[d]);
    }
    for (int r = 0; r < 64; r++) assert_int_equal(rsh_layout_nparts(l, r), seen[r]);
}

static void every_shard_is_the_part_of_its_rank_in_order(void **state) {
    (void)state;
    uint64_t seed = make_seed("parts");
    for (int i = 0; i < 3000; i++) {
        rsh_shard_meta list[24];
        rsh_tensor_meta *m = NULL;
        rsh_layout *l = NULL;
        int ndim = (int)make_below(&seed, 4);
        int64_t size[8];
        for (int d = 0; d < ndim; d++) size[d] = make_below(&seed, 9);
        int64_t n = make_tiling(&seed, ndim, size, 23, 6, list);
        assert_int_equal(rsh_tensor_meta_new(n, list, ndim, size, NULL, &m), RSH_OK);
        assert_int_equal(rsh_tensor_meta_layout(m, &l), RSH_OK);
        expect_parts(m, l);
        rsh_layout_free(l);
        rsh_tensor_meta_free(m);
    }
}

static void chunks_of_any_owners_are_the_parts_of_their_ranks(void **state) {
    (void)state;
    uint64_t seed = make_seed("owners");
    for (int i = 0; i < 3000; i++) {
        rsh_spec *s = NULL;
        rsh_tensor_meta *m = NULL;
        rsh_layout *l = NULL;
        int n = 1 + (int)make_below(&seed, 8), ranks[8];
        make_permutation(&seed, n, ranks);
        for (int k = 0; i % 2 && k < n; k++) ranks[k] = (int)make_below(&seed, 8);
        int64_t size[] = {make_below(&seed, 20), make_below(&seed, 20)};
        assert_int_equal(rsh_spec_chunk_ranks((int)make_below(&seed, 4) - 2, n, ranks, &s), RSH_OK);
        assert_int_equal(rsh_spec_build(s, 2, size, NULL, &m), RSH_OK);
        assert_int_equal(rsh_tensor_meta_layout(m, &l), RSH_OK);
        if (!(i % 2) && n > 1) assert_null(strstr(rsh_layout_text(l), "boxes"));
        expect_parts(m, l);
        rsh_layout_free(l);
        rsh_tensor_meta_free(m);
        rsh_spec_free(s);
    }
}

static void expect_refused(const char *spec, rsh_status status, const char *word) {
    rsh_spec *s = NULL;
    rsh_layout *l = NULL;
    assert_int_equal(rsh_spec_parse(spec, &s), RSH_OK);
    assert_int_equal(rsh_spec_layout(s, RSH_F32, 1, DIMS(4), &l), status);
    assert_non_null(strstr(rsh_error_detail(), word));
    assert_null(l);
    rsh_spec_free(s);
}

static void a_shard_without_a_rank_has_no_layout(void **state) {
    (void)state;
    expect_refused("chunk(0; cpu)", RSH_EVALUE, "has no rank");
    expect_refused("boxes([0]+[4])", RSH_EVALUE, "has no rank");
    expect_refused("chunk(0; rank:0, trainer0)", RSH_ERUNTIME, "worker");
    expect_refused("boxes([0]+[3] rank:0)", RSH_EVALUE, "elements together");
}

static void shards_that_do_not_tile_have_no_layout(void **state) {
    (void)state;
    rsh_tensor_meta *m = NULL;
    rsh_layout *l = NULL;
    rsh_shard_meta gap[] = {BOX(1, (0), (2), 0), BOX(1, (3), (1), 1)},
                   outside[] = {BOX(1, (0), (4), 0), BOX(1, (4), (1), 1)};
    assert_int_equal(rsh_tensor_meta_new(2, gap, 1, DIMS(4), NULL, &m), RSH_OK);
    assert_int_equal(rsh_tensor_meta_layout(m, &l), RSH_EVALUE);
    rsh_tensor_meta_free(m);
    assert_int_equal(rsh_tensor_meta_new(2, outside, 1, DIMS(4), NULL, &m), RSH_OK);
    assert_int_equal(rsh_tensor_meta_layout(m, &l), RSH_EVALUE);
    rsh_tensor_meta_free(m);
    assert_null(l);
}

static void expect_spec(const char *layout, const char *spec) {
    rsh_layout *l = NULL, *back = NULL;
    rsh_spec *s = NULL;
    assert_int_equal(rsh_layout_parse(layout, &l), RSH_OK);
    rsh_status st = rsh_spec_from_layout(l, &s);
    if (!spec) {
        assert_int_equal(st, RSH_EUNSUP);
        assert_null(s);
    } else {
        assert_int_equal(st, RSH_OK);
        assert_string_equal(rsh_spec_text(s), spec);
        assert_int_equal(rsh_spec_layout(s, rsh_layout_dtype(l), rsh_layout_ndim(l), rsh_layout_shape(l), &back),
                         RSH_OK);
        assert_true(rsh_layout_same_parts(l, back));
    }
    rsh_layout_free(back);
    rsh_spec_free(s);
    rsh_layout_free(l);
}

static void layouts_of_one_box_a_part_become_specs(void **state) {
    (void)state;
    expect_spec("f32[13/x, 21] on x=4@[2,3,1,0]", "chunk(0; rank:2/cpu, rank:3/cpu, rank:1/cpu, rank:0/cpu)");
    expect_spec("f32[3, 5/x] on x=4", "chunk(1; rank:0/cpu, rank:1/cpu, rank:2/cpu, rank:3/cpu)");
    expect_spec("f32[6/x~] on x=3", "chunk(0; rank:0/cpu, rank:1/cpu, rank:2/cpu)");
    expect_spec("f32[5/x~] on x=2", "chunk(0; rank:0/cpu, rank:1/cpu)");
    expect_spec(
        "f32[4/x, 4/y] on x=2,y=2",
        "boxes([0,0]+[2,2] rank:0/cpu; [0,2]+[2,2] rank:1/cpu; [2,0]+[2,2] rank:2/cpu; [2,2]+[2,2] rank:3/cpu)");
    expect_spec("f32[5/(x,y)] on x=2,y=2",
                "boxes([0]+[2] rank:0/cpu; [2]+[1] rank:1/cpu; [3]+[1] rank:2/cpu; [4]+[1] rank:3/cpu)");
    expect_spec("f32[6] boxes 0:[0:2] 0:[4:6] 1:[2:4]", "chunk(0; rank:0/cpu, rank:1/cpu, rank:0/cpu)");
    expect_spec("f32[4, 4]", "boxes([0,0]+[4,4] rank:0/cpu)");
    expect_spec("f32[]", "boxes([]+[] rank:0/cpu)");
    expect_spec("f32[8/x:4] on x=2", "chunk(0; rank:0/cpu, rank:1/cpu)");
    expect_spec("f32[0/x, 4] on x=2", "boxes([0,0]+[0,4] rank:0/cpu; [0,0]+[0,4] rank:1/cpu)");
    expect_spec("f32[7, 1] order(1,0)", "boxes([0,0]+[7,1] rank:0/cpu)");
}

static void what_a_spec_cannot_say_is_refused(void **state) {
    (void)state;
    expect_spec("f32[4/x, 4] on x=2,y=2 sum(y)", NULL);
    expect_spec("f32[4/x, 4] on x=2,y=2", NULL);
    expect_spec("f32[8, 8] boxes 0:[0:4,0:8] 1,5:[4:8,0:8]", NULL);
    expect_spec("f32[8, 8]/x on x=2", NULL);
    expect_spec("f32[4, 4/x] on x=2 order(1,0)", NULL);
    expect_spec("f32[8/x:1] on x=2", NULL);
    expect_spec("f32[(4|4)/x] on x=2", NULL);
    expect_spec("f32[0, 4] boxes", NULL);
}

/* Random layouts, without the forms that specs cannot express. */
static void layouts_and_specs_go_to_and_fro(void **state) {
    (void)state;
    static const char *const rules[] = {"", "~", "%2", ":100"};
    uint64_t seed = make_seed("round trip");
    for (int i = 0; i < 3000; i++) {
        char text[256];
        rsh_layout *l = NULL, *back = NULL;
        rsh_spec *s = NULL, *again = NULL;
        int x = 1 + (int)make_below(&seed, 4), y = 1 + (int)make_below(&seed, 3), ranks[12];
        make_permutation(&seed, x * y, ranks);
        int at = snprintf(text, sizeof text, "i16[%d/x%s, %d, %d/y%s] on x=%d,y=%d@[", (int)make_below(&seed, 11),
                          rules[make_below(&seed, 4)], (int)make_below(&seed, 4), (int)make_below(&seed, 11),
                          rules[make_below(&seed, 4)], x, y);
        for (int k = 0; k < x * y; k++)
            at += snprintf(text + at, sizeof text - (size_t)at, "%s%d", k ? "," : "", ranks[k]);
        snprintf(text + at, sizeof text - (size_t)at, "]");
        assert_int_equal(rsh_layout_parse(text, &l), RSH_OK);
        assert_int_equal(rsh_spec_from_layout(l, &s), RSH_OK);
        assert_int_equal(rsh_spec_layout(s, RSH_I16, 3, rsh_layout_shape(l), &back), RSH_OK);
        assert_true(rsh_layout_same_parts(l, back));
        assert_int_equal(rsh_spec_from_layout(back, &again), RSH_OK);
        assert_true(rsh_spec_equal(s, again, 3));
        rsh_spec_free(again);
        rsh_spec_free(s);
        rsh_layout_free(back);
        rsh_layout_free(l);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_with_an_owner_each_become_a_mesh),
        cmocka_unit_test(other_owners_and_boxes_become_boxes),
        cmocka_unit_test(every_shard_is_the_part_of_its_rank_in_order),
        cmocka_unit_test(chunks_of_any_owners_are_the_parts_of_their_ranks),
        cmocka_unit_test(a_shard_without_a_rank_has_no_layout),
        cmocka_unit_test(shards_that_do_not_tile_have_no_layout),
        cmocka_unit_test(layouts_of_one_box_a_part_become_specs),
        cmocka_unit_test(what_a_spec_cannot_say_is_refused),
        cmocka_unit_test(layouts_and_specs_go_to_and_fro),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
