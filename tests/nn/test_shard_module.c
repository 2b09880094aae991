/* Shard module: plans, sharders, hooks on outputs; the Megatron pair against the same model on one rank. */
#include "models.h"

static rsh_status chunks(int dim, int n, const int *ranks, rsh_spec **out) {
    return rsh_spec_chunk_ranks(dim, n, ranks, out);
}

/* y = fc2(gelu(fc1(x))) */
static rsh_status mlp_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    rsh_module *fc1 = NULL, *fc2 = NULL;
    rsh_value *h = NULL, *g = NULL;
    TRY(rsh_module_child(m, "fc1", &fc1));
    TRY(rsh_module_child(m, "fc2", &fc2));
    TRY(rsh_module_forward(fc1, in[0], &h));
    rsh_status st = rsh_nn_gelu(h, RSH_GELU_ERF, &g);
    if (!st) st = rsh_module_forward(fc2, g, out);
    rsh_value_free(h);
    rsh_value_free(g);
    return st;
}
static const rsh_module_kind mlp_kind = {.name = "Mlp", .nin = 1, .nout = 1, .forward = mlp_forward};

static rsh_status make_mlp(const int64_t *sizes, rsh_dtype dtype, rsh_module **out) {
    rsh_module *fc1 = NULL, *fc2 = NULL;
    rsh_random_seed(3);
    TRY(rsh_module_new(&mlp_kind, NULL, out));
    TRY(rsh_linear_new(sizes[0], sizes[1], true, dtype, &fc1));
    TRY(rsh_linear_new(sizes[1], sizes[2], true, dtype, &fc2));
    TRY(rsh_module_set_child(*out, "fc1", fc1));
    TRY(rsh_module_set_child(*out, "fc2", fc2));
    rsh_module_free(fc1);
    rsh_module_free(fc2);
    return RSH_OK;
}

static rsh_status parameter(rsh_module *m, const char *path, rsh_value **out) {
    rsh_module *owner = NULL;
    const char *name = NULL;
    TRY(rsh_module_owner(m, path, &owner, &name));
    return rsh_module_parameter(owner, name, out);
}

/* ---- errors: the module is as before ---- */

static rsh_status untouched(rsh_module *m) {
    static const char *const paths[] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};
    for (int i = 0; i < 4; i++) {
        rsh_value *v = NULL;
        TRY(parameter(m, paths[i], &v));
        CHECK(!rsh_value_sharded(v));
    }
    return RSH_OK;
}

static rsh_status no_new_module(void *ctx, rsh_module *m, rsh_module **out) {
    (void)ctx;
    *out = rsh_module_hold(m);
    return RSH_OK;
}
static rsh_status refusing_sharder(void *ctx, rsh_module *m, rsh_module **out) {
    (void)ctx, (void)m, (void)out;
    return rsh_group_rank(NULL) == 1 ? rsh_fail(RSH_EUNSUP, "not this module") : RSH_OK;
}

typedef struct bad {
    const char *path;
    bool spec, sharder;
    const char *other; /* a sharder for this path, before */
    const char *output;
    bool output_spec;
    rsh_status expected;
    const char *says;
} bad;

static rsh_status plan_errors(void *ctx) {
    (void)ctx;
    static const bad bads[] = {
        {"fc1.weight", false, false, NULL, NULL, false, RSH_ETYPE, "fc1.weight"},      /* L1 */
        {"fc1.weight", true, true, NULL, NULL, false, RSH_ETYPE, "both"},
        {"fc1.weight", true, false, NULL, "", false, RSH_ETYPE, "output"},             /* L2 */
        {"fc3.weight", true, false, NULL, NULL, false, RSH_EATTR, "fc3"},              /* L3 */
        {"fc1.biass", true, false, NULL, NULL, false, RSH_EATTR, "biass"},             /* L3 */
        {"fc1.weight", true, false, NULL, "fc9", true, RSH_EATTR, "fc9"},
        {"", false, true, NULL, NULL, false, RSH_EKEY, "root"},                        /* L9 */
        {"fc1.weight", true, false, "fc1", NULL, false, RSH_ERUNTIME, "sharder"},      /* L10 */
        {"fc1.weight", true, false, "", NULL, false, RSH_EKEY, "root"},
        {"fc1", false, true, NULL, NULL, false, RSH_EVALUE, "new module"},
        {"fc7", false, true, NULL, NULL, false, RSH_EATTR, "fc7"},
    };
    rsh_sharder same = {no_new_module, NULL};
    rsh_spec *spec = NULL;
    rsh_module *m = NULL;
    TRY(chunks(0, rsh_group_size(NULL), NULL, &spec));
    TRY(make_mlp((const int64_t[]){17, 12, 29}, RSH_F32, &m));
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        const bad *b = &bads[i];
        rsh_sharding_plan *p = NULL;
        TRY(rsh_sharding_plan_new(&p));
        TRY(rsh_sharding_plan_add(p, "fc2.weight", spec, NULL)); /* a good entry before the bad one */
        if (b->other) TRY(rsh_sharding_plan_add(p, b->other, NULL, &same));
        TRY(rsh_sharding_plan_add(p, b->path, b->spec ? spec : NULL, b->sharder ? &same : NULL));
        if (b->output) TRY(rsh_sharding_plan_reshard_output(p, b->output, b->output_spec ? spec : NULL));
        CHECK_STATUS(b->expected, rsh_shard_module(m, p, 0, NULL));
        CHECK(strstr(rsh_error_detail(), b->says));
        TRY(untouched(m));
        rsh_sharding_plan_free(p);
    }
    rsh_module_free(m);
    rsh_spec_free(spec);
    return RSH_OK;
}
static void test_sharding_plan_errors(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_groups(n, plan_errors, NULL);
}

/* One rank's refusal, or another plan there, is every rank's error. */
static rsh_status uneven_plans(void *ctx) {
    (void)ctx;
    rsh_sharder refusing = {refusing_sharder, NULL};
    rsh_spec *spec = NULL;
    rsh_module *m = NULL;
    rsh_sharding_plan *p = NULL;
    bool odd = rsh_group_rank(NULL) == 1;
    TRY(chunks(0, 2, NULL, &spec));
    TRY(make_mlp((const int64_t[]){4, 6, 8}, RSH_F32, &m));
    TRY(rsh_sharding_plan_new(&p));
    TRY(rsh_sharding_plan_add(p, odd ? "fc1.weight" : "fc1.bias", spec, NULL));
    CHECK_STATUS(RSH_EVALUE, rsh_shard_module(m, p, 0, NULL));
    CHECK_STATUS(RSH_EATTR, rsh_shard_parameter(m, odd ? "fc1" : "fc3", spec, 0, NULL));
    CHECK_STATUS(RSH_EKEY, rsh_shard_parameter(m, "fc1", spec, 0, NULL));
    rsh_sharding_plan_free(p);
    TRY(rsh_sharding_plan_new(&p));
    TRY(rsh_sharding_plan_add(p, "fc2", NULL, &refusing));
    rsh_status st = rsh_shard_module(m, p, 0, NULL);
    CHECK(st == RSH_EUNSUP || st == RSH_EVALUE); /* the first refusal in rank order */
    TRY(untouched(m));
    rsh_sharding_plan_free(p);
    rsh_module_free(m);
    rsh_spec_free(spec);
    return RSH_OK;
}
static void a_refusal_on_one_rank_leaves_all_modules_as_they_were(void **state) {
    (void)state;
    run_groups(2, uneven_plans, NULL);
}

/* ---- planners ---- */

typedef struct chunking {
    rsh_sharding_plan *plan;
    rsh_spec *spec;
} chunking;
static rsh_status chunk_entry(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    (void)owner, (void)name, (void)v;
    chunking *c = ctx;
    return rsh_sharding_plan_add(c->plan, path, c->spec, NULL);
}
static rsh_status chunk_all(void *ctx, rsh_module *m, rsh_sharding_plan **out) {
    (void)ctx;
    chunking c = {0};
    TRY(rsh_sharding_plan_new(&c.plan));
    TRY(chunks(0, rsh_group_size(NULL), NULL, &c.spec));
    TRY(rsh_module_parameters(m, false, chunk_entry, &c));
    rsh_spec_free(c.spec);
    *out = c.plan;
    return RSH_OK;
}

static rsh_status count_sharded(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    (void)owner, (void)name, (void)path;
    *(int *)ctx += rsh_value_sharded(v) != NULL;
    return RSH_OK;
}

static rsh_status planner(void *ctx) { /* L4 */
    (void)ctx;
    rsh_module *m = NULL, *fresh = NULL;
    rsh_sharding_planner p = {chunk_all, NULL};
    rsh_value *v = NULL, *frozen = NULL;
    rsh_tensor *whole = NULL;
    int n = 0;
    TRY(make_mlp((const int64_t[]){17, 12, 29}, RSH_F32, &m));
    TRY(make_mlp((const int64_t[]){17, 12, 29}, RSH_F32, &fresh));
    TRY(parameter(m, "fc1.bias", &frozen));
    TRY(rsh_value_set_requires_grad(frozen, false));
    TRY(rsh_shard_module_by(m, &p, 0, NULL));
    TRY(rsh_module_parameters(m, false, count_sharded, &n)); /* named_params_with_sharded_tensor: all are there */
    CHECK(n == 4);
    TRY(parameter(m, "fc2.weight", &v));
    int64_t size = rsh_group_size(NULL), each = (29 + size - 1) / size, first = each * rsh_group_rank(NULL);
    int64_t mine = first >= 29 ? 0 : first + each > 29 ? 29 - first : each;
    CHECK(rsh_tensor_shape(rsh_value_tensor(v))[0] == mine && rsh_value_requires_grad(v));
    TRY(whole_of(v, &whole));
    rsh_value *before = NULL;
    TRY(parameter(fresh, "fc2.weight", &before));
    CHECK_CLOSE(whole, rsh_value_tensor(before), 0.0);
    TRY(parameter(m, "fc1.bias", &v));
    CHECK(rsh_value_sharded(v) && !rsh_value_requires_grad(v)); /* a frozen parameter stays frozen */
    rsh_tensor_free(whole);
    rsh_module_free(m);
    rsh_module_free(fresh);
    return RSH_OK;
}
static void test_custom_sharding_planner(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_groups(n, planner, NULL);
}

static rsh_status sub_group(void *ctx) { /* L5 */
    (void)ctx;
    rsh_group *g = NULL;
    rsh_module *m = NULL;
    rsh_spec *rows = NULL, *columns = NULL;
    rsh_sharding_plan *p = NULL;
    TRY(rsh_group_new(2, (const int[]){2, 3}, &g));
    TRY(make_mlp((const int64_t[]){6, 8, 4}, RSH_F64, &m));
    TRY(chunks(0, 2, NULL, &rows));
    TRY(chunks(1, 2, NULL, &columns));
    TRY(rsh_sharding_plan_new(&p));
    TRY(rsh_sharding_plan_add(p, "fc1.weight", rows, NULL));
    TRY(rsh_sharding_plan_add(p, "fc2.weight", columns, NULL));
    if (rsh_group_rank(NULL) >= 2) {
        rsh_value *x = NULL, *y = NULL;
        TRY(rsh_shard_module(m, p, 0, g));
        TRY(make_value(RSH_F64, 2, (const int64_t[]){3, 6}, 1, false, &x));
        TRY(rsh_module_forward(m, x, &y));
        CHECK(rsh_value_shape(y)[0] == 6);
        rsh_value_free(x), rsh_value_free(y);
    }
    rsh_module_free(m);
    rsh_sharding_plan_free(p);
    rsh_spec_free(rows), rsh_spec_free(columns);
    TRY(rsh_group_barrier(NULL));
    rsh_group_free(g);
    return RSH_OK;
}
static void test_shard_module_sub_process_group(void **state) {
    (void)state;
    run_groups(4, sub_group, NULL);
}

/* ---- the Megatron pair ---- */

typedef struct megatron {
    int64_t in, hidden, out, rows;
    int order; /* of owners: identity, rotated by two, rotated by one */
    rsh_dtype dtype;
    bool nested; /* as the child "megatron" of a module, with a relu behind (L7) */
} megatron;

static rsh_status shard_pair(const megatron *t, rsh_module *m, const char *prefix) {
    int n = rsh_group_size(NULL), ranks[8];
    rsh_spec *rows = NULL, *columns = NULL, *home = NULL;
    rsh_sharding_plan *p = NULL;
    char path[64];
    for (int i = 0; i < n; i++) ranks[i] = (i + (t->order == 1 ? 2 : t->order == 2 ? n - 1 : 0)) % n;
    TRY(chunks(0, n, ranks, &rows));
    TRY(chunks(1, n, ranks, &columns));
    TRY(chunks(0, n, NULL, &home));
    TRY(rsh_sharding_plan_new(&p));
    snprintf(path, sizeof path, "%sfc1.weight", prefix);
    TRY(rsh_sharding_plan_add(p, path, rows, NULL));
    snprintf(path, sizeof path, "%sfc2.weight", prefix);
    TRY(rsh_sharding_plan_add(p, path, columns, NULL));
    const char *root = *prefix ? "0" : "";
    TRY(rsh_sharding_plan_reshard_output(p, root, home));
    TRY(rsh_sharding_plan_return_local(p, root));
    rsh_status st = rsh_shard_module(m, p, 0, NULL);
    rsh_sharding_plan_free(p);
    rsh_spec_free(rows), rsh_spec_free(columns), rsh_spec_free(home);
    return st;
}

static rsh_status make_model(const megatron *t, rsh_module **out) {
    rsh_module *pair = NULL, *relu = NULL;
    TRY(make_mlp((const int64_t[]){t->in, t->hidden, t->out}, t->dtype, &pair));
    if (!t->nested) return *out = pair, RSH_OK;
    TRY(rsh_relu_new(&relu));
    rsh_status st = rsh_sequential_new(2, (rsh_module *[]){pair, relu}, out);
    rsh_module_free(pair);
    rsh_module_free(relu);
    return st;
}

static rsh_status squared_loss(rsh_value *y, rsh_value **out) {
    rsh_value *square = NULL;
    TRY(rsh_nn_pow_number(y, 2, &square));
    rsh_status st = rsh_nn_sum(square, 0, NULL, false, out);
    rsh_value_free(square);
    return st;
}

static rsh_status compare_parameters(rsh_module *cut, rsh_module *whole, const char *prefix, double tolerance,
                                     bool grads) {
    static const char *const names[] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};
    for (int i = 0; i < 4; i++) {
        rsh_value *a = NULL, *b = NULL;
        rsh_tensor *got = NULL;
        char path[64];
        snprintf(path, sizeof path, "%s%s", prefix, names[i]);
        TRY(parameter(cut, path, &a));
        TRY(parameter(whole, path, &b));
        if (grads) CHECK(rsh_value_grad(a) && rsh_value_grad(b));
        TRY(whole_of(grads ? rsh_value_grad(a) : a, &got));
        CHECK_CLOSE(got, rsh_value_tensor(grads ? rsh_value_grad(b) : b), tolerance);
        rsh_tensor_free(got);
    }
    return RSH_OK;
}

static rsh_status megatron_trial(void *ctx) {
    const megatron *t = ctx;
    const char *prefix = t->nested ? "0." : "";
    int n = rsh_group_size(NULL), me = rsh_group_rank(NULL);
    double tolerance = t->dtype == RSH_F64 ? 1e-12 : 1e-5;
    rsh_module *cut = NULL, *whole = NULL;
    rsh_optimizer *cut_sgd = NULL, *whole_sgd = NULL;
    TRY(make_model(t, &cut));
    TRY(make_model(t, &whole));
    TRY(shard_pair(t, cut, prefix));
    rsh_sgd_opts opts = {.lr = 0.01, .momentum = 0.9};
    TRY(rsh_sgd_new(cut, &opts, &cut_sgd));
    TRY(rsh_sgd_new(whole, &opts, &whole_sgd));
    rsh_value *all = NULL, *mine = NULL, *y = NULL, *expected = NULL, *loss = NULL;
    TRY(make_value(t->dtype, 2, (const int64_t[]){t->rows * n, t->in}, 8, false, &all));
    TRY(rsh_nn_narrow(all, 0, t->rows * me, t->rows, &mine));
    for (int step = 0; step < 2; step++) {
        rsh_value *part = NULL;
        TRY(rsh_module_forward(whole, all, &expected));
        TRY(rsh_module_forward(cut, mine, &y));
        CHECK(!rsh_value_sharded(y));
        TRY(rsh_nn_narrow(expected, 0, t->rows * me, t->rows, &part));
        CHECK_CLOSE(rsh_value_tensor(y), rsh_value_tensor(part), tolerance);
        TRY(squared_loss(y, &loss));
        TRY(rsh_backward(loss, NULL, 0));
        rsh_value_free(loss);
        TRY(squared_loss(expected, &loss));
        TRY(rsh_backward(loss, NULL, 0));
        TRY(compare_parameters(cut, whole, prefix, tolerance * 10, true));
        TRY(rsh_optimizer_step(cut_sgd));
        TRY(rsh_optimizer_step(whole_sgd));
        TRY(compare_parameters(cut, whole, prefix, tolerance * 10, false));
        TRY(rsh_optimizer_zero_grad(cut_sgd));
        TRY(rsh_optimizer_zero_grad(whole_sgd));
        rsh_value_free(part), rsh_value_free(y), rsh_value_free(expected), rsh_value_free(loss);
    }
    rsh_value_free(all), rsh_value_free(mine);
    rsh_optimizer_free(cut_sgd), rsh_optimizer_free(whole_sgd);
    rsh_module_free(cut), rsh_module_free(whole);
    return RSH_OK;
}
static void test_megatron_two_layer_prototype(void **state) { /* L6 and L7 */
    (void)state;
    static const int64_t sizes[4][3] = {{17, 12, 29}, {17, 14, 29}, {18, 16, 8}, {5, 3, 2}};
    for (int n = 1; n <= 4; n++)
        for (int i = 0; i < 4; i++)
            for (int order = 0; order < 3; order++) {
                megatron t = {sizes[i][0], sizes[i][1], sizes[i][2], 22, order, i % 2 ? RSH_F32 : RSH_F64, order == 1};
                run_groups(n, megatron_trial, &t);
            }
}

/* ---- sharders ---- */

/* A collection of bags: the mean of what they give. */
enum { BAGS = 4 };
static rsh_status collection_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    rsh_value *all[BAGS] = {0};
    rsh_status st = RSH_OK;
    for (int i = 0; !st && i < BAGS; i++) {
        char name[8];
        rsh_module *bag = NULL;
        snprintf(name, sizeof name, "bag%d", i);
        st = rsh_module_child(m, name, &bag);
        if (!st) st = rsh_module_forward(bag, in[0], &all[i]);
    }
    if (!st) st = rsh_nn_stack(BAGS, all, 0, out);
    for (int i = 0; i < BAGS; i++) rsh_value_free(all[i]);
    return st;
}
static const rsh_module_kind collection = {.name = "Bags", .nin = 1, .nout = 1, .forward = collection_forward};

static rsh_status make_collection(rsh_module **out) {
    rsh_random_seed(4);
    TRY(rsh_module_new(&collection, NULL, out));
    for (int i = 0; i < BAGS; i++) {
        char name[8];
        rsh_module *bag = NULL;
        snprintf(name, sizeof name, "bag%d", i);
        TRY(rsh_embedding_bag_new(10, 8, NULL, RSH_F64, &bag));
        TRY(rsh_module_set_child(*out, name, bag));
        rsh_module_free(bag);
    }
    return RSH_OK;
}

/* A new collection with sharded weights: the first half by rows, the rest by columns. */
static rsh_status shard_collection(void *ctx, rsh_module *m, rsh_module **out) {
    (void)ctx, (void)m;
    TRY(make_collection(out));
    for (int i = 0; i < BAGS; i++) {
        char name[8];
        rsh_module *bag = NULL;
        rsh_spec *spec = NULL;
        snprintf(name, sizeof name, "bag%d", i);
        TRY(rsh_module_child(*out, name, &bag));
        TRY(chunks(i >= BAGS / 2, rsh_group_size(NULL), NULL, &spec));
        TRY(rsh_shard_parameter(bag, "weight", spec, 0, NULL));
        rsh_spec_free(spec);
    }
    return RSH_OK;
}

static rsh_status holder_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    rsh_module *ebc = NULL;
    TRY(rsh_module_child(m, "ebc", &ebc));
    return rsh_module_forward(ebc, in[0], out);
}
static const rsh_module_kind holder = {.name = "Holder", .nin = 1, .nout = 1, .forward = holder_forward};

static rsh_status custom_sharder(void *ctx) { /* L8; the child is really swapped */
    (void)ctx;
    rsh_sharder sharder = {shard_collection, NULL};
    rsh_module *ebc = NULL, *ebc10 = NULL, *m = NULL, *now = NULL;
    rsh_sharding_plan *p = NULL;
    rsh_spec *spec = NULL;
    rsh_value *index = NULL, *two = NULL, *y = NULL, *expected = NULL;
    TRY(make_collection(&ebc));
    TRY(rsh_linear_new(3, 4, false, RSH_F64, &ebc10));
    TRY(rsh_module_new(&holder, NULL, &m));
    TRY(rsh_module_set_child(m, "ebc", ebc));
    TRY(rsh_module_set_child(m, "ebc10", ebc10)); /* a name that begins with that of the sharder's module */
    TRY(make_indices(6, (const int64_t[]){1, 9, 3, 0, 4, 4}, &index));
    TRY(rsh_nn_reshape(index, 2, (const int64_t[]){2, 3}, &two));
    TRY(rsh_module_forward(m, two, &expected));
    TRY(chunks(0, rsh_group_size(NULL), NULL, &spec));
    TRY(rsh_sharding_plan_new(&p));
    TRY(rsh_sharding_plan_add(p, "ebc", NULL, &sharder));
    TRY(rsh_sharding_plan_add(p, "ebc10.weight", spec, NULL));
    TRY(rsh_shard_module(m, p, 0, NULL));
    TRY(rsh_module_child(m, "ebc", &now));
    CHECK(now != ebc);
    int n = 0;
    TRY(rsh_module_parameters(m, false, count_sharded, &n));
    CHECK(n == BAGS + 1);
    TRY(rsh_module_forward(m, two, &y));
    CHECK_CLOSE(rsh_value_tensor(y), rsh_value_tensor(expected), 1e-14);
    rsh_value_free(index), rsh_value_free(two), rsh_value_free(y), rsh_value_free(expected);
    rsh_sharding_plan_free(p);
    rsh_spec_free(spec);
    rsh_module_free(m), rsh_module_free(ebc), rsh_module_free(ebc10);
    return RSH_OK;
}
static void test_custom_sharder(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_groups(n, custom_sharder, NULL);
}

/* ---- outputs ---- */

static rsh_status give_sharded(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    (void)m;
    *out = rsh_value_hold(in[0]);
    return RSH_OK;
}
static const rsh_module_kind passing = {.name = "Passing", .nin = 1, .nout = 1, .forward = give_sharded};

static rsh_status numbers_on(rsh_comm *comm, const char *text, rsh_value **out) {
    rsh_layout *l = NULL;
    rsh_sharded *s = NULL;
    TRY(rsh_layout_parse(text, &l));
    TRY(rsh_sharded_zeros(comm, l, &s));
    TRY(rsh_sharded_normal(s, 21));
    rsh_layout_free(l);
    return rsh_value_take_sharded(s, false, out);
}

static rsh_status resharded(void *ctx) { /* H1 */
    (void)ctx;
    rsh_comm *comm = rsh_group_comm(NULL);
    rsh_module *m = NULL;
    rsh_spec *spec = NULL;
    rsh_value *x = NULL, *y = NULL, *plain = NULL, *same = NULL;
    rsh_tensor *a = NULL, *b = NULL;
    TRY(rsh_module_new(&passing, NULL, &m));
    TRY(chunks(1, 4, (const int[]){2, 3, 1, 0}, &spec));
    TRY(rsh_reshard_output(m, spec));
    TRY(numbers_on(comm, "f32[24/x, 12] on x=4@[0,1,3,2]", &x));
    TRY(rsh_module_forward(m, x, &y));
    CHECK(!strcmp(rsh_layout_text(rsh_value_layout(y)), "f32[24, 12/x] on x=4@[2,3,1,0]"));
    CHECK(rsh_tensor_shape(rsh_value_tensor(y))[0] == 24 && rsh_tensor_shape(rsh_value_tensor(y))[1] == 3);
    TRY(whole_of(x, &a));
    TRY(whole_of(y, &b));
    CHECK_CLOSE(a, b, 0.0);
    CHECK(
        !strcmp(rsh_layout_text(rsh_value_layout(x)), "f32[24/x, 12] on x=4@[0,1,3,2]")); /* the source is as it was */
    TRY(make_value(RSH_F32, 1, (const int64_t[]){5}, 1, false, &plain));
    TRY(rsh_module_forward(m, plain, &same));
    CHECK(same == plain); /* other outputs pass */
    rsh_tensor_free(a), rsh_tensor_free(b);
    rsh_value_free(x), rsh_value_free(y), rsh_value_free(plain), rsh_value_free(same);
    rsh_module_free(m);
    rsh_spec_free(spec);
    return RSH_OK;
}
static void test_reshard_output(void **state) {
    (void)state;
    run_groups(4, resharded, NULL);
}

static rsh_status collect_shape(rsh_module *m, const char *text, int ndim, const int64_t *size) {
    rsh_value *x = NULL, *y = NULL;
    TRY(numbers_on(rsh_group_comm(NULL), text, &x));
    TRY(rsh_module_forward(m, x, &y));
    CHECK(!rsh_value_sharded(y) && rsh_value_ndim(y) == ndim);
    for (int d = 0; d < ndim; d++) CHECK(rsh_value_shape(y)[d] == size[d]);
    rsh_tensor *flat = NULL;
    TRY(rsh_tensor_view(rsh_value_tensor(y), 0, rsh_value_ndim(x), rsh_tensor_shape(rsh_value_tensor(x)), NULL, &flat));
    CHECK_CLOSE(flat, rsh_value_tensor(x), 0.0);
    rsh_tensor_free(flat);
    rsh_value_free(x), rsh_value_free(y);
    return RSH_OK;
}

static rsh_status collected(void *ctx) { /* H2, and the rule for dims of length 1 */
    (void)ctx;
    rsh_module *m = NULL;
    int me = rsh_group_rank(NULL);
    TRY(rsh_module_new(&passing, NULL, &m));
    TRY(rsh_collect_local_shard(m));
    TRY(collect_shape(m, "f32[23/x, 15] on x=4@[0,1,3,2]", 2, (const int64_t[]){me == 2 ? 5 : 6, 15}));
    TRY(collect_shape(m, "f32[4/x, 16] on x=4", 1, (const int64_t[]){16}));
    TRY(collect_shape(m, "f32[5/x, 16] on x=4", 2,
                      (const int64_t[]){me < 2 ? 2 : me == 2, 16})); /* equal on all ranks */
    rsh_value *x = NULL, *y = NULL;
    TRY(numbers_on(rsh_group_comm(NULL), "f32[4, 4] boxes 0:[0:4,0:2] 0:[0:4,2:4]", &x));
    CHECK_STATUS(RSH_EUNSUP, rsh_module_forward(m, x, &y));
    rsh_value_free(x);
    rsh_module_free(m);
    return RSH_OK;
}
static void the_local_shard_is_collected(void **state) {
    (void)state;
    run_groups(4, collected, NULL);
}

/* ---- gradients of whole parameters ---- */

static rsh_status synced(void *ctx) {
    (void)ctx;
    int n = rsh_group_size(NULL), me = rsh_group_rank(NULL);
    rsh_module *m = NULL, *whole = NULL;
    rsh_value *all = NULL, *mine = NULL, *y = NULL, *loss = NULL;
    TRY(make_mlp((const int64_t[]){4, 6, 3}, RSH_F64, &m));
    TRY(make_mlp((const int64_t[]){4, 6, 3}, RSH_F64, &whole));
    TRY(make_value(RSH_F64, 2, (const int64_t[]){2 * n, 4}, 8, false, &all));
    TRY(rsh_nn_narrow(all, 0, 2 * me, 2, &mine));
    TRY(rsh_module_forward(m, mine, &y));
    TRY(squared_loss(y, &loss));
    TRY(rsh_backward(loss, NULL, 0));
    rsh_value_free(y), rsh_value_free(loss);
    TRY(rsh_module_forward(whole, all, &y));
    TRY(squared_loss(y, &loss));
    TRY(rsh_backward(loss, NULL, 0));
    if (me == n - 1 && n > 1) { /* a rank without a gradient takes part with zeros */
        rsh_value *b = NULL, *w = NULL;
        TRY(parameter(m, "fc2.bias", &b));
        TRY(rsh_value_set_grad(b, NULL));
        (void)w;
    }
    CHECK_STATUS(RSH_EVALUE, rsh_module_sync_grads(m, NULL, RSH_OP_MAX));
    TRY(rsh_module_sync_grads(m, NULL, RSH_OP_SUM));
    rsh_value *a = NULL, *b = NULL;
    TRY(parameter(m, "fc1.weight", &a));
    TRY(parameter(whole, "fc1.weight", &b));
    CHECK_CLOSE(rsh_value_tensor(rsh_value_grad(a)), rsh_value_tensor(rsh_value_grad(b)), 1e-12);
    TRY(parameter(m, "fc2.bias", &a));
    CHECK(rsh_value_grad(a));
    rsh_value_free(all), rsh_value_free(mine), rsh_value_free(y), rsh_value_free(loss);
    rsh_module_free(m), rsh_module_free(whole);
    return RSH_OK;
}
static void gradients_of_whole_parameters_are_summed_over_ranks(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) run_groups(n, synced, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sharding_plan_errors),
        cmocka_unit_test(a_refusal_on_one_rank_leaves_all_modules_as_they_were),
        cmocka_unit_test(test_custom_sharding_planner),
        cmocka_unit_test(test_shard_module_sub_process_group),
        cmocka_unit_test(test_megatron_two_layer_prototype),
        cmocka_unit_test(test_custom_sharder),
        cmocka_unit_test(test_reshard_output),
        cmocka_unit_test(the_local_shard_is_collected),
        cmocka_unit_test(gradients_of_whole_parameters_are_summed_over_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
