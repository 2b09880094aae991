/* Saved tensor: finds the elements of a tensor in a file of torch.save.
 *
 * The pickle states dtype, sizes, strides and the key of a storage, which holds the elements. */
#include "ckpt/archive.h"

#include <inttypes.h>
#include <string.h>

/* The description of a tensor in the pickle. */
typedef struct described {
    rshi_saved_tensor tensor;
    int64_t offset; /* offset of the first element in the storage, in elements */
    int64_t length; /* length of the storage, in elements or, if it is untyped, in bytes */
    bool untyped;
    const rshi_pickle_value *key; /* key of the storage */
} described;

/* Returns item i of an object if it has this kind; otherwise NULL. */
static const rshi_pickle_value *item_of_kind(const rshi_pickle_value *v, uint32_t i, rshi_pickle_kind kind) {
    return i < v->n && v->item[i]->kind == kind ? v->item[i] : NULL;
}

/* Reads ('storage', class, key, location, length). */
static rsh_status read_storage(const rshi_pickle *p, const rshi_pickle_value *id, described *d) {
    const rshi_pickle_value *word = item_of_kind(id, 0, RSHI_PICKLE_TEXT),
                            *class = item_of_kind(id, 1, RSHI_PICKLE_CLASS),
                            *key = item_of_kind(id, 2, RSHI_PICKLE_TEXT),
                            *length = item_of_kind(id, 4, RSHI_PICKLE_INT);
    if (class && class->class == RSHI_CLASS_OPAQUE)
        return rshi_pickle_fail(p, id, "storage type %.*s is not supported",
                                (int)(class->n < 80 ? class->n : 80), class->text);
    if (!word || word->n != 7 || memcmp(word->text, "storage", 7) || !class || class->class != RSHI_CLASS_STORAGE ||
        !key || !key->n || key->n > 100 || !length || length->number < 0)
        return rshi_pickle_fail(p, id, "the description of a tensor's storage is malformed");
    d->tensor.dtype = (rsh_dtype)class->number;
    d->untyped = class->number == RSH_DTYPE_NONE;
    d->length = length->number;
    d->key = key;
    return RSH_OK;
}

/* Is the bit set in the dict of a tensor's lazy operations? */
static bool has_bit(const rshi_pickle_value *bits, const char *name) {
    size_t n = strlen(name);
    for (uint32_t i = 0; bits && i + 1 < bits->n; i += 2) {
        const rshi_pickle_value *key = bits->item[i], *set = bits->item[i + 1];
        if (key->kind == RSHI_PICKLE_TEXT && key->n == n && !memcmp(key->text, name, n))
            return set->kind != RSHI_PICKLE_BOOL || set->number;
    }
    return false;
}

/* Rejects lazily conjugated or negated tensors, whose stored elements are not their values. */
static rsh_status check_lazy_bits(const rshi_pickle *p, const rshi_pickle_value *bits) {
    bool conj = has_bit(bits, "conj");
    if (!conj && !has_bit(bits, "neg")) return RSH_OK;
    return rshi_fail(RSH_EUNSUP,
                     "%.150s: byte %" PRIu64 ": the tensor is lazily %s, so its stored elements are not its values; "
                     "save tensor.%s() instead",
                     p->file, p->base + bits->at, conj ? "conjugated" : "negated",
                     conj ? "resolve_conj" : "resolve_neg");
}

/* The arguments of _rebuild_tensor_v2 or _v3, inside parameters and subclasses of Tensor. */
typedef struct plain {
    rshi_pickle_value arguments; /* its items are the arguments */
    bool v3;
} plain;

static bool find_rebuild_arguments(const rshi_pickle_value *v, plain *out) {
    for (int i = 0; i < 4 && v; i++) {
        bool v2 = rshi_pickle_is(v, RSHI_CLASS_TENSOR_V2), v3 = rshi_pickle_is(v, RSHI_CLASS_TENSOR_V3);
        if (rshi_pickle_is(v, RSHI_CLASS_FROM_TYPE) && v->n > 2 && v->item[2]->kind == RSHI_PICKLE_TUPLE) {
            v2 = rshi_pickle_is_class(v->item[0], RSHI_CLASS_TENSOR_V2);
            v3 = rshi_pickle_is_class(v->item[0], RSHI_CLASS_TENSOR_V3);
            v = v->item[2];
        }
        *out = (plain){*v, v3};
        if (v2 || v3) return v->n >= 4;
        v = rshi_pickle_is(v, RSHI_CLASS_PARAMETER) && v->n ? v->item[0] : NULL;
    }
    return false;
}

bool rshi_saved_is_tensor(const rshi_pickle_value *v) {
    plain t;
    return find_rebuild_arguments(v, &t);
}

/* Reads (storage, offset, size, strides, requires_grad, hooks, lazy bits); version 3 has the dtype before the lazy
 * bits. */
static rsh_status read_description(const rshi_pickle *p, const rshi_pickle_value *value, described *d) {
    plain t;
    int nstrides;
    if (!find_rebuild_arguments(value, &t)) return rshi_pickle_fail(p, value, "expected a single tensor");
    const rshi_pickle_value *v = &t.arguments, *storage = item_of_kind(v, 0, RSHI_PICKLE_OBJECT),
                            *offset = item_of_kind(v, 1, RSHI_PICKLE_INT);
    if (!rshi_pickle_is(storage, RSHI_CLASS_PERSISTENT) || !offset || offset->number < 0)
        return rshi_pickle_fail(p, v, "the description of a tensor is malformed");
    RSH_TRY(read_storage(p, storage, d));
    RSH_TRY(rshi_pickle_sizes(p, v->item[2], "the size of a tensor", &d->tensor.ndim, d->tensor.shape));
    RSH_TRY(rshi_pickle_sizes(p, v->item[3], "the strides of a tensor", &nstrides, d->tensor.strides));
    if (nstrides != d->tensor.ndim)
        return rshi_pickle_fail(p, v, "a tensor must have as many strides as sizes, got %d sizes and %d strides",
                                      d->tensor.ndim, nstrides);
    d->offset = offset->number;
    const rshi_pickle_value *dtype = t.v3 ? item_of_kind(v, 6, RSHI_PICKLE_CLASS) : NULL;
    if (dtype && dtype->class == RSHI_CLASS_DTYPE) d->tensor.dtype = (rsh_dtype)dtype->number;
    if (d->tensor.dtype == RSH_DTYPE_NONE) return rshi_pickle_fail(p, v, "the dtype of a tensor is missing");
    return check_lazy_bits(p, item_of_kind(v, t.v3 ? 7 : 6, RSHI_PICKLE_DICT));
}

/* Computes the number of elements from the first to the last element in memory; returns false if it overflows. */
static bool span_elements(const rshi_saved_tensor *t, int64_t *last) {
    *last = 0;
    for (int d = 0; d < t->ndim; d++) {
        int64_t far;
        if (!t->shape[d]) return *last = 0, true;
        if (!rshi_mul(t->shape[d] - 1, t->strides[d], &far) || !rshi_add(*last, far, last)) return false;
    }
    return rshi_add(*last, 1, last);
}

static rsh_status locate_elements(const rshi_torch_file *s, described *d) {
    rshi_file_span data;
    int64_t last, first, end, bytes = rsh_dtype_bits(d->tensor.dtype) / 8;
    RSH_TRY(rshi_saved_storage(s, d->key, &data));
    bool fits = span_elements(&d->tensor, &last) && rshi_mul(d->offset, bytes, &first) && rshi_mul(last, bytes, &end) &&
                rshi_add(first, end, &end) && (uint64_t)end <= data.bytes;
    if (!fits)
        return rshi_fail(RSH_EVALUE,
                         "%.150s: byte %" PRIu64 ": the tensor extends beyond its storage of %" PRIu64 " bytes",
                         data.file, data.at, data.bytes);
    int64_t stored;
    if (!rshi_mul(d->length, d->untyped ? 1 : bytes, &stored) || (uint64_t)stored != data.bytes)
        return rshi_fail(RSH_EVALUE,
                         "%.150s: byte %" PRIu64 ": the storage should have %" PRId64 " %s, but it has %" PRIu64
                         " bytes",
                         data.file, data.at, d->length, d->untyped ? "bytes" : "elements", data.bytes);
    d->tensor.at = data.at + (uint64_t)first;
    return RSH_OK;
}

rsh_status rshi_saved_tensor_of(const rshi_torch_file *s, const rshi_pickle_value *v, rshi_saved_tensor *out) {
    described d = {0};
    RSH_TRY(read_description(&s->pickle, v, &d));
    RSH_TRY(locate_elements(s, &d));
    *out = d.tensor;
    return RSH_OK;
}

rsh_status rshi_saved_tensor_read(const rshi_file_span *span, rshi_saved_tensor *out) {
    rshi_torch_file s;
    rsh_status st = rshi_saved_open(span, &s);
    if (!st) st = rshi_saved_tensor_of(&s, s.pickle.root, out);
    rshi_saved_close(&s);
    return st;
}
