/* Layout: wraps rsh_layout as a Python value. */
#include "py_module.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *py_layout_type;

static const rsh_layout *get(PyObject *self) { return ((py_layout *)self)->l; }

PyObject *py_layout_wrap(rsh_layout *l) {
    py_layout *self = l ? py_object_new(py_layout_type) : NULL;
    if (self)
        self->l = l;
    else
        rsh_layout_free(l);
    return (PyObject *)self;
}

static rsh_layout *parse(PyObject *text) {
    const char *bytes = PyUnicode_AsUTF8AndSize(text, NULL);
    rsh_layout *l = NULL;
    if (!bytes) return NULL;
    rsh_status st;
    Py_BEGIN_ALLOW_THREADS
    st = rsh_layout_parse(bytes, &l);
    Py_END_ALLOW_THREADS
    py_check(st);
    return l;
}

rsh_layout *py_layout_from(PyObject *object) {
    if (PyObject_TypeCheck(object, py_layout_type)) return rsh_layout_hold(get(object));
    if (PyUnicode_Check(object)) return parse(object);
    PyErr_Format(PyExc_TypeError, "layout must be a reshard.Layout or a text, got %R", (PyObject *)Py_TYPE(object));
    return NULL;
}

static PyObject *layout_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"text", NULL};
    PyObject *text;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:Layout", names, &text)) return NULL;
    if (PyObject_TypeCheck(text, py_layout_type)) return Py_NewRef(text);
    return py_layout_wrap(py_layout_from(text));
}

static void layout_dealloc(PyObject *self) {
    rsh_layout_free(((py_layout *)self)->l);
    py_object_free(self);
}

static PyObject *layout_whole(PyObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"dtype", "shape", "rank", NULL};
    PyObject *dtype_object, *sequence;
    long long rank = 0;
    int64_t shape[RSH_MAX_NDIM];
    rsh_layout *l = NULL;
    rsh_dtype dtype;
    int ndim;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|L:whole", names, &dtype_object, &sequence, &rank)) return NULL;
    if (py_dtype_from(dtype_object, &dtype) || py_ints_from(sequence, RSH_MAX_NDIM, shape, &ndim)) return NULL;
    if (py_check(rsh_layout_whole(dtype, ndim, shape, rank, &l))) return NULL;
    return py_layout_wrap(l);
}

/* Parses a mesh for the text of a form: "tp=4" or "dp=2,tp=4@0-7", as after "on". */
static int parse_mesh(const char *mesh, rsh_layout **out) {
    PyObject *text = PyUnicode_FromFormat("u8[1] on %s", mesh);
    *out = text ? parse(text) : NULL;
    Py_XDECREF(text);
    return *out ? 0 : -1;
}

static PyObject *fill_form(const char *text, const rsh_layout *mesh, rsh_dtype dtype, int ndim, const int64_t *shape) {
    rsh_form *form = NULL;
    rsh_layout *l = NULL;
    rsh_status st = rsh_form_parse(text, mesh ? rsh_layout_describe(mesh) : NULL, NULL, &form);
    if (!st) st = rsh_form_fill(form, dtype, ndim, shape, NULL, &l);
    rsh_form_free(form);
    return st ? py_raise(st) : py_layout_wrap(l);
}

static PyObject *layout_from_form(PyObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"form", "dtype", "shape", "mesh", NULL};
    PyObject *dtype_object, *sequence, *result;
    const char *text, *mesh_text = NULL;
    int64_t shape[RSH_MAX_NDIM];
    rsh_layout *mesh = NULL;
    rsh_dtype dtype;
    int ndim;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sOO|z:from_form", names, &text, &dtype_object, &sequence,
                                     &mesh_text))
        return NULL;
    if (py_dtype_from(dtype_object, &dtype) || py_ints_from(sequence, RSH_MAX_NDIM, shape, &ndim)) return NULL;
    if (mesh_text && parse_mesh(mesh_text, &mesh)) return NULL;
    result = fill_form(text, mesh, dtype, ndim, shape);
    rsh_layout_free(mesh);
    return result;
}

/* ---- comparing and pickling ---- */

static PyObject *layout_str(PyObject *self) { return PyUnicode_FromString(rsh_layout_text(get(self))); }

static PyObject *layout_repr(PyObject *self) {
    return PyUnicode_FromFormat("reshard.Layout('%s')", rsh_layout_text(get(self)));
}

static Py_hash_t layout_hash(PyObject *self) {
    Py_hash_t hash = (Py_hash_t)rsh_layout_hash(get(self));
    return hash == -1 ? -2 : hash;
}

static PyObject *layout_compare(PyObject *self, PyObject *other, int op) {
    if ((op != Py_EQ && op != Py_NE) || !PyObject_TypeCheck(other, py_layout_type)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong(rsh_layout_equal(get(self), get(other)) == (op == Py_EQ));
}

static PyObject *layout_reduce(PyObject *self, PyObject *none) {
    (void)none;
    return Py_BuildValue("O(s)", (PyObject *)py_layout_type, rsh_layout_text(get(self)));
}

/* ---- getters ---- */

static PyObject *get_shape(PyObject *self, void *none) {
    (void)none;
    return py_ints(rsh_layout_ndim(get(self)), rsh_layout_shape(get(self)));
}

static PyObject *get_dtype(PyObject *self, void *none) {
    (void)none;
    return py_dtype_object(rsh_layout_dtype(get(self)));
}

static PyObject *get_ndim(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromLong(rsh_layout_ndim(get(self)));
}

static PyObject *get_count(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromLongLong(rsh_layout_count(get(self)));
}

static PyObject *get_op(PyObject *self, void *none) {
    (void)none;
    rsh_op op = rsh_layout_op(get(self));
    if (op == RSH_OP_NONE) Py_RETURN_NONE;
    return PyUnicode_FromString(rsh_op_name(op));
}

static PyObject *get_ranks(PyObject *self, void *none) {
    int64_t n = rsh_layout_nranks(get(self));
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    (void)none;
    for (int64_t i = 0; tuple && i < n; i++) {
        PyObject *rank = PyLong_FromLongLong(rsh_layout_rank(get(self), i));
        if (!rank || PyTuple_SetItem(tuple, (Py_ssize_t)i, rank)) Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *get_axes(PyObject *self, void *none) {
    const rsh_layout_desc *desc = rsh_layout_describe(get(self));
    PyObject *axes = PyDict_New();
    (void)none;
    for (int i = 0; axes && !desc->is_boxes && i < desc->naxes; i++) {
        PyObject *size = PyLong_FromLongLong(desc->axis[i].size);
        if (!size || PyDict_SetItemString(axes, desc->axis[i].name, size)) Py_CLEAR(axes);
        Py_XDECREF(size);
    }
    return axes;
}

static PyObject *get_text(PyObject *self, void *none) {
    (void)none;
    return layout_str(self);
}

/* ---- methods ---- */

static PyObject *layout_nparts(PyObject *self, PyObject *arg) {
    long long rank = PyLong_AsLongLong(arg);
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromLongLong(rsh_layout_nparts(get(self), rank));
}

static int read_rank_and_part(PyObject *args, PyObject *keywords, const char *format, long long *rank,
                              long long *part) {
    static char *names[] = {"rank", "part", NULL};
    *part = 0;
    return PyArg_ParseTupleAndKeywords(args, keywords, format, names, rank, part) ? 0 : -1;
}

static PyObject *layout_part_shape(PyObject *self, PyObject *args, PyObject *keywords) {
    long long rank, part;
    rsh_part found;
    if (read_rank_and_part(args, keywords, "L|L:part_shape", &rank, &part)) return NULL;
    if (py_check(rsh_layout_part(get(self), rank, part, &found))) return NULL;
    return py_ints(found.ndim, found.shape);
}

static PyObject *layout_part_strides(PyObject *self, PyObject *args, PyObject *keywords) {
    long long rank, part;
    rsh_part found;
    if (read_rank_and_part(args, keywords, "L|L:part_strides", &rank, &part)) return NULL;
    if (py_check(rsh_layout_part(get(self), rank, part, &found))) return NULL;
    return py_ints(found.ndim, found.strides);
}

typedef struct box_numbers {
    py_numbers list; /* lo, hi, offset and strides of each box */
    int ndim;
} box_numbers;

static int push_box(void *ctx, const rsh_box *box, int64_t offset, const int64_t *strides) {
    box_numbers *boxes = ctx;
    return py_numbers_push(&boxes->list, boxes->ndim, box->lo) || py_numbers_push(&boxes->list, boxes->ndim, box->hi) ||
           py_numbers_push(&boxes->list, 1, &offset) || py_numbers_push(&boxes->list, boxes->ndim, strides);
}

static PyObject *box_object(int n, const int64_t *at) {
    return Py_BuildValue("(NNLN)", py_ints(n, at), py_ints(n, at + n), (long long)at[2 * n],
                         py_ints(n, at + 2 * n + 1));
}

static PyObject *range_object(int none, const int64_t *at) {
    (void)none;
    return py_ints(2, at);
}

/* Creates a list with an object for each `width` numbers; frees the numbers. */
static PyObject *list_of(py_numbers *list, rsh_status st, size_t width, int n,
                         PyObject *(*make)(int n, const int64_t *at)) {
    PyObject *result = st ? py_raise(st) : list->failed ? PyErr_NoMemory() : PyList_New(0);
    for (size_t i = 0; result && i < list->n; i += width) {
        PyObject *entry = make(n, list->values + i);
        if (!entry || PyList_Append(result, entry)) Py_CLEAR(result);
        Py_XDECREF(entry);
    }
    free(list->values);
    return result;
}

static PyObject *layout_boxes(PyObject *self, PyObject *args, PyObject *keywords) {
    long long rank, part;
    rsh_status st;
    if (read_rank_and_part(args, keywords, "L|L:boxes", &rank, &part)) return NULL;
    box_numbers boxes = {.ndim = rsh_layout_ndim(get(self))};
    Py_BEGIN_ALLOW_THREADS
    st = rsh_layout_each_box(get(self), rank, part, push_box, &boxes);
    Py_END_ALLOW_THREADS
    return list_of(&boxes.list, st, 3 * (size_t)boxes.ndim + 1, boxes.ndim, box_object);
}

static int push_range(void *list, int64_t lo, int64_t hi) {
    return py_numbers_push(list, 2, (const int64_t[]){lo, hi});
}

static PyObject *layout_ranges(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"rank", "dim", "part", NULL};
    long long rank, part = 0;
    int dim;
    py_numbers list = {0};
    rsh_status st;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "Li|L:ranges", names, &rank, &dim, &part)) return NULL;
    if (dim < 0) dim += rsh_layout_ndim(get(self));
    Py_BEGIN_ALLOW_THREADS
    st = rsh_layout_each_range(get(self), rank, part, dim, push_range, &list);
    Py_END_ALLOW_THREADS
    return list_of(&list, st, 2, 0, range_object);
}

static PyObject *layout_local_offset(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"rank", "index", "part", NULL};
    long long rank, part = 0;
    int64_t index[RSH_MAX_NDIM], offset;
    PyObject *sequence;
    int n;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "LO|L:local_offset", names, &rank, &sequence, &part)) return NULL;
    if (py_ints_from(sequence, RSH_MAX_NDIM, index, &n)) return NULL;
    if (n != rsh_layout_ndim(get(self))) {
        PyErr_Format(PyExc_ValueError, "index must have %d numbers, got %d", rsh_layout_ndim(get(self)), n);
        return NULL;
    }
    if (py_check(rsh_layout_local_offset(get(self), rank, part, index, &offset))) return NULL;
    return PyLong_FromLongLong(offset);
}

static PyObject *layout_global_index(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"rank", "offset", "part", NULL};
    long long rank, offset, part = 0;
    int64_t index[RSH_MAX_NDIM];
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "LL|L:global_index", names, &rank, &offset, &part)) return NULL;
    if (py_check(rsh_layout_global_index(get(self), rank, part, offset, index))) return NULL;
    return py_ints(rsh_layout_ndim(get(self)), index);
}

static PyObject *layout_same_parts(PyObject *self, PyObject *other) {
    rsh_layout *l = py_layout_from(other);
    if (!l) return NULL;
    bool same;
    Py_BEGIN_ALLOW_THREADS
    same = rsh_layout_same_parts(get(self), l);
    Py_END_ALLOW_THREADS
    rsh_layout_free(l);
    return PyBool_FromLong(same);
}

static PyObject *layout_draw(PyObject *self, PyObject *args) {
    int form;
    py_text text;
    rsh_status st;
    if (!PyArg_ParseTuple(args, "i:_draw", &form)) return NULL;
    rsh_sink sink = py_text_sink(&text);
    Py_BEGIN_ALLOW_THREADS
    st = rsh_draw_layout(get(self), (rsh_picture_format)form, &sink);
    Py_END_ALLOW_THREADS
    return py_text_finish(&text, st);
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS

static PyMethodDef methods[] = {
    {"whole", KEYWORDS(layout_whole) | METH_STATIC,
     "whole(dtype, shape, rank=0)\n--\n\nReturns the layout of a whole tensor, dense and row-major, on one rank."},
    {"from_form", KEYWORDS(layout_from_form) | METH_STATIC,
     "from_form(form, dtype, shape, mesh=None)\n--\n\n"
     "Completes a layout form such as \"[_/tp, _]\" for a tensor of this dtype and shape.\n"
     "mesh is the text after \"on\", for forms without one: \"tp=4\"."},
    {"nparts", layout_nparts, METH_O, "nparts(rank)\n--\n\nReturns the number of parts of the rank."},
    {"part_shape", KEYWORDS(layout_part_shape),
     "part_shape(rank, part=0)\n--\n\nReturns the local shape of a part.  Parts of a flat layout are 1-D."},
    {"part_strides", KEYWORDS(layout_part_strides),
     "part_strides(rank, part=0)\n--\n\nReturns the strides of a dense part, in elements."},
    {"boxes", KEYWORDS(layout_boxes),
     "boxes(rank, part=0)\n--\n\nReturns the boxes of the global tensor that make up a part: a list of\n"
     "(lo, hi, offset, strides), where offset and strides give the position of the box in the dense part."},
    {"ranges", KEYWORDS(layout_ranges),
     "ranges(rank, dim, part=0)\n--\n\nReturns the global indices of one dim of a part, as a list of half-open "
     "ranges."},
    {"local_offset", KEYWORDS(layout_local_offset),
     "local_offset(rank, index, part=0)\n--\n\nReturns the offset of a global index in the dense part.  KeyError if "
     "the part\n"
     "does not hold it."},
    {"global_index", KEYWORDS(layout_global_index),
     "global_index(rank, offset, part=0)\n--\n\nReturns the global index of an element of the dense part."},
    {"same_parts", layout_same_parts, METH_O,
     "same_parts(other)\n--\n\nReturns whether every rank holds the same elements in the same order in both layouts."},
    {"_draw", layout_draw, METH_VARARGS, NULL},
    {"__reduce__", layout_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"text", get_text, NULL, "The canonical text, which can be parsed to an equal layout.", NULL},
    {"shape", get_shape, NULL, "The global shape.", NULL},
    {"ndim", get_ndim, NULL, "The number of dims.", NULL},
    {"dtype", get_dtype, NULL, "The name of the dtype, such as \"f32\".", NULL},
    {"size", get_count, NULL, "The number of elements of the global tensor.", NULL},
    {"ranks", get_ranks, NULL, "The ranks of the layout, ascending.", NULL},
    {"axes", get_axes, NULL, "The axes of the mesh and their sizes, as a dict; empty for boxes.", NULL},
    {"partial", get_op, NULL, "The op that combines partial values, such as \"sum\"; None if it is not partial.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, layout_new},
    {Py_tp_dealloc, layout_dealloc},
    {Py_tp_repr, layout_repr},
    {Py_tp_str, layout_str},
    {Py_tp_hash, layout_hash},
    {Py_tp_richcompare, layout_compare},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_doc, "Layout(text)\n--\n\nWhich rank holds which part of a tensor: \"f32[4096/tp, 11008] on dp=2,tp=4\".\n\n"
                "Layouts are immutable, hashable, comparable and picklable."},
    {0, NULL},
};

static PyType_Spec spec = {"reshard.Layout", sizeof(py_layout), 0, Py_TPFLAGS_DEFAULT, slots};

int py_layout_add(PyObject *module) {
    py_layout_type = py_type_add(module, &spec);
    return py_layout_type ? 0 : -1;
}
