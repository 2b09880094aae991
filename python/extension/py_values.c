/* Values: converts dtypes, lists of integers and texts between C and Python. */
#include "py_module.h"

#include <stdlib.h>
#include <string.h>

/* ---- dtypes ---- */

typedef struct dtype_name {
    const char *name;
    rsh_dtype dtype;
} dtype_name;

/* Names of NumPy, PyTorch and ml_dtypes; the library knows those of the notation. */
static const dtype_name other_names[] = {
    {"bool_", RSH_BOOL},
    {"uint8", RSH_U8},
    {"int8", RSH_I8},
    {"uint16", RSH_U16},
    {"int16", RSH_I16},
    {"uint32", RSH_U32},
    {"int32", RSH_I32},
    {"uint64", RSH_U64},
    {"int64", RSH_I64},
    {"float16", RSH_F16},
    {"bfloat16", RSH_BF16},
    {"float32", RSH_F32},
    {"float64", RSH_F64},
    {"complex64", RSH_C64},
    {"complex128", RSH_C128},
    {"float8_e4m3fn", RSH_F8E4M3},
    {"float8_e5m2", RSH_F8E5M2},
    {"half", RSH_F16},
    {"float", RSH_F32},
    {"double", RSH_F64},
    {"float8_e8m0fnu", RSH_F8E8M0},
    {"float8_e4m3fnuz", RSH_F8E4M3FNUZ},
    {"float8_e5m2fnuz", RSH_F8E5M2FNUZ},
};

static bool find_dtype(const char *text, rsh_dtype *out) {
    if (!strncmp(text, "torch.", 6)) text += 6;
    if (!rsh_dtype_parse(text, strlen(text), out)) return true;
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (!strcmp(text, other_names[i].name)) {
            *out = other_names[i].dtype;
            return true;
        }
    return false;
}

/* Returns the name of np.float32, np.dtype("float32") or torch.float32: an attribute, or the result of str(). */
static PyObject *name_of(PyObject *object) {
    const char *const attributes[] = {"name", "__name__"};
    for (int i = 0; i < 2; i++) {
        PyObject *name = PyObject_GetAttrString(object, attributes[i]);
        if (name && PyUnicode_Check(name)) return name;
        PyErr_Clear();
        Py_XDECREF(name);
    }
    return PyObject_Str(object);
}

int py_dtype_from(PyObject *object, rsh_dtype *out) {
    PyObject *name = PyUnicode_Check(object) ? Py_NewRef(object) : name_of(object);
    const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    bool found = text && find_dtype(text, out);
    if (text && !found) PyErr_Format(PyExc_TypeError, "dtype must be a name such as \"f32\", got \"%s\"", text);
    Py_XDECREF(name);
    return found ? 0 : -1;
}

PyObject *py_dtype_object(rsh_dtype dtype) { return PyUnicode_FromString(rsh_dtype_name(dtype)); }

/* ---- lists of integers ---- */

PyObject *py_ints(int64_t n, const int64_t *values) {
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (int64_t i = 0; tuple && i < n; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (!value || PyTuple_SetItem(tuple, (Py_ssize_t)i, value)) Py_CLEAR(tuple);
    }
    return tuple;
}

int py_ints_from(PyObject *sequence, int most, int64_t *values, int *n) {
    Py_ssize_t length = PySequence_Size(sequence);
    if (length < 0) return -1;
    if (length > most) {
        PyErr_Format(PyExc_ValueError, "expected at most %d numbers, got %zd", most, length);
        return -1;
    }
    for (Py_ssize_t i = 0; i < length; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        PyObject *number = item ? PyNumber_Index(item) : NULL;
        values[i] = number ? PyLong_AsLongLong(number) : -1;
        Py_XDECREF(item);
        Py_XDECREF(number);
        if (PyErr_Occurred()) return -1;
    }
    *n = (int)length;
    return 0;
}

int py_numbers_push(py_numbers *list, int n, const int64_t *values) {
    if (list->n + (size_t)n > list->room) {
        size_t room = 2 * list->room + 64;
        int64_t *more = realloc(list->values, room * sizeof *more);
        list->failed = !more;
        if (!more) return 1;
        list->values = more;
        list->room = room;
    }
    memcpy(list->values + list->n, values, (size_t)n * sizeof *values);
    list->n += (size_t)n;
    return 0;
}

/* ---- texts from sinks ---- */

static int append_text(void *ctx, const char *bytes, size_t length) {
    py_text *text = ctx;
    if (text->length + length > text->room) {
        size_t room = 2 * (text->length + length) + 256;
        char *more = realloc(text->bytes, room);
        if (!more) return 1;
        text->bytes = more;
        text->room = room;
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    return 0;
}

rsh_sink py_text_sink(py_text *text) {
    *text = (py_text){0};
    return (rsh_sink){append_text, text};
}

PyObject *py_text_finish(py_text *text, rsh_status status) {
    PyObject *result =
        status ? py_raise(status) : PyUnicode_DecodeUTF8(text->bytes, (Py_ssize_t)text->length, "replace");
    free(text->bytes);
    return result;
}
