/* Apart: rejects a target whose creation would overwrite or remove files of its source. */
#include "ckpt/impl.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Resolves links in `path`; if it does not exist, resolves its directory and appends its name. */
static bool resolve_path(const char *path, char out[PATH_MAX]) {
    char copy[PATH_MAX], parent[PATH_MAX], *slash;
    if (realpath(path, out)) return true;
    if (strlen(path) >= sizeof copy) return false;
    strcpy(copy, path);
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--) copy[n - 1] = 0;
    slash = strrchr(copy, '/');
    const char *name = slash ? slash + 1 : copy;
    snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - copy) + 1 : 1, slash ? copy : ".");
    if (!realpath(parent, out) || strlen(out) + strlen(name) + 2 > PATH_MAX) return false;
    if (strcmp(out, "/")) strcat(out, "/");
    strcat(out, name);
    return true;
}

static bool contains(const char *a, const char *b) {
    size_t n = strlen(a);
    return !strncmp(a, b, n) && (!b[n] || b[n] == '/' || !strcmp(a, "/"));
}

/* The paths that a conversion replaces: the target and its working directory. */
typedef struct replaced {
    const char *target;
    char path[2][PATH_MAX];
} replaced;

static rsh_status check_no_overlap(const replaced *r, const char *path, bool around) {
    char real[PATH_MAX];
    if (!realpath(path, real)) return rshi_io_fail(path);
    for (int i = 0; i < 2; i++) {
        bool overlap = contains(r->path[i], real) || (around && contains(real, r->path[i]));
        RSH_REQUIRE(!overlap, RSH_EVALUE,
                    "source %.300s overlaps %s %.300s%s, which would be replaced; choose a "
                    "different path for the target",
                    path, i ? "the working directory" : "the target", r->target, i ? RSHI_PARTIAL_SUFFIX : "");
    }
    return RSH_OK;
}

rsh_status rshi_check_apart(const rsh_ckpt *source, const char *target) {
    replaced r = {.target = target};
    char *home = NULL;
    RSH_TRY(rshi_partial_home(target, &home));
    bool resolved = resolve_path(target, r.path[0]) && resolve_path(home, r.path[1]);
    rshi_free(home);
    RSH_REQUIRE(resolved || errno != ENOENT, RSH_EIO, "%s: its parent directory does not exist; create it first",
                target);
    if (!resolved) return rshi_io_fail(target);
    RSH_TRY(check_no_overlap(&r, source->path, true));
    for (int64_t i = 0; i < source->nfiles; i++) RSH_TRY(check_no_overlap(&r, source->file[i].path, false));
    for (int64_t i = 0; i < source->nbeside; i++) RSH_TRY(check_no_overlap(&r, source->beside[i].value, false));
    return RSH_OK;
}
