/* Plain layers: layers without parameters, and sequences of modules. */
#include <stdio.h>
#include <string.h>

#include <reshard/nn/random.h>

#include "nn/impl.h"
#include "nn/layer.h"

static const char *const inputs[] = {"input"};

static rsh_status needs_input(const rsh_module *m, rsh_value *const *in) {
    return in[0] ? RSH_OK : rshn_fail(RSH_EVALUE, "%s: the input is missing", m->kind->name);
}

/* ---- dropout ---- */

static rsh_status dropout_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    NN_TRY(needs_input(m, in));
    double p = *(const double *)m->state;
    if (!m->training || p == 0) {
        *out = rsh_value_hold(in[0]);
        return RSH_OK;
    }
    rsh_random_state now = rsh_random_next_state();
    return rsh_nn_dropout(in[0], p, now.seed, now.call, out);
}

static const rsh_module_kind dropout = {"Dropout", 1, 1, inputs, dropout_forward, sizeof(double), NULL};

rsh_status rsh_dropout_new(double p, rsh_module **module) {
    if (!(p >= 0 && p <= 1)) return rshn_fail(RSH_EVALUE, "Dropout: p must be 0 to 1, got %.17g", p);
    return rsh_module_new(&dropout, &p, module);
}

/* ---- activations ---- */

static rsh_status relu_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    NN_TRY(needs_input(m, in));
    return rsh_nn_relu(in[0], out);
}

static rsh_status gelu_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    NN_TRY(needs_input(m, in));
    return rsh_nn_gelu(in[0], *(const rsh_gelu *)m->state, out);
}

static const rsh_module_kind relu_kind = {"ReLU", 1, 1, inputs, relu_forward, 0, NULL};
static const rsh_module_kind gelu_kind = {"GELU", 1, 1, inputs, gelu_forward, sizeof(rsh_gelu), NULL};

rsh_status rsh_relu_new(rsh_module **module) { return rsh_module_new(&relu_kind, NULL, module); }

rsh_status rsh_gelu_new(rsh_gelu form, rsh_module **module) {
    if (form != RSH_GELU_ERF && form != RSH_GELU_TANH) return rshn_fail(RSH_EVALUE, "GELU: unknown form %d", (int)form);
    return rsh_module_new(&gelu_kind, &form, module);
}

/* ---- Sequential ---- */

static rsh_status sequential_forward(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    NN_TRY(needs_input(m, in));
    rsh_value *v = rsh_value_hold(in[0]);
    for (int64_t i = 0; i < m->nslots; i++) {
        rsh_value *next = NULL;
        if (!m->slot[i].child) continue;
        rsh_status st = rsh_module_forward(m->slot[i].child, v, &next);
        rsh_value_free(v);
        if (st) return st;
        v = next;
    }
    *out = v;
    return RSH_OK;
}

static const rsh_module_kind sequential = {"Sequential", 1, 1, inputs, sequential_forward, 0, NULL};

rsh_status rsh_sequential_new(int n, rsh_module *const *children, rsh_module **module) {
    if (n < 0) return rshn_fail(RSH_EVALUE, "Sequential: the number of modules must be at least 0, got %d", n);
    if (n && !children) return rshn_fail(RSH_EVALUE, "Sequential: children is NULL");
    rsh_module *m = NULL;
    NN_TRY(rsh_module_new(&sequential, NULL, module ? &m : NULL));
    rsh_status st = RSH_OK;
    for (int i = 0; !st && i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        st = children[i] ? rsh_module_set_child(m, name, children[i])
                         : rshn_fail(RSH_EVALUE, "Sequential: module %d is NULL", i);
    }
    if (st) rsh_module_free(m);
    else *module = m;
    return st;
}
