/* Shortage: ops on DTensors and sharded tensors while memory runs out on one rank, at any of their allocations.  No
 * rank waits for it, the others get its error message, and the comm still works. */
#include "nn/lines.h"

#include "nn/numbers.h"

#include <reshard/nn.h>
#include <stdlib.h>
#include <string.h>

/* ---- ops ---- */

/* Created again for every attempt, so that nothing is cached. */
typedef struct operands {
    rsh_comm *comm;
    rsh_mesh *mesh;
    rsh_value *columns, *rows, *terms, *whole; /* 5 x 7, with different placements */
    rsh_value *weight, *bias;                  /* length 7, cut */
    rsh_value *classes;                        /* 5 integers below 7, cut like `rows` */
    rsh_value *sharded, *replicated;           /* 5 x 7, sharded tensors: columns cut, and replicated */
} operands;

static rsh_status narrow(const operands *o, rsh_value **out) { return rsh_nn_narrow(o->columns, 1, 1, 3, out); }
static rsh_status narrow_rows(const operands *o, rsh_value **out) { return rsh_nn_narrow(o->columns, 0, 1, 3, out); }
static rsh_status cat(const operands *o, rsh_value **out) {
    return rsh_nn_cat(2, (rsh_value *[]){o->columns, o->columns}, 1, out);
}
static rsh_status split(const operands *o, rsh_value **out) {
    rsh_value *piece[3] = {NULL};
    TRY(rsh_nn_split_sizes(o->columns, 1, 3, (int64_t[]){1, 4, 2}, piece));
    for (int i = 1; i < 3; i++) rsh_value_free(piece[i]);
    *out = piece[0];
    return RSH_OK;
}
static rsh_status add(const operands *o, rsh_value **out) { return rsh_nn_add(o->columns, o->terms, out); }
static rsh_status mse(const operands *o, rsh_value **out) {
    return rsh_nn_mse(o->columns, o->whole, RSH_LOSS_MEAN, out);
}
static rsh_status max_dim(const operands *o, rsh_value **out) {
    return rsh_nn_max_dim(o->columns, 1, false, out, NULL);
}
static rsh_status max_all(const operands *o, rsh_value **out) { return rsh_nn_max(o->columns, out); }
static rsh_status softmax(const operands *o, rsh_value **out) { return rsh_nn_softmax(o->columns, 1, out); }
static rsh_status softmax_rows(const operands *o, rsh_value **out) { return rsh_nn_softmax(o->rows, 1, out); }
static rsh_status log_softmax(const operands *o, rsh_value **out) { return rsh_nn_log_softmax(o->columns, 1, out); }
static rsh_status layer_norm(const operands *o, rsh_value **out) {
    return rsh_nn_layer_norm(o->columns, 1, o->weight, o->bias, 1e-5, out);
}
static rsh_status rms_norm(const operands *o, rsh_value **out) {
    return rsh_nn_rms_norm(o->columns, o->weight, 1e-5, out);
}
static rsh_status entropy(const operands *o, rsh_value **out) {
    return rsh_nn_cross_entropy(o->columns, o->classes, NULL, out);
}
static rsh_status entropy_rows(const operands *o, rsh_value **out) {
    rsh_cross_entropy_opts opts = RSH_CROSS_ENTROPY_OPTS_INIT;
    opts.ignore = true;
    opts.ignore_index = 3;
    return rsh_nn_cross_entropy(o->rows, o->classes, &opts, out);
}
static rsh_status redistribute(const operands *o, rsh_value **out) {
    return rsh_dtensor_redistribute(o->columns, 1, (rsh_place[]){rsh_place_shard(0)}, RSH_DTYPE_NONE, out);
}
static rsh_status full_tensor(const operands *o, rsh_value **out) {
    return rsh_dtensor_full_tensor(o->terms, NULL, out);
}
static rsh_status from_local(const operands *o, rsh_value **out) {
    rsh_value *part = NULL;
    rsh_status st = rsh_dtensor_to_local(o->columns, NULL, &part);
    st = rsh_comm_agree(o->comm, st); /* the ranks agree, because the steps before are local */
    if (!st) st = rsh_dtensor_from_local(part, o->mesh, 1, (rsh_place[]){rsh_place_shard(1)}, NULL, out);
    rsh_value_free(part);
    return st;
}
static rsh_status sharded_softmax(const operands *o, rsh_value **out) { return rsh_nn_softmax(o->sharded, 1, out); }
static rsh_status sharded_max(const operands *o, rsh_value **out) {
    return rsh_nn_max_dim(o->sharded, 1, true, out, NULL);
}
static rsh_status sharded_add(const operands *o, rsh_value **out) {
    return rsh_nn_add(o->sharded, o->replicated, out);
}
static rsh_status sharded_norm(const operands *o, rsh_value **out) {
    return rsh_nn_layer_norm(o->sharded, 1, NULL, NULL, 1e-5, out);
}
static rsh_status sharded_move(const operands *o, rsh_value **out) {
    return rsh_value_reshard(o->sharded, rsh_value_layout(o->replicated), RSH_DERIVATIVE_BACKWARD, NULL, out);
}

typedef struct shortage_op {
    const char *name;
    rsh_status (*run)(const operands *o, rsh_value **out);
} shortage_op;

#define OP(f) {#f, f}
static const shortage_op ops[] = {
    OP(narrow),        OP(narrow_rows),  OP(cat),           OP(split),          OP(add),
    OP(mse),           OP(max_dim),      OP(max_all),       OP(softmax),        OP(softmax_rows),
    OP(log_softmax),   OP(layer_norm),   OP(rms_norm),      OP(entropy),        OP(entropy_rows),
    OP(redistribute),  OP(full_tensor),  OP(from_local),    OP(sharded_softmax), OP(sharded_max),
    OP(sharded_add),   OP(sharded_norm), OP(sharded_move),
};
enum { OPS = sizeof ops / sizeof *ops };

/* ---- operands ---- */

static rsh_status shard(rsh_comm *c, const char *text, rsh_value **out) {
    char layout[64];
    rsh_layout *l = NULL;
    rsh_sharded *s = NULL;
    snprintf(layout, sizeof layout, text, rsh_comm_size(c));
    TRY(rsh_layout_parse(layout, &l));
    rsh_status st = rsh_sharded_zeros(c, l, &s);
    rsh_layout_free(l);
    return st ? st : rsh_value_adopt_sharded(s, true, out);
}

static rsh_status place(rsh_mesh *m, rsh_value *plain, rsh_place where, rsh_value **out) {
    rsh_status st = placed(m, plain, &where, out);
    rsh_value_free(plain);
    return st;
}

static rsh_value *matrix(void) { return some_value(RSH_F64, 1, true, SIZES(5, 7)); }
static rsh_value *vector(void) { return some_value(RSH_F64, 2, true, SIZES(7)); }

static rsh_status make(rsh_comm *c, operands *o) {
    *o = (operands){.comm = c};
    TRY(line_of(c, &o->mesh));
    TRY(place(o->mesh, matrix(), rsh_place_shard(1), &o->columns));
    TRY(place(o->mesh, matrix(), rsh_place_shard(0), &o->rows));
    TRY(place(o->mesh, matrix(), rsh_place_partial(RSH_OP_SUM), &o->terms));
    TRY(place(o->mesh, matrix(), rsh_place_replicate(), &o->whole));
    TRY(place(o->mesh, vector(), rsh_place_shard(0), &o->weight));
    TRY(place(o->mesh, vector(), rsh_place_shard(0), &o->bias));
    TRY(place(o->mesh, some_indices(7, SIZES(5)), rsh_place_replicate(), &o->classes));
    TRY(shard(c, "f64[5, 7/x] on x=%d", &o->sharded));
    return shard(c, "f64[5, 7] on x=%d", &o->replicated);
}

static void unmake(operands *o) {
    rsh_value *made[] = {o->columns, o->rows,    o->terms,   o->whole,     o->weight,
                         o->bias,    o->classes, o->sharded, o->replicated};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) rsh_value_free(made[i]);
    rsh_mesh_free(o->mesh);
}

/* ---- attempts ---- */

typedef struct attempt {
    const shortage_op *op;
    bool back;   /* fail in backward instead of forward */
    bool warm;   /* the op has run before */
    int who;     /* the rank that runs out of memory, */
    int64_t n;   /* and the allocation that fails */
    bool done;   /* no allocation failed */
} attempt;

/* Creates the seed in advance, because it needs memory too. */
static rsh_status seed_for(rsh_value *y, rsh_value **out) {
    if (rsh_dtensor_mesh(y)) {
        rsh_place places[RSH_MAX_AXES];
        TRY(rsh_dtensor_places(y, places));
        if (places[0].kind == RSH_PLACE_PARTIAL) places[0] = rsh_place_replicate();
        return rsh_dtensor_full(rsh_dtensor_mesh(y), 1, places, rsh_value_dtype(y), rsh_value_ndim(y),
                                rsh_value_shape(y), 1, out);
    }
    if (rsh_value_sharded(y)) {
        rsh_sharded *s = NULL;
        TRY(rsh_sharded_zeros(rsh_value_comm(y), rsh_value_layout(y), &s));
        return rsh_value_adopt_sharded(s, false, out);
    }
    *out = some_value(rsh_value_dtype(y), 3, false, rsh_value_ndim(y), rsh_value_shape(y));
    return RSH_OK;
}

static rsh_status run_short(const attempt *a, const operands *o) {
    rsh_value *y = NULL, *seed = NULL;
    rsh_status st;
    bool mine = rsh_comm_rank(o->comm) == a->who;
    if (mine && !a->back) rsh_alloc_fail_at(a->n);
    st = a->op->run(o, &y);
    rsh_alloc_fail_at(-1);
    if (a->back) {
        TRY(st);
        TRY(seed_for(y, &seed));
        if (mine) rsh_alloc_fail_at(a->n);
        st = rsh_backward(y, seed, 0);
        rsh_alloc_fail_at(-1);
        rsh_value_free(seed);
    }
    rsh_value_free(y);
    return st;
}

static rsh_status try_on(const attempt *a, const operands *o, bool *done) {
    rsh_value *y = NULL;
    if (a->warm) TRY(a->op->run(o, &y));
    rsh_value_free(y);
    rsh_status st = run_short(a, o);
    CHECK(!st || (st == RSH_ENOMEM && strstr(rsh_error_detail(), "out of memory")));
    st = rsh_comm_agree(o->comm, st);
    CHECK(!st || st == RSH_ENOMEM);
    *done = !st;
    return RSH_OK;
}

/* Runs on a new comm and a new mesh, on which no op has run. */
static rsh_status try_once(attempt *a, rsh_comm *world, bool *done) {
    operands o;
    rsh_comm *c = NULL;
    TRY(rsh_comm_split(world, 0, rsh_comm_rank(world), &c));
    TRY(make(c, &o));
    rsh_status st = try_on(a, &o, done);
    unmake(&o);
    rsh_comm_free(c);
    return st;
}

static rsh_status sweep(rsh_comm *c, attempt a, int64_t step) {
    for (bool done = false; !done; a.n += step) {
        char sentence[900];
        rsh_status st = try_once(&a, c, &done);
        if (!st) continue;
        snprintf(sentence, sizeof sentence, "%s%s%s, request %lld of rank %d: %.600s", a.op->name,
                 a.back ? " backward" : "", a.warm ? ", warm" : "", (long long)a.n, a.who, rsh_error_detail());
        return rsh_fail(st, sentence);
    }
    return RSH_OK;
}

static bool all; /* every allocation is tried if RESHARD_CASES is set; otherwise every seventh to eleventh */

static rsh_status sweep_all(rsh_comm *c, bool back, bool warm) {
    for (int i = 0; i < OPS; i++)
        for (int who = 0; who < 2; who++)
            TRY(sweep(c, (attempt){.op = &ops[i], .back = back, .warm = warm, .who = who, .n = all ? 0 : i % 3 + who},
                      all ? 1 : 7 + i % 5));
    return RSH_OK;
}

static rsh_status in_forward(void *ctx, rsh_comm *c) { return (void)ctx, sweep_all(c, false, false); }
static rsh_status when_warm(void *ctx, rsh_comm *c) { return (void)ctx, sweep_all(c, false, true); }
static rsh_status in_backward(void *ctx, rsh_comm *c) { return (void)ctx, sweep_all(c, true, false); }

static void nobody_waits_for_a_rank_whose_memory_runs_out_in_an_op_that_is_new(void **state) {
    (void)state;
    run_on(2, 3, in_forward);
}
static void nobody_waits_for_a_rank_whose_memory_runs_out_in_an_op_that_is_known(void **state) {
    (void)state;
    run_on(2, 3, when_warm);
}
static void nobody_waits_for_a_rank_whose_memory_runs_out_on_the_way_back(void **state) {
    (void)state;
    run_on(2, 3, in_backward);
}

/* ---- other errors that only one rank detects ---- */

/* The targets are cut, and rank 1 has a class that does not exist.  The ranks count rows together. */
static rsh_status wrong_class(void *ctx, rsh_comm *c) {
    rsh_mesh *m = NULL;
    rsh_value *x = NULL, *classes = some_indices(7, SIZES(6)), *target = NULL, *y = NULL;
    rsh_cross_entropy_opts opts = RSH_CROSS_ENTROPY_OPTS_INIT;
    opts.ignore = true;
    (void)ctx;
    for (int i = 0; i < 6 && rsh_comm_rank(c) == 1; i++)
        ((int64_t *)rsh_tensor_data(rsh_value_tensor(classes)))[i] = 99;
    TRY(line_of(c, &m));
    TRY(place(m, some_value(RSH_F64, 1, true, SIZES(6, 7)), rsh_place_shard(0), &x));
    TRY(place(m, classes, rsh_place_shard(0), &target));
    CHECK_STATUS(RSH_EINDEX, rsh_nn_cross_entropy(x, target, &opts, &y));
    CHECK(strstr(rsh_error_detail(), "target 99 is out of range, there are 7 classes"));
    TRY(rsh_comm_barrier(c));
    rsh_value_free(x);
    rsh_value_free(target);
    rsh_mesh_free(m);
    return RSH_OK;
}
static void a_class_that_is_wrong_on_one_rank_is_told_to_all(void **state) {
    (void)state;
    run_on(2, 3, wrong_class);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_waits_for_a_rank_whose_memory_runs_out_in_an_op_that_is_new),
        cmocka_unit_test(nobody_waits_for_a_rank_whose_memory_runs_out_in_an_op_that_is_known),
        cmocka_unit_test(nobody_waits_for_a_rank_whose_memory_runs_out_on_the_way_back),
        cmocka_unit_test(a_class_that_is_wrong_on_one_rank_is_told_to_all),
    };
    all = getenv("RESHARD_CASES") != NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
