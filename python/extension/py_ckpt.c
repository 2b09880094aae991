/* An open checkpoint: names, shapes, and boxes of tensors that are read on demand. */
#include "py_ckpt.h"

#include <string.h>

typedef struct py_ckpt {
    PyObject_HEAD
    rsh_ckpt *c; /* owned; NULL: closed */
    int readers; /* number of threads that read from it without the interpreter lock */
} py_ckpt;

PyTypeObject *py_ckpt_type;

const rsh_ckpt *py_ckpt_get(PyObject *object) {
    if (!PyObject_TypeCheck(object, py_ckpt_type)) {
        PyErr_Format(PyExc_TypeError, "expected an open checkpoint, got %R", (PyObject *)Py_TYPE(object));
        return NULL;
    }
    if (!((py_ckpt *)object)->c) PyErr_SetString(PyExc_ValueError, "checkpoint is closed");
    return ((py_ckpt *)object)->c;
}

static PyObject *ckpt_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"path", "rules", NULL};
    PyObject *path = NULL, *rules_object = Py_None, *owner;
    const rsh_ckpt_rules *rules;
    rsh_ckpt *c = NULL;
    rsh_status st;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&|O:open", names, PyUnicode_FSConverter, &path, &rules_object))
        return NULL;
    if (py_rules_from(rules_object, &rules, &owner)) {
        Py_DECREF(path);
        return NULL;
    }
    const char *name = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
    st = rsh_ckpt_open(name, rules, &c);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    Py_XDECREF(owner);
    if (st) return py_raise(st);
    py_ckpt *self = py_object_new(py_ckpt_type);
    if (!self)
        rsh_ckpt_free(c);
    else
        self->c = c;
    return (PyObject *)self;
}

static void ckpt_dealloc(PyObject *self) {
    rsh_ckpt_free(((py_ckpt *)self)->c);
    py_object_free(self);
}

static PyObject *ckpt_close(PyObject *self, PyObject *none) {
    py_ckpt *ckpt = (py_ckpt *)self;
    (void)none;
    if (ckpt->readers) return PyErr_Format(PyExc_RuntimeError, "checkpoint is being read by another thread");
    rsh_ckpt_free(ckpt->c);
    ckpt->c = NULL;
    Py_RETURN_NONE;
}

/* ---- content ---- */

static PyObject *entry_object(int64_t i, const rsh_ckpt_entry *e) {
    PyObject *layout = e->layout ? py_layout_wrap(rsh_layout_hold(e->layout)) : Py_NewRef(Py_None);
    if (!layout) return NULL;
    return Py_BuildValue("(LssNNOKzz)", (long long)i, e->name, rsh_dtype_name(e->dtype), py_ints(e->ndim, e->shape),
                         layout, e->by_rank ? Py_True : Py_False, (unsigned long long)e->bytes, e->digest,
                         e->packing);
}

static PyObject *ckpt_entries(PyObject *self, PyObject *none) {
    const rsh_ckpt *c = py_ckpt_get(self);
    PyObject *list = c ? PyList_New(0) : NULL;
    (void)none;
    for (int64_t i = 0; list && i < rsh_ckpt_ntensors(c); i++) {
        rsh_ckpt_entry e = RSH_CKPT_ENTRY_INIT;
        PyObject *entry = py_check(rsh_ckpt_get_tensor(c, i, &e)) ? NULL : entry_object(i, &e);
        if (!entry || PyList_Append(list, entry)) Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

static PyObject *ckpt_files(PyObject *self, PyObject *none) {
    const rsh_ckpt *c = py_ckpt_get(self);
    PyObject *list = c ? PyList_New(0) : NULL;
    (void)none;
    for (int64_t i = 0; list && i < rsh_ckpt_nfiles(c); i++) {
        const char *name;
        uint64_t bytes;
        PyObject *entry = py_check(rsh_ckpt_get_file(c, i, &name, &bytes))
                              ? NULL
                              : Py_BuildValue("(sK)", name, (unsigned long long)bytes);
        if (!entry || PyList_Append(list, entry)) Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

typedef rsh_status (*pair_fn)(const rsh_ckpt *, int64_t, const char **, const char **);

static PyObject *texts(const rsh_ckpt *c, int64_t n, pair_fn get) {
    PyObject *dict = PyDict_New();
    for (int64_t i = 0; dict && i < n; i++) {
        const char *key, *value;
        PyObject *text = py_check(get(c, i, &key, &value)) ? NULL : PyUnicode_FromString(value);
        if (!text || PyDict_SetItemString(dict, key, text)) Py_CLEAR(dict);
        Py_XDECREF(text);
    }
    return dict;
}

static PyObject *ckpt_metadata(PyObject *self, PyObject *none) {
    const rsh_ckpt *c = py_ckpt_get(self);
    (void)none;
    return c ? texts(c, rsh_ckpt_nmeta(c), rsh_ckpt_get_meta) : NULL;
}

static PyObject *ckpt_non_tensors(PyObject *self, PyObject *none) {
    const rsh_ckpt *c = py_ckpt_get(self);
    (void)none;
    return c ? texts(c, rsh_ckpt_nnon_tensors(c), rsh_ckpt_get_non_tensor) : NULL;
}

static PyObject *ckpt_kind(PyObject *self, PyObject *none) {
    const rsh_ckpt *c = py_ckpt_get(self);
    (void)none;
    return c ? PyUnicode_FromString(rsh_ckpt_kind(c)) : NULL;
}

/* ---- reading ---- */

/* Chooses a dtype for reading: storage-only elements of one byte are read as u8. */
static int stored_dtype(const rsh_ckpt_entry *e, rsh_dtype *out) {
    *out = rsh_dtype_size(e->dtype) ? e->dtype : RSH_U8;
    if (rsh_dtype_size(e->dtype) || rsh_dtype_bits(e->dtype) == 8) return 0;
    PyErr_Format(PyExc_NotImplementedError,
                 "cannot read tensor \"%s\": its elements have %d bits (%s), and only whole bytes can be read", e->name,
                 rsh_dtype_bits(e->dtype), rsh_dtype_name(e->dtype));
    return -1;
}

static rsh_tensor *target_for(const rsh_box *box, int ndim, rsh_dtype dtype) {
    int64_t shape[RSH_MAX_NDIM];
    rsh_tensor *t = NULL;
    for (int d = 0; d < ndim; d++) shape[d] = box->hi[d] - box->lo[d];
    py_check(rsh_tensor_empty(dtype, ndim, shape, &t));
    return t;
}

static int check_target(const rsh_tensor *t, const rsh_box *box, int ndim) {
    bool same = rsh_tensor_ndim(t) == ndim;
    for (int d = 0; same && d < ndim; d++) same = rsh_tensor_shape(t)[d] == box->hi[d] - box->lo[d];
    if (!same) PyErr_SetString(PyExc_ValueError, "out must have the shape of the box");
    return same ? 0 : -1;
}

static rsh_status read_box(py_ckpt *self, int64_t tensor, const rsh_box *box, const rsh_tensor *t) {
    rsh_memory to = {rsh_tensor_data(t), rsh_tensor_strides(t)};
    rsh_status st;
    self->readers++;
    Py_BEGIN_ALLOW_THREADS
    st = rsh_ckpt_read(self->c, tensor, box, &to);
    Py_END_ALLOW_THREADS
    self->readers--;
    return st;
}

static PyObject *ckpt_read(PyObject *self, PyObject *args) {
    long long number;
    PyObject *lo, *hi, *out;
    rsh_box box;
    rsh_ckpt_entry e = RSH_CKPT_ENTRY_INIT;
    rsh_dtype dtype;
    int nlo, nhi;
    if (!PyArg_ParseTuple(args, "LOOO:_read", &number, &lo, &hi, &out)) return NULL;
    const rsh_ckpt *c = py_ckpt_get(self);
    if (!c || py_check(rsh_ckpt_get_tensor(c, number, &e)) || stored_dtype(&e, &dtype)) return NULL;
    if (py_ints_from(lo, RSH_MAX_NDIM, box.lo, &nlo) || py_ints_from(hi, RSH_MAX_NDIM, box.hi, &nhi)) return NULL;
    if (nlo != e.ndim || nhi != e.ndim)
        return PyErr_Format(PyExc_ValueError, "the box must have %d dims, as the tensor has", e.ndim);
    rsh_tensor *t = out == Py_None ? target_for(&box, e.ndim, dtype) : py_import(out, dtype, true, NULL);
    if (!t || check_target(t, &box, e.ndim)) {
        rsh_tensor_free(t);
        return NULL;
    }
    rsh_status st = read_box((py_ckpt *)self, number, &box, t);
    if (!st && out == Py_None) return py_array_wrap(t, e.dtype, false);
    rsh_tensor_free(t);
    return st ? py_raise(st) : Py_NewRef(out);
}

/* ---- saving and loading sharded tensors ---- */

const char **py_texts_from(PyObject *list, int64_t *n) {
    *n = PyList_Size(list);
    const char **texts_found = *n >= 0 ? PyMem_Calloc((size_t)*n + 1, sizeof *texts_found) : NULL;
    for (int64_t i = 0; texts_found && i < *n; i++) {
        PyObject *item = PyList_GetItem(list, (Py_ssize_t)i);
        texts_found[i] = item ? PyUnicode_AsUTF8AndSize(item, NULL) : NULL;
        if (texts_found[i]) continue;
        PyMem_Free(texts_found);
        return NULL;
    }
    if (!texts_found && !PyErr_Occurred()) PyErr_NoMemory();
    return texts_found;
}

static rsh_sharded **tensors_from(PyObject *list, int64_t n) {
    rsh_sharded **tensors = PyMem_Calloc((size_t)n + 1, sizeof *tensors);
    if (!tensors) PyErr_NoMemory();
    for (int64_t i = 0; tensors && i < n; i++) {
        PyObject *item = PyList_GetItem(list, (Py_ssize_t)i);
        py_sharded *s = item ? py_sharded_from(item) : NULL;
        if (s) {
            tensors[i] = s->s;
            continue;
        }
        PyMem_Free(tensors);
        return NULL;
    }
    return tensors;
}

static PyObject *ckpt_load(PyObject *self, PyObject *args) {
    PyObject *comm_object, *name_list, *tensor_list, *result = NULL;
    rsh_load_stats stats = RSH_LOAD_STATS_INIT;
    int64_t n;
    if (!PyArg_ParseTuple(args, "O!O!O!:_load", py_comm_type, &comm_object, &PyList_Type, &name_list, &PyList_Type,
                          &tensor_list))
        return NULL;
    py_comm *comm = (py_comm *)comm_object;
    const rsh_ckpt *c = py_ckpt_get(self);
    const char **names = c ? py_texts_from(name_list, &n) : NULL;
    rsh_sharded **tensors = names ? tensors_from(tensor_list, n) : NULL;
    PyThreadState *state = tensors ? py_comm_begin(comm) : NULL;
    if (state) {
        rsh_status st = rsh_ckpt_load(c, comm->c, n, names, tensors, &stats);
        py_comm_end(comm, state);
        result = st ? py_comm_raise(comm, st)
                    : Py_BuildValue("{s:K,s:K}", "bytes_read", (unsigned long long)stats.bytes_read, "most_scratch",
                                    (unsigned long long)stats.most_scratch);
    }
    PyMem_Free(tensors);
    PyMem_Free(names);
    return result;
}

static PyObject *save_tensors(py_comm *comm, const char *path, int64_t n, const char **names, rsh_sharded **tensors,
                              const rsh_save_opts *opts) {
    PyThreadState *state = py_comm_begin(comm);
    if (!state) return NULL;
    rsh_status st = rsh_ckpt_save(comm->c, path, n, names, (const rsh_sharded *const *)tensors, opts);
    py_comm_end(comm, state);
    if (st) return py_comm_raise(comm, st);
    Py_RETURN_NONE;
}

static PyObject *ckpt_save(PyObject *module, PyObject *args) {
    PyObject *comm, *path = NULL, *name_list, *tensor_list, *key_list, *value_list, *result = NULL;
    int force, digest;
    int64_t n = 0, nkeys = 0, nvalues = 0;
    rsh_save_opts opts = RSH_SAVE_OPTS_INIT;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O&O!O!ppO!O!:_save", py_comm_type, &comm, PyUnicode_FSConverter, &path, &PyList_Type,
                          &name_list, &PyList_Type, &tensor_list, &force, &digest, &PyList_Type, &key_list,
                          &PyList_Type, &value_list))
        return NULL;
    const char **names = py_texts_from(name_list, &n), **keys = names ? py_texts_from(key_list, &nkeys) : NULL;
    const char **values = keys ? py_texts_from(value_list, &nvalues) : NULL;
    rsh_sharded **tensors = values ? tensors_from(tensor_list, n) : NULL;
    opts.force = force;
    opts.no_digest = !digest;
    opts.nmeta = nkeys;
    opts.keys = keys;
    opts.values = values;
    if (tensors) result = save_tensors((py_comm *)comm, PyBytes_AsString(path), n, names, tensors, &opts);
    PyMem_Free(tensors);
    PyMem_Free(values);
    PyMem_Free(keys);
    PyMem_Free(names);
    Py_DECREF(path);
    return result;
}

static PyMethodDef methods[] = {
    {"entries", ckpt_entries, METH_NOARGS, NULL},
    {"files", ckpt_files, METH_NOARGS, NULL},
    {"metadata", ckpt_metadata, METH_NOARGS, NULL},
    {"non_tensors", ckpt_non_tensors, METH_NOARGS, NULL},
    {"kind", ckpt_kind, METH_NOARGS, NULL},
    {"close", ckpt_close, METH_NOARGS, NULL},
    {"read", ckpt_read, METH_VARARGS, NULL},
    {"load", ckpt_load, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, ckpt_new},
    {Py_tp_dealloc, ckpt_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_doc, "An open checkpoint; reshard.Checkpoint wraps it as a mapping."},
    {0, NULL},
};

static PyType_Spec spec = {"reshard._reshard.OpenCheckpoint", sizeof(py_ckpt), 0, Py_TPFLAGS_DEFAULT, slots};

static PyMethodDef functions[] = {
    {"_save", ckpt_save, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int py_ckpt_add(PyObject *module) {
    py_ckpt_type = py_type_add(module, &spec);
    return py_ckpt_type ? PyModule_AddFunctions(module, functions) : -1;
}
