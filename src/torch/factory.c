/* Factory: creates filled tensors from a spec and a size. */
#include "torch/impl.h"

#include "math/math.h"

static rsh_status read_opts(const rsh_torch_opts *given, rsh_torch_opts *out) {
    *out = (rsh_torch_opts)RSH_TORCH_OPTS_INIT;
    RSH_TRY(RSHI_READ_OPTIONS(given, RSH_TORCH_OPTS_INIT, out));
    RSH_REQUIRE((unsigned)out->props.dtype < RSH_NDTYPES, RSH_EVALUE, "sharded tensor: unknown dtype %d",
                (int)out->props.dtype);
    return RSH_OK;
}

static rsh_status new_tensor(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_torch_opts *opts, bool zero,
                             rsh_torch_tensor **out) {
    rsh_torch_opts o;
    RSH_REQUIRE(out, RSH_EVALUE, "cannot create a sharded tensor: out is NULL");
    RSH_TRY(read_opts(opts, &o));
    return rshi_torch_new(spec, ndim, size, &o.props, o.group, zero, out);
}

rsh_status rsh_torch_empty(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_torch_opts *opts,
                           rsh_torch_tensor **out) {
    return new_tensor(spec, ndim, size, opts, false, out);
}

rsh_status rsh_torch_zeros(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_torch_opts *opts,
                           rsh_torch_tensor **out) {
    return new_tensor(spec, ndim, size, opts, true, out);
}

/* Returns the tensor; frees it if it could not be filled. */
static rsh_status finish_tensor(rsh_status st, rsh_torch_tensor *t, rsh_torch_tensor **out) {
    if (st)
        rsh_torch_free(t);
    else
        *out = t;
    return st;
}

rsh_status rsh_torch_full(const rsh_spec *spec, int ndim, const int64_t *size, const void *value,
                          const rsh_torch_opts *opts, rsh_torch_tensor **out) {
    rsh_torch_tensor *t;
    RSH_REQUIRE(value && out, RSH_EVALUE, "rsh_torch_full: %s is NULL", value ? "out" : "value");
    RSH_TRY(new_tensor(spec, ndim, size, opts, false, &t));
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < t->sharded->nparts && !st; i++) st = rsh_math_fill(t->sharded->part[i], value);
    return finish_tensor(st, t, out);
}

rsh_status rsh_torch_ones(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_torch_opts *opts,
                          rsh_torch_tensor **out) {
    rsh_torch_tensor *t;
    RSH_REQUIRE(out, RSH_EVALUE, "rsh_torch_ones: out is NULL");
    RSH_TRY(new_tensor(spec, ndim, size, opts, false, &t));
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < t->sharded->nparts && !st; i++) st = rsh_math_fill_number(t->sharded->part[i], 1);
    return finish_tensor(st, t, out);
}

/* Each rank fills its shards in order from its own stream. */
static rsh_status fill_random(const rsh_torch_tensor *t, uint64_t seed, bool normal) {
    rsh_random from = {.seed = seed, .stream = (uint64_t)t->sharded->comm->rank + 1};
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < t->sharded->nparts && !st; i++) {
        const rsh_tensor *shard = t->sharded->part[i];
        st = normal ? rsh_math_normal(shard, &from) : rsh_math_uniform(shard, &from);
        from.first += (uint64_t)rsh_tensor_count(shard);
    }
    return st;
}

static rsh_status check_random(rsh_dtype dtype) {
    RSH_REQUIRE(rshi_dtype_has_grad(dtype), RSH_ETYPE, "random: dtype must be a float or complex, got %s",
                rsh_dtype_name(dtype));
    return RSH_OK;
}

static rsh_status make_random(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_torch_opts *opts,
                              bool normal, rsh_torch_tensor **out) {
    rsh_torch_opts o;
    rsh_torch_tensor *t;
    RSH_TRY(read_opts(opts, &o));
    RSH_REQUIRE(out, RSH_EVALUE, "cannot create a random sharded tensor: out is NULL");
    RSH_TRY(check_random(o.props.dtype));
    RSH_TRY(new_tensor(spec, ndim, size, opts, false, &t));
    return finish_tensor(fill_random(t, o.seed, normal), t, out);
}

rsh_status rsh_torch_rand(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_torch_opts *opts,
                          rsh_torch_tensor **out) {
    return make_random(spec, ndim, size, opts, false, out);
}

rsh_status rsh_torch_randn(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_torch_opts *opts,
                           rsh_torch_tensor **out) {
    return make_random(spec, ndim, size, opts, true, out);
}

/* ---- like another tensor ---- */

static rsh_status make_like(const rsh_torch_tensor *t, const rsh_tensor_props *given, bool zero,
                            rsh_torch_tensor **out) {
    RSH_REQUIRE(t && out, RSH_EVALUE, "cannot create a tensor like t: t and out must not be NULL");
    rsh_tensor_props props = given ? *given : t->props;
    if (!given) props.requires_grad = false;
    RSH_TRY(rshi_props_check(&props));
    return rshi_torch_like(t, &props, zero, out);
}

rsh_status rsh_torch_empty_like(const rsh_torch_tensor *t, const rsh_tensor_props *props, rsh_torch_tensor **out) {
    return make_like(t, props, false, out);
}

rsh_status rsh_torch_zeros_like(const rsh_torch_tensor *t, const rsh_tensor_props *props, rsh_torch_tensor **out) {
    return make_like(t, props, true, out);
}

rsh_status rsh_torch_ones_like(const rsh_torch_tensor *t, const rsh_tensor_props *props, rsh_torch_tensor **out) {
    rsh_torch_tensor *made;
    RSH_TRY(make_like(t, props, false, out ? &made : NULL));
    return finish_tensor(rsh_torch_constant(made, 1), made, out);
}

rsh_status rsh_torch_full_like(const rsh_torch_tensor *t, const void *value, const rsh_tensor_props *props,
                               rsh_torch_tensor **out) {
    rsh_torch_tensor *made;
    RSH_REQUIRE(value, RSH_EVALUE, "rsh_torch_full_like: value is NULL");
    RSH_TRY(make_like(t, props, false, out ? &made : NULL));
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < made->sharded->nparts && !st; i++) st = rsh_math_fill(made->sharded->part[i], value);
    return finish_tensor(st, made, out);
}

static rsh_status random_like(const rsh_torch_tensor *t, const rsh_tensor_props *props, uint64_t seed, bool normal,
                              rsh_torch_tensor **out) {
    rsh_torch_tensor *made;
    if (t) RSH_TRY(check_random(props ? props->dtype : t->props.dtype));
    RSH_TRY(make_like(t, props, false, out ? &made : NULL));
    return finish_tensor(fill_random(made, seed, normal), made, out);
}

rsh_status rsh_torch_rand_like(const rsh_torch_tensor *t, const rsh_tensor_props *props, uint64_t seed,
                               rsh_torch_tensor **out) {
    return random_like(t, props, seed, false, out);
}

rsh_status rsh_torch_randn_like(const rsh_torch_tensor *t, const rsh_tensor_props *props, uint64_t seed,
                                rsh_torch_tensor **out) {
    return random_like(t, props, seed, true, out);
}
