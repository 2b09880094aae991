/* Files that PyTorch 1.13's torch.save wrote (tools/golden/torch_save.py) are read element by element, in both formats:
 * alone, with an index, and with one file per rank.  Files with wrong lengths or offsets are rejected in bounded
 * memory. */
#include "ckpt/files.h"

#include <unistd.h>

#include <reshard.h>

#include "ckpt/torch_values.h"

#define GOLDEN "tests/ckpt/torch/"

/* ---- elements ---- */

/* Returns the bytes that the script writes. */
static unsigned char expected(const char *name, rsh_dtype dtype, int64_t i) {
    return (unsigned char)((37 * i + 11 * (i >> 8) + 13 * (int64_t)strlen(name)) & (dtype == RSH_BOOL ? 1 : 255));
}

/* Checks a tensor.  `source`: the name that determines its elements; NULL: its own name. */
static void check(const rsh_ckpt *c, const char *name, const char *source, rsh_dtype dtype, const char *shape) {
    char text[100] = "";
    int64_t t = rshi_ckpt_find(c, name, strlen(name));
    if (t < 0) fail_msg("there is no %s", name);
    assert_int_equal(c->tensor[t].dtype, dtype);
    for (int d = 0; d < c->tensor[t].ndim; d++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld", d ? "," : "",
                 (long long)c->tensor[t].shape[d]);
    assert_string_equal(text, shape);
    unsigned char *bytes = read_whole(c, t, NULL);
    for (int64_t b = 0; b < tensor_bytes(c, t); b++)
        if (bytes[b] != expected(source ? source : name, dtype, b))
            fail_msg("%s, byte %lld: %d", name, (long long)b, bytes[b]);
    free(bytes);
}

static const char *what_of(const rsh_ckpt *c, const char *name) {
    for (int64_t i = 0; i < c->nothers; i++)
        if (!strcmp(c->other[i].name, name)) return c->other[i].what;
    fail_msg("there is no %s", name);
    return NULL;
}

/* ---- one file ---- */

static void check_plain(const char *path) {
    rsh_ckpt *c;
    must(rsh_ckpt_open(path, NULL, &c));
    assert_string_equal(rsh_ckpt_kind(c), "torch.save file");
    assert_int_equal(c->ntensors, 20);
    check(c, "model.layers.0.weight", NULL, RSH_F32, "5,3"); /* a parameter */
    check(c, "model.layers.1.weight", NULL, RSH_F32, "5,3");
    check(c, "model.layers.0.bias", NULL, RSH_BF16, "5");
    check(c, "model.layers.1.bias", NULL, RSH_BF16, "5");
    check(c, "model.turned", NULL, RSH_F64, "3,4"); /* stored column by column */
    check(c, "model.cut", NULL, RSH_I64, "4,3");    /* a view of a wider tensor */
    check(c, "model.tied", NULL, RSH_F16, "6,2");
    check(c, "model.head", "model.tied", RSH_F16, "6,2"); /* shares the storage of another tensor */
    check(c, "model.mask", NULL, RSH_BOOL, "9");
    check(c, "model.scalar", NULL, RSH_I64, "");
    check(c, "model.complex", NULL, RSH_C64, "2,2");
    check(c, "model.empty", NULL, RSH_F32, "0,4");
    check(c, "model.bytes", NULL, RSH_U8, "2,3");
    check(c, "model.signed", NULL, RSH_I8, "4");
    check(c, "model.short", NULL, RSH_I16, "3");
    check(c, "model.int", NULL, RSH_I32, "3");
    check(c, "optimizer.state.0.exp_avg", NULL, RSH_F32, "5,3"); /* the keys are integers */
    check(c, "optimizer.state.1.exp_avg", NULL, RSH_F32, "5,3");
    check(c, "list.0", NULL, RSH_F32, "2");
    check(c, "list.1", NULL, RSH_U8, "3");
    assert_string_equal(what_of(c, "epoch"), "the integer 3");
    assert_string_equal(what_of(c, "object"), "a Python object of class Unknown");
    assert_string_equal(what_of(c, "sparse"), "a Python object of class _rebuild_sparse_tensor");
    assert_string_equal(what_of(c, "optimizer.param_groups.0.params"), "a list of 2 values");
    assert_string_equal(what_of(c, "big"), "an integer of 13 bytes");
    rsh_ckpt_free(c);
}

static void an_archive_is_read(void **state) {
    (void)state;
    check_plain(GOLDEN "plain.pt");
}

static void the_older_stream_is_read(void **state) {
    (void)state;
    check_plain(GOLDEN "older.pt");
}

static void a_tensor_alone_has_the_name_of_its_file(void **state) {
    (void)state;
    rsh_ckpt *c;
    must(rsh_ckpt_open(GOLDEN "tensor.pth", NULL, &c));
    assert_int_equal(c->ntensors, 1);
    check(c, "tensor", NULL, RSH_F32, "3,2");
    rsh_ckpt_free(c);
}

static void refuse(const char *path, rsh_status status, const char *words) {
    rsh_ckpt *c = NULL;
    rsh_status st = rsh_ckpt_open(path, NULL, &c);
    rsh_ckpt_free(c);
    if (st != status || !strstr(rsh_error_detail(), words))
        fail_msg("%d: \"%s\", not %d: \"%s\"", (int)st, st ? rsh_error_detail() : "", (int)status, words);
}

static void a_lazily_conjugated_tensor_is_refused(void **state) {
    (void)state;
    refuse(GOLDEN "conjugated.pt", RSH_EUNSUP, "lazily conjugated");
}

/* ---- copies of files ---- */

static char *contents(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *bytes = malloc(1 << 16);
    *n = fread(bytes, 1, 1 << 16, f);
    fclose(f);
    return bytes;
}

/* Copies a file of the golden directory into the folder, with the first `old` replaced by `new`. */
static void patched(const char *from, const char *to, const char *old, const char *new, size_t length) {
    size_t n;
    char *bytes = contents(from, &n);
    char *at = length ? memmem(bytes, n, old, length) : bytes;
    assert_non_null(at);
    memcpy(at, new, length);
    write_file(to, bytes, n);
    free(bytes);
}

/* ---- directories ---- */

static void a_directory_of_hugging_face_is_read_by_its_index(void **state) {
    (void)state;
    rsh_ckpt *c;
    must(rsh_ckpt_open(GOLDEN "hf", NULL, &c));
    assert_string_equal(rsh_ckpt_kind(c), "Hugging Face directory");
    assert_int_equal(c->ntensors, 3);
    assert_int_equal(c->nbeside, 1); /* config.json */
    check(c, "a.weight", NULL, RSH_F32, "4,3");
    check(c, "a.bias", NULL, RSH_F32, "4");
    check(c, "b.weight", NULL, RSH_BF16, "2,8");
    rsh_ckpt_free(c);
}

/* A directory as a trainer leaves it: other files of torch.save, a link, and files whose names look like those of
 * ranks. */
static void a_model_is_told_from_what_lies_beside_it(void **state) {
    (void)state;
    rsh_ckpt *c;
    char link[100];
    patched(GOLDEN "hf/pytorch_model-00001-of-00002.bin", "pytorch_model.bin", "", "", 0);
    patched(GOLDEN "tensor.pth", "rng_state_0.pth", "", "", 0);
    patched(GOLDEN "tensor.pth", "rng_state_1.pth", "", "", 0);
    patched(GOLDEN "tensor.pth", "optimizer.pt", "", "", 0);
    snprintf(link, sizeof link, "%s/latest", folder);
    assert_int_equal(symlink(".", link), 0);
    must(rsh_ckpt_open(folder, NULL, &c));
    assert_int_equal(c->ntensors, 2);
    check(c, "a.weight", NULL, RSH_F32, "4,3");
    assert_int_equal(c->nbeside, 3);
    rsh_ckpt_free(c);
}

static void sharded_tensors_of_all_ranks_are_one(void **state) {
    (void)state;
    rsh_ckpt *c;
    must(rsh_ckpt_open(GOLDEN "sharded", NULL, &c));
    assert_int_equal(c->ntensors, 4);
    check(c, "rows", NULL, RSH_F32, "10,6");
    check(c, "grid", NULL, RSH_F16, "7,5");
    check(c, "turned", NULL, RSH_I32, "6,4");
    check(c, "copied", NULL, RSH_I64, "5"); /* equal on every rank */
    assert_non_null(strstr(what_of(c, "own"), "differs between ranks"));
    rsh_ckpt_free(c);
}

static void check_model(const char *path, const char *prefix, int64_t ntensors) {
    static const struct {
        const char *name, *shape;
    } list[] = {{"rows", "10,6"},   {"nested", "9,2"},     {"both", "5,7"}, {"strided", "8,3"},
                {"uneven", "7,3"},  {"replicated", "4,2"}, {"tiny", "1,3"}};
    rsh_ckpt *c;
    must(rsh_ckpt_open(path, NULL, &c));
    assert_int_equal(c->ntensors, ntensors);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char name[50], source[50];
        snprintf(name, sizeof name, "%s%s", prefix, list[i].name);
        snprintf(source, sizeof source, "%s%s", strstr(path, "later") ? "" : "model.", list[i].name);
        check(c, name, source, RSH_F32, list[i].shape);
    }
    if (ntensors > 7) check(c, "optim.state.0.exp_avg", NULL, RSH_F64, "6,4");
    rsh_ckpt_free(c);
}

static void dtensors_of_all_ranks_are_one(void **state) {
    (void)state;
    check_model(GOLDEN "dtensor", "model.", 9);       /* two keys, so tensor names begin with them */
    check_model(GOLDEN "dtensor/model_2.pt", "", 7);  /* the file of any rank opens all ranks of its key */
    check_model(GOLDEN "dtensor_later", "", 7);       /* meshes in the form of later versions */
}

/* ---- damage ---- */

static void copy_ranks(const char *key, int from, int to) {
    for (int r = from; r < to; r++) {
        char source[100], name[50];
        snprintf(source, sizeof source, GOLDEN "dtensor/%s_%d.pt", key, r);
        snprintf(name, sizeof name, "%s_%d.pt", key, r);
        patched(source, name, "", "", 0);
    }
}

static void a_missing_rank_is_named(void **state) {
    (void)state;
    copy_ranks("model", 0, 2);
    copy_ranks("model", 3, 4);
    expect_refusal(NULL, RSH_EVALUE, "the rank file \"model\" of rank 2 is missing");
}

static void ranks_that_are_not_all_of_the_mesh_are_incomplete(void **state) {
    (void)state;
    copy_ranks("model", 0, 3);
    expect_refusal(NULL, RSH_EVALUE, "do not make a whole tensor");
}

static void a_placement_that_is_not_known_is_refused(void **state) {
    (void)state;
    patched(GOLDEN "dtensor/model_0.pt", "other_0.pt", "placement_types\nReplicate", "placement_types\nElsewhere", 25);
    expect_refusal(NULL, RSH_EUNSUP, "expected Shard or Replicate");
}

static void a_rank_whose_part_has_another_shape_is_refused(void **state) {
    (void)state;
    copy_ranks("model", 1, 4);
    patched(GOLDEN "dtensor/model_0.pt", "model_0.pt", "K\nK\x06\x86", "K\x0cK\x06\x86", 5); /* 10 rows become 12 */
    expect_refusal(NULL, RSH_EVALUE, "does not match its placements");
}

static void every_truncation_is_refused(void **state) {
    (void)state;
    static const char *const list[] = {GOLDEN "plain.pt", GOLDEN "older.pt"};
    for (int i = 0; i < 2; i++) {
        size_t n;
        char path[100], *bytes = contents(list[i], &n);
        snprintf(path, sizeof path, "%s/cut.pt", folder);
        for (size_t k = 20; k < n; k += 7) {
            rsh_ckpt *c;
            write_file("cut.pt", bytes, k);
            if (!rsh_ckpt_open(path, NULL, &c)) fail_msg("%s opens with %zu of %zu bytes", list[i], k, n);
        }
        free(bytes);
    }
}

static void a_tar_is_refused_with_advice(void **state) {
    (void)state;
    char tar[1024] = "sys_info", path[100];
    memcpy(tar + 257, "ustar", 5);
    write_file("old.pt", tar, sizeof tar);
    snprintf(path, sizeof path, "%s/old.pt", folder);
    refuse(path, RSH_EUNSUP, "load the file with a later PyTorch and save it again");
}

/* ---- hostile pickles, in the stream format, which needs no archive ---- */

static const char head[] = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.";

static void refuse_pickle(const char *pickle, size_t n, rsh_status status, const char *words) {
    char path[100], *bytes = malloc(sizeof head + n + 10);
    memcpy(bytes, head, sizeof head - 1);
    memcpy(bytes + sizeof head - 1, pickle, n);
    memcpy(bytes + sizeof head - 1 + n, "\x80\x02].", 4); /* no list of storages */
    write_file("hostile.pt", bytes, sizeof head - 1 + n + 4);
    free(bytes);
    snprintf(path, sizeof path, "%s/hostile.pt", folder);
    refuse(path, status, words);
}
#define REFUSE_PICKLE(text, status, words) refuse_pickle(text, sizeof text - 1, status, words)

static void hostile_pickles_are_refused(void **state) {
    (void)state;
    /* the dict contains itself */
    REFUSE_PICKLE("\x80\x02}q\0X\1\0\0\0ah\0s.", RSH_EVALUE, "refer to each other too often");
    REFUSE_PICKLE("\x80\x02]q\0(h\0h\0h\0e.", RSH_EVALUE, "refer to each other too often");
    REFUSE_PICKLE("\x80\x02\x8b\xff\xff\xff\x7f.", RSH_EVALUE, "unexpected end of the pickle");
    REFUSE_PICKLE("\x80\x02X\xff\xff\xff\xff.", RSH_EVALUE, "unexpected end of the pickle");
    REFUSE_PICKLE("\x80\x02Nr\xff\xff\xff\x7f.", RSH_EVALUE, "not consecutive");
    REFUSE_PICKLE("\x80\x02}(X\3\0\0\0a\0bNu.", RSH_EVALUE, "a NUL character");
    /* not tensors, so each is listed once */
    REFUSE_PICKLE("\x80\x02}(X\1\0\0\0a}X\1\0\0\0bNsX\3\0\0\0a.bNu.", RSH_OK, "");
}

/* Nested dicts with 2^40 paths to one value are rejected. */
static void doubling_is_refused(void **state) {
    (void)state;
    char text[2000] = "\x80\x02}q\0" "0";
    size_t n = 6;
    for (int i = 1; i <= 40; i++) {
        const char level[] = {'}', 'q', (char)i, '(', 'K', 1, 'h', (char)(i - 1), 'K', 2, 'h', (char)(i - 1), 'u'};
        memcpy(text + n, level, sizeof level);
        n += sizeof level;
        if (i < 40) text[n++] = '0'; /* the memo keeps the value */
    }
    text[n++] = '.';
    uint64_t live = rsh_alloc_get_stats().live;
    refuse_pickle(text, n, RSH_EVALUE, "");
    assert_int_equal(rsh_alloc_get_stats().live, live);
}

/* A thousand nested dicts are rejected. */
static void depth_is_refused(void **state) {
    (void)state;
    char text[5000] = "\x80\x02";
    size_t n = 2;
    for (int i = 0; i < 1000; i++) text[n++] = '}', text[n++] = 'K', text[n++] = 1;
    text[n++] = 'N';
    for (int i = 0; i < 1000; i++) text[n++] = 's';
    text[n++] = '.';
    refuse_pickle(text, n, RSH_EVALUE, "more than 64 deep");
}

/* A value for each byte would take 24 times as much memory as the file. */
static void a_pickle_of_nothing_but_values_is_refused(void **state) {
    (void)state;
    enum { MANY = 2 << 20 };
    static const char *const list[] = {"\x80\x02]", "\x80\x02]("};
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(list[i]);
        char *text = malloc(n + MANY + 3);
        memcpy(text, list[i], n);
        memset(text + n, '}', MANY);
        memcpy(text + n + MANY, "e.", 2);
        refuse_pickle(text, n + MANY + 2, RSH_EVALUE, "too many values for its length");
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_archive_is_read),
        cmocka_unit_test(the_older_stream_is_read),
        cmocka_unit_test(a_tensor_alone_has_the_name_of_its_file),
        cmocka_unit_test(a_lazily_conjugated_tensor_is_refused),
        cmocka_unit_test(a_directory_of_hugging_face_is_read_by_its_index),
        IN_FOLDER(a_model_is_told_from_what_lies_beside_it),
        cmocka_unit_test(sharded_tensors_of_all_ranks_are_one),
        cmocka_unit_test(dtensors_of_all_ranks_are_one),
        IN_FOLDER(a_missing_rank_is_named),
        IN_FOLDER(ranks_that_are_not_all_of_the_mesh_are_incomplete),
        IN_FOLDER(a_placement_that_is_not_known_is_refused),
        IN_FOLDER(a_rank_whose_part_has_another_shape_is_refused),
        IN_FOLDER(every_truncation_is_refused),
        IN_FOLDER(a_tar_is_refused_with_advice),
        IN_FOLDER(hostile_pickles_are_refused),
        IN_FOLDER(doubling_is_refused),
        IN_FOLDER(depth_is_refused),
        IN_FOLDER(a_pickle_of_nothing_but_values_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
