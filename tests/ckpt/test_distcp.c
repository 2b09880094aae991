/* DCP directories that PyTorch 1.13 wrote on 1, 2 and 4 ranks (tools/golden/torch_dcp.py) are read bit by bit. */
#include "ckpt/read_whole.h"

#include <sys/mman.h>
#include <unistd.h>

#include "ckpt/archive.h"
#include "ckpt/pickle.h"

static const struct {
    const char *name;
    rsh_dtype dtype;
    int ndim;
    int64_t shape[3];
} saved[] = {
    {"rows", RSH_F32, 2, {10, 6}},    {"uneven", RSH_F32, 2, {5, 3}},     {"columns", RSH_BF16, 2, {6, 8}},
    {"grid", RSH_F16, 2, {7, 5}},     {"cube", RSH_I16, 3, {4, 3, 5}},    {"turned", RSH_I32, 2, {6, 4}},
    {"plain", RSH_F64, 2, {5, 3}},    {"transposed", RSH_F32, 2, {3, 4}}, {"view", RSH_I64, 2, {4, 3}},
    {"step", RSH_I64, 0, {0}},        {"mask", RSH_BOOL, 1, {9}},         {"bytes", RSH_U8, 2, {2, 3}},
    {"signed", RSH_I8, 1, {4}},       {"complex", RSH_C64, 2, {2, 2}},    {"empty", RSH_F32, 2, {0, 4}},
};
#define SAVED ((int64_t)(sizeof saved / sizeof *saved))

/* Returns the bytes that the script writes. */
static unsigned char expected(const char *name, rsh_dtype dtype, int64_t i) {
    return (unsigned char)((37 * i + 11 * (i >> 8) + 13 * (int64_t)strlen(name)) & (dtype == RSH_BOOL ? 1 : 255));
}

static void check_tensor(const rsh_ckpt *c, int64_t i) {
    int64_t t = rshi_ckpt_find(c, saved[i].name, strlen(saved[i].name));
    assert_true(t >= 0);
    assert_int_equal(c->tensor[t].dtype, saved[i].dtype);
    assert_int_equal(c->tensor[t].ndim, saved[i].ndim);
    for (int d = 0; d < saved[i].ndim; d++) assert_int_equal(c->tensor[t].shape[d], saved[i].shape[d]);
    unsigned char *bytes = read_whole(c, t, NULL);
    for (int64_t b = 0; b < tensor_bytes(c, t); b++)
        if (bytes[b] != expected(saved[i].name, saved[i].dtype, b))
            fail_msg("%s, byte %lld: %d", saved[i].name, (long long)b, bytes[b]);
    free(bytes);
}

static void check_directory(const char *path) {
    rsh_ckpt *c;
    must(rsh_ckpt_open(path, NULL, &c));
    assert_int_equal(c->ntensors, SAVED);
    for (int64_t i = 0; i < SAVED; i++) check_tensor(c, i);
    assert_int_equal(c->nothers, 2);
    assert_string_equal(c->other[0].name, "epoch");
    assert_non_null(strstr(c->other[1].what, "Python object"));
    rsh_ckpt_free(c);
}

static void what_one_rank_saved_is_read(void **state) {
    (void)state;
    check_directory("tests/ckpt/dcp/1");
}

static void what_two_ranks_saved_is_read(void **state) {
    (void)state;
    check_directory("tests/ckpt/dcp/2");
}

static void what_four_ranks_saved_is_read(void **state) {
    (void)state;
    check_directory("tests/ckpt/dcp/4");
}

static void the_metadata_of_newer_versions_is_read(void **state) {
    (void)state;
    check_directory("tests/ckpt/dcp/newer");
}

static void metadata_of_each_rank_is_put_together(void **state) {
    (void)state;
    check_directory("tests/ckpt/dcp/apart");
}

/* ---- Megatron-Core ---- */

static void check_named(const rsh_ckpt *c, const char *name, rsh_dtype dtype, int ndim, const int64_t *shape) {
    int64_t t = rshi_ckpt_find(c, name, strlen(name));
    assert_true(t >= 0);
    assert_int_equal(c->tensor[t].dtype, dtype);
    assert_int_equal(c->tensor[t].ndim, ndim);
    for (int d = 0; d < ndim; d++) assert_int_equal(c->tensor[t].shape[d], shape[d]);
    unsigned char *bytes = read_whole(c, t, NULL);
    for (int64_t b = 0; b < tensor_bytes(c, t); b++)
        if (bytes[b] != expected(name, dtype, b)) fail_msg("%s, byte %lld: %d", name, (long long)b, bytes[b]);
    free(bytes);
}

/* Flattened optimizer states get the shapes of their parameters again. */
static void check_mcore(const char *path) {
    rsh_ckpt *c;
    must(rsh_ckpt_open(path, NULL, &c));
    assert_string_equal(rsh_ckpt_kind(c), "DCP directory");
    assert_int_equal(c->ntensors, 3);
    check_named(c, "decoder.layers.weight", RSH_BF16, 3, (int64_t[]){2, 6, 4});
    check_named(c, "optimizer.state.exp_avg", RSH_F32, 3, (int64_t[]){2, 8, 6});
    check_named(c, "optimizer.state.exp_avg_sq", RSH_F32, 2, (int64_t[]){6, 4});
    assert_int_equal(c->nothers, 3);
    assert_string_equal(c->other[0].name, "decoder.layers._extra_state/shard_0_1");
    assert_string_equal(c->other[1].name, "common.iteration");
    assert_string_equal(c->other[2].what, "a Python object of class Namespace");
    assert_string_equal(c->beside[0].key, "common.pt");
    rsh_ckpt_free(c);
}

static void what_megatron_core_saves_is_read(void **state) {
    (void)state;
    check_mcore("tests/ckpt/dcp/mcore/iter_0000100");
    check_mcore("tests/ckpt/dcp/mcore"); /* opens the latest iteration */
}

static void a_transposed_tensor_has_an_order_and_transposed_chunks_are_columns(void **state) {
    (void)state;
    rsh_ckpt *c;
    must(rsh_ckpt_open("tests/ckpt/dcp/2", NULL, &c));
    const rshi_ckpt_tensor *t = &c->tensor[rshi_ckpt_find(c, "transposed", 10)];
    assert_string_equal(rsh_layout_text(t->layout), "f32[3, 4] order(1,0)");
    assert_int_equal(t->nparts, 1);
    t = &c->tensor[rshi_ckpt_find(c, "turned", 6)];
    assert_int_equal(t->nparts, 8); /* one part for each column of two chunks */
    rsh_ckpt_free(c);
}

/* ---- pickles ---- */

static rsh_status read_pickle(const char *bytes, size_t n, rshi_pickle *p) {
    rsh_status st = rshi_pickle_read(bytes, n, "test", 0, p);
    if (st) rshi_pickle_free(p);
    return st;
}
#define PICKLE(text) text, sizeof text - 1

static void a_class_that_is_not_known_is_opaque_and_never_called(void **state) {
    (void)state;
    rshi_pickle p;
    must(read_pickle(PICKLE("\x80\x02" "cos\nsystem\nX\x02\0\0\0idq\0\x85R."), &p));
    assert_true(rshi_pickle_is(p.root, RSHI_CLASS_OPAQUE));
    assert_int_equal(p.root->n, 1); /* only the class of the object is kept */
    assert_memory_equal(p.root->item[0]->text, "system", 6);
    rshi_pickle_free(&p);
}

static void getattr_reaches_memory_formats_only(void **state) {
    (void)state;
    rshi_pickle p;
    must(read_pickle(PICKLE("\x80\x02"
                            "cbuiltins\ngetattr\nctorch\nSize\nX\x01\0\0\0x\x86R."),
                     &p));
    assert_true(rshi_pickle_is(p.root, RSHI_CLASS_OPAQUE));
    rshi_pickle_free(&p);
}

static void both_class_paths_of_versions_are_known(void **state) {
    (void)state;
    static const char *const texts[] = {
        "\x80\x04" "ctorch.distributed._shard.checkpoint.metadata\nBytesStorageMetadata\n)\x81.",
        "\x80\x04" "ctorch.distributed.checkpoint.metadata\nBytesStorageMetadata\n)\x81."};
    for (int i = 0; i < 2; i++) {
        rshi_pickle p;
        must(read_pickle(texts[i], strlen(texts[i]), &p));
        assert_true(rshi_pickle_is(p.root, RSHI_CLASS_BYTES_STORAGE));
        rshi_pickle_free(&p);
    }
}

static void a_pickle_that_breaks_its_own_rules_is_refused(void **state) {
    (void)state;
    rshi_pickle p;
    assert_int_equal(read_pickle(PICKLE(""), &p), RSH_EVALUE);
    assert_int_equal(read_pickle(PICKLE("\x80\x02."), &p), RSH_EVALUE);        /* no value to return */
    assert_int_equal(read_pickle(PICKLE("NN."), &p), RSH_EVALUE);              /* two values */
    assert_int_equal(read_pickle(PICKLE("(."), &p), RSH_EVALUE);               /* a mark is not a value */
    assert_int_equal(read_pickle(PICKLE("t."), &p), RSH_EVALUE);               /* there is no mark */
    assert_int_equal(read_pickle(PICKLE("h\0."), &p), RSH_EVALUE);             /* there is no such value */
    assert_int_equal(read_pickle(PICKLE("Nr\xff\xff\xff\x7f."), &p), RSH_EVALUE);
    assert_int_equal(read_pickle(PICKLE("Na."), &p), RSH_EVALUE);              /* there is no list */
    assert_int_equal(read_pickle(PICKLE("X\xff\xff\xff\xff" "abc."), &p), RSH_EVALUE);
    assert_int_equal(read_pickle(PICKLE("\x8d\xff\xff\xff\xff\xff\xff\xff\xff" "abc."), &p), RSH_EVALUE);
    assert_int_equal(read_pickle(PICKLE("\x8a\x09" "12345678."), &p), RSH_EVALUE);
    assert_int_equal(read_pickle(PICKLE("\x8b\xff\xff\xff\x7f" "1."), &p), RSH_EVALUE);
    assert_int_equal(read_pickle(PICKLE("\x80\x01N."), &p), RSH_EVALUE);
    assert_int_equal(read_pickle(PICKLE("i."), &p), RSH_EVALUE); /* an opcode that calls */
}

static void integers_of_any_width_are_read(void **state) {
    (void)state;
    static const char bytes[] = "(K\xffM\xff\xffJ\xff\xff\xff\xff\x8a\x00\x8a\x01\x80\x8a\x05\x00\x00\x00\x00\x01t.";
    static const int64_t want[] = {255, 65535, -1, 0, -128, (int64_t)1 << 32};
    rshi_pickle p;
    must(read_pickle(bytes, sizeof bytes - 1, &p));
    assert_int_equal(p.root->n, 6);
    for (int i = 0; i < 6; i++) assert_int_equal(p.root->item[i]->number, want[i]);
    rshi_pickle_free(&p);
}

/* A pickle with one tuple of a thousand values, and a thousand objects that are made from it. */
static void memory_grows_with_the_length_of_a_pickle_alone(void **state) {
    (void)state;
    enum { MANY = 1000 };
    static const char class[] = "ctorch._utils\n_rebuild_tensor_v2\nq\0(", reduce[] = {'h', 0, 'h', 1, 'R'};
    char bytes[100 + 6 * MANY];
    size_t n = sizeof class - 1;
    rshi_pickle p;
    memcpy(bytes, class, n);
    memset(bytes + n, 'N', MANY);
    n += MANY;
    n += (size_t)sprintf(bytes + n, "tq\1(");
    for (int i = 0; i < MANY; i++, n += sizeof reduce) memcpy(bytes + n, reduce, sizeof reduce);
    bytes[n++] = 't';
    uint64_t before = rsh_alloc_get_stats().allocations;
    assert_int_equal(read_pickle(bytes, n, &p), RSH_EVALUE); /* it is truncated */
    assert_in_range(rsh_alloc_get_stats().allocations - before, 1, 40);
}

/* ---- archives ---- */

/* Appends little-endian numbers and texts. */
typedef struct writing {
    unsigned char bytes[600];
    size_t n;
} writing;

static void add(writing *w, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++) w->bytes[w->n++] = i < 8 ? (unsigned char)(number >> 8 * i) : 0;
}

static void add_text(writing *w, const char *text) {
    memcpy(w->bytes + w->n, text, strlen(text));
    w->n += strlen(text);
}

/* Writes an entry whose sizes and offset are in ZIP64's extra field, as if they exceeded 4 GiB. */
static void write_zip64(writing *w, unsigned method) {
    enum { LOCAL = 4 }; /* bytes before the archive's first entry */
    add(w, 0, LOCAL);
    add(w, 0x04034b50, 4);
    add(w, 0, 4), add(w, method, 2), add(w, 0, 8), add(w, ~UINT64_C(0), 8), add(w, 6, 2), add(w, 3, 2);
    add_text(w, "a/word");
    add_text(w, "pad");
    add_text(w, "hello");
    uint64_t directory = w->n;
    add(w, 0x02014b50, 4);
    add(w, 0, 6), add(w, method, 2), add(w, 0, 8), add(w, ~UINT64_C(0), 8), add(w, 6, 2), add(w, 4 + 2 + 4 + 24, 2),
        add(w, 0, 2);
    add(w, 0, 8), add(w, 0xffffffff, 4);
    add_text(w, "a/word");
    add(w, 7, 2), add(w, 2, 2), add(w, 0, 2);                             /* a field of another program */
    add(w, 1, 2), add(w, 24, 2), add(w, 5, 8), add(w, 5, 8), add(w, LOCAL, 8); /* the field of ZIP64 */
    uint64_t end = w->n;
    add(w, 0x06064b50, 4), add(w, 44, 8), add(w, 0, 12), add(w, 1, 8), add(w, 1, 8), add(w, end - directory, 8),
        add(w, directory, 8);
    add(w, 0x07064b50, 4), add(w, 0, 4), add(w, end, 8), add(w, 1, 4);
    add(w, 0x06054b50, 4), add(w, 0, 4), add(w, 0xffff, 2), add(w, 0xffff, 2), add(w, ~UINT64_C(0), 8), add(w, 0, 2);
}

static rsh_status find_word(const writing *w, size_t bytes, rshi_file_span *out) {
    int fd = memfd_create("archive", 0);
    assert_int_equal(write(fd, "before", 6), 6); /* the archive may start anywhere in its file */
    assert_int_equal(write(fd, w->bytes, w->n), w->n);
    rshi_archive a;
    rsh_status st = rshi_archive_open(&(rshi_file_span){fd, "test", 6, bytes}, &a);
    const char *name = st ? NULL : rshi_archive_ending(&a, "/word");
    if (!st) st = name ? rshi_archive_find(&a, name, out) : RSH_EKEY;
    rshi_archive_close(&a);
    close(fd);
    return st;
}

static void entries_beyond_4_gib_are_found_by_zip64(void **state) {
    (void)state;
    writing w = {.n = 0}, packed = {.n = 0};
    rshi_file_span entry;
    write_zip64(&w, 0);
    must(find_word(&w, w.n, &entry));
    assert_int_equal(entry.bytes, 5);
    assert_memory_equal(w.bytes + entry.at - 6, "hello", 5);
    for (size_t n = 0; n < w.n; n++) assert_int_not_equal(find_word(&w, n, &entry), RSH_OK);
    write_zip64(&packed, 8);
    assert_int_equal(find_word(&packed, packed.n, &entry), RSH_EUNSUP);
}

/* ---- directories that are damaged ---- */

/* A directory with a copy of tests/ckpt/dcp/2. */
static char place[] = "/tmp/reshard-distcp-XXXXXX";

static int copy_directory(void **state) {
    (void)state;
    char command[200];
    strcpy(place, "/tmp/reshard-distcp-XXXXXX");
    assert_non_null(mkdtemp(place));
    snprintf(command, sizeof command, "cp tests/ckpt/dcp/2/.metadata tests/ckpt/dcp/2/*.distcp %s", place);
    return system(command);
}

static int remove_directory(void **state) {
    (void)state;
    char command[200];
    snprintf(command, sizeof command, "rm -r %s", place);
    return system(command);
}

static void refuse_with(rsh_status status, const char *word) {
    rsh_ckpt *c;
    rsh_status st = rsh_ckpt_open(place, NULL, &c);
    if (st != status || !strstr(rsh_error_detail(), word)) fail_msg("%d: %s", (int)st, rsh_error_detail());
}

/* Replaces the first bytes that equal `from`. */
static void patch(const char *file, const char *from, const char *to, size_t n) {
    char path[200], *bytes = malloc(100000), *at;
    snprintf(path, sizeof path, "%s/%s", place, file);
    FILE *f = fopen(path, "r+b");
    size_t length = fread(bytes, 1, 100000, f);
    at = memmem(bytes, length, from, n);
    assert_non_null(at);
    fseek(f, at - bytes, SEEK_SET);
    assert_int_equal(fwrite(to, 1, n, f), n);
    fclose(f);
    free(bytes);
}

static void a_missing_file_is_named(void **state) {
    (void)state;
    char path[200];
    snprintf(path, sizeof path, "%s/__1_0.distcp", place);
    unlink(path);
    refuse_with(RSH_EIO, "__1_0.distcp");
}

static void a_file_that_was_cut_off_is_refused(void **state) {
    (void)state;
    char path[200];
    snprintf(path, sizeof path, "%s/__1_0.distcp", place);
    assert_int_equal(truncate(path, 3000), 0);
    refuse_with(RSH_EVALUE, "but the file ends at byte 3000");
}

static void a_file_outside_the_directory_is_refused(void **state) {
    (void)state;
    patch(".metadata", "__1_0.distcp", "../../secret", 12);
    refuse_with(RSH_EVALUE, "../../secret");
}

static void a_damaged_archive_is_refused_with_its_place(void **state) {
    (void)state;
    patch("__1_0.distcp", "PK\x05\x06", "PK\x05\x07", 4);
    refuse_with(RSH_EVALUE, "__1_0.distcp: byte ");
}

static void a_compressed_entry_is_not_supported(void **state) {
    (void)state;
    patch("__1_0.distcp", "PK\x01\x02\0\0\0\0\x08\x08\0\0", "PK\x01\x02\0\0\0\0\x08\x08\x08\0", 12);
    refuse_with(RSH_EUNSUP, "compressed");
}

static void another_dtype_than_the_metadata_says_is_refused(void **state) {
    (void)state;
    patch("__1_0.distcp", "FloatStorage", "QuantStorage", 12);
    refuse_with(RSH_EVALUE, "QuantStorage");
}

static void a_text_in_place_of_a_tensor_is_refused(void **state) {
    (void)state;
    patch("__1_0.distcp", "\x80\x02" "ctorch._utils\n_rebuild", "\x80\x02" "X\x0e\0\0\0AAAAAAAAAAAAAA.", 22);
    refuse_with(RSH_EVALUE, "expected a single tensor");
}

/* PyTorch 2 stores the lazy operations of a tensor; replaces the end of a pickle of 1.13 by one that has them. */
static void patch_end(const char *end, size_t n) {
    static const char hooks[] = "\x89" "ccollections\nOrderedDict\nq\x08)Rq\ttq\nRq\x0b.";
    char bytes[sizeof hooks - 1] = {0};
    memcpy(bytes, end, n);
    patch("__1_0.distcp", hooks, bytes, sizeof bytes);
}

static void a_lazily_conjugated_tensor_is_refused(void **state) {
    (void)state;
    patch_end(PICKLE("\x89}}X\x04\0\0\0conj\x88stR."));
    refuse_with(RSH_EUNSUP, "lazily conjugated");
    assert_non_null(strstr(rsh_error_detail(), "save tensor.resolve_conj() instead"));
}

static void a_lazily_negated_tensor_is_refused(void **state) {
    (void)state;
    patch_end(PICKLE("\x89}}X\x03\0\0\0neg\x88stR."));
    refuse_with(RSH_EUNSUP, "lazily negated");
}

/* Many objects could share one state, and each of them would search it. */
static void an_object_with_too_many_fields_is_refused(void **state) {
    (void)state;
    enum { MANY = 20000 };
    char *bytes = malloc(100 + 4 * MANY);
    size_t n = (size_t)sprintf(bytes, "ctorch.distributed.checkpoint.metadata\nMetadataIndex\n)\x81}(");
    rshi_pickle p;
    for (int i = 0; i < MANY; i++, n += 4) memcpy(bytes + n, "M\1\1N", 4);
    memcpy(bytes + n, "ub.", 3);
    assert_int_equal(read_pickle(bytes, n + 3, &p), RSH_EVALUE);
    assert_non_null(strstr(rsh_error_detail(), "more than 64 fields"));
    free(bytes);
}

#define DAMAGE(test) cmocka_unit_test_setup_teardown(test, copy_directory, remove_directory)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_rank_saved_is_read),
        cmocka_unit_test(what_two_ranks_saved_is_read),
        cmocka_unit_test(what_four_ranks_saved_is_read),
        cmocka_unit_test(the_metadata_of_newer_versions_is_read),
        cmocka_unit_test(metadata_of_each_rank_is_put_together),
        cmocka_unit_test(what_megatron_core_saves_is_read),
        cmocka_unit_test(a_transposed_tensor_has_an_order_and_transposed_chunks_are_columns),
        cmocka_unit_test(a_class_that_is_not_known_is_opaque_and_never_called),
        cmocka_unit_test(getattr_reaches_memory_formats_only),
        cmocka_unit_test(both_class_paths_of_versions_are_known),
        cmocka_unit_test(a_pickle_that_breaks_its_own_rules_is_refused),
        cmocka_unit_test(integers_of_any_width_are_read),
        cmocka_unit_test(entries_beyond_4_gib_are_found_by_zip64),
        cmocka_unit_test(memory_grows_with_the_length_of_a_pickle_alone),
        cmocka_unit_test(an_object_with_too_many_fields_is_refused),
        DAMAGE(a_lazily_conjugated_tensor_is_refused),
        DAMAGE(a_lazily_negated_tensor_is_refused),
        DAMAGE(a_missing_file_is_named),
        DAMAGE(a_file_that_was_cut_off_is_refused),
        DAMAGE(a_file_outside_the_directory_is_refused),
        DAMAGE(a_damaged_archive_is_refused_with_its_place),
        DAMAGE(a_compressed_entry_is_not_supported),
        DAMAGE(another_dtype_than_the_metadata_says_is_refused),
        DAMAGE(a_text_in_place_of_a_tensor_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
