/* Torch: reads files of torch.save: a single file, a directory of a model, or one file per rank. */
#include "ckpt/torch_values.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool rshi_ckpt_is_torch(const char *directory, const char *name) {
    unsigned char head[RSHI_SAVED_HEAD];
    char *path = NULL;
    if (rshi_ckpt_join(directory, name, &path)) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd >= 0 ? pread(fd, head, sizeof head, 0) : -1;
    if (fd >= 0) close(fd);
    rshi_free(path);
    return got > 0 && rshi_saved_detect(head, (size_t)got);
}

static bool has_ending(const char *name) {
    return rshi_ckpt_ends(name, ".pt") || rshi_ckpt_ends(name, ".pth") || rshi_ckpt_ends(name, ".bin");
}

/* ---- names of rank files: KEY_RANK.pt, KEY_world_size_SIZE_rank_RANK.pt ---- */

typedef struct named {
    const char *name;   /* borrowed: name of the file */
    size_t key;         /* length of the key at the beginning of the name */
    int64_t rank, size; /* size: -1 if it is not in the name */
} named;

/* Parses the number between `word` and *end, and moves *end to the start of the word. */
static bool take_number(const char *name, size_t *end, const char *word, int64_t *out) {
    size_t from = *end, n = strlen(word);
    while (from && name[from - 1] >= '0' && name[from - 1] <= '9') from--;
    if (from == *end || *end - from > 9 || from < n || strncmp(name + from - n, word, n)) return false;
    *out = strtoll(name + from, NULL, 10);
    *end = from - n;
    return true;
}

static bool parse_name(const char *name, named *out) {
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name, *dot = strrchr(base, '.');
    if (!has_ending(base)) return false;
    size_t end = (size_t)(dot - base);
    *out = (named){.name = base, .size = -1};
    if (take_number(base, &end, "_rank_", &out->rank))
        take_number(base, &end, "_world_size_", &out->size);
    else if (!take_number(base, &end, "_", &out->rank))
        return false;
    out->key = end;
    return end > 0;
}

static int by_key(const void *a, const void *b) {
    const named *x = a, *y = b;
    int c = strncmp(x->name, y->name, x->key < y->key ? x->key : y->key);
    if (c || x->key != y->key) return c ? c : (x->key > y->key) - (x->key < y->key);
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static bool same_key(const named *a, const named *b) { return a->key == b->key && !strncmp(a->name, b->name, a->key); }

/* ---- a directory of rank files ---- */

/* Lists the rank files, sorted by key and rank: all of them, or those of one key. */
static rsh_status list_ranks(const rshi_ckpt_place *place, const named *only, named **list, int64_t *n) {
    int64_t room = 0;
    named x;
    *n = 0;
    for (int64_t i = 0; i < place->nnames; i++) {
        if (!parse_name(place->name[i], &x) || (only && !same_key(only, &x))) continue;
        if (!rshi_ckpt_is_torch(place->path, x.name)) continue;
        RSH_TRY(RSHI_GROW(*list, *n + 1, &room));
        (*list)[(*n)++] = x;
    }
    if (*n) qsort(*list, (size_t)*n, sizeof **list, by_key);
    return RSH_OK;
}

/* Checks that files [list, list + n) of one key are those of ranks 0 to n - 1. */
static rsh_status check_ranks(const rshi_ckpt_place *place, const named *list, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t size = list[i].size < 0 ? n : list[i].size;
        RSH_REQUIRE(list[i].rank == i && size == n, RSH_EVALUE,
                    "%.150s: the rank file \"%.*s\" of rank %" PRId64 " is missing: found %" PRId64
                    " files for %" PRId64 " ranks, and in its place %.150s",
                    place->path, (int)list[i].key, list[i].name, list[i].rank == i ? n : i, n, size, list[i].name);
    }
    return RSH_OK;
}

static rsh_status gather_key(rshi_torch_gathering *g, const rshi_ckpt_place *place, const named *list, int64_t n,
                             bool prefixed) {
    rshi_text prefix = {0};
    rsh_status st = check_ranks(place, list, n);
    if (prefixed) rshi_text_add(&prefix, "%.*s.", (int)list->key, list->name);
    if (!st && prefix.failed) st = rshi_nomem();
    for (int64_t i = 0; i < n && !st; i++) {
        int32_t file;
        st = rshi_ckpt_inside(place->path, list[i].name);
        if (!st) st = rshi_torch_gather(g, place->path, list[i].name, list[i].rank, prefixed ? prefix.data : "", &file);
    }
    rshi_text_free(&prefix);
    return st;
}

/* Reads the files of all ranks.  If there are several keys, tensor names get the key as a prefix. */
static rsh_status gather_ranks(rsh_ckpt *c, const rshi_ckpt_place *place, const named *list, int64_t n) {
    rshi_torch_gathering g = {.c = c};
    bool prefixed = n && !same_key(&list[0], &list[n - 1]);
    rsh_status st = RSH_OK;
    for (int64_t i = 0, k; i < n && !st; i += k) {
        for (k = 1; i + k < n && same_key(&list[i], &list[i + k]);) k++;
        st = gather_key(&g, place, list + i, k, prefixed);
    }
    if (!st) st = rshi_torch_finish(&g);
    rshi_torch_gathering_free(&g);
    return st;
}

/* Returns whether a directory has rank files.  Next to pytorch_model.bin, files such as rng_state_0.pth are not the
 * model. */
static bool detect_torch_ranks(const rshi_ckpt_place *place) {
    named x;
    if (rshi_ckpt_place_has(place, "pytorch_model.bin", "pytorch_model.bin")) return false;
    for (int64_t i = 0; i < place->nnames; i++)
        if (parse_name(place->name[i], &x) && x.rank == 0 && rshi_ckpt_is_torch(place->path, place->name[i]))
            return true;
    return false;
}

static rsh_status read_torch_ranks(const rshi_ckpt_place *place, rsh_ckpt *c) {
    named *list = NULL;
    int64_t n;
    rsh_status st = list_ranks(place, NULL, &list, &n);
    if (!st) st = gather_ranks(c, place, list, n);
    rshi_free(list);
    return st ? st : rshi_ckpt_add_beside(c, place);
}

const rshi_ckpt_kind rshi_kind_torch_ranks = {"rank files of torch.save", detect_torch_ranks, read_torch_ranks, false};

/* ---- a directory of one model ---- */

/* Returns pytorch_model.bin, or the only file of torch.save; NULL: there is none, or there are several. */
static const char *find_model(const rshi_ckpt_place *place) {
    const char *found = NULL;
    int n = 0;
    for (int64_t i = 0; i < place->nnames; i++) {
        if (!has_ending(place->name[i]) || !rshi_ckpt_is_torch(place->path, place->name[i])) continue;
        if (!strcmp(place->name[i], "pytorch_model.bin")) return place->name[i];
        found = place->name[i];
        n++;
    }
    return n == 1 ? found : NULL;
}

static bool has_torch(const rshi_ckpt_place *place) {
    for (int64_t i = 0; i < place->nnames; i++)
        if (has_ending(place->name[i]) && rshi_ckpt_is_torch(place->path, place->name[i])) return true;
    return false;
}

static bool detect_torch_model(const rshi_ckpt_place *place) { return place->is_directory && has_torch(place); }

static rsh_status read_torch_model(const rshi_ckpt_place *place, rsh_ckpt *c) {
    const char *name = find_model(place);
    int32_t file;
    RSH_TRY(rshi_ckpt_check_series(place, ".bin"));
    RSH_REQUIRE(name, RSH_EVALUE,
                "%s: found several torch.save files and no pytorch_model.bin; give the path of the file to read",
                place->path);
    RSH_TRY(rshi_ckpt_inside(place->path, name));
    RSH_TRY(rshi_ckpt_add_torch(c, place->path, name, &file));
    return rshi_ckpt_add_beside(c, place);
}

const rshi_ckpt_kind rshi_kind_torch_model = {"directory of torch.save", detect_torch_model, read_torch_model, false};

/* ---- one file ---- */

static bool detect_torch_file(const rshi_ckpt_place *place) {
    return !place->is_directory && rshi_ckpt_is_torch(NULL, place->path);
}

static rsh_status note_sharded(void *ctx, const char *name, const rshi_pickle_value *v) {
    (void)name;
    *(bool *)ctx |= rshi_torch_is_sharded(v);
    return RSH_OK;
}

static rsh_status skip_other(void *ctx, const char *name, const char *what) {
    (void)ctx, (void)name, (void)what;
    return RSH_OK;
}

/* Does the file have sharded tensors, whose other parts are in files of other ranks? */
static rsh_status has_sharded(const char *path, bool *out) {
    struct stat f;
    rshi_torch_file s;
    rshi_torch_visitor to = {note_sharded, skip_other, out};
    *out = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &f)) return fd < 0 ? rshi_io_fail(path) : (close(fd), rshi_io_fail(path));
    rsh_status st = rshi_saved_open(&(rshi_file_span){fd, path, 0, (uint64_t)f.st_size}, &s);
    if (!st) st = rshi_torch_walk(&s, "", &to);
    rshi_saved_close(&s);
    close(fd);
    return st;
}

/* Reads the files of all ranks in the same directory. */
static rsh_status read_siblings(const char *path, const named *own, rsh_ckpt *c) {
    const char *slash = strrchr(path, '/');
    rshi_ckpt_place around = {0};
    rshi_text directory = {0};
    named *list = NULL;
    int64_t n = 0;
    rshi_text_add(&directory, "%.*s", slash ? (int)(slash - path) + (slash == path) : 1, slash ? path : ".");
    rsh_status st = directory.failed ? rshi_nomem() : rshi_ckpt_place_open(directory.data, NULL, &around);
    if (!st) st = list_ranks(&around, own, &list, &n);
    if (!st) st = gather_ranks(c, &around, list, n);
    rshi_free(list);
    rshi_ckpt_place_close(&around);
    rshi_text_free(&directory);
    return st;
}

static rsh_status read_torch_file(const rshi_ckpt_place *place, rsh_ckpt *c) {
    int32_t file;
    bool sharded = false;
    named own;
    if (parse_name(place->path, &own)) RSH_TRY(has_sharded(place->path, &sharded));
    if (sharded) return read_siblings(place->path, &own, c);
    return rshi_ckpt_add_torch(c, NULL, place->path, &file);
}

const rshi_ckpt_kind rshi_kind_torch_file = {"torch.save file", detect_torch_file, read_torch_file, false};
