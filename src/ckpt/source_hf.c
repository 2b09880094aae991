/* HF: reads a directory of Hugging Face's tools: safetensors or torch.save files with whole tensors, and an index that
 * says which tensor is in which file. */
#include "ckpt/torch_values.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

typedef struct mapped {
    const char *tensor; /* in the checkpoint's store */
    int32_t file;       /* index in `files` */
} mapped;

/* Contents of the index. */
typedef struct indexing {
    rshi_json json;
    rsh_ckpt *c;
    mapped *map;
    int64_t nmap, map_room;
    const char **files; /* names of the files, in the order in which they appear */
    int32_t *number;    /* index of each of these files in the checkpoint */
    int64_t nfiles, files_room;
    rshi_name_table names; /* hash table of the file names */
} indexing;

static rsh_status find_file(indexing *x, const char *name, int32_t *out) {
    int64_t known = rshi_name_table_find(&x->names, name);
    if (known >= 0) return *out = (int32_t)known, RSH_OK;
    RSH_TRY(RSHI_GROW(x->files, x->nfiles + 1, &x->files_room));
    x->files[x->nfiles] = rshi_store_text(&x->c->store, name, strlen(name));
    if (!x->files[x->nfiles]) return rshi_nomem();
    *out = (int32_t)x->nfiles++;
    return rshi_name_table_add(&x->names, x->files[*out], *out);
}

static rsh_status read_map(indexing *x) {
    rshi_json *j = &x->json;
    rsh_status st;
    bool more;
    RSH_TRY(rshi_json_want(j, RSHI_JSON_OBJECT));
    while (!(st = rshi_json_key(j, &more)) && more) {
        RSH_TRY(RSHI_GROW(x->map, x->nmap + 1, &x->map_room));
        mapped *m = &x->map[x->nmap];
        m->tensor = rshi_store_text(&x->c->store, j->text, j->length);
        if (!m->tensor) return rshi_nomem();
        RSH_TRY(rshi_json_want(j, RSHI_JSON_STRING));
        RSH_TRY(find_file(x, j->text, &m->file));
        x->nmap++;
    }
    return st;
}

static rsh_status read_index(indexing *x) {
    rshi_json *j = &x->json;
    rsh_status st;
    bool found = false, more;
    RSH_TRY(rshi_json_want(j, RSHI_JSON_OBJECT));
    while (!(st = rshi_json_key(j, &more)) && more) {
        if (strcmp(j->text, "weight_map")) {
            RSH_TRY(rshi_json_skip(j, RSHI_JSON_END));
            continue;
        }
        if (found) return rshi_json_fail(j, "duplicate key \"weight_map\"");
        found = true;
        RSH_TRY(read_map(x));
    }
    RSH_TRY(st);
    RSH_TRY(rshi_json_want(j, RSHI_JSON_END));
    if (!found) return rshi_json_fail(j, "the index has no \"weight_map\"");
    return RSH_OK;
}

static rsh_status open_index(indexing *x, const char *directory, const char *name) {
    int32_t file;
    RSH_TRY(rshi_ckpt_inside(directory, name));
    RSH_TRY(rshi_ckpt_add_file(x->c, directory, name, &file));
    const char *path = x->c->file[file].path;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return rshi_io_fail(path);
    rsh_status st = rshi_json_open(&x->json, fd, 0, x->c->file[file].size, path);
    if (!st) st = read_index(x);
    x->c->file[file].hash = x->json.hash;
    rshi_json_close(&x->json);
    close(fd);
    return st;
}

/* Checks that every tensor of the index is in its file, and that every tensor of the files is in the index once. */
static rsh_status check_map(const indexing *x, const char *index, bool *seen) {
    const rsh_ckpt *c = x->c;
    for (int64_t i = 0; i < x->nmap; i++) {
        const mapped *m = &x->map[i];
        int64_t t = rshi_ckpt_find(c, m->tensor, strlen(m->tensor));
        int32_t file = t < 0 ? -1 : c->tensor[t].named_in;
        RSH_REQUIRE(t >= 0 && file == x->number[m->file], RSH_EVALUE,
                    "%s: the index says that tensor \"%.200s\" is in %s, but that file does not have it", index,
                    m->tensor, x->files[m->file]);
        RSH_REQUIRE(!seen[t], RSH_EVALUE, "%s: duplicate tensor \"%.200s\" in the index", index, m->tensor);
        seen[t] = true;
    }
    for (int64_t t = 0; t < c->ntensors; t++)
        RSH_REQUIRE(seen[t], RSH_EVALUE, "%s: tensor \"%.200s\" of %s is not in the index", index, c->tensor[t].name,
                    c->file[c->tensor[t].named_in].name);
    return RSH_OK;
}

/* If a file that the index lists does not exist, the error names the index. */
static rsh_status check_shard(const indexing *x, const char *directory, const char *name) {
    char *path = NULL;
    if (strchr(name, '/')) return RSH_OK; /* rshi_ckpt_inside rejects such a name */
    RSH_TRY(rshi_ckpt_join(directory, name, &path));
    bool missing = access(path, F_OK) && errno == ENOENT;
    rshi_free(path);
    RSH_REQUIRE(!missing, RSH_EIO, "%.300s: the index names %.200s, which does not exist; download the missing file",
                x->c->file[0].path, name);
    return RSH_OK;
}

static rsh_status add_files(indexing *x, const char *directory) {
    x->number = rshi_alloc((size_t)x->nfiles, sizeof *x->number);
    if (!x->number) return rshi_nomem();
    for (int64_t i = 0; i < x->nfiles; i++) {
        RSH_TRY(check_shard(x, directory, x->files[i]));
        RSH_TRY(rshi_ckpt_inside(directory, x->files[i]));
        bool torch = !rshi_ckpt_ends(x->files[i], ".safetensors") && rshi_ckpt_is_torch(directory, x->files[i]);
        RSH_TRY((torch ? rshi_ckpt_add_torch : rshi_ckpt_add_safetensors)(x->c, directory, x->files[i], &x->number[i]));
    }
    return RSH_OK;
}

static rsh_status read_indexed(const rshi_ckpt_place *place, const char *index, rsh_ckpt *c) {
    indexing x = {.c = c};
    bool *seen = NULL;
    rsh_status st;
    RSH_GOTO(open_index(&x, place->path, index));
    RSH_GOTO(add_files(&x, place->path));
    seen = rshi_calloc((size_t)c->ntensors, sizeof *seen);
    RSH_GOTO(seen ? RSH_OK : rshi_nomem());
    st = check_map(&x, c->file[0].path, seen);
out:
    rshi_free(seen);
    rshi_free(x.map);
    rshi_free(x.files);
    rshi_free(x.number);
    rshi_name_table_free(&x.names);
    return st;
}

/* ---- without an index: all safetensors files; each tensor must be in one of them ---- */

static rsh_status read_unindexed(const rshi_ckpt_place *place, rsh_ckpt *c) {
    RSH_TRY(rshi_ckpt_check_series(place, ".safetensors"));
    for (int64_t i = 0; i < place->nnames; i++) {
        int32_t file;
        if (!rshi_ckpt_ends(place->name[i], ".safetensors")) continue;
        RSH_TRY(rshi_ckpt_inside(place->path, place->name[i]));
        RSH_TRY(rshi_ckpt_add_safetensors(c, place->path, place->name[i], &file));
    }
    return RSH_OK;
}

/* Finds the index.  An index of safetensors files is preferred to one of pytorch_model-*.bin. */
static const char *find_index(const rshi_ckpt_place *place) {
    const char *found = NULL;
    bool safe = rshi_ckpt_place_has(place, "", ".safetensors") ||
                rshi_ckpt_place_has(place, "", ".safetensors.index.json");
    for (int64_t i = 0; i < place->nnames; i++) {
        if (!rshi_ckpt_ends(place->name[i], safe ? ".safetensors.index.json" : ".bin.index.json")) continue;
        if (!found || !strcmp(place->name[i], "model.safetensors.index.json")) found = place->name[i];
    }
    return found;
}

static bool detect_hf(const rshi_ckpt_place *place) {
    return find_index(place) || rshi_ckpt_place_has(place, "", ".safetensors");
}

static rsh_status read_hf(const rshi_ckpt_place *place, rsh_ckpt *c) {
    const char *index = find_index(place);
    RSH_TRY(index ? read_indexed(place, index, c) : read_unindexed(place, c));
    return rshi_ckpt_add_beside(c, place);
}

const rshi_ckpt_kind rshi_kind_hf = {"Hugging Face directory", detect_hf, read_hf, false};
