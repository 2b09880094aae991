/* Training: a thousand steps of a small model allocate no new memory after the second. */
#include "models.h"

enum { WIDTH = 16, ROWS = 4 };

/* Makes a model with everything for which a step may allocate memory: sharded and whole layers, attention, dropout. */
static rsh_status make_model(rsh_module **out) {
    rsh_module *layer[3] = {0};
    rsh_random_seed(9);
    TRY(small_block(WIDTH, 2 * WIDTH, &layer[0]));
    TRY(rsh_linear_new(WIDTH, 2 * WIDTH, true, RSH_F32, &layer[1]));
    TRY(rsh_linear_new(2 * WIDTH, 3, true, RSH_F32, &layer[2]));
    return sequence(3, layer, out);
}

static rsh_status shard_model(rsh_module *m) {
    rsh_spec *rows = NULL, *columns = NULL;
    rsh_sharding_plan *p = NULL;
    TRY(rsh_spec_chunk_ranks(0, rsh_group_size(NULL), NULL, &rows));
    TRY(rsh_spec_chunk_ranks(1, rsh_group_size(NULL), NULL, &columns));
    TRY(rsh_sharding_plan_new(&p));
    TRY(rsh_sharding_plan_add(p, "1.weight", rows, NULL));
    TRY(rsh_sharding_plan_add(p, "2.weight", columns, NULL));
    TRY(rsh_sharding_plan_reshard_output(p, "", rows));
    TRY(rsh_sharding_plan_return_local(p, ""));
    rsh_status st = rsh_shard_module(m, p, 0, NULL);
    rsh_sharding_plan_free(p);
    rsh_spec_free(rows), rsh_spec_free(columns);
    return st;
}

static rsh_status step(rsh_module *m, rsh_optimizer *o, rsh_value *x) {
    rsh_value *y = NULL, *square = NULL, *loss = NULL;
    TRY(rsh_optimizer_zero_grad(o));
    rsh_status st = rsh_module_forward(m, x, &y);
    if (!st) st = rsh_nn_pow_number(y, 2, &square);
    if (!st) st = rsh_nn_mean(square, 0, NULL, false, &loss);
    if (!st) st = rsh_backward(loss, NULL, 0);
    rsh_value_free(y), rsh_value_free(square), rsh_value_free(loss);
    if (!st) st = rsh_module_sync_grads(m, NULL, RSH_OP_SUM);
    if (!st) st = rsh_clip_grad_norm(m, 1, NULL);
    return st ? st : rsh_optimizer_step(o);
}

/* Under AddressSanitizer the library does not reuse freed memory. */
#ifdef __has_feature
#define REUSES_MEMORY !__has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define REUSES_MEMORY 0
#else
#define REUSES_MEMORY 1
#endif

static rsh_status thousand(void *ctx) {
    int steps = *(const int *)ctx;
    rsh_module *m = NULL;
    rsh_optimizer *o = NULL;
    rsh_value *x = NULL;
    rsh_adam_opts opts = RSH_ADAMW_OPTS_INIT;
    rsh_alloc_stats before = {0}, after;
    TRY(make_model(&m));
    TRY(shard_model(m));
    TRY(rsh_adam_new(m, &opts, &o));
    TRY(make_value(RSH_F32, 3, (const int64_t[]){ROWS, 5, WIDTH}, (uint64_t)rsh_group_rank(NULL), false, &x));
    for (int i = 0; i < steps; i++) {
        TRY(step(m, o, x));
        TRY(rsh_group_barrier(NULL));
        if (i == 2) before = rsh_alloc_get_stats();
    }
    after = rsh_alloc_get_stats();
    CHECK(after.live == before.live);
    CHECK(after.data_bytes == before.data_bytes);
    if (REUSES_MEMORY) CHECK(after.new_blocks == before.new_blocks); /* a step reuses the blocks of the previous one */
    rsh_value_free(x);
    rsh_optimizer_free(o);
    rsh_module_free(m);
    return RSH_OK;
}
static void a_thousand_steps_hold_no_more_memory_than_three(void **state) {
    (void)state;
    int steps = 1000;
    run_groups(1, thousand, &steps);
    steps = 200;
    run_groups(2, thousand, &steps);
    if (!engine_is_job()) return;
    steps = 20;
    run_groups(4, thousand, &steps); /* on both nodes, if there are two */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_steps_hold_no_more_memory_than_three),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
