/* Plan: wraps rsh_plan as a Python value. */
#include "py_plan.h"

#include <string.h>

PyTypeObject *py_plan_type;

static rsh_plan *get(PyObject *self) { return ((py_plan *)self)->p; }

static PyObject *wrap(rsh_plan *p, PyObject *options, PyObject *derived) {
    py_plan *self = options ? py_object_new(py_plan_type) : NULL;
    if (!self) {
        rsh_plan_free(p);
        Py_XDECREF(options);
        Py_XDECREF(derived);
        return NULL;
    }
    self->p = p;
    self->options = options;
    self->derived = derived;
    return (PyObject *)self;
}

static void plan_dealloc(PyObject *self) {
    rsh_plan_free(get(self));
    Py_XDECREF(((py_plan *)self)->options);
    Py_XDECREF(((py_plan *)self)->derived);
    py_object_free(self);
}

/* ---- lists of layouts ---- */

void py_layouts_free(rsh_layout **layouts, int64_t n) {
    for (int64_t i = 0; layouts && i < n; i++) rsh_layout_free(layouts[i]);
    PyMem_Free(layouts);
}

rsh_layout **py_layouts_from(PyObject *object, int64_t *n) {
    bool one = PyUnicode_Check(object) || PyObject_TypeCheck(object, py_layout_type) || !PySequence_Check(object);
    Py_ssize_t length = one ? 1 : PySequence_Size(object);
    rsh_layout **layouts = length >= 0 ? PyMem_Calloc((size_t)length + 1, sizeof *layouts) : NULL;
    if (!layouts) {
        if (length >= 0) PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < length; i++) {
        PyObject *item = one ? Py_NewRef(object) : PySequence_GetItem(object, i);
        layouts[i] = item ? py_layout_from(item) : NULL;
        Py_XDECREF(item);
        if (layouts[i]) continue;
        py_layouts_free(layouts, length);
        return NULL;
    }
    *n = length;
    return layouts;
}

PyObject *py_layouts_list(rsh_layout **layouts, int64_t n) {
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *layout = py_layout_wrap(rsh_layout_hold(layouts[i]));
        if (!layout || PyList_Append(list, layout)) Py_CLEAR(list);
        Py_XDECREF(layout);
    }
    return list;
}

int py_pair_read(PyObject *from, PyObject *to, py_pair *out) {
    *out = (py_pair){0};
    out->from = py_layouts_from(from, &out->n);
    out->to = out->from ? py_layouts_from(to, &out->nto) : NULL;
    if (out->to && out->n == out->nto) return 0;
    if (out->to)
        PyErr_Format(PyExc_ValueError, "expected one target layout for each source layout, got %lld and %lld",
                     (long long)out->nto, (long long)out->n);
    py_pair_free(out);
    return -1;
}

void py_pair_free(py_pair *pair) {
    py_layouts_free(pair->from, pair->n);
    py_layouts_free(pair->to, pair->nto);
    *pair = (py_pair){0};
}

/* ---- creating ---- */

static rsh_plan *new_plan(PyObject *from, PyObject *to, PyObject *keywords) {
    py_options options;
    py_pair pair;
    rsh_plan *p = NULL;
    rsh_status st;
    if (py_pair_read(from, to, &pair)) return NULL;
    if (py_options_read(keywords, &options)) {
        py_pair_free(&pair);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    st = rsh_plan_new_many(pair.n, (const rsh_layout *const *)pair.from, (const rsh_layout *const *)pair.to,
                           &options.opts, &p);
    Py_END_ALLOW_THREADS
    py_pair_free(&pair);
    PyMem_Free(options.nodes);
    if (st) py_raise(st);
    return p;
}

static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *from, *to;
    (void)type;
    if (!PyArg_ParseTuple(args, "OO:plan", &from, &to)) return NULL;
    rsh_plan *p = new_plan(from, to, keywords);
    return p ? wrap(p, keywords ? PyDict_Copy(keywords) : PyDict_New(), NULL) : NULL;
}

static PyObject *derived_plan(PyObject *self, rsh_status (*rule)(const rsh_plan *, rsh_plan **), const char *name) {
    rsh_plan *p = NULL;
    rsh_status st;
    Py_BEGIN_ALLOW_THREADS
    st = rule(get(self), &p);
    Py_END_ALLOW_THREADS
    if (st) return py_raise(st);
    return wrap(p, PyDict_New(), Py_BuildValue("(Os)", self, name));
}

static PyObject *plan_adjoint(PyObject *self, PyObject *none) {
    (void)none;
    return derived_plan(self, rsh_plan_adjoint, "adjoint");
}

static PyObject *plan_backward(PyObject *self, PyObject *none) {
    (void)none;
    return derived_plan(self, rsh_plan_backward, "backward");
}

/* ---- comparing and pickling ---- */

typedef const rsh_layout *(*side_fn)(const rsh_plan *, int64_t);

static PyObject *layouts_of_side(PyObject *self, side_fn fn) {
    PyObject *list = PyTuple_New((Py_ssize_t)rsh_plan_ntensors(get(self)));
    for (int64_t i = 0; list && i < rsh_plan_ntensors(get(self)); i++) {
        PyObject *layout = py_layout_wrap(rsh_layout_hold(fn(get(self), i)));
        if (!layout || PyTuple_SetItem(list, (Py_ssize_t)i, layout)) Py_CLEAR(list);
    }
    return list;
}

static PyObject *get_sources(PyObject *self, void *none) {
    (void)none;
    return layouts_of_side(self, rsh_plan_from);
}

static PyObject *get_targets(PyObject *self, void *none) {
    (void)none;
    return layouts_of_side(self, rsh_plan_to);
}

static PyObject *get_options(PyObject *self, void *none) {
    (void)none;
    return PyDict_Copy(((py_plan *)self)->options);
}

static PyObject *get_fingerprint(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromUnsignedLongLong(rsh_plan_fingerprint(get(self)));
}

static PyObject *get_nranks(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromLongLong(rsh_plan_nranks(get(self)));
}

static Py_hash_t plan_hash(PyObject *self) {
    Py_hash_t hash = (Py_hash_t)rsh_plan_fingerprint(get(self));
    return hash == -1 ? -2 : hash;
}

static bool plans_equal(const rsh_plan *a, const rsh_plan *b) {
    bool same = rsh_plan_fingerprint(a) == rsh_plan_fingerprint(b) && rsh_plan_ntensors(a) == rsh_plan_ntensors(b);
    for (int64_t i = 0; same && i < rsh_plan_ntensors(a); i++)
        same = rsh_layout_equal(rsh_plan_from(a, i), rsh_plan_from(b, i)) &&
               rsh_layout_equal(rsh_plan_to(a, i), rsh_plan_to(b, i));
    return same;
}

static PyObject *plan_compare(PyObject *self, PyObject *other, int op) {
    if ((op != Py_EQ && op != Py_NE) || !PyObject_TypeCheck(other, py_plan_type)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong(plans_equal(get(self), get(other)) == (op == Py_EQ));
}

static PyObject *plan_repr(PyObject *self) {
    const rsh_plan *p = get(self);
    int64_t n = rsh_plan_ntensors(p);
    if (n != 1) return PyUnicode_FromFormat("<reshard.Plan of %lld tensors>", (long long)n);
    return PyUnicode_FromFormat("reshard.plan('%s', '%s')", rsh_layout_text(rsh_plan_from(p, 0)),
                                rsh_layout_text(rsh_plan_to(p, 0)));
}

static PyObject *plan_reduce(PyObject *self, PyObject *none) {
    PyObject *derived = ((py_plan *)self)->derived;
    PyObject *module = PyImport_ImportModule("reshard");
    PyObject *maker = module ? PyObject_GetAttrString(module, "_plan_again") : NULL;
    (void)none;
    Py_XDECREF(module);
    if (!maker) return NULL;
    if (derived) return Py_BuildValue("N(OOOO)", maker, Py_None, Py_None, Py_None, derived);
    return Py_BuildValue("N(NNOO)", maker, get_sources(self, NULL), get_targets(self, NULL), ((py_plan *)self)->options,
                         Py_None);
}

static PyMethodDef methods[] = {
    {"adjoint", plan_adjoint, METH_NOARGS,
     "adjoint()\n--\n\nReturns the plan that applies the exact transpose of this one, as a linear map."},
    {"backward", plan_backward, METH_NOARGS,
     "backward()\n--\n\nReturns the plan for automatic differentiation: the reverse move, where partial becomes "
     "replicated."},
    {"totals", py_plan_totals, METH_NOARGS,
     "totals()\n--\n\nReturns the cost of the whole plan: a dict of bytes and messages."},
    {"rank", py_plan_rank, METH_O,
     "rank(rank)\n--\n\nReturns what one rank moves: a dict of bytes and numbers of peers."},
    {"bytes_per_rank", py_plan_bytes_per_rank, METH_NOARGS,
     "bytes_per_rank()\n--\n\nReturns {rank: (sent, received, kept)} in bytes for all ranks."},
    {"receives_from", py_plan_sources, METH_O,
     "receives_from(rank)\n--\n\nReturns {peer: bytes} that the rank receives; the entry of the rank itself is what it "
     "keeps."},
    {"sends_to", py_plan_destinations, METH_O,
     "sends_to(rank)\n--\n\nReturns {peer: bytes} that the rank sends; the entry of the rank itself is what it keeps."},
    {"matrix", py_plan_matrix, METH_NOARGS, "matrix()\n--\n\nReturns {(source, destination): bytes} for all pairs."},
    {"stages", py_plan_stages, METH_O,
     "stages(rank)\n--\n\nReturns what the rank does in each stage: a list of dicts with copies, receives and sends."},
    {"simulate", (PyCFunction)(void (*)(void))py_plan_simulate, METH_VARARGS | METH_KEYWORDS,
     "simulate(memory, core=0, nic=0, latency=0, run_bytes=0, transposed=0, combined=0)\n--\n\n"
     "Estimates the time on a machine with these rates in bytes per second and this latency in seconds."},
    {"bind", py_plan_bind, METH_VARARGS,
     "bind(source, target)\n--\n\nBinds the plan to two sharded tensors with its layouts and returns an Exec.  "
     "Collective."},
    {"_print", py_plan_print, METH_VARARGS, NULL},
    {"_draw", py_plan_draw, METH_VARARGS, NULL},
    {"__reduce__", plan_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"sources", get_sources, NULL, "The source layout of each tensor.", NULL},
    {"targets", get_targets, NULL, "The target layout of each tensor.", NULL},
    {"options", get_options, NULL, "The given options, as a dict.", NULL},
    {"fingerprint", get_fingerprint, NULL, "A hash that is equal for plans with equal layouts and options.", NULL},
    {"nranks", get_nranks, NULL, "The number of distinct ranks in all layouts.", NULL},
    PY_TOTAL_GETTERS,
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, plan_new},
    {Py_tp_dealloc, plan_dealloc},
    {Py_tp_repr, plan_repr},
    {Py_tp_hash, plan_hash},
    {Py_tp_richcompare, plan_compare},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_doc,
     "Plan(source, target, **options)\n--\n\n"
     "What each rank sends, receives, copies and reduces to move tensors from one layout to another.\n\n"
     "source and target are layouts, or lists of layouts of equal length.  Options: nodes (the node of each rank),\n"
     "ranks_per_node, max_scratch (bytes), reduce (\"in_order\" or \"by_node\"), approximate, messages.\n"
     "Plans are immutable, hashable, comparable and picklable."},
    {0, NULL},
};

static PyType_Spec spec = {"reshard.Plan", sizeof(py_plan), 0, Py_TPFLAGS_DEFAULT, slots};

int py_plan_add(PyObject *module) {
    py_plan_type = py_type_add(module, &spec);
    return py_plan_type ? py_relabel_add(module) : -1;
}
