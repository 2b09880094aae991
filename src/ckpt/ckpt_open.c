/* Open: finds the format of a checkpoint and reads its headers. */
#include "ckpt/rules.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const rshi_ckpt_kind *const kinds[] = {
    &rshi_kind_megatron,    &rshi_kind_rank_files, &rshi_kind_distcp, &rshi_kind_torch_shards, &rshi_kind_index,
    &rshi_kind_ranks,       &rshi_kind_hf,         &rshi_kind_zero,   &rshi_kind_deepspeed,    &rshi_kind_torch_ranks,
    &rshi_kind_torch_model, &rshi_kind_gguf,       &rshi_kind_torch_file, &rshi_kind_file,
};

/* ---- places ---- */

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static rsh_status list_names(rshi_ckpt_place *p, DIR *d) {
    int64_t room = 0;
    for (struct dirent *e; (errno = 0, e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        RSH_TRY(RSHI_GROW(p->name, p->nnames + 1, &room));
        p->name[p->nnames] = rshi_ckpt_copy(e->d_name);
        if (!p->name[p->nnames]) return rshi_nomem();
        p->nnames++;
    }
    if (errno) return rshi_io_fail(p->path);
    if (p->nnames) qsort(p->name, (size_t)p->nnames, sizeof *p->name, by_name);
    return RSH_OK;
}

rsh_status rshi_ckpt_place_open(const char *path, const rsh_ckpt_rules *from, rshi_ckpt_place *p) {
    struct stat s;
    *p = (rshi_ckpt_place){.path = path, .from = from};
    if (stat(path, &s)) {
        RSH_REQUIRE(errno != ENOENT && errno != ENOTDIR, RSH_EIO,
                    "%s: %s; give a checkpoint file, such as model.safetensors, or a directory of such files", path,
                    strerror(errno));
        return rshi_io_fail(path);
    }
    p->is_directory = S_ISDIR(s.st_mode);
    RSH_REQUIRE(p->is_directory || S_ISREG(s.st_mode), RSH_EIO, "%s: expected a regular file or a directory", path);
    if (!p->is_directory) return RSH_OK;
    DIR *d = opendir(path);
    if (!d) return rshi_io_fail(path);
    rsh_status st = list_names(p, d);
    closedir(d);
    return st;
}

void rshi_ckpt_place_close(rshi_ckpt_place *p) {
    for (int64_t i = 0; i < p->nnames; i++) rshi_free(p->name[i]);
    rshi_free(p->name);
}

bool rshi_ckpt_ends(const char *text, const char *suffix) {
    size_t n = strlen(text), k = strlen(suffix);
    return n >= k && !strcmp(text + n - k, suffix);
}

bool rshi_ckpt_place_has(const rshi_ckpt_place *p, const char *prefix, const char *suffix) {
    for (int64_t i = 0; i < p->nnames; i++)
        if (!strncmp(p->name[i], prefix, strlen(prefix)) && rshi_ckpt_ends(p->name[i], suffix)) return true;
    return false;
}

/* ---- links ---- */

static bool is_below(const char *path, const char *directory) {
    size_t n = strlen(directory);
    return !strncmp(path, directory, n) && (path[n] == '/' || !path[n]);
}

/* The download cache of Hugging Face contains links from snapshots/REVISION to files in blobs. */
static bool in_cache(const char *directory, const char *path) {
    char blobs[PATH_MAX], *slash;
    if (strlen(directory) + 8 > sizeof blobs) return false;
    strcpy(blobs, directory);
    for (int i = 0; i < 2; i++) {
        slash = strrchr(blobs, '/');
        if (!slash || slash == blobs) return false;
        if (i == 1 && strcmp(slash, "/snapshots")) return false;
        *slash = 0;
    }
    strcat(blobs, "/blobs");
    return is_below(path, blobs);
}

bool rshi_ckpt_is_outside(const char *directory, const char *path) {
    char home[PATH_MAX], real[PATH_MAX];
    return !realpath(directory, home) || !realpath(path, real) || (!is_below(real, home) && !in_cache(home, real));
}

rsh_status rshi_ckpt_inside(const char *directory, const char *name) {
    char *path = NULL, home[PATH_MAX], real[PATH_MAX];
    RSH_REQUIRE(*name && !strchr(name, '/') && strcmp(name, "..") && strcmp(name, "."), RSH_EVALUE,
                "%s: file names must not have a path, got \"%.200s\"; files must be in the directory itself", directory,
                name);
    RSH_TRY(rshi_ckpt_join(directory, name, &path));
    bool found = realpath(directory, home) && realpath(path, real);
    rsh_status st = found ? RSH_OK : rshi_io_fail(path);
    if (!st && !is_below(real, home) && !in_cache(home, real))
        st = rshi_fail(RSH_EVALUE,
                       "%.300s is a link to %.300s, outside the directory; to allow it, replace the link by the file "
                       "(or a hard link), or move the file into the directory",
                       path, real);
    rshi_free(path);
    return st;
}

/* ---- open ---- */

/* Returns whether the directory has files with the names that Orbax (JAX) writes. */
static bool is_orbax(const rshi_ckpt_place *p) {
    static const char *const names[] = {"_CHECKPOINT_METADATA", "_METADATA", "manifest.ocdbt", "_sharding"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (rshi_ckpt_place_has(p, names[i], names[i])) return true;
    return false;
}

bool rshi_ckpt_place_is_known(const rshi_ckpt_place *p) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i]->detect(p)) return true;
    return false;
}

rsh_status rshi_ckpt_read_place(const rshi_ckpt_place *p, rsh_ckpt *c) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kinds[i]->detect(p)) continue;
        c->kind = kinds[i];
        RSH_REQUIRE(!p->from || kinds[i]->uses_from, RSH_EVALUE,
                    "%.200s: %.200s describes rank files%s, but this is a %s, which describes its own layout; omit "
                    "--from", p->path, p->from->name,
                    p->from->files ? "" : " (and has no \"files\" line)", kinds[i]->name);
        return kinds[i]->read(p, c);
    }
    RSH_REQUIRE(!is_orbax(p), RSH_EUNSUP,
                "%.300s: this is an Orbax checkpoint, which reshard does not read; save it as safetensors first: "
                "restore it in JAX and call safetensors.flax.save_file",
                p->path);
    return rshi_fail(
        RSH_EUNSUP, "%s: no checkpoint of a known kind: there is no .safetensors file, no index and no .metadata in it",
        p->path);
}

rsh_status rsh_ckpt_open(const char *path, const rsh_ckpt_rules *from, rsh_ckpt **out) {
    RSH_NEEDS(path);
    RSH_NEEDS(out);
    rshi_ckpt_place place;
    if (from) RSH_TRY(rshi_rules_check_from(from));
    rsh_ckpt *c = RSHI_NEW(rsh_ckpt);
    if (!c) return rshi_nomem();
    c->path = rshi_ckpt_copy(path);
    rsh_status st = c->path ? rshi_ckpt_place_open(path, from, &place) : rshi_nomem();
    if (c->path) {
        if (!st) st = rshi_ckpt_read_place(&place, c);
        if (!st) st = rshi_ckpt_seal(c);
        rshi_ckpt_place_close(&place);
    }
    if (st)
        rsh_ckpt_free(c);
    else
        *out = c;
    return st;
}
