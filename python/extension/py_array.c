/* Array: memory of this process with shape, strides and dtype, which NumPy, PyTorch and others can access. */
#include "py_module.h"

#include "dlpack_abi.h"

#include <string.h>

PyTypeObject *py_array_type;

static py_array *get(PyObject *self) { return (py_array *)self; }
static const rsh_tensor *tensor_of(PyObject *self) { return get(self)->t; }

PyObject *py_array_wrap(rsh_tensor *t, rsh_dtype dtype, bool readonly) {
    py_array *self = t ? py_object_new(py_array_type) : NULL;
    if (!self) {
        rsh_tensor_free(t);
        return NULL;
    }
    self->t = t;
    self->dtype = dtype;
    self->readonly = readonly;
    return (PyObject *)self;
}

static PyObject *array_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"object", "dtype", NULL};
    PyObject *object, *dtype_object = NULL;
    rsh_dtype dtype = RSH_DTYPE_NONE;
    bool readonly;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:Array", names, &object, &dtype_object)) return NULL;
    if (dtype_object && dtype_object != Py_None && py_dtype_from(dtype_object, &dtype)) return NULL;
    rsh_tensor *t = py_import(object, dtype, false, &readonly);
    return t ? py_array_wrap(t, rsh_tensor_dtype(t), readonly) : NULL;
}

static void array_dealloc(PyObject *self) {
    rsh_tensor_free(get(self)->t);
    py_object_free(self);
}

/* ---- the buffer protocol ---- */

/* Returns the buffer format of a dtype.  If NumPy lacks the dtype, the buffer has unsigned integers of the same
 * size. */
static const char *format_of(rsh_dtype dtype) {
    switch (dtype) {
    case RSH_BOOL: return "?";
    case RSH_I8: return "b";
    case RSH_U16:
    case RSH_BF16: return "H";
    case RSH_I16: return "h";
    case RSH_U32: return "I";
    case RSH_I32: return "i";
    case RSH_U64: return "Q";
    case RSH_I64: return "q";
    case RSH_F16: return "e";
    case RSH_F32: return "f";
    case RSH_F64: return "d";
    case RSH_C64: return "Zf";
    case RSH_C128: return "Zd";
    default: return "B";
    }
}

static bool is_dense(const rsh_tensor *t, bool column_major) {
    const int64_t *shape = rsh_tensor_shape(t), *strides = rsh_tensor_strides(t);
    int n = rsh_tensor_ndim(t);
    int64_t step = 1;
    for (int i = 0; i < n; i++) {
        int d = column_major ? i : n - 1 - i;
        if (shape[d] > 1 && strides[d] != step) return false;
        step *= shape[d];
    }
    return true;
}

static const char *wrong_request(PyObject *self, int flags) {
    const rsh_tensor *t = tensor_of(self);
    bool rows = is_dense(t, false), columns = is_dense(t, true);
    if ((flags & PyBUF_WRITABLE) && get(self)->readonly) return "array is read-only";
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !rows) return "array is not C-contiguous";
    if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS && !rows) return "array is not C-contiguous";
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !columns) return "array is not Fortran-contiguous";
    if ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && !rows && !columns) return "array is not contiguous";
    return NULL;
}

/* Fills a buffer view.  `numbers` has the shape, then the strides in bytes; array_releasebuffer frees it. */
static int array_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    const rsh_tensor *t = tensor_of(self);
    int n = rsh_tensor_ndim(t);
    size_t size = rsh_dtype_size(rsh_tensor_dtype(t));
    const char *wrong = wrong_request(self, flags);
    view->obj = NULL;
    if (wrong) {
        PyErr_SetString(PyExc_BufferError, wrong);
        return -1;
    }
    Py_ssize_t *numbers = PyMem_Calloc(2 * (size_t)n + 1, sizeof *numbers);
    if (!numbers) {
        PyErr_NoMemory();
        return -1;
    }
    for (int d = 0; d < n; d++) {
        numbers[d] = (Py_ssize_t)rsh_tensor_shape(t)[d];
        numbers[n + d] = (Py_ssize_t)(rsh_tensor_strides(t)[d] * (int64_t)size);
    }
    *view = (Py_buffer){.buf = rsh_tensor_data(t),
                        .obj = Py_NewRef(self),
                        .len = (Py_ssize_t)(rsh_tensor_count(t) * (int64_t)size),
                        .itemsize = (Py_ssize_t)size,
                        .readonly = get(self)->readonly,
                        .ndim = n,
                        .format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)format_of(get(self)->dtype) : NULL,
                        .shape = flags & PyBUF_ND ? numbers : NULL,
                        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? numbers + n : NULL,
                        .internal = numbers};
    return 0;
}

static void array_releasebuffer(PyObject *self, Py_buffer *view) {
    (void)self;
    PyMem_Free(view->internal);
}

/* ---- DLPack ---- */

typedef struct element_code {
    uint8_t code, bits;
} element_code;

static element_code code_of(rsh_dtype dtype) {
    uint8_t bits = (uint8_t)rsh_dtype_bits(dtype);
    switch (dtype) {
    case RSH_BOOL: return (element_code){DLPACK_BOOL, bits};
    case RSH_I8:
    case RSH_I16:
    case RSH_I32:
    case RSH_I64: return (element_code){DLPACK_INT, bits};
    case RSH_F16:
    case RSH_F32:
    case RSH_F64: return (element_code){DLPACK_FLOAT, bits};
    case RSH_BF16: return (element_code){DLPACK_BFLOAT, bits};
    case RSH_C64:
    case RSH_C128: return (element_code){DLPACK_COMPLEX, bits};
    case RSH_F8E4M3: return (element_code){DLPACK_F8E4M3FN, bits};
    case RSH_F8E5M2: return (element_code){DLPACK_F8E5M2, bits};
    case RSH_F8E4M3FNUZ: return (element_code){DLPACK_F8E4M3FNUZ, bits};
    case RSH_F8E5M2FNUZ: return (element_code){DLPACK_F8E5M2FNUZ, bits};
    case RSH_F8E8M0: return (element_code){DLPACK_F8E8M0FNU, bits};
    default: return (element_code){DLPACK_UINT, bits};
    }
}

/* The data of an exported array; the object is kept alive until the consumer calls the deleter. */
typedef struct lent {
    union {
        dlpack_old old;
        dlpack_versioned versioned;
    } as;
    PyObject *array; /* owned */
    int64_t numbers[2 * RSH_MAX_NDIM];
} lent;

static void lent_free(lent *l) {
    if (!Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(l->array);
    PyMem_Free(l);
    PyGILState_Release(state);
}

static void delete_old(dlpack_old *self) { lent_free(self->ctx); }
static void delete_versioned(dlpack_versioned *self) { lent_free(self->ctx); }

static void destroy_old(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor")) return; /* a consumer has taken the tensor */
    delete_old(PyCapsule_GetPointer(capsule, "dltensor"));
}

static void destroy_versioned(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) return;
    delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

static void describe_tensor(PyObject *self, lent *l, dlpack_tensor *out) {
    const rsh_tensor *t = tensor_of(self);
    element_code code = code_of(get(self)->dtype);
    int n = rsh_tensor_ndim(t);
    for (int d = 0; d < n; d++) {
        l->numbers[d] = rsh_tensor_shape(t)[d];
        l->numbers[n + d] = rsh_tensor_strides(t)[d];
    }
    *out = (dlpack_tensor){.data = rsh_tensor_data(t),
                           .device_type = DLPACK_CPU,
                           .ndim = n,
                           .code = code.code,
                           .bits = code.bits,
                           .lanes = 1,
                           .shape = l->numbers,
                           .strides = l->numbers + n};
}

static PyObject *new_capsule(PyObject *self, bool versioned) {
    lent *l = PyMem_Calloc(1, sizeof *l);
    if (!l) return PyErr_NoMemory();
    PyObject *capsule;
    if (versioned) {
        l->as.versioned = (dlpack_versioned){.version = {DLPACK_MAJOR, DLPACK_MINOR},
                                             .ctx = l,
                                             .deleter = delete_versioned,
                                             .flags = get(self)->readonly ? DLPACK_READ_ONLY : 0};
        describe_tensor(self, l, &l->as.versioned.tensor);
        capsule = PyCapsule_New(&l->as.versioned, "dltensor_versioned", destroy_versioned);
    } else {
        l->as.old = (dlpack_old){.ctx = l, .deleter = delete_old};
        describe_tensor(self, l, &l->as.old.tensor);
        capsule = PyCapsule_New(&l->as.old, "dltensor", destroy_old);
    }
    if (!capsule) {
        PyMem_Free(l);
        return NULL;
    }
    l->array = Py_NewRef(self);
    return capsule;
}

static bool wants_version(PyObject *max_version) {
    if (!max_version || !PyTuple_Check(max_version) || PyTuple_Size(max_version) < 1) return false;
    long major = PyLong_AsLong(PyTuple_GetItem(max_version, 0));
    return major >= DLPACK_MAJOR;
}

static PyObject *array_dlpack(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *max_version = NULL, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", names, &stream, &max_version, &device, &copy))
        return NULL;
    bool versioned = wants_version(max_version);
    if (PyErr_Occurred()) return NULL;
    if (stream != Py_None)
        return PyErr_Format(PyExc_BufferError, "stream must be None for CPU memory, got another value");
    if (copy != Py_None && PyObject_IsTrue(copy))
        return PyErr_Format(
            PyExc_BufferError,
            "reshard arrays are exported without a copy, so copy must not be True; copy the result instead");
    if (get(self)->readonly && !versioned)
        return PyErr_Format(
            PyExc_BufferError,
            "array is read-only, which DLPack supports only from version 1 on; pass max_version=(1, 0)");
    return new_capsule(self, versioned);
}

static PyObject *array_dlpack_device(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    return Py_BuildValue("(ii)", DLPACK_CPU, 0);
}

/* ---- getters ---- */

static PyObject *get_shape(PyObject *self, void *none) {
    (void)none;
    return py_ints(rsh_tensor_ndim(tensor_of(self)), rsh_tensor_shape(tensor_of(self)));
}

static PyObject *get_strides(PyObject *self, void *none) {
    (void)none;
    return py_ints(rsh_tensor_ndim(tensor_of(self)), rsh_tensor_strides(tensor_of(self)));
}

static PyObject *get_dtype(PyObject *self, void *none) {
    (void)none;
    return py_dtype_object(get(self)->dtype);
}

static PyObject *get_ndim(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromLong(rsh_tensor_ndim(tensor_of(self)));
}

static PyObject *get_size(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromLongLong(rsh_tensor_count(tensor_of(self)));
}

static PyObject *get_nbytes(PyObject *self, void *none) {
    size_t size = rsh_dtype_size(rsh_tensor_dtype(tensor_of(self)));
    (void)none;
    return PyLong_FromLongLong(rsh_tensor_count(tensor_of(self)) * (int64_t)size);
}

static PyObject *get_address(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromVoidPtr(rsh_tensor_data(tensor_of(self)));
}

static PyObject *get_readonly(PyObject *self, void *none) {
    (void)none;
    return PyBool_FromLong(get(self)->readonly);
}

static PyObject *array_repr(PyObject *self) {
    PyObject *shape = get_shape(self, NULL);
    const char *dtype = rsh_dtype_name(get(self)->dtype);
    PyObject *text = shape ? PyUnicode_FromFormat("<reshard.Array %s %S>", dtype, shape) : NULL;
    Py_XDECREF(shape);
    return text;
}

static Py_ssize_t array_length(PyObject *self) {
    if (rsh_tensor_ndim(tensor_of(self)) > 0) return (Py_ssize_t)rsh_tensor_shape(tensor_of(self))[0];
    PyErr_SetString(PyExc_TypeError, "an array without dims has no len()");
    return -1;
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "Returns a DLPack capsule, without a copy."},
    {"__dlpack_device__", array_dlpack_device, METH_NOARGS,
     "__dlpack_device__()\n--\n\nReturns (1, 0), which means CPU memory."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"shape", get_shape, NULL, "The shape.", NULL},
    {"strides", get_strides, NULL, "The strides, in elements.", NULL},
    {"dtype", get_dtype, NULL, "The name of the dtype, such as \"f32\".", NULL},
    {"ndim", get_ndim, NULL, "The number of dims.", NULL},
    {"size", get_size, NULL, "The number of elements.", NULL},
    {"nbytes", get_nbytes, NULL, "The size of all elements in bytes.", NULL},
    {"address", get_address, NULL, "The address of the first element.", NULL},
    {"readonly", get_readonly, NULL, "True if the array is read-only.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, array_new},
    {Py_tp_dealloc, array_dealloc},
    {Py_tp_repr, array_repr},
    {Py_sq_length, array_length},
    {Py_bf_getbuffer, array_getbuffer},
    {Py_bf_releasebuffer, array_releasebuffer},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_doc,
     "Array(object, dtype=None)\n--\n\nAn array of this process, without a copy of its elements.\n\n"
     "np.asarray(a), torch.from_dlpack(a) and memoryview(a) share its memory.  If NumPy lacks a dtype\n"
     "(bf16, f8e4m3, f8e5m2), the buffer has unsigned integers of the same size; numpy() uses ml_dtypes if it is\n"
     "installed."},
    {0, NULL},
};

static PyType_Spec spec = {"reshard.Array", sizeof(py_array), 0, Py_TPFLAGS_DEFAULT, slots};

int py_array_add(PyObject *module) {
    py_array_type = py_type_add(module, &spec);
    return py_array_type ? 0 : -1;
}
