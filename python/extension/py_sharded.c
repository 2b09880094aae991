/* Sharded: a layout, a comm and this rank's parts. */
#include "py_comm.h"

#include <string.h>

PyTypeObject *py_sharded_type;

static py_sharded *get(PyObject *self) { return (py_sharded *)self; }

PyObject *py_sharded_wrap(rsh_sharded *s, py_comm *comm, bool readonly) {
    py_sharded *self = s ? py_object_new(py_sharded_type) : NULL;
    if (!self) {
        rsh_sharded_free(s);
        return NULL;
    }
    self->s = s;
    self->comm = (py_comm *)Py_NewRef((PyObject *)comm);
    self->readonly = readonly;
    return (PyObject *)self;
}

py_sharded *py_sharded_from(PyObject *object) {
    if (PyObject_TypeCheck(object, py_sharded_type)) return get(object);
    PyErr_Format(PyExc_TypeError, "expected a reshard.Sharded, got %R", (PyObject *)Py_TYPE(object));
    return NULL;
}

static void sharded_dealloc(PyObject *self) {
    rsh_sharded_free(get(self)->s);
    Py_XDECREF((PyObject *)get(self)->comm);
    py_object_free(self);
}

/* ---- on the caller's arrays ---- */

typedef struct rank_parts {
    int64_t n;
    rsh_tensor **tensors; /* [n], owned */
    bool readonly;
} rank_parts;

static void parts_free(rank_parts *parts) {
    for (int64_t i = 0; parts->tensors && i < parts->n; i++) rsh_tensor_free(parts->tensors[i]);
    PyMem_Free(parts->tensors);
}

static int read_parts(const rsh_layout *l, int rank, PyObject *local, rank_parts *out) {
    *out = (rank_parts){.n = rsh_layout_nparts(l, rank)};
    if (!out->n) return 0;
    out->tensors = PyMem_Calloc((size_t)out->n, sizeof *out->tensors);
    if (!out->tensors) {
        PyErr_NoMemory();
        return -1;
    }
    for (int64_t i = 0; i < out->n; i++) {
        bool readonly = false;
        PyObject *array = py_part_of(local, out->n, i);
        if (array) out->tensors[i] = py_import(array, rsh_layout_dtype(l), false, &readonly);
        Py_XDECREF(array);
        if (!array || !out->tensors[i] || py_part_check(l, rank, i, out->tensors[i])) return -1;
        out->readonly = out->readonly || readonly;
    }
    return 0;
}

static PyObject *sharded_on_arrays(py_comm *comm, const rsh_layout *l, PyObject *local) {
    rank_parts parts;
    rsh_sharded *s = NULL;
    PyObject *result = NULL;
    if (!read_parts(l, comm->rank, local, &parts) &&
        !py_check(rsh_sharded_from_tensors(comm->c, l, parts.n, (const rsh_tensor *const *)parts.tensors, &s)))
        result = py_sharded_wrap(s, comm, parts.readonly);
    parts_free(&parts);
    return result;
}

static PyObject *sharded_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"comm", "layout", "local", NULL};
    PyObject *comm, *layout, *local = Py_None;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!O|O:Sharded", names, py_comm_type, &comm, &layout, &local))
        return NULL;
    if (py_comm_check((py_comm *)comm)) return NULL;
    rsh_layout *l = py_layout_from(layout);
    PyObject *result = l ? sharded_on_arrays((py_comm *)comm, l, local) : NULL;
    rsh_layout_free(l);
    return result;
}

/* ---- on new memory ---- */

typedef rsh_status (*make_fn)(rsh_comm *, const rsh_layout *, rsh_sharded **);

static PyObject *sharded_on_new_memory(PyObject *args, const char *format, make_fn make) {
    PyObject *comm, *layout;
    rsh_sharded *s = NULL;
    if (!PyArg_ParseTuple(args, format, py_comm_type, &comm, &layout) || py_comm_check((py_comm *)comm)) return NULL;
    rsh_layout *l = py_layout_from(layout);
    rsh_comm *c = ((py_comm *)comm)->c;
    rsh_status st = RSH_EVALUE;
    if (!l) return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = make(c, l, &s);
    Py_END_ALLOW_THREADS
    rsh_layout_free(l);
    return st ? py_raise(st) : py_sharded_wrap(s, (py_comm *)comm, false);
}

static PyObject *make_empty(PyObject *module, PyObject *args) {
    (void)module;
    return sharded_on_new_memory(args, "O!O:empty", rsh_sharded_empty);
}

static PyObject *make_zeros(PyObject *module, PyObject *args) {
    (void)module;
    return sharded_on_new_memory(args, "O!O:zeros", rsh_sharded_zeros);
}

/* Distributes the root's array. */
static rsh_status scatter_on(py_comm *comm, const rsh_layout *l, int root, const rsh_tensor *t, rsh_sharded **out) {
    rsh_memory whole = {t ? rsh_tensor_data(t) : NULL, t ? rsh_tensor_strides(t) : NULL};
    return rsh_sharded_scatter(comm->c, l, root, t ? &whole : NULL, out);
}

static int check_whole(const rsh_layout *l, const rsh_tensor *t) {
    bool same = rsh_tensor_ndim(t) == rsh_layout_ndim(l);
    for (int d = 0; same && d < rsh_layout_ndim(l); d++) same = rsh_tensor_shape(t)[d] == rsh_layout_shape(l)[d];
    if (same) return 0;
    PyErr_Format(PyExc_ValueError, "the whole array must have the shape of layout \"%s\"", rsh_layout_text(l));
    return -1;
}

/* Scatters a tensor.  If the root's array is invalid, the root passes none, so that all ranks get the error from the
 * library. */
static PyObject *scatter(PyObject *module, PyObject *args) {
    PyObject *comm_object, *layout, *array;
    rsh_sharded *s = NULL;
    rsh_tensor *t = NULL;
    int root;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!OOi:scatter", py_comm_type, &comm_object, &layout, &array, &root)) return NULL;
    py_comm *comm = (py_comm *)comm_object;
    rsh_layout *l = py_layout_from(layout);
    if (!l) return NULL;
    if (comm->rank == root) {
        t = py_import(array, rsh_layout_dtype(l), false, NULL);
        if (t && check_whole(l, t)) {
            rsh_tensor_free(t);
            t = NULL;
        }
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyThreadState *state = py_comm_begin(comm);
    rsh_status st = RSH_OK;
    if (state) {
        st = scatter_on(comm, l, root, t, &s);
        py_comm_end(comm, state);
    }
    rsh_layout_free(l);
    rsh_tensor_free(t);
    if (type) {
        PyErr_Restore(type, value, trace);
        rsh_sharded_free(s);
        return NULL;
    }
    if (st) return py_comm_raise(comm, st);
    return state ? py_sharded_wrap(s, comm, false) : NULL;
}

/* ---- moving ---- */

/* Reads the options.  Called only if there are any, which is rare in a loop. */
static int read_options(Py_ssize_t n, PyObject *const *values, PyObject *names, py_options *out) {
    PyObject *dict = PyDict_New();
    int failed = !dict;
    for (Py_ssize_t i = 0; !failed && i < n; i++) failed = PyDict_SetItem(dict, PyTuple_GetItem(names, i), values[i]);
    if (!failed) failed = py_options_read(dict, out);
    Py_XDECREF(dict);
    return failed ? -1 : 0;
}

/* x.reshard(to, **options): one positional argument and optional keywords. */
static PyObject *sharded_reshard(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    py_options options = {.nodes = NULL};
    bool given = names && PyTuple_Size(names) > 0;
    py_comm *comm = get(self)->comm;
    rsh_sharded *out = NULL;
    if (nargs != 1)
        return PyErr_Format(PyExc_TypeError, "reshard() takes one layout, got %zd positional arguments", nargs);
    if (given && read_options(PyTuple_Size(names), args + 1, names, &options)) return NULL;
    rsh_layout *to = py_layout_from(args[0]);
    PyThreadState *state = to ? py_comm_begin(comm) : NULL;
    rsh_status st = RSH_OK;
    if (state) {
        st = rsh_reshard(get(self)->s, to, given ? &options.opts : NULL, &out);
        py_comm_end(comm, state);
    }
    rsh_layout_free(to);
    PyMem_Free(options.nodes);
    if (st) return py_comm_raise(comm, st);
    return state ? py_sharded_wrap(out, comm, given && options.opts.may_alias && get(self)->readonly) : NULL;
}

static int check_writable(const py_sharded *s) {
    if (!s->readonly) return 0;
    PyErr_SetString(PyExc_ValueError, "target is on read-only memory; use a copy");
    return -1;
}

static PyObject *sharded_reshard_into(PyObject *self, PyObject *args, PyObject *keywords) {
    PyObject *object;
    py_options options;
    py_comm *comm = get(self)->comm;
    if (!PyArg_ParseTuple(args, "O:reshard_into", &object)) return NULL;
    py_sharded *to = py_sharded_from(object);
    if (!to || check_writable(to) || py_options_read(keywords, &options)) return NULL;
    PyThreadState *state = py_comm_begin(comm);
    rsh_status st = RSH_OK;
    if (state) {
        st = rsh_reshard_into(get(self)->s, to->s, &options.opts);
        py_comm_end(comm, state);
    }
    PyMem_Free(options.nodes);
    if (st) return py_comm_raise(comm, st);
    return state ? Py_NewRef(object) : NULL;
}

/* Returns the tensor in which the root gathers: `out`, or new memory. */
static rsh_tensor *gather_target(const rsh_layout *l, PyObject *out) {
    rsh_tensor *t = NULL;
    if (out != Py_None) {
        t = py_import(out, rsh_layout_dtype(l), true, NULL);
        if (t && !check_whole(l, t)) return t;
        rsh_tensor_free(t);
        return NULL;
    }
    py_check(rsh_tensor_empty(rsh_layout_dtype(l), rsh_layout_ndim(l), rsh_layout_shape(l), &t));
    return t;
}

static rsh_status gather_on(py_sharded *self, int root, const rsh_tensor *t) {
    rsh_memory whole = {t ? rsh_tensor_data(t) : NULL, t ? rsh_tensor_strides(t) : NULL};
    return rsh_sharded_gather(self->s, root, t ? &whole : NULL);
}

static PyObject *sharded_gather(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"root", "out", NULL};
    int root = 0;
    PyObject *out = Py_None, *type, *value, *trace;
    py_comm *comm = get(self)->comm;
    const rsh_layout *l = rsh_sharded_layout(get(self)->s);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|iO:gather", names, &root, &out)) return NULL;
    rsh_tensor *t = comm->rank == root ? gather_target(l, out) : NULL;
    PyErr_Fetch(&type, &value, &trace); /* the other ranks get the error from the library */
    PyThreadState *state = py_comm_begin(comm);
    rsh_status st = RSH_OK;
    if (state) {
        st = gather_on(get(self), root, t);
        py_comm_end(comm, state);
    }
    if (type) PyErr_Restore(type, value, trace);
    if (type || !state || st) {
        rsh_tensor_free(t);
        return st && !type ? py_comm_raise(comm, st) : NULL;
    }
    if (!t) Py_RETURN_NONE;
    if (out == Py_None) return py_array_wrap(t, rsh_layout_dtype(l), false);
    rsh_tensor_free(t);
    return Py_NewRef(out);
}

static PyObject *sharded_digest(PyObject *self, PyObject *none) {
    rsh_digest digest;
    char text[RSH_DIGEST_TEXT];
    py_comm *comm = get(self)->comm;
    PyThreadState *state = py_comm_begin(comm);
    (void)none;
    if (!state) return NULL;
    rsh_status st = rsh_sharded_digest(get(self)->s, &digest);
    py_comm_end(comm, state);
    if (st) return py_comm_raise(comm, st);
    rsh_digest_text(digest, text);
    return PyUnicode_FromString(text);
}

typedef rsh_status (*fill_fn)(const rsh_sharded *, uint64_t);

static PyObject *fill(PyObject *self, PyObject *arg, fill_fn fn) {
    unsigned long long seed = PyLong_AsUnsignedLongLong(arg);
    rsh_status st;
    if (PyErr_Occurred() || check_writable(get(self))) return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = fn(get(self)->s, seed);
    Py_END_ALLOW_THREADS
    return st ? py_raise(st) : Py_NewRef(self);
}

static PyObject *sharded_uniform(PyObject *self, PyObject *seed) { return fill(self, seed, rsh_sharded_uniform); }
static PyObject *sharded_normal(PyObject *self, PyObject *seed) { return fill(self, seed, rsh_sharded_normal); }

/* ---- getters ---- */

static PyObject *part_array(PyObject *self, int64_t part) {
    rsh_tensor *t = py_tensor_again(rsh_sharded_part(get(self)->s, part));
    return t ? py_array_wrap(t, rsh_tensor_dtype(t), get(self)->readonly) : NULL;
}

static PyObject *get_parts(PyObject *self, void *none) {
    PyObject *list = PyList_New(0);
    (void)none;
    for (int64_t i = 0; list && i < rsh_sharded_nparts(get(self)->s); i++) {
        PyObject *array = part_array(self, i);
        if (!array || PyList_Append(list, array)) Py_CLEAR(list);
        Py_XDECREF(array);
    }
    return list;
}

static PyObject *get_local(PyObject *self, void *none) {
    int64_t n = rsh_sharded_nparts(get(self)->s);
    (void)none;
    if (n == 1) return part_array(self, 0);
    if (n == 0) Py_RETURN_NONE;
    return PyErr_Format(PyExc_ValueError, "this rank has %lld parts; use the attribute `parts`", (long long)n);
}

static PyObject *get_layout(PyObject *self, void *none) {
    (void)none;
    return py_layout_wrap(rsh_layout_hold(rsh_sharded_layout(get(self)->s)));
}

static PyObject *get_comm(PyObject *self, void *none) {
    (void)none;
    return Py_NewRef((PyObject *)get(self)->comm);
}

static PyObject *sharded_repr(PyObject *self) {
    const py_comm *comm = get(self)->comm;
    return PyUnicode_FromFormat("<reshard.Sharded '%s', rank %d of %d>",
                                rsh_layout_text(rsh_sharded_layout(get(self)->s)), comm->rank, comm->size);
}

static PyMethodDef methods[] = {
    {"reshard", (PyCFunction)(void (*)(void))sharded_reshard, METH_FASTCALL | METH_KEYWORDS,
     "reshard(to, **options)\n--\n\nReturns the tensor in another layout, in new memory.  Collective.\n\n"
     "The comm caches plans and bindings, so a loop plans once.  Options are those of Plan, and may_alias: with\n"
     "equal layouts the result may share this tensor's memory."},
    {"reshard_into", (PyCFunction)(void (*)(void))sharded_reshard_into, METH_VARARGS | METH_KEYWORDS,
     "reshard_into(target, **options)\n--\n\nMoves the elements into an existing sharded tensor and returns it.\n"
     "Collective."},
    {"begin", (PyCFunction)(void (*)(void))py_sharded_begin, METH_VARARGS | METH_KEYWORDS,
     "begin(to, **options)\n--\n\nStarts a reshard; wait() of the Transit returns the result.  Collective."},
    {"bind", (PyCFunction)(void (*)(void))py_sharded_bind, METH_VARARGS | METH_KEYWORDS,
     "bind(to, **options)\n--\n\nBinds a move to memory, for loops: calling the Exec moves the elements.\n"
     "`to` is a layout (the target is allocated) or a Sharded.  Collective."},
    {"gather", (PyCFunction)(void (*)(void))sharded_gather, METH_VARARGS | METH_KEYWORDS,
     "gather(root=0, out=None)\n--\n\nReturns the whole tensor on the root, None on other ranks.  Collective."},
    {"digest", sharded_digest, METH_NOARGS,
     "digest()\n--\n\nReturns a digest of values and positions, which is the same in every layout.  Collective."},
    {"fill_uniform", sharded_uniform, METH_O,
     "fill_uniform(seed)\n--\n\nFills the tensor with numbers from [0, 1), which are the same in every layout."},
    {"fill_normal", sharded_normal, METH_O,
     "fill_normal(seed)\n--\n\nFills the tensor with normal numbers, which are the same in every layout."},
    {"_time_reshards", py_sharded_time_reshards, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"local", get_local, NULL, "This rank's part, on the same memory; None if it has none.", NULL},
    {"parts", get_parts, NULL, "All parts of this rank as a list, on the same memory.", NULL},
    {"layout", get_layout, NULL, "The layout.", NULL},
    {"comm", get_comm, NULL, "The comm.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, sharded_new},
    {Py_tp_dealloc, sharded_dealloc},
    {Py_tp_repr, sharded_repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_doc,
     "Sharded(comm, layout, local=None)\n--\n\nA tensor whose parts are on the ranks of a comm.\n\n"
     "local is this rank's part: an array of NumPy, PyTorch or any other library with DLPack or a buffer.  It is\n"
     "not copied.  A rank with several parts passes a list, a rank without parts passes None."},
    {0, NULL},
};

static PyType_Spec spec = {"reshard.Sharded", sizeof(py_sharded), 0, Py_TPFLAGS_DEFAULT, slots};

static PyMethodDef functions[] = {
    {"_empty", make_empty, METH_VARARGS, NULL},
    {"_zeros", make_zeros, METH_VARARGS, NULL},
    {"_scatter", scatter, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int py_sharded_add(PyObject *module) {
    py_sharded_type = py_type_add(module, &spec);
    return py_sharded_type ? PyModule_AddFunctions(module, functions) : -1;
}
