/* Transposes: compares gradients of linear ops with their matrices. */
#include "grad/transposes.h"

#include <math.h>

typedef struct values {
    int n;
    rsh_value *v[TRANSPOSE_LISTS];
} values;

static void values_free(values *v) {
    for (int i = 0; i < v->n; i++) rsh_value_free(v->v[i]);
    v->n = 0;
}

/* ---- elements of dense parts, f32 or f64, numbered through all values and parts ---- */

typedef void visit(void *ctx, int64_t k, void *element, rsh_dtype dtype);

static int64_t each(const values *v, visit *fn, void *ctx) {
    int64_t k = 0;
    for (int i = 0; i < v->n; i++)
        for (int64_t p = 0; p < rsh_value_nparts(v->v[i]); p++) {
            const rsh_tensor *t = rsh_value_part(v->v[i], p);
            size_t size = rsh_dtype_size(rsh_tensor_dtype(t));
            for (int64_t e = 0; e < rsh_tensor_count(t); e++, k++)
                if (fn) fn(ctx, k, (char *)rsh_tensor_data(t) + (size_t)e * size, rsh_tensor_dtype(t));
        }
    return k;
}

static double get(const void *e, rsh_dtype t) { return t == RSH_F64 ? *(const double *)e : *(const float *)e; }
static void put(void *e, rsh_dtype t, double x) {
    if (t == RSH_F64) *(double *)e = x;
    else *(float *)e = (float)x;
}

/* Returns a small whole number that depends on the rank and the element. */
static double weight(int rank, int64_t k) { return (double)((k * 7 + rank * 5 + k * rank) % 9 - 4); }

typedef struct visiting {
    int rank;
    int64_t unit;
    double sum;
    double *list;
} visiting;

static void put_weight(void *ctx, int64_t k, void *e, rsh_dtype t) { put(e, t, weight(((visiting *)ctx)->rank, k)); }
static void put_unit(void *ctx, int64_t k, void *e, rsh_dtype t) { put(e, t, k == ((visiting *)ctx)->unit); }
static void add_weighed(void *ctx, int64_t k, void *e, rsh_dtype t) {
    visiting *v = ctx;
    v->sum += weight(v->rank, k) * get(e, t);
}
static void list_all(void *ctx, int64_t k, void *e, rsh_dtype t) { ((visiting *)ctx)->list[k] = get(e, t); }

/* ---- both sides ---- */

static rsh_status seeds_like(const values *out, int rank, values *seeds) {
    for (int i = 0; i < out->n; i++) {
        const rsh_value *v = out->v[i];
        rsh_tensor *t = NULL;
        rsh_sharded *s = NULL;
        if (rsh_value_sharded(v)) RSH_TRY(rsh_sharded_zeros(rsh_value_comm(v), rsh_value_layout(v), &s));
        else RSH_TRY(rsh_tensor_zeros(rsh_value_dtype(v), rsh_value_ndim(v), rsh_value_shape(v), &t));
        RSH_TRY(s ? rsh_value_adopt_sharded(s, false, &seeds->v[i]) : rsh_value_adopt_tensor(t, false, &seeds->v[i]));
        seeds->n++;
    }
    each(seeds, put_weight, &(visiting){.rank = rank});
    return RSH_OK;
}

/* Computes the gradients of this rank's inputs with the tape. */
static rsh_status find_gradient(const linear *l, rsh_comm *comm, double *list) {
    values in = {0}, out = {0}, seeds = {0}, grads = {0};
    rsh_status st = l->make(l->ctx, comm, true, &in.n, in.v);
    if (!st) st = l->apply(l->ctx, comm, in.v, &out.n, out.v);
    if (!st) st = seeds_like(&out, rsh_comm_rank(comm), &seeds);
    if (!st) st = rsh_backward_many(out.n, out.v, seeds.v, 0);
    for (int i = 0; i < in.n && !st; i++) {
        CHECK(rsh_value_grad(in.v[i]));
        grads.v[grads.n++] = rsh_value_hold(rsh_value_grad(in.v[i]));
    }
    if (!st) each(&grads, list_all, &(visiting){.list = list});
    values_free(&grads);
    values_free(&seeds);
    values_free(&out);
    values_free(&in);
    return st;
}

/* Computes the weighted sum of all ranks' outputs for one unit vector. */
static rsh_status probe(const linear *l, rsh_comm *comm, int64_t unit, double *out) {
    values in = {0}, to = {0};
    visiting v = {.rank = rsh_comm_rank(comm), .unit = unit};
    rsh_status st = l->make(l->ctx, comm, false, &in.n, in.v);
    if (!st) each(&in, put_unit, &v);
    if (!st) st = l->apply(l->ctx, comm, in.v, &to.n, to.v);
    if (!st) each(&to, add_weighed, &v);
    if (!st) st = rsh_comm_allreduce(comm, &v.sum, out, 1, RSH_F64, RSH_OP_SUM);
    values_free(&to);
    values_free(&in);
    return st;
}

static rsh_status count_inputs(const linear *l, rsh_comm *comm, int64_t *all) {
    values in = {0};
    RSH_TRY(l->make(l->ctx, comm, false, &in.n, in.v));
    int64_t n = each(&in, NULL, NULL);
    values_free(&in);
    return rsh_comm_allgather(comm, &n, all, sizeof n);
}

rsh_status transpose_check(const linear *l, rsh_comm *comm) {
    int64_t counts[64];
    double list[4096], wanted;
    int me = rsh_comm_rank(comm);
    RSH_TRY(count_inputs(l, comm, counts));
    RSH_TRY(find_gradient(l, comm, list));
    for (int r = 0; r < rsh_comm_size(comm); r++)
        for (int64_t k = 0; k < counts[r]; k++) {
            RSH_TRY(probe(l, comm, r == me ? k : -1, &wanted));
            RSH_REQUIRE(r != me || fabs(list[k] - wanted) <= l->tolerance * (1 + fabs(wanted)), RSH_ERUNTIME,
                        "rank %d, element %lld: the gradient is %.12g; the matrix says %.12g", me, (long long)k,
                        list[k], wanted);
        }
    return RSH_OK;
}

void run_engines(int n, rsh_rank_fn fn, void *ctx) {
    const int nodes[] = {0, 1, 0, 1};
    rsh_status st = rsh_run(n, fn, ctx);
    if (st) fail_msg("%d threads: %s: %s", n, rsh_status_name(st), rsh_error_detail());
    st = rsh_run_shm(n, fn, ctx);
    if (st) fail_msg("%d processes: %s: %s", n, rsh_status_name(st), rsh_error_detail());
    st = run_on_nodes(n, nodes, fn, ctx);
    if (st) fail_msg("%d ranks on nodes: %s: %s", n, rsh_status_name(st), rsh_error_detail());
}
