/* GGUF: the tensors of one .gguf file, listed; none of them is read. */
#include "ckpt/ckpt.h"

#include <errno.h>
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

/* Names of the types of version 3, by number; NULL: there is none. */
static const char *const types[] = {"F32",     "F16",    "Q4_0",    "Q4_1",  NULL,     NULL,    "Q5_0",  "Q5_1",
                                    "Q8_0",    "Q8_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K",  "Q8_K",
                                    "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS",
                                    "I8",      "I16",    "I32",     "I64",   "F64",    "IQ1_M", "BF16"};

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

static rsh_status list_tensor(scanning *s, char *name) {
    uint64_t n, ndim, type, offset, size[4] = {0};
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
    const char *word = type < sizeof types / sizeof *types ? types[type] : NULL;
    rshi_text_add(&what, "%s[", word ? word : "type ?");
    for (uint64_t d = 0; d < ndim; d++) rshi_text_add(&what, "%s%" PRIu64, d ? ", " : "", size[d]);
    rshi_text_add(&what, "] at byte %" PRIu64 " of the data", offset);
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
    RSH_REQUIRE(s.file, RSH_EIO, "%s: %s", place->path, strerror(errno));
    char *name = rshi_alloc(MOST_TEXT, 1);
    rsh_status st = name ? scan(&s, name) : rshi_nomem();
    rshi_free(name);
    fclose(s.file);
    return st;
}

const rshi_ckpt_kind rshi_kind_gguf = {"GGUF file", detect, read_all};
