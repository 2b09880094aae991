/* parallel_models: shared by tests of parallel modules: meshes, trees, and plain modules for
 * comparison. */
#ifndef RESHARD_TESTS_NN_PARALLEL_MODELS_H
#define RESHARD_TESTS_NN_PARALLEL_MODELS_H

#include "models.h"

#include <reshard/dtensor.h>
#include <reshard/nn/parallel.h>
#include <reshard/nn/recompute.h>

/* Creates a mesh of all ranks with one dim. */
static inline rsh_status line(rsh_mesh **out) {
    int64_t size = rsh_group_size(NULL);
    return rsh_mesh_new(rsh_group_comm(NULL), 1, &size, NULL, NULL, out);
}

/* Creates a mesh of dp x tp ranks, and its slice along tp. */
static inline rsh_status grid(int64_t dp, int64_t tp, rsh_mesh **mesh, rsh_mesh **slice) {
    TRY(rsh_mesh_new(rsh_group_comm(NULL), 2, (int64_t[]){dp, tp}, NULL,
                     (const char *const[]){"dp", "tp"}, mesh));
    return rsh_mesh_slice(*mesh, 1, (const char *const[]){"tp"}, slice);
}

/* Runs fn on 1, 2 and 4 threads. */
static inline void run_threads(rsh_status (*fn)(void *ctx), void *ctx) {
    body b = {fn, ctx};
    for (int n = 1; n <= 4; n *= 2) {
        rsh_status st = rsh_run(n, with_default_group, &b);
        if (st) fail_msg("%d threads: %s: %s", n, rsh_status_name(st), rsh_error_detail());
    }
}

/* Does the same, and also runs it on two processes. */
static inline void run_ranks(rsh_status (*fn)(void *ctx), void *ctx) {
    body b = {fn, ctx};
    run_threads(fn, ctx);
    rsh_status st = rsh_run_shm(2, with_default_group, &b);
    if (st) fail_msg("2 processes: %s: %s", rsh_status_name(st), rsh_error_detail());
}

static inline rsh_status give(rsh_module *m, const char *name, rsh_module *child) {
    rsh_status st = rsh_module_set_child(m, name, child);
    rsh_module_free(child);
    return st;
}

static inline rsh_status value_at(rsh_module *m, const char *path, rsh_value **out) {
    rsh_module *owner = NULL;
    const char *name = NULL;
    TRY(rsh_module_owner(m, path, &owner, &name));
    return rsh_module_parameter(owner, name, out);
}

/* Checks that the parameter at a path is a DTensor with this placement and the elements of the
 * plain module. */
static inline rsh_status is_placed(rsh_module *m, rsh_module *plain, const char *path,
                                   rsh_place place) {
    rsh_value *v = NULL, *p = NULL;
    rsh_place now;
    rsh_tensor *whole = NULL;
    TRY(value_at(m, path, &v));
    TRY(value_at(plain, path, &p));
    CHECK(rsh_dtensor_mesh(v));
    TRY(rsh_dtensor_places(v, &now));
    CHECK(rsh_places_equal(rsh_value_ndim(v), 1, &now, &place));
    CHECK(rsh_value_requires_grad(v) == rsh_value_requires_grad(p));
    TRY(whole_of(v, &whole));
    CHECK_CLOSE(whole, rsh_value_tensor(p), 0);
    rsh_tensor_free(whole);
    return RSH_OK;
}

static inline rsh_status is_plain(rsh_module *m, const char *path) {
    rsh_value *v = NULL;
    TRY(value_at(m, path, &v));
    CHECK(!rsh_value_sharded(v));
    return RSH_OK;
}

/* ---- all parameters of two trees ---- */

typedef struct listing {
    rsh_value *at[64];
    char path[64][64];
    int n;
} listing;

static inline rsh_status list_one(void *ctx, const char *path, rsh_module *owner, const char *name,
                                  rsh_value *v) {
    listing *l = ctx;
    (void)owner, (void)name;
    CHECK(l->n < 64);
    snprintf(l->path[l->n], sizeof l->path[0], "%s", path);
    l->at[l->n++] = v;
    return RSH_OK;
}

static inline rsh_status close_values(const rsh_value *v, const rsh_value *plain, const char *what,
                                      double tolerance) {
    rsh_tensor *whole = NULL;
    TRY(whole_of(v, &whole));
    double off = difference(whole, rsh_value_tensor(plain));
    rsh_tensor_free(whole);
    if (!(off <= tolerance)) {
        char text[200];
        snprintf(text, sizeof text, "%s differs by %g", what, off);
        return wrong(__FILE__, __LINE__, text);
    }
    return RSH_OK;
}

/* Checks that parameters, and gradients if they exist, are close. */
static inline rsh_status close_models(rsh_module *m, rsh_module *plain, double tolerance) {
    listing a = {.n = 0}, b = {.n = 0};
    TRY(rsh_module_each_parameter(m, false, list_one, &a));
    TRY(rsh_module_each_parameter(plain, false, list_one, &b));
    CHECK(a.n && a.n == b.n);
    for (int i = 0; i < a.n; i++) {
        const rsh_value *g = rsh_value_grad(a.at[i]), *pg = rsh_value_grad(b.at[i]);
        TRY(close_values(a.at[i], b.at[i], a.path[i], tolerance));
        CHECK(!g == !pg);
        if (g) TRY(close_values(g, pg, a.path[i], tolerance));
    }
    return RSH_OK;
}

#endif
