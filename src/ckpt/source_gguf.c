/* GGUF: reads the tensors of a .gguf file, or of all files NAME-00001-of-00003.gguf of one model.
 *
 * Unquantised types are dtypes.  A quantised tensor has dtype u8 and a packing: its last size counts the bytes of a
 * row. */
#include "ckpt/gguf.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_TEXT 65536 /* most bytes of a name or key; if one is longer, the file is damaged */

/* A tensor of the file. */
typedef struct listed {
    const char *name; /* in the checkpoint's store */
    const rshi_packing *type;
    int ndim;
    int64_t size[4]; /* sizes; the last size of a quantised tensor is in bytes */
    uint64_t offset; /* offset from the beginning of the data */
    uint64_t entry;  /* byte offset of the tensor's entry in the header */
} listed;

typedef struct scanning {
    rsh_ckpt *c;
    FILE *file;
    const char *path;
    char *text;     /* the last name or key that was read, up to MOST_TEXT bytes */
    int32_t number; /* index of the file */
    uint64_t align; /* alignment of the data in bytes */
    listed *list;   /* owned */
    int64_t n, room;
} scanning;

static rsh_status read_header_bytes(scanning *s, void *to, size_t n) {
    if (fread(to, 1, n, s->file) == n) return RSH_OK;
    return rshi_fail(RSH_EVALUE, "%s: byte %ld: unexpected end of file in the header; the file is truncated", s->path,
                     ftell(s->file));
}

static rsh_status read_integer(scanning *s, int bytes, uint64_t *out) {
    unsigned char b[8];
    RSH_TRY(read_header_bytes(s, b, (size_t)bytes));
    *out = 0;
    for (int i = bytes - 1; i >= 0; i--) *out = *out << 8 | b[i];
    return RSH_OK;
}

/* Skips bytes by reading them, so that the end of the file is noticed. */
static rsh_status skip_bytes(scanning *s, uint64_t n) {
    char waste[4096];
    for (size_t k; n; n -= k) {
        k = n < sizeof waste ? (size_t)n : sizeof waste;
        RSH_TRY(read_header_bytes(s, waste, k));
    }
    return RSH_OK;
}

static rsh_status skip_value(scanning *s, uint64_t type, int depth) {
    static const int bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    uint64_t n, element;
    RSH_REQUIRE(type < 13 && depth < 4, RSH_EVALUE, "%s: byte %ld: unknown value type %" PRIu64 "; the file is damaged",
                s->path, ftell(s->file), type);
    if (bytes[type]) return skip_bytes(s, (uint64_t)bytes[type]);
    if (type == 8) {
        RSH_TRY(read_integer(s, 8, &n));
        return skip_bytes(s, n);
    }
    RSH_TRY(read_integer(s, 4, &element));
    RSH_TRY(read_integer(s, 8, &n));
    for (; n; n--) RSH_TRY(skip_value(s, element, depth + 1));
    return RSH_OK;
}

/* ---- metadata ---- */

static rsh_status read_text(scanning *s, const char *what) {
    uint64_t n;
    RSH_TRY(read_integer(s, 8, &n));
    RSH_REQUIRE(n < MOST_TEXT, RSH_EVALUE, "%s: byte %ld: a %s must have fewer than %d bytes, got %" PRIu64, s->path,
                ftell(s->file), what, MOST_TEXT, n);
    RSH_TRY(read_header_bytes(s, s->text, (size_t)n));
    s->text[n] = 0;
    RSH_REQUIRE(strlen(s->text) == n, RSH_EVALUE, "%s: byte %ld: a %s must not contain NUL bytes", s->path,
                ftell(s->file), what);
    return RSH_OK;
}

static bool is_split_key(const char *key) {
    return !strcmp(key, "split.no") || !strcmp(key, "split.count") || !strcmp(key, "split.tensors.count");
}

/* Reads the value of a key if it is u32 or i32; skips a value of another type and returns 0. */
static rsh_status read_value(scanning *s, uint64_t type, uint64_t *out) {
    *out = 0;
    return type == 4 || type == 5 ? read_integer(s, 4, out) : skip_value(s, type, 0);
}

static rsh_status keep_pair(scanning *s, const char *key, uint64_t at) {
    struct rshi_gguf *g = s->c->gguf;
    RSH_TRY(RSHI_GROW(g->pair, g->npairs + 1, &g->room));
    char *name = rshi_store_text(&s->c->store, key, strlen(key));
    if (!name) return rshi_nomem();
    RSH_TRY(rshi_name_table_add(&g->keys, name, g->npairs));
    g->pair[g->npairs++] = (rshi_gguf_pair){s->number, at, (uint64_t)ftell(s->file) - at};
    return RSH_OK;
}

static rsh_status read_pair(scanning *s) {
    struct rshi_gguf *g = s->c->gguf;
    uint64_t at = (uint64_t)ftell(s->file), type, value;
    RSH_TRY(read_text(s, "key"));
    bool alignment = !strcmp(s->text, "general.alignment");
    RSH_TRY(read_integer(s, 4, &type));
    RSH_TRY(read_value(s, type, &value));
    if (!s->number && !strcmp(s->text, "split.tensors.count")) g->tensors = value;
    if (alignment && type == 4) {
        RSH_REQUIRE(value && value <= 1 << 20 && !(value & (value - 1)), RSH_EVALUE,
                    "%s: byte %ld: general.alignment must be a power of 2 up to 1048576, got %" PRIu64, s->path,
                    ftell(s->file), value);
        s->align = value;
    }
    if (is_split_key(s->text) || (alignment && s->number) || rshi_name_table_find(&g->keys, s->text) >= 0)
        return RSH_OK;
    return keep_pair(s, s->text, at);
}

/* ---- tensors ---- */

static rsh_status refuse_tensor(const scanning *s, const char *name, const char *why) {
    return rshi_fail(RSH_EVALUE, "%.300s: byte %ld: tensor \"%.200s\": %s", s->path, ftell(s->file), name, why);
}

/* Reads the sizes, which the file lists from the fastest dim to the slowest. */
static rsh_status read_sizes(scanning *s, uint64_t ndim, uint64_t *size) {
    for (uint64_t d = ndim; d-- > 0;) {
        RSH_TRY(read_integer(s, 8, &size[d]));
        if (size[d] > INT64_MAX) return refuse_tensor(s, s->text, "a size exceeds 2^63 - 1");
    }
    return RSH_OK;
}

/* Lists a tensor of unknown type as a non-tensor entry, because its size in bytes is unknown. */
static rsh_status list_unknown(scanning *s, uint64_t type, uint64_t ndim, const uint64_t *size, uint64_t offset) {
    rshi_text what = {0};
    rshi_text_add(&what, "unknown GGUF type %" PRIu64 "[", type);
    for (uint64_t d = 0; d < ndim; d++) rshi_text_add(&what, "%s%" PRIu64, d ? ", " : "", size[d]);
    rshi_text_add(&what, "] at byte %" PRIu64 " of the data", offset);
    rsh_status st = what.failed ? rshi_nomem() : rshi_ckpt_add_other(s->c, s->text, what.data);
    rshi_text_free(&what);
    return st;
}

static rsh_status list_tensor(scanning *s, const rshi_packing *type, uint64_t ndim, const uint64_t *size,
                              uint64_t offset) {
    RSH_TRY(RSHI_GROW(s->list, s->n + 1, &s->room));
    listed *t = &s->list[s->n];
    *t = (listed){.type = type, .ndim = (int)ndim, .offset = offset, .entry = (uint64_t)ftell(s->file)};
    for (uint64_t d = 0; d < ndim; d++) t->size[d] = (int64_t)size[d];
    if (type->elements > 1) {
        int64_t *row = &t->size[ndim ? ndim - 1 : 0];
        if (!ndim || *row % type->elements)
            return refuse_tensor(s, s->text, "the elements of a row are not a multiple of the block size of its type");
        if (!rshi_mul(*row / type->elements, type->bytes, row))
            return refuse_tensor(s, s->text, "the bytes of a row exceed 2^63 - 1");
    }
    t->name = rshi_store_text(&s->c->store, s->text, strlen(s->text));
    s->n++;
    return t->name ? RSH_OK : rshi_nomem();
}

static rsh_status read_tensor(scanning *s) {
    uint64_t ndim, type, offset, size[4] = {0};
    RSH_TRY(read_text(s, "name"));
    RSH_TRY(read_integer(s, 4, &ndim));
    if (ndim > 4) return refuse_tensor(s, s->text, "GGUF allows at most 4 dims, found more");
    RSH_TRY(read_sizes(s, ndim, size));
    RSH_TRY(read_integer(s, 4, &type));
    RSH_TRY(read_integer(s, 8, &offset));
    const rshi_packing *known = rshi_gguf_type(type);
    return known ? list_tensor(s, known, ndim, size, offset) : list_unknown(s, type, ndim, size, offset);
}

/* Adds the tensors.  The data follows the header, aligned. */
static rsh_status add_tensors(scanning *s) {
    uint64_t data = ((uint64_t)ftell(s->file) + s->align - 1) / s->align * s->align;
    for (int64_t i = 0; i < s->n; i++) {
        const listed *t = &s->list[i];
        rsh_dtype dtype = RSH_U8;
        int64_t tensor;
        bool plain = rshi_gguf_dtype(t->type, &dtype);
        RSH_REQUIRE(t->offset <= UINT64_MAX - data, RSH_EVALUE, "%s: tensor \"%.200s\": its offset is outside the file",
                    s->path, t->name);
        RSH_TRY(rshi_ckpt_add_tensor(s->c, t->name, strlen(t->name), dtype, t->ndim, t->size, s->number, t->entry,
                                     &tensor));
        if (!plain) s->c->tensor[tensor].packing = t->type;
        RSH_TRY(rshi_ckpt_set_whole(s->c, tensor, s->number, data + t->offset));
    }
    return RSH_OK;
}

/* ---- files ---- */

static rsh_status scan_header(scanning *s) {
    uint64_t version, ntensors, npairs;
    RSH_TRY(skip_bytes(s, 4));
    RSH_TRY(read_integer(s, 4, &version));
    RSH_REQUIRE(version == 2 || version == 3, RSH_EUNSUP,
                "%s: byte 4: GGUF version %" PRIu64 " is not supported; expected 2 or 3", s->path, version);
    RSH_TRY(read_integer(s, 8, &ntensors));
    RSH_TRY(read_integer(s, 8, &npairs));
    for (; npairs; npairs--) RSH_TRY(read_pair(s));
    for (; ntensors; ntensors--) RSH_TRY(read_tensor(s));
    if (!s->number) s->c->gguf->version = (uint32_t)version;
    if (!s->number) s->c->gguf->align = s->align;
    return add_tensors(s);
}

static bool is_gguf(const char *path) {
    char magic[4] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is = fd >= 0 && pread(fd, magic, 4, 0) == 4 && !memcmp(magic, "GGUF", 4);
    if (fd >= 0) close(fd);
    return is;
}

static rsh_status read_file(const char *directory, const char *name, rsh_ckpt *c) {
    scanning s = {.c = c, .align = RSHI_GGUF_ALIGN};
    if (directory) RSH_TRY(rshi_ckpt_inside(directory, name));
    RSH_TRY(rshi_ckpt_add_file(c, directory, name, &s.number));
    s.path = c->file[s.number].path;
    RSH_REQUIRE(is_gguf(s.path), RSH_EVALUE, "%s: not a GGUF file: its first bytes must be \"GGUF\"", s.path);
    s.file = fopen(s.path, "rbe");
    if (!s.file) return rshi_io_fail(s.path);
    s.text = rshi_alloc(MOST_TEXT, 1);
    rsh_status st = s.text ? scan_header(&s) : rshi_nomem();
    rshi_free(s.text);
    rshi_free(s.list);
    fclose(s.file);
    return st;
}

size_t rshi_gguf_stem(const char *name, int64_t *count) {
    static const char form[] = "-00000-of-00000.gguf", single[] = ".gguf";
    size_t n = strlen(name), k = sizeof form - 1;
    *count = 0;
    bool split = n >= k;
    for (size_t i = 0; i < k && split; i++) {
        char x = name[n - k + i];
        split = form[i] == '0' ? x >= '0' && x <= '9' : x == form[i];
    }
    if (split) *count = strtoll(name + n - k + 10, NULL, 10);
    if (*count) return n - k;
    return rshi_ckpt_ends(name, single) ? n - (sizeof single - 1) : n;
}

static rsh_status read_model(const char *directory, const char *name, rsh_ckpt *c) {
    int64_t count;
    size_t stem = rshi_gguf_stem(name, &count);
    if (!count) return read_file(directory, name, c);
    for (int64_t i = 1; i <= count; i++) {
        rshi_text path = {0};
        rshi_text_add(&path, "%.*s-%05" PRId64 "-of-%05" PRId64 ".gguf", (int)stem, name, i, count);
        rsh_status st = path.failed ? rshi_nomem() : read_file(directory, path.data, c);
        rshi_text_free(&path);
        if (st) return st;
    }
    uint64_t found = (uint64_t)(c->ntensors + c->nothers);
    RSH_REQUIRE(!c->gguf->tensors || c->gguf->tensors == found, RSH_EVALUE,
                "%s: split.tensors.count must be the number of tensors in all %" PRId64 " files, %" PRIu64
                ", got %" PRIu64 "; check that all files belong to the same model",
                name, count, found, c->gguf->tensors);
    return RSH_OK;
}

/* Returns a file of the only model of a directory.  If there are several models, records an error and returns NULL. */
static const char *find_model(const rshi_ckpt_place *place) {
    const char *first = NULL;
    size_t stem = 0;
    int64_t count = 0, other;
    for (int64_t i = 0; i < place->nnames; i++) {
        const char *name = place->name[i];
        if (!rshi_ckpt_ends(name, ".gguf")) continue;
        if (!first) {
            first = name;
            stem = rshi_gguf_stem(name, &count);
        } else if (rshi_gguf_stem(name, &other) != stem || strncmp(name, first, stem) || other != count || !count) {
            rshi_fail(
                RSH_EVALUE,
                "%s: the directory has more than one GGUF model (\"%.200s\" and \"%.200s\"); give one of the files",
                place->path, first, name);
            return NULL;
        }
    }
    return first;
}

static bool detect_gguf(const rshi_ckpt_place *place) {
    return place->is_directory ? rshi_ckpt_place_has(place, "", ".gguf") : is_gguf(place->path);
}

static rsh_status read_gguf(const rshi_ckpt_place *place, rsh_ckpt *c) {
    const char *slash = strrchr(place->path, '/'), *base = slash ? slash + 1 : place->path;
    const char *name = place->is_directory ? find_model(place) : base;
    int64_t count;
    if (!name) return RSH_EVALUE;
    c->gguf = RSHI_NEW(struct rshi_gguf);
    if (!c->gguf) return rshi_nomem();
    c->gguf->stem = rshi_ckpt_copy(name);
    if (!c->gguf->stem) return rshi_nomem();
    c->gguf->stem[rshi_gguf_stem(name, &count)] = 0;
    if (!place->is_directory) return read_model(NULL, place->path, c);
    RSH_TRY(read_model(place->path, name, c));
    return rshi_ckpt_add_beside(c, place);
}

void rshi_gguf_free(struct rshi_gguf *g) {
    if (!g) return;
    rshi_free(g->pair);
    rshi_free(g->stem);
    rshi_name_table_free(&g->keys);
    rshi_free(g);
}

const rshi_ckpt_kind rshi_kind_gguf = {"GGUF file", detect_gguf, read_gguf, false};
