/* Import by DLPack: the exchange table of a type, and capsules with and without a version. */
#include "py_import.h"

#include "dlpack_abi.h"

/* ---- reading the struct ---- */

typedef struct element_kind {
    int code, bits;
    rsh_dtype dtype;
} element_kind;

static const element_kind kinds[] = {
    {DLPACK_BOOL, 8, RSH_BOOL},    {DLPACK_UINT, 8, RSH_U8},         {DLPACK_INT, 8, RSH_I8},
    {DLPACK_UINT, 16, RSH_U16},    {DLPACK_INT, 16, RSH_I16},        {DLPACK_UINT, 32, RSH_U32},
    {DLPACK_INT, 32, RSH_I32},     {DLPACK_UINT, 64, RSH_U64},       {DLPACK_INT, 64, RSH_I64},
    {DLPACK_FLOAT, 16, RSH_F16},   {DLPACK_BFLOAT, 16, RSH_BF16},    {DLPACK_FLOAT, 32, RSH_F32},
    {DLPACK_FLOAT, 64, RSH_F64},   {DLPACK_F8E4M3FN, 8, RSH_F8E4M3}, {DLPACK_F8E5M2, 8, RSH_F8E5M2},
    {DLPACK_COMPLEX, 64, RSH_C64}, {DLPACK_COMPLEX, 128, RSH_C128},
};

static int read_element(const dlpack_tensor *t, rsh_dtype *out) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].code == t->code && kinds[i].bits == t->bits && t->lanes == 1) {
            *out = kinds[i].dtype;
            return 0;
        }
    PyErr_Format(PyExc_TypeError,
                 "array has elements of DLPack code %d with %d bits and %d lanes, which reshard does not support",
                 t->code, t->bits, t->lanes);
    return -1;
}

static int check_device(int type) {
    if (type == DLPACK_CPU || type == DLPACK_CUDA_HOST || type == DLPACK_ROCM_HOST) return 0;
    PyErr_Format(PyExc_NotImplementedError,
                 "array is on DLPack device type %d, but reshard supports only CPU memory; copy it to the CPU "
                 "first",
                 type);
    return -1;
}

static int read_tensor(const dlpack_tensor *t, bool readonly, py_foreign *out) {
    if (check_device(t->device_type) || read_element(t, &out->dtype) || py_check_ndim(t->ndim)) return -1;
    out->data = t->data ? (char *)t->data + t->byte_offset : NULL;
    out->ndim = t->ndim;
    out->readonly = readonly;
    for (int d = 0; d < t->ndim; d++) out->shape[d] = t->shape[d];
    if (!t->strides) py_strides_dense(out);
    for (int d = 0; t->strides && d < t->ndim; d++) out->strides[d] = t->strides[d];
    return 0;
}

/* ---- releasing ---- */

static void release_old(void *owner) {
    dlpack_old *managed = owner;
    if (managed->deleter) managed->deleter(managed);
}

static void release_versioned(void *owner) {
    dlpack_versioned *managed = owner;
    if (managed->deleter) managed->deleter(managed);
}

static int take_versioned(dlpack_versioned *managed, py_foreign *out) {
    out->release = release_versioned;
    out->owner = managed;
    if (managed->version.major != DLPACK_MAJOR) {
        PyErr_Format(PyExc_NotImplementedError, "array uses DLPack version %u.%u, expected version 1",
                     managed->version.major, managed->version.minor);
        return -1;
    }
    return read_tensor(&managed->tensor, managed->flags & DLPACK_READ_ONLY, out);
}

static int take_old(dlpack_old *managed, py_foreign *out) {
    out->release = release_old;
    out->owner = managed;
    return read_tensor(&managed->tensor, false, out);
}

/* ---- capsules ---- */

/* Takes a capsule.  A capsule that has been renamed already belongs to another consumer. */
static int take_capsule(PyObject *capsule, py_foreign *out) {
    int failed;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dlpack_versioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (PyCapsule_SetName(capsule, "used_dltensor_versioned")) return -1;
        failed = take_versioned(managed, out);
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        dlpack_old *managed = PyCapsule_GetPointer(capsule, "dltensor");
        if (PyCapsule_SetName(capsule, "used_dltensor")) return -1;
        failed = take_old(managed, out);
    } else {
        PyErr_SetString(PyExc_TypeError, "__dlpack__ must return a DLPack capsule, got another object");
        return -1;
    }
    if (failed) out->release(out->owner);
    return failed ? -1 : 1;
}

/* Checks the device. __dlpack_device__() is called first, because __dlpack__ of another device may start a copy. */
static int check_object_device(PyObject *object) {
    PyObject *pair = PyObject_CallMethod(object, "__dlpack_device__", NULL);
    int type = DLPACK_CPU;
    if (pair && PyTuple_Check(pair) && PyTuple_Size(pair) == 2) {
        PyObject *number = PyNumber_Long(PyTuple_GetItem(pair, 0));
        if (number) type = (int)PyLong_AsLong(number);
        Py_XDECREF(number);
    }
    Py_XDECREF(pair);
    if (PyErr_Occurred()) return -1;
    return check_device(type);
}

/* Requests a capsule.  Producers before version 1 do not support max_version. */
static PyObject *ask_capsule(PyObject *method) {
    PyObject *none = PyTuple_New(0);
    PyObject *keywords = Py_BuildValue("{s:(ii)}", "max_version", DLPACK_MAJOR, DLPACK_MINOR);
    PyObject *capsule = none && keywords ? PyObject_Call(method, none, keywords) : NULL;
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        capsule = PyObject_CallNoArgs(method);
    }
    Py_XDECREF(none);
    Py_XDECREF(keywords);
    return capsule;
}

/* Returns a view of the bytes.  Some versions of PyTorch do not support DLPack for bool and 8-bit floats. */
static PyObject *view_of_bytes(PyObject *object, rsh_dtype *dtype) {
    PyObject *modules = PyImport_GetModuleDict(), *own = PyObject_GetAttrString(object, "dtype");
    PyObject *torch = modules ? PyDict_GetItemString(modules, "torch") : NULL, *view = NULL;
    bool bytes = torch && own && !py_dtype_from(own, dtype) && rsh_dtype_size(*dtype) == 1;
    PyErr_Clear();
    PyObject *unsigned_byte = bytes ? PyObject_GetAttrString(torch, "uint8") : NULL;
    if (unsigned_byte) view = PyObject_CallMethod(object, "view", "O", unsigned_byte);
    PyErr_Clear();
    Py_XDECREF(unsigned_byte);
    Py_XDECREF(own);
    return view;
}

static int import_method(PyObject *object, PyObject *method, py_foreign *out) {
    PyObject *capsule = check_object_device(object) ? NULL : ask_capsule(method);
    if (!capsule) return -1;
    int found = take_capsule(capsule, out);
    Py_DECREF(capsule);
    return found;
}

/* Imports the bytes of an object; if that fails too, raises the first error again. */
static int import_bytes(PyObject *object, py_foreign *out) {
    PyObject *type, *value, *trace;
    rsh_dtype dtype;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *view = view_of_bytes(object, &dtype);
    PyObject *method = view ? PyObject_GetAttrString(view, "__dlpack__") : NULL;
    int found = method ? import_method(view, method, out) : -1;
    Py_XDECREF(method);
    Py_XDECREF(view);
    PyErr_Clear();
    if (found == 1) {
        out->dtype = dtype;
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    } else
        PyErr_Restore(type, value, trace);
    return found;
}

/* Imports by DLPack.  NumPy raises BufferError for some arrays; another protocol may work for these. */
int py_import_dlpack(PyObject *object, py_foreign *out) {
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
    if (!method) {
        PyErr_Clear();
        return 0;
    }
    int found = import_method(object, method, out);
    Py_DECREF(method);
    if (found < 0 && PyErr_ExceptionMatches(PyExc_BufferError)) {
        PyErr_Clear();
        return 0;
    }
    if (found < 0 && PyErr_ExceptionMatches(PyExc_RuntimeError)) return import_bytes(object, out);
    return found;
}

/* ---- the exchange table of a type ---- */

static const dlpack_exchange *find_table(PyObject *capsule) {
    const dlpack_exchange_header *header = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    while (header && header->version.major > DLPACK_MAJOR) header = header->previous;
    return header && header->version.major == DLPACK_MAJOR ? (const dlpack_exchange *)(const void *)header : NULL;
}

int py_import_exchange(PyObject *object, py_foreign *out) {
    PyObject *capsule = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__dlpack_c_exchange_api__");
    const dlpack_exchange *table = capsule && PyCapsule_CheckExact(capsule) ? find_table(capsule) : NULL;
    dlpack_versioned *managed = NULL;
    Py_XDECREF(capsule);
    if (!table) {
        PyErr_Clear();
        return 0;
    }
    if (table->from_object(object, &managed)) return -1;
    if (!take_versioned(managed, out)) return 1;
    release_versioned(managed);
    return -1;
}
