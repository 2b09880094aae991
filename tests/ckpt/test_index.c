/* index.json: boxes, ranges and whole tensors at any offsets of any files of the directory. */
#include "ckpt/files.h"

#include <unistd.h>

static const unsigned char bytes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

#define INDEX(tensors) "{\"reshard.index\": 1, \"tensors\": {" tensors "}}"
#define PARTS(dtype, shape, parts) "\"w\": {\"dtype\": \"" dtype "\", \"shape\": " shape ", \"parts\": [" parts "]}"

static void open_and_expect(const char *index, const unsigned char *want, int64_t n) {
    rsh_ckpt *c;
    write_text("index.json", index);
    write_file("a.bin", bytes, 16);
    write_file("b.bin", bytes + 8, 8);
    must(rsh_ckpt_open(folder, NULL, &c));
    assert_string_equal(c->kind->name, "index.json");
    expect_bytes(c, "w", want, n);
    rsh_ckpt_free(c);
}

static void boxes_and_ranges_make_a_tensor(void **state) {
    (void)state;
    static const unsigned char want[] = {4, 5, 12, 13, 6, 7, 14, 15, 0, 1, 2, 3};
    open_and_expect(INDEX(PARTS("u8", "[3, 4]",
                                "{\"file\": \"a.bin\", \"offset\": 4, \"box\": [[0, 2], [0, 2]]},"
                                "{\"file\": \"b.bin\", \"offset\": 4, \"box\": [[0, 2], [2, 4]]},"
                                "{\"offset\": 0, \"range\": [8, 12], \"file\": \"a.bin\"}")),
                    want, 12);
}

static void ranges_end_inside_rows(void **state) {
    (void)state;
    static const unsigned char want[] = {9, 10, 11, 12, 13, 0, 1, 2, 3, 4, 5, 6};
    open_and_expect(INDEX(PARTS("u8", "[2, 2, 3]", "{\"file\": \"a.bin\", \"offset\": 9, \"range\": [0, 5]},"
                                                   "{\"file\": \"a.bin\", \"offset\": 0, \"range\": [5, 12]}")),
                    want, 12);
}

static void a_part_without_a_place_is_the_whole_tensor(void **state) {
    (void)state;
    open_and_expect("{\"reshard.index\": 1, \"metadata\": {\"made\": \"here\"}, \"tensors\": {" PARTS(
                        "i16", "[2, 3]", "{\"file\": \"a.bin\", \"offset\": 2}") "}}",
                    bytes + 2, 12);
}

static void a_scalar_and_an_empty_tensor_are_read(void **state) {
    (void)state;
    open_and_expect(
        INDEX("\"w\": {\"shape\": [], \"dtype\": \"f32\", \"parts\": [{\"file\": \"b.bin\", \"offset\": 4}]},"
              "\"none\": {\"shape\": [0, 3], \"dtype\": \"f32\", \"parts\": []}"),
        bytes + 12, 4);
}

static void expect_words(const char *index, rsh_status status, const char *words) {
    write_text("index.json", index);
    write_file("a.bin", bytes, 16);
    expect_refusal(NULL, status, words);
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
#define WHOLE(file, offset) PARTS("u8", "[4]", "{\"file\": \"" file "\", \"offset\": " offset "}")
    expect_words(INDEX(WHOLE("a.bin", "13")), RSH_EVALUE, "the file ends at byte 16");
    expect_words(INDEX(WHOLE("a.bin", "9223372036854775807")), RSH_EVALUE, "the file ends at byte 16");
    expect_words(INDEX(WHOLE("a.bin", "-1")), RSH_EVALUE, "index.json: byte 106: expected an offset in bytes");
    expect_words(INDEX(WHOLE("c.bin", "0")), RSH_EIO, "c.bin");
    expect_words(INDEX(WHOLE("../a.bin", "0")), RSH_EVALUE, "file names must not have a path, got \"../a.bin\"");
    expect_words(INDEX(WHOLE("/etc/passwd", "0")), RSH_EVALUE, "must not have a path, got \"/etc/passwd\"");
    expect_words(INDEX(WHOLE("a.bin", "0") "," WHOLE("a.bin", "0")), RSH_EVALUE, "duplicate tensor \"w\"");
    expect_words("{\"reshard.index\": 1, \"tensors\": {\"__metadata__\": {\"dtype\": \"u8\", \"shape\": [4], "
                 "\"parts\": [{\"file\": \"a.bin\", \"offset\": 0}]}}}",
                 RSH_EVALUE, "a tensor is named \"__metadata__\"");
    expect_words(INDEX(PARTS("q8", "[4]", "")), RSH_EVALUE, "\"q8\" is not a dtype");
    expect_words(INDEX(PARTS("u8", "[4]", "")), RSH_EVALUE, "tensor \"w\"");
    expect_words(INDEX(PARTS("u8", "[4]", "{\"offset\": 0}")), RSH_EVALUE, "a part must have \"file\"");
    expect_words(INDEX(PARTS("u8", "[4]", "{\"file\": \"a.bin\", \"offset\": 0, \"range\": [1, 4]}")), RSH_EVALUE,
                 "the parts of tensor \"w\" do not make a whole tensor");
    expect_words(INDEX(PARTS("u8", "[4]", "{\"file\": \"a.bin\", \"offset\": 0, \"range\": [2, 5]}")), RSH_EVALUE,
                 "a range of 3 elements starts at element 2, but the tensor has only 4");
    expect_words(INDEX(PARTS("u8", "[4]", "{\"file\": \"a.bin\", \"offset\": 0, \"box\": [[0, 5]]}")), RSH_EVALUE,
                 "in dim 0, but the dim has size 4");
    expect_words(INDEX(PARTS("u8", "[4]", "{\"file\": \"a.bin\", \"offset\": 0, \"box\": [[0, 4], [0, 1]]}")),
                 RSH_EVALUE, "a box must have 1 dim, as the shape does, got 2");
    expect_words(INDEX(PARTS("u8", "[4]", "{\"file\": \"a.bin\", \"offset\": 0, \"box\": [[4, 0]]}")), RSH_EVALUE,
                 "with first <= end");
    expect_words(INDEX(PARTS("u8", "[4611686018427387904, 4]", "")), RSH_EVALUE, "exceeds 2^63 - 1");
    expect_words(INDEX(PARTS("u8", "[1,1,1,1,1,1,1,1,1]", "")), RSH_EVALUE, "at most 8 numbers");
    expect_words("{\"reshard.index\": 2, \"tensors\": {}}", RSH_EVALUE, "version 2 of index.json is not supported");
    expect_words("{\"reshard.index\": 1, \"tensor\": {}}", RSH_EVALUE, "unknown key \"tensor\"");
}

static void a_link_out_of_the_directory_is_refused(void **state) {
    (void)state;
    char path[200];
    snprintf(path, sizeof path, "%s/out", folder);
    assert_int_equal(symlink("/etc/hostname", path), 0);
    expect_words(INDEX(WHOLE("out", "0")), RSH_EVALUE, "outside the directory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(boxes_and_ranges_make_a_tensor),
        IN_FOLDER(ranges_end_inside_rows),
        IN_FOLDER(a_part_without_a_place_is_the_whole_tensor),
        IN_FOLDER(a_scalar_and_an_empty_tensor_are_read),
        IN_FOLDER(what_is_wrong_is_named),
        IN_FOLDER(a_link_out_of_the_directory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
