/* Reads golden files: fields, kinds of errors, boxes and specs. */
#include "golden.h"

json_t *golden_load(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "tests/golden/%s.json", name);
    json_error_t error;
    json_t *file = json_load_file(path, 0, &error);
    if (!file) fail_msg("%s: %s (the working directory must be the source tree)", path, error.text);
    json_t *cases = json_incref(json_object_get(file, "cases"));
    json_decref(file);
    return cases;
}

const char *golden_text(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

int64_t golden_number(const json_t *object, const char *key, int64_t otherwise) {
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

int golden_numbers(const json_t *list, int64_t *out) {
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n && i < RSH_MAX_NDIM; i++) out[i] = json_integer_value(json_array_get(list, i));
    return (int)n;
}

int golden_ints(const json_t *list, int *out) {
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n && i < MOST_SHARDS; i++) out[i] = (int)json_integer_value(json_array_get(list, i));
    return (int)n;
}

bool golden_is(const json_t *object, const char *key, const char *text) {
    return strcmp(golden_text(object, key), text) == 0;
}

rsh_status golden_kind(const char *kind) {
    static const struct {
        const char *name;
        rsh_status status;
    } kinds[] = {{"OK", RSH_OK},          {"VALUE", RSH_EVALUE},    {"ASSERT", RSH_EVALUE}, {"DIVISION", RSH_EVALUE},
                 {"TYPE", RSH_ETYPE},     {"KEY", RSH_EKEY},        {"INDEX", RSH_EINDEX},  {"ATTR", RSH_EATTR},
                 {"NOTIMPL", RSH_EUNSUP}, {"RUNTIME", RSH_ERUNTIME}};
    for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, kind) == 0) return kinds[i].status;
    return kind ? RSH_EIO : RSH_OK; /* if PyTorch aborted or hung, no particular status is expected */
}

static const char *error_of(const json_t *answer) { return json_string_value(json_object_get(answer, "error")); }

rsh_status golden_expected(const json_t *the_case, int rank, bool collective) {
    const json_t *answer = json_object_get(the_case, "answer"), *ranks = json_object_get(answer, "ranks");
    const char *ours = json_string_value(json_object_get(the_case, "ours")), *error = error_of(answer);
    if (ours) return golden_kind(strcmp(ours, "boxes") == 0 ? "OK" : ours);
    if (!error && !collective) error = error_of(json_array_get(ranks, (size_t)rank));
    for (size_t i = 0; collective && !error && i < json_array_size(ranks); i++) {
        error = error_of(json_array_get(ranks, i));
        if (error && strcmp(error, "HANG") == 0) error = NULL; /* this rank waited for the one with the error */
    }
    return golden_kind(error);
}

bool golden_answered(const json_t *the_case) {
    const json_t *answer = json_object_get(the_case, "answer"), *ranks = json_object_get(answer, "ranks");
    bool answered = !error_of(answer) && !json_object_get(the_case, "lossy");
    for (size_t i = 0; i < json_array_size(ranks); i++) answered &= !error_of(json_array_get(ranks, i));
    return answered;
}

/* ---- boxes and specs ---- */

rsh_status golden_box(const json_t *box, rsh_shard_meta *out) {
    int64_t offsets[RSH_MAX_NDIM], sizes[RSH_MAX_NDIM];
    int no = golden_numbers(json_array_get(box, 0), offsets), ns = golden_numbers(json_array_get(box, 1), sizes);
    return rsh_shard_meta_make(no, offsets, ns, sizes, json_string_value(json_array_get(box, 2)), out);
}

rsh_status golden_boxes(const json_t *list, int64_t *n, rsh_shard_meta *out) {
    *n = (int64_t)json_array_size(list);
    EXPECT(*n <= MOST_SHARDS);
    for (int64_t i = 0; i < *n; i++) RSH_TRY(golden_box(json_array_get(list, (size_t)i), &out[i]));
    return RSH_OK;
}

rsh_status golden_spec(const json_t *spec, rsh_spec **out) {
    if (golden_is(spec, "kind", "boxes")) {
        rsh_shard_meta boxes[MOST_SHARDS];
        int64_t n;
        RSH_TRY(golden_boxes(json_object_get(spec, "shards"), &n, boxes));
        return rsh_spec_boxes(n, boxes, out);
    }
    rsh_remote_device placements[MOST_SHARDS];
    const json_t *texts = json_object_get(spec, "placements");
    EXPECT(json_array_size(texts) <= MOST_SHARDS);
    for (size_t i = 0; i < json_array_size(texts); i++)
        RSH_TRY(rsh_remote_device_parse(json_string_value(json_array_get(texts, i)), &placements[i]));
    return rsh_spec_chunk((int)golden_number(spec, "dim", 0), (int64_t)json_array_size(texts), placements, out);
}

static int by_offsets(const void *left, const void *right) {
    const rsh_shard_meta *a = left, *b = right;
    for (int d = 0; d < a->ndim; d++)
        if (a->offsets[d] != b->offsets[d]) return a->offsets[d] < b->offsets[d] ? -1 : 1;
    return 0;
}

int64_t golden_settle(int64_t n, rsh_shard_meta *boxes) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++)
        if (rsh_shard_meta_count(&boxes[i]) > 0) boxes[kept++] = boxes[i];
    qsort(boxes, (size_t)kept, sizeof *boxes, by_offsets);
    return kept;
}

static bool same_box(const rsh_shard_meta *a, const rsh_shard_meta *b) {
    size_t bytes = (size_t)a->ndim * sizeof *a->sizes;
    char left[RSH_REMOTE_DEVICE_TEXT] = "", right[RSH_REMOTE_DEVICE_TEXT] = "";
    if (a->has_placement) rsh_remote_device_print(&a->placement, left);
    if (b->has_placement) rsh_remote_device_print(&b->placement, right);
    return a->ndim == b->ndim && !memcmp(a->offsets, b->offsets, bytes) && !memcmp(a->sizes, b->sizes, bytes) &&
           !strcmp(left, right);
}

static rsh_status compare_settled(int64_t na, rsh_shard_meta *a, int64_t n, const rsh_shard_meta *boxes) {
    rsh_shard_meta b[MOST_SHARDS];
    EXPECT(n <= MOST_SHARDS);
    memcpy(b, boxes, (size_t)n * sizeof *b);
    na = golden_settle(na, a), n = golden_settle(n, b);
    EXPECT(na == n);
    for (int64_t i = 0; i < n; i++) EXPECT(same_box(&a[i], &b[i]));
    return RSH_OK;
}

rsh_status golden_compare_boxes(const json_t *list, int64_t n, const rsh_shard_meta *boxes) {
    rsh_shard_meta a[MOST_SHARDS];
    int64_t na;
    RSH_TRY(golden_boxes(list, &na, a));
    return compare_settled(na, a, n, boxes);
}

int64_t golden_model(const json_t *spec, int ndim, const int64_t *size, rsh_shard_meta *out) {
    int64_t n = 0;
    if (golden_is(spec, "kind", "boxes")) return golden_boxes(json_object_get(spec, "shards"), &n, out) ? -1 : n;
    const json_t *texts = json_object_get(spec, "placements");
    int dim = (int)golden_number(spec, "dim", 0);
    dim += dim < 0 ? ndim : 0;
    n = (int64_t)json_array_size(texts);
    int64_t step = (size[dim] + n - 1) / n;
    for (int64_t c = 0; c < n; c++) {
        rsh_shard_meta *box = &out[c];
        *box = (rsh_shard_meta){.ndim = ndim, .has_placement = true};
        memcpy(box->sizes, size, (size_t)ndim * sizeof *size);
        int64_t start = step * c < size[dim] ? step * c : size[dim],
                end = step * (c + 1) < size[dim] ? step * (c + 1) : size[dim];
        box->offsets[dim] = start, box->sizes[dim] = end - start;
        if (rsh_remote_device_parse(json_string_value(json_array_get(texts, (size_t)c)), &box->placement)) return -1;
    }
    return n;
}
