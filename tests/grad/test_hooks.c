/* Hooks for saved tensors: when they are called, with which arguments, and what happens if they are wrong. */
#include "grad/small_ops.h"

#define N 4
static const double X[N] = {0.5, -1.25, 2, 3};

static void free_all(int n, rsh_value **v) {
    for (int i = 0; i < n; i++) rsh_value_free(v[i]);
}

/* A pair of hooks that counts its calls, keeps a copy of what it packs, and returns errors on demand. */
typedef struct keeper {
    int packed, unpacked, released, dropped, prefetched, parameters, recording;
    bool change, fail_pack, fail_pack_silently, fail_unpack, give_nothing, give_short, give_f32, same;
} keeper;

static rsh_status pack(void *ctx, rsh_value *v, void **packed) {
    keeper *k = ctx;
    rsh_tensor *t;
    rsh_value *copy;
    k->packed++;
    k->recording += rsh_grad_enabled();
    k->parameters += rsh_value_is_leaf(v) && rsh_value_requires_grad(v);
    if (k->fail_pack_silently) return RSH_EIO;
    if (k->fail_pack) return rsh_fail(RSH_EIO, "the disk is full");
    if (k->change) rsh_math_fill_number(rsh_value_part(v, 0), 1);
    if (k->same) {
        *packed = rsh_value_hold(v);
        return RSH_OK;
    }
    rsh_status st = rsh_math_convert(rsh_value_part(v, 0), rsh_value_dtype(v), &t);
    if (!st) st = rsh_value_adopt_tensor(t, false, &copy);
    if (!st) *packed = copy;
    return st;
}

static rsh_status unpack(void *ctx, void *packed, rsh_value **out) {
    keeper *k = ctx;
    rsh_tensor *t;
    k->unpacked++;
    k->recording += rsh_grad_enabled();
    if (k->fail_unpack) return rsh_fail(RSH_EIO, "the disk is gone");
    if (k->give_nothing) return RSH_OK;
    if (k->give_short || k->give_f32) {
        OK(rsh_tensor_zeros(k->give_f32 ? RSH_F32 : RSH_F64, 1, (int64_t[]){k->give_f32 ? N : 1}, &t));
        return rsh_value_adopt_tensor(t, false, out);
    }
    return rsh_value_detach(packed, out);
}

static void release(void *ctx, void *packed) {
    ((keeper *)ctx)->released++;
    rsh_value_free(packed);
}
static rsh_status prefetch(void *ctx, void *packed) {
    assert_non_null(packed);
    ((keeper *)ctx)->prefetched++;
    return RSH_OK;
}
static void drop(void *ctx) { ((keeper *)ctx)->dropped++; }

static rsh_saved_hooks hooks_of(keeper *k) {
    return (rsh_saved_hooks){.pack = pack, .unpack = unpack, .release = release, .drop = drop, .ctx = k};
}
static void push(keeper *k) {
    rsh_saved_hooks h = hooks_of(k);
    OK(rsh_saved_hooks_push(&h));
}

/* ---- when ---- */

static void each_slot_is_packed_once_and_unpacked_once_a_backward(void **state) {
    (void)state;
    keeper k = {0};
    rsh_value *v[4] = {small_leaf(N, X, true)};
    push(&k);
    OK(small_sin(v[0], &v[1]));        /* saves one slot: an input */
    OK(small_mul(v[1], v[0], &v[2])); /* saves two slots: the same tensor again, and another one */
    assert_int_equal(k.packed, 3);
    OK(rsh_saved_hooks_pop());
    OK(small_sum(v[2], &v[3])); /* outside of the hooks */
    assert_int_equal(k.packed, 3);
    assert_int_equal(k.unpacked, 0);
    OK(rsh_backward(v[3], NULL, RSH_RETAIN_GRAPH));
    assert_int_equal(k.unpacked, 3);
    assert_int_equal(k.released, 0);
    OK(rsh_backward(v[3], NULL, 0));
    assert_int_equal(k.unpacked, 6);
    assert_int_equal(k.released, 3);
    assert_int_equal(k.dropped, 1);
    assert_int_equal(k.recording, 0);
    assert_int_equal(k.parameters, 2);
    free_all(4, v);
}

static double gradient_of_product(bool hooked) {
    keeper k = {0};
    rsh_value *v[4] = {small_leaf(N, X, true)};
    if (hooked) push(&k);
    OK(small_exp(v[0], &v[1])); /* saves its output */
    OK(small_scale(v[1], 3, &v[2])); /* saves a tensor that it created */
    OK(small_sum(v[2], &v[3]));
    if (hooked) OK(rsh_saved_hooks_pop());
    OK(rsh_backward(v[3], NULL, 0));
    double g = small_grad(v[0], 1);
    free_all(4, v);
    if (hooked) assert_int_equal(k.packed, 3);
    if (hooked) assert_int_equal(k.released, 3);
    return g;
}

static void outputs_and_own_tensors_go_through_the_hooks_too(void **state) {
    (void)state;
    assert_true(gradient_of_product(true) == gradient_of_product(false));
}

static void where_nothing_is_saved_nothing_is_packed(void **state) {
    (void)state;
    keeper k = {0};
    rsh_value *v[3] = {small_leaf(N, X, true), small_leaf(N, X, false)};
    push(&k);
    OK(small_add(v[0], v[0], &v[2])); /* backward of this op needs no tensor */
    rsh_value_free(v[2]);
    OK(small_mul(v[1], v[1], &v[2])); /* no input requires a gradient */
    rsh_value_free(v[2]);
    bool was = rsh_grad_enable(false);
    OK(small_mul(v[0], v[0], &v[2])); /* nothing is recorded */
    rsh_grad_enable(was);
    assert_int_equal(k.packed, 0);
    OK(rsh_saved_hooks_pop());
    free_all(3, v);
}

static void only_the_top_pair_is_used(void **state) {
    (void)state;
    keeper outer = {0}, inner = {0};
    rsh_value *v[4] = {small_leaf(N, X, true)};
    push(&outer);
    push(&inner);
    assert_int_equal(rsh_saved_hooks_depth(), 2);
    OK(small_sin(v[0], &v[1]));
    OK(rsh_saved_hooks_pop());
    OK(small_sin(v[1], &v[2]));
    OK(rsh_saved_hooks_pop());
    OK(small_sum(v[2], &v[3]));
    assert_int_equal(inner.packed, 1);
    assert_int_equal(outer.packed, 1);
    OK(rsh_backward(v[3], NULL, 0)); /* each slot uses the pair that packed it */
    assert_int_equal(inner.unpacked, 1);
    assert_int_equal(outer.unpacked, 1);
    free_all(4, v);
    assert_int_equal(inner.dropped + outer.dropped, 2);
}

static void the_next_op_is_prefetched(void **state) {
    (void)state;
    keeper k = {0};
    rsh_value *v[4] = {small_leaf(N, X, true)};
    rsh_saved_hooks h = hooks_of(&k);
    h.prefetch = prefetch;
    OK(rsh_saved_hooks_push(&h));
    OK(small_sin(v[0], &v[1]));
    OK(small_sin(v[1], &v[2]));
    OK(rsh_saved_hooks_pop());
    OK(small_sum(v[2], &v[3]));
    OK(rsh_backward(v[3], NULL, 0));
    assert_int_equal(k.prefetched, 2);
    assert_int_equal(k.unpacked, 2);
    free_all(4, v);
}

/* ---- dropped graphs ---- */

static void a_graph_that_is_dropped_releases_what_was_packed(void **state) {
    (void)state;
    keeper k = {.same = true}; /* keeps the value itself, which must not cause a reference cycle */
    rsh_value *v[3] = {small_leaf(N, X, true)};
    push(&k);
    OK(small_exp(v[0], &v[1]));
    OK(small_sin(v[1], &v[2]));
    OK(rsh_saved_hooks_pop());
    free_all(3, v);
    assert_int_equal(k.packed, 2);
    assert_int_equal(k.released, 2);
    assert_int_equal(k.dropped, 1);
}

static void a_packed_tensor_may_change(void **state) {
    (void)state;
    keeper k = {0};
    rsh_value *v[3] = {small_leaf(N, X, true)};
    push(&k);
    OK(small_mul(v[0], v[0], &v[1]));
    OK(rsh_saved_hooks_pop());
    OK(small_sum(v[1], &v[2]));
    OK(rsh_math_fill_number(rsh_value_tensor(v[0]), 100));
    OK(rsh_value_set_grad(v[0], NULL));
    OK(rsh_backward(v[2], NULL, 0));
    assert_true(small_grad(v[0], 0) == 2 * X[0]);
    free_all(3, v);
}

/* ---- wrong hooks ---- */

static void a_pack_hook_that_fails_fails_the_op(void **state) {
    (void)state;
    keeper k = {.fail_pack = true};
    rsh_value *v[2] = {small_leaf(N, X, true)};
    push(&k);
    FAILS(RSH_EIO, "the disk is full", small_mul(v[0], v[0], &v[1]));
    k = (keeper){.fail_pack_silently = true};
    FAILS(RSH_EIO, "the pack hook failed on a tensor that mul saved", small_mul(v[0], v[0], &v[1]));
    k = (keeper){.change = true};
    FAILS(RSH_ERUNTIME, "must not change a tensor in place, but it changed one that mul saved",
          small_mul(v[0], v[0], &v[1]));
    assert_int_equal(k.released, 1);
    assert_null(v[1]);
    OK(rsh_saved_hooks_pop());
    rsh_value_free(v[0]);
}

static void fails_in_backward(keeper k, rsh_status status, const char *text) {
    rsh_value *v[3] = {small_leaf(N, X, true)};
    push(&k);
    OK(small_mul(v[0], v[0], &v[1]));
    OK(rsh_saved_hooks_pop());
    OK(small_sum(v[1], &v[2]));
    FAILS(status, text, rsh_backward(v[2], NULL, 0));
    assert_null(rsh_value_grad(v[0]));
    free_all(3, v);
    assert_int_equal(k.released, 2);
    assert_int_equal(k.dropped, 1);
}

static void an_unpack_hook_that_is_wrong_fails_the_backward(void **state) {
    (void)state;
    fails_in_backward((keeper){.fail_unpack = true}, RSH_EIO, "the disk is gone");
    fails_in_backward((keeper){.give_nothing = true}, RSH_ETYPE, "returned none for a tensor that mul saved");
    fails_in_backward((keeper){.give_short = true}, RSH_EVALUE, "must be f64[4], got f64[1]");
    fails_in_backward((keeper){.give_f32 = true}, RSH_EVALUE, "must be f64[4], got f32[4]");
}

static void hooks_are_disabled_with_a_message(void **state) {
    (void)state;
    keeper k = {0};
    rsh_saved_hooks h = hooks_of(&k);
    OK(rsh_saved_hooks_push(&h));
    FAILS(RSH_ERUNTIME, "cannot disable hooks", rsh_saved_hooks_disable("not here"));
    OK(rsh_saved_hooks_pop());
    FAILS(RSH_ERUNTIME, "no hooks", rsh_saved_hooks_pop());
    OK(rsh_saved_hooks_disable("not here, please"));
    FAILS(RSH_ERUNTIME, "not here, please", rsh_saved_hooks_push(&h));
    assert_int_equal(rsh_saved_hooks_depth(), 0);
    OK(rsh_saved_hooks_disable(NULL));
    OK(rsh_saved_hooks_push(&h));
    OK(rsh_saved_hooks_pop());
    assert_int_equal(k.dropped, 2);
    FAILS(RSH_EVALUE, "unpack is NULL", rsh_saved_hooks_push(&(rsh_saved_hooks){.pack = pack}));
}

static rsh_status rank_depth(void *ctx, rsh_comm *comm) {
    keeper *k = ctx;
    if (rsh_saved_hooks_depth()) return rsh_fail(RSH_ERUNTIME, "another thread's stack is seen");
    rsh_saved_hooks h = hooks_of(&k[rsh_comm_rank(comm)]);
    return rsh_saved_hooks_push(&h); /* the end of the thread frees it */
}

static void every_thread_has_a_stack_of_its_own(void **state) {
    (void)state;
    keeper k[4] = {{0}}, mine = {0};
    push(&mine);
    OK(rsh_run(4, rank_depth, k));
    for (int r = 0; r < 4; r++) assert_int_equal(k[r].dropped, 1);
    assert_int_equal(rsh_saved_hooks_depth(), 1);
    OK(rsh_saved_hooks_pop());
}

/* ---- recomputation: the pair stores nothing and runs the function again at the first unpack ---- */

enum { SLOTS = 8 };
typedef struct again {
    rsh_value *input;
    int runs, n, next;       /* number of runs; slots saved in the first run; slots seen in the second run */
    rsh_value *slot[SLOTS]; /* values of the second run */
    rsh_value *out;
} again;

static rsh_status body(rsh_value *x, rsh_value **out) {
    rsh_value *v[2] = {NULL, NULL};
    rsh_status st = small_sin(x, &v[0]);
    if (!st) st = small_mul(v[0], x, &v[1]);
    if (!st) st = small_exp(v[1], out);
    free_all(2, v);
    return st;
}

static rsh_status keep_number(void *ctx, rsh_value *v, void **packed) {
    again *a = ctx;
    (void)v;
    *packed = (void *)(intptr_t)a->n++;
    return RSH_OK;
}
static rsh_status keep_value(void *ctx, rsh_value *v, void **packed) {
    again *a = ctx;
    *packed = NULL;
    return rsh_value_detach(v, &a->slot[a->next++]);
}
static rsh_status no_unpack(void *ctx, void *packed, rsh_value **out) {
    (void)ctx, (void)packed, (void)out;
    return rsh_fail(RSH_ERUNTIME, "the second run is not walked");
}

static rsh_status run_again(again *a) {
    bool was = rsh_grad_enable(true);
    rsh_status st = rsh_saved_hooks_push(&(rsh_saved_hooks){.pack = keep_value, .unpack = no_unpack, .ctx = a});
    if (!st) st = body(a->input, &a->out);
    rsh_status popped = rsh_saved_hooks_pop();
    rsh_grad_enable(was);
    a->runs++;
    return st ? st : popped;
}
static rsh_status recompute(void *ctx, void *packed, rsh_value **out) {
    again *a = ctx;
    rsh_status st = a->next ? RSH_OK : run_again(a);
    return st ? st : rsh_value_detach(a->slot[(intptr_t)packed], out);
}

static void an_unpack_hook_can_run_the_forward_again(void **state) {
    (void)state;
    rsh_value *x = small_leaf(N, X, true), *y = small_leaf(N, X, true), *v[4];
    again a = {.input = x};
    OK(rsh_saved_hooks_push(&(rsh_saved_hooks){.pack = keep_number, .unpack = recompute, .ctx = &a}));
    OK(body(x, &v[0]));
    OK(rsh_saved_hooks_pop());
    OK(small_sum(v[0], &v[1]));
    OK(rsh_backward(v[1], NULL, 0));
    OK(body(y, &v[2]));
    OK(small_sum(v[2], &v[3]));
    OK(rsh_backward(v[3], NULL, 0));
    assert_int_equal(a.runs, 1);
    assert_int_equal(a.n, a.next);
    for (int i = 0; i < N; i++) assert_true(small_grad(x, i) == small_grad(y, i));
    free_all(4, v);
    free_all(a.next, a.slot);
    rsh_value_free(a.out);
    rsh_value_free(x);
    rsh_value_free(y);
}

/* ---- slots outside of ops ---- */

static void a_slot_outside_of_ops_goes_through_the_top_pair(void **state) {
    (void)state;
    keeper k = {0}, inner = {0};
    rsh_value *x = small_leaf(N, X, true), *a = NULL, *b = NULL;
    rsh_saved *s = NULL;
    push(&k);
    OK(rsh_saved_new(x, &s));
    OK(rsh_saved_hooks_pop());
    push(&inner); /* a slot keeps its pair */
    assert_int_equal(k.packed, 1);
    assert_int_equal(k.parameters, 1); /* the hook got the value itself */
    assert_int_equal(k.recording, 0);
    assert_null(rsh_saved_comm(s));
    OK(rsh_math_fill_number(rsh_value_tensor(x), 100)); /* the pair has stored what it needs */
    OK(rsh_saved_read(s, &a));
    OK(rsh_saved_read(s, &b));
    assert_int_equal(k.unpacked, 2);
    assert_int_equal(k.released, 0);
    for (int i = 0; i < N; i++) assert_true(((double *)rsh_tensor_data(rsh_value_tensor(b)))[i] == X[i]);
    rsh_saved_free(s);
    assert_int_equal(k.released, 1);
    assert_int_equal(k.dropped, 1);
    assert_int_equal(inner.packed + inner.unpacked, 0);
    OK(rsh_saved_hooks_pop());
    free_all(3, (rsh_value *[]){x, a, b});
}

static void without_a_pair_a_slot_keeps_the_elements_and_their_version(void **state) {
    (void)state;
    rsh_value *x = small_leaf(N, X, true), *a = NULL;
    rsh_saved *s = NULL;
    OK(rsh_saved_new(x, &s));
    OK(rsh_saved_read(s, &a));
    assert_ptr_equal(rsh_tensor_data(rsh_value_tensor(a)), rsh_tensor_data(rsh_value_tensor(x)));
    assert_false(rsh_value_requires_grad(a));
    rsh_value_free(a);
    a = NULL;
    OK(rsh_math_fill_number(rsh_value_tensor(x), 1));
    FAILS(RSH_ERUNTIME, "has been modified", rsh_saved_read(s, &a));
    assert_null(a);
    rsh_value_free(x); /* the slot outlives the value */
    rsh_saved_free(s);
}

static void hooks_that_fail_fail_the_slot(void **state) {
    (void)state;
    keeper k = {.fail_pack_silently = true};
    rsh_value *x = small_leaf(N, X, true), *a = NULL;
    rsh_saved *s = NULL;
    push(&k);
    FAILS(RSH_EIO, "the pack hook failed on a tensor that rsh_saved_new saved", rsh_saved_new(x, &s));
    assert_null(s);
    k = (keeper){.give_short = true};
    OK(rsh_saved_new(x, &s));
    FAILS(RSH_EVALUE, "must be f64[4], got f64[1]", rsh_saved_read(s, &a));
    k.give_short = false, k.fail_unpack = true;
    FAILS(RSH_EIO, "the disk is gone", rsh_saved_read(s, &a));
    assert_null(a);
    OK(rsh_saved_hooks_pop());
    rsh_saved_free(s);
    assert_int_equal(k.released, 1);
    rsh_value_free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_slot_is_packed_once_and_unpacked_once_a_backward),
        cmocka_unit_test(outputs_and_own_tensors_go_through_the_hooks_too),
        cmocka_unit_test(where_nothing_is_saved_nothing_is_packed),
        cmocka_unit_test(only_the_top_pair_is_used),
        cmocka_unit_test(the_next_op_is_prefetched),
        cmocka_unit_test(a_graph_that_is_dropped_releases_what_was_packed),
        cmocka_unit_test(a_packed_tensor_may_change),
        cmocka_unit_test(a_pack_hook_that_fails_fails_the_op),
        cmocka_unit_test(an_unpack_hook_that_is_wrong_fails_the_backward),
        cmocka_unit_test(hooks_are_disabled_with_a_message),
        cmocka_unit_test(every_thread_has_a_stack_of_its_own),
        cmocka_unit_test(an_unpack_hook_can_run_the_forward_again),
        cmocka_unit_test(a_slot_outside_of_ops_goes_through_the_top_pair),
        cmocka_unit_test(without_a_pair_a_slot_keeps_the_elements_and_their_version),
        cmocka_unit_test(hooks_that_fail_fail_the_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
