/* Tensor: shape and strides on a storage. */
#include "tensor/tensor.h"

#include <string.h>

#include "tensor/storage.h"

struct rsh_tensor {
    rshi_storage *storage; /* the tensor owns one reference */
    /* address of element 0,...,0, which may be anywhere in the storage because strides may be negative */
    char *data;
    rsh_dtype dtype;
    int ndim;
    int64_t count;
    int64_t shape[RSH_MAX_NDIM], strides[RSH_MAX_NDIM]; /* in elements */
};

/* Offsets of the lowest and the highest element, in elements from element 0,...,0. */
typedef struct reach {
    int64_t low, high;
} reach;

/* ---- form: shape and strides, checked before memory is allocated ---- */

static rsh_status check_shape(int ndim, const int64_t *shape) {
    RSH_REQUIRE(ndim >= 0 && ndim <= RSH_MAX_NDIM, RSH_EVALUE, "tensor cannot have %d dims: expected 0 to %d", ndim,
                RSH_MAX_NDIM);
    RSH_REQUIRE(!ndim || shape, RSH_EVALUE, "tensor has %d dims but its shape is NULL", ndim);
    for (int d = 0; d < ndim; d++)
        RSH_REQUIRE(shape[d] >= 0, RSH_EVALUE, "dim %d has a negative size %lld", d, (long long)shape[d]);
    return RSH_OK;
}

/* Checks the size of a dense tensor in bytes.  Empty dims count as 1, so that strides do not overflow either. */
static rsh_status check_bytes(const rsh_tensor *t) {
    int64_t bytes = (int64_t)rsh_dtype_size(t->dtype);
    for (int d = 0; d < t->ndim; d++)
        RSH_REQUIRE(rshi_mul(bytes, rshi_max(t->shape[d], 1), &bytes), RSH_EVALUE,
                    "tensor is larger than 2^63 bytes: dim %d has size %lld", d, (long long)t->shape[d]);
    return RSH_OK;
}

/* Returns RSH_EVALUE if the distance to an element exceeds the address range. */
static rsh_status find_reach(const rsh_tensor *t, reach *out) {
    reach r = {0, 0};
    int64_t item = (int64_t)rsh_dtype_size(t->dtype), bytes;
    for (int d = 0; t->count && d < t->ndim; d++) {
        int64_t far, *end = t->strides[d] < 0 ? &r.low : &r.high;
        bool ok =
            rshi_mul(t->strides[d], t->shape[d] - 1, &far) && rshi_add(*end, far, end) && rshi_mul(*end, item, &bytes);
        RSH_REQUIRE(ok, RSH_EVALUE, "dim %d of size %lld and stride %lld spans more than 2^63 bytes", d,
                    (long long)t->shape[d], (long long)t->strides[d]);
    }
    *out = r;
    return RSH_OK;
}

/* Returns the span if element 0,...,0 is at `data`. */
static rshi_span span_of(const rsh_tensor *t, const void *data) {
    uintptr_t first = (uintptr_t)data, item = rsh_dtype_size(t->dtype);
    reach r = {0, 0};
    if (!t->count || find_reach(t, &r)) return (rshi_span){first, first}; /* this was checked when t was created */
    return (rshi_span){first + (uintptr_t)r.low * item, first + ((uintptr_t)r.high + 1) * item};
}

static rsh_status set_form(rsh_tensor *t, rsh_dtype dtype, int ndim, const int64_t *shape, const int64_t *strides) {
    RSH_TRY(rshi_settings_check());
    RSH_REQUIRE((unsigned)dtype < RSH_NDTYPES, RSH_EVALUE, "unknown dtype %d", (int)dtype);
    RSH_TRY(check_shape(ndim, shape));
    t->dtype = dtype;
    t->ndim = ndim;
    if (ndim) memcpy(t->shape, shape, (size_t)ndim * sizeof *shape);
    RSH_TRY(check_bytes(t));
    rshi_product(ndim, t->shape, &t->count);
    if (!strides) {
        rshi_dense_strides(ndim, t->shape, NULL, t->strides);
        return RSH_OK;
    }
    if (ndim) memcpy(t->strides, strides, (size_t)ndim * sizeof *strides);
    reach r;
    return find_reach(t, &r);
}

/* Allocates a tensor with the given shape and strides, and takes over the reference to the storage. */
static rsh_status new_from_form(rsh_tensor *form, rshi_storage *storage, char *data, rsh_tensor **out) {
    rsh_tensor *t =
        /* freed blocks are kept for reuse, because tensors are small and frequent */
        storage ? rshi_alloc_data(sizeof *t, false) : NULL;
    if (!t) return rshi_nomem();
    *t = *form;
    t->storage = storage;
    t->data = data;
    *out = t;
    return RSH_OK;
}

/* ---- creating ---- */

static rsh_status new_tensor(rsh_dtype dtype, int ndim, const int64_t *shape, bool zero, rsh_tensor **out) {
    RSH_REQUIRE(out, RSH_EVALUE, "tensor: out is NULL");
    rsh_tensor form = {0};
    RSH_TRY(set_form(&form, dtype, ndim, shape, NULL));
    rshi_storage *s = rshi_storage_new((size_t)form.count * rsh_dtype_size(dtype), zero);
    rsh_status st = new_from_form(&form, s, s ? s->data : NULL, out);
    if (st && s) rshi_storage_drop(s);
    return st;
}

rsh_status rsh_tensor_empty(rsh_dtype dtype, int ndim, const int64_t *shape, rsh_tensor **out) {
    return new_tensor(dtype, ndim, shape, false, out);
}

rsh_status rsh_tensor_zeros(rsh_dtype dtype, int ndim, const int64_t *shape, rsh_tensor **out) {
    return new_tensor(dtype, ndim, shape, true, out);
}

rsh_status rsh_tensor_wrap(void *data, rsh_dtype dtype, int ndim, const int64_t *shape, const int64_t *strides,
                           void (*deleter)(void *ctx), void *ctx, rsh_tensor **out) {
    RSH_REQUIRE(out, RSH_EVALUE, "tensor: out is NULL");
    rsh_tensor form = {0};
    RSH_TRY(set_form(&form, dtype, ndim, shape, strides));
    RSH_REQUIRE(data || !form.count, RSH_EVALUE, "tensor has %lld elements but its data is NULL",
                (long long)form.count);
    rshi_span span = span_of(&form, data);
    rshi_storage *s = rshi_storage_wrap(form.count ? (char *)data - ((uintptr_t)data - span.start) : data,
                                        span.end - span.start, deleter, ctx);
    rsh_status st = new_from_form(&form, s, data, out);
    if (st && s) {
        s->deleter = NULL; /* the caller keeps ownership of the memory */
        rshi_storage_drop(s);
    }
    return st;
}

/* Checks that `form`, which is not empty and starts `at` elements into the storage, is inside the storage. */
static rsh_status check_inside(const rshi_storage *s, const rsh_tensor *form, int64_t at) {
    int64_t room = (int64_t)(s->bytes / rsh_dtype_size(form->dtype)), low, high;
    reach r;
    RSH_TRY(find_reach(form, &r));
    bool ok = rshi_add(at, r.low, &low) && rshi_add(at, r.high, &high) && low >= 0 && high < room;
    RSH_REQUIRE(ok, RSH_EVALUE,
                "view starts at element %lld and reaches %lld before and %lld after it, outside of a storage of %lld "
                "elements", (long long)at,
                (long long)-r.low, (long long)r.high, (long long)room);
    return RSH_OK;
}

rsh_status rsh_tensor_view(const rsh_tensor *t, int64_t offset, int ndim, const int64_t *shape, const int64_t *strides,
                           rsh_tensor **out) {
    RSH_REQUIRE(t && out, RSH_EVALUE, "rsh_tensor_view: %s", t ? "out is NULL" : "tensor is NULL");
    rsh_tensor form = {0};
    RSH_TRY(set_form(&form, t->dtype, ndim, shape, strides));
    int64_t item = (int64_t)rsh_dtype_size(t->dtype), at, bytes;
    bool ok = rshi_add((t->data - t->storage->data) / item, offset, &at) && rshi_mul(offset, item, &bytes);
    RSH_REQUIRE(ok, RSH_EVALUE, "view cannot start at element %lld: the offset is out of range", (long long)offset);
    RSH_REQUIRE(t->data || !form.count, RSH_EVALUE, "view has %lld elements but the tensor's data is NULL",
                (long long)form.count);
    if (form.count) RSH_TRY(check_inside(t->storage, &form, at));
    RSH_TRY(new_from_form(&form, t->storage, form.count ? t->data + bytes : t->data, out));
    rshi_storage_hold(t->storage);
    return RSH_OK;
}

void rsh_tensor_free(rsh_tensor *t) {
    if (!t) return;
    rshi_storage_drop(t->storage);
    rshi_free_data(t, sizeof *t);
}

/* ---- getters ---- */

void *rsh_tensor_data(const rsh_tensor *t) { return t ? t->data : NULL; }
rsh_dtype rsh_tensor_dtype(const rsh_tensor *t) { return t ? t->dtype : RSH_DTYPE_NONE; }
int rsh_tensor_ndim(const rsh_tensor *t) { return t ? t->ndim : -1; }
const int64_t *rsh_tensor_shape(const rsh_tensor *t) { return t ? t->shape : NULL; }
const int64_t *rsh_tensor_strides(const rsh_tensor *t) { return t ? t->strides : NULL; }
int64_t rsh_tensor_count(const rsh_tensor *t) { return t ? t->count : 0; }

/* Returns whether the tensor is dense; strides of dims of size 1 are ignored. */
bool rsh_tensor_dense(const rsh_tensor *t) {
    int64_t step = 1;
    if (!t) return false;
    for (int d = t->ndim - 1; t->count && d >= 0; d--) {
        if (t->shape[d] != 1 && t->strides[d] != step) return false;
        step *= t->shape[d];
    }
    return true;
}

rshi_span rshi_tensor_span(const rsh_tensor *t) { return span_of(t, t->data); }

bool rshi_tensor_alone(const rsh_tensor *t) {
    const rshi_storage *s = t->storage;
    return (s->owner || s->deleter) && atomic_load_explicit(&s->refs, memory_order_acquire) == 1;
}

/* ---- the storage ---- */

void *rsh_tensor_storage(const rsh_tensor *t) { return t ? t->storage->data : NULL; }
size_t rsh_tensor_storage_bytes(const rsh_tensor *t) { return t ? t->storage->bytes : 0; }

uint64_t rsh_tensor_storage_serial(const rsh_tensor *t) { return t ? t->storage->serial : 0; }

uint64_t rsh_tensor_version(const rsh_tensor *t) { return t ? atomic_load(&t->storage->version) : 0; }
void rsh_tensor_bump_version(const rsh_tensor *t) {
    if (t) atomic_fetch_add(&t->storage->version, 1);
}
