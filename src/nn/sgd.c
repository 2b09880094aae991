/* SGD: steps against the gradient, with momentum and weight decay. */
#include "nn/impl.h"
#include "nn/optim.h"

static bool sgd_needs_slot(const rsh_optimizer *o, int slot) { return slot == 0 && o->opts.sgd.momentum != 0; }

/* In the first step the momentum is the gradient, without dampening. */
#define SGD(real)                                                                                                      \
    static void sgd_##real(const rsh_optimizer *o, const rshn_trained *t, const rshn_run *r) {                         \
        const rsh_sgd_opts *s = &o->opts.sgd;                                                                          \
        real lr = (real)(o->lr * t->lr_scale), decay = (real)t->weight_decay, momentum = (real)s->momentum;            \
        real keep = t->step == 1 ? 0 : momentum, take = t->step == 1 ? 1 : (real)(1 - s->dampening);                   \
        real *restrict p = r->p, *restrict v = r->slot[0];                                                             \
        const real *restrict g = r->g;                                                                                 \
        for (int64_t i = 0; !v && i < r->n; i++) p[i] -= lr * (g[i] + decay * p[i]);                                   \
        for (int64_t i = 0; v && i < r->n; i++) {                                                                      \
            real d = g[i] + decay * p[i];                                                                              \
            v[i] = keep * v[i] + take * d;                                                                             \
            p[i] -= lr * (s->nesterov ? d + momentum * v[i] : v[i]);                                                   \
        }                                                                                                              \
    }
SGD(float)
SGD(double)

static void sgd_step(const rsh_optimizer *o, const rshn_trained *t, rsh_dtype dtype, const rshn_run *r) {
    if (dtype == RSH_F32) sgd_float(o, t, r);
    else sgd_double(o, t, r);
}

static const rshn_optimizer_kind sgd = {1, {"momentum"}, sgd_needs_slot, sgd_step};

rsh_status rsh_sgd_new(rsh_module *m, const rsh_sgd_opts *opts, rsh_optimizer **out) {
    if (!opts) return rshn_fail(RSH_EVALUE, "rsh_sgd_new: opts is NULL");
    rsh_sgd_opts o = RSH_SGD_OPTS_INIT;
    NN_READ_OPTS(opts, RSH_SGD_OPTS_INIT, &o);
    NN_TRY(rshn_not_negative("learning rate", o.lr));
    NN_TRY(rshn_not_negative("momentum", o.momentum));
    NN_TRY(rshn_not_negative("weight decay", o.weight_decay));
    if (o.nesterov && (!o.momentum || o.dampening))
        return rshn_fail(RSH_EVALUE, "sgd: nesterov requires a momentum above 0 and no dampening");
    NN_TRY(rshn_optimizer_make(m, &sgd, o.lr, out));
    (*out)->opts.sgd = o;
    rshn_optimizer_settings(*out, o.weight_decay);
    return RSH_OK;
}
