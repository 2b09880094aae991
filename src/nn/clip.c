/* Clip: computes the norm of all gradients of a tree over all ranks, and scales the gradients so that the norm does not
 * exceed a bound. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <reshard/math.h>
#include <reshard/nn/optim.h>

#include "nn/impl.h"
#include "nn/module.h"
#include "nn/optim.h"

/* ---- sums of squares ---- */

static double squares_f32(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sum;
}

static double squares_f64(const double *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sum;
}

static rsh_status sum_of_squares(const rsh_tensor *t, double *sum) {
    rsh_tensor *dense = NULL;
    NN_TRY(rshn_dense(t, &dense));
    int64_t n = rsh_tensor_count(dense);
    const void *data = rsh_tensor_data(dense);
    *sum += rsh_tensor_dtype(t) == RSH_F32 ? squares_f32(data, n) : squares_f64(data, n);
    rsh_tensor_free(dense);
    return RSH_OK;
}

/* ---- replication of elements ---- */

static void use_axes(const rsh_cut *cut, unsigned *used) {
    for (int i = 0; i < cut->naxes; i++) *used |= 1u << cut->axes[i];
}

/* Returns how many ranks hold each element.  RSH_EUNSUP if the number differs between elements. */
static rsh_status replication_of(const char *path, const rsh_layout *l, double *out) {
    const rsh_layout_desc *desc = rsh_layout_describe(l);
    unsigned used = 0;
    *out = 1;
    if (rsh_layout_op(l))
        return rshn_fail(RSH_EUNSUP,
                         "cannot clip: the gradient of \"%s\" is partial; reduce it "
                         "first",
                         path);
    bool even = true;
    for (int64_t i = 0; desc->is_boxes && i < desc->nboxes; i++) even = even && desc->boxes[i].nranks == 1;
    for (int d = 0; d < desc->ndim; d++) {
        use_axes(&desc->dim[d].cut, &used);
        unsigned first = 0;
        for (int s = 0; s < desc->dim[d].nsegments; s++) {
            unsigned here = 0;
            use_axes(&desc->dim[d].segment[s].cut, &here);
            if (s) even = even && here == first;
            first = here;
        }
        used |= first;
    }
    if (!even)
        return rshn_fail(RSH_EUNSUP,
                         "cannot clip: all elements of the gradient of \"%s\" must have the same number of replicas",
                         path);
    use_axes(&desc->flat, &used);
    for (int a = 0; a < desc->naxes; a++)
        if (!(used >> a & 1)) *out *= (double)desc->axis[a].size;
    return RSH_OK;
}

/* ---- the norm ---- */

/* The sum of squares of one comm.  The first account has no comm and serves plain gradients. */
typedef struct account {
    rsh_comm *comm;
    double sum;
} account;

typedef struct norming {
    account *at;
    int64_t n, room;
    rsh_status st;
} norming;

static rsh_status find_account(norming *w, rsh_comm *comm, account **out) {
    for (int64_t i = 0; i < w->n; i++)
        if (w->at[i].comm == comm) return *out = &w->at[i], RSH_OK;
    NN_TRY(RSHN_GROW(w->at, w->n + 1, &w->room));
    *out = &w->at[w->n++];
    **out = (account){comm, 0};
    return RSH_OK;
}

static rsh_status add_grad(norming *w, const char *path, const rsh_value *g, account *a) {
    (void)w;
    double sum = 0, times = 1;
    if (rsh_value_layout(g)) NN_TRY(replication_of(path, rsh_value_layout(g), &times));
    for (int64_t i = 0; i < rsh_value_nparts(g); i++) NN_TRY(sum_of_squares(rsh_value_part(g, i), &sum));
    a->sum += sum / times;
    return RSH_OK;
}

/* All ranks must create the same accounts in the same order, even for a parameter whose gradient is missing or cannot
 * be added on this rank.  An error is reported when the sums are combined. */
static rsh_status add_parameter(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    (void)owner, (void)name;
    norming *w = ctx;
    account *a = NULL;
    NN_TRY(find_account(w, rsh_value_comm(v), &a));
    const rsh_value *g = rsh_value_grad(v);
    if (!w->st && g) w->st = add_grad(w, path, g, a);
    return RSH_OK;
}

static rsh_status combine_sums(norming *w, double *out) {
    double sum = 0;
    for (int64_t i = 0; i < w->n; i++) {
        account *a = &w->at[i];
        if (!a->comm) {
            sum += a->sum;
            continue;
        }
        double all = 0;
        w->st = rsh_comm_agree(a->comm, w->st);
        if (!w->st) NN_TRY(rsh_comm_allreduce(a->comm, &a->sum, &all, 1, RSH_F64, RSH_OP_SUM));
        sum += all;
    }
    *out = sqrt(sum);
    return w->st;
}

/* ---- scaling ---- */

rsh_status rshn_scale_part(const rsh_tensor *t, double by) {
    rsh_tensor *dense = NULL;
    if (!rsh_tensor_count(t)) return RSH_OK;
    NN_TRY(rshn_dense(t, &dense));
    int64_t n = rsh_tensor_count(dense);
    float *f = rsh_tensor_data(dense);
    double *d = rsh_tensor_data(dense);
    bool single = rsh_tensor_dtype(t) == RSH_F32;
    for (int64_t i = 0; i < n; i++) {
        if (single) f[i] *= (float)by;
        else d[i] *= by;
    }
    rsh_status st = RSH_OK;
    if (rsh_tensor_dense(t)) rsh_tensor_bump_version(t);
    else st = rsh_math_copy(dense, t);
    rsh_tensor_free(dense);
    return st;
}

static rsh_status scale_grad(void *ctx, const char *path, rsh_module *owner, const char *name, rsh_value *v) {
    (void)path, (void)owner, (void)name;
    const rsh_value *g = rsh_value_grad(v);
    for (int64_t i = 0; g && i < rsh_value_nparts(g); i++)
        NN_TRY(rshn_scale_part(rsh_value_part(g, i), *(double *)ctx));
    return RSH_OK;
}

rsh_status rsh_clip_grad_norm(rsh_module *m, double max_norm, double *norm) {
    if (!m) return rshn_fail(RSH_EVALUE, "rsh_clip_grad_norm: m is NULL");
    norming w = {0};
    double got = 0;
    if (!(max_norm >= 0))
        w.st = rshn_fail(RSH_EVALUE, "rsh_clip_grad_norm: max_norm must be at least 0, got %.17g", max_norm);
    rsh_status st = rsh_module_each_parameter(m, false, add_parameter, &w);
    if (!st) st = combine_sums(&w, &got);
    rshn_free(w.at);
    if (st) return st;
    double by = max_norm / (got + 1e-6);
    if (by < 1) st = rsh_module_each_parameter(m, false, scale_grad, &by);
    if (!st && norm) *norm = got;
    return st;
}
