/* Every op on inputs and gradients with any strides gives the same result as on dense copies, forward and backward.
 *
 * Strided tensors are in storages of their own, with their dims in random order, with gaps, at an offset, forwards or
 * reversed, with dims of stride 0 and with overlapping elements.  The memory between their elements contains NaN, or
 * indices that are out of range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <reshard/nn.h>

#include "op_trials.h"

/* ---- strided copies ---- */

/* The memory of a tensor: strides, and the offset of the first element in a storage of `room` elements. */
typedef struct lie {
    int64_t strides[RSH_MAX_NDIM], offset, room;
} lie;

static lie any_lie(trial *t, int ndim, const int64_t *shape) {
    lie l = {.offset = trial_below(t, 4)};
    int order[RSH_MAX_NDIM];
    int64_t step = 1 + (trial_below(t, 4) == 0);
    bool turned = trial_below(t, 3) != 0, gaps = trial_below(t, 2), tricks = trial_below(t, 3) == 0;
    for (int d = 0; d < ndim; d++) order[d] = ndim - 1 - d;
    for (int d = ndim - 1; turned && d > 0; d--) {
        int other = trial_below(t, d + 1), was = order[d];
        order[d] = order[other], order[other] = was;
    }
    int64_t low = 0, high = 0;
    for (int i = 0; i < ndim; i++) {
        int d = order[i];
        int64_t stride = step;
        if (shape[d] == 1 && trial_below(t, 2)) stride = trial_below(t, 100);
        if (tricks && trial_below(t, 3) == 0) stride = trial_below(t, 3);
        if (trial_below(t, 8) == 0) stride = -stride;
        l.strides[d] = stride;
        step = step * shape[d] + (gaps ? trial_below(t, 3) : 0);
        if (shape[d]) *(stride < 0 ? &low : &high) += stride * (shape[d] - 1);
    }
    l.offset -= low;
    l.room = l.offset + high + 1 + trial_below(t, 3);
    return l;
}

static int64_t place(const rsh_tensor *t, int64_t i) {
    int64_t where = 0;
    for (int d = rsh_tensor_ndim(t) - 1; d >= 0; d--) {
        where += i % rsh_tensor_shape(t)[d] * rsh_tensor_strides(t)[d];
        i /= rsh_tensor_shape(t)[d];
    }
    return where;
}

static void copy_element(const rsh_tensor *from, const rsh_tensor *to, int64_t i) {
    size_t item = rsh_dtype_size(rsh_tensor_dtype(from));
    memcpy((char *)rsh_tensor_data(to) + place(to, i) * (int64_t)item,
           (const char *)rsh_tensor_data(from) + place(from, i) * (int64_t)item, item);
}

static void fill_gaps(const rsh_tensor *storage) {
    for (int64_t i = 0; i < rsh_tensor_count(storage); i++) switch (rsh_tensor_dtype(storage)) {
        case RSH_F64: ((double *)rsh_tensor_data(storage))[i] = NAN; break;
        case RSH_F32: ((float *)rsh_tensor_data(storage))[i] = NAN; break;
        case RSH_I64: ((int64_t *)rsh_tensor_data(storage))[i] = INT64_MAX / 2; break;
        default: ((bool *)rsh_tensor_data(storage))[i] = true;
        }
}

/* Copies the elements of `dense` to a strided tensor.  If elements share memory, `dense` gets their final values. */
static rsh_tensor *strided(trial *t, const rsh_tensor *dense) {
    int ndim = rsh_tensor_ndim(dense);
    lie l = any_lie(t, ndim, rsh_tensor_shape(dense));
    rsh_tensor *storage = NULL, *view = NULL;
    assert_int_equal(rsh_tensor_empty(rsh_tensor_dtype(dense), 1, &l.room, &storage), RSH_OK);
    fill_gaps(storage);
    assert_int_equal(rsh_tensor_view(storage, l.offset, ndim, rsh_tensor_shape(dense), l.strides, &view), RSH_OK);
    for (int64_t i = 0; i < rsh_tensor_count(dense); i++) copy_element(dense, view, i);
    for (int64_t i = 0; i < rsh_tensor_count(dense); i++) copy_element(view, dense, i);
    rsh_tensor_free(storage);
    return view;
}

static rsh_tensor *in_dtype(rsh_tensor *x, rsh_dtype dtype) {
    rsh_tensor *y = NULL;
    if (!x || rsh_tensor_dtype(x) != RSH_F64 || dtype == RSH_F64) return x;
    assert_int_equal(rsh_tensor_empty(dtype, rsh_tensor_ndim(x), rsh_tensor_shape(x), &y), RSH_OK);
    for (int64_t i = 0; i < rsh_tensor_count(x); i++)
        ((float *)rsh_tensor_data(y))[i] = (float)((double *)rsh_tensor_data(x))[i];
    rsh_tensor_free(x);
    return y;
}

/* ---- forward and backward ---- */

enum { DENSE, STRIDED };

typedef struct twin {
    trial t;
    const trial_op *op;
    rsh_dtype dtype;
    rsh_value *in[2][TRIAL_INPUTS], *out[2][TRIAL_OUTPUTS], *seed[2][TRIAL_OUTPUTS];
} twin;

static void take_both(twin *w, rsh_tensor *dense, bool grad, rsh_value **a, rsh_value **b) {
    rsh_tensor *view = strided(&w->t, dense);
    assert_int_equal(rsh_value_adopt_tensor(view, grad, b), RSH_OK);
    assert_int_equal(rsh_value_adopt_tensor(dense, grad, a), RSH_OK);
}

static void make_inputs(twin *w) {
    for (int k = 0; k < w->t.nin; k++) {
        rsh_tensor *dense = in_dtype(trial_tensor(&w->t, k), w->dtype);
        bool grad = trial_differentiable(&w->t, k) && trial_below(&w->t, 5);
        if (dense) take_both(w, dense, grad, &w->in[DENSE][k], &w->in[STRIDED][k]);
    }
}

static double element(const rsh_tensor *t, int64_t i) {
    const void *data = rsh_tensor_data(t);
    int64_t at = place(t, i);
    if (rsh_tensor_dtype(t) == RSH_I64) return (double)((const int64_t *)data)[at];
    return rsh_tensor_dtype(t) == RSH_F32 ? (double)((const float *)data)[at] : ((const double *)data)[at];
}

static void compare(const twin *w, const char *what, int k, const rsh_value *a, const rsh_value *b) {
    const rsh_tensor *x = rsh_value_tensor(a), *y = rsh_value_tensor(b);
    double bound = w->dtype == RSH_F32 ? 1e-4 : 1e-12;
    assert_int_equal(rsh_tensor_ndim(x), rsh_tensor_ndim(y));
    assert_memory_equal(rsh_tensor_shape(x), rsh_tensor_shape(y), (size_t)rsh_tensor_ndim(x) * sizeof(int64_t));
    for (int64_t i = 0; i < rsh_tensor_count(x); i++) {
        double dense = element(x, i), found = element(y, i);
        if (fabs(dense - found) <= bound * (1 + fabs(dense)) || (isnan(dense) && isnan(found)) || dense == found)
            continue;
        fail_msg("%s: %s %d, element %lld is %.17g with strides and %.17g without", w->op->name, what, k, (long long)i,
                 found, dense);
    }
}

static void go_back(twin *w) {
    bool any = false;
    for (int k = 0; k < w->t.nin; k++) any = any || (w->in[DENSE][k] && rsh_value_requires_grad(w->in[DENSE][k]));
    for (int j = 0; j < w->t.nout; j++) {
        const rsh_value *y = w->out[DENSE][j];
        rsh_tensor *seed = NULL;
        assert_int_equal(rsh_tensor_empty(RSH_F64, rsh_value_ndim(y), rsh_value_shape(y), &seed), RSH_OK);
        for (int64_t i = 0; i < rsh_tensor_count(seed); i++)
            ((double *)rsh_tensor_data(seed))[i] = trial_unit(&w->t) - 0.3;
        take_both(w, in_dtype(seed, w->dtype), false, &w->seed[DENSE][j], &w->seed[STRIDED][j]);
    }
    for (int way = DENSE; any && way <= STRIDED; way++)
        if (rsh_backward_many(w->t.nout, w->out[way], w->seed[way], 0))
            fail_msg("%s: backward: %s", w->op->name, rsh_error_detail());
}

static void run_twin(twin *w) {
    make_inputs(w);
    for (int way = DENSE; way <= STRIDED; way++)
        if (w->op->fn(&w->t, w->in[way], w->out[way]))
            fail_msg("%s, %s: %s", w->op->name, way == DENSE ? "dense" : "with strides", rsh_error_detail());
    for (int j = 0; j < w->t.nout; j++) compare(w, "output", j, w->out[DENSE][j], w->out[STRIDED][j]);
    go_back(w);
    for (int k = 0; k < w->t.nin; k++) {
        rsh_value *a = w->in[DENSE][k], *b = w->in[STRIDED][k];
        if (!a || !rsh_value_requires_grad(a)) continue;
        compare(w, "the gradient of input", k, rsh_value_grad(a), rsh_value_grad(b));
    }
    for (int way = DENSE; way <= STRIDED; way++) {
        for (int k = 0; k < w->t.nin; k++) rsh_value_free(w->in[way][k]);
        for (int j = 0; j < w->t.nout; j++) rsh_value_free(w->out[way][j]), rsh_value_free(w->seed[way][j]);
    }
}

static uint64_t seed_of_run(void) {
    const char *text = getenv("RESHARD_SEED");
    return text ? strtoull(text, NULL, 0) : 17;
}

/* *state is the number of the op. */
static void strides_change_nothing(void **state) {
    int i = *(const int *)*state;
    const char *number = getenv("RESHARD_CASES");
    int cases = number ? atoi(number) : 300;
    for (int n = 0; n < cases; n++) {
        twin w = {.op = &trial_ops[i], .dtype = n % 4 ? RSH_F64 : RSH_F32};
        w.t = (trial){.random = seed_of_run() * 1000003 + (uint64_t)i * 7907 + (uint64_t)n * 104729, .nout = 1};
        w.op->set(&w.t);
        run_twin(&w);
    }
}

enum { MOST_OPS = 100 };

int main(void) {
    static struct CMUnitTest tests[MOST_OPS];
    static int number[MOST_OPS];
    if (trial_ops_count > MOST_OPS) return 1;
    for (int i = 0; i < trial_ops_count; i++) {
        number[i] = i;
        tests[i] = (struct CMUnitTest){trial_ops[i].name, strides_change_nothing, NULL, NULL, &number[i]};
    }
    print_message("RESHARD_SEED=%llu\n", (unsigned long long)seed_of_run());
    return _cmocka_run_group_tests("ops and strides", tests, (size_t)trial_ops_count, NULL, NULL);
}
