/* Import: uses an array of another library as a tensor, without a copy. */
#ifndef PY_IMPORT_H
#define PY_IMPORT_H

#include "py_module.h"

/* The result of an importer.  `release(owner)` must be called on a thread that holds the
 * interpreter lock. */
typedef struct py_foreign {
    void *data;
    rsh_dtype dtype;
    int ndim;
    int64_t shape[RSH_MAX_NDIM], strides[RSH_MAX_NDIM]; /* in elements */
    bool readonly;
    void (*release)(void *owner);
    void *owner;
} py_foreign;

/* Each returns 1 if it imported the object, 0 if the object does not support this protocol for its
 * dtype, -1 with an exception. */
int py_import_exchange(PyObject *object, py_foreign *out);
int py_import_dlpack(PyObject *object, py_foreign *out);
int py_import_buffer(PyObject *object, py_foreign *out);
int py_import_interface(PyObject *object, py_foreign *out);

/* Converts strides in bytes to strides in elements.  ValueError if they are not multiples. */
int py_strides_of_bytes(py_foreign *f, const int64_t *bytes, size_t itemsize);
/* Sets dense, row-major strides. */
void py_strides_dense(py_foreign *f);
/* ValueError if the array has more dims than a tensor can have. */
int py_check_ndim(int64_t ndim);

#endif
