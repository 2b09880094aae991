/* Sharding plan: which plans are valid, planners and sharders; errors leave modules unchanged. */
#include "two_layers.h"

/* ---- errors: the module is unchanged ---- */

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
    const char *name; /* name of the scenario, for messages */
    const char *path;
    bool spec, sharder;
    const char *other; /* path of a sharder that is added first */
    const char *output;
    bool output_spec;
    rsh_status expected;
    const char *says;
} bad;

static rsh_status refuse(rsh_module *m, const bad *b) {
    rsh_sharder same = {no_new_module, NULL};
    rsh_spec *spec = NULL;
    rsh_sharding_plan *p = NULL;
    TRY(chunks(0, rsh_group_size(NULL), NULL, &spec));
    TRY(rsh_sharding_plan_new(&p));
    TRY(rsh_sharding_plan_add(p, "fc2.weight", spec, NULL)); /* a valid entry before the invalid one */
    if (b->other) TRY(rsh_sharding_plan_add(p, b->other, NULL, &same));
    TRY(rsh_sharding_plan_add(p, b->path, b->spec ? spec : NULL, b->sharder ? &same : NULL));
    if (b->output) TRY(rsh_sharding_plan_reshard_output(p, b->output, b->output_spec ? spec : NULL));
    rsh_status got = rsh_shard_module(m, p, 0, NULL);
    if (got != b->expected || !strstr(rsh_error_detail(), b->says)) return wrong(__FILE__, __LINE__, b->name);
    rsh_sharding_plan_free(p);
    rsh_spec_free(spec);
    return untouched(m);
}

/* ctx is a list that ends with a name of NULL. */
static rsh_status refuse_all(void *ctx) {
    rsh_module *m = NULL;
    TRY(make_mlp((const int64_t[]){17, 12, 29}, RSH_F32, &m));
    for (const bad *b = ctx; b->name; b++) TRY(refuse(m, b));
    rsh_module_free(m);
    return RSH_OK;
}

static void test_sharding_plan_errors(void **state) {
    (void)state;
    static bad bads[] = {
        {"L1", "fc1.weight", false, false, NULL, NULL, false, RSH_ETYPE, "fc1.weight"},
        {"spec and sharder", "fc1.weight", true, true, NULL, NULL, false, RSH_ETYPE, "both"},
        {"L2", "fc1.weight", true, false, NULL, "", false, RSH_ETYPE, "output"},
        {"L3, a module", "fc3.weight", true, false, NULL, NULL, false, RSH_EATTR, "fc3"},
        {"L3, a parameter", "fc1.biass", true, false, NULL, NULL, false, RSH_EATTR, "biass"},
        {"an output of nothing", "fc1.weight", true, false, NULL, "fc9", true, RSH_EATTR, "fc9"},
        {.name = NULL},
    };
    for (int n = 1; n <= 4; n++) run_groups(n, refuse_all, bads);
}

static void test_custom_sharder_errors(void **state) {
    (void)state;
    static bad bads[] = {
        {"L9", "", false, true, NULL, NULL, false, RSH_EKEY, "root"},
        {"L9, after a parameter (B-03)", "fc1.weight", true, false, "", NULL, false, RSH_EKEY, "root"},
        {"L10", "fc1.weight", true, false, "fc1", NULL, false, RSH_ERUNTIME, "sharder"},
        {"the same module", "fc1", false, true, NULL, NULL, false, RSH_EVALUE, "new module"},
        {"a sharder of nothing", "fc7", false, true, NULL, NULL, false, RSH_EATTR, "fc7"},
        {.name = NULL},
    };
    for (int n = 1; n <= 4; n++) run_groups(n, refuse_all, bads);
}

/* B-27: an error on one rank, or a different plan there, is an error on every rank. */
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
    CHECK(st == RSH_EUNSUP || st == RSH_EVALUE); /* the error of the lowest rank */
    TRY(untouched(m));
    rsh_sharding_plan_free(p);
    rsh_module_free(m);
    rsh_spec_free(spec);
    return RSH_OK;
}
/* PyTorch's defect B-27. */
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
    TRY(rsh_module_each_parameter(m, false, chunk_entry, &c));
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
    TRY(rsh_shard_module_with_planner(m, &p, 0, NULL));
    TRY(rsh_module_each_parameter(m, false, count_sharded, &n)); /* named_params_with_sharded_tensor: all are visited */
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
    CHECK(rsh_value_sharded(v) && !rsh_value_requires_grad(v)); /* B-14: a frozen parameter stays frozen */
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

/* ---- sharders ---- */

/* A collection of bags returns the mean of their results. */
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

/* Makes a new collection with sharded weights: the first half is cut by rows, the rest by columns. */
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

static rsh_status custom_sharder(void *ctx) { /* L8, B-02: the child is replaced */
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
    TRY(rsh_module_set_child(m, "ebc10", ebc10)); /* B-03: the name begins with that of the sharder's module */
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
    TRY(rsh_module_each_parameter(m, false, count_sharded, &n));
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sharding_plan_errors),
        cmocka_unit_test(a_refusal_on_one_rank_leaves_all_modules_as_they_were),
        cmocka_unit_test(test_custom_sharding_planner),
        cmocka_unit_test(test_shard_module_sub_process_group),
        cmocka_unit_test(test_custom_sharder),
        cmocka_unit_test(test_custom_sharder_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
