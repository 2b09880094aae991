/* GGUF: reads the tensors of a .gguf file, or of all files NAME-00001-of-00003.gguf of one model.
 *
 * Tensors of unquantised types can be converted; quantised tensors are only listed. */
#include "ckpt/ckpt.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_TEXT 65536 /* bytes of a name; longer names mean that the file is damaged */

/* A tensor of an unquantised type. */
typedef struct plain {
    const char *name; /* in the checkpoint's store */
    rsh_dtype dtype;
    int ndim;
    int64_t size[4];
    uint64_t offset; /* in the data */
    uint64_t entry;  /* byte offset of its entry in the header */
} plain;

typedef struct scanning {
    rsh_ckpt *c;
    FILE *file;
    const char *path;
    int32_t number; /* index of the file */
    uint64_t align; /* alignment of the data in bytes */
    plain *plain;   /* owned */
    int64_t n, room;
} scanning;

/* Unquantised types. */
static const struct {
    uint64_t type;
    rsh_dtype dtype;
} dtypes[] = {{0, RSH_F32},  {1, RSH_F16},  {24, RSH_I8},  {25, RSH_I16},
              {26, RSH_I32}, {27, RSH_I64}, {28, RSH_F64}, {30, RSH_BF16}};

static bool find_dtype(uint64_t type, rsh_dtype *out) {
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].type == type) return *out = dtypes[i].dtype, true;
    return false;
}

/* The types of version 3, by number: the name, and elements and bytes of a block.  Name NULL: there is no such type. */
static const struct {
    const char *name;
    uint16_t elements, bytes;
} types[] = {
    [0] = {"F32", 1, 4},         [1] = {"F16", 1, 2},         [2] = {"Q4_0", 32, 18},      [3] = {"Q4_1", 32, 20},
    [6] = {"Q5_0", 32, 22},      [7] = {"Q5_1", 32, 24},      [8] = {"Q8_0", 32, 34},      [9] = {"Q8_1", 32, 36},
    [10] = {"Q2_K", 256, 84},    [11] = {"Q3_K", 256, 110},   [12] = {"Q4_K", 256, 144},   [13] = {"Q5_K", 256, 176},
    [14] = {"Q6_K", 256, 210},   [15] = {"Q8_K", 256, 292},   [16] = {"IQ2_XXS", 256, 66}, [17] = {"IQ2_XS", 256, 74},
    [18] = {"IQ3_XXS", 256, 98}, [19] = {"IQ1_S", 256, 50},   [20] = {"IQ4_NL", 32, 18},   [21] = {"IQ3_S", 256, 110},
    [22] = {"IQ2_S", 256, 82},   [23] = {"IQ4_XS", 256, 136}, [24] = {"I8", 1, 1},         [25] = {"I16", 1, 2},
    [26] = {"I32", 1, 4},        [27] = {"I64", 1, 8},        [28] = {"F64", 1, 8},        [29] = {"IQ1_M", 256, 56},
    [30] = {"BF16", 1, 2},       [34] = {"TQ1_0", 256, 54},   [35] = {"TQ2_0", 256, 66},   [39] = {"MXFP4", 32, 17},
};

static rsh_status read_header_bytes(scanning *s, void *to, size_t n) {
    if (fread(to, 1, n, s->file) == n) return RSH_OK;
    return rshi_fail(RSH_EVALUE, "%s: byte %ld: unexpected end of file in the header; the file is truncated", s->path,
                     ftell(s->file));
}

static rsh_status take_number(scanning *s, int bytes, uint64_t *out) {
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
        RSH_TRY(take_number(s, 8, &n));
        return skip_bytes(s, n);
    }
    RSH_TRY(take_number(s, 4, &element));
    RSH_TRY(take_number(s, 8, &n));
    for (; n; n--) RSH_TRY(skip_value(s, element, depth + 1));
    return RSH_OK;
}

/* Reads a key and its value; only general.alignment, the alignment of the data, is used. */
static rsh_status read_pair(scanning *s) {
    static const char wanted[] = "general.alignment";
    char key[sizeof wanted] = {0};
    uint64_t n, type;
    RSH_TRY(take_number(s, 8, &n));
    bool alignment = n == sizeof wanted - 1;
    RSH_TRY(alignment ? read_header_bytes(s, key, (size_t)n) : skip_bytes(s, n));
    RSH_TRY(take_number(s, 4, &type));
    if (!alignment || strcmp(key, wanted) || type != 4) return skip_value(s, type, 0);
    RSH_TRY(take_number(s, 4, &s->align));
    RSH_REQUIRE(s->align && s->align <= 1 << 20 && !(s->align & (s->align - 1)), RSH_EVALUE,
                "%s: byte %ld: general.alignment must be a power of 2 up to 1048576, got %" PRIu64, s->path,
                ftell(s->file), s->align);
    return RSH_OK;
}

/* The size of a tensor in bytes; false: a row is not a whole number of blocks, or the size overflows. */
static bool bytes_of(uint64_t type, uint64_t ndim, const uint64_t *size, int64_t *out) {
    int64_t blocks = 1;
    for (uint64_t d = 0; d < ndim; d++) {
        bool last = d == ndim - 1;
        if (size[d] > INT64_MAX || (last && size[d] % types[type].elements)) return false;
        if (!rshi_mul(blocks, (int64_t)(last ? size[d] / types[type].elements : size[d]), &blocks)) return false;
    }
    return rshi_mul(blocks, types[type].bytes, out);
}

static rsh_status list_quantised(scanning *s, const char *name, uint64_t type, uint64_t ndim, const uint64_t *size,
                                 uint64_t offset) {
    int64_t bytes;
    rshi_text what = {0};
    bool known = type < sizeof types / sizeof *types && types[type].name;
    if (known)
        rshi_text_add(&what, "%s[", types[type].name);
    else
        rshi_text_add(&what, "type %" PRIu64 "[", type);
    for (uint64_t d = 0; d < ndim; d++) rshi_text_add(&what, "%s%" PRIu64, d ? ", " : "", size[d]);
    rshi_text_add(&what, "]");
    if (known && bytes_of(type, ndim, size, &bytes)) rshi_text_add(&what, ", %" PRId64 " B", bytes);
    rshi_text_add(&what, " at byte %" PRIu64 " of the data", offset);
    rsh_status st = what.failed ? rshi_nomem() : rshi_ckpt_add_other(s->c, name, what.data);
    rshi_text_free(&what);
    return st;
}

static rsh_status keep_plain(scanning *s, const char *name, rsh_dtype dtype, uint64_t ndim, const uint64_t *size,
                             uint64_t offset) {
    RSH_TRY(RSHI_GROW(s->plain, s->n + 1, &s->room));
    plain *p = &s->plain[s->n];
    *p = (plain){.dtype = dtype, .ndim = (int)ndim, .offset = offset, .entry = (uint64_t)ftell(s->file)};
    for (uint64_t d = 0; d < ndim; d++) {
        RSH_REQUIRE(size[d] <= INT64_MAX, RSH_EVALUE, "%s: tensor \"%.200s\" has size %" PRIu64 ", which is too large",
                    s->path, name, size[d]);
        p->size[d] = (int64_t)size[d];
    }
    p->name = rshi_store_text(&s->c->store, name, strlen(name));
    s->n++;
    return p->name ? RSH_OK : rshi_nomem();
}

static rsh_status read_tensor(scanning *s, char *name) {
    uint64_t n, ndim, type, offset, size[4] = {0};
    rsh_dtype dtype;
    RSH_TRY(take_number(s, 8, &n));
    RSH_REQUIRE(n < MOST_TEXT, RSH_EVALUE,
                "%s: byte %ld: the name of a tensor has %" PRIu64 " bytes; at most 65535 are supported", s->path,
                ftell(s->file), n);
    RSH_TRY(read_header_bytes(s, name, (size_t)n));
    name[n] = 0;
    RSH_TRY(take_number(s, 4, &ndim));
    RSH_REQUIRE(ndim <= 4, RSH_EVALUE, "%s: byte %ld: tensor \"%.200s\" has %" PRIu64 " dims; GGUF allows 4", s->path,
                ftell(s->file), name, ndim);
    for (uint64_t d = ndim; d-- > 0;) RSH_TRY(take_number(s, 8, &size[d])); /* the fastest dim comes first */
    RSH_TRY(take_number(s, 4, &type));
    RSH_TRY(take_number(s, 8, &offset));
    if (find_dtype(type, &dtype)) return keep_plain(s, name, dtype, ndim, size, offset);
    return list_quantised(s, name, type, ndim, size, offset);
}

/* Adds the tensors; the data follows the header, aligned. */
static rsh_status add_tensors(scanning *s) {
    uint64_t data = ((uint64_t)ftell(s->file) + s->align - 1) / s->align * s->align;
    for (int64_t i = 0; i < s->n; i++) {
        const plain *p = &s->plain[i];
        int64_t tensor;
        RSH_REQUIRE(p->offset <= UINT64_MAX - data, RSH_EVALUE,
                    "%s: the offset of tensor \"%.200s\" is outside the file", s->path, p->name);
        RSH_TRY(rshi_ckpt_add_tensor(s->c, p->name, strlen(p->name), p->dtype, p->ndim, p->size, s->number, p->entry,
                                     &tensor));
        RSH_TRY(rshi_ckpt_set_whole(s->c, tensor, s->number, data + p->offset));
    }
    return RSH_OK;
}

static rsh_status scan_file(scanning *s, char *name) {
    uint64_t version, ntensors, npairs;
    RSH_TRY(skip_bytes(s, 4));
    RSH_TRY(take_number(s, 4, &version));
    RSH_REQUIRE(version == 2 || version == 3, RSH_EUNSUP,
                "%s: byte 4: GGUF version %" PRIu64 " is not supported; expected 2 or 3", s->path, version);
    RSH_TRY(take_number(s, 8, &ntensors));
    RSH_TRY(take_number(s, 8, &npairs));
    for (; npairs; npairs--) RSH_TRY(read_pair(s));
    for (; ntensors; ntensors--) RSH_TRY(read_tensor(s, name));
    return add_tensors(s);
}

static bool is_gguf(const char *path) {
    char magic[4] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is = fd >= 0 && pread(fd, magic, 4, 0) == 4 && !memcmp(magic, "GGUF", 4);
    if (fd >= 0) close(fd);
    return is;
}

static bool detect_gguf(const rshi_ckpt_place *place) { return !place->is_directory && is_gguf(place->path); }

static rsh_status read_gguf_file(const char *path, rsh_ckpt *c) {
    scanning s = {.c = c, .path = path, .align = 32};
    RSH_TRY(rshi_ckpt_add_file(c, NULL, path, &s.number));
    RSH_REQUIRE(is_gguf(path), RSH_EVALUE, "%s: byte 0: expected a GGUF file, like the other files of the model", path);
    s.file = fopen(path, "rbe");
    if (!s.file) return rshi_io_fail(path);
    char *name = rshi_alloc(MOST_TEXT, 1);
    rsh_status st = name ? scan_file(&s, name) : rshi_nomem();
    rshi_free(name);
    rshi_free(s.plain);
    fclose(s.file);
    return st;
}

/* Finds "-00002-of-00003.gguf" at the end of a path, and its count (3); NULL: the path does not end so. */
static const char *find_split(const char *path, int64_t *count) {
    static const char form[] = "-00000-of-00000.gguf";
    size_t n = strlen(path), k = sizeof form - 1;
    if (n < k) return NULL;
    const char *end = path + n - k;
    for (size_t i = 0; i < k; i++)
        if (form[i] == '0' ? end[i] < '0' || end[i] > '9' : end[i] != form[i]) return NULL;
    *count = strtoll(end + 10, NULL, 10);
    return end;
}

static rsh_status read_gguf(const rshi_ckpt_place *place, rsh_ckpt *c) {
    int64_t count = 0;
    const char *end = find_split(place->path, &count);
    rsh_status st = RSH_OK;
    if (!end || count < 1) return read_gguf_file(place->path, c);
    for (int64_t i = 1; i <= count && !st; i++) {
        rshi_text path = {0};
        rshi_text_add(&path, "%.*s-%05" PRId64 "-of-%05" PRId64 ".gguf", (int)(end - place->path), place->path, i,
                      count);
        st = path.failed ? rshi_nomem() : read_gguf_file(path.data, c);
        rshi_text_free(&path);
    }
    return st;
}

const rshi_ckpt_kind rshi_kind_gguf = {"GGUF file", detect_gguf, read_gguf, false};
