/* Adam: steps that use running means of the gradient and of its square. */
#include <math.h>

#include "nn/impl.h"
#include "nn/optim.h"

static bool adam_needs_slot(const rsh_optimizer *o, int slot) {
    (void)o, (void)slot;
    return true;
}

/* The means start at 0; the corrections c1 and c2 remove that bias. */
#define ADAM(real, root)                                                                                               \
    static void adam_##real(const rsh_optimizer *o, const rshn_trained *t, const rshn_run *r) {                        \
        const rsh_adam_opts *a = &o->opts.adam;                                                                        \
        double steps = t->step, lr = o->lr * t->lr_scale;                                                              \
        real b1 = (real)a->beta1, b2 = (real)a->beta2, n1 = (real)(1 - a->beta1), n2 = (real)(1 - a->beta2);           \
        real size = (real)(lr / (1 - pow(a->beta1, steps))), eps = (real)a->eps;                                       \
        real c2 = (real)(1 / sqrt(1 - pow(a->beta2, steps)));                                                          \
        real shrink = a->decoupled ? (real)(1 - lr * t->weight_decay) : 1;                                             \
        real decay = a->decoupled ? 0 : (real)t->weight_decay;                                                         \
        real *restrict p = r->p, *restrict m = r->slot[0], *restrict v = r->slot[1];                                   \
        const real *restrict g = r->g;                                                                                 \
        for (int64_t i = 0; i < r->n; i++) {                                                                           \
            real d = g[i] + decay * p[i];                                                                              \
            m[i] = b1 * m[i] + n1 * d;                                                                                 \
            v[i] = b2 * v[i] + n2 * d * d;                                                                             \
            p[i] = p[i] * shrink - size * m[i] / (root(v[i]) * c2 + eps);                                              \
        }                                                                                                              \
    }
ADAM(float, sqrtf)
ADAM(double, sqrt)

static void adam_step(const rsh_optimizer *o, const rshn_trained *t, rsh_dtype dtype, const rshn_run *r) {
    if (dtype == RSH_F32) adam_float(o, t, r);
    else adam_double(o, t, r);
}

static const rshn_optimizer_kind adam = {2, {"first", "second"}, adam_needs_slot, adam_step};

static rsh_status check_beta(const char *name, double beta) {
    if (beta >= 0 && beta < 1) return RSH_OK;
    return rshn_fail(RSH_EVALUE, "adam: %s must be at least 0 and below 1, got %.17g", name, beta);
}

rsh_status rsh_adam_new(rsh_module *m, const rsh_adam_opts *opts, rsh_optimizer **out) {
    if (!opts) return rshn_fail(RSH_EVALUE, "rsh_adam_new: opts is NULL");
    rsh_adam_opts o = RSH_ADAM_OPTS_INIT;
    NN_READ_OPTS(opts, RSH_ADAM_OPTS_INIT, &o);
    NN_TRY(rshn_not_negative("learning rate", o.lr));
    NN_TRY(rshn_not_negative("eps", o.eps));
    NN_TRY(rshn_not_negative("weight decay", o.weight_decay));
    NN_TRY(check_beta("beta1", o.beta1));
    NN_TRY(check_beta("beta2", o.beta2));
    NN_TRY(rshn_optimizer_make(m, &adam, o.lr, out));
    (*out)->opts.adam = o;
    rshn_optimizer_settings(*out, o.weight_decay);
    return RSH_OK;
}
