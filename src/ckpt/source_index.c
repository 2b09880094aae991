/* Index: reads reshard's own index.json, which lists for each tensor the files and byte offsets of its boxes and
 * ranges.
 *
 *     {"reshard.index": 1,
 *      "tensors": {"w": {"dtype": "f32", "shape": [8, 4],
 *                        "parts": [{"file": "a.bin", "offset": 0, "box": [[0, 4], [0, 4]]},
 *                                  {"file": "b.bin", "offset": 64, "range": [16, 32]}]}}}
 *
 * A part with neither box nor range is the whole tensor. */
#include "ckpt/ckpt.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { WHOLE, BOX, RANGE };

typedef struct listed {
    int32_t file;
    int what, ndim; /* ndim: number of dims of a box */
    int64_t offset; /* byte offset; -1: missing */
    int64_t lo[RSH_MAX_NDIM], hi[RSH_MAX_NDIM]; /* bounds of a box; a range is in dim 0 */
} listed;

typedef struct indexing {
    rshi_json json;
    rsh_ckpt *c;
    const char *directory;
    int32_t index; /* index of the index.json file in the checkpoint */
    /* the current tensor */
    char *name; /* owned */
    uint64_t at;
    rsh_dtype dtype;
    int ndim; /* -1: not read yet */
    int64_t shape[RSH_MAX_NDIM];
    listed *part; /* owned: the parts; reused for the next tensor */
    int64_t nparts, room;
} indexing;

static rsh_status read_text(indexing *x, char **out) {
    RSH_TRY(rshi_json_want(&x->json, RSHI_JSON_STRING));
    *out = rshi_ckpt_copy(x->json.text);
    return *out ? RSH_OK : rshi_nomem();
}

/* Reads a list of at most `most` non-negative integers. */
static rsh_status read_numbers(rshi_json *j, int most, int *n, int64_t *out) {
    rshi_json_token token = RSHI_JSON_END;
    RSH_TRY(rshi_json_want(j, RSHI_JSON_LIST));
    for (*n = 0;; ++*n) {
        RSH_TRY(rshi_json_next(j, &token));
        if (token == RSHI_JSON_LIST_END) return RSH_OK;
        if (token != RSHI_JSON_NUMBER || !j->is_int || j->number < 0)
            return rshi_json_fail(j, "expected an integer of at least 0");
        if (*n == most) return rshi_json_fail(j, "expected at most %d numbers", most);
        out[*n] = j->number;
    }
}

/* ---- files ---- */

static rsh_status find_file(indexing *x, const char *name, int32_t *out) {
    rsh_ckpt *c = x->c;
    int64_t known = rshi_ckpt_find_file(c, name);
    if (known >= 0) return *out = (int32_t)known, RSH_OK;
    RSH_TRY(rshi_ckpt_inside(x->directory, name));
    return rshi_ckpt_add_file(c, x->directory, name, out);
}

/* ---- parts ---- */

/* Reads [lo, hi]. */
static rsh_status read_pair(rshi_json *j, int64_t *lo, int64_t *hi) {
    int64_t pair[2];
    int n;
    RSH_TRY(read_numbers(j, 2, &n, pair));
    if (n != 2 || pair[0] > pair[1]) return rshi_json_fail(j, "expected [first, end] with first <= end");
    *lo = pair[0];
    *hi = pair[1];
    return RSH_OK;
}

/* Reads [[lo, hi], ...]. */
static rsh_status read_box(rshi_json *j, listed *p) {
    rshi_json_token token = RSHI_JSON_END;
    RSH_TRY(rshi_json_want(j, RSHI_JSON_LIST));
    for (p->ndim = 0;; p->ndim++) {
        int64_t pair[2];
        int n = 0;
        RSH_TRY(rshi_json_next(j, &token));
        if (token == RSHI_JSON_LIST_END) return RSH_OK;
        if (token != RSHI_JSON_LIST) return rshi_json_fail(j, "expected [first, end] for each dim");
        if (p->ndim == RSH_MAX_NDIM) return rshi_json_fail(j, "expected at most %d dims", RSH_MAX_NDIM);
        for (;; n++) {
            RSH_TRY(rshi_json_next(j, &token));
            if (token == RSHI_JSON_LIST_END) break;
            if (n == 2 || token != RSHI_JSON_NUMBER || !j->is_int || j->number < 0)
                return rshi_json_fail(j, "expected [first, end] for each dim");
            pair[n] = j->number;
        }
        if (n != 2 || pair[0] > pair[1]) return rshi_json_fail(j, "expected [first, end] with first <= end");
        p->lo[p->ndim] = pair[0];
        p->hi[p->ndim] = pair[1];
    }
}

static rsh_status read_place(indexing *x, listed *p, const char *key) {
    rshi_json *j = &x->json;
    bool box = !strcmp(key, "box");
    if (p->what != WHOLE) return rshi_json_fail(j, "a part must have only one box or range");
    p->what = box ? BOX : RANGE;
    return box ? read_box(j, p) : read_pair(j, &p->lo[0], &p->hi[0]);
}

static rsh_status read_part_key(indexing *x, listed *p) {
    rshi_json *j = &x->json;
    if (!strcmp(j->text, "file")) {
        RSH_TRY(rshi_json_want(j, RSHI_JSON_STRING));
        return find_file(x, j->text, &p->file);
    }
    if (!strcmp(j->text, "offset")) {
        RSH_TRY(rshi_json_want(j, RSHI_JSON_NUMBER));
        if (!j->is_int || j->number < 0) return rshi_json_fail(j, "expected an offset in bytes, at least 0");
        p->offset = j->number;
        return RSH_OK;
    }
    if (!strcmp(j->text, "box") || !strcmp(j->text, "range")) return read_place(x, p, j->text);
    return rshi_json_fail(j, "unknown key \"%.60s\"; a part has \"file\", \"offset\", and \"box\" or \"range\"",
                          j->text);
}

static rsh_status read_part(indexing *x) {
    RSH_TRY(RSHI_GROW(x->part, x->nparts + 1, &x->room));
    listed p = {.file = -1, .offset = -1};
    bool more;
    rsh_status st;
    while (!(st = rshi_json_key(&x->json, &more)) && more) RSH_TRY(read_part_key(x, &p));
    if (!st && (p.file < 0 || p.offset < 0)) st = rshi_json_fail(&x->json, "a part must have \"file\" and \"offset\"");
    if (!st) x->part[x->nparts++] = p;
    return st;
}

static rsh_status read_parts(indexing *x) {
    rshi_json_token token = RSHI_JSON_END;
    RSH_TRY(rshi_json_want(&x->json, RSHI_JSON_LIST));
    for (;;) {
        RSH_TRY(rshi_json_next(&x->json, &token));
        if (token == RSHI_JSON_LIST_END) return RSH_OK;
        if (token != RSHI_JSON_OBJECT) return rshi_json_fail(&x->json, "expected an object for each part");
        RSH_TRY(read_part(x));
    }
}

/* ---- tensors ---- */

static rsh_status add_part(indexing *x, int64_t tensor, const listed *p) {
    int64_t size[RSH_MAX_NDIM], zero[RSH_MAX_NDIM] = {0};
    uint64_t at = (uint64_t)p->offset;
    if (p->what == RANGE) return rshi_ckpt_add_range(x->c, tensor, p->lo[0], p->hi[0] - p->lo[0], p->file, at);
    if (p->what == WHOLE) return rshi_ckpt_add_box(x->c, tensor, zero, x->shape, p->file, at);
    if (p->ndim != x->ndim)
        return rshi_json_fail(&x->json, "tensor \"%.100s\": a box must have %d dims, as the shape does, got %d",
                              x->name, x->ndim, p->ndim);
    for (int d = 0; d < p->ndim; d++) size[d] = p->hi[d] - p->lo[d];
    return rshi_ckpt_add_box(x->c, tensor, p->lo, size, p->file, at);
}

static rsh_status add_tensor(indexing *x) {
    int64_t tensor;
    if (x->ndim < 0 || x->dtype == RSH_DTYPE_NONE)
        return rshi_json_fail(&x->json, "tensor \"%.100s\" must have \"dtype\" and \"shape\"", x->name);
    RSH_TRY(
        rshi_ckpt_add_tensor(x->c, x->name, strlen(x->name), x->dtype, x->ndim, x->shape, x->index, x->at, &tensor));
    for (int64_t i = 0; i < x->nparts; i++) RSH_TRY(add_part(x, tensor, &x->part[i]));
    return RSH_OK;
}

static rsh_status read_tensor_key(indexing *x) {
    rshi_json *j = &x->json;
    if (!strcmp(j->text, "shape")) return read_numbers(j, RSH_MAX_NDIM, &x->ndim, x->shape);
    if (!strcmp(j->text, "parts")) return read_parts(x);
    if (strcmp(j->text, "dtype"))
        return rshi_json_fail(j, "unknown key \"%.60s\"; a tensor has \"dtype\", \"shape\" and \"parts\"", j->text);
    RSH_TRY(rshi_json_want(j, RSHI_JSON_STRING));
    if (rsh_dtype_parse(j->text, j->length, &x->dtype))
        return rshi_json_fail(j, "\"%.40s\" is not a dtype; write f32, bf16, i64 and so on", j->text);
    return RSH_OK;
}

/* Reads a tensor, after its name. */
static rsh_status read_tensor(indexing *x) {
    bool more;
    rsh_status st;
    rshi_free(x->name);
    x->name = rshi_ckpt_copy(x->json.text);
    if (!x->name) return rshi_nomem();
    x->at = x->json.at;
    x->ndim = -1;
    x->dtype = RSH_DTYPE_NONE;
    x->nparts = 0;
    RSH_TRY(rshi_json_want(&x->json, RSHI_JSON_OBJECT));
    while (!(st = rshi_json_key(&x->json, &more)) && more) RSH_TRY(read_tensor_key(x));
    return st ? st : add_tensor(x);
}

static rsh_status read_tensors(indexing *x) {
    bool more;
    rsh_status st;
    RSH_TRY(rshi_json_want(&x->json, RSHI_JSON_OBJECT));
    while (!(st = rshi_json_key(&x->json, &more)) && more) RSH_TRY(read_tensor(x));
    return st;
}

/* ---- the index ---- */

static rsh_status read_metadata(indexing *x) {
    bool more;
    rsh_status st;
    RSH_TRY(rshi_json_want(&x->json, RSHI_JSON_OBJECT));
    while (!(st = rshi_json_key(&x->json, &more)) && more) {
        char *key = rshi_ckpt_copy(x->json.text), *value = NULL;
        st = key ? read_text(x, &value) : rshi_nomem();
        if (!st) st = rshi_ckpt_add_meta(x->c, key, value);
        rshi_free(key);
        rshi_free(value);
        if (st) return st;
    }
    return st;
}

static rsh_status read_version(rshi_json *j) {
    RSH_TRY(rshi_json_want(j, RSHI_JSON_NUMBER));
    if (!j->is_int || j->number != 1)
        return rshi_json_fail(j, "version %.20s of index.json is not supported; expected 1", j->text);
    return RSH_OK;
}

static rsh_status read_index(indexing *x) {
    rshi_json *j = &x->json;
    bool more;
    rsh_status st;
    RSH_TRY(rshi_json_want(j, RSHI_JSON_OBJECT));
    while (!(st = rshi_json_key(j, &more)) && more) {
        if (!strcmp(j->text, "reshard.index"))
            RSH_TRY(read_version(j));
        else if (!strcmp(j->text, "tensors"))
            RSH_TRY(read_tensors(x));
        else if (!strcmp(j->text, "metadata"))
            RSH_TRY(read_metadata(x));
        else
            return rshi_json_fail(j, "unknown key \"%.60s\"; expected \"reshard.index\", \"tensors\" or \"metadata\"",
                                  j->text);
    }
    return st ? st : rshi_json_want(j, RSHI_JSON_END);
}

static rsh_status read_index_directory(const rshi_ckpt_place *place, rsh_ckpt *c) {
    indexing x = {.c = c, .directory = place->path};
    RSH_TRY(rshi_ckpt_inside(place->path, "index.json"));
    RSH_TRY(rshi_ckpt_add_file(c, place->path, "index.json", &x.index));
    const char *path = c->file[x.index].path;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return rshi_io_fail(path);
    rsh_status st = rshi_json_open(&x.json, fd, 0, c->file[x.index].size, path);
    if (!st) st = read_index(&x);
    c->file[x.index].hash = x.json.hash;
    rshi_json_close(&x.json);
    close(fd);
    rshi_free(x.name);
    rshi_free(x.part);
    return st ? st : rshi_ckpt_add_beside(c, place);
}

/* Other tools also write an index.json; reshard's has "reshard.index" in its first bytes. */
static bool detect_index(const rshi_ckpt_place *place) {
    char *path = NULL, head[257] = {0};
    if (!rshi_ckpt_place_has(place, "index.json", "index.json") || rshi_ckpt_join(place->path, "index.json", &path))
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd >= 0 ? pread(fd, head, sizeof head - 1, 0) : 0;
    if (fd >= 0) close(fd);
    rshi_free(path);
    return got > 0 && strstr(head, "\"reshard.index\"");
}

const rshi_ckpt_kind rshi_kind_index = {"index.json", detect_index, read_index_directory, false};
