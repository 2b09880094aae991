/* Input reshard: saved tensors kept as chunks give the same bits, and less is kept.
 *
 * Models are whole on every rank and get the same input, so plain tensors are replicated. */
#include "models.h"

#include <reshard/dtensor.h>
#include <reshard/nn/recompute.h>

#define ROWS 8
#define WIDTH 10
#define HIDDEN 16

static int64_t ceiling(int64_t n, int64_t w) { return (n + w - 1) / w; }

static rsh_status line(rsh_mesh **out) {
    int64_t size = rsh_group_size(NULL);
    return rsh_mesh_init(rsh_group_comm(NULL), 1, &size, NULL, out);
}

/* On 1 to 4 ranks, as threads and as processes. */
static void run_all(rsh_status (*fn)(void *ctx)) {
    for (int n = 1; n <= 4; n++) run_groups(n, fn, NULL);
}

/* ---- models ---- */

static rsh_status sequence(int n, rsh_module **part, rsh_module **out) {
    TRY(rsh_sequential_new(n, part, out));
    for (int i = 0; i < n; i++) rsh_module_free(part[i]);
    return RSH_OK;
}

static rsh_status mlp(rsh_module **out) {
    rsh_module *part[3];
    rsh_random_seed(3);
    TRY(rsh_linear_new(WIDTH, HIDDEN, true, RSH_F32, &part[0]));
    TRY(rsh_relu_new(&part[1]));
    TRY(rsh_linear_new(HIDDEN, WIDTH, true, RSH_F32, &part[2]));
    return sequence(3, part, out);
}

static rsh_status block(rsh_module **out) {
    rsh_random_seed(4);
    rsh_attention_opts opts = {.width = WIDTH, .heads = 2, .bias = true, .causal = true, .dropout = 0.1};
    return rsh_transformer_block_new(&opts, HIDDEN, RSH_F32, out);
}

static rsh_status forward(rsh_module *m, rsh_value *x, rsh_value **loss) {
    rsh_value *y = NULL, *squares = NULL;
    TRY(rsh_module_forward(m, x, &y));
    TRY(rsh_nn_mul(y, y, &squares));
    TRY(rsh_nn_sum(squares, 0, NULL, false, loss));
    rsh_value_free(y), rsh_value_free(squares);
    return RSH_OK;
}

static rsh_status step(rsh_module *m, rsh_value *x) {
    rsh_value *loss = NULL;
    rsh_random_seed(11);
    TRY(forward(m, x, &loss));
    CHECK(rsh_saved_hooks_depth() == 0);
    TRY(rsh_backward(loss, NULL, 0));
    rsh_value_free(loss);
    return RSH_OK;
}

typedef struct listing {
    rsh_value *at[32];
    int n;
} listing;
static rsh_status list_one(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    listing *l = ctx;
    (void)path, (void)owner, (void)name;
    l->at[l->n++] = v;
    return RSH_OK;
}

static rsh_status same_bits(const rsh_value *a, const rsh_value *b) {
    bool same = false;
    CHECK(a && b);
    TRY(rsh_math_equal(rsh_value_part(a, 0), rsh_value_part(b, 0), &same));
    CHECK(same);
    return RSH_OK;
}

static rsh_status same_models(rsh_module *a, rsh_module *b) {
    listing la = {.n = 0}, lb = {.n = 0};
    TRY(rsh_module_parameters(a, false, list_one, &la));
    TRY(rsh_module_parameters(b, false, list_one, &lb));
    CHECK(la.n && la.n == lb.n);
    for (int i = 0; i < la.n; i++) {
        TRY(same_bits(rsh_value_grad(la.at[i]), rsh_value_grad(lb.at[i])));
        TRY(same_bits(la.at[i], lb.at[i]));
    }
    return RSH_OK;
}

/* Three steps of SGD of two models that must stay equal. */
static rsh_status train_both(rsh_module *a, rsh_module *b, rsh_value *x) {
    rsh_optimizer *sgd[2] = {NULL, NULL};
    TRY(rsh_sgd_new(a, &(rsh_sgd_opts){.lr = 0.01}, &sgd[0]));
    TRY(rsh_sgd_new(b, &(rsh_sgd_opts){.lr = 0.01}, &sgd[1]));
    for (int i = 0; i < 3; i++) {
        TRY(rsh_module_zero_grad(a));
        TRY(rsh_module_zero_grad(b));
        TRY(step(a, x));
        TRY(step(b, x));
        TRY(rsh_optimizer_step(sgd[0]));
        TRY(rsh_optimizer_step(sgd[1]));
        TRY(same_models(a, b));
    }
    rsh_optimizer_free(sgd[0]), rsh_optimizer_free(sgd[1]);
    return RSH_OK;
}

/* ---- the same bits ---- */

static rsh_status compare(rsh_status (*make)(rsh_module **), int ndim, int dim, bool again, int64_t cut) {
    rsh_module *plain = NULL, *other = NULL;
    rsh_mesh *mesh = NULL;
    rsh_value *x = NULL;
    rsh_input_reshard_stats stats = {0};
    TRY(line(&mesh));
    TRY(make(&plain));
    TRY(make(&other));
    TRY(make_value(RSH_F32, ndim, (int64_t[]){ROWS, ndim == 2 ? WIDTH : 5, WIDTH}, 5, false, &x));
    TRY(rsh_input_reshard(other, mesh, dim, &(rsh_input_reshard_opts){.plain_is_replicated = true, .stats = &stats}));
    if (again) TRY(rsh_recompute(other));
    TRY(train_both(plain, other, x));
    if (rsh_mesh_size(mesh) > 1) CHECK(cut < 0 ? stats.cut > 20 : stats.cut == 3 * cut);
    if (rsh_mesh_size(mesh) > 1) CHECK(stats.gathers == stats.cut && stats.bytes_kept < stats.bytes_whole);
    rsh_value_free(x);
    rsh_module_free(plain), rsh_module_free(other);
    rsh_mesh_free(mesh);
    return RSH_OK;
}

/* An MLP keeps the input, what relu needs and the input of the second Linear. */
static rsh_status mlp_trial(void *ctx) {
    (void)ctx;
    TRY(compare(mlp, 2, 0, false, 2));
    TRY(compare(mlp, 2, 1, false, 2));
    return compare(mlp, 2, -1, false, 2);
}
static void an_mlp_trains_to_the_same_bits(void **state) {
    (void)state;
    run_all(mlp_trial);
}

static rsh_status block_trial(void *ctx) {
    (void)ctx;
    for (int dim = -1; dim < 2; dim++) TRY(compare(block, 3, dim, false, -1));
    return RSH_OK;
}
static void a_transformer_block_trains_to_the_same_bits(void **state) {
    (void)state;
    run_all(block_trial);
}

/* I1: the module recomputes, so its input alone is kept, as a chunk. */
static rsh_status i1_trial(void *ctx) {
    (void)ctx;
    return compare(mlp, 2, 0, true, 1);
}
static void i1_an_mlp_that_recomputes_keeps_a_chunk_of_its_input(void **state) {
    (void)state;
    run_all(i1_trial);
}

/* I2: without a dim nothing is registered. */
static rsh_status i2_trial(void *ctx) {
    (void)ctx;
    rsh_input_reshard_stats stats = {0};
    rsh_module *m = NULL;
    rsh_mesh *mesh = NULL;
    rsh_value *x = NULL;
    TRY(line(&mesh));
    TRY(mlp(&m));
    TRY(make_value(RSH_F32, 2, (int64_t[]){ROWS, WIDTH}, 5, false, &x));
    TRY(rsh_input_reshard(m, mesh, RSH_NO_DIM,
                          &(rsh_input_reshard_opts){.plain_is_replicated = true, .stats = &stats}));
    TRY(step(m, x));
    CHECK(!stats.cut && !stats.left);
    rsh_value_free(x);
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void i2_without_a_dim_nothing_changes(void **state) {
    (void)state;
    run_all(i2_trial);
}

/* ---- a module that saves what it is given, and gives it back ---- */

typedef struct probe {
    rsh_saved *slot[4];
    int n;
    bool fail;
    rsh_module *inner; /* called after saving; NULL: none */
} probe;

static rsh_status probe_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    probe *p = *(probe **)rsh_module_state(m);
    for (int i = 0; i < 3; i++)
        if (in[i]) TRY(rsh_saved_new(in[i], &p->slot[p->n++]));
    if (p->fail) return rsh_grad_fail(RSH_EIO, "the probe fails");
    if (p->inner) return rsh_module_forward(p->inner, in[0], out);
    *out = rsh_value_hold(in[0]);
    return RSH_OK;
}
static const rsh_module_kind probe_kind = {"Probe", 3, 1, NULL, probe_forward, sizeof(probe *), NULL};

static rsh_status probe_new(probe *p, rsh_mesh *mesh, int dim, const rsh_input_reshard_opts *opts, rsh_module **out) {
    TRY(rsh_module_new(&probe_kind, &p, out));
    return rsh_input_reshard(*out, mesh, dim, opts);
}
static rsh_status probe_call(rsh_module *m, int n, rsh_value *const *in) {
    rsh_value *out = NULL;
    TRY(rsh_module_call(m, n, in, &out));
    rsh_value_free(out);
    return RSH_OK;
}
static void probe_end(probe *p) {
    while (p->n) rsh_saved_free(p->slot[--p->n]);
}

/* What comes back is what went in: elements, shape, dtype, and the order of dims in memory. */
static rsh_status comes_back(const rsh_saved *s, const rsh_value *v) {
    rsh_value *back = NULL;
    TRY(rsh_saved_read(s, &back));
    TRY(same_bits(back, v));
    CHECK(rsh_value_requires_grad(back) == false);
    CHECK(rsh_tensor_dense(rsh_value_part(back, 0)) == rsh_tensor_dense(rsh_value_part(v, 0)));
    rsh_value_free(back);
    return RSH_OK;
}

/* One tensor of a size and dtype; what is kept is at most the ceiling share. */
static rsh_status size_trial(rsh_mesh *mesh, rsh_dtype dtype, int ndim, const int64_t *shape, int dim) {
    rsh_input_reshard_stats stats = {0};
    rsh_input_reshard_opts opts = {.plain_is_replicated = true, .stats = &stats};
    probe p = {.n = 0};
    rsh_module *m = NULL;
    rsh_value *v = NULL;
    rsh_tensor *t = NULL;
    int64_t count = 1, w = rsh_mesh_size(mesh);
    int cut = dim < 0 ? dim + ndim : dim;
    TRY(rsh_tensor_empty(dtype, ndim, shape, &t));
    for (int d = 0; d < ndim; d++) count *= shape[d];
    for (size_t i = 0; i < (size_t)count * rsh_dtype_size(dtype); i++) ((unsigned char *)rsh_tensor_data(t))[i] = i % 50;
    TRY(rsh_value_take(t, false, &v));
    TRY(probe_new(&p, mesh, dim, &opts, &m));
    TRY(probe_call(m, 1, &v));
    bool expected = w > 1 && cut >= 0 && cut < ndim && count >= w;
    CHECK(stats.cut == expected && stats.left == (w > 1 && !expected));
    if (expected) {
        uint64_t share = (uint64_t)(count / shape[cut] * ceiling(shape[cut], w)) * rsh_dtype_size(dtype);
        CHECK(stats.bytes_kept <= share && stats.bytes_whole == (uint64_t)count * rsh_dtype_size(dtype));
    }
    TRY(comes_back(p.slot[0], v));
    TRY(comes_back(p.slot[0], v)); /* as in a second, retained backward */
    CHECK(stats.gathers == (expected ? 2 : 0));
    probe_end(&p);
    rsh_value_free(v);
    rsh_module_free(m);
    return RSH_OK;
}

static rsh_status sizes_trial(void *ctx) {
    rsh_mesh *mesh = NULL;
    (void)ctx;
    TRY(line(&mesh));
    for (int dim = -1; dim < 2; dim++)
        for (int64_t n = 1; n < 10; n++) {
            TRY(size_trial(mesh, RSH_F32, 1, (int64_t[]){n}, dim));
            TRY(size_trial(mesh, RSH_I64, 2, (int64_t[]){n, 4}, dim));
            TRY(size_trial(mesh, RSH_BOOL, 2, (int64_t[]){1, n}, dim));
            TRY(size_trial(mesh, RSH_F64, 3, (int64_t[]){2, n, 3}, dim));
        }
    TRY(size_trial(mesh, RSH_F32, 0, NULL, 0));
    TRY(size_trial(mesh, RSH_F32, 0, NULL, -1));
    TRY(size_trial(mesh, RSH_F32, 2, (int64_t[]){0, 4}, 0));
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void tensors_of_all_sizes_come_back(void **state) {
    (void)state;
    run_all(sizes_trial);
}

/* ---- which tensors ---- */

static rsh_status transposed(rsh_value **out) {
    rsh_value *v = NULL;
    TRY(make_value(RSH_F32, 2, (int64_t[]){6, 9}, 2, false, &v));
    rsh_status st = rsh_nn_transpose(v, 0, 1, out);
    rsh_value_free(v);
    return st;
}

/* A transposed tensor comes back transposed, one saved twice is cut once, a changed one again. */
static rsh_status sharing_trial(void *ctx) {
    rsh_input_reshard_stats stats = {0};
    rsh_input_reshard_opts opts = {.plain_is_replicated = true, .stats = &stats};
    probe p = {.n = 0};
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL;
    rsh_value *v = NULL, *back = NULL;
    (void)ctx;
    TRY(line(&mesh));
    TRY(probe_new(&p, mesh, 0, &opts, &m));
    TRY(transposed(&v));
    TRY(probe_call(m, 3, (rsh_value *[]){v, v, v}));
    if (rsh_mesh_size(mesh) > 1) CHECK(stats.cut == 1 && stats.shared == 2 && stats.left == 0);
    TRY(rsh_saved_read(p.slot[0], &back));
    CHECK(rsh_tensor_strides(rsh_value_tensor(back))[0] == 1 && rsh_tensor_strides(rsh_value_tensor(back))[1] == 9);
    rsh_value_free(back);
    TRY(comes_back(p.slot[1], v));
    TRY(comes_back(p.slot[2], v));
    if (rsh_mesh_size(mesh) > 1) CHECK(stats.gathers == 1);
    probe_end(&p);
    rsh_value_free(v);
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void slots_of_one_tensor_share_a_chunk_and_a_gather(void **state) {
    (void)state;
    run_all(sharing_trial);
}

/* A parameter, one that is frozen, and a tensor below the threshold stay as they are. */
static rsh_status left_trial(void *ctx) {
    rsh_input_reshard_stats stats = {0};
    rsh_input_reshard_opts opts = {.plain_is_replicated = true, .threshold = 65, .stats = &stats};
    probe p = {.n = 0};
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL;
    rsh_value *leaf = NULL, *frozen = NULL, *small = NULL, *large = NULL;
    (void)ctx;
    TRY(line(&mesh));
    TRY(probe_new(&p, mesh, 0, &opts, &m));
    TRY(make_value(RSH_F32, 2, (int64_t[]){10, 10}, 2, true, &leaf));
    TRY(make_value(RSH_F32, 2, (int64_t[]){10, 10}, 2, false, &frozen));
    TRY(make_value(RSH_F32, 2, (int64_t[]){8, 8}, 2, false, &small));
    TRY(make_value(RSH_F32, 2, (int64_t[]){13, 5}, 2, false, &large));
    TRY(rsh_module_set_parameter(m, "frozen", frozen));
    TRY(probe_call(m, 3, (rsh_value *[]){leaf, frozen, small}));
    if (rsh_mesh_size(mesh) > 1) CHECK(stats.cut == 0 && stats.left == 3);
    probe_end(&p);
    TRY(probe_call(m, 1, &large));
    if (rsh_mesh_size(mesh) > 1) CHECK(stats.cut == 1 && stats.left == 3);
    probe_end(&p);
    rsh_value_free(leaf), rsh_value_free(frozen), rsh_value_free(small), rsh_value_free(large);
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void parameters_and_small_tensors_are_left(void **state) {
    (void)state;
    run_all(left_trial);
}

/* What differs between ranks, as the local output of a column-wise layer does, is left without the option. */
static rsh_status own_trial(void *ctx) {
    rsh_input_reshard_stats stats = {0};
    rsh_input_reshard_opts opts = {.stats = &stats};
    rsh_module *m = NULL, *plain = NULL, **both[] = {&m, &plain};
    rsh_mesh *mesh = NULL;
    rsh_value *x = NULL;
    (void)ctx;
    TRY(line(&mesh));
    for (int i = 0; i < 2; i++) {
        rsh_module *part[2];
        rsh_random_seed((uint64_t)rsh_group_rank(NULL) + 1); /* this rank's columns */
        TRY(rsh_linear_new(WIDTH, 4, true, RSH_F32, &part[0]));
        TRY(rsh_relu_new(&part[1]));
        TRY(sequence(2, part, both[i]));
    }
    TRY(rsh_input_reshard(m, mesh, 0, &opts));
    TRY(make_value(RSH_F32, 2, (int64_t[]){ROWS, WIDTH}, 5, false, &x));
    TRY(train_both(plain, m, x));
    if (rsh_mesh_size(mesh) > 1) CHECK(stats.cut == 0 && stats.left > 0);
    rsh_value_free(x);
    rsh_module_free(m), rsh_module_free(plain);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void plain_tensors_that_differ_are_left_without_the_option(void **state) {
    (void)state;
    run_all(own_trial);
}

/* ---- DTensors ---- */

static rsh_status dtensor(rsh_mesh *mesh, rsh_place place, rsh_value **out) {
    rsh_value *v = NULL;
    TRY(make_value(RSH_F32, 2, (int64_t[]){7, 3}, 6, false, &v));
    rsh_status st = rsh_dtensor_distribute(rsh_value_tensor(v), false, mesh, 1, &place, RSH_SOURCE_OWN, out);
    rsh_value_free(v);
    return st;
}

static rsh_status dtensor_back(const rsh_saved *s, rsh_mesh *mesh, const rsh_value *v) {
    rsh_value *back = NULL;
    rsh_place was, is;
    TRY(comes_back(s, v));
    TRY(rsh_saved_read(s, &back));
    CHECK(rsh_dtensor_mesh(back) == mesh);
    TRY(rsh_dtensor_places(v, &was));
    TRY(rsh_dtensor_places(back, &is));
    CHECK(rsh_places_equal(2, 1, &was, &is));
    rsh_value_free(back);
    return RSH_OK;
}

static rsh_status dtensor_trial(void *ctx) {
    rsh_input_reshard_stats stats = {0};
    rsh_input_reshard_opts opts = {.stats = &stats};
    probe p = {.n = 0};
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL;
    rsh_value *in[3] = {NULL, NULL, NULL};
    (void)ctx;
    TRY(line(&mesh));
    TRY(dtensor(mesh, rsh_replicate(), &in[0]));
    TRY(dtensor(mesh, rsh_shard_on(0), &in[1]));
    rsh_place partial = rsh_partial_of(RSH_OP_SUM);
    TRY(rsh_dtensor_full(mesh, 1, &partial, RSH_F32, 2, (int64_t[]){8, 8}, 1, &in[2]));
    TRY(probe_new(&p, mesh, 0, &opts, &m));
    TRY(probe_call(m, 3, in));
    if (rsh_mesh_size(mesh) > 1) {
        CHECK(stats.cut == 1 && stats.left == 2);
        CHECK(stats.bytes_kept <= (uint64_t)ceiling(7, rsh_mesh_size(mesh)) * 3 * sizeof(float));
    }
    for (int i = 0; i < 3; i++) TRY(dtensor_back(p.slot[i], mesh, in[i]));
    probe_end(&p);
    for (int i = 0; i < 3; i++) rsh_value_free(in[i]);
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void dtensors_that_are_replicated_are_cut_and_others_left(void **state) {
    (void)state;
    run_all(dtensor_trial);
}

/* ---- memory ---- */

static rsh_status kept_by(rsh_mesh *mesh, bool cut, uint64_t *kept) {
    rsh_module *m = NULL;
    rsh_value *x = NULL, *loss = NULL;
    TRY(mlp(&m));
    TRY(make_value(RSH_F32, 2, (int64_t[]){400, WIDTH}, 5, false, &x));
    if (cut) TRY(rsh_input_reshard(m, mesh, 0, &(rsh_input_reshard_opts){.plain_is_replicated = true}));
    uint64_t before = rsh_alloc_get_stats().data_bytes;
    TRY(rsh_module_forward(m, x, &loss));
    *kept = rsh_alloc_get_stats().data_bytes - before;
    rsh_value_free(x), rsh_value_free(loss);
    rsh_module_free(m);
    return RSH_OK;
}

static rsh_status memory_trial(void *ctx) {
    rsh_mesh *mesh = NULL;
    uint64_t whole = 0, chunks = 0, rows = 400, output = rows * WIDTH * sizeof(float), slack = 8192;
    (void)ctx;
    TRY(line(&mesh));
    TRY(kept_by(mesh, false, &whole));
    TRY(kept_by(mesh, true, &chunks));
    uint64_t w = (uint64_t)rsh_mesh_size(mesh);
    CHECK(whole >= output + rows * HIDDEN * sizeof(float));
    /* the output, and shares of the input and the hidden layer */
    if (w > 1) CHECK(chunks <= output + (rows * (WIDTH + HIDDEN) * sizeof(float) + w - 1) / w + slack);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void the_bytes_kept_are_the_share_of_a_rank(void **state) {
    (void)state;
    run_all(memory_trial);
}

/* ---- around forward ---- */

static rsh_status fails_before(void *ctx, rsh_module *m, rsh_value **in) {
    (void)ctx, (void)m, (void)in;
    return rsh_grad_fail(RSH_EIO, "a hook fails");
}

static rsh_status failing_trial(void *ctx) {
    rsh_input_reshard_opts opts = {.plain_is_replicated = true};
    probe p = {.fail = true};
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL, *outer = NULL;
    rsh_value *x = NULL;
    int64_t id = 0;
    (void)ctx;
    TRY(line(&mesh));
    TRY(make_value(RSH_F32, 1, (int64_t[]){9}, 5, false, &x));
    TRY(rsh_module_new(&probe_kind, &(probe *){&p}, &m));
    TRY(rsh_module_add_pre_hook(m, fails_before, NULL, NULL, &id));
    TRY(rsh_input_reshard(m, mesh, 0, &opts));
    TRY(rsh_sequential_new(1, &m, &outer));
    TRY(rsh_input_reshard(outer, mesh, 0, &opts));
    CHECK_STATUS(RSH_EIO, probe_call(outer, 1, &x)); /* the inner pair was never pushed */
    CHECK(rsh_saved_hooks_depth() == 0);
    TRY(rsh_module_remove_hook(m, id));
    CHECK_STATUS(RSH_EIO, probe_call(outer, 1, &x));
    CHECK(rsh_saved_hooks_depth() == 0 && strstr(rsh_error_detail(), "the probe fails"));
    p.fail = false;
    TRY(probe_call(outer, 1, &x));
    CHECK(rsh_saved_hooks_depth() == 0);
    for (int i = 0; i < p.n; i++) TRY(comes_back(p.slot[i], x));
    probe_end(&p);
    rsh_value_free(x);
    rsh_module_free(m), rsh_module_free(outer);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void a_forward_that_fails_pops_its_pair_alone(void **state) {
    (void)state;
    run_all(failing_trial);
}

/* The inner module's tensors are the inner request's, the others the outer one's. */
static rsh_status nested_trial(void *ctx) {
    rsh_input_reshard_stats inner = {0}, outer = {0};
    probe p = {.n = 0};
    rsh_mesh *mesh = NULL;
    rsh_module *in = NULL, *out = NULL, *plain = NULL;
    rsh_value *x = NULL;
    (void)ctx;
    TRY(line(&mesh));
    TRY(mlp(&plain));
    TRY(mlp(&in));
    p.inner = in;
    TRY(rsh_input_reshard(in, mesh, 1, &(rsh_input_reshard_opts){.plain_is_replicated = true, .stats = &inner}));
    TRY(probe_new(&p, mesh, 0, &(rsh_input_reshard_opts){.plain_is_replicated = true, .stats = &outer}, &out));
    TRY(make_value(RSH_F32, 2, (int64_t[]){ROWS, WIDTH}, 5, false, &x));
    TRY(step(plain, x));
    TRY(step(out, x));
    TRY(same_models(plain, in));
    TRY(comes_back(p.slot[0], x));
    if (rsh_mesh_size(mesh) > 1) CHECK(inner.cut == 2 && outer.cut == 1);
    probe_end(&p);
    rsh_value_free(x);
    rsh_module_free(in), rsh_module_free(out), rsh_module_free(plain);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void nested_modules_have_pairs_of_their_own(void **state) {
    (void)state;
    run_all(nested_trial);
}

/* ---- wrong ---- */

static rsh_status check_trial(void *ctx) {
    rsh_input_reshard_opts opts = {.plain_is_replicated = true};
    bool differ = *(bool *)ctx && rsh_group_size(NULL) > 1;
    probe p = {.n = 0};
    rsh_mesh *mesh = NULL;
    rsh_module *m = NULL;
    rsh_value *x = NULL;
    TRY(line(&mesh));
    TRY(make_value(RSH_F32, 2, (int64_t[]){5, 4}, 1, false, &x));
    bool last = rsh_group_rank(NULL) == rsh_group_size(NULL) - 1;
    if (differ && last) ((float *)rsh_tensor_data(rsh_value_tensor(x)))[7] = 100;
    TRY(probe_new(&p, mesh, 0, &opts, &m));
    CHECK_STATUS(differ ? RSH_EVALUE : RSH_OK, probe_call(m, 1, &x));
    if (differ) CHECK(strstr(rsh_error_detail(), "has other elements than rank 0"));
    CHECK(rsh_saved_hooks_depth() == 0);
    probe_end(&p);
    rsh_value_free(x);
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}
static void plain_tensors_are_compared_on_demand(void **state) {
    (void)state;
    setenv("RESHARD_CHECK", "1", 1);
    for (int n = 1; n <= 4; n++) {
        run_groups(n, check_trial, &(bool){false});
        run_groups(n, check_trial, &(bool){true});
    }
    unsetenv("RESHARD_CHECK");
}

static rsh_status wrong_trial(void *ctx) {
    rsh_mesh *mesh = NULL, *flat = NULL;
    rsh_module *m = NULL;
    int64_t shape[] = {1, rsh_group_size(NULL)};
    (void)ctx;
    TRY(mlp(&m));
    TRY(line(&flat));
    TRY(rsh_mesh_init(rsh_group_comm(NULL), 2, shape, NULL, &mesh));
    CHECK_STATUS(RSH_EVALUE, rsh_input_reshard(m, mesh, 0, NULL));
    CHECK(strstr(rsh_error_detail(), "a mesh of 2 dims"));
    CHECK_STATUS(RSH_EVALUE, rsh_input_reshard(m, flat, 0, &(rsh_input_reshard_opts){.threshold = -1}));
    rsh_module_free(m);
    rsh_mesh_free(mesh), rsh_mesh_free(flat);
    return RSH_OK;
}
static void a_mesh_of_two_dims_is_refused(void **state) {
    (void)state;
    run_all(wrong_trial);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_mlp_trains_to_the_same_bits),
        cmocka_unit_test(a_transformer_block_trains_to_the_same_bits),
        cmocka_unit_test(i1_an_mlp_that_recomputes_keeps_a_chunk_of_its_input),
        cmocka_unit_test(i2_without_a_dim_nothing_changes),
        cmocka_unit_test(tensors_of_all_sizes_come_back),
        cmocka_unit_test(slots_of_one_tensor_share_a_chunk_and_a_gather),
        cmocka_unit_test(parameters_and_small_tensors_are_left),
        cmocka_unit_test(plain_tensors_that_differ_are_left_without_the_option),
        cmocka_unit_test(dtensors_that_are_replicated_are_cut_and_others_left),
        cmocka_unit_test(the_bytes_kept_are_the_share_of_a_rank),
        cmocka_unit_test(a_forward_that_fails_pops_its_pair_alone),
        cmocka_unit_test(nested_modules_have_pairs_of_their_own),
        cmocka_unit_test(plain_tensors_are_compared_on_demand),
        cmocka_unit_test(a_mesh_of_two_dims_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
