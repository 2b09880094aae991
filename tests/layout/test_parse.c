/* Parse: which texts are errors, with which message and position; what valid texts mean; and what happens if memory
 * runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <reshard/layout.h>

#include "layout/impl.h"

typedef struct bad {
    const char *text, *place, *words;
} bad;

#define AXIS31 "abcdefghijklmnopqrstuvwxyz01234"

static const bad syntax[] = {
    {"", "1:1", "expected a dtype, found the end of the text"},
    {"   ", "1:4", "expected a dtype, found the end of the text"},
    {"[4]", "1:1", "expected a dtype, found \"[\""},
    {"4f32[4]", "1:1", "expected a dtype, found \"4\""},
    {"f33[4]", "1:1",
     "\"f33\" is not a dtype; expected one of bool u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64 f8e4m3"},
    {"F32[4]", "1:1", "\"F32\" is not a dtype: use f32; expected one of"},
    {"float32[4]", "1:1", "\"float32\" is not a dtype: use f32; expected one of"},
    {"fp16[4]", "1:1", "\"fp16\" is not a dtype: use f16; expected one of"},
    {"uint8[4]", "1:1", "\"uint8\" is not a dtype: use u8; expected one of"},
    {"double[4]", "1:1", "\"double\" is not a dtype: use f64; expected one of"},
    {"complex64[4]", "1:1", "\"complex64\" is not a dtype: use c64; expected one of"},
    {"bfloat16[4]", "1:1", "\"bfloat16\" is not a dtype: use bf16; expected one of"},
    {"torch.bfloat16[4]", "1:1", "\"torch.bfloat16\" is not a dtype: use bf16; expected one of"},
    {"float33[4]", "1:1", "\"float33\" is not a dtype; expected one of"},
    {"f32[4] on x=2 mean(x)", "1:15",
     "\"mean\" is not a reduction: use avg; expected one of sum avg min max prod band bor bxor"},
    {"f32[4] on x=2 foo(x)", "1:15", "\"foo\" is not a reduction; expected one of sum avg"},
    {"f32", "1:4", "expected \"[\", found the end"},
    {"f32(4)", "1:4", "expected \"[\", found \"(\""},
    {"f32[", "1:5", "expected a size, found the end of the text"},
    {"f32[4", "1:6", "expected \",\" or \"]\", found the end"},
    {"f32[4,]", "1:7", "expected a size, found \"]\""},
    {"f32[,4]", "1:5", "expected a size, found \",\""},
    {"f32[4 5]", "1:7", "expected \",\" or \"]\", found \"5\""},
    {"f32[-4]", "1:5", "expected a size, found \"-\""},
    {"f32[tp]", "1:5", "expected a size, found \"tp\""},
    {"f32[4\x01]", "1:6", "found byte 0x01"},
    {"f32[4\xc3\xa9]", "1:6", "found byte 0xc3"},
    {"f32[_, 4]", "1:5", "expected a size, found \"_\""},
    {"f32[...]", "1:5", "expected a size, found \".\""},
    {"f32[9223372036854775808]", "1:5", "9223372036854775808 does not fit in 64 bits"},
    {"f32[99999999999999999999999999]", "1:5", "does not fit in 64 bits"},
    {"f32[1,1,1,1,1,1,1,1,1]", "1:21", "more than 8 dims"},
    {"f32[4/]", "1:7", "expected an axis, found \"]\""},
    {"f32[4/()]", "1:8", "expected an axis, found \")\""},
    {"f32[4/(x] on x=2", "1:9", "expected \",\" or \")\", found \"]\""},
    {"f32[4/(x,)] on x=2", "1:10", "expected an axis, found \")\""},
    {"f32[4/2] on x=2", "1:7", "expected an axis, found \"2\"; name the axis in the mesh, \"on x=2\", and write x"},
    {"f32[4/(a,b,c,d,e,f,g,h,i)]", "1:24", "more than 8 axes"},
    {"f32[4/x:] on x=2", "1:9", "expected a block size, found \"]\""},
    {"f32[4/x%] on x=2", "1:9", "expected a unit, found \"]\""},
    {"f32[4/x{}] on x=2", "1:9", "expected a size, found \"}\""},
    {"f32[4/x{2,2] on x=2", "1:12", "expected \",\" or \"}\", found \"]\""},
    {"f32[4/x~~] on x=2", "1:9", "expected \",\" or \"]\", found \"~\""},
    {"f32[4/x:2%2] on x=2", "1:10", "expected \",\" or \"]\", found \"%\""},
    {"f32[4/x/y] on x=2,y=2", "1:8", "expected \",\" or \"]\", found \"/\""},
    {"f32[()]", "1:6", "expected the size of a segment, found \")\""},
    {"f32[(4|)/x] on x=2", "1:8", "expected the size of a segment, found \")\""},
    {"f32[(4,4)/x] on x=2", "1:7", "expected \"|\" or \")\", found \",\""},
    {"f32[((4|4)|4)/x] on x=2", "1:6", "expected the size of a segment, found \"(\""},
    {"f32[4|4] on x=2", "1:6", "expected \",\" or \"]\", found \"|\""},
    {"f32[4] x=2", "1:8", "expected \"on\", \"boxes\", a reduction, \"order\" or the end, found \"x\""},
    {"f32[4]]", "1:7", "found \"]\""},
    {"f32[4] on", "1:10", "expected an axis, found the end of the text"},
    {"f32[4] on 2", "1:11", "expected an axis, found \"2\""},
    {"f32[4] on x", "1:12", "expected \"=\", found the end"},
    {"f32[4] on x=", "1:13", "expected the size of an axis, found the end of the text"},
    {"f32[4] on x=-2", "1:13", "expected the size of an axis, found \"-\""},
    {"f32[4] on x=2,", "1:15", "expected an axis, found the end of the text"},
    {"f32[4] on x=2 y=2", "1:15", "expected a reduction, \"order\" or the end, found \"y\""},
    {"f32[4] on _x=2", "1:11", "expected an axis, found \"_\""},
    {"f32[4] on a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", "1:43", "more than 8 axes"},
    {"f32[4] on " AXIS31 "5=2", "1:11", "is longer than 31 characters"},
    {"f32[4] on x=2@", "1:15", "expected \"[\" or a rank, found the end"},
    {"f32[4] on x=2@[]", "1:16", "expected a rank, found \"]\""},
    {"f32[4] on x=2@[0,1", "1:19", "expected \",\" or \"]\", found the end"},
    {"f32[4] on x=2@3", "1:16", "expected \"-\", found the end"},
    {"f32[4] on x=2@3-", "1:17", "expected a rank, found the end of the text"},
    {"f32[4] on x=2@[0,1],y=2", "1:20", "expected a reduction, \"order\" or the end, found \",\""},
    {"f32[4] on x=2 sum", "1:18", "expected \"(\", found the end"},
    {"f32[4] on x=2 sum()", "1:19", "expected an axis, found \")\""},
    {"f32[4] on x=2 sum(x", "1:20", "expected \",\" or \")\", found the end"},
    {"f32[4] on x=2 sum(x) max(x)", "1:22", "expected \"order\" or the end, found \"max\""},
    {"f32[4] sum(x) on x=2", "1:15", "expected \"order\" or the end, found \"on\""},
    {"f32[4] order", "1:13", "expected \"(\", found the end"},
    {"f32[] order()", "1:13", "expected a dim, found \")\""},
    {"f32[4] order(0) sum(x)", "1:17", "expected the end, found \"sum\""},
    {"f32[4] order(0", "1:15", "expected \",\" or \")\", found the end"},
    {"f32[4] on x=2 boxes 0:[0:4]", "1:15", "expected a reduction, \"order\" or the end, found \"boxes\""},
    {"f32[4]/x boxes 0:[0:4]", "1:10", "found \"boxes\""},
    {"f32[4] boxes 0", "1:15", "expected \",\" or \":\", found the end"},
    {"f32[4] boxes 0:", "1:16", "expected \"[\", found the end"},
    {"f32[4] boxes 0:[0:4", "1:20", "expected \",\" or \"]\", found the end"},
    {"f32[4] boxes 0:[0-4]", "1:18", "expected \":\", found \"-\""},
    {"f32[4] boxes 0:[:4]", "1:17", "expected a range, found \":\""},
    {"f32[4] boxes 0:[0:]", "1:19", "expected the end of a range, found \"]\""},
    {"f32[4] boxes 0:[0:4] on x=2", "1:22", "expected a rank, found \"on\""},
    {"f32[4] boxes 0,:[0:4]", "1:16", "expected a rank, found \":\""},
    {"f32[4]\n\n  on x=2\ty=2", "3:10", "found \"y\""},
};

static const bad meaning[] = {
    {"f32[4096/tq, 8] on dp=2,tp=4", "1:10", "axis \"tq\" is not in the mesh \"dp=2,tp=4\""},
    {"f32[4096/tp]", "1:10", "axis \"tp\" is not defined; add \"on tp=4\""},
    {"f32[4/(x,y)] on x=2", "1:10", "axis \"y\" is not in the mesh \"x=2\""},
    {"f32[(4/x|4/y)] on x=2", "1:12", "axis \"y\" is not in the mesh \"x=2\""},
    {"f32[4]/y on x=2", "1:8", "axis \"y\" is not in the mesh"},
    {"f32[4] on x=2 sum(y)", "1:19", "axis \"y\" is not in the mesh"},
    {"f32[4] sum(y)", "1:12", "axis \"y\" is not defined"},
    {"f32[4/xx] on x=2,xxx=2", "1:7", "axis \"xx\" is not in the mesh"},
    {"f32[4/x, 4/x] on x=2", "1:12", "axis \"x\" already cuts dim 0;"},
    {"f32[4/x, (4/y|4/x)] on x=2,y=2", "1:17", "axis \"x\" already cuts"},
    {"f32[4/x]/x on x=2", "1:10", "axis \"x\" already cuts"},
    {"f32[4/x] on x=2 sum(x)", "1:17", "axis \"x\" already cuts"},
    {"f32[4]/x on x=2 sum(x)", "1:17", "axis \"x\" already cuts the flat tensor;"},
    {"f32[4/(x,x)] on x=2", "1:7", "axis \"x\" is named twice"},
    {"f32[4] on x=2 sum(x,x)", "1:15", "axis \"x\" is named twice"},
    {"f32[4/x, 4\n  /x] on x=2", "2:4", "axis \"x\" already cuts"},
    {"f32[4] on x=2,x=2", "1:15", "axis \"x\" appears twice in the mesh"},
    {"f32[4] on on=2", "1:11", "\"on\" is a reserved word"},
    {"f32[4] on boxes=2", "1:11", "\"boxes\" is a reserved word"},
    {"f32[4] on order=2", "1:11", "\"order\" is a reserved word"},
    {"f32[4] on x=2,bxor=2", "1:15", "\"bxor\" is a reserved word"},
    {"f32[4] on x=0", "1:11", "axis \"x\" must have size 1 or more, got 0"},
    {"f32[4] on x=0@[0]", "1:11", "axis \"x\" must have size 1 or more, got 0"},
    {"f32[4] on x=1099511627776", "1:11", "the mesh has more than 2147483648 positions"},
    {"f32[4] on x=1099511627776@[1,2]", "1:27", "expected 1099511627776 ranks (one per mesh position), got 2"},
    {"f32[4] on x=65536,y=65536", "1:11", "the mesh has more than 2147483648 positions"},
    {"f32[4] on x=9223372036854775807,y=9223372036854775807@[1]", "1:11", "more than 2147483648 positions"},
    {"f32[4] on x=2147483648@1-2147483648", "1:24", "rank 2147483648 is not in 0..2147483647"},
    {"f32[4] on x=4@[0,1,2]", "1:15", "expected 4 ranks (one per mesh position), got 3"},
    {"f32[4] on x=2,y=2@[3,2,1,3]", "1:19", "rank 3 appears twice in the mesh"},
    {"f32[4] on x=2@[0,2147483648]", "1:15", "rank 2147483648 is not in 0..2147483647"},
    {"f32[4] on x=2@2147483647-2147483648", "1:15", "rank 2147483648 is not in 0..2147483647"},
    {"f32[4] on x=2@9-8", "1:15", "ranks 9-8 are in descending order; write the smaller one first"},
    {"f32[4] on x=2@8-10", "1:15", "8-10 names 3 ranks, but the mesh has 2 positions"},
    {"f32[4] on x=2@0-9223372036854775807", "1:15", "9223372036854775808 ranks, but the mesh has 2 positions"},
    {"f32[4611686018427387904]", "1:5", "tensor is larger than 2^63 bytes"},
    {"f32[3037000500, 3037000500]", "1:5", "tensor is larger than 2^63 bytes"},
    {"u8[9223372036854775807, 2]", "1:4", "tensor is larger than 2^63 bytes"},
    {"u8[(9223372036854775807|1)/x] on x=2", "1:25", "segments add up to more than 2^63"},
    {"f32[4/x:0] on x=2", "1:7", "the number after \":\" must be 1 or more, got 0"},
    {"f32[4/x%0] on x=2", "1:7", "the number after \"%\" must be 1 or more, got 0"},
    {"f32[4/x{4}] on x=2", "1:7", "expected 2 sizes (one per part), got 1"},
    {"f32[4/(x,y){1,1,2}] on x=2,y=2", "1:7", "expected 4 sizes (one per part), got 3"},
    {"f32[4/x{1,2}] on x=2", "1:7", "sizes add up to 3, expected 4"},
    {"f32[4/x{9223372036854775807,1}] on x=2", "1:7", "sizes add up to more than 2^63"},
    {"f32[(4/x{2,1}|4/x)] on x=2", "1:8", "sizes add up to 3, expected 4"},
    {"f32[(4|4)/x{2,2}] on x=2", "1:11",
     "explicit sizes are not allowed after the parenthesis of segments; write them on each segment"},
    {"f32[(4/x|4)/x] on x=2", "1:13",
     "segments are cut both individually and after the parenthesis; remove one of the cuts"},
    {"f32[(4|4/x)/y] on x=2,y=2", "1:13",
     "segments are cut both individually and after the parenthesis; remove one of the cuts"},
    {"f32[8, (4|4)]", "1:8", "no segment is cut; write the size 8 without segments"},
    {"f32[(4)]", "1:5", "no segment is cut; write the size 4 without segments"},
    {"f32[4]/x:2 on x=2", "1:8", "\":\" cannot be used in a flat cut"},
    {"f32[4, 4]/x on x=2 order(1,0)", "1:20", "a flat layout cannot have an order"},
    {"f32[4, 4]/x on x=2 order(0,1)", "1:20", "a flat layout cannot have an order"},
    {"f32[4/y, 4]/x{4,12} on x=2,y=2", "1:13", "a flat cut by explicit sizes requires dims that are not cut"},
    {"f32[4]/x{4,12} on x=2", "1:8", "sizes add up to 16, expected 4"},
    {"f32[4, 4] order(0)", "1:11", "order must name every dim once, got 1 of 2"},
    {"f32[4, 4] order(0,1,2)", "1:11", "order must name every dim once, got 3 of 2"},
    {"f32[4, 4] order(0,0)", "1:11", "order must name each dim from 0 to 1 once"},
    {"f32[4, 4] order(1,2)", "1:11", "order must name each dim from 0 to 1 once"},
    {"f32[4, 4] order(0,9223372036854775807)", "1:11", "order must name each dim from 0 to 1 once"},
    {"f32[] order(0)", "1:7", "order must name every dim once, got 1 of 0"},
    {"f32[4/x] boxes 0:[0:4]", "1:5", "a layout with boxes cannot cut its dims; write plain sizes"},
    {"f32[4, (4)] boxes 0:[0:4,0:4]", "1:8", "a layout with boxes cannot cut its dims; write plain sizes"},
    {"f32[4] boxes 0:[]", "1:16", "box has 0 ranges, expected 1 (one per dim)"},
    {"f32[4] boxes 0:[0:4,0:4]", "1:16", "box has 2 ranges, expected 1 (one per dim)"},
    {"f32[] boxes 0:[0:1]", "1:15", "box has 1 range, expected 0 (one per dim)"},
    {"f32[4] boxes 0:[0:4] 1:[3:2]", "1:22", "range 3:2 of dim 0 ends before it begins"},
    {"f32[4] boxes 0:[0:5]", "1:14", "range 0:5 runs past the end of dim 0, whose size is 4"},
    {"f32[4, 2] boxes 0:[0:4,3:3]", "1:17", "range 3:3 runs past the end of dim 1, whose size is 2"},
    {"f32[4] boxes 3,3:[0:4]", "1:14", "rank 3 appears twice in one box"},
    {"f32[4] boxes 2147483648:[0:4]", "1:14", "rank 2147483648 is not in 0..2147483647"},
    {"f32[4] boxes", "1:8", "no box holds element [0]"},
    {"f32[] boxes", "1:7", "no box holds element []"},
    {"f32[] boxes 0:[] 1:[]", "1:18", "boxes 0:[] and 1:[] both hold element []"},
    {"f32[8, 8] boxes 0:[0:4,0:8] 1:[3:8,0:8]", "1:29", "boxes 0:[0:4,0:8] and 1:[3:8,0:8] both hold element [3,0]"},
    {"f32[8, 8] boxes 0:[0:4,0:8] 1:[5:8,0:8]", "1:11", "no box holds element [4,0]"},
    {"f32[8, 8] boxes 0:[0:4,0:8]\n1:[4:8,0:8]\n\n 2:[4:8,0:8]", "4:2",
     "boxes 1:[4:8,0:8] and 2:[4:8,0:8] both hold element [4,0]"},
};

static void check_bad(const bad *b, rsh_status status) {
    rsh_layout *l = (rsh_layout *)b;
    char start[64], place[32];
    rsh_text_error error = {0};
    rsh_status st = rsh_layout_parse_at(b->text, &error, &l);
    snprintf(start, sizeof start, "layout:%s: ", b->place);
    snprintf(place, sizeof place, "%d:%d", error.line, error.column);
    bool ok = st == status && !strncmp(rsh_error_detail(), start, strlen(start)) && !strcmp(place, b->place) &&
              error.sentence == rsh_error_detail() + strlen(start) && strstr(error.sentence, b->words);
    if (!ok)
        fail_msg("\"%s\" gave %s, \"%s\"; not %s%s", b->text, rsh_status_name(st), rsh_error_detail(), start, b->words);
    assert_ptr_equal(l, b); /* results are written only on success */
}

static void wrong_spelling_is_refused_at_its_column(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof syntax / sizeof *syntax; i++) check_bad(&syntax[i], RSH_EVALUE);
}

static void wrong_meaning_is_refused_at_its_column(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof meaning / sizeof *meaning; i++) check_bad(&meaning[i], RSH_EVALUE);
}

static void an_op_that_the_dtype_does_not_have_is_a_type_error(void **state) {
    static const bad list[] = {
        {"i32[4] on x=2 avg(x)", "1:15", "reduction \"avg\" is not defined for dtype i32"},
        {"bool[4] on x=2 sum(x)", "1:16", "reduction \"sum\" is not defined for dtype bool"},
        {"f32[4] on x=2 band(x)", "1:15", "reduction \"band\" is not defined for dtype f32"},
        {"c64[4] on x=2 max(x)", "1:15", "reduction \"max\" is not defined for dtype c64"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check_bad(&list[i], RSH_ETYPE);
}

static rsh_layout *parsed(const char *text) {
    rsh_layout *l;
    if (rsh_layout_parse(text, &l)) fail_msg("\"%s\": %s", text, rsh_error_detail());
    return l;
}

static void a_layout_answers_plain_questions(void **state) {
    rsh_layout *l = parsed("bf16[4096/tp, 11008] on dp=2,tp=4@[9,8,7,6,5,4,3,20] sum(dp)");
    (void)state;
    assert_int_equal(rsh_layout_dtype(l), RSH_BF16);
    assert_int_equal(rsh_layout_ndim(l), 2);
    assert_int_equal(rsh_layout_shape(l)[1], 11008);
    assert_int_equal(rsh_layout_count(l), 4096 * 11008);
    assert_int_equal(rsh_layout_op(l), RSH_OP_SUM);
    assert_int_equal(rsh_layout_nranks(l), 8);
    assert_int_equal(rsh_layout_rank(l, 0), 3);
    assert_int_equal(rsh_layout_rank(l, 7), 20);
    assert_int_equal(rsh_layout_rank(l, 8), -1);
    assert_int_equal(rsh_layout_nparts(l, 20), 1);
    assert_int_equal(rsh_layout_nparts(l, 19), 0);
    assert_int_equal(l->entry[0].value, 6);
    assert_int_equal(l->axis_step[0], 4);
    assert_int_equal(l->axis_step[1], 1);
    rsh_layout_free(l);
}

static void consecutive_ranks_need_no_list(void **state) {
    static const char *const same[] = {"f32[4/x] on x=4@5-8", "f32[4/x] on x=4@[5,6,7,8]"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rsh_layout *l = parsed(same[i]);
        assert_null(l->desc.ranks);
        assert_int_equal(l->desc.first_rank, 5);
        assert_null(l->entry);
        assert_int_equal(rsh_layout_rank(l, 3), 8);
        assert_int_equal(rsh_layout_nparts(l, 8), 1);
        assert_int_equal(rsh_layout_nparts(l, 4), 0);
        assert_int_equal(rsh_layout_nparts(l, 9), 0);
        rsh_layout_free(l);
    }
}

static void without_a_mesh_there_is_rank_0(void **state) {
    rsh_layout *l = parsed("f64[3]");
    (void)state;
    assert_int_equal(rsh_layout_nranks(l), 1);
    assert_int_equal(rsh_layout_rank(l, 0), 0);
    assert_int_equal(rsh_layout_nparts(l, 0), 1);
    assert_int_equal(rsh_layout_nparts(l, -1), 0);
    assert_int_equal(rsh_layout_op(l), RSH_OP_NONE);
    rsh_layout_free(l);
}

static void a_size_of_zero_makes_the_tensor_empty_whatever_the_others_are(void **state) {
    rsh_layout *l = parsed("f32[0, 9223372036854775807, 9223372036854775807]");
    (void)state;
    assert_int_equal(rsh_layout_count(l), 0);
    rsh_layout_free(l);
    l = parsed("u8[9223372036854775807]");
    assert_true(rsh_layout_count(l) == INT64_MAX);
    rsh_layout_free(l);
}

static void the_largest_mesh_and_the_largest_rank_are_allowed(void **state) {
    rsh_layout *l = parsed("f32[8/x] on x=2147483648");
    (void)state;
    assert_true(rsh_layout_rank(l, 2147483647) == 2147483647);
    rsh_layout_free(l);
    rsh_layout_free(parsed("f32[8/x] on x=2@[0,2147483647]"));
    rsh_layout_free(parsed("f32[8/x] on x=2147483647@1-2147483647")); /* a range of ranks needs no list */
    rsh_layout_free(parsed("f32[8/x] on x=1@2147483647-2147483647"));
    rsh_layout_free(parsed("f32[8/" AXIS31 "] on " AXIS31 "=2"));
}

static void segments_and_cuts_are_kept_as_written(void **state) {
    rsh_layout *l = parsed("f32[(6/(b,a)~|0/b|3/b:2), 10/c{4,3,0,3}] on a=2,b=3,c=4");
    (void)state;
    assert_int_equal(l->dim[0].nsegments, 3);
    assert_int_equal(l->dim[0].size, 9);
    assert_int_equal(l->dim[0].axes, 3);
    assert_int_equal(l->desc.dim[0].nsegments, 3);
    assert_int_equal(l->desc.dim[0].cut.naxes, 0);
    assert_int_equal(l->dim[0].segment[0].cut.parts, 6);
    assert_int_equal(l->dim[0].segment[0].cut.axes[0], 1);
    assert_int_equal(l->dim[0].segment[2].start, 6);
    assert_int_equal(l->dim[0].segment[2].cut.number, 2);
    assert_int_equal(l->dim[1].segment[0].cut.starts[2], 7);
    assert_int_equal(l->dim[1].segment[0].cut.starts[4], 10);
    assert_int_equal(l->flat.parts, 1);
    rsh_layout_free(l);
}

/* ---- descriptions made by code ---- */

static void check_refused(const rsh_layout_desc *desc, const char *sentence) {
    rsh_layout *l = NULL;
    assert_int_equal(rsh_layout_new(desc, &l), RSH_EVALUE);
    assert_string_equal(rsh_error_detail(), sentence);
    assert_null(l);
}

static void a_description_gives_the_same_layout_as_its_text(void **state) {
    int64_t sizes[] = {1, 3}, ranks[] = {4, 2};
    rsh_segment segment[] = {{.size = 3, .cut = {.naxes = 1, .rule = RSH_CUT_SIZES, .sizes = sizes, .nsizes = 2}},
                             {.size = 2}};
    rsh_layout_desc desc = {
        .dtype = RSH_F32, .ndim = 2, .naxes = 1, .axis = {{"x", 2}}, .ranks = ranks, .has_order = true};
    rsh_layout *l;
    (void)state;
    desc.order[0] = 1;
    desc.dim[0] = (rsh_dim){.size = 4, .cut = segment[0].cut};
    desc.dim[1].size = 7;
    assert_int_equal(rsh_layout_new(&desc, &l), RSH_OK);
    assert_string_equal(rsh_layout_text(l), "f32[4/x{1,3}, 7] on x=2@[4,2] order(1,0)");
    rsh_layout_free(l);

    segment[0].cut.rule = RSH_CUT_CHUNK;
    desc.dim[0] = (rsh_dim){.nsegments = 2, .segment = segment};
    assert_int_equal(rsh_layout_new(&desc, &l), RSH_OK);
    assert_string_equal(rsh_layout_text(l), "f32[(3/x|2), 7] on x=2@[4,2] order(1,0)");
    rsh_layout_free(l);
}

static void a_zeroed_description_is_a_bool(void **state) {
    rsh_layout_desc desc = {0};
    rsh_layout *l;
    (void)state;
    assert_int_equal(rsh_layout_new(&desc, &l), RSH_OK);
    assert_string_equal(rsh_layout_text(l), "bool[]");
    assert_int_equal(rsh_layout_count(l), 1);
    rsh_layout_free(l);
}

static void errors_from_code_name_the_dim_or_the_axis(void **state) {
    const rsh_cut by_x = {.naxes = 1};
    rsh_layout_desc good = {.dtype = RSH_F32, .ndim = 2, .naxes = 1, .axis = {{"x", 2}}}, d;
    (void)state;
    d = good, d.dim[0].cut = d.dim[1].cut = by_x;
    check_refused(&d, "layout: dim 1: axis \"x\" already cuts dim 0; an axis can be used only once");
    d = good, d.dim[1].size = -1;
    check_refused(&d, "layout: dim 1: size must be 0 or more, got -1");
    d = good, d.dim[1].cut = by_x, d.dim[1].cut.axes[0] = 1;
    check_refused(&d, "layout: dim 1: axis index 1 is out of range: the mesh has 1 axis");
    d = good, d.dim[1].cut = by_x, d.dim[1].cut.rule = (rsh_cut_rule)9;
    check_refused(&d, "layout: dim 1: 9 is not a cut rule");
    d = good, d.dim[1].cut = by_x, d.dim[1].cut.rule = RSH_CUT_UNIT;
    check_refused(&d, "layout: dim 1: the number after \"%\" must be 1 or more, got 0");
    d = good, d.dim[1].cut.naxes = 9;
    check_refused(&d, "layout: dim 1: cut has an invalid number of axes: 9");
    d = good, d.dim[0].nsegments = 1;
    check_refused(&d, "layout: dim 0: segment must not be NULL");
    d = good, d.axis[0].name[0] = '1';
    check_refused(&d,
                  "layout: axis 0: \"1\" is not a valid axis name; use letters, digits and _, starting with a letter");
    d = good, memset(d.axis[0].name, 'x', sizeof d.axis[0].name);
    check_refused(&d, "layout: axis 0: axis name is longer than 31 characters");
    d = good, d.ndim = 9;
    check_refused(&d, "layout: ndim must be 0 to 8, got 9");
    d = good, d.naxes = -1;
    check_refused(&d, "layout: naxes must be 0 to 8, got -1");
    d = good, d.dtype = RSH_DTYPE_NONE;
    check_refused(&d, "layout: 255 is not a dtype");
    d = good, d.op = RSH_OP_SUM;
    check_refused(&d, "layout: partial: a partial layout requires both a reduction and its axes");
    d = good, d.npartial = 1;
    check_refused(&d, "layout: partial: a partial layout requires both a reduction and its axes");
    d = good, d.naxes = 0, d.ranks = &(int64_t){3};
    check_refused(&d, "layout: ranks: ranks require a mesh; add \"on x=4\"");
    d = good, d.naxes = 0, d.first_rank = 3;
    check_refused(&d, "layout: ranks: ranks require a mesh; add \"on x=4\"");
    d = good, d.first_rank = -1;
    check_refused(&d, "layout: ranks: rank -1 is not in 0..2147483647");
    d = good, d.first_rank = 2147483647;
    check_refused(&d, "layout: ranks: rank 2147483648 is not in 0..2147483647");
    d = good, d.first_rank = INT64_MAX;
    check_refused(&d, "layout: ranks: rank 9223372036854775807 is not in 0..2147483647");
    d = good, d.has_order = true;
    check_refused(&d, "layout: order: order must name each dim from 0 to 1 once");
}

static void boxes_from_code_are_checked_too(void **state) {
    int64_t ranks[] = {3, 1, 1};
    rsh_ranked_box box[] = {{1, ranks, {{0}, {2}}}, {2, ranks, {{2}, {4}}}};
    rsh_layout_desc good = {.dtype = RSH_F32,
                            .ndim = 1,
                            .dim = {{.size = 4}},
                            .is_boxes = true,
                            .nboxes = 2,
                            .boxes = box},
                    d;
    rsh_layout *l;
    (void)state;
    assert_int_equal(rsh_layout_new(&good, &l), RSH_OK);
    assert_string_equal(rsh_layout_text(l), "f32[4] boxes 3:[0:2] 1,3:[2:4]");
    assert_int_equal(rsh_layout_nparts(l, 3), 2);
    rsh_layout_free(l);
    box[1].nranks = 3;
    check_refused(&good, "layout: box 1: rank 1 appears twice in one box");
    box[1].nranks = 0;
    check_refused(&good, "layout: box 1: box has no ranks; write RANK:[...]");
    box[1].nranks = 1, box[1].box.lo[0] = 1;
    check_refused(&good, "layout: boxes 3:[0:2] and 3:[1:4] both hold element [1]");
    box[1].box.lo[0] = 3;
    check_refused(&good, "layout: no box holds element [2]");
    box[1].box.lo[0] = -1;
    check_refused(&good, "layout: box 1: range -1:4 of dim 0 begins below 0");
    d = good, d.boxes = NULL;
    check_refused(&d, "layout: boxes: nboxes must be 0 or more and boxes must list them, got nboxes 2");
    d = good, d.nboxes = -1;
    check_refused(&d, "layout: boxes: nboxes must be 0 or more and boxes must list them, got nboxes -1");
}

static void a_whole_tensor_lies_on_one_rank(void **state) {
    const int64_t shape[9] = {4, 0};
    rsh_layout *l;
    (void)state;
    assert_int_equal(rsh_layout_whole(RSH_I8, 1, shape, 0, &l), RSH_OK);
    assert_string_equal(rsh_layout_text(l), "i8[4]");
    rsh_layout_free(l);
    assert_int_equal(rsh_layout_whole(RSH_I8, 2, shape, 3, &l), RSH_OK);
    assert_string_equal(rsh_layout_text(l), "i8[4, 0] boxes 3:[0:4,0:0]");
    assert_int_equal(rsh_layout_rank(l, 0), 3);
    rsh_layout_free(l);
    assert_int_equal(rsh_layout_whole(RSH_I8, 0, NULL, 3, &l), RSH_OK);
    assert_string_equal(rsh_layout_text(l), "i8[] boxes 3:[]");
    rsh_layout_free(l);
    assert_int_equal(rsh_layout_whole(RSH_I8, 9, shape, 3, &l), RSH_EVALUE);
    assert_int_equal(rsh_layout_whole(RSH_I8, 1, shape, -1, &l), RSH_EVALUE);
}

static void null_arguments_are_refused(void **state) {
    rsh_layout *l;
    (void)state;
    assert_int_equal(rsh_layout_parse(NULL, &l), RSH_EVALUE);
    assert_int_equal(rsh_layout_parse("f32[]", NULL), RSH_EVALUE);
    assert_int_equal(rsh_layout_new(NULL, &l), RSH_EVALUE);
    rsh_layout_free(NULL);
}

static void an_error_without_a_place_has_line_0(void **state) {
    rsh_text_error error = {.line = 7};
    rsh_layout *l;
    (void)state;
    assert_int_equal(rsh_layout_parse_at("f32[4]", &error, &l), RSH_OK);
    assert_int_equal(error.line, 7); /* written only on failure */
    rsh_layout_free(l);
    rsh_alloc_fail_at(0);
    assert_int_equal(rsh_layout_parse_at("f32[4]", &error, &l), RSH_ENOMEM);
    rsh_alloc_fail_at(-1);
    assert_int_equal(error.line, 0);
    assert_int_equal(error.column, 0);
    assert_string_equal(error.sentence, rsh_error_detail());
    assert_int_equal(rsh_layout_parse_at(NULL, &error, &l), RSH_EVALUE);
    assert_string_equal(error.sentence, "layout: text and out must not be NULL");
}

/* ---- memory ---- */

static void every_allocation_may_fail_and_nothing_leaks(void **state) {
    static const char *const texts[] = {
        "f32[]",
        "f32[4096/tp, 11008] on dp=2,tp=4",
        "f32[(6/(b,a)~|0/b|3/b:2), 10/c{4,3,0,3}] on a=2,b=3,c=4 order(1,0)",
        "f32[100, 3]/x{100,200} on x=2,y=2@[3,1,0,2] avg(y)",
        "f32[4/x] on x=4@5-8",
        "f32[8, 8] boxes 0:[0:4,0:8] 5,1:[4:8,0:8] 0:[0:0,0:8]",
        "f32[0, 4] boxes",
        "f32[2, 3] boxes 9,8,7:[0:1,0:2] 2:[1:2,0:2] 9:[0:2,2:3]",
        "f32[(4|4)/x{2,2}] on x=2", /* the error is found late, so what was made before must be freed */
        "f32[8, 8] boxes 0:[0:4,0:8] 1:[3:8,0:8]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint64_t live = rsh_alloc_get_stats().live;
        rsh_status st = RSH_ENOMEM;
        for (int64_t n = 0; st == RSH_ENOMEM; n++) {
            rsh_layout *l = NULL;
            rsh_alloc_fail_at(n);
            st = rsh_layout_parse(texts[i], &l);
            rsh_alloc_fail_at(-1);
            assert_true(!st == (l != NULL));
            rsh_layout_free(l);
            assert_int_equal(rsh_alloc_get_stats().live, live);
            assert_true(n < 1000);
        }
        assert_true(st == (i < 8 ? RSH_OK : RSH_EVALUE));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_spelling_is_refused_at_its_column),
        cmocka_unit_test(wrong_meaning_is_refused_at_its_column),
        cmocka_unit_test(an_op_that_the_dtype_does_not_have_is_a_type_error),
        cmocka_unit_test(a_layout_answers_plain_questions),
        cmocka_unit_test(consecutive_ranks_need_no_list),
        cmocka_unit_test(without_a_mesh_there_is_rank_0),
        cmocka_unit_test(a_size_of_zero_makes_the_tensor_empty_whatever_the_others_are),
        cmocka_unit_test(the_largest_mesh_and_the_largest_rank_are_allowed),
        cmocka_unit_test(segments_and_cuts_are_kept_as_written),
        cmocka_unit_test(a_description_gives_the_same_layout_as_its_text),
        cmocka_unit_test(a_zeroed_description_is_a_bool),
        cmocka_unit_test(errors_from_code_name_the_dim_or_the_axis),
        cmocka_unit_test(boxes_from_code_are_checked_too),
        cmocka_unit_test(a_whole_tensor_lies_on_one_rank),
        cmocka_unit_test(null_arguments_are_refused),
        cmocka_unit_test(an_error_without_a_place_has_line_0),
        cmocka_unit_test(every_allocation_may_fail_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
