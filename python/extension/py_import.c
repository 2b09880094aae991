/* Import: converts an object to a tensor with the first protocol that it supports.
 *
 * The buffer protocol is tried before DLPack's Python methods because it is faster and supports read-only memory. */
#include "py_import.h"

#include <string.h>

int py_check_ndim(int64_t ndim) {
    if (ndim <= RSH_MAX_NDIM) return 0;
    PyErr_Format(PyExc_ValueError, "array must have at most %d dims, got %lld", RSH_MAX_NDIM, (long long)ndim);
    return -1;
}

void py_strides_dense(py_foreign *f) {
    int64_t step = 1;
    for (int d = f->ndim - 1; d >= 0; d--) {
        f->strides[d] = step;
        step *= f->shape[d] > 0 ? f->shape[d] : 1;
    }
}

int py_strides_of_bytes(py_foreign *f, const int64_t *bytes, size_t itemsize) {
    for (int d = 0; d < f->ndim; d++) {
        if (f->shape[d] > 1 && bytes[d] % (int64_t)itemsize) {
            PyErr_Format(PyExc_ValueError,
                         "array has a stride of %lld bytes, which is not a multiple of its %zu-byte "
                         "elements; pass a copy",
                         (long long)bytes[d], itemsize);
            return -1;
        }
        f->strides[d] = f->shape[d] > 1 ? bytes[d] / (int64_t)itemsize : 1;
    }
    return 0;
}

/* ---- the storage keeps the imported object alive ---- */

typedef struct keeper {
    void (*release)(void *owner);
    void *owner;
} keeper;

/* Drops the reference to an imported object.  This may happen on any thread.  After the interpreter has ended nothing
 * needs to be freed. */
static void release_keeper(void *ctx) {
    keeper *k = ctx;
    if (!Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    k->release(k->owner);
    PyMem_Free(k);
    PyGILState_Release(state);
}

static rsh_tensor *wrap_foreign(py_foreign *f) {
    rsh_tensor *t = NULL;
    keeper *k = PyMem_Calloc(1, sizeof *k);
    if (!k) {
        PyErr_NoMemory();
        return NULL;
    }
    *k = (keeper){f->release, f->owner};
    if (!py_check(rsh_tensor_wrap(f->data, f->dtype, f->ndim, f->shape, f->strides, release_keeper, k, &t))) return t;
    PyMem_Free(k);
    return NULL;
}

/* ---- dtypes that are accepted for others ---- */

/* Returns whether one dtype stands for another: without ml_dtypes, NumPy holds bf16 as uint16 and 8-bit floats as
 * uint8. */
static bool stands_for(rsh_dtype have, rsh_dtype want) {
    if (have == want) return true;
    if (want == RSH_BF16) return have == RSH_U16;
    if (want == RSH_F8E4M3 || want == RSH_F8E5M2) return have == RSH_U8;
    return want == RSH_BOOL && have == RSH_U8;
}

static int check_dtype(py_foreign *f, rsh_dtype want) {
    if (want >= RSH_DTYPE_NONE) return 0;
    if (stands_for(f->dtype, want)) {
        f->dtype = want;
        return 0;
    }
    PyErr_Format(PyExc_TypeError, "array must have dtype %s, got %s", rsh_dtype_name(want), rsh_dtype_name(f->dtype));
    return -1;
}

static int check_writable(const py_foreign *f, bool writable) {
    if (!writable || !f->readonly) return 0;
    PyErr_SetString(PyExc_ValueError, "array is read-only and cannot be a destination; pass a copy");
    return -1;
}

/* ---- importing ---- */

static int import_foreign(PyObject *object, py_foreign *out) {
    int (*const importers[])(PyObject *, py_foreign *) = {py_import_exchange, py_import_buffer, py_import_dlpack,
                                                          py_import_interface};
    for (size_t i = 0; i < sizeof importers / sizeof *importers; i++) {
        int found = importers[i](object, out);
        if (found) return found;
    }
    PyErr_Format(
        PyExc_TypeError,
        "array must support DLPack, the buffer protocol or __array_interface__ with a dtype of reshard, got %R",
        (PyObject *)Py_TYPE(object));
    return -1;
}

rsh_tensor *py_import(PyObject *object, rsh_dtype want, bool writable, bool *readonly) {
    py_foreign f = {0};
    if (PyObject_TypeCheck(object, py_array_type)) {
        const py_array *a = (py_array *)object;
        f.dtype = a->dtype;
        f.readonly = a->readonly;
        if (check_dtype(&f, want) || check_writable(&f, writable)) return NULL;
        if (f.dtype == rsh_tensor_dtype(a->t)) {
            if (readonly) *readonly = a->readonly;
            return py_tensor_again(a->t);
        }
    }
    f = (py_foreign){0};
    if (import_foreign(object, &f) < 0) return NULL;
    rsh_tensor *t = check_dtype(&f, want) || check_writable(&f, writable) ? NULL : wrap_foreign(&f);
    if (!t) f.release(f.owner);
    if (t && readonly) *readonly = f.readonly;
    return t;
}

rsh_tensor *py_tensor_again(const rsh_tensor *t) {
    rsh_tensor *again = NULL;
    py_check(rsh_tensor_view(t, 0, rsh_tensor_ndim(t), rsh_tensor_shape(t), rsh_tensor_strides(t), &again));
    return again;
}
