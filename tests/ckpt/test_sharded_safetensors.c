/* PyTorch's sharded safetensors: tensors are assembled by their offsets, and errors name missing files if they can be
 * known. */
#include "ckpt/files.h"

static const unsigned char first[] = {0, 1, 2, 3, 4, 5}, second[] = {6, 7, 8, 9, 10, 11, 20};

#define INFO(text) "\"__metadata__\":{\"format\":\"pt\",\"DCP_VERSION\":\"1.0\",\"DCP_SHARDING_INFO\":\"" text "\"}"
#define W(text) "{\\\"w\\\":{\\\"saved_offsets\\\":" text "}}"
#define W_AND_B(text) "{\\\"w\\\":{\\\"saved_offsets\\\":" text "},\\\"b\\\":{\\\"saved_offsets\\\":[0]}}"

static void write_first(const char *name) {
    write_safetensors(name, "{" INFO(W("[0, 0]")) ",\"w\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[0,6]}}",
                      first, 6);
}

/* Writes the rows from `offset` on. */
static void write_second(const char *name, const char *header) { write_safetensors(name, header, second, 7); }
#define SECOND(offset)                                                                                                 \
    "{" INFO(W_AND_B(offset)) ",\"w\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[0,6]},"                      \
                              "\"b\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[6,7]}}"

static void shards_become_whole_tensors(void **state) {
    (void)state;
    rsh_ckpt *c;
    static const unsigned char whole[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    write_first("shard-00001-model-00001-of-00001.safetensors");
    write_second("shard-00002-model-00001-of-00001.safetensors", SECOND("[2, 0]"));
    write_text("config.json", "{}");
    must(rsh_ckpt_open(folder, NULL, &c));
    assert_string_equal(c->kind->name, "sharded safetensors of PyTorch");
    assert_int_equal(c->ntensors, 2);
    expect_bytes(c, "w", whole, 12);
    expect_bytes(c, "b", second + 6, 1);
    assert_int_equal(c->nbeside, 1);
    rsh_ckpt_free(c);
}

static void columns_are_put_side_by_side(void **state) {
    (void)state;
    rsh_ckpt *c;
    static const unsigned char whole[] = {0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11};
    write_first("shard-00001-model-00001-of-00001.safetensors");
    write_second("shard-00002-model-00001-of-00001.safetensors", SECOND("[0, 3]"));
    must(rsh_ckpt_open(folder, NULL, &c));
    expect_bytes(c, "w", whole, 12);
    rsh_ckpt_free(c);
}

static void a_gap_is_an_error_that_names_the_tensor(void **state) {
    (void)state;
    write_first("shard-00001-model-00001-of-00001.safetensors");
    write_second("shard-00002-model-00001-of-00001.safetensors", SECOND("[3, 0]"));
    expect_refusal(NULL, RSH_EVALUE, "the parts of tensor \"w\" do not make a whole tensor");
}

static void an_overlap_is_an_error(void **state) {
    (void)state;
    write_first("shard-00001-model-00001-of-00001.safetensors");
    write_second("shard-00002-model-00001-of-00001.safetensors", SECOND("[1, 0]"));
    expect_refusal(NULL, RSH_EVALUE, "tensor \"w\"");
}

static void a_missing_shard_number_is_named(void **state) {
    (void)state;
    write_first("shard-00001-model-00001-of-00001.safetensors");
    write_second("shard-00003-model-00001-of-00001.safetensors", SECOND("[2, 0]"));
    expect_refusal(NULL, RSH_EVALUE, "shard-00002-model-*.safetensors is missing");
}

static void a_missing_file_number_is_named(void **state) {
    (void)state;
    write_first("shard-00001-model-00001-of-00002.safetensors");
    expect_refusal(NULL, RSH_EVALUE, "shard-*-model-00002-of-00002.safetensors is missing");
}

static void a_tensor_without_an_offset_is_refused(void **state) {
    (void)state;
    write_safetensors("shard-00001-model-00001-of-00001.safetensors",
                      "{" INFO("{}") ",\"w\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[0,6]}}", first, 6);
    expect_refusal(NULL, RSH_EVALUE, "tensor \"w\": DCP_SHARDING_INFO has no entry for it");
}

static void a_file_without_the_information_is_refused(void **state) {
    (void)state;
    write_safetensors("shard-00001-model-00001-of-00001.safetensors",
                      "{\"w\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[0,6]}}", first, 6);
    expect_refusal(NULL, RSH_EVALUE, "its metadata has no DCP_SHARDING_INFO");
}

static void offsets_beyond_64_bits_are_refused(void **state) {
    (void)state;
    write_safetensors(
        "shard-00001-model-00001-of-00001.safetensors",
        "{" INFO(W("[9223372036854775807]")) ",\"w\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[0,6]}}", first,
        6);
    expect_refusal(NULL, RSH_EVALUE, "tensor \"w\": its offset plus its size exceeds");
    write_safetensors("shard-00001-model-00001-of-00001.safetensors",
                      "{" INFO(W("[1, 2]")) ",\"w\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[0,6]}}", first,
                      6);
    expect_refusal(NULL, RSH_EVALUE, "must have one offset for each");
    write_safetensors("shard-00001-model-00001-of-00001.safetensors",
                      "{" INFO(W("[-1]")) ",\"w\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[0,6]}}", first, 6);
    expect_refusal(NULL, RSH_EVALUE, "expected an offset");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(shards_become_whole_tensors),
        IN_FOLDER(columns_are_put_side_by_side),
        IN_FOLDER(a_gap_is_an_error_that_names_the_tensor),
        IN_FOLDER(an_overlap_is_an_error),
        IN_FOLDER(a_missing_shard_number_is_named),
        IN_FOLDER(a_missing_file_number_is_named),
        IN_FOLDER(a_tensor_without_an_offset_is_refused),
        IN_FOLDER(a_file_without_the_information_is_refused),
        IN_FOLDER(offsets_beyond_64_bits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
