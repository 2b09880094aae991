/* Sync grads: after one call, gradients of random models over ranks equal those of the plain model on the whole batch.
 *
 * Models mix Linear cut by rows and by columns, with and without bias, plain Linear, LayerNorm and Embedding.  Every
 * rank has its own rows; tensor-parallel models get the same rows on every rank of a mesh. */
#include "parallel_models.h"

#include "nn/numbers.h"

enum { WIDTH = 6, WORDS = 7, ROWS = 2, MOST_LAYERS = 5 };

/* The layers of a model.  Lower case: plain; r, R: a Linear whose weight is cut along dim 0 and 1; e: Embedding. */
typedef struct recipe {
    char layer[MOST_LAYERS];
    bool bias[MOST_LAYERS];
    int cut[MOST_LAYERS]; /* dim along which each layer is cut; -1: plain */
    int n;
    uint64_t seed;
} recipe;

static uint64_t next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 31);
}
static int below(uint64_t *state, int n) { return (int)(next(state) % (uint64_t)n); }

static recipe draw(uint64_t seed) {
    recipe r = {.seed = seed};
    r.n = 1 + below(&seed, MOST_LAYERS);
    for (int i = 0; i < r.n; i++) {
        r.layer[i] = !i && below(&seed, 2) ? 'e' : below(&seed, 3) ? 'l' : 'n';
        r.bias[i] = below(&seed, 3) > 0;
        r.cut[i] = r.layer[i] == 'n' ? -1 : below(&seed, 3) - 1;
    }
    return r;
}

static rsh_status make_layer(const recipe *r, int i, rsh_module **out) {
    if (r->layer[i] == 'e') return rsh_embedding_new(WORDS, WIDTH, NULL, RSH_F64, out);
    if (r->layer[i] == 'n') return rsh_layer_norm_new(1, (int64_t[]){WIDTH}, 1e-3, true, RSH_F64, out);
    return rsh_linear_new(WIDTH, WIDTH, r->bias[i], RSH_F64, out);
}

static rsh_status make_model(const recipe *r, rsh_module **out) {
    rsh_module *part[MOST_LAYERS] = {NULL};
    rsh_random_seed(r->seed);
    for (int i = 0; i < r->n; i++) TRY(make_layer(r, i, &part[i]));
    return sequence(r->n, part, out);
}

static rsh_status add_cut(const recipe *r, int i, rsh_group *group, rsh_sharding_plan *p) {
    char path[32];
    rsh_spec *spec = NULL, *rows = NULL;
    snprintf(path, sizeof path, "%d.weight", i);
    int ranks[8];
    for (int k = 0; k < rsh_group_size(group); k++) TRY(rsh_group_to_global(group, k, &ranks[k]));
    TRY(rsh_spec_chunk_ranks(r->cut[i], rsh_group_size(group), NULL, &spec));
    TRY(rsh_spec_chunk_ranks(0, rsh_group_size(group), NULL, &rows));
    TRY(rsh_sharding_plan_add(p, path, spec, NULL));
    snprintf(path, sizeof path, "%d", i);
    if (r->layer[i] == 'l') {
        TRY(rsh_sharding_plan_reshard_output(p, path, rows));
        TRY(rsh_sharding_plan_return_local(p, path));
    }
    rsh_spec_free(spec), rsh_spec_free(rows);
    return RSH_OK;
}

static rsh_status shard(const recipe *r, rsh_module *m, rsh_group *group) {
    rsh_sharding_plan *p = NULL;
    TRY(rsh_sharding_plan_new(&p));
    for (int i = 0; i < r->n; i++)
        if (r->cut[i] >= 0) TRY(add_cut(r, i, group, p));
    rsh_status st = rsh_shard_module(m, p, 0, group);
    rsh_sharding_plan_free(p);
    return st;
}

/* Creates n rows of the whole batch, from row `first` on. */
static rsh_status batch(const recipe *r, int64_t first, int64_t n, rsh_value **out) {
    int64_t all = ROWS * rsh_group_size(NULL);
    rsh_value *whole = r->layer[0] == 'e' ? some_indices(WORDS, SIZES(all, 1))
                                          : some_value(RSH_F64, (int)(r->seed % 100), false, SIZES(all, 1, WIDTH));
    rsh_status st = RSH_OK;
    rsh_tensor *part = NULL;
    const rsh_tensor *t = rsh_value_tensor(whole);
    int64_t shape[3] = {n, 1, WIDTH}, step = rsh_tensor_strides(t)[0];
    st = rsh_tensor_view(t, first * step, rsh_tensor_ndim(t), shape, rsh_tensor_strides(t), &part);
    if (!st) st = rsh_value_adopt_tensor(part, false, out);
    rsh_value_free(whole);
    return st;
}

/* Runs backward of a sum over rows, divided by `by`. */
static rsh_status learn(rsh_module *m, rsh_value *x, double by) {
    rsh_value *y = NULL, *loss = NULL, *scaled = NULL;
    TRY(rsh_module_forward(m, x, &y));
    TRY(squared_loss(y, &loss));
    TRY(rsh_nn_mul_number(loss, 1 / by, &scaled));
    TRY(rsh_backward(scaled, NULL, 0));
    rsh_value_free(y), rsh_value_free(loss), rsh_value_free(scaled);
    return RSH_OK;
}

/* Compares with the gradients of a plain model on the whole batch. */
static rsh_status compare_with_plain(const recipe *r, rsh_module *m, int64_t rows, bool mean) {
    rsh_module *plain = NULL;
    rsh_value *x = NULL;
    TRY(make_model(r, &plain));
    TRY(batch(r, 0, rows, &x));
    TRY(learn(plain, x, mean ? (double)rows : 1));
    rsh_status st = close_models(m, plain, 1e-11);
    rsh_value_free(x);
    rsh_module_free(plain);
    if (st) {
        char text[600], layers[64] = "";
        for (int i = 0; i < r->n; i++)
            snprintf(layers + strlen(layers), sizeof layers - strlen(layers), " %c%d%s", r->layer[i], r->cut[i],
                     r->bias[i] ? "b" : "");
        snprintf(text, sizeof text, "seed %llu, %s of%s: %.300s", (unsigned long long)r->seed, mean ? "mean" : "sum",
                 layers, rsh_error_detail());
        return rsh_fail(st, text);
    }
    return RSH_OK;
}

/* ---- each rank has its own rows ---- */

static rsh_status own_rows(const recipe *r, bool mean) {
    int n = rsh_group_size(NULL), me = rsh_group_rank(NULL);
    rsh_module *m = NULL;
    rsh_value *x = NULL;
    TRY(make_model(r, &m));
    TRY(shard(r, m, NULL));
    TRY(batch(r, ROWS * me, ROWS, &x));
    TRY(learn(m, x, mean ? ROWS : 1));
    TRY(rsh_module_sync_grads(m, NULL, mean ? RSH_OP_AVG : RSH_OP_SUM));
    TRY(compare_with_plain(r, m, ROWS * n, mean));
    rsh_value_free(x);
    rsh_module_free(m);
    return RSH_OK;
}

typedef struct cases {
    uint64_t seed;
    int n;
} cases;

static rsh_status many_own_rows(void *ctx) {
    const cases *c = ctx;
    for (int i = 0; i < c->n; i++) {
        recipe r = draw(c->seed * 1000 + (uint64_t)i);
        TRY(own_rows(&r, i % 2));
    }
    return RSH_OK;
}

static cases cases_of_run(int n) {
    const char *seed = getenv("RESHARD_SEED"), *number = getenv("RESHARD_CASES");
    cases c = {seed ? strtoull(seed, NULL, 0) : 5, number ? atoi(number) / 10 + 1 : n};
    return c;
}

static void one_call_gives_the_gradients_of_the_whole_batch(void **state) {
    (void)state;
    cases c = cases_of_run(40);
    print_message("RESHARD_SEED=%llu\n", (unsigned long long)c.seed);
    body b = {many_own_rows, &c};
    for (int n = 1; n <= 4; n++) must_run("threads", n, rsh_run(n, with_default_group, &b));
    c.n = 6;
    must_run("processes", 3, rsh_run_shm(3, with_default_group, &b));
}

/* ---- two groups of ranks that share the model ---- */

/* Ranks 0 and 1 share one replica, ranks 2 and 3 the other; `over` joins ranks in the same position. */
static rsh_status two_groups(rsh_group **shares, rsh_group **over) {
    int me = rsh_group_rank(NULL);
    rsh_group *g[4];
    const int member[4][2] = {{0, 1}, {2, 3}, {0, 2}, {1, 3}};
    for (int i = 0; i < 4; i++) TRY(rsh_group_new(2, member[i], &g[i]));
    *shares = g[me / 2], *over = g[2 + me % 2];
    rsh_group_free(g[1 - me / 2]), rsh_group_free(g[3 - me % 2]);
    return RSH_OK;
}

static rsh_status replicas_of_sharded(const recipe *r, bool mean, bool at_once) {
    int me = rsh_group_rank(NULL);
    rsh_module *m = NULL;
    rsh_value *x = NULL;
    rsh_group *shares = NULL, *over = NULL;
    rsh_op op = mean ? RSH_OP_AVG : RSH_OP_SUM;
    TRY(two_groups(&shares, &over));
    TRY(make_model(r, &m));
    TRY(shard(r, m, shares));
    TRY(batch(r, ROWS * me, ROWS, &x));
    TRY(learn(m, x, mean ? ROWS : 1));
    if (at_once) {
        TRY(rsh_module_sync_grads(m, NULL, op));
    } else {
        TRY(rsh_module_sync_grads(m, shares, op));
        TRY(rsh_module_sync_grads(m, over, op));
    }
    TRY(compare_with_plain(r, m, ROWS * 4, mean));
    rsh_value_free(x);
    rsh_module_free(m);
    rsh_group_free(shares), rsh_group_free(over);
    return RSH_OK;
}

static rsh_status many_replicas(void *ctx) {
    const cases *c = ctx;
    for (int i = 0; i < c->n; i++) {
        recipe r = draw(c->seed * 7000 + (uint64_t)i);
        TRY(replicas_of_sharded(&r, i & 1, i & 2));
    }
    return RSH_OK;
}

static void replicas_are_added_up_at_once_or_group_by_group(void **state) {
    (void)state;
    cases c = cases_of_run(24);
    body b = {many_replicas, &c};
    must_run("threads", 4, rsh_run(4, with_default_group, &b));
}

/* ---- tensor parallelism combined with data parallelism ---- */

/* Cut layers become column-wise, and their outputs are made whole again. */
static rsh_status parallelize(const recipe *r, rsh_module *m, rsh_mesh *mesh) {
    for (int i = 0; i < r->n; i++) {
        char path[16];
        rsh_parallel_entry e = {path, r->cut[i] == 1 ? rsh_rowwise_style() : rsh_colwise_style()};
        snprintf(path, sizeof path, "%d", i);
        e.style.input = e.style.output = rsh_place_replicate();
        e.style.default_input = false;
        if (r->cut[i] >= 0) TRY(rsh_parallelize_module(m, mesh, 1, &e));
    }
    return RSH_OK;
}

/* `how` 0: over the whole world; 1: over both kinds of groups; 2: over one mesh only. */
static rsh_status tensor_parallel(const recipe *r, bool mean, int how) {
    rsh_mesh *mesh = NULL, *tp = NULL;
    rsh_module *m = NULL;
    rsh_value *x = NULL;
    rsh_group *shares = NULL, *over = NULL;
    rsh_op op = mean ? RSH_OP_AVG : RSH_OP_SUM;
    int row = rsh_group_rank(NULL) / 2, rows = how == 2 ? ROWS : 2 * ROWS;
    TRY(grid(2, 2, &mesh, &tp));
    TRY(two_groups(&shares, &over));
    TRY(make_model(r, &m));
    TRY(parallelize(r, m, tp));
    TRY(batch(r, how == 2 ? 0 : ROWS * row, ROWS, &x));
    TRY(learn(m, x, mean ? ROWS : 1));
    if (how) TRY(rsh_module_sync_grads(m, shares, op));
    if (how == 1) TRY(rsh_module_sync_grads(m, over, op));
    if (!how) TRY(rsh_module_sync_grads(m, NULL, op));
    TRY(compare_with_plain(r, m, rows, mean));
    rsh_value_free(x);
    rsh_module_free(m);
    rsh_group_free(shares), rsh_group_free(over);
    rsh_mesh_free(tp), rsh_mesh_free(mesh);
    return RSH_OK;
}

static rsh_status many_tensor_parallel(void *ctx) {
    const cases *c = ctx;
    for (int i = 0; i < c->n; i++) {
        recipe r = draw(c->seed * 9000 + (uint64_t)i);
        bool any = false;
        for (int k = 0; k < r.n; k++) any = any || r.cut[k] >= 0;
        if (any) TRY(tensor_parallel(&r, i & 1, i / 2 % 3));
    }
    return RSH_OK;
}

static void one_loss_of_a_mesh_counts_once(void **state) {
    (void)state;
    cases c = cases_of_run(36);
    body b = {many_tensor_parallel, &c};
    must_run("threads", 4, rsh_run(4, with_default_group, &b));
}

/* ---- kinds of gradients that are known or unknown ---- */

static rsh_status kinds(void *ctx) {
    (void)ctx;
    recipe r = {{'l', 'n', 'l'}, {true, true, true}, {0, -1, -1}, 3, 1};
    rsh_module *m = NULL, *norm = NULL;
    rsh_mesh *mesh = NULL;
    rsh_grad_kind kind = RSH_GRAD_AUTO;
    TRY(make_model(&r, &m));
    TRY(shard(&r, m, NULL));
    TRY(rsh_module_grad_kind(m, "0.weight", NULL, &kind));
    CHECK(kind == RSH_GRAD_COMPLETE);
    TRY(rsh_module_grad_kind(m, "0.bias", NULL, &kind));
    CHECK(kind == RSH_GRAD_COMPLETE);
    TRY(rsh_module_grad_kind(m, "1.bias", NULL, &kind));
    CHECK(kind == RSH_GRAD_PARTIAL);
    CHECK_STATUS(RSH_EATTR, rsh_module_grad_kind(m, "1.nothing", NULL, &kind));
    TRY(line(&mesh));
    TRY(rsh_parallelize_module(m, mesh, 1, &(rsh_parallel_entry){"2", rsh_colwise_style()}));
    TRY(rsh_module_grad_kind(m, "2.bias", NULL, &kind));
    CHECK(kind == RSH_GRAD_REPLICATED);
    CHECK_STATUS(RSH_EUNSUP, rsh_module_grad_kind(m, "1.bias", NULL, &kind));
    CHECK_STATUS(RSH_EUNSUP, rsh_module_sync_grads(m, NULL, RSH_OP_SUM));
    CHECK(strstr(rsh_error_detail(), "rsh_module_set_grad_kind"));
    TRY(rsh_module_submodule(m, "1", &norm));
    TRY(rsh_module_set_grad_kind(norm, "weight", RSH_GRAD_PARTIAL, NULL));
    TRY(rsh_module_set_grad_kind(norm, "bias", RSH_GRAD_REPLICATED, NULL));
    TRY(rsh_module_grad_kind(m, "1.bias", NULL, &kind));
    CHECK(kind == RSH_GRAD_REPLICATED);
    TRY(rsh_module_sync_grads(m, NULL, RSH_OP_SUM));
    rsh_module_free(m);
    rsh_mesh_free(mesh);
    return RSH_OK;
}

static void a_parameter_knows_what_its_gradient_is(void **state) {
    (void)state;
    run_groups(2, kinds, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_call_gives_the_gradients_of_the_whole_batch),
        cmocka_unit_test(replicas_are_added_up_at_once_or_group_by_group),
        cmocka_unit_test(one_loss_of_a_mesh_counts_once),
        cmocka_unit_test(a_parameter_knows_what_its_gradient_is),
    };
    return cmocka_run_group_tests_name("sync grads", tests, NULL, NULL);
}
