/* Factory: tensors of a spec and a size, filled with what was asked for. */
#include "st/impl.h"

#include "copy/copy.h"

static rsh_status take_opts(const rsh_st_opts *given, rsh_st_opts *out) {
    *out = (rsh_st_opts)RSH_ST_OPTS_INIT;
    if (!given) return RSH_OK;
    RSH_REQUIRE(given->struct_size == sizeof *given, RSH_EVALUE, "options of %zu bytes; RSH_ST_OPTS_INIT sets %zu",
                given->struct_size, sizeof *given);
    RSH_REQUIRE((unsigned)given->props.dtype < RSH_DTYPE_COUNT, RSH_EVALUE, "%d is not a dtype",
                (int)given->props.dtype);
    *out = *given;
    return RSH_OK;
}

static rsh_status make(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_st_opts *opts, bool zero,
                       rsh_st **out) {
    rsh_st_opts o;
    RSH_REQUIRE(out, RSH_EVALUE, "no place for the result");
    RSH_TRY(take_opts(opts, &o));
    return rshi_st_new(spec, ndim, size, &o.props, o.group, zero, out);
}

rsh_status rsh_st_empty(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_st_opts *opts, rsh_st **out) {
    return make(spec, ndim, size, opts, false, out);
}

rsh_status rsh_st_zeros(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_st_opts *opts, rsh_st **out) {
    return make(spec, ndim, size, opts, true, out);
}

static void fill(rsh_tensor *t, const void *value) {
    rsh_dtype dtype = rsh_tensor_dtype(t);
    rshi_move m = {
        .nd = 1, .n = {rsh_tensor_count(t)}, .ds = {(int64_t)rsh_dtype_size(dtype)}, .from = dtype, .to = dtype};
    for (size_t i = 0; i < rsh_dtype_size(dtype); i++) m.value[i] = ((const unsigned char *)value)[i];
    if (!m.n[0]) return;
    rshi_move_prepare(&m, (size_t)m.n[0] * rsh_dtype_size(dtype));
    rshi_move_run(&m, 0, 0, m.nd ? m.n[0] : 1, rsh_tensor_data(t), NULL);
    rshi_copy_fence();
}

rsh_status rsh_st_full(const rsh_spec *spec, int ndim, const int64_t *size, const void *value, const rsh_st_opts *opts,
                       rsh_st **out) {
    rsh_st *t;
    RSH_REQUIRE(value && out, RSH_EVALUE, value ? "no place for the result" : "no value to fill with");
    RSH_TRY(make(spec, ndim, size, opts, false, &t));
    for (int64_t i = 0; i < t->nshards; i++) fill(t->shards[i].tensor, value);
    *out = t;
    return RSH_OK;
}

rsh_status rsh_st_ones(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_st_opts *opts, rsh_st **out) {
    rsh_st_opts o;
    unsigned char one[16] = {0};
    double value = 1;
    RSH_TRY(take_opts(opts, &o));
    rshi_convert(RSH_F64, &value, o.props.dtype, one, 1);
    return rsh_st_full(spec, ndim, size, one, opts, out);
}

static rsh_status random_st(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_st_opts *opts, bool normal,
                            rsh_st **out) {
    rsh_st_opts o;
    rsh_st *t;
    uint64_t at = 0;
    RSH_TRY(take_opts(opts, &o));
    RSH_REQUIRE(out, RSH_EVALUE, "no place for the result");
    RSH_REQUIRE(rshi_dtype_has_grad(o.props.dtype), RSH_ETYPE, "random numbers are floats or complex");
    RSH_TRY(make(spec, ndim, size, opts, false, &t));
    for (int64_t i = 0; i < t->nshards; i++) {
        int64_t n = rsh_tensor_count(t->shards[i].tensor);
        rshi_random_fill(o.props.dtype, rsh_tensor_data(t->shards[i].tensor), n, normal, o.seed, t->comm->rank, at);
        at += (uint64_t)n;
    }
    *out = t;
    return RSH_OK;
}

rsh_status rsh_st_rand(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_st_opts *opts, rsh_st **out) {
    return random_st(spec, ndim, size, opts, false, out);
}

rsh_status rsh_st_randn(const rsh_spec *spec, int ndim, const int64_t *size, const rsh_st_opts *opts, rsh_st **out) {
    return random_st(spec, ndim, size, opts, true, out);
}
