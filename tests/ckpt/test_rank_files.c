/* Rank files of other tools: the sizes of tensors follow from rules and local sizes, and every rank's part must match
 * the cut. */
#include "ckpt/files.h"

static const unsigned char a[] = {0, 1, 2, 3, 4, 5, 6, 7}, b[] = {10, 11, 12, 13, 14, 15, 16, 17};

static rsh_ckpt_rules *rules(const char *text) {
    rsh_ckpt_rules *r;
    must(rsh_ckpt_rules_parse(text, "rules", &r));
    return r;
}

#define W(shape, end) "{\"w\":{\"dtype\":\"U8\",\"shape\":" shape ",\"data_offsets\":[0," end "]}}"

static void write_two(const char *rank0, const char *rank1, size_t n0, size_t n1) {
    write_safetensors("model-rank-0-part-0.safetensors", rank0, a, n0);
    write_safetensors("model-rank-1-part-0.safetensors", rank1, b, n1);
}

#define FILES "files model-rank-{rank}-part-{part}.safetensors\n"

static void expect_layout(const char *text, const char *layout, const unsigned char *bytes, int64_t n) {
    rsh_ckpt *c;
    rsh_ckpt_rules *r = rules(text);
    must(rsh_ckpt_open(folder, r, &c));
    assert_string_equal(c->kind->name, "rank files");
    int64_t t = rshi_ckpt_find(c, "w", 1);
    assert_true(t >= 0);
    assert_string_equal(rsh_layout_text(c->tensor[t].layout), layout);
    expect_bytes(c, "w", bytes, n);
    rsh_ckpt_free(c);
    rsh_ckpt_rules_free(r);
}

static void expect_words(const char *text, const char *words) {
    rsh_ckpt_rules *r = rules(text);
    expect_refusal(r, RSH_EVALUE, words);
    rsh_ckpt_rules_free(r);
}

static void the_size_of_a_cut_dim_is_the_sum(void **state) {
    (void)state;
    static const unsigned char rows[] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13};
    write_two(W("[4,2]", "8"), W("[2,2]", "4"), 8, 4);
    expect_layout("mesh tp=2\n" FILES "* [_/tp%4, _]", "u8[6/tp%4, 2] on tp=2", rows, 12);
    expect_layout("mesh tp=2\n" FILES "* [_/tp{4,2}, _]", "u8[6/tp{4,2}, 2] on tp=2", rows, 12);
}

static void chunks_columns_and_copies_are_solved(void **state) {
    (void)state;
    static const unsigned char rows[] = {0, 1, 2, 3, 10, 11, 12, 13};
    static const unsigned char columns[] = {0, 1, 10, 11, 2, 3, 12, 13};
    write_two(W("[2,2]", "4"), W("[2,2]", "4"), 4, 4);
    expect_layout("mesh tp=2\n" FILES "* [_/tp, _]", "u8[4/tp, 2] on tp=2", rows, 8);
    expect_layout("mesh tp=2\n" FILES "* [_, _/tp]", "u8[2, 4/tp] on tp=2", columns, 8);
    expect_layout("mesh tp=2\n" FILES "* [...]", "u8[2, 2] on tp=2", a, 4);
    expect_layout("mesh tp=2\n" FILES "* [_, _]", "u8[2, 2] on tp=2", a, 4);
    expect_layout("mesh tp=2\n" FILES "* [(2|_)/tp, _]", "u8[(2|2)/tp, 2] on tp=2",
                  (const unsigned char[]){0, 1, 10, 11, 2, 3, 12, 13}, 8);
    expect_layout("mesh tp=2\n" FILES "* [(2/tp|_), _]", "u8[(2/tp|1), 2] on tp=2",
                  (const unsigned char[]){0, 1, 10, 11, 2, 3}, 6);
    expect_layout("mesh tp=2\n" FILES "* [_, _/tp] order(1,0)", "u8[2, 4/tp] on tp=2 order(1,0)",
                  (const unsigned char[]){0, 2, 10, 12, 1, 3, 11, 13}, 8);
}

static void several_files_of_a_rank_are_one(void **state) {
    (void)state;
    rsh_ckpt *c;
    rsh_ckpt_rules *r = rules("mesh tp=2\n" FILES "v [_/tp]\nw [_/tp, _]");
    write_two(W("[2,2]", "4"), W("[2,2]", "4"), 4, 4);
    write_safetensors("model-rank-1-part-1.safetensors",
                      "{\"v\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", b, 1);
    write_safetensors("model-rank-0-part-7.safetensors",
                      "{\"v\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", a, 1);
    must(rsh_ckpt_open(folder, r, &c));
    expect_bytes(c, "v", (const unsigned char[]){0, 10}, 2);
    expect_bytes(c, "w", (const unsigned char[]){0, 1, 2, 3, 10, 11, 12, 13}, 8);
    rsh_ckpt_free(c);
    write_safetensors("model-rank-0-part-8.safetensors",
                      "{\"v\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", a, 1);
    expect_refusal(r, RSH_EVALUE, "tensor \"v\": rank 0 has two tensors of this name");
    rsh_ckpt_rules_free(r);
}

static void a_flat_cut_needs_all_sizes_but_one(void **state) {
    (void)state;
    write_two(W("[4]", "4"), W("[2]", "2"), 4, 2);
    expect_layout("mesh dp=2\n" FILES "* [_, 2]/dp%4", "u8[3, 2]/dp%4 on dp=2",
                  (const unsigned char[]){0, 1, 2, 3, 10, 11}, 6);
    expect_words("mesh dp=2\n" FILES "* [_, _]/dp", "must state all sizes except one");
    expect_words("mesh dp=2\n" FILES "* [...]/dp", "must state the sizes");
    expect_words("mesh dp=2\n" FILES "* [_, 4]/dp", "which contradicts");
}

static void ranks_that_do_not_obey_the_cut_are_named(void **state) {
    (void)state;
    write_two(W("[2,2]", "4"), W("[4,2]", "8"), 4, 8);
    expect_words("mesh tp=2\n" FILES "* [_/tp, _]",
                 "rank 0 has size 2 in dim 0, but u8[6/tp, 2] on tp=2 (rules:3) requires 3");
    expect_words("mesh tp=2\n" FILES "* [_, _]", "rank 1 has size 4 in dim 0");
    expect_words("mesh tp=2\n" FILES "* [_/tp]", "it has 2 dims, but its rule \"[_/tp]\" (rules:3) has 1");
    expect_words("mesh tp=4\n" FILES "* [_/tp, _]", "found on 2 ranks, but its rule \"[_/tp, _]\" (rules:3) is for 4");
    expect_words("mesh tp=2@4-5\n" FILES "* [_, _]", "rank 0 has a part of it, but is not in its layout");
    expect_words("mesh tp=2\n" FILES "v [...]", "no rule of rules matches its name");
    expect_words("mesh tp=2\n" FILES "* f32[...]", "its dtype is u8, but its rule requires f32");
    expect_words("mesh tp=2\nfiles rank{rank}.safetensors\n* [...]",
                 "no file name matches \"files rank{rank}.safetensors\" of rules");
}

static void a_rule_may_name_ranks_of_its_own(void **state) {
    (void)state;
    rsh_ckpt *c;
    rsh_ckpt_rules *r = rules("mesh tp=2\n" FILES "w [_] on x=1@1-1\nv [_/tp]");
    write_safetensors("model-rank-0-part-0.safetensors",
                      "{\"v\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", a, 1);
    write_safetensors("model-rank-1-part-0.safetensors",
                      "{\"v\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                      "\"w\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", b, 3);
    must(rsh_ckpt_open(folder, r, &c));
    expect_bytes(c, "w", b + 1, 2);
    expect_bytes(c, "v", (const unsigned char[]){0, 10}, 2);
    rsh_ckpt_free(c);
    rsh_ckpt_rules_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(the_size_of_a_cut_dim_is_the_sum),
        IN_FOLDER(chunks_columns_and_copies_are_solved),
        IN_FOLDER(several_files_of_a_rank_are_one),
        IN_FOLDER(a_flat_cut_needs_all_sizes_but_one),
        IN_FOLDER(ranks_that_do_not_obey_the_cut_are_named),
        IN_FOLDER(a_rule_may_name_ranks_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
