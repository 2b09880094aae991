/* Attention: multi-head self-attention, and the transformer block around it. */
#include "nn/impl.h"
#include "nn/layer.h"

static const char *const inputs[] = {"input"};

/* ---- heads ---- */

/* Reshapes [batch, length, width] to [batch, heads, length, width / heads]. */
static rsh_status split_heads(rsh_value **v, int64_t heads) {
    const int64_t *size = rsh_value_shape(*v);
    rsh_value *cut = NULL, *turned = NULL;
    NN_TRY(rsh_nn_reshape(*v, 4, (const int64_t[]){size[0], size[1], heads, size[2] / heads}, &cut));
    rsh_status st = rsh_nn_transpose(cut, 1, 2, &turned);
    rsh_value_free(cut);
    if (st) return st;
    rsh_value_free(*v);
    *v = turned;
    return RSH_OK;
}

static rsh_status join_heads(rsh_value **v) {
    const int64_t *size = rsh_value_shape(*v);
    int64_t joined[] = {size[0], size[2], size[1] * size[3]};
    rsh_value *turned = NULL, *whole = NULL;
    NN_TRY(rsh_nn_transpose(*v, 1, 2, &turned));
    rsh_status st = rsh_nn_reshape(turned, 3, joined, &whole);
    rsh_value_free(turned);
    if (st) return st;
    rsh_value_free(*v);
    *v = whole;
    return RSH_OK;
}

/* Projects x to heads of width / heads columns each.  A rank that has only a part of query, key and value has fewer
 * heads. */
static rsh_status project_heads(rsh_module *m, const char *name, rsh_value *x, int64_t head, rsh_value **out) {
    NN_TRY(rsh_module_forward(rshn_slot_child(m, name), x, out));
    int ndim = rsh_value_ndim(*out);
    int64_t width = ndim == 3 ? rsh_value_shape(*out)[2] : 0;
    if (ndim == 3 && width % head == 0) return split_heads(out, width / head);
    rsh_status st = rshn_fail(RSH_EVALUE,
                              "Attention: the output of \"%s\" is %s; it must be 3-D and its last size a "
                              "multiple of %lld",
                              name, rshn_sizes_text(ndim, rsh_value_shape(*out)), (long long)head);
    rsh_value_free(*out);
    *out = NULL;
    return st;
}

static rsh_status attend(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    const rsh_attention_opts *o = m->state;
    if (!in[0]) return rshn_fail(RSH_EVALUE, "Attention: the input is missing");
    int64_t head = o->width / o->heads;
    rsh_value *q = NULL, *k = NULL, *v = NULL, *got = NULL;
    rsh_status st = project_heads(m, "query", in[0], head, &q);
    if (!st) st = project_heads(m, "key", in[0], head, &k);
    if (!st) st = project_heads(m, "value", in[0], head, &v);
    if (!st) st = rsh_nn_attention(q, k, v, NULL, o->causal, &got);
    if (!st) st = join_heads(&got);
    if (!st) st = rsh_module_forward(rshn_slot_child(m, "out"), got, out);
    rsh_value_free(q);
    rsh_value_free(k);
    rsh_value_free(v);
    rsh_value_free(got);
    return st;
}

static const rsh_module_kind attention = {"Attention", 1, 1, inputs, attend, sizeof(rsh_attention_opts), NULL};

static rsh_status read_opts(const rsh_attention_opts *given, rsh_attention_opts *o) {
    if (!given) return rshn_fail(RSH_EVALUE, "Attention: opts is NULL");
    NN_READ_OPTS(given, RSH_ATTENTION_OPTS_INIT, o);
    NN_TRY(rshn_check_size("Attention", "width", o->width));
    NN_TRY(rshn_check_size("Attention", "heads", o->heads));
    if (o->width % o->heads == 0) return RSH_OK;
    return rshn_fail(RSH_EVALUE, "Attention: width must be a multiple of heads, got %lld and %lld", (long long)o->width,
                     (long long)o->heads);
}

static rsh_status add_linear(rsh_module *m, const char *name, int64_t in, int64_t out, bool bias, rsh_dtype dtype) {
    rsh_module *child = NULL;
    NN_TRY(rsh_linear_new(in, out, bias, dtype, &child));
    return rshn_give_child(m, name, &child);
}

rsh_status rsh_attention_new(const rsh_attention_opts *opts, rsh_dtype dtype, rsh_module **module) {
    static const char *const names[] = {"query", "key", "value", "out"};
    rsh_attention_opts o = RSH_ATTENTION_OPTS_INIT;
    NN_TRY(read_opts(opts, &o));
    rsh_module *m = NULL;
    NN_TRY(rsh_module_new(&attention, &o, module ? &m : NULL));
    rsh_status st = RSH_OK;
    for (int i = 0; !st && i < 4; i++) st = add_linear(m, names[i], o.width, o.width, o.bias, dtype);
    if (st) rsh_module_free(m);
    else *module = m;
    return st;
}

/* ---- transformer block ---- */

/* Computes x + drop(y); takes ownership of y. */
static rsh_status add_residual(rsh_module *m, rsh_value *x, rsh_value *y, rsh_value **out) {
    rsh_value *dropped = NULL;
    rsh_status st = rsh_module_forward(rshn_slot_child(m, "drop"), y, &dropped);
    rsh_value_free(y);
    if (!st) st = rsh_nn_add(x, dropped, out);
    rsh_value_free(dropped);
    return st;
}

static rsh_status run_child(rsh_module *m, const char *name, rsh_value **v) {
    rsh_value *next = NULL;
    NN_TRY(rsh_module_forward(rshn_slot_child(m, name), *v, &next));
    rsh_value_free(*v);
    *v = next;
    return RSH_OK;
}

static rsh_status activate(rsh_value **v) {
    rsh_value *next = NULL;
    NN_TRY(rsh_nn_gelu(*v, RSH_GELU_TANH, &next));
    rsh_value_free(*v);
    *v = next;
    return RSH_OK;
}

static rsh_status run_block(rsh_module *m, rsh_value *const *in, rsh_value **out) {
    if (!in[0]) return rshn_fail(RSH_EVALUE, "TransformerBlock: the input is missing");
    rsh_value *v = rsh_value_hold(in[0]), *middle = NULL;
    rsh_status st = run_child(m, "norm1", &v);
    if (!st) st = run_child(m, "attention", &v);
    if (!st)
        st = add_residual(m, in[0], v, &middle);
    else rsh_value_free(v);
    if (st) return st;
    v = rsh_value_hold(middle);
    st = run_child(m, "norm2", &v);
    if (!st) st = run_child(m, "up", &v);
    if (!st) st = activate(&v);
    if (!st) st = run_child(m, "down", &v);
    if (!st)
        st = add_residual(m, middle, v, out);
    else rsh_value_free(v);
    rsh_value_free(middle);
    return st;
}

static const rsh_module_kind block = {"TransformerBlock", 1, 1, inputs, run_block, sizeof(rsh_attention_opts), NULL};

static rsh_status add_norm(rsh_module *m, const char *name, int64_t width, rsh_dtype dtype) {
    rsh_module *child = NULL;
    NN_TRY(rsh_layer_norm_new(1, &width, 1e-5, true, dtype, &child));
    return rshn_give_child(m, name, &child);
}

static rsh_status fill_block(rsh_module *m, const rsh_attention_opts *o, int64_t hidden, rsh_dtype dtype) {
    rsh_module *child = NULL;
    NN_TRY(add_norm(m, "norm1", o->width, dtype));
    NN_TRY(rsh_attention_new(o, dtype, &child));
    NN_TRY(rshn_give_child(m, "attention", &child));
    NN_TRY(add_norm(m, "norm2", o->width, dtype));
    NN_TRY(add_linear(m, "up", o->width, hidden, o->bias, dtype));
    NN_TRY(add_linear(m, "down", hidden, o->width, o->bias, dtype));
    NN_TRY(rsh_dropout_new(o->dropout, &child));
    return rshn_give_child(m, "drop", &child);
}

rsh_status rsh_transformer_block_new(const rsh_attention_opts *opts, int64_t hidden, rsh_dtype dtype,
                                     rsh_module **module) {
    rsh_attention_opts o = RSH_ATTENTION_OPTS_INIT;
    NN_TRY(read_opts(opts, &o));
    NN_TRY(rshn_check_size("TransformerBlock", "hidden", hidden));
    rsh_module *m = NULL;
    NN_TRY(rsh_module_new(&block, &o, module ? &m : NULL));
    rsh_status st = fill_block(m, &o, hidden, dtype);
    if (st) rsh_module_free(m);
    else *module = m;
    return st;
}
