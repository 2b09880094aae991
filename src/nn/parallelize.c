/* Parallelize: applies a plan of styles to the modules that its paths select. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include <reshard/nn/parallel.h>

#include "nn/impl.h"
#include "nn/parallel_style.h"

/* The state of a descent into the tree for one entry of a plan. */
typedef struct descent {
    const rsh_parallel_entry *entry;
    rshn_tree_change *change;
    rshn_seen seen; /* modules that already have the style */
    int64_t found;
    char path[1024]; /* path of the current module */
} descent;

static rsh_status apply_style(descent *d, rsh_module *m) {
    bool was = false;
    d->found++;
    NN_TRY(rshn_seen_add(&d->seen, m, &was));
    return was ? RSH_OK : rshn_style_plan(&d->entry->style, d->path, m, d->change);
}

/* Matches the first component of `steps` against the children of m, and descends with the rest.  A component is never
 * compared with names of another level. */
static rsh_status descend(descent *d, rsh_module *m, const char *steps) {
    char step[256];
    size_t n = strcspn(steps, "."), before = strlen(d->path);
    if (!*steps) return apply_style(d, m);
    memcpy(step, steps, n);
    step[n] = 0;
    for (int64_t i = 0; i < m->nslots; i++) {
        const rshn_slot *s = &m->slot[i];
        if (!s->child || fnmatch(step, s->name, 0)) continue;
        int more = snprintf(d->path + before, sizeof d->path - before, "%s%s", before ? "." : "", s->name);
        if (before + (size_t)more >= sizeof d->path)
            return rshn_fail(RSH_EVALUE,
                             "path \"%s\" matches a module with a path that is too long",
                             steps);
        NN_TRY(descend(d, s->child, steps + n + (steps[n] == '.')));
        d->path[before] = 0;
    }
    return RSH_OK;
}

/* Checks that a path has no empty components; "" alone is the root. */
static rsh_status check_path(const char *path) {
    if (!path) return rshn_fail(RSH_EVALUE, "rsh_parallelize_module: the path of an entry is NULL");
    for (const char *at = path; *path; at += strcspn(at, ".") + 1) {
        size_t n = strcspn(at, ".");
        if (!n) return rshn_fail(RSH_EVALUE, "path \"%.300s\" has an empty component", path);
        if (n > 255)
            return rshn_fail(RSH_EVALUE, "path \"%.300s\": a component is too long (%zu characters, at most 255)", path,
                             n);
        if (!at[n]) break;
    }
    return RSH_OK;
}

static rsh_status plan_entry(const rsh_parallel_entry *e, rsh_module *m, rshn_tree_change *c) {
    descent d = {.entry = e, .change = c};
    rsh_status st = check_path(e->path);
    if (!st) st = descend(&d, m, e->path);
    if (!st && !d.found) st = rshn_fail(RSH_EATTR, "path \"%s\" matches no module of the %s", e->path, m->kind->name);
    rshn_seen_free(&d.seen);
    return st;
}

static rsh_status plan_all(int n, const rsh_parallel_entry *plan, rsh_module *m, rshn_tree_change *c) {
    if (!m) return rshn_fail(RSH_EVALUE, "rsh_parallelize_module: m is NULL");
    if (n < 0) return rshn_fail(RSH_EVALUE, "rsh_parallelize_module: n must be at least 0, got %d", n);
    if (n && !plan) return rshn_fail(RSH_EVALUE, "rsh_parallelize_module: plan is NULL");
    if (rsh_mesh_ndim(c->mesh) != 1)
        return rshn_fail(RSH_EVALUE, "rsh_parallelize_module: mesh must have 1 dim, got %d; use rsh_mesh_slice",
                         rsh_mesh_ndim(c->mesh));
    for (int i = 0; i < n; i++) NN_TRY(plan_entry(&plan[i], m, c));
    return RSH_OK;
}

rsh_status rsh_parallelize_module(rsh_module *m, rsh_mesh *mesh, int n, const rsh_parallel_entry *plan) {
    if (!mesh) return rshn_fail(RSH_EVALUE, "rsh_parallelize_module: mesh is NULL");
    if (!rsh_mesh_comm(mesh)) return RSH_OK;
    rshn_tree_change c = {.mesh = mesh};
    rsh_status st = rshn_change_run(&c, m, plan_all(n, plan, m, &c));
    rshn_change_end(&c);
    return st;
}
