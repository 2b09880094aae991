/* Chunks, devices, boxes and specs compared with PyTorch's recorded results. */
#include "golden.h"

static const json_t *answer_of(const json_t *c) { return json_object_get(c, "answer"); }

/* ---- chunks ---- */

static rsh_status check_chunks(const json_t *c) {
    int64_t n = golden_number(c, "n", 0), chunks = golden_number(c, "chunks", 0), split = -1, offset = 0;
    rsh_status st = rsh_chunk_split(n, chunks, &split);
    EXPECT(st == golden_expected(c, 0, false));
    if (st) return RSH_OK;
    EXPECT(split == golden_number(answer_of(c), "split", -1));
    const json_t *sizes = json_object_get(answer_of(c), "sizes");
    for (int64_t i = 0; i < chunks; i++) {
        EXPECT(rsh_chunk_size(n, split, i) == json_integer_value(json_array_get(sizes, (size_t)i)));
        EXPECT(rsh_chunk_offset(n, split, i) == offset);
        offset += rsh_chunk_size(n, split, i);
    }
    EXPECT(offset == n);
    return RSH_OK;
}

static rsh_status check_params(const json_t *c) {
    rsh_spec *spec = NULL;
    int64_t start = -1, size = -1;
    RSH_TRY(golden_spec(json_object_get(c, "spec"), &spec));
    rsh_status st = rsh_spec_chunk_params(spec, golden_number(c, "n", 0), golden_number(c, "world", 0),
                                          (int)golden_number(c, "rank", 0), &start, &size);
    rsh_spec_free(spec);
    EXPECT(st == golden_expected(c, 0, false));
    if (!st)
        EXPECT(start == golden_number(answer_of(c), "start", -2) && size == golden_number(answer_of(c), "size", -2));
    return RSH_OK;
}

static rsh_status check_chunk_case(const json_t *c) {
    return golden_is(c, "op", "chunks") ? check_chunks(c) : check_params(c);
}

/* ---- devices ---- */

static rsh_status check_device(const json_t *c) {
    const json_t *answer = answer_of(c);
    const char *text = golden_text(c, "text"), *device = strchr(text, '/');
    rsh_remote_device p;
    rsh_device alone;
    char printed[RSH_REMOTE_DEVICE_TEXT];
    rsh_status st = rsh_remote_device_parse(text, &p);
    EXPECT(st == golden_expected(c, 0, false));
    if (st) return RSH_OK;
    rsh_remote_device_print(&p, printed);
    EXPECT(strcmp(printed, golden_text(answer, "print")) == 0);
    EXPECT(strcmp(p.worker, golden_text(answer, "worker")) == 0);
    EXPECT(p.rank == golden_number(answer, "rank", -1) && p.device.index == golden_number(answer, "index", -1));
    RSH_TRY(rsh_device_parse(golden_text(answer, "device"), &alone));
    EXPECT(alone.type == p.device.type);
    if (device) RSH_TRY(rsh_device_parse(device + 1, &alone));
    return RSH_OK;
}

/* ---- specs ---- */

static rsh_status check_box(const json_t *c) {
    rsh_shard_meta mine, theirs;
    EXPECT(golden_box(json_object_get(c, "box"), &mine) == golden_expected(c, 0, false));
    if (golden_expected(c, 0, false)) return RSH_OK;
    RSH_TRY(golden_box(json_object_get(answer_of(c), "box"), &theirs));
    EXPECT(rsh_shard_meta_equal(&mine, &theirs));
    return RSH_OK;
}

static rsh_status check_verdict(const json_t *c) {
    rsh_shard_meta boxes[MOST_SHARDS];
    int64_t n, size[RSH_MAX_NDIM];
    RSH_TRY(golden_boxes(json_object_get(c, "shards"), &n, boxes));
    int ndim = golden_numbers(json_object_get(c, "size"), size);
    rsh_status st = golden_is(c, "op", "overlap") ? rsh_shards_check_overlap(n, boxes)
                                                  : rsh_shards_check_tensor(n, boxes, ndim, size);
    EXPECT(st == golden_expected(c, 0, false));
    return RSH_OK;
}

static rsh_status check_built(const json_t *c, const rsh_tensor_meta *meta) {
    rsh_shard_meta model[MOST_SHARDS];
    const json_t *spec = json_object_get(c, "spec");
    EXPECT(golden_model(spec, meta->ndim, meta->size, model) == meta->nshards);
    for (int64_t i = 0; i < meta->nshards; i++)
        EXPECT(rsh_shard_meta_equal(&model[i], &meta->shards[i])); /* in the order of placements, with empty chunks */
    return golden_compare_boxes(json_object_get(answer_of(c), "meta"), meta->nshards, meta->shards);
}

static rsh_status check_build(const json_t *c) {
    rsh_spec *spec = NULL;
    rsh_tensor_meta *meta = NULL;
    int64_t size[RSH_MAX_NDIM];
    int ndim = golden_numbers(json_object_get(c, "size"), size);
    rsh_tensor_props props = RSH_TENSOR_PROPS_INIT;
    rsh_status st = golden_spec(json_object_get(c, "spec"), &spec);
    if (!st) st = rsh_spec_build(spec, ndim, size, &props, &meta);
    rsh_spec_free(spec);
    EXPECT(st == golden_expected(c, 0, false));
    if (st) return RSH_OK;
    st = check_built(c, meta);
    rsh_tensor_meta_free(meta);
    return st;
}

/* Inferred chunk specs must equal the recorded ones; for boxes only the kind is compared. */
static rsh_status check_infer(const json_t *c) {
    rsh_shard_meta boxes[MOST_SHARDS];
    rsh_spec *mine = NULL, *theirs = NULL;
    int64_t n;
    RSH_TRY(golden_boxes(json_object_get(c, "shards"), &n, boxes));
    RSH_TRY(rsh_spec_infer(n, boxes, &mine));
    rsh_status st = golden_spec(json_object_get(answer_of(c), "spec"), &theirs);
    bool equal = !st && rsh_spec_equal(mine, theirs, -1), kept = strcmp(rsh_spec_kind_name(mine), "boxes") == 0;
    rsh_spec_free(mine), rsh_spec_free(theirs);
    EXPECT(!st && (golden_is(c, "ours", "boxes") ? kept : equal));
    return RSH_OK;
}

static rsh_status check_index(const json_t *c) {
    rsh_spec *spec = NULL;
    int64_t index = -1;
    RSH_TRY(golden_spec(json_object_get(c, "spec"), &spec));
    rsh_status st = rsh_spec_chunk_index(spec, (int)golden_number(c, "rank", 0), &index);
    rsh_spec_free(spec);
    EXPECT(st == golden_expected(c, 0, false) && (st || index == golden_number(answer_of(c), "index", -2)));
    return RSH_OK;
}

/* build_reshard_metadata: sorted by rank, with empty chunks. */
static rsh_status check_by_rank(const json_t *c) {
    rsh_spec *spec = NULL;
    rsh_shard_meta mine[MOST_SHARDS], theirs[MOST_SHARDS];
    int64_t size[RSH_MAX_NDIM], n;
    int ranks[MOST_SHARDS], expected[MOST_SHARDS], world = (int)golden_number(c, "world", 0);
    int ndim = golden_numbers(json_object_get(c, "size"), size);
    RSH_TRY(golden_spec(json_object_get(c, "spec"), &spec));
    rsh_status st = rsh_reshard_metadata(ndim, size, spec, world, mine, ranks);
    rsh_spec_free(spec);
    RSH_TRY(st);
    RSH_TRY(golden_boxes(json_object_get(answer_of(c), "by_rank"), &n, theirs));
    EXPECT(n == world && golden_ints(json_object_get(answer_of(c), "ranks"), expected) == world);
    for (int r = 0; r < world; r++) EXPECT(ranks[r] == expected[r] && rsh_shard_meta_equal(&mine[r], &theirs[r]));
    return RSH_OK;
}

static rsh_status check_spec_case(const json_t *c) {
    static const struct {
        const char *op;
        rsh_status (*check)(const json_t *c);
    } ops[] = {{"box", check_box},     {"overlap", check_verdict}, {"coverage", check_verdict}, {"build", check_build},
               {"infer", check_infer}, {"index", check_index},     {"by_rank", check_by_rank}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (golden_is(c, "op", ops[i].op)) return ops[i].check(c);
    EXPECT(!"an operation that this test knows");
    return RSH_OK;
}

/* ---- all cases of a file ---- */

static void check_file(const char *name, rsh_status (*check)(const json_t *c)) {
    json_t *cases = golden_load(name);
    size_t n = json_array_size(cases), different = 0;
    for (size_t i = 0; i < n; i++) {
        rsh_status st = check(json_array_get(cases, i));
        if (!st) continue;
        fprintf(stderr, "%s, case %zu: %s: %s\n", name, i, rsh_status_name(st), rsh_error_detail());
        different++;
    }
    print_message("%s: %zu cases compared, %zu differ\n", name, n, different);
    json_decref(cases);
    assert_true(n > 0);
    assert_int_equal(different, 0);
}

static void chunks_are_those_of_pytorch(void **state) {
    (void)state;
    check_file("chunks", check_chunk_case);
}

static void devices_are_read_as_pytorch_does(void **state) {
    (void)state;
    check_file("devices", check_device);
}

static void specs_give_the_boxes_and_verdicts_of_pytorch(void **state) {
    (void)state;
    check_file("specs", check_spec_case);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_those_of_pytorch),
        cmocka_unit_test(devices_are_read_as_pytorch_does),
        cmocka_unit_test(specs_give_the_boxes_and_verdicts_of_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
