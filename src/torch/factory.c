/* Factory: tensors of a spec and a size, filled with what was asked for. */
#include "torch/impl.h"

#include "math/math.h"

static rsh_status take_opts(const rsh_torch_opts *given, rsh_torch_opts *out) {
    *out = (rsh_torch_opts)RSH_TORCH_OPTS_INIT;
    if (!given) return RSH_OK;
    RSH_REQUIRE(given->struct_size == sizeof *given, RSH_EVALUE, "options of %zu bytes; RSH_TORCH_OPTS_INIT sets %zu",
                given->struct_size, sizeof *given);
    RSH_REQUIRE((unsigned)given->props.dtype < RSH_DTYPE_COUNT, RSH_EVALUE, "%d is not a dtype",
                (int)given->props.dtype);
    *out = *given;
    return RSH_OK;
}

static rsh_status make(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_torch_opts *opts, bool zero,
                       rsh_torch_tensor **out) {
    rsh_torch_opts o;
    RSH_REQUIRE(out, RSH_EVALUE, "no place for the result");
    RSH_TRY(take_opts(opts, &o));
    return rshi_torch_new(spec, ndim, size, &o.props, o.group, zero, out);
}

rsh_status rsh_torch_empty(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_torch_opts *opts,
                           rsh_torch_tensor **out) {
    return make(spec, ndim, size, opts, false, out);
}

rsh_status rsh_torch_zeros(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_torch_opts *opts,
                           rsh_torch_tensor **out) {
    return make(spec, ndim, size, opts, true, out);
}

/* A tensor that could not be filled is freed. */
static rsh_status finish(rsh_status st, rsh_torch_tensor *t, rsh_torch_tensor **out) {
    if (st)
        rsh_torch_free(t);
    else
        *out = t;
    return st;
}

rsh_status rsh_torch_full(const rsh_spec *spec, int ndim, const int64_t *size, const void *value,
                          const rsh_torch_opts *opts, rsh_torch_tensor **out) {
    rsh_torch_tensor *t;
    RSH_REQUIRE(value && out, RSH_EVALUE, value ? "no place for the result" : "no value to fill with");
    RSH_TRY(make(spec, ndim, size, opts, false, &t));
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < t->sharded->nparts && !st; i++) st = rsh_math_fill(t->sharded->part[i], value);
    return finish(st, t, out);
}

rsh_status rsh_torch_ones(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_torch_opts *opts,
                          rsh_torch_tensor **out) {
    rsh_torch_tensor *t;
    RSH_REQUIRE(out, RSH_EVALUE, "no place for the result");
    RSH_TRY(make(spec, ndim, size, opts, false, &t));
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < t->sharded->nparts && !st; i++) st = rsh_math_fill_number(t->sharded->part[i], 1);
    return finish(st, t, out);
}

static rsh_status random_tensor(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_torch_opts *opts,
                            bool normal, rsh_torch_tensor **out) {
    rsh_torch_opts o;
    rsh_torch_tensor *t;
    RSH_TRY(take_opts(opts, &o));
    RSH_REQUIRE(out, RSH_EVALUE, "no place for the result");
    RSH_REQUIRE(rshi_dtype_has_grad(o.props.dtype), RSH_ETYPE, "random numbers are floats or complex");
    RSH_TRY(make(spec, ndim, size, opts, false, &t));
    rsh_random from = {.seed = o.seed, .stream = (uint64_t)t->sharded->comm->rank + 1};
    rsh_status st = RSH_OK;
    for (int64_t i = 0; i < t->sharded->nparts && !st; i++) {
        const rsh_tensor *shard = t->sharded->part[i];
        st = normal ? rsh_math_normal(shard, &from) : rsh_math_uniform(shard, &from);
        from.first += (uint64_t)rsh_tensor_count(shard);
    }
    return finish(st, t, out);
}

rsh_status rsh_torch_rand(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_torch_opts *opts,
                          rsh_torch_tensor **out) {
    return random_tensor(spec, ndim, size, opts, false, out);
}

rsh_status rsh_torch_randn(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_torch_opts *opts,
                           rsh_torch_tensor **out) {
    return random_tensor(spec, ndim, size, opts, true, out);
}
