/* Exec and Transit: moves that are bound once and run repeatedly, and moves in steps. */
#include "py_comm.h"
#include "py_plan.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- transits ---- */

typedef struct py_transit {
    PyObject_HEAD
    py_user user;
    rsh_transit *t;     /* owned; NULL: the transit has been waited for, or its comm was closed */
    py_sharded *source; /* owned */
} py_transit;

static PyTypeObject *transit_type, *exec_type;

static void transit_end(py_user *user) {
    py_transit *self = (py_transit *)(void *)((char *)user - offsetof(py_transit, user));
    rsh_transit *t = self->t;
    self->t = NULL;
    Py_BEGIN_ALLOW_THREADS
    rsh_transit_free(t);
    Py_END_ALLOW_THREADS
}

static void transit_dealloc(PyObject *object) {
    py_transit *self = (py_transit *)object;
    py_user_unlink(&self->user);
    transit_end(&self->user);
    Py_XDECREF((PyObject *)self->source);
    py_object_free(self);
}

static PyObject *transit_wrap(rsh_transit *t, py_sharded *source) {
    py_transit *self = py_object_new(transit_type);
    if (!self) {
        rsh_transit_free(t);
        return NULL;
    }
    self->t = t;
    self->source = (py_sharded *)Py_NewRef((PyObject *)source);
    py_user_link(&self->user, source->comm, transit_end);
    return (PyObject *)self;
}

PyObject *py_sharded_begin(PyObject *object, PyObject *args, PyObject *keywords) {
    py_sharded *self = (py_sharded *)object;
    PyObject *layout;
    py_options options;
    rsh_transit *t = NULL;
    rsh_status st = RSH_OK;
    if (!PyArg_ParseTuple(args, "O:begin", &layout) || py_options_read(keywords, &options)) return NULL;
    rsh_layout *to = py_layout_from(layout);
    PyThreadState *state = to ? py_comm_begin(self->comm) : NULL;
    if (state) {
        st = rsh_reshard_begin(self->s, to, &options.opts, &t);
        py_comm_end(self->comm, state);
    }
    rsh_layout_free(to);
    PyMem_Free(options.nodes);
    if (st) return py_comm_raise(self->comm, st);
    return state ? transit_wrap(t, self) : NULL;
}

static int transit_check(const py_transit *self) {
    if (self->t) return 0;
    PyErr_SetString(PyExc_ValueError, "the transit has ended: wait() was called, or its comm was closed");
    return -1;
}

static PyObject *transit_test(PyObject *object, PyObject *none) {
    py_transit *self = (py_transit *)object;
    py_comm *comm = self->source->comm;
    bool done = false;
    (void)none;
    PyThreadState *state = transit_check(self) ? NULL : py_comm_begin(comm);
    if (!state) return NULL;
    rsh_status st = rsh_transit_test(self->t, &done);
    py_comm_end(comm, state);
    return st ? py_comm_raise(comm, st) : PyBool_FromLong(done);
}

static PyObject *transit_wait(PyObject *object, PyObject *none) {
    py_transit *self = (py_transit *)object;
    py_comm *comm = self->source->comm;
    rsh_sharded *out = NULL;
    (void)none;
    PyThreadState *state = transit_check(self) ? NULL : py_comm_begin(comm);
    if (!state) return NULL;
    rsh_status st = rsh_transit_wait(self->t, &out);
    py_comm_end(comm, state);
    if (st) return py_comm_raise(comm, st);
    py_user_unlink(&self->user);
    transit_end(&self->user);
    return py_sharded_wrap(out, comm, false);
}

static PyMethodDef transit_methods[] = {
    {"test", transit_test, METH_NOARGS,
     "test()\n--\n\nMakes progress without waiting; returns True if wait() will not block."},
    {"wait", transit_wait, METH_NOARGS, "wait()\n--\n\nCompletes the move and returns the Sharded.  Collective."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot transit_slots[] = {
    {Py_tp_dealloc, transit_dealloc},
    {Py_tp_methods, transit_methods},
    {Py_tp_doc, "A reshard in progress.  The source must not change before wait() returns."},
    {0, NULL},
};

static PyType_Spec transit_spec = {"reshard.Transit", sizeof(py_transit), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, transit_slots};

/* ---- execs ---- */

typedef struct py_exec {
    PyObject_HEAD
    py_user user;
    rsh_exec *e;                 /* owned; NULL: the comm was closed */
    py_sharded *source, *target; /* owned */
} py_exec;

static void exec_end(py_user *user) {
    py_exec *self = (py_exec *)(void *)((char *)user - offsetof(py_exec, user));
    rsh_exec *e = self->e;
    self->e = NULL;
    Py_BEGIN_ALLOW_THREADS
    rsh_exec_free(e);
    Py_END_ALLOW_THREADS
}

static void exec_dealloc(PyObject *object) {
    py_exec *self = (py_exec *)object;
    py_user_unlink(&self->user);
    exec_end(&self->user);
    Py_XDECREF((PyObject *)self->source);
    Py_XDECREF((PyObject *)self->target);
    py_object_free(self);
}

static PyObject *exec_wrap(rsh_exec *e, py_sharded *source, py_sharded *target) {
    py_exec *self = py_object_new(exec_type);
    if (!self) {
        rsh_exec_free(e);
        return NULL;
    }
    self->e = e;
    self->source = (py_sharded *)Py_NewRef((PyObject *)source);
    self->target = (py_sharded *)Py_NewRef((PyObject *)target);
    py_user_link(&self->user, source->comm, exec_end);
    return (PyObject *)self;
}

/* Lists the memory of all parts of this rank; freed with free, which needs no lock. */
static rsh_memory *memory_of(const rsh_sharded *s) {
    int64_t n = rsh_sharded_nparts(s);
    rsh_memory *list = calloc((size_t)n + 1, sizeof *list);
    for (int64_t i = 0; list && i < n; i++) {
        const rsh_tensor *t = rsh_sharded_part(s, i);
        list[i] = (rsh_memory){rsh_tensor_data(t), rsh_tensor_strides(t)};
    }
    return list;
}

static rsh_status bind_memory(const rsh_plan *p, rsh_comm *c, const rsh_sharded *from, const rsh_sharded *to,
                              rsh_exec **out) {
    rsh_memory *source = memory_of(from), *target = memory_of(to);
    rsh_status st = source && target ? rsh_exec_bind(p, c, source, target, out)
                                     : rsh_fail(RSH_ENOMEM, "out of memory while binding a move");
    free(source);
    free(target);
    return st;
}

static rsh_status bind_pair(py_sharded *source, py_sharded *target, py_options *options, rsh_exec **out) {
    rsh_comm *c = source->comm->c;
    rsh_plan *p = NULL;
    rsh_status st = RSH_OK;
    if (!options->nodes && !options->opts.ranks_per_node) st = rsh_plan_opts_from_comm(c, &options->opts);
    if (!st) st = rsh_plan_new(rsh_sharded_layout(source->s), rsh_sharded_layout(target->s), &options->opts, &p);
    if (!st) st = bind_memory(p, c, source->s, target->s, out);
    rsh_plan_free(p);
    return st;
}

/* Returns the target that was passed to bind, or creates one with the given layout. */
static py_sharded *target_of(py_sharded *source, PyObject *object) {
    rsh_sharded *s = NULL;
    if (PyObject_TypeCheck(object, py_sharded_type)) {
        py_sharded *target = (py_sharded *)Py_NewRef(object);
        if (target->comm == source->comm && !target->readonly) return target;
        PyErr_SetString(PyExc_ValueError, target->readonly ? "target is on read-only memory; use a copy"
                                                           : "source and target must be on the same comm");
        Py_DECREF((PyObject *)target);
        return NULL;
    }
    rsh_layout *l = py_layout_from(object);
    if (!l || py_comm_check(source->comm)) return NULL;
    rsh_comm *c = source->comm->c;
    rsh_status st;
    Py_BEGIN_ALLOW_THREADS
    st = rsh_sharded_empty(c, l, &s);
    Py_END_ALLOW_THREADS
    rsh_layout_free(l);
    return (py_sharded *)(st ? py_raise(st) : py_sharded_wrap(s, source->comm, false));
}

PyObject *py_sharded_bind(PyObject *object, PyObject *args, PyObject *keywords) {
    py_sharded *self = (py_sharded *)object;
    PyObject *to, *result = NULL;
    py_options options;
    rsh_exec *e = NULL;
    rsh_status st = RSH_OK;
    if (!PyArg_ParseTuple(args, "O:bind", &to) || py_options_read(keywords, &options)) return NULL;
    py_sharded *target = target_of(self, to);
    PyThreadState *state = target ? py_comm_begin(self->comm) : NULL;
    if (state) {
        st = bind_pair(self, target, &options, &e);
        py_comm_end(self->comm, state);
        result = st ? py_comm_raise(self->comm, st) : exec_wrap(e, self, target);
    }
    Py_XDECREF((PyObject *)target);
    PyMem_Free(options.nodes);
    return result;
}

static int check_layouts(const rsh_plan *p, const py_sharded *source, const py_sharded *target) {
    if (source->comm == target->comm && rsh_plan_ntensors(p) == 1 && !target->readonly &&
        rsh_layout_equal(rsh_plan_from(p, 0), rsh_sharded_layout(source->s)) &&
        rsh_layout_equal(rsh_plan_to(p, 0), rsh_sharded_layout(target->s)))
        return 0;
    PyErr_SetString(
        PyExc_ValueError,
        "the plan must have 1 tensor with the layouts of source and target; these must be on the same comm, "
        "and the target must be writable");
    return -1;
}

PyObject *py_plan_bind(PyObject *self, PyObject *args) {
    PyObject *source_object, *target_object;
    const rsh_plan *p = ((py_plan *)self)->p;
    rsh_exec *e = NULL;
    if (!PyArg_ParseTuple(args, "O!O!:bind", py_sharded_type, &source_object, py_sharded_type, &target_object))
        return NULL;
    py_sharded *source = (py_sharded *)source_object, *target = (py_sharded *)target_object;
    PyThreadState *state = check_layouts(p, source, target) ? NULL : py_comm_begin(source->comm);
    if (!state) return NULL;
    rsh_status st = bind_memory(p, source->comm->c, source->s, target->s, &e);
    py_comm_end(source->comm, state);
    return st ? py_comm_raise(source->comm, st) : exec_wrap(e, source, target);
}

/* ---- runs ---- */

static PyThreadState *exec_begin_call(py_exec *self) {
    if (self->e) return py_comm_begin(self->source->comm);
    PyErr_SetString(PyExc_ValueError, "the exec has ended: its comm was closed");
    return NULL;
}

static PyObject *exec_step(PyObject *object, rsh_status (*step)(rsh_exec *)) {
    py_exec *self = (py_exec *)object;
    PyThreadState *state = exec_begin_call(self);
    if (!state) return NULL;
    rsh_status st = step(self->e);
    py_comm_end(self->source->comm, state);
    return st ? py_comm_raise(self->source->comm, st) : Py_NewRef((PyObject *)self->target);
}

static PyObject *exec_call(PyObject *self, PyObject *args, PyObject *keywords) {
    if (PyTuple_Size(args) || (keywords && PyDict_Size(keywords)))
        return PyErr_Format(PyExc_TypeError,
                            "an Exec must be called without arguments; bind() determines what it moves");
    return exec_step(self, rsh_exec_run);
}

static PyObject *exec_run(PyObject *self, PyObject *none) {
    (void)none;
    return exec_step(self, rsh_exec_run);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Measures runs without Python code in between, for comparison. */
static PyObject *exec_time_runs(PyObject *object, PyObject *arg) {
    py_exec *self = (py_exec *)object;
    long n = PyLong_AsLong(arg);
    rsh_status st = RSH_OK;
    PyThreadState *state = PyErr_Occurred() ? NULL : exec_begin_call(self);
    if (!state) return NULL;
    double begin = seconds();
    for (long i = 0; i < n && !st; i++) st = rsh_exec_run(self->e);
    double taken = seconds() - begin;
    py_comm_end(self->source->comm, state);
    return st ? py_comm_raise(self->source->comm, st) : PyFloat_FromDouble(taken);
}

PyObject *py_sharded_time_reshards(PyObject *object, PyObject *args) {
    py_sharded *self = (py_sharded *)object;
    PyObject *layout;
    long n;
    rsh_status st = RSH_OK;
    if (!PyArg_ParseTuple(args, "O!l:_time_reshards", py_layout_type, &layout, &n)) return NULL;
    PyThreadState *state = py_comm_begin(self->comm);
    if (!state) return NULL;
    double begin = seconds();
    for (long i = 0; i < n && !st; i++) {
        rsh_sharded *out = NULL;
        st = rsh_reshard(self->s, ((py_layout *)layout)->l, NULL, &out);
        rsh_sharded_free(out);
    }
    double taken = seconds() - begin;
    py_comm_end(self->comm, state);
    return st ? py_comm_raise(self->comm, st) : PyFloat_FromDouble(taken);
}

static PyObject *exec_wait(PyObject *self, PyObject *none) {
    (void)none;
    return exec_step(self, rsh_exec_wait);
}

static PyObject *exec_begin(PyObject *self, PyObject *none) {
    PyObject *target = exec_step(self, rsh_exec_begin);
    (void)none;
    if (!target) return NULL;
    Py_DECREF(target);
    Py_RETURN_NONE;
}

static PyObject *exec_test(PyObject *object, PyObject *none) {
    py_exec *self = (py_exec *)object;
    bool done = false;
    PyThreadState *state = exec_begin_call(self);
    (void)none;
    if (!state) return NULL;
    rsh_status st = rsh_exec_test(self->e, &done);
    py_comm_end(self->source->comm, state);
    return st ? py_comm_raise(self->source->comm, st) : PyBool_FromLong(done);
}

static PyObject *exec_stats(PyObject *object, PyObject *none) {
    py_exec *self = (py_exec *)object;
    rsh_exec_stats s = RSH_EXEC_STATS_INIT;
    (void)none;
    if (!self->e) return PyErr_Format(PyExc_ValueError, "the exec has ended: its comm was closed");
    if (py_check(rsh_exec_get_stats(self->e, &s))) return NULL;
    typedef unsigned long long number;
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:d,s:K}", "runs", (number)s.runs, "bytes_local", (number)s.bytes_local,
                         "bytes_shared", (number)s.bytes_shared, "bytes_wire", (number)s.bytes_wire, "seconds",
                         s.seconds, "bytes_shadow", (number)s.bytes_shadow);
}

static PyObject *get_source(PyObject *self, void *none) {
    (void)none;
    return Py_NewRef((PyObject *)((py_exec *)self)->source);
}

static PyObject *get_target(PyObject *self, void *none) {
    (void)none;
    return Py_NewRef((PyObject *)((py_exec *)self)->target);
}

static PyMethodDef exec_methods[] = {
    {"run", exec_run, METH_NOARGS, "run()\n--\n\nMoves the elements and returns the target.  Collective."},
    {"begin", exec_begin, METH_NOARGS,
     "begin()\n--\n\nStarts a run; the source must be ready.  wait() completes it.  Collective."},
    {"test", exec_test, METH_NOARGS,
     "test()\n--\n\nMakes progress without waiting; returns True if the run is complete."},
    {"wait", exec_wait, METH_NOARGS, "wait()\n--\n\nCompletes the run and returns the target."},
    {"_time_runs", exec_time_runs, METH_O, NULL},
    {"stats", exec_stats, METH_NOARGS,
     "stats()\n--\n\nReturns a dict with bytes and seconds of the runs on this rank."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef exec_getters[] = {
    {"source", get_source, NULL, "The source.  Write to its memory between runs.", NULL},
    {"target", get_target, NULL, "The target.  Read its memory after a run.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot exec_slots[] = {
    {Py_tp_dealloc, exec_dealloc},
    {Py_tp_call, exec_call},
    {Py_tp_methods, exec_methods},
    {Py_tp_getset, exec_getters},
    {Py_tp_doc, "A move that is bound to memory.  Calling it moves the elements and returns the target."},
    {0, NULL},
};

static PyType_Spec exec_spec = {"reshard.Exec", sizeof(py_exec), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, exec_slots};

/* ---- several tensors at once ---- */

typedef struct many {
    int64_t n;
    const rsh_sharded **sources; /* [n], borrowed */
    rsh_layout **layouts;        /* [n], owned */
    rsh_sharded **out;           /* [n], owned */
    py_comm *comm;               /* borrowed */
} many;

static int read_many(PyObject *sources, PyObject *layouts, many *m) {
    for (int64_t i = 0; i < m->n; i++) {
        PyObject *source = PyList_GetItem(sources, (Py_ssize_t)i), *layout = PyList_GetItem(layouts, (Py_ssize_t)i);
        py_sharded *s = source ? py_sharded_from(source) : NULL;
        if (!s || !layout) return -1;
        m->sources[i] = s->s;
        m->comm = s->comm;
        m->layouts[i] = py_layout_from(layout);
        if (!m->layouts[i]) return -1;
    }
    return 0;
}

static PyObject *list_many(many *m) {
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; i < m->n; i++) {
        PyObject *item = py_sharded_wrap(m->out[i], m->comm, false);
        if (list && (!item || PyList_Append(list, item))) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *run_many(many *m, const rsh_plan_opts *opts) {
    PyThreadState *state = py_comm_begin(m->comm);
    if (!state) return NULL;
    rsh_status st = rsh_reshard_many(m->n, m->sources, (const rsh_layout *const *)m->layouts, opts, m->out);
    py_comm_end(m->comm, state);
    return st ? py_comm_raise(m->comm, st) : list_many(m);
}

static PyObject *reshard_many(PyObject *module, PyObject *args, PyObject *keywords) {
    PyObject *sources, *layouts, *result = NULL;
    py_options options;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!:reshard_many", &PyList_Type, &sources, &PyList_Type, &layouts)) return NULL;
    many m = {.n = PyList_Size(sources)};
    if (m.n < 1 || PyList_Size(layouts) != m.n)
        return PyErr_Format(PyExc_ValueError, "expected at least 1 tensor and one layout for each, got %zd layouts "
                                              "for %lld tensors",
                            PyList_Size(layouts), (long long)m.n);
    if (py_options_read(keywords, &options)) return NULL;
    m.sources = PyMem_Calloc((size_t)m.n, sizeof *m.sources);
    m.layouts = PyMem_Calloc((size_t)m.n, sizeof *m.layouts);
    m.out = PyMem_Calloc((size_t)m.n, sizeof *m.out);
    if (!m.sources || !m.layouts || !m.out)
        PyErr_NoMemory();
    else if (!read_many(sources, layouts, &m))
        result = run_many(&m, &options.opts);
    for (int64_t i = 0; m.layouts && i < m.n; i++) rsh_layout_free(m.layouts[i]);
    PyMem_Free(m.sources);
    PyMem_Free(m.layouts);
    PyMem_Free(m.out);
    PyMem_Free(options.nodes);
    return result;
}

static PyMethodDef functions[] = {
    {"_reshard_many", (PyCFunction)(void (*)(void))reshard_many, METH_VARARGS | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};

int py_exec_add(PyObject *module) {
    transit_type = py_type_add(module, &transit_spec);
    exec_type = transit_type ? py_type_add(module, &exec_spec) : NULL;
    return exec_type ? PyModule_AddFunctions(module, functions) : -1;
}
