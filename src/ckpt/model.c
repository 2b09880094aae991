/* Model: adds files, tensors and the positions of their bytes to a checkpoint. */
#include "ckpt/ckpt.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

char *rshi_ckpt_copy(const char *text) {
    size_t n = strlen(text) + 1;
    char *copy = rshi_alloc(n, 1);
    if (copy) memcpy(copy, text, n);
    return copy;
}

/* ---- files ---- */

rsh_status rshi_ckpt_join(const char *directory, const char *name, char **out) {
    rshi_text t = {0};
    if (directory)
        rshi_text_add(&t, "%s/%s", directory, name);
    else
        rshi_text_add(&t, "%s", name);
    if (t.failed) return rshi_text_free(&t), rshi_nomem();
    *out = t.data;
    return RSH_OK;
}

int64_t rshi_mtime(const struct stat *s) { return (int64_t)s->st_mtim.tv_sec * 1000000000 + s->st_mtim.tv_nsec; }

static rsh_status stat_file(rshi_ckpt_file *f) {
    struct stat s;
    if (stat(f->path, &s)) return rshi_io_fail(f->path);
    RSH_REQUIRE(S_ISREG(s.st_mode), RSH_EIO, "%s: not a regular file", f->path);
    f->size = (uint64_t)s.st_size;
    f->mtime = rshi_mtime(&s);
    return RSH_OK;
}

static void free_file(rshi_ckpt_file *f) {
    rshi_free(f->path);
    rshi_free(f->name);
}

rsh_status rshi_ckpt_add_file(rsh_ckpt *c, const char *directory, const char *name, int32_t *file) {
    rshi_ckpt_file f = {0};
    rsh_status st;
    RSH_REQUIRE(c->nfiles < INT32_MAX, RSH_EUNSUP, "%s: too many files: at most 2147483647 are supported", c->path);
    RSH_TRY(RSHI_GROW(c->file, c->nfiles + 1, &c->files_room));
    RSH_GOTO(rshi_ckpt_join(directory, name, &f.path));
    f.name = rshi_ckpt_copy(directory ? name : f.path);
    RSH_GOTO(f.name ? RSH_OK : rshi_nomem());
    RSH_GOTO(stat_file(&f));
    if (rshi_ckpt_find_file(c, f.name) < 0) RSH_GOTO(rshi_name_table_add(&c->file_names, f.name, c->nfiles));
    *file = (int32_t)c->nfiles;
    c->file[c->nfiles++] = f;
    return RSH_OK;
out:
    free_file(&f);
    return st;
}

int64_t rshi_ckpt_find_file(const rsh_ckpt *c, const char *name) {
    return rshi_name_table_find(&c->file_names, name);
}

void rshi_ckpt_hash(rsh_ckpt *c, int32_t file, const void *bytes, size_t n) {
    c->file[file].hash = rshi_hash(bytes, n, c->file[file].hash);
}

/* ---- names ---- */

typedef struct rshi_ckpt_slot slot;

/* Finds the slot of that name, or the free slot where it would be inserted. */
static slot *find_slot(const rsh_ckpt *c, uint64_t hash, const char *name, size_t length) {
    for (int64_t at = (int64_t)hash & (c->nslots - 1);; at = (at + 1) & (c->nslots - 1)) {
        slot *s = &c->slot[at];
        if (s->tensor < 0) return s;
        const char *its = s->hash == hash ? c->tensor[s->tensor].name : NULL;
        if (its && !strncmp(its, name, length) && !its[length]) return s;
    }
}

static rsh_status grow_slots(rsh_ckpt *c) {
    if (2 * (c->ntensors + 1) <= c->nslots) return RSH_OK;
    int64_t n = c->nslots ? 2 * c->nslots : 64;
    slot *old = c->slot, *list = rshi_alloc((size_t)n, sizeof *list);
    if (!list) return rshi_nomem();
    for (int64_t i = 0; i < n; i++) list[i].tensor = -1;
    for (int64_t i = 0; i < c->nslots; i++) {
        if (old[i].tensor < 0) continue;
        int64_t at = (int64_t)old[i].hash & (n - 1);
        while (list[at].tensor >= 0) at = (at + 1) & (n - 1);
        list[at] = old[i];
    }
    rshi_free(old);
    c->slot = list;
    c->nslots = n;
    return RSH_OK;
}

int64_t rshi_ckpt_find(const rsh_ckpt *c, const char *name, size_t length) {
    return c->nslots ? find_slot(c, rshi_hash(name, length, 0), name, length)->tensor : -1;
}

/* ---- tensors ---- */

rsh_status rshi_ckpt_refuse(const rsh_ckpt *c, int32_t file, uint64_t at, const char *name, const char *format, ...) {
    char sentence[600];
    va_list list;
    va_start(list, format);
    rshi_text_format_list(sentence, sizeof sentence, format, list);
    va_end(list);
    return rshi_fail(RSH_EVALUE, "%.150s: byte %" PRIu64 ": tensor \"%.200s\": %s", c->file[file].path, at, name,
                     sentence);
}

static rsh_status check_shape(const rsh_ckpt *c, const char *name, rsh_dtype dtype, int ndim, const int64_t *shape) {
    int64_t count, bits = 0;
    bool empty = false, right = true;
    RSH_REQUIRE((unsigned)ndim <= RSH_MAX_NDIM, RSH_EUNSUP,
                "%s: tensor \"%.200s\" has %d dims; at most %d are supported", c->path, name, ndim, RSH_MAX_NDIM);
    for (int d = 0; d < ndim; d++) {
        empty |= !shape[d];
        right &= shape[d] >= 0;
    }
    RSH_REQUIRE(right, RSH_EVALUE, "%s: tensor \"%.200s\" has a negative size", c->path, name);
    if (!empty) right = rshi_product(ndim, shape, &count) && rshi_mul(count, rsh_dtype_bits(dtype), &bits);
    RSH_REQUIRE(right, RSH_EVALUE, "%s: tensor \"%.200s\" is too large: its size in bits exceeds 2^63 - 1", c->path,
                name);
    return RSH_OK;
}

/* Rejects names that a safetensors file cannot have. */
static rsh_status check_name(const rsh_ckpt *c, const char *name) {
    RSH_REQUIRE(rshi_is_utf8(name, strlen(name)), RSH_EVALUE, "%s: tensor \"%.200s\": its name is not UTF-8", c->path,
                name);
    RSH_REQUIRE(strcmp(name, "__metadata__"), RSH_EVALUE,
                "%s: a tensor is named \"__metadata__\", which safetensors reserves; rename it", c->path);
    return RSH_OK;
}

static rsh_status store_tensor(rsh_ckpt *c, const char *name, size_t length, int ndim, const int64_t *shape,
                               rshi_ckpt_tensor *t) {
    int64_t *sizes = rshi_store_take(&c->store, (size_t)ndim * sizeof *shape, sizeof *shape);
    t->name = rshi_store_text(&c->store, name, length);
    if (!sizes || !t->name) return rshi_nomem();
    if (ndim) memcpy(sizes, shape, (size_t)ndim * sizeof *shape);
    t->shape = sizes;
    t->ndim = ndim;
    return RSH_OK;
}

/* Reports a duplicate name.  Files of one model that have the same names are often rank files of another tool. */
static rsh_status refuse_duplicate(const rsh_ckpt *c, const char *name, int32_t file, uint64_t at, int32_t other) {
    bool rank_files = c->kind == &rshi_kind_hf && other >= 0 && other != file;
    return rshi_fail(RSH_EVALUE, "%.150s: byte %" PRIu64 ": duplicate tensor \"%.200s\"%s%.150s%s", c->file[file].name,
                     at, name, rank_files ? ", which is also in " : "", rank_files ? c->file[other].name : "",
                     rank_files
                         ? "; if these are rank files of another tool, such as vLLM, describe their layouts with "
                           "--from RULES"
                         : "");
}

rsh_status rshi_ckpt_add_tensor(rsh_ckpt *c, const char *name, size_t length, rsh_dtype dtype, int ndim,
                                const int64_t *shape, int32_t file, uint64_t at, int64_t *tensor) {
    rshi_ckpt_tensor t = {.dtype = dtype, .named_in = file, .source = -1, .rule = -1, .scales = -1, .instance = -1};
    RSH_TRY(grow_slots(c));
    RSH_TRY(RSHI_GROW(c->tensor, c->ntensors + 1, &c->tensors_room));
    RSH_TRY(store_tensor(c, name, length, (unsigned)ndim <= RSH_MAX_NDIM ? ndim : 0, shape, &t));
    RSH_REQUIRE(rsh_dtype_bits(dtype), RSH_EVALUE, "%s: tensor \"%.200s\": %d is not a dtype", c->path, t.name,
                (int)dtype);
    RSH_TRY(check_name(c, t.name));
    RSH_TRY(check_shape(c, t.name, dtype, ndim, shape));
    uint64_t hash = rshi_hash(name, length, 0);
    slot *its = find_slot(c, hash, name, length);
    if (its->tensor >= 0 && file < 0)
        return rshi_fail(RSH_EVALUE, "%s: duplicate tensor \"%.200s\"", c->path, t.name);
    if (its->tensor >= 0) return refuse_duplicate(c, t.name, file, at, c->tensor[its->tensor].named_in);
    *tensor = c->ntensors;
    *its = (slot){hash, c->ntensors};
    c->tensor[c->ntensors++] = t;
    return RSH_OK;
}

static rsh_status take_parts(rsh_ckpt *c, rshi_ckpt_tensor *t, int64_t n, const rshi_ckpt_part *parts) {
    RSH_TRY(RSHI_GROW(c->parts, c->nparts + n, &c->parts_room));
    if (n) memcpy(c->parts + c->nparts, parts, (size_t)n * sizeof *parts);
    t->part = c->nparts;
    t->nparts = n;
    c->nparts += n;
    return RSH_OK;
}

rsh_status rshi_ckpt_set_whole(rsh_ckpt *c, int64_t tensor, int32_t file, uint64_t at) {
    return take_parts(c, &c->tensor[tensor], 1, &(rshi_ckpt_part){file, at});
}

rsh_status rshi_ckpt_set_parts(rsh_ckpt *c, int64_t tensor, const rsh_layout *layout, int64_t nparts,
                               const rshi_ckpt_part *parts) {
    rshi_ckpt_tensor *t = &c->tensor[tensor];
    RSH_REQUIRE(!rsh_layout_op(layout), RSH_EUNSUP,
                "%.150s: tensor \"%.150s\" has a partial layout, which cannot be read from files: %.300s", c->path,
                t->name, rsh_layout_text(layout));
    RSH_TRY(take_parts(c, t, nparts, parts));
    rsh_layout_free(t->layout);
    t->layout = rsh_layout_hold(layout);
    t->ranks_are_files = true;
    return RSH_OK;
}

/* ---- metadata, other files and non-tensor entries ---- */

static rsh_status add_pair(rshi_ckpt_pair **list, int64_t *n, int64_t *room, const char *key, const char *value) {
    RSH_TRY(RSHI_GROW(*list, *n + 1, room));
    rshi_ckpt_pair p = {rshi_ckpt_copy(key), rshi_ckpt_copy(value)};
    if (!p.key || !p.value) {
        rshi_free(p.key);
        rshi_free(p.value);
        return rshi_nomem();
    }
    (*list)[(*n)++] = p;
    return RSH_OK;
}

rsh_status rshi_ckpt_add_meta(rsh_ckpt *c, const char *key, const char *value) {
    RSH_REQUIRE(rshi_is_utf8(key, strlen(key)) && rshi_is_utf8(value, strlen(value)), RSH_EVALUE,
                "%s: metadata \"%.200s\": key or value is not UTF-8", c->path, key);
    if (rshi_name_table_find(&c->meta_keys, key) >= 0)
        return RSH_OK; /* several files may have this key; the first value is kept */
    RSH_TRY(add_pair(&c->meta, &c->nmeta, &c->meta_room, key, value));
    return rshi_name_table_add(&c->meta_keys, c->meta[c->nmeta - 1].key, c->nmeta - 1);
}

rsh_status rshi_ckpt_add_beside_file(rsh_ckpt *c, const char *name, const char *path) {
    return add_pair(&c->beside, &c->nbeside, &c->beside_room, name, path);
}

rsh_status rshi_ckpt_add_folder(rsh_ckpt *c, const char *name, const char *path) {
    return add_pair(&c->folder, &c->nfolders, &c->folders_room, name, path);
}

rsh_status rshi_ckpt_add_left(rsh_ckpt *c, const char *name, const char *why) {
    return add_pair(&c->left, &c->nleft, &c->left_room, name, why);
}

rsh_status rshi_ckpt_add_other(rsh_ckpt *c, const char *name, const char *what) {
    RSH_TRY(RSHI_GROW(c->other, c->nothers + 1, &c->others_room));
    rshi_ckpt_other o = {rshi_ckpt_copy(name), rshi_ckpt_copy(what)};
    if (!o.name || !o.what) {
        rshi_free(o.name);
        rshi_free(o.what);
        return rshi_nomem();
    }
    c->other[c->nothers++] = o;
    return RSH_OK;
}

/* ---- freeing ---- */

static void free_pairs(rshi_ckpt_pair *list, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        rshi_free(list[i].key);
        rshi_free(list[i].value);
    }
    rshi_free(list);
}

/* Clears the fields that a mapped checkpoint borrows from its base. */
static void clear_borrowed(rsh_ckpt *c) {
    c->reading = NULL;
    c->gguf = NULL;
    c->file = NULL;
    c->parts = NULL;
    c->meta = NULL;
    c->other = NULL;
    c->beside = NULL;
    c->nfiles = c->nmeta = c->nothers = c->nbeside = 0;
}

void rsh_ckpt_free(rsh_ckpt *c) {
    if (!c) return;
    if (c->base) clear_borrowed(c);
    rshi_reading_close(c);
    for (int64_t i = 0; i < c->nfiles; i++) free_file(&c->file[i]);
    for (int64_t i = 0; i < c->ntensors; i++) rsh_layout_free(c->tensor[i].layout);
    for (int64_t i = 0; i < c->nothers; i++) {
        rshi_free(c->other[i].name);
        rshi_free(c->other[i].what);
    }
    free_pairs(c->meta, c->nmeta);
    free_pairs(c->beside, c->nbeside);
    free_pairs(c->folder, c->nfolders);
    free_pairs(c->left, c->nleft);
    rshi_free(c->other);
    rshi_free(c->file);
    rshi_free(c->tensor);
    rshi_free(c->parts);
    rshi_free(c->boxes);
    rshi_free(c->slot);
    rshi_free(c->instance);
    rshi_free(c->dropped);
    rshi_free(c->apart);
    rshi_gguf_free(c->gguf);
    rshi_name_table_free(&c->file_names);
    rshi_name_table_free(&c->meta_keys);
    rshi_free(c->path);
    rshi_store_free(&c->store);
    rshi_free(c);
}
