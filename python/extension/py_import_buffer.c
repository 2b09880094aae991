/* Import by the buffer protocol and by __array_interface__. */
#include "py_import.h"

#include <stdlib.h>
#include <string.h>

/* ---- the buffer protocol ---- */

/* Converts a format letter of the struct module, in native byte order; integers are distinguished by size. */
static bool dtype_of_format(const char *format, Py_ssize_t itemsize, rsh_dtype *out) {
    static const rsh_dtype ints[] = {RSH_I8, RSH_I16, RSH_I32, RSH_I64}, uints[] = {RSH_U8, RSH_U16, RSH_U32, RSH_U64};
    int size = itemsize == 1 ? 0 : itemsize == 2 ? 1 : itemsize == 4 ? 2 : itemsize == 8 ? 3 : -1;
    if (!format) format = "B";
    if (*format == '@' || *format == '=' || *format == '<') format++;
    if (!strcmp(format, "Zf")) return *out = RSH_C64, true;
    if (!strcmp(format, "Zd")) return *out = RSH_C128, true;
    if (!*format || format[1]) return false;
    switch (*format) {
    case '?': return *out = RSH_BOOL, true;
    case 'e': return *out = RSH_F16, true;
    case 'f': return *out = RSH_F32, true;
    case 'd': return *out = RSH_F64, true;
    case 'c': return *out = RSH_U8, true;
    }
    if (size >= 0 && strchr("bhilqn", *format)) return *out = ints[size], true;
    if (size >= 0 && strchr("BHILQN", *format)) return *out = uints[size], true;
    return false;
}

static void release_buffer(void *owner) {
    PyBuffer_Release(owner);
    PyMem_Free(owner);
}

/* Returns 1 if the elements have a dtype of reshard. */
static int read_buffer(const Py_buffer *b, py_foreign *out) {
    int64_t strides[RSH_MAX_NDIM];
    if (!dtype_of_format(b->format, b->itemsize, &out->dtype)) return 0;
    if (py_check_ndim(b->ndim)) return -1;
    out->data = b->buf;
    out->ndim = b->ndim;
    out->readonly = b->readonly;
    for (int d = 0; d < b->ndim; d++) {
        out->shape[d] = b->shape[d];
        strides[d] = b->strides[d];
    }
    return py_strides_of_bytes(out, strides, (size_t)b->itemsize) ? -1 : 1;
}

int py_import_buffer(PyObject *object, py_foreign *out) {
    if (!PyObject_CheckBuffer(object)) return 0;
    Py_buffer *b = PyMem_Calloc(1, sizeof *b);
    if (!b) {
        PyErr_NoMemory();
        return -1;
    }
    if (PyObject_GetBuffer(object, b, PyBUF_STRIDES | PyBUF_FORMAT)) {
        PyMem_Free(b);
        PyErr_Clear(); /* NumPy has no buffer format for some dtypes, but other protocols may have one */
        return 0;
    }
    int found = read_buffer(b, out);
    if (found == 1) {
        out->release = release_buffer;
        out->owner = b;
    } else
        release_buffer(b);
    return found;
}

/* ---- __array_interface__ ---- */

static void release_object(void *owner) { Py_DECREF((PyObject *)owner); }

static bool dtype_of_letter(char letter, int size, rsh_dtype *out) {
    const char formats[] = {letter == 'i' ? 'q' : letter == 'u' ? 'Q' : '?', 0};
    if (letter == 'i' || letter == 'u') return dtype_of_format(formats, size, out);
    if (letter == 'b' && size == 1) return *out = RSH_BOOL, true;
    if (letter == 'f' && size == 2) return *out = RSH_F16, true;
    if (letter == 'f' && size == 4) return *out = RSH_F32, true;
    if (letter == 'f' && size == 8) return *out = RSH_F64, true;
    if (letter == 'c' && size == 8) return *out = RSH_C64, true;
    if (letter == 'c' && size == 16) return *out = RSH_C128, true;
    return false;
}

/* Reads "<f4", or "<V2" with the name in the object's dtype (ml_dtypes).  Returns 1 if it is a dtype of reshard. */
static int read_typestr(PyObject *object, PyObject *interface, rsh_dtype *out, int *size) {
    PyObject *value = PyDict_GetItemString(interface, "typestr");
    const char *text = value && PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
    if (!text || strlen(text) < 3 || (*text != '<' && *text != '|' && *text != '=')) return 0;
    *size = atoi(text + 2);
    if (dtype_of_letter(text[1], *size, out)) return 1;
    PyObject *dtype = PyObject_GetAttrString(object, "dtype");
    bool named = dtype && !py_dtype_from(dtype, out);
    Py_XDECREF(dtype);
    PyErr_Clear();
    return named && rsh_dtype_size(*out) == (size_t)*size;
}

static int read_strides(PyObject *interface, py_foreign *out, int size) {
    PyObject *value = PyDict_GetItemString(interface, "strides");
    int64_t strides[RSH_MAX_NDIM];
    int n;
    if (!value || value == Py_None) {
        py_strides_dense(out);
        return 0;
    }
    if (py_ints_from(value, RSH_MAX_NDIM, strides, &n)) return -1;
    return py_strides_of_bytes(out, strides, (size_t)size);
}

static int read_interface(PyObject *object, PyObject *interface, py_foreign *out) {
    PyObject *shape = PyDict_GetItemString(interface, "shape"), *data = PyDict_GetItemString(interface, "data");
    int size, found = read_typestr(object, interface, &out->dtype, &size);
    if (found != 1) return found;
    if (!shape || !data || !PyTuple_Check(data) || PyTuple_Size(data) != 2) return 0;
    if (py_check_ndim(PySequence_Size(shape)) || py_ints_from(shape, RSH_MAX_NDIM, out->shape, &out->ndim)) return -1;
    out->data = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
    out->readonly = PyObject_IsTrue(PyTuple_GetItem(data, 1));
    return PyErr_Occurred() || read_strides(interface, out, size) ? -1 : 1;
}

int py_import_interface(PyObject *object, py_foreign *out) {
    PyObject *interface = PyObject_GetAttrString(object, "__array_interface__");
    if (!interface) {
        PyErr_Clear();
        return 0;
    }
    int found = PyDict_Check(interface) ? read_interface(object, interface, out) : 0;
    if (found == 1) {
        out->release = release_object;
        out->owner = Py_NewRef(object);
    }
    Py_DECREF(interface);
    return found;
}
