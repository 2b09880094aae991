/* Beside: the regular files of a source directory that hold no tensors of the checkpoint, which a conversion copies.
 *
 * Opening a checkpoint lists those of the directory itself.  A conversion also lists those of its subdirectories.
 * Files that might be expected in the result but are not copied are listed with a reason. */
#include "ckpt/impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool begins(const char *text, const char *prefix) { return !strncmp(text, prefix, strlen(prefix)); }

/* Weights, and indexes that say where weights are: the result has its own. */
static bool holds_weights(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    static const char *const endings[] = {".safetensors", ".safetensors.index.json", ".bin.index.json", ".distcp",
                                          ".gguf"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (rshi_ckpt_ends(name, endings[i])) return true;
    return (begins(name, "pytorch_model") && rshi_ckpt_ends(name, ".bin")) ||
           (begins(name, "consolidated.") && rshi_ckpt_ends(name, ".pth")) || !strcmp(name, "index.json");
}

static rsh_status leave(rsh_ckpt *c, const char *name, const char *why) { return rshi_ckpt_add_left(c, name, why); }

/* ---- the directory itself ---- */

rsh_status rshi_ckpt_add_beside(rsh_ckpt *c, const rshi_ckpt_place *place) {
    for (int64_t i = 0; i < place->nnames; i++) {
        const char *name = place->name[i];
        struct stat s;
        char *path = NULL;
        if (rshi_ckpt_find_file(c, name) >= 0) continue;
        RSH_TRY(rshi_ckpt_join(place->path, name, &path));
        bool there = !stat(path, &s);
        rsh_status st = RSH_OK;
        if (!there) {
            st = leave(c, name, "broken link");
        } else if (S_ISDIR(s.st_mode)) {
            st = rshi_ckpt_add_folder(c, name, path);
        } else if (S_ISREG(s.st_mode) && holds_weights(name)) {
            st = leave(c, name, "weights");
        } else if (S_ISREG(s.st_mode)) {
            st = rshi_ckpt_inside(place->path, name);
            if (!st) st = rshi_ckpt_add_beside_file(c, name, path);
        }
        rshi_free(path);
        if (st) return st;
    }
    return RSH_OK;
}

/* ---- its subdirectories ---- */

typedef struct walking {
    rsh_ckpt *c;
    const char *top;        /* path of the directory */
    rshi_name_table owners; /* directories in which the source has files of its own */
    rshi_ckpt_store store;  /* their names */
} walking;

static rsh_status list_owners(walking *w) {
    for (int64_t i = 0; i < w->c->nfiles; i++) {
        const char *name = w->c->file[i].name, *slash = strrchr(name, '/');
        if (!slash || *name == '/') continue;
        char *folder = rshi_store_text(&w->store, name, (size_t)(slash - name));
        if (!folder) return rshi_nomem();
        if (rshi_name_table_find(&w->owners, folder) < 0) RSH_TRY(rshi_name_table_add(&w->owners, folder, i));
    }
    return RSH_OK;
}

static rsh_status add_link(walking *w, const char *name, const char *path) {
    struct stat s;
    if (stat(path, &s)) return leave(w->c, name, "broken link");
    if (S_ISDIR(s.st_mode)) return leave(w->c, name, "link to a directory");
    if (!S_ISREG(s.st_mode)) return RSH_OK;
    if (rshi_ckpt_is_outside(w->top, path)) return leave(w->c, name, "link out of the directory");
    return rshi_ckpt_add_beside_file(w->c, name, path);
}

static rsh_status walk_folder(walking *w, const char *folder, const char *path);

static rsh_status add_entry(walking *w, const char *folder, const char *name, const char *path) {
    struct stat s;
    if (lstat(path, &s)) return errno == ENOENT ? RSH_OK : rshi_io_fail(path);
    if (S_ISDIR(s.st_mode)) return walk_folder(w, name, path);
    if (!S_ISREG(s.st_mode) && !S_ISLNK(s.st_mode)) return RSH_OK;
    if (rshi_ckpt_find_file(w->c, name) >= 0) return RSH_OK;
    if (holds_weights(name)) return leave(w->c, name, "weights");
    if (rshi_name_table_find(&w->owners, folder) >= 0) return leave(w->c, name, "file of a rank");
    return S_ISLNK(s.st_mode) ? add_link(w, name, path) : rshi_ckpt_add_beside_file(w->c, name, path);
}

static rsh_status walk_folder(walking *w, const char *folder, const char *path) {
    const char *slash = strrchr(folder, '/');
    rshi_ckpt_place place = {0};
    if ((slash ? slash[1] : *folder) == '.') return leave(w->c, folder, "hidden directory");
    rsh_status st = rshi_ckpt_place_open(path, NULL, &place);
    for (int64_t i = 0; i < place.nnames && !st; i++) {
        char *name = NULL, *full = NULL;
        st = rshi_ckpt_join(folder, place.name[i], &name);
        if (!st) st = rshi_ckpt_join(path, place.name[i], &full);
        if (!st) st = add_entry(w, folder, name, full);
        rshi_free(name);
        rshi_free(full);
    }
    rshi_ckpt_place_close(&place);
    return st;
}

static rsh_status walk_all(walking *w) {
    RSH_TRY(list_owners(w));
    for (int64_t i = 0; i < w->c->nfolders; i++) {
        const rshi_ckpt_pair *f = &w->c->folder[i];
        struct stat s;
        if (lstat(f->value, &s)) return rshi_io_fail(f->value);
        RSH_TRY(S_ISLNK(s.st_mode) ? leave(w->c, f->key, "link to a directory") : walk_folder(w, f->key, f->value));
    }
    return RSH_OK;
}

/* Fails now rather than after the tensors are written. */
static rsh_status check_readable(const rsh_ckpt *c) {
    for (int64_t i = 0; i < c->nbeside; i++)
        if (access(c->beside[i].value, R_OK)) return rshi_io_fail(c->beside[i].value);
    return RSH_OK;
}

rsh_status rshi_ckpt_add_folders(rsh_ckpt *c) {
    walking w = {.c = c};
    char *top = NULL;
    rsh_status st = RSH_OK;
    if (c->nfolders) { /* the checkpoint may be in a subdirectory of c->path */
        const rshi_ckpt_pair *f = c->folder;
        top = rshi_ckpt_copy(f->value);
        if (!top) return rshi_nomem();
        top[strlen(f->value) - strlen(f->key) - 1] = 0;
        w.top = top;
        st = walk_all(&w);
    }
    rshi_name_table_free(&w.owners);
    rshi_store_free(&w.store);
    rshi_free(top);
    return st ? st : check_readable(c);
}

/* ---- names that the result uses ---- */

rsh_status rshi_taken_names_list(const rshi_target *t, rshi_taken_names *out) {
    for (int64_t i = 0; i < t->nfiles; i++) {
        const char *name = t->file[i].name;
        RSH_TRY(rshi_name_table_add(&out->files, name, i));
        for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
            char *folder = rshi_store_text(&out->store, name, (size_t)(slash - name));
            if (!folder) return rshi_nomem();
            if (rshi_name_table_find(&out->folders, folder) < 0) RSH_TRY(rshi_name_table_add(&out->folders, folder, i));
        }
    }
    return RSH_OK;
}

bool rshi_taken_names_has(const rshi_taken_names *t, const char *name) {
    char folder[4096];
    if (rshi_name_table_find(&t->files, name) >= 0 || rshi_name_table_find(&t->folders, name) >= 0) return true;
    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - name), name);
        if (rshi_name_table_find(&t->files, folder) >= 0) return true;
    }
    return false;
}

void rshi_taken_names_free(rshi_taken_names *t) {
    rshi_name_table_free(&t->files);
    rshi_name_table_free(&t->folders);
    rshi_store_free(&t->store);
}

/* Removes what has other names in the directory `path`, which is `below` in the result. */
static rsh_status prune_folder(const rshi_taken_names *taken, const char *path, const char *below) {
    rshi_ckpt_place place = {0};
    rsh_status st = rshi_ckpt_place_open(path, NULL, &place);
    for (int64_t i = 0; i < place.nnames && !st; i++) {
        char *name = NULL, *full = NULL;
        struct stat s;
        st = rshi_ckpt_join(below, place.name[i], &name);
        if (!st) st = rshi_ckpt_join(path, place.name[i], &full);
        bool folder = !st && !lstat(full, &s) && S_ISDIR(s.st_mode); /* a link is not followed */
        if (folder && rshi_name_table_find(&taken->folders, name) >= 0)
            st = prune_folder(taken, full, name);
        else if (!st && rshi_name_table_find(&taken->files, name) < 0)
            st = rshi_remove(full);
        rshi_free(name);
        rshi_free(full);
    }
    rshi_ckpt_place_close(&place);
    return st;
}

rsh_status rshi_prune(const rshi_target *t, const char *path) {
    rshi_taken_names taken = {0};
    rsh_status st = rshi_taken_names_list(t, &taken);
    if (!st) st = prune_folder(&taken, path, NULL);
    rshi_taken_names_free(&taken);
    return st;
}

/* ---- the report ---- */

rsh_status rshi_beside_report(const rsh_ckpt *c, const rshi_target *t, rsh_convert_report *r) {
    rshi_taken_names taken = {0};
    size_t used = 0;
    rsh_status st = rshi_taken_names_list(t, &taken);
    for (int64_t i = 0; i < c->nbeside && !st; i++) {
        struct stat s;
        if (rshi_taken_names_has(&taken, c->beside[i].key)) continue;
        r->copied_files++;
        r->copied_bytes += stat(c->beside[i].value, &s) ? 0 : (uint64_t)s.st_size;
    }
    rshi_taken_names_free(&taken);
    for (int64_t i = 0; i < c->nleft && used < sizeof r->left; i++) {
        size_t room = sizeof r->left - used;
        int n = snprintf(r->left + used, room, "%s%s (%s)", i ? ", " : "", c->left[i].key, c->left[i].value);
        if ((size_t)n >= room || i == 3) { /* name at most three; a name that does not fit is only counted */
            r->left[used] = 0;
            break;
        }
        used += (size_t)n;
        r->left_named++;
    }
    r->left_files = c->nleft;
    return st;
}
