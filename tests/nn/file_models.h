/* file_models: shared by tests of models in files: a folder, a model, its plans and an
 * optimizer. */
#ifndef RESHARD_TESTS_NN_FILE_MODELS_H
#define RESHARD_TESTS_NN_FILE_MODELS_H

#include "parallel_models.h"

#include <ftw.h>
#include <unistd.h>

#include <reshard/nn/checkpoint.h>

#include "nn/numbers.h"

enum { WIDTH = 6, HIDDEN = 8, BATCH = 12, STEPS = 3 };

/* ---- a folder for the files ---- */

static char folder[64];

static inline int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at) {
    (void)s, (void)kind, (void)at;
    return remove(path);
}
static inline int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/reshard-module-files-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}
static inline int remove_folder(void **state) {
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
static inline const char *file(char text[128], const char *name) {
    snprintf(text, 128, "%s/%s", folder, name);
    return text;
}

/* ---- models ---- */

typedef enum plan { PLAIN, ROWS, COLUMNS, TENSOR_PARALLEL, PLANS } plan;
static const char *const plan_names[] = {"plain", "rows", "columns", "tensor parallel"};

/* "0" Linear, "1" LayerNorm, "2" Linear, and a buffer. */
static inline rsh_status make_model(int seed, rsh_module **out) {
    rsh_module *part[3] = {NULL};
    rsh_random_seed((uint64_t)seed);
    TRY(rsh_linear_new(WIDTH, HIDDEN, true, RSH_F64, &part[0]));
    TRY(rsh_layer_norm_new(1, (int64_t[]){HIDDEN}, 1e-3, true, RSH_F64, &part[1]));
    TRY(rsh_linear_new(HIDDEN, WIDTH, true, RSH_F64, &part[2]));
    TRY(sequence(3, part, out));
    rsh_value *scale = some_value(RSH_F64, seed, false, SIZES(3));
    rsh_status st = rsh_module_set_buffer(*out, "scale", scale, true);
    rsh_value_free(scale);
    return st;
}

static inline rsh_status shard_both(rsh_module *m, int dim) {
    rsh_spec *spec = NULL, *rows = NULL;
    rsh_sharding_plan *p = NULL;
    TRY(rsh_spec_chunk_ranks(dim, rsh_group_size(NULL), NULL, &spec));
    TRY(rsh_spec_chunk_ranks(0, rsh_group_size(NULL), NULL, &rows));
    TRY(rsh_sharding_plan_new(&p));
    for (int i = 0; i <= 2; i += 2) {
        char path[16];
        snprintf(path, sizeof path, "%d.weight", i);
        TRY(rsh_sharding_plan_add(p, path, spec, NULL));
        path[1] = 0;
        TRY(rsh_sharding_plan_reshard_output(p, path, rows));
        TRY(rsh_sharding_plan_return_local(p, path));
    }
    rsh_status st = rsh_shard_module(m, p, 0, NULL);
    rsh_sharding_plan_free(p);
    rsh_spec_free(spec), rsh_spec_free(rows);
    return st;
}

static inline rsh_status parallelize(rsh_module *m, rsh_mesh *mesh) {
    rsh_parallel_entry e[2] = {{"0", rsh_colwise_style()}, {"2", rsh_rowwise_style()}};
    e[0].style.output = rsh_place_replicate();
    e[1].style.input = rsh_place_replicate();
    e[1].style.default_input = false;
    return rsh_parallelize_module(m, mesh, 2, e);
}

static inline rsh_status cut(rsh_module *m, plan p) {
    rsh_mesh *mesh = NULL;
    if (p == PLAIN) return RSH_OK;
    if (p != TENSOR_PARALLEL) return shard_both(m, p == COLUMNS);
    TRY(line(&mesh));
    rsh_status st = parallelize(m, mesh);
    rsh_mesh_free(mesh);
    return st;
}

static inline rsh_status make_adam(rsh_module *m, rsh_optimizer **out) {
    rsh_adam_opts opts = RSH_ADAMW_OPTS_INIT;
    opts.lr = 0.05, opts.weight_decay = 0.1;
    return rsh_adam_new(m, &opts, out);
}

/* No weight decay for norms and biases, and smaller steps for the last layer. */
static inline rsh_status make_optimizer(rsh_module *m, rsh_optimizer **out) {
    rsh_param_group small = RSH_PARAM_GROUP_INIT, last = RSH_PARAM_GROUP_INIT;
    const char *paths[] = {"2.w*"};
    int64_t n = 0;
    small.ndim_below = 2;
    last.npaths = 1, last.paths = paths, last.lr_scale = 0.5, last.weight_decay = 0.3;
    TRY(make_adam(m, out));
    TRY(rsh_optimizer_add_group(*out, &small, &n));
    CHECK(n == 4);
    TRY(rsh_optimizer_add_group(*out, &last, &n));
    CHECK(n == 1);
    return RSH_OK;
}

static inline rsh_status save(rsh_module *m, const rsh_optimizer *o, const char *path) {
    rsh_module_save_opts opts = RSH_MODULE_SAVE_OPTS_INIT;
    rsh_save_opts files = RSH_SAVE_OPTS_INIT;
    opts.optimizer = o;
    opts.files = &files;
    files.force = true;
    return rsh_module_save(m, rsh_group_comm(NULL), path, &opts);
}

static inline rsh_status load(rsh_module *m, rsh_optimizer *o, const char *path) {
    rsh_module_load_opts opts = RSH_MODULE_LOAD_OPTS_INIT;
    opts.optimizer = o;
    return rsh_module_load(m, rsh_group_comm(NULL), path, &opts);
}

static inline void run_on(int n, rsh_status (*fn)(void *ctx), void *ctx) {
    body b = {fn, ctx};
    must_run("threads", n, rsh_run(n, with_default_group, &b));
}

#endif
