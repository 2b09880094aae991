/* GGUF: the tensors of one .gguf file, listed; none of them is read. */
#include "ckpt/ckpt.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_TEXT 65536 /* bytes of a name; longer ones are damage */

typedef struct scanning {
    rsh_ckpt *c;
    FILE *file;
    const char *path;
} scanning;

/* The types of version 3, by number: a block of so many elements has so many bytes.  Name NULL: there is none. */
static const struct {
    const char *name;
    uint16_t elements, bytes;
} types[] = {
    [0] = {"F32", 1, 4},          [1] = {"F16", 1, 2},         [2] = {"Q4_0", 32, 18},      [3] = {"Q4_1", 32, 20},
    [6] = {"Q5_0", 32, 22},       [7] = {"Q5_1", 32, 24},      [8] = {"Q8_0", 32, 34},      [9] = {"Q8_1", 32, 36},
    [10] = {"Q2_K", 256, 84},     [11] = {"Q3_K", 256, 110},   [12] = {"Q4_K", 256, 144},   [13] = {"Q5_K", 256, 176},
    [14] = {"Q6_K", 256, 210},    [15] = {"Q8_K", 256, 292},   [16] = {"IQ2_XXS", 256, 66}, [17] = {"IQ2_XS", 256, 74},
    [18] = {"IQ3_XXS", 256, 98},  [19] = {"IQ1_S", 256, 50},   [20] = {"IQ4_NL", 32, 18},   [21] = {"IQ3_S", 256, 110},
    [22] = {"IQ2_S", 256, 82},    [23] = {"IQ4_XS", 256, 136}, [24] = {"I8", 1, 1},         [25] = {"I16", 1, 2},
    [26] = {"I32", 1, 4},         [27] = {"I64", 1, 8},        [28] = {"F64", 1, 8},        [29] = {"IQ1_M", 256, 56},
    [30] = {"BF16", 1, 2},        [34] = {"TQ1_0", 256, 54},   [35] = {"TQ2_0", 256, 66},   [39] = {"MXFP4", 32, 17},
};

static rsh_status take(scanning *s, void *to, size_t n) {
    if (fread(to, 1, n, s->file) == n) return RSH_OK;
    return rshi_fail(RSH_EVALUE, "%s: byte %ld: the file ends inside its header", s->path, ftell(s->file));
}

static rsh_status take_number(scanning *s, int bytes, uint64_t *out) {
    unsigned char b[8];
    RSH_TRY(take(s, b, (size_t)bytes));
    *out = 0;
    for (int i = bytes - 1; i >= 0; i--) *out = *out << 8 | b[i];
    return RSH_OK;
}

/* Bytes that are not wanted; by reading, so that the end of the file is noticed. */
static rsh_status skip(scanning *s, uint64_t n) {
    char waste[4096];
    for (size_t k; n; n -= k) {
        k = n < sizeof waste ? (size_t)n : sizeof waste;
        RSH_TRY(take(s, waste, k));
    }
    return RSH_OK;
}

static rsh_status skip_value(scanning *s, uint64_t type, int depth) {
    static const int bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    uint64_t n, element;
    RSH_REQUIRE(type < 13 && depth < 4, RSH_EVALUE, "%s: byte %ld: %" PRIu64 " is no type of a value", s->path,
                ftell(s->file), type);
    if (bytes[type]) return skip(s, (uint64_t)bytes[type]);
    if (type == 8) {
        RSH_TRY(take_number(s, 8, &n));
        return skip(s, n);
    }
    RSH_TRY(take_number(s, 4, &element));
    RSH_TRY(take_number(s, 8, &n));
    for (; n; n--) RSH_TRY(skip_value(s, element, depth + 1));
    return RSH_OK;
}

static rsh_status skip_pair(scanning *s) {
    uint64_t n;
    RSH_TRY(take_number(s, 8, &n));
    RSH_TRY(skip(s, n));
    RSH_TRY(take_number(s, 4, &n));
    return skip_value(s, n, 0);
}

/* Rows are whole blocks; false: they are not, or 64 bits do not hold it. */
static bool bytes_of(uint64_t type, uint64_t ndim, const uint64_t *size, int64_t *out) {
    int64_t blocks = 1;
    for (uint64_t d = 0; d < ndim; d++) {
        bool last = d == ndim - 1;
        if (size[d] > INT64_MAX || (last && size[d] % types[type].elements)) return false;
        if (!rshi_mul(blocks, (int64_t)(last ? size[d] / types[type].elements : size[d]), &blocks)) return false;
    }
    return rshi_mul(blocks, types[type].bytes, out);
}

static rsh_status list_tensor(scanning *s, char *name) {
    uint64_t n, ndim, type, offset, size[4] = {0};
    int64_t bytes;
    rshi_text what = {0};
    RSH_TRY(take_number(s, 8, &n));
    RSH_REQUIRE(n < MOST_TEXT, RSH_EVALUE, "%s: byte %ld: a name of %" PRIu64 " bytes", s->path, ftell(s->file), n);
    RSH_TRY(take(s, name, (size_t)n));
    name[n] = 0;
    RSH_TRY(take_number(s, 4, &ndim));
    RSH_REQUIRE(ndim <= 4, RSH_EVALUE, "%s: byte %ld: tensor \"%.200s\": %" PRIu64 " dims", s->path, ftell(s->file),
                name, ndim);
    for (uint64_t d = ndim; d-- > 0;) RSH_TRY(take_number(s, 8, &size[d])); /* the fastest dim comes first */
    RSH_TRY(take_number(s, 4, &type));
    RSH_TRY(take_number(s, 8, &offset));
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

static rsh_status scan(scanning *s, char *name) {
    uint64_t version, ntensors, npairs;
    RSH_TRY(skip(s, 4));
    RSH_TRY(take_number(s, 4, &version));
    RSH_REQUIRE(version == 2 || version == 3, RSH_EUNSUP, "%s: byte 4: version %" PRIu64 " of GGUF; 2 and 3 are known",
                s->path, version);
    RSH_TRY(take_number(s, 8, &ntensors));
    RSH_TRY(take_number(s, 8, &npairs));
    for (; npairs; npairs--) RSH_TRY(skip_pair(s));
    for (; ntensors; ntensors--) RSH_TRY(list_tensor(s, name));
    return RSH_OK;
}

static bool detect(const rshi_ckpt_place *place) {
    char magic[4] = {0};
    if (place->is_directory) return false;
    int fd = open(place->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is = fd >= 0 && pread(fd, magic, 4, 0) == 4 && !memcmp(magic, "GGUF", 4);
    if (fd >= 0) close(fd);
    return is;
}

static rsh_status read_all(const rshi_ckpt_place *place, rsh_ckpt *c) {
    int32_t file;
    RSH_TRY(rshi_ckpt_add_file(c, NULL, place->path, &file));
    scanning s = {c, fopen(place->path, "rbe"), place->path};
    if (!s.file) return rshi_io_fail(place->path);
    char *name = rshi_alloc(MOST_TEXT, 1);
    rsh_status st = name ? scan(&s, name) : rshi_nomem();
    rshi_free(name);
    fclose(s.file);
    return st;
}

const rshi_ckpt_kind rshi_kind_gguf = {"GGUF file", detect, read_all, false};
