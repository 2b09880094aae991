/* Meta JSON: writes the metadata of a tensor as JSON that other programs can read, and reads it back.
 *
 * All numbers are integers and are exact.  The text is written in pieces, so that a long list of shards needs no
 * memory.  Names of dtypes, devices and workers contain no characters that JSON must escape. */
#include "spec/spec.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

enum { VERSION = 1 };

static const char *const layout_name[] = {[RSH_STRIDED] = "strided", [RSH_SPARSE] = "sparse"};

static bool is_memory_format(int64_t x) { return x == RSH_CONTIGUOUS || x == RSH_CHANNELS_LAST || x == RSH_PRESERVE; }

/* ---- writing ---- */

static rsh_status save_numbers(const rsh_sink *sink, const char *key, int n, const int64_t *numbers) {
    RSH_TRY(rshi_sink_format(sink, "\"%s\": [", key));
    for (int i = 0; i < n; i++) RSH_TRY(rshi_sink_format(sink, "%s%" PRId64, i ? ", " : "", numbers[i]));
    return rshi_sink_text(sink, "]");
}

static rsh_status save_props(const rsh_sink *sink, const rsh_tensor_props *p) {
    RSH_REQUIRE(is_memory_format(p->memory_format), RSH_ERUNTIME, "unknown memory format %d", (int)p->memory_format);
    return rshi_sink_format(sink,
                            "  \"dtype\": \"%s\",\n  \"layout\": \"%s\",\n  \"requires_grad\": %s,\n  "
                            "\"memory_format\": %d,\n  \"pin_memory\": %s,\n",
                            rsh_dtype_name(p->dtype), layout_name[p->layout], p->requires_grad ? "true" : "false",
                            (int)p->memory_format, p->pin_memory ? "true" : "false");
}

static rsh_status save_shard(const rsh_sink *sink, const rsh_shard_meta *m) {
    char text[RSH_REMOTE_DEVICE_TEXT];
    RSH_TRY(rshi_sink_text(sink, "{"));
    RSH_TRY(save_numbers(sink, "offsets", m->ndim, m->offsets));
    RSH_TRY(rshi_sink_text(sink, ", "));
    RSH_TRY(save_numbers(sink, "sizes", m->ndim, m->sizes));
    if (!m->has_placement) return rshi_sink_text(sink, ", \"placement\": null}");
    rsh_remote_device_print(&m->placement, text);
    return rshi_sink_format(sink, ", \"placement\": \"%s\"}", text);
}

rsh_status rsh_tensor_meta_save(const rsh_tensor_meta *m, const rsh_sink *sink) {
    RSH_REQUIRE(m && sink && sink->write, RSH_EVALUE, "cannot save metadata: %s is NULL",
                m ? "sink" : "metadata");
    RSH_REQUIRE(is_memory_format(m->props.memory_format), RSH_ERUNTIME, "unknown memory format %d",
                (int)m->props.memory_format);
    RSH_TRY(rshi_sink_format(sink, "{\n  \"version\": %d,\n  ", VERSION));
    RSH_TRY(save_numbers(sink, "size", m->ndim, m->size));
    RSH_TRY(rshi_sink_text(sink, ",\n"));
    RSH_TRY(save_props(sink, &m->props));
    RSH_TRY(rshi_sink_text(sink, "  \"shards\": ["));
    for (int64_t i = 0; i < m->nshards; i++) {
        RSH_TRY(rshi_sink_text(sink, i ? ",\n    " : "\n    "));
        RSH_TRY(save_shard(sink, &m->shards[i]));
    }
    return rshi_sink_text(sink, m->nshards ? "\n  ]\n}\n" : "]\n}\n");
}

/* ---- reading ---- */

static rsh_status find_key(const json_t *o, const char *key, const json_t **out) {
    *out = json_object_get(o, key);
    RSH_REQUIRE(*out, RSH_ERUNTIME, "metadata: \"%s\" is missing", key);
    return RSH_OK;
}

static rsh_status load_integer(const json_t *o, const char *key, int64_t *out) {
    const json_t *x = NULL;
    RSH_TRY(find_key(o, key, &x));
    RSH_REQUIRE(json_is_integer(x), RSH_ERUNTIME, "metadata: \"%s\" must be an integer", key);
    *out = json_integer_value(x);
    return RSH_OK;
}

static rsh_status load_flag(const json_t *o, const char *key, bool *out) {
    const json_t *x = NULL;
    RSH_TRY(find_key(o, key, &x));
    RSH_REQUIRE(json_is_boolean(x), RSH_ERUNTIME, "metadata: \"%s\" must be true or false", key);
    *out = json_is_true(x);
    return RSH_OK;
}

static rsh_status load_text(const json_t *o, const char *key, const char **out) {
    const json_t *x = NULL;
    RSH_TRY(find_key(o, key, &x));
    RSH_REQUIRE(json_is_string(x) && strlen(json_string_value(x)) == json_string_length(x), RSH_ERUNTIME,
                "metadata: \"%s\" must be a string", key);
    *out = json_string_value(x);
    return RSH_OK;
}

static rsh_status load_numbers(const json_t *o, const char *key, int *n, int64_t *numbers) {
    const json_t *list = NULL;
    RSH_TRY(find_key(o, key, &list));
    RSH_REQUIRE(json_is_array(list) && json_array_size(list) <= RSH_MAX_NDIM, RSH_ERUNTIME,
                "metadata: \"%s\" must be a list of at most %d numbers", key, RSH_MAX_NDIM);
    *n = (int)json_array_size(list);
    for (int i = 0; i < *n; i++) {
        const json_t *x = json_array_get(list, (size_t)i);
        RSH_REQUIRE(json_is_integer(x) && json_integer_value(x) >= 0, RSH_ERUNTIME,
                    "metadata: entry %d of \"%s\" must be an integer, 0 or larger", i, key);
        numbers[i] = json_integer_value(x);
    }
    return RSH_OK;
}

static rsh_status load_props(const json_t *o, rsh_tensor_props *p) {
    const char *dtype = NULL, *layout = NULL;
    int64_t format = 0;
    RSH_TRY(load_text(o, "dtype", &dtype));
    RSH_REQUIRE(!rsh_dtype_parse(dtype, strlen(dtype), &p->dtype), RSH_ERUNTIME, "metadata: unknown dtype \"%.40s\"",
                dtype);
    RSH_TRY(load_text(o, "layout", &layout));
    p->layout = strcmp(layout, layout_name[RSH_STRIDED]) ? RSH_SPARSE : RSH_STRIDED;
    RSH_REQUIRE(!strcmp(layout, layout_name[p->layout]), RSH_ERUNTIME,
                "metadata: unknown storage layout \"%.40s\"; expected \"strided\" or \"sparse\"", layout);
    RSH_TRY(load_flag(o, "requires_grad", &p->requires_grad));
    RSH_TRY(load_integer(o, "memory_format", &format));
    RSH_REQUIRE(is_memory_format(format), RSH_ERUNTIME, "metadata: unknown memory format %lld", (long long)format);
    p->memory_format = (rsh_memory_format)format;
    return load_flag(o, "pin_memory", &p->pin_memory);
}

static rsh_status load_shard(const json_t *o, rsh_shard_meta *out) {
    int noffsets = 0, nsizes = 0;
    int64_t offsets[RSH_MAX_NDIM], sizes[RSH_MAX_NDIM];
    const json_t *placement = NULL;
    const char *text = NULL;
    RSH_REQUIRE(json_is_object(o), RSH_ERUNTIME, "metadata: every shard must be a JSON object");
    RSH_TRY(load_numbers(o, "offsets", &noffsets, offsets));
    RSH_TRY(load_numbers(o, "sizes", &nsizes, sizes));
    RSH_TRY(find_key(o, "placement", &placement));
    if (!json_is_null(placement)) RSH_TRY(load_text(o, "placement", &text));
    rsh_status st = rsh_shard_meta_make(noffsets, offsets, nsizes, sizes, text, out);
    return st ? rshi_fail(RSH_ERUNTIME, "metadata: %s", rsh_error_detail()) : RSH_OK;
}

static rsh_status load_shards(const json_t *list, rsh_shard_meta *shards) {
    for (size_t i = 0; i < json_array_size(list); i++) RSH_TRY(load_shard(json_array_get(list, i), &shards[i]));
    return RSH_OK;
}

static rsh_status load_meta(const json_t *o, rsh_tensor_meta **out) {
    int64_t version = 0, size[RSH_MAX_NDIM];
    int ndim = 0;
    const json_t *list = NULL;
    rsh_tensor_props props = RSH_TENSOR_PROPS_INIT;
    RSH_REQUIRE(json_is_object(o), RSH_ERUNTIME, "metadata: expected a JSON object");
    RSH_TRY(load_integer(o, "version", &version));
    RSH_REQUIRE(version == VERSION, RSH_ERUNTIME, "metadata: unsupported version %lld; this library reads version %d",
                (long long)version, VERSION);
    RSH_TRY(load_numbers(o, "size", &ndim, size));
    RSH_TRY(load_props(o, &props));
    RSH_TRY(find_key(o, "shards", &list));
    RSH_REQUIRE(json_is_array(list), RSH_ERUNTIME, "metadata: \"shards\" must be a list");
    rsh_shard_meta *shards = rshi_calloc(json_array_size(list), sizeof *shards);
    if (!shards) return rshi_nomem();
    rsh_status st = load_shards(list, shards);
    if (!st) st = rsh_tensor_meta_new((int64_t)json_array_size(list), shards, ndim, size, &props, out);
    if (st == RSH_EVALUE) st = rshi_fail(RSH_ERUNTIME, "metadata: %s", rsh_error_detail());
    rshi_free(shards);
    return st;
}

rsh_status rsh_tensor_meta_load(const char *text, size_t bytes, rsh_tensor_meta **out) {
    RSH_REQUIRE(text && out, RSH_EVALUE, "cannot load metadata: %s is NULL", text ? "out" : "text");
    json_error_t error;
    json_t *o = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!o && json_error_code(&error) == json_error_out_of_memory)
        return rshi_fail(RSH_ENOMEM, "out of memory while parsing %zu bytes of JSON", bytes);
    RSH_REQUIRE(o, RSH_ERUNTIME, "metadata: line %d: %s", error.line, error.text);
    rsh_status st = load_meta(o, out);
    json_decref(o);
    return st;
}
