/* Trains a classifier on one rank, and sharded over two and four ranks, with the same losses.
 *
 * The data are points of two spirals, which two layers learn to distinguish.  A plan cuts the weight of the first layer
 * by rows and that of the second by columns.  Every rank has its own rows of each batch.  The same code runs on any
 * number of ranks: only the sizes of the chunks differ. */
#include <math.h>
#include <stdio.h>

#include <reshard.h>
#include <reshard/nn.h>

#define TRY(call)                \
    do {                         \
        rsh_status st_ = (call); \
        if (st_) return st_;     \
    } while (0)

enum { BATCH = 64, HIDDEN = 48, STEPS = 200 };

typedef struct run {
    rsh_dtype dtype;
    double loss[STEPS]; /* losses of the whole batch, written by rank 0 */
} run;

/* ---- data: `rows` points from number `first` on, and the spiral of each ---- */

static void put(rsh_tensor *t, int64_t i, double x) {
    if (rsh_tensor_dtype(t) == RSH_F32) ((float *)rsh_tensor_data(t))[i] = (float)x;
    else ((double *)rsh_tensor_data(t))[i] = x;
}

static rsh_status make_batch(rsh_dtype dtype, int64_t first, int64_t rows, rsh_value **x, rsh_value **label) {
    rsh_tensor *points = NULL, *classes = NULL;
    TRY(rsh_tensor_empty(dtype, 2, (const int64_t[]){rows, 2}, &points));
    TRY(rsh_tensor_empty(RSH_I64, 1, &rows, &classes));
    for (int64_t i = 0; i < rows; i++) {
        int64_t n = first + i;
        double along = (double)(n * 37 % 101) / 101, turn = 4 * along + (double)(n % 2) * acos(-1);
        put(points, 2 * i, along * cos(turn));
        put(points, 2 * i + 1, along * sin(turn));
        ((int64_t *)rsh_tensor_data(classes))[i] = n % 2;
    }
    TRY(rsh_value_adopt_tensor(points, false, x));
    return rsh_value_adopt_tensor(classes, false, label);
}

/* ---- the model, and how it is cut ---- */

static rsh_status make_model(rsh_dtype dtype, rsh_module **out) {
    rsh_module *layer[3] = {0};
    rsh_random_seed(7); /* initial values depend on the seed, not on the number of ranks */
    TRY(rsh_linear_new(2, HIDDEN, true, dtype, &layer[0]));
    TRY(rsh_gelu_new(RSH_GELU_ERF, &layer[1]));
    TRY(rsh_linear_new(HIDDEN, 2, true, dtype, &layer[2]));
    rsh_status st = rsh_sequential_new(3, layer, out);
    for (int i = 0; i < 3; i++) rsh_module_free(layer[i]);
    return st;
}

static rsh_status shard_model(rsh_module *m) {
    int ranks = rsh_group_size(NULL);
    rsh_spec *rows = NULL, *columns = NULL;
    rsh_sharding_plan *plan = NULL;
    TRY(rsh_spec_chunk_ranks(0, ranks, NULL, &rows));
    TRY(rsh_spec_chunk_ranks(1, ranks, NULL, &columns));
    TRY(rsh_sharding_plan_new(&plan));
    TRY(rsh_sharding_plan_add(plan, "0.weight", rows, NULL));
    TRY(rsh_sharding_plan_add(plan, "2.weight", columns, NULL));
    TRY(rsh_sharding_plan_reshard_output(plan, "", rows)); /* every rank gets its own rows */
    TRY(rsh_sharding_plan_return_local(plan, ""));
    rsh_status st = rsh_shard_module(m, plan, 0, NULL);
    rsh_sharding_plan_free(plan);
    rsh_spec_free(rows);
    rsh_spec_free(columns);
    return st;
}

/* ---- training ---- */

/* Runs one step; *loss is the contribution of this rank's rows to the mean over the whole batch. */
static rsh_status step(rsh_module *m, rsh_optimizer *o, rsh_value *x, rsh_value *label, double *loss) {
    rsh_cross_entropy_opts sum = {sizeof sum, .reduction = RSH_LOSS_SUM};
    rsh_value *logits = NULL, *total = NULL, *mean = NULL;
    TRY(rsh_optimizer_zero_grad(o));
    rsh_status st = rsh_module_forward(m, x, &logits);
    if (!st) st = rsh_nn_cross_entropy(logits, label, &sum, &total);
    if (!st) st = rsh_nn_mul_number(total, 1.0 / BATCH, &mean);
    if (!st) st = rsh_backward(mean, NULL, 0);
    if (!st) st = rsh_optimizer_step(o);
    const void *data = st ? NULL : rsh_tensor_data(rsh_value_tensor(mean));
    if (!st) *loss = rsh_value_dtype(mean) == RSH_F32 ? *(const float *)data : *(const double *)data;
    rsh_value_free(logits);
    rsh_value_free(total);
    rsh_value_free(mean);
    return st;
}

static rsh_status train(void *ctx, rsh_comm *comm) {
    run *r = ctx;
    rsh_module *m = NULL;
    rsh_optimizer *o = NULL;
    rsh_value *x = NULL, *label = NULL;
    int64_t rows = BATCH / rsh_comm_size(comm);
    TRY(rsh_group_init(comm));
    TRY(make_model(r->dtype, &m));
    TRY(shard_model(m));
    TRY(rsh_sgd_new(m, &(rsh_sgd_opts){sizeof(rsh_sgd_opts), .lr = 0.3, .momentum = 0.9}, &o));
    TRY(make_batch(r->dtype, rows * rsh_comm_rank(comm), rows, &x, &label));
    for (int i = 0; i < STEPS; i++) {
        double mine = 0, all = 0;
        TRY(step(m, o, x, label, &mine));
        TRY(rsh_comm_allreduce(comm, &mine, &all, 1, RSH_F64, RSH_OP_SUM));
        if (!rsh_comm_rank(comm)) r->loss[i] = all;
    }
    rsh_value_free(x);
    rsh_value_free(label);
    rsh_optimizer_free(o);
    rsh_module_free(m);
    return rsh_group_destroy();
}

/* Returns the largest difference between the losses of two runs, relative to the loss. */
static double difference(const run *a, const run *b) {
    double most = 0;
    for (int i = 0; i < STEPS; i++) most = fmax(most, fabs(a->loss[i] - b->loss[i]) / fmax(b->loss[i], 1e-3));
    return most;
}

static int compare(rsh_dtype dtype, double tolerance) {
    static run one, several;
    one.dtype = several.dtype = dtype;
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        run *r = ranks == 1 ? &one : &several;
        rsh_status st = rsh_run(ranks, train, r);
        if (st) return fprintf(stderr, "%s: %s\n", rsh_status_name(st), rsh_error_detail()), 1;
        double off = difference(r, &one);
        printf("%s on %d rank%s: loss %.6f -> %.6f, differs by %.1e\n", rsh_dtype_name(dtype), ranks,
               ranks > 1 ? "s" : "", r->loss[0], r->loss[STEPS - 1], off);
        if (!(off <= tolerance) || !(r->loss[STEPS - 1] < r->loss[0] / 2)) return 1;
    }
    return 0;
}

int main(void) { return compare(RSH_F64, 1e-10) || compare(RSH_F32, 1e-3); }
