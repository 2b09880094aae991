/* Header: reads the header of a safetensors file.
 *
 * A file consists of the length of the JSON in eight bytes, the JSON, and the data.  The tensors must cover the data
 * without gaps to the end of the file.  The JSON is parsed in one pass; only the entries are kept. */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name;
    rsh_dtype dtype;
} names[] = {{"BOOL", RSH_BOOL},
             {"U8", RSH_U8},
             {"I8", RSH_I8},
             {"U16", RSH_U16},
             {"I16", RSH_I16},
             {"U32", RSH_U32},
             {"I32", RSH_I32},
             {"U64", RSH_U64},
             {"I64", RSH_I64},
             {"F16", RSH_F16},
             {"BF16", RSH_BF16},
             {"F32", RSH_F32},
             {"F64", RSH_F64},
             {"F8_E4M3", RSH_F8E4M3},
             {"F8_E5M2", RSH_F8E5M2},
             {"C64", RSH_C64},
             {"F8_E8M0", RSH_F8E8M0},
             {"F4", RSH_F4},
             {"F6_E2M3", RSH_F6E2M3},
             {"F6_E3M2", RSH_F6E3M2},
             {"F8_E4M3FNUZ", RSH_F8E4M3FNUZ},
             {"F8_E5M2FNUZ", RSH_F8E5M2FNUZ}};

static rsh_dtype find_dtype(const char *text, size_t length) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].name) == length && !memcmp(names[i].name, text, length)) return names[i].dtype;
    return RSH_DTYPE_NONE;
}

const char *rshi_safetensors_name(rsh_dtype dtype) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].dtype == dtype) return names[i].name;
    return NULL;
}

/* ---- entries ---- */

typedef struct reading {
    rshi_json json;
    rshi_header *h;
    uint64_t size;         /* bytes of the file */
    rshi_header_tensor *t; /* the current entry */
    bool has_dtype, has_shape, has_offsets;
} reading;

#define REFUSE(r, ...) return refuse(r, __VA_ARGS__)

static rsh_status refuse(const reading *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static rsh_status refuse(const reading *r, const char *format, ...) {
    rshi_text text = {0};
    char sentence[400];
    va_list list;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    rshi_text_add(&text, "tensor \"%.200s\": %s", r->t->name, sentence);
    rsh_status st = text.failed ? rshi_nomem() : rshi_json_fail(&r->json, "%s", text.data);
    rshi_text_free(&text);
    return st;
}

static rsh_status read_dtype(reading *r) {
    RSH_TRY(rshi_json_want(&r->json, RSHI_JSON_STRING));
    rsh_dtype dtype = find_dtype(r->json.text, r->json.length);
    if (dtype == RSH_DTYPE_NONE) REFUSE(r, "unknown dtype \"%.40s\"", r->json.text);
    r->t->dtype = (uint8_t)dtype;
    return RSH_OK;
}

static rsh_status read_size(reading *r, rshi_json_token t, const char *what, int64_t *out) {
    if (t != RSHI_JSON_NUMBER || !r->json.is_int || r->json.number < 0)
        REFUSE(r, "%s must be an integer from 0 to 2^63 - 1, got %.40s", what,
               t == RSHI_JSON_NUMBER ? r->json.text : "another value");
    *out = r->json.number;
    return RSH_OK;
}

static rsh_status read_shape(reading *r) {
    rshi_header *h = r->h;
    rshi_json_token t;
    rsh_status st;
    bool more;
    r->t->shape = (uint32_t)h->nshapes;
    r->t->ndim = 0;
    RSH_TRY(rshi_json_want(&r->json, RSHI_JSON_LIST));
    while (!(st = rshi_json_item(&r->json, &t, &more)) && more) {
        if (r->t->ndim == RSH_MAX_NDIM) REFUSE(r, "more than %d dims are not supported", RSH_MAX_NDIM);
        RSH_TRY(RSHI_GROW(h->shapes, h->nshapes + 1, &h->shapes_room));
        RSH_TRY(read_size(r, t, "size", &h->shapes[h->nshapes]));
        h->nshapes++;
        r->t->ndim++;
    }
    return st;
}

static rsh_status read_offsets(reading *r) {
    int64_t at[2];
    rshi_json_token t;
    RSH_TRY(rshi_json_want(&r->json, RSHI_JSON_LIST));
    for (int i = 0; i < 2; i++) {
        RSH_TRY(rshi_json_next(&r->json, &t));
        RSH_TRY(read_size(r, t, "data offset", &at[i]));
    }
    RSH_TRY(rshi_json_want(&r->json, RSHI_JSON_LIST_END));
    uint64_t data = r->size - r->h->data;
    if (at[1] < at[0]) REFUSE(r, "data_offsets end at %" PRId64 ", before their start %" PRId64, at[1], at[0]);
    if ((uint64_t)at[1] > data)
        REFUSE(r, "data_offsets end at byte %" PRId64 ", but the file has only %" PRIu64
                  " bytes of data; it is truncated or damaged", at[1], data);
    r->t->begin = r->h->data + (uint64_t)at[0];
    r->t->end = r->h->data + (uint64_t)at[1];
    return RSH_OK;
}

static rsh_status check_once(reading *r, bool *seen, const char *key) {
    if (*seen) REFUSE(r, "duplicate key \"%s\"", key);
    *seen = true;
    return RSH_OK;
}

static rsh_status read_field(reading *r) {
    const char *key = r->json.text;
    if (!strcmp(key, "dtype")) {
        RSH_TRY(check_once(r, &r->has_dtype, "dtype"));
        return read_dtype(r);
    }
    if (!strcmp(key, "shape")) {
        RSH_TRY(check_once(r, &r->has_shape, "shape"));
        return read_shape(r);
    }
    if (!strcmp(key, "data_offsets")) {
        RSH_TRY(check_once(r, &r->has_offsets, "data_offsets"));
        return read_offsets(r);
    }
    REFUSE(r, "unknown key \"%.40s\"; expected \"dtype\", \"shape\" or \"data_offsets\"", key);
}

/* Computes the size of a tensor in bytes; returns false if the number of bits overflows, or is not a multiple of 8. */
static bool dense_bytes(const rshi_header *h, const rshi_header_tensor *t, uint64_t *bytes, const char **why) {
    int64_t count, bits;
    *why = "its size in bits exceeds 2^63 - 1";
    for (int d = 0; d < t->ndim; d++)
        if (!h->shapes[t->shape + (uint32_t)d]) return *bytes = 0, true;
    if (!rshi_product(t->ndim, h->shapes + t->shape, &count)) return false;
    if (!rshi_mul(count, rsh_dtype_bits((rsh_dtype)t->dtype), &bits)) return false;
    *why = "its size is not a whole number of bytes";
    *bytes = (uint64_t)bits / 8;
    return bits % 8 == 0;
}

static rsh_status check_entry(reading *r) {
    const char *why;
    uint64_t bytes;
    if (!r->has_dtype || !r->has_shape || !r->has_offsets)
        REFUSE(r, "missing key \"%s\"", !r->has_dtype ? "dtype" : !r->has_shape ? "shape" : "data_offsets");
    if (!dense_bytes(r->h, r->t, &bytes, &why)) REFUSE(r, "%s", why);
    if (bytes != r->t->end - r->t->begin)
        REFUSE(r, "its dtype and shape need %" PRIu64 " bytes, but its data_offsets have %" PRIu64, bytes,
               r->t->end - r->t->begin);
    return RSH_OK;
}

static rsh_status read_entry(reading *r) {
    rshi_header *h = r->h;
    rsh_status st;
    bool more;
    RSH_TRY(RSHI_GROW(h->tensor, h->ntensors + 1, &h->room));
    r->t = &h->tensor[h->ntensors];
    *r->t = (rshi_header_tensor){.name = rshi_store_text(&h->store, r->json.text, r->json.length),
                                 .at = (uint32_t)r->json.at};
    if (!r->t->name) return rshi_nomem();
    r->has_dtype = r->has_shape = r->has_offsets = false;
    RSH_TRY(rshi_json_want(&r->json, RSHI_JSON_OBJECT));
    while (!(st = rshi_json_key(&r->json, &more)) && more) RSH_TRY(read_field(r));
    RSH_TRY(st);
    RSH_TRY(check_entry(r));
    h->ntensors++;
    return RSH_OK;
}

/* Adds a pair; its texts are in the header's store. */
static rsh_status add_pair(rshi_header *h, const char *key, const char *value) {
    RSH_TRY(RSHI_GROW(h->meta, h->nmeta + 1, &h->meta_room));
    rshi_ckpt_pair *p = &h->meta[h->nmeta];
    p->key = rshi_store_text(&h->store, key, strlen(key));
    p->value = rshi_store_text(&h->store, value, strlen(value));
    if (!p->key || !p->value) return rshi_nomem();
    h->nmeta++;
    return RSH_OK;
}

static rsh_status read_metadata(reading *r) {
    rsh_status st;
    bool more;
    RSH_TRY(rshi_json_want(&r->json, RSHI_JSON_OBJECT));
    while (!(st = rshi_json_key(&r->json, &more)) && more) {
        RSH_TRY(add_pair(r->h, r->json.text, ""));
        RSH_TRY(rshi_json_want(&r->json, RSHI_JSON_STRING));
        rshi_ckpt_pair *p = &r->h->meta[r->h->nmeta - 1];
        p->value = rshi_store_text(&r->h->store, r->json.text, r->json.length);
        if (!p->value) return rshi_nomem();
    }
    return st;
}

static rsh_status read_entries(reading *r) {
    rsh_status st;
    bool metadata = false, more;
    RSH_TRY(rshi_json_want(&r->json, RSHI_JSON_OBJECT));
    while (!(st = rshi_json_key(&r->json, &more)) && more) {
        if (strcmp(r->json.text, "__metadata__")) {
            RSH_TRY(read_entry(r));
            continue;
        }
        if (metadata) return rshi_json_fail(&r->json, "duplicate key \"__metadata__\"");
        metadata = true;
        RSH_TRY(read_metadata(r));
    }
    RSH_TRY(st);
    return rshi_json_want(&r->json, RSHI_JSON_END);
}

/* ---- checks of all entries ---- */

static int by_begin(const void *a, const void *b) {
    const rshi_header_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

static rsh_status check_tiling(rshi_header *h, const char *name, uint64_t size) {
    bool sorted = true;
    for (int64_t i = 1; i < h->ntensors && sorted; i++) sorted = by_begin(&h->tensor[i - 1], &h->tensor[i]) < 0;
    if (!sorted) qsort(h->tensor, (size_t)h->ntensors, sizeof *h->tensor, by_begin);
    uint64_t at = h->data;
    for (int64_t i = 0; i < h->ntensors; i++) {
        const rshi_header_tensor *t = &h->tensor[i];
        RSH_REQUIRE(t->begin >= at, RSH_EVALUE,
                    "%s: tensor \"%.200s\": its data begins at byte %" PRIu64 ", inside the data of \"%.200s\", which "
                    "ends at %" PRIu64,
                    name, t->name, t->begin, h->tensor[i - 1].name, at);
        RSH_REQUIRE(t->begin == at, RSH_EVALUE,
                    "%s: tensor \"%.200s\": its data begins at byte %" PRIu64 "; bytes %" PRIu64 " to %" PRIu64
                    " belong to no tensor",
                    name, t->name, t->begin, at, t->begin - 1);
        at = t->end;
    }
    RSH_REQUIRE(at == size, RSH_EVALUE,
                "%s: the data of the last tensor ends at byte %" PRIu64 ", but the file ends at byte %" PRIu64, name,
                at, size);
    return RSH_OK;
}

/* Checks that names are unique, with a hash table that is at most half full. */
static rsh_status check_names(const rshi_header *h, const char *name) {
    size_t nslots = 16;
    while (nslots < 2 * (size_t)h->ntensors) nslots *= 2;
    struct {
        uint32_t hash, number; /* hash of a name, and its number counted from 1; 0: free slot */
    } *slot = rshi_calloc(nslots, sizeof *slot);
    if (!slot) return rshi_nomem();
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < h->ntensors && !st; i++) {
        const char *text = h->tensor[i].name;
        uint64_t hash = rshi_hash(text, strlen(text), 0);
        size_t at = (size_t)hash & (nslots - 1);
        for (; slot[at].number; at = (at + 1) & (nslots - 1))
            if (slot[at].hash == (uint32_t)(hash >> 32) && !strcmp(h->tensor[slot[at].number - 1].name, text)) break;
        if (slot[at].number)
            st = rshi_fail(RSH_EVALUE, "%s: byte %u: duplicate tensor \"%.200s\"; the other one is at byte %u", name,
                           h->tensor[i].at, text, h->tensor[slot[at].number - 1].at);
        slot[at].hash = (uint32_t)(hash >> 32);
        slot[at].number = (uint32_t)i + 1;
    }
    rshi_free(slot);
    return st;
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const rshi_ckpt_pair *)a)->key, ((const rshi_ckpt_pair *)b)->key);
}

static rsh_status check_metadata(rshi_header *h, const char *name) {
    if (h->nmeta) qsort(h->meta, (size_t)h->nmeta, sizeof *h->meta, by_key);
    for (int64_t i = 1; i < h->nmeta; i++)
        RSH_REQUIRE(strcmp(h->meta[i - 1].key, h->meta[i].key), RSH_EVALUE,
                    "%s: duplicate key \"%.200s\" in __metadata__", name, h->meta[i].key);
    return RSH_OK;
}

/* ---- the file ---- */

static rsh_status read_length(int fd, const char *name, uint64_t size, uint64_t *length) {
    unsigned char b[8];
    RSH_REQUIRE(size >= 8, RSH_EVALUE, "%s: the file has %" PRIu64 " bytes; a safetensors file has at least 8", name,
                size);
    RSH_TRY(rshi_read_fully(fd, name, 0, b, 8));
    RSH_REQUIRE(memcmp(b, "version ", 8), RSH_EVALUE,
                "%s: this is a git-lfs pointer, not a safetensors file; run \"git lfs pull\"", name);
    *length = 0;
    for (int i = 7; i >= 0; i--) *length = *length << 8 | b[i];
    RSH_REQUIRE(b[0] != '<' || !b[7], RSH_EVALUE,
                "%s: this is an HTML or XML page, not a safetensors file; download the file again", name);
    RSH_REQUIRE(*length, RSH_EVALUE,
                "%s: not a safetensors file: its first 8 bytes must be the size of a header, and they are 0", name);
    RSH_REQUIRE(*length <= RSHI_HEADER_MOST, RSH_EVALUE,
                "%s: not a safetensors file: its first 8 bytes must be the size of a header of at most %u bytes", name,
                RSHI_HEADER_MOST);
    RSH_REQUIRE(*length <= size - 8, RSH_EVALUE,
                "%s: byte 0: the header should have %" PRIu64 " bytes, but only %" PRIu64
                " follow; the file is truncated, or is not a safetensors file",
                name, *length, size - 8);
    return RSH_OK;
}

static rsh_status read_header(int fd, const char *name, rshi_header *h) {
    struct stat s;
    uint64_t length = 0;
    reading r = {.h = h};
    if (fstat(fd, &s)) return rshi_io_fail(name);
    RSH_REQUIRE(S_ISREG(s.st_mode), RSH_EIO, "%s: not a regular file", name);
    r.size = (uint64_t)s.st_size;
    RSH_TRY(read_length(fd, name, r.size, &length));
    h->data = 8 + length;
    RSH_TRY(rshi_json_open(&r.json, fd, 8, length, name));
    rsh_status st = read_entries(&r);
    h->hash = r.json.hash;
    rshi_json_close(&r.json);
    if (!st) st = check_names(h, name);
    if (!st) st = check_tiling(h, name, r.size);
    if (!st) st = check_metadata(h, name);
    return st;
}

rsh_status rshi_header_read(const char *path, const char *name, rshi_header *out) {
    rshi_header h = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return rshi_io_fail(name);
    rsh_status st = RSHI_GROW(h.shapes, 1, &h.shapes_room); /* so that shapes is not NULL if all tensors are scalars */
    if (!st) st = read_header(fd, name, &h);
    close(fd);
    if (st)
        rshi_header_free(&h);
    else
        *out = h;
    return st;
}

void rshi_header_free(rshi_header *h) {
    rshi_free(h->tensor);
    rshi_free(h->shapes);
    rshi_free(h->meta);
    rshi_store_free(&h->store);
    *h = (rshi_header){0};
}

const char *rshi_header_meta(const rshi_header *h, const char *key) {
    rshi_ckpt_pair wanted = {.key = (char *)(uintptr_t)key};
    const rshi_ckpt_pair *found =
        h->nmeta ? bsearch(&wanted, h->meta, (size_t)h->nmeta, sizeof *h->meta, by_key) : NULL;
    return found ? found->value : NULL;
}
