/* Trains a model on 2 ranks, saves it, and resumes on 3 ranks and on 1.
 *
 *     save_and_resume [FOLDER]     ranks are threads; FOLDER gets the checkpoint (default: a temporary folder)
 *
 * 2 ranks that share the rows of the weights run the first half of the steps.  The second half is run three times: by
 * the same ranks without a stop, by 3 ranks of a tensor-parallel model that load the checkpoint, and by one rank with
 * the whole model.  All reach the same loss, because the checkpoint also has the moments and step counts of the
 * optimizer, the learning rate and the settings of its groups. */
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <reshard.h>
#include <reshard/nn.h>

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        rsh_status st_ = (call);                                                                                       \
        if (st_) return st_;                                                                                           \
    } while (0)

enum { WIDTH = 12, HIDDEN = 24, BATCH = 12, HALF = 10 };

typedef enum plan { WHOLE, ROWS, TENSOR_PARALLEL } plan;

typedef struct run {
    plan plan;
    int first, end; /* the steps to run */
    bool load, save;
    const char *path;
    double loss; /* loss of the last step */
} run;

/* ---- the model ---- */

static rsh_status make_model(rsh_module **out) {
    rsh_module *part[3] = {NULL};
    rsh_random_seed(1);
    TRY(rsh_linear_new(WIDTH, HIDDEN, true, RSH_F64, &part[0]));
    TRY(rsh_gelu_new(RSH_GELU_TANH, &part[1]));
    TRY(rsh_linear_new(HIDDEN, WIDTH, true, RSH_F64, &part[2]));
    rsh_status st = rsh_sequential_new(3, part, out);
    for (int i = 0; i < 3; i++) rsh_module_free(part[i]);
    return st;
}

/* Adds hooks that reshard outputs to this rank's own rows. */
static rsh_status shard_rows(rsh_module *m) {
    rsh_spec *rows = NULL;
    rsh_sharding_plan *p = NULL;
    const char *const layers[] = {"0", "2"}, *const weights[] = {"0.weight", "2.weight"};
    TRY(rsh_spec_chunk_ranks(0, rsh_group_size(NULL), NULL, &rows));
    TRY(rsh_sharding_plan_new(&p));
    for (int i = 0; i < 2; i++) {
        TRY(rsh_sharding_plan_add(p, weights[i], rows, NULL));
        TRY(rsh_sharding_plan_reshard_output(p, layers[i], rows));
        TRY(rsh_sharding_plan_return_local(p, layers[i]));
    }
    rsh_status st = rsh_shard_module(m, p, 0, NULL);
    rsh_sharding_plan_free(p);
    rsh_spec_free(rows);
    return st;
}

static rsh_status parallelize(rsh_module *m, rsh_comm *comm) {
    rsh_mesh *mesh = NULL;
    rsh_parallel_entry plan[] = {{"0", rsh_colwise_style()}, {"2", rsh_rowwise_style()}};
    TRY(rsh_mesh_new(comm, 1, (const int64_t[]){rsh_comm_size(comm)}, NULL, NULL, &mesh));
    rsh_status st = rsh_parallelize_module(m, mesh, 2, plan);
    rsh_mesh_free(mesh);
    return st;
}

/* Makes an AdamW optimizer without weight decay for biases. */
static rsh_status make_optimizer(rsh_module *m, rsh_optimizer **out) {
    rsh_adam_opts opts = RSH_ADAMW_OPTS_INIT;
    rsh_param_group biases = RSH_PARAM_GROUP_INIT;
    opts.lr = 0.01;
    biases.ndim_below = 2;
    TRY(rsh_adam_new(m, &opts, out));
    return rsh_optimizer_add_group(*out, &biases, NULL);
}

/* ---- a step ---- */

/* Creates the rows of a batch.  The numbers depend only on step and position. */
static rsh_status make_rows(int step, int64_t first, int64_t n, rsh_value **out) {
    rsh_tensor *t = NULL;
    TRY(rsh_tensor_empty(RSH_F64, 2, (const int64_t[]){n, WIDTH}, &t));
    double *x = rsh_tensor_data(t);
    for (int64_t i = 0; i < n * WIDTH; i++) x[i] = sin(0.7 * (double)(first * WIDTH + i) + step);
    return rsh_value_adopt_tensor(t, false, out);
}

/* The model learns to return its input.  The loss of a rank is the sum over its rows, divided by the batch size. */
static rsh_status step(rsh_module *m, rsh_optimizer *o, int i, int64_t first, int64_t n, double *loss) {
    rsh_value *x = NULL, *y = NULL, *sum = NULL, *mean = NULL;
    TRY(rsh_optimizer_zero_grad(o));
    rsh_status st = make_rows(i, first, n, &x);
    if (!st) st = rsh_module_forward(m, x, &y);
    if (!st) st = rsh_nn_mse(y, x, RSH_LOSS_SUM, &sum);
    if (!st) st = rsh_nn_mul_number(sum, 1.0 / BATCH, &mean);
    if (!st) st = rsh_backward(mean, NULL, 0);
    if (!st) *loss = *(const double *)rsh_tensor_data(rsh_value_tensor(mean));
    rsh_value_free(x), rsh_value_free(y), rsh_value_free(sum), rsh_value_free(mean);
    if (!st) st = rsh_module_sync_grads(m, NULL, RSH_OP_SUM);
    return st ? st : rsh_optimizer_step(o);
}

/* Trains the model.  Ranks divide the rows of a batch or, if the model is tensor-parallel, compute all rows
 * together. */
static rsh_status train(run *r, rsh_comm *comm, rsh_module *m, rsh_optimizer *o) {
    int64_t ranks = r->plan == TENSOR_PARALLEL ? 1 : rsh_comm_size(comm), n = BATCH / ranks;
    double mine = 0, all = 0;
    for (int i = r->first; i < r->end; i++)
        TRY(step(m, o, i, ranks == 1 ? 0 : n * rsh_comm_rank(comm), n, &mine));
    TRY(rsh_comm_allreduce(comm, &mine, &all, 1, RSH_F64, RSH_OP_SUM));
    if (!rsh_comm_rank(comm)) r->loss = ranks == 1 ? mine : all;
    return RSH_OK;
}

/* ---- a run ---- */

static rsh_status go(run *r, rsh_comm *comm) {
    rsh_module *m = NULL;
    rsh_optimizer *o = NULL;
    rsh_module_load_opts in = RSH_MODULE_LOAD_OPTS_INIT;
    rsh_module_save_opts out = RSH_MODULE_SAVE_OPTS_INIT;
    TRY(make_model(&m));
    if (r->plan == ROWS) TRY(shard_rows(m));
    if (r->plan == TENSOR_PARALLEL) TRY(parallelize(m, comm));
    TRY(make_optimizer(m, &o));
    in.optimizer = o;
    out.optimizer = o;
    rsh_status st = r->load ? rsh_module_load(m, comm, r->path, &in) : RSH_OK;
    if (!st) st = train(r, comm, m, o);
    if (!st && r->save) st = rsh_module_save(m, comm, r->path, &out);
    rsh_optimizer_free(o);
    rsh_module_free(m);
    return st;
}

static rsh_status on_rank(void *ctx, rsh_comm *comm) {
    TRY(rsh_group_init(comm));
    rsh_status st = go(ctx, comm);
    rsh_status end = rsh_group_destroy();
    return st ? st : end;
}

static bool done(int ranks, const char *what, run *r) {
    rsh_status st = rsh_run(ranks, on_rank, r);
    if (st) fprintf(stderr, "%s: %s: %s\n", what, rsh_status_name(st), rsh_error_detail());
    else printf("%-44s loss %.12f after step %d\n", what, r->loss, r->end);
    return !st;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at) {
    (void)s, (void)kind, (void)at;
    return remove(path);
}

static bool run_all(const char *path) {
    run whole = {ROWS, 0, 2 * HALF, .path = path}, half = {ROWS, 0, HALF, .save = true, .path = path};
    run three = {TENSOR_PARALLEL, HALF, 2 * HALF, .load = true, .path = path};
    run one = {WHOLE, HALF, 2 * HALF, .load = true, .path = path};
    if (!done(2, "2 ranks without a stop:", &whole) || !done(2, "2 ranks, saved:", &half)) return false;
    if (!done(3, "3 ranks, tensor-parallel, resumed:", &three) || !done(1, "1 rank, resumed:", &one)) return false;
    bool same = fabs(three.loss - whole.loss) < 1e-9 && fabs(one.loss - whole.loss) < 1e-9 && whole.loss < half.loss;
    if (!same) puts("the losses differ, or do not fall");
    return same;
}

int main(int argc, char **argv) {
    char made[] = "/tmp/reshard-resume-XXXXXX", path[4096];
    const char *folder = argc > 1 ? argv[1] : mkdtemp(made);
    if (!folder) return perror("mkdtemp"), 2;
    snprintf(path, sizeof path, "%s/step-%d", folder, HALF);
    bool good = run_all(path);
    if (argc < 2) nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return good ? 0 : 1;
}
