/* Torch shards: reads PyTorch's sharded safetensors, shard-SHARD-model-FILE-of-FILES.safetensors.
 *
 * Each file has parts of tensors.  The offset of each part in its tensor is in the file's metadata, under
 * DCP_SHARDING_INFO.  The sizes of whole tensors are not stored: a tensor ends where its last part ends. */
#include "ckpt/ckpt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct piece {
    const char *name; /* in the checkpoint's store */
    int32_t file;
    uint32_t entry; /* byte offset of the piece's entry in the file */
    uint64_t at;    /* byte offset of the piece's elements */
    rsh_dtype dtype;
    int ndim;
    bool has_offset;
    int64_t size[RSH_MAX_NDIM], offset[RSH_MAX_NDIM];
} piece;

typedef struct sharding {
    rsh_ckpt *c;
    const char *directory;
    piece *piece; /* owned */
    int64_t n, room;
    int64_t shards, files; /* largest numbers in file names */
} sharding;

#define REFUSE(s, p, ...) rshi_ckpt_refuse((s)->c, (p)->file, (p)->entry, (p)->name, __VA_ARGS__)

/* ---- names of files ---- */

static bool take_number(const char **p, const char *before, int64_t *out) {
    size_t n = strlen(before);
    if (strncmp(*p, before, n) || (*p)[n] < '0' || (*p)[n] > '9') return false;
    char *end;
    *out = strtoll(*p + n, &end, 10);
    bool sane = end - (*p + n) < 10;
    *p = end;
    return sane;
}

/* Parses "shard-00002-model-00001-of-00003.safetensors". */
static bool read_name(const char *name, int64_t *shard, int64_t *file, int64_t *files) {
    return take_number(&name, "shard-", shard) && take_number(&name, "-model-", file) &&
           take_number(&name, "-of-", files) && !strcmp(name, ".safetensors");
}

static bool detect_torch_shards(const rshi_ckpt_place *place) {
    int64_t shard, file, files;
    for (int64_t i = 0; i < place->nnames; i++)
        if (read_name(place->name[i], &shard, &file, &files)) return true;
    return false;
}

/* Returns the first number from 1 to n that no name has; 0: none is missing; -1: out of memory.  The result is at most
 * the number of names plus one. */
static int64_t find_missing(const rshi_ckpt_place *place, int64_t n, bool by_shard) {
    int64_t shard, file, files, missing = 0;
    bool *seen = rshi_calloc((size_t)place->nnames + 2, sizeof *seen);
    if (!seen) return -1;
    for (int64_t i = 0; i < place->nnames; i++) {
        if (!read_name(place->name[i], &shard, &file, &files)) continue;
        int64_t number = by_shard ? shard : file;
        if (number <= place->nnames) seen[number] = true;
    }
    for (int64_t i = 1; i <= n && !missing; i++)
        if (!seen[i]) missing = i;
    rshi_free(seen);
    return missing;
}

/* Checks that numbers count from 1 without gaps.  A missing last shard cannot be detected. */
static rsh_status check_numbers(sharding *s, const rshi_ckpt_place *place) {
    int64_t shard, file, files;
    for (int64_t i = 0; i < place->nnames; i++) {
        if (!read_name(place->name[i], &shard, &file, &files)) continue;
        RSH_REQUIRE(shard >= 1 && file >= 1 && file <= files && (!s->files || files == s->files), RSH_EVALUE,
                    "%.150s/%.100s: the numbers in its name contradict those of the other files", place->path,
                    place->name[i]);
        s->shards = rshi_max(s->shards, shard);
        s->files = files;
    }
    int64_t no_shard = find_missing(place, s->shards, true), no_file = find_missing(place, s->files, false);
    if (no_shard < 0 || no_file < 0) return rshi_nomem();
    RSH_REQUIRE(!no_shard, RSH_EVALUE, "%.150s: shard-%05" PRId64 "-model-*.safetensors is missing", place->path,
                no_shard);
    RSH_REQUIRE(!no_file, RSH_EVALUE, "%.150s: shard-*-model-%05" PRId64 "-of-%05" PRId64 ".safetensors is missing",
                place->path, no_file, s->files);
    return RSH_OK;
}

/* ---- one file ---- */

static int by_name(const void *a, const void *b) {
    const piece *x = a, *y = b;
    int c = strcmp(x->name, y->name);
    return c ? c : (x->file > y->file) - (x->file < y->file);
}

static rsh_status add_piece(sharding *s, int32_t file, const rshi_header *h, const rshi_header_tensor *t) {
    RSH_TRY(RSHI_GROW(s->piece, s->n + 1, &s->room));
    piece *p = &s->piece[s->n];
    *p = (piece){.file = file, .entry = t->at, .at = t->begin, .dtype = (rsh_dtype)t->dtype, .ndim = t->ndim};
    if (t->ndim) memcpy(p->size, h->shapes + t->shape, t->ndim * sizeof *p->size);
    p->name = rshi_store_text(&s->c->store, t->name, strlen(t->name));
    if (!p->name) return rshi_nomem();
    s->n++;
    return RSH_OK;
}

/* Reads [o0, o1, ...]. */
static rsh_status read_offsets(rshi_json *j, int *n, int64_t *offset) {
    rshi_json_token token = RSHI_JSON_END;
    RSH_TRY(rshi_json_want(j, RSHI_JSON_LIST));
    for (*n = 0;; ++*n) {
        RSH_TRY(rshi_json_next(j, &token));
        if (token == RSHI_JSON_LIST_END) return RSH_OK;
        if (token != RSHI_JSON_NUMBER || !j->is_int || j->number < 0)
            return rshi_json_fail(j, "expected an offset of at least 0");
        if (*n == RSH_MAX_NDIM) return rshi_json_fail(j, "expected at most %d offsets", RSH_MAX_NDIM);
        offset[*n] = j->number;
    }
}

/* Reads {"saved_offsets": [...]}. */
static rsh_status read_entry(rshi_json *j, int *n, int64_t *offset) {
    bool more, found = false;
    rsh_status st;
    RSH_TRY(rshi_json_want(j, RSHI_JSON_OBJECT));
    while (!(st = rshi_json_key(j, &more)) && more) {
        if (strcmp(j->text, "saved_offsets")) {
            RSH_TRY(rshi_json_skip(j, RSHI_JSON_END));
            continue;
        }
        RSH_TRY(read_offsets(j, n, offset));
        found = true;
    }
    return st ? st : found ? RSH_OK : rshi_json_fail(j, "an entry must have \"saved_offsets\"");
}

/* Reads {"tensor": {"saved_offsets": [...]}, ...}.  The pieces of the file are those from `first` on, sorted by name.
 */
static rsh_status read_info(sharding *s, rshi_json *j, int64_t first) {
    bool more;
    rsh_status st;
    RSH_TRY(rshi_json_want(j, RSHI_JSON_OBJECT));
    while (!(st = rshi_json_key(j, &more)) && more) {
        int64_t offset[RSH_MAX_NDIM] = {0};
        int n = 0;
        piece key = {.name = j->text, .file = s->n > first ? s->piece[first].file : 0};
        piece *p = s->n > first ? bsearch(&key, s->piece + first, (size_t)(s->n - first), sizeof key, by_name) : NULL;
        RSH_TRY(read_entry(j, &n, offset));
        if (!p) continue; /* the tensor is in another file */
        if (n != p->ndim)
            return REFUSE(s, p, "DCP_SHARDING_INFO must have one offset for each of its %d dims, got %d", p->ndim, n);
        memcpy(p->offset, offset, sizeof offset);
        p->has_offset = true;
    }
    return st ? st : rshi_json_want(j, RSHI_JSON_END);
}

static rsh_status read_header(sharding *s, int32_t file, const rshi_header *h) {
    int64_t first = s->n;
    rshi_json j;
    const char *info = rshi_header_meta(h, "DCP_SHARDING_INFO");
    RSH_REQUIRE(info, RSH_EVALUE, "%.150s: its metadata has no DCP_SHARDING_INFO", s->c->file[file].path);
    for (int64_t i = 0; i < h->ntensors; i++) RSH_TRY(add_piece(s, file, h, &h->tensor[i]));
    if (s->n > first) qsort(s->piece + first, (size_t)(s->n - first), sizeof *s->piece, by_name);
    RSH_TRY(rshi_json_open_text(&j, info, strlen(info), "DCP_SHARDING_INFO"));
    rsh_status st = read_info(s, &j, first);
    rshi_json_close(&j);
    if (st == RSH_EVALUE && strncmp(rsh_error_detail(), s->directory, strlen(s->directory)))
        st = rshi_fail(st, "%.150s: %s", s->c->file[file].path, rsh_error_detail());
    for (int64_t i = first; i < s->n && !st; i++)
        if (!s->piece[i].has_offset) st = REFUSE(s, &s->piece[i], "DCP_SHARDING_INFO has no entry for it");
    return st;
}

static rsh_status read_file(sharding *s, const char *name) {
    int32_t file;
    rshi_header h;
    RSH_TRY(rshi_ckpt_inside(s->directory, name));
    RSH_TRY(rshi_ckpt_add_file(s->c, s->directory, name, &file));
    RSH_TRY(rshi_header_read(s->c->file[file].path, s->c->file[file].path, &h));
    s->c->file[file].hash = h.hash;
    rsh_status st = read_header(s, file, &h);
    for (int64_t i = 0; i < h.nmeta && !st; i++)
        if (strncmp(h.meta[i].key, "DCP_", 4)) st = rshi_ckpt_add_meta(s->c, h.meta[i].key, h.meta[i].value);
    rshi_header_free(&h);
    return st;
}

/* ---- tensors ---- */

/* Adds the tensor of pieces [p, p + n), which have the same name. */
static rsh_status add_tensor(sharding *s, const piece *p, int64_t n) {
    int64_t shape[RSH_MAX_NDIM] = {0}, end, tensor;
    for (int64_t i = 0; i < n; i++) {
        if (p[i].dtype != p->dtype) return REFUSE(s, &p[i], "its dtype differs from that in another file");
        if (p[i].ndim != p->ndim) return REFUSE(s, &p[i], "its number of dims differs from that in another file");
        for (int d = 0; d < p->ndim; d++) {
            if (!rshi_add(p[i].offset[d], p[i].size[d], &end))
                return REFUSE(s, &p[i], "its offset plus its size exceeds 2^63 - 1");
            shape[d] = rshi_max(shape[d], end);
        }
    }
    RSH_TRY(rshi_ckpt_add_tensor(s->c, p->name, strlen(p->name), p->dtype, p->ndim, shape, p->file, p->entry, &tensor));
    for (int64_t i = 0; i < n; i++)
        RSH_TRY(rshi_ckpt_add_box(s->c, tensor, p[i].offset, p[i].size, p[i].file, p[i].at));
    return RSH_OK;
}

static rsh_status add_tensors(sharding *s) {
    if (s->n) qsort(s->piece, (size_t)s->n, sizeof *s->piece, by_name);
    for (int64_t i = 0, end; i < s->n; i = end) {
        for (end = i + 1; end < s->n && !strcmp(s->piece[i].name, s->piece[end].name);) end++;
        RSH_TRY(add_tensor(s, s->piece + i, end - i));
    }
    return RSH_OK;
}

static rsh_status read_torch_shards(const rshi_ckpt_place *place, rsh_ckpt *c) {
    sharding s = {.c = c, .directory = place->path};
    int64_t shard, file, files;
    rsh_status st = check_numbers(&s, place);
    for (int64_t i = 0; i < place->nnames && !st; i++)
        if (read_name(place->name[i], &shard, &file, &files)) st = read_file(&s, place->name[i]);
    if (!st) st = add_tensors(&s);
    rshi_free(s.piece);
    return st ? st : rshi_ckpt_add_beside(c, place);
}

const rshi_ckpt_kind rshi_kind_torch_shards = {"sharded safetensors of PyTorch", detect_torch_shards, read_torch_shards,
                                               false};
