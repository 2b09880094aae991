/* Move: runs a whole plan in one process that has the parts of all ranks. */
#include "py_plan.h"

#include <string.h>

/* All parts of all tensors on one side of a plan, ordered by rank. */
typedef struct all_parts {
    int64_t n;
    rsh_tensor **tensors; /* [n], owned */
    rsh_memory *memory;   /* [n] */
} all_parts;

static void parts_free(all_parts *parts) {
    for (int64_t i = 0; parts->tensors && i < parts->n; i++) rsh_tensor_free(parts->tensors[i]);
    PyMem_Free(parts->tensors);
    PyMem_Free(parts->memory);
    *parts = (all_parts){0};
}

static int64_t count_parts(const rsh_layout *l) {
    int64_t n = 0;
    for (int64_t i = 0; i < rsh_layout_nranks(l); i++) n += rsh_layout_nparts(l, rsh_layout_rank(l, i));
    return n;
}

static int parts_room(all_parts *parts, int64_t n) {
    *parts = (all_parts){.n = n};
    parts->tensors = PyMem_Calloc((size_t)n + 1, sizeof(rsh_tensor *));
    parts->memory = PyMem_Calloc((size_t)n + 1, sizeof(rsh_memory));
    if (parts->tensors && parts->memory) return 0;
    parts_free(parts);
    PyErr_NoMemory();
    return -1;
}

static void set_part(all_parts *parts, int64_t i, rsh_tensor *t) {
    parts->tensors[i] = t;
    parts->memory[i] = (rsh_memory){rsh_tensor_data(t), rsh_tensor_strides(t)};
}

/* ---- parts of the caller ---- */

int py_part_check(const rsh_layout *l, int64_t rank, int64_t part, const rsh_tensor *t) {
    rsh_part expected;
    if (py_check(rsh_layout_part(l, rank, part, &expected))) return -1;
    bool same = rsh_tensor_ndim(t) == expected.ndim;
    for (int d = 0; same && d < expected.ndim; d++) same = rsh_tensor_shape(t)[d] == expected.shape[d];
    if (same) return 0;
    PyObject *want = py_ints(expected.ndim, expected.shape), *got = py_ints(rsh_tensor_ndim(t), rsh_tensor_shape(t));
    if (want && got)
        PyErr_Format(PyExc_ValueError, "part %lld of rank %lld must have shape %S, got %S", (long long)part,
                     (long long)rank, want, got);
    Py_XDECREF(want);
    Py_XDECREF(got);
    return -1;
}

/* `object` is the array of a rank's only part, or a list of arrays. */
PyObject *py_part_of(PyObject *object, int64_t nparts, int64_t part) {
    bool list = PyList_Check(object) || PyTuple_Check(object);
    if (!list && nparts == 1) return Py_NewRef(object);
    if (list && PySequence_Size(object) == nparts) return PySequence_GetItem(object, (Py_ssize_t)part);
    if (list)
        PyErr_Format(PyExc_ValueError, "expected %lld arrays (one per part), got %zd", (long long)nparts,
                     PySequence_Size(object));
    else
        PyErr_Format(PyExc_ValueError, "expected a list of %lld arrays (one per part), got %R", (long long)nparts,
                     (PyObject *)Py_TYPE(object));
    return NULL;
}

static int read_rank(const rsh_layout *l, int64_t rank, PyObject *object, bool writable, all_parts *parts,
                     int64_t first) {
    int64_t nparts = rsh_layout_nparts(l, rank);
    for (int64_t i = 0; i < nparts; i++) {
        PyObject *array = py_part_of(object, nparts, i);
        rsh_tensor *t = array ? py_import(array, rsh_layout_dtype(l), writable, NULL) : NULL;
        Py_XDECREF(array);
        if (!t) return -1;
        set_part(parts, first + i, t);
        if (py_part_check(l, rank, i, t)) return -1;
    }
    return 0;
}

static PyObject *entry_of_rank(PyObject *list, const rsh_layout *l, int64_t i) {
    int64_t rank = rsh_layout_rank(l, i);
    if (!PyDict_Check(list)) return PySequence_GetItem(list, (Py_ssize_t)i);
    PyObject *key = PyLong_FromLongLong(rank);
    PyObject *entry = key ? PyObject_GetItem(list, key) : NULL;
    Py_XDECREF(key);
    return entry;
}

static int read_parts(const rsh_layout *l, PyObject *list, bool writable, all_parts *parts) {
    Py_ssize_t n = PyObject_Size(list);
    if (n < 0) return -1;
    if (n != rsh_layout_nranks(l)) {
        PyErr_Format(PyExc_ValueError, "expected parts of %lld ranks, got %zd", (long long)rsh_layout_nranks(l), n);
        return -1;
    }
    if (parts_room(parts, count_parts(l))) return -1;
    int64_t place = 0;
    for (int64_t i = 0; i < n; i++) {
        PyObject *entry = entry_of_rank(list, l, i);
        int64_t rank = rsh_layout_rank(l, i);
        int failed = !entry || read_rank(l, rank, entry, writable, parts, place);
        Py_XDECREF(entry);
        if (failed) {
            parts_free(parts);
            return -1;
        }
        place += rsh_layout_nparts(l, rank);
    }
    return 0;
}

/* ---- new parts ---- */

static rsh_tensor *new_part(const rsh_layout *l, int64_t rank, int64_t part) {
    rsh_part p;
    rsh_tensor *dense = NULL, *t = NULL;
    rsh_status st = rsh_layout_part(l, rank, part, &p);
    if (!st) st = rsh_tensor_empty(rsh_layout_dtype(l), 1, &p.count, &dense);
    if (!st) st = rsh_tensor_view(dense, 0, p.ndim, p.shape, p.strides, &t);
    rsh_tensor_free(dense);
    if (st) py_raise(st);
    return t;
}

static int make_parts(const rsh_layout *l, all_parts *parts) {
    int64_t place = 0;
    if (parts_room(parts, count_parts(l))) return -1;
    for (int64_t i = 0; i < rsh_layout_nranks(l); i++)
        for (int64_t k = 0; k < rsh_layout_nparts(l, rsh_layout_rank(l, i)); k++) {
            rsh_tensor *t = new_part(l, rsh_layout_rank(l, i), k);
            if (!t) {
                parts_free(parts);
                return -1;
            }
            set_part(parts, place++, t);
        }
    return 0;
}

static PyObject *list_rank(const rsh_layout *l, int64_t rank, all_parts *parts, int64_t first) {
    int64_t n = rsh_layout_nparts(l, rank);
    PyObject *list = n == 1 ? NULL : PyList_New(0);
    for (int64_t k = 0; k < n; k++) {
        rsh_tensor *t = parts->tensors[first + k];
        parts->tensors[first + k] = NULL;
        PyObject *array = py_array_wrap(t, rsh_layout_dtype(l), false);
        if (n == 1) return array;
        if (!array || !list || PyList_Append(list, array)) Py_CLEAR(list);
        Py_XDECREF(array);
    }
    return list;
}

static PyObject *list_parts(const rsh_layout *l, all_parts *parts) {
    PyObject *list = PyList_New(0);
    int64_t place = 0;
    for (int64_t i = 0; list && i < rsh_layout_nranks(l); i++) {
        int64_t rank = rsh_layout_rank(l, i);
        PyObject *entry = list_rank(l, rank, parts, place);
        if (!entry || PyList_Append(list, entry)) Py_CLEAR(list);
        Py_XDECREF(entry);
        place += rsh_layout_nparts(l, rank);
    }
    return list;
}

/* ---- the move ---- */

static rsh_status run_plan(const rsh_plan *p, int threads, const all_parts *from, const all_parts *to) {
    rsh_pool *pool = NULL;
    rsh_status st = threads == 1 ? RSH_OK : rsh_pool_new(threads, &pool);
    if (!st) st = rsh_plan_run_local(p, pool, from->memory, to->memory);
    rsh_pool_free(pool);
    return st;
}

static PyObject *move_into(const rsh_plan *p, const all_parts *from, PyObject *out, int threads) {
    const rsh_layout *target = rsh_plan_to(p, 0);
    all_parts to;
    rsh_status st;
    if (out == Py_None ? make_parts(target, &to) : read_parts(target, out, true, &to)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = run_plan(p, threads, from, &to);
    Py_END_ALLOW_THREADS
    PyObject *result = st ? py_raise(st) : out == Py_None ? list_parts(target, &to) : Py_NewRef(out);
    parts_free(&to);
    return result;
}

static PyObject *move(PyObject *module, PyObject *args) {
    PyObject *plan, *parts, *out;
    all_parts from;
    int threads;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!OOi:_move", py_plan_type, &plan, &parts, &out, &threads)) return NULL;
    const rsh_plan *p = ((py_plan *)plan)->p;
    if (rsh_plan_ntensors(p) != 1)
        return PyErr_Format(PyExc_ValueError, "move: the plan must have 1 tensor, got %lld",
                            (long long)rsh_plan_ntensors(p));
    if (read_parts(rsh_plan_from(p, 0), parts, false, &from)) return NULL;
    PyObject *result = move_into(p, &from, out, threads);
    parts_free(&from);
    return result;
}

static PyObject *empty_parts(PyObject *module, PyObject *arg) {
    rsh_layout *l = py_layout_from(arg);
    all_parts parts;
    (void)module;
    PyObject *list = l && !make_parts(l, &parts) ? list_parts(l, &parts) : NULL;
    if (list) parts_free(&parts);
    rsh_layout_free(l);
    return list;
}

/* Computes the digest of a tensor whose parts are all in this process. */
static PyObject *digest_parts(PyObject *module, PyObject *args) {
    PyObject *layout, *list;
    all_parts parts;
    rsh_digest digest;
    char text[RSH_DIGEST_TEXT];
    rsh_status st;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O:_digest_parts", py_layout_type, &layout, &list)) return NULL;
    const rsh_layout *l = ((py_layout *)layout)->l;
    if (read_parts(l, list, false, &parts)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = rsh_digest_local(l, parts.memory, &digest);
    Py_END_ALLOW_THREADS
    parts_free(&parts);
    if (st) return py_raise(st);
    rsh_digest_text(digest, text);
    return PyUnicode_FromString(text);
}

static PyMethodDef functions[] = {
    {"_move", move, METH_VARARGS, NULL},
    {"_empty_parts", empty_parts, METH_O, NULL},
    {"_digest_parts", digest_parts, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int py_move_add(PyObject *module) { return PyModule_AddFunctions(module, functions); }
