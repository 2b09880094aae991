/* Saved tensor: where the elements of a tensor lie in an archive of torch.save.
 *
 * data.pkl says dtype, sizes, strides, and the number of a storage; the storage is an entry of its own, data/NUMBER,
 * and holds the raw elements. */
#include "ckpt/archive.h"

#include <inttypes.h>
#include <string.h>

#include "ckpt/pickle.h"

enum { PICKLE_MOST = 1 << 20 }; /* bytes of a data.pkl; one tensor needs a few hundred */

/* What data.pkl says. */
typedef struct described {
    rshi_saved_tensor tensor;
    int64_t offset;  /* of the first element in the storage, in elements */
    int64_t length;  /* of the storage, in elements or, if untyped, bytes */
    bool untyped;
    char entry[64];  /* end of the storage's name in the archive */
} described;

/* Is it one of these, item i of an object? */
static const rshi_pickle_value *item(const rshi_pickle_value *v, uint32_t i, rshi_pickle_kind kind) {
    return i < v->n && v->item[i]->kind == kind ? v->item[i] : NULL;
}

/* ('storage', class, key, location, length) */
static rsh_status read_storage(const rshi_pickle *p, const rshi_pickle_value *id, described *d) {
    const rshi_pickle_value *word = item(id, 0, RSHI_PICKLE_TEXT), *class = item(id, 1, RSHI_PICKLE_CLASS),
                            *key = item(id, 2, RSHI_PICKLE_TEXT), *length = item(id, 4, RSHI_PICKLE_INT);
    if (!word || word->n != 7 || memcmp(word->text, "storage", 7) || !class || class->class != RSHI_CLASS_STORAGE ||
        !key || !key->n || key->n > 20 || !length || length->number < 0)
        return rshi_pickle_fail(p, id, "a tensor's storage is not described as PyTorch does it");
    d->tensor.dtype = (rsh_dtype)class->number;
    d->untyped = class->number == RSH_DTYPE_NONE;
    d->length = length->number;
    memcpy(d->entry, "/data/", 6);
    memcpy(d->entry + 6, key->text, key->n);
    d->entry[6 + key->n] = 0;
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

/* The stored elements of a lazily conjugated or negated tensor are not its values. */
static rsh_status check_lazy_bits(const rshi_pickle *p, const rshi_pickle_value *bits) {
    bool conj = has_bit(bits, "conj");
    if (!conj && !has_bit(bits, "neg")) return RSH_OK;
    return rshi_fail(RSH_EUNSUP,
                     "%.150s: byte %" PRIu64 ": the tensor is lazily %s and its stored elements are not its values; "
                     "save tensor.%s() instead", p->file, p->base + bits->at,
                     conj ? "conjugated" : "negated", conj ? "resolve_conj" : "resolve_neg");
}

/* (storage, offset, size, strides, requires_grad, hooks, lazy bits); version 3 has the dtype before the lazy bits. */
static rsh_status read_description(const rshi_pickle *p, described *d) {
    const rshi_pickle_value *v = p->root;
    int nstrides;
    bool v3 = rshi_pickle_is(v, RSHI_CLASS_TENSOR_V3);
    if ((!v3 && !rshi_pickle_is(v, RSHI_CLASS_TENSOR_V2)) || v->n < 4)
        return rshi_pickle_fail(p, v, "the archive holds something else than one plain tensor");
    const rshi_pickle_value *storage = item(v, 0, RSHI_PICKLE_OBJECT), *offset = item(v, 1, RSHI_PICKLE_INT);
    if (!rshi_pickle_is(storage, RSHI_CLASS_PERSISTENT) || !offset || offset->number < 0)
        return rshi_pickle_fail(p, v, "a tensor is not described as PyTorch does it");
    RSH_TRY(read_storage(p, storage, d));
    RSH_TRY(rshi_pickle_sizes(p, v->item[2], "the size of a tensor", &d->tensor.ndim, d->tensor.shape));
    RSH_TRY(rshi_pickle_sizes(p, v->item[3], "the strides of a tensor", &nstrides, d->tensor.strides));
    if (nstrides != d->tensor.ndim) return rshi_pickle_fail(p, v, "a tensor has other strides than sizes");
    d->offset = offset->number;
    const rshi_pickle_value *dtype = v3 ? item(v, 6, RSHI_PICKLE_CLASS) : NULL;
    if (dtype && dtype->class == RSHI_CLASS_DTYPE) d->tensor.dtype = (rsh_dtype)dtype->number;
    if (d->tensor.dtype == RSH_DTYPE_NONE) return rshi_pickle_fail(p, v, "a tensor without a dtype");
    return check_lazy_bits(p, item(v, v3 ? 7 : 6, RSHI_PICKLE_DICT));
}

/* The elements that the tensor reaches, from its offset on; false: too many. */
static bool reach(const rshi_saved_tensor *t, int64_t *last) {
    *last = 0;
    for (int d = 0; d < t->ndim; d++) {
        int64_t far;
        if (!t->shape[d]) return *last = 0, true;
        if (!rshi_mul(t->shape[d] - 1, t->strides[d], &far) || !rshi_add(*last, far, last)) return false;
    }
    return rshi_add(*last, 1, last);
}

static rsh_status place(const rshi_file_span *archive, described *d) {
    rshi_file_span data;
    int64_t last, first, end, bytes = rsh_dtype_bits(d->tensor.dtype) / 8;
    RSH_TRY(rshi_archive_find(archive, d->entry, &data));
    bool fits = reach(&d->tensor, &last) && rshi_mul(d->offset, bytes, &first) && rshi_mul(last, bytes, &end) &&
                rshi_add(first, end, &end) && (uint64_t)end <= data.bytes;
    if (!fits)
        return rshi_fail(RSH_EVALUE,
                         "%.150s: byte %" PRIu64 ": the tensor reaches beyond its storage of %" PRIu64 " bytes",
                         archive->file, data.at, data.bytes);
    int64_t stored;
    if (!rshi_mul(d->length, d->untyped ? 1 : bytes, &stored) || (uint64_t)stored != data.bytes)
        return rshi_fail(RSH_EVALUE, "%.150s: byte %" PRIu64 ": a storage of %" PRId64 " %s has %" PRIu64 " bytes",
                         archive->file, data.at, d->length, d->untyped ? "bytes" : "elements", data.bytes);
    d->tensor.at = data.at + (uint64_t)first;
    return RSH_OK;
}

/* PyTorch of 2.1 and later says how it stored numbers. */
static rsh_status check_byte_order(const rshi_file_span *archive) {
    rshi_file_span entry;
    char word[8] = {0};
    rsh_status st = rshi_archive_find(archive, "/byteorder", &entry);
    if (st == RSH_EKEY) return RSH_OK;
    if (st) return st;
    if (entry.bytes < sizeof word) RSH_TRY(rshi_file_span_read(&entry, 0, word, entry.bytes));
    if (strcmp(word, "little"))
        return rshi_fail(RSH_EUNSUP,
                         "%.150s: byte %" PRIu64 ": the tensor is stored in byte order \"%s\", not \"little\"",
                         archive->file, entry.at, word);
    return RSH_OK;
}

rsh_status rshi_saved_tensor_read(const rshi_file_span *archive, rshi_saved_tensor *out) {
    rshi_file_span entry;
    RSH_TRY(check_byte_order(archive));
    RSH_TRY(rshi_archive_find(archive, "/data.pkl", &entry));
    if (entry.bytes > PICKLE_MOST)
        return rshi_fail(RSH_EVALUE, "%.150s: byte %" PRIu64 ": a description of a tensor of %" PRIu64 " bytes",
                         archive->file, entry.at, entry.bytes);
    unsigned char *bytes = rshi_alloc(entry.bytes, 1);
    if (!bytes) return rshi_nomem();
    rshi_pickle p = {0};
    described d = {0};
    rsh_status st = rshi_file_span_read(&entry, 0, bytes, entry.bytes);
    if (!st) st = rshi_pickle_read(bytes, entry.bytes, archive->file, entry.at, &p);
    if (!st) st = read_description(&p, &d);
    if (!st) st = place(archive, &d);
    rshi_pickle_free(&p);
    rshi_free(bytes);
    if (!st) *out = d.tensor;
    return st;
}
