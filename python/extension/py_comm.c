/* Comm: a group of ranks.  It belongs to one thread, its rank. */
#include "py_comm.h"

#include <string.h>

PyTypeObject *py_comm_type;

static py_comm *get(PyObject *self) { return (py_comm *)self; }

/* ---- calls without the interpreter lock ---- */

/* Called while the library waits; returns 1 if the user pressed Ctrl-C or the rank should stop. */
static int is_interrupted(void *ctx) {
    py_comm *comm = ctx;
    if (comm->stop) return 1;
    PyGILState_STATE state = PyGILState_Ensure();
    int stop = PyErr_CheckSignals();
    PyGILState_Release(state);
    return stop;
}

int py_comm_check(py_comm *comm) {
    if (comm->c) return 0;
    PyErr_SetString(PyExc_ValueError, "comm is closed");
    return -1;
}

PyThreadState *py_comm_begin(py_comm *comm) {
    if (py_comm_check(comm)) return NULL;
    if (comm->busy) {
        PyErr_SetString(PyExc_RuntimeError, "comm is in use by another thread; only its own thread may use it");
        return NULL;
    }
    comm->busy = 1;
    Py_INCREF((PyObject *)comm);
    rsh_interrupt_set(is_interrupted, comm);
    return PyEval_SaveThread();
}

void py_comm_end(py_comm *comm, PyThreadState *state) {
    PyEval_RestoreThread(state);
    rsh_interrupt_set(NULL, NULL);
    comm->busy = 0;
    Py_DECREF((PyObject *)comm);
}

PyObject *py_comm_raise(py_comm *comm, rsh_status status) {
    if (!PyErr_Occurred() && comm->stop) PyErr_SetNone(PyExc_KeyboardInterrupt);
    return py_raise(status);
}

/* ---- users ---- */

void py_user_link(py_user *user, py_comm *comm, void (*end)(py_user *user)) {
    user->comm = comm;
    user->end = end;
    user->next = &comm->users;
    user->previous = comm->users.previous;
    comm->users.previous->next = user;
    comm->users.previous = user;
}

void py_user_unlink(py_user *user) {
    if (!user->comm) return;
    user->previous->next = user->next;
    user->next->previous = user->previous;
    user->comm = NULL;
}

static void end_users(py_comm *comm) {
    while (comm->users.next != &comm->users) {
        py_user *user = comm->users.next;
        py_user_unlink(user);
        user->end(user);
    }
}

/* ---- creating ---- */

PyObject *py_comm_wrap(rsh_comm *c, bool by_mpi) {
    py_comm *self = py_object_new(py_comm_type);
    if (!self) {
        rsh_comm_free(c);
        return NULL;
    }
    self->c = c;
    self->rank = rsh_comm_rank(c);
    self->size = rsh_comm_size(c);
    self->by_mpi = by_mpi;
    self->users.next = self->users.previous = &self->users;
    return (PyObject *)self;
}

static PyObject *comm_threads(PyObject *module, PyObject *arg) {
    long n = PyLong_AsLong(arg);
    (void)module;
    if (PyErr_Occurred()) return NULL;
    if (n < 1 || n > 65536) return PyErr_Format(PyExc_ValueError, "number of ranks must be 1 to 65536, got %ld", n);
    rsh_comm **comms = PyMem_Calloc((size_t)n, sizeof *comms);
    PyObject *list = comms ? PyList_New(0) : NULL;
    if (list && py_check(rsh_comm_threads((int)n, comms))) Py_CLEAR(list);
    for (long i = 0; list && i < n; i++) {
        PyObject *comm = py_comm_wrap(comms[i], false);
        if (!comm || PyList_Append(list, comm)) Py_CLEAR(list);
        Py_XDECREF(comm);
    }
    PyMem_Free(comms);
    return list;
}

/* Checks signals only: during a join there is no comm yet whose stop flag could be set. */
static int only_signals(void *none) {
    (void)none;
    PyGILState_STATE state = PyGILState_Ensure();
    int stop = PyErr_CheckSignals();
    PyGILState_Release(state);
    return stop;
}

static PyObject *comm_join(PyObject *module, PyObject *args) {
    const char *name = NULL;
    int rank = 0, size = 1;
    rsh_comm *c = NULL;
    rsh_status st;
    (void)module;
    if (!PyArg_ParseTuple(args, "|sii:_join", &name, &rank, &size)) return NULL;
    rsh_interrupt_set(only_signals, NULL);
    Py_BEGIN_ALLOW_THREADS
    st = name ? rsh_comm_shm(name, rank, size, &c) : rsh_comm_join(&c);
    Py_END_ALLOW_THREADS
    rsh_interrupt_set(NULL, NULL);
    return st ? py_raise(st) : py_comm_wrap(c, false);
}

/* ---- closing ---- */

static rsh_status free_comm(py_comm *self) {
    rsh_comm *c = self->c;
    rsh_status st;
    PyThreadState *state = PyEval_SaveThread();
    st = rsh_comm_free(c);
    PyEval_RestoreThread(state);
    if (!st) self->c = NULL;
    return st;
}

static PyObject *comm_close(PyObject *self, PyObject *none) {
    (void)none;
    if (!get(self)->c) Py_RETURN_NONE;
    if (get(self)->busy) return PyErr_Format(PyExc_RuntimeError, "cannot close the comm: another thread is using it");
    end_users(get(self));
    rsh_status st = free_comm(get(self));
    if (st) return py_raise(st);
    Py_RETURN_NONE;
}

/* Deallocates a comm.  Freeing an MPI comm is collective, and garbage collection is not, so such a comm is not freed
 * here. */
static void comm_dealloc(PyObject *self) {
    py_comm *comm = get(self);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (comm->c && comm->by_mpi)
        PyErr_WarnEx(PyExc_ResourceWarning, "an MPI comm was not closed; call close() on every rank", 1);
    else if (comm->c)
        free_comm(comm);
    PyErr_Restore(type, value, trace);
    py_object_free(self);
}

static PyObject *comm_enter(PyObject *self, PyObject *none) {
    (void)none;
    return Py_NewRef(self);
}

static PyObject *comm_fail(PyObject *self, PyObject *args) {
    const char *sentence;
    if (!PyArg_ParseTuple(args, "s:_fail", &sentence)) return NULL;
    if (get(self)->c && !get(self)->busy) rsh_comm_fail(get(self)->c, RSH_ERUNTIME, sentence);
    Py_RETURN_NONE;
}

static PyObject *comm_exit(PyObject *self, PyObject *args) {
    PyObject *type, *value, *trace;
    if (!PyArg_ParseTuple(args, "OOO:__exit__", &type, &value, &trace)) return NULL;
    if (value != Py_None && get(self)->c && !get(self)->busy) {
        PyObject *text = PyObject_Str(value);
        const char *sentence = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
        rsh_comm_fail(get(self)->c, RSH_ERUNTIME, sentence ? sentence : "");
        PyErr_Clear();
        Py_XDECREF(text);
    }
    return comm_close(self, NULL);
}

static PyObject *comm_stop(PyObject *self, PyObject *none) {
    (void)none;
    get(self)->stop = 1;
    Py_RETURN_NONE;
}

/* ---- collective calls ---- */

static PyObject *comm_barrier(PyObject *self, PyObject *none) {
    PyThreadState *state = py_comm_begin(get(self));
    (void)none;
    if (!state) return NULL;
    rsh_status st = rsh_comm_barrier(get(self)->c);
    py_comm_end(get(self), state);
    if (st) return py_comm_raise(get(self), st);
    Py_RETURN_NONE;
}

static PyObject *split_blocks(const char *all, int n, Py_ssize_t bytes) {
    PyObject *list = PyList_New(0);
    for (int r = 0; list && r < n; r++) {
        PyObject *block = PyBytes_FromStringAndSize(all + r * bytes, bytes);
        if (!block || PyList_Append(list, block)) Py_CLEAR(list);
        Py_XDECREF(block);
    }
    return list;
}

static PyObject *comm_allgather(PyObject *self, PyObject *args) {
    Py_buffer mine;
    PyObject *list = NULL;
    if (!PyArg_ParseTuple(args, "y*:_allgather", &mine)) return NULL;
    char *all = PyMem_Malloc((size_t)mine.len * (size_t)get(self)->size + 1);
    PyThreadState *state = all ? py_comm_begin(get(self)) : NULL;
    if (!all) PyErr_NoMemory();
    if (state) {
        rsh_status st = rsh_comm_allgather(get(self)->c, mine.buf, all, (size_t)mine.len);
        py_comm_end(get(self), state);
        list = st ? py_comm_raise(get(self), st) : split_blocks(all, get(self)->size, mine.len);
    }
    PyMem_Free(all);
    PyBuffer_Release(&mine);
    return list;
}

static PyObject *comm_allreduce(PyObject *self, PyObject *args) {
    PyObject *array;
    const char *name = "sum";
    rsh_op op;
    rsh_tensor *result = NULL;
    rsh_status st;
    if (!PyArg_ParseTuple(args, "O|s:allreduce", &array, &name)) return NULL;
    if (py_check(rsh_op_parse(name, strlen(name), &op))) return NULL;
    rsh_tensor *t = py_import(array, RSH_DTYPE_NONE, false, NULL);
    if (!t) return NULL;
    if (!rsh_tensor_dense(t))
        st = rsh_fail(RSH_EVALUE, "allreduce: array must be dense and row-major; pass a copy");
    else
        st = rsh_tensor_empty(rsh_tensor_dtype(t), rsh_tensor_ndim(t), rsh_tensor_shape(t), &result);
    PyThreadState *state = st ? NULL : py_comm_begin(get(self));
    if (state) {
        st = rsh_comm_allreduce(get(self)->c, rsh_tensor_data(t), rsh_tensor_data(result), rsh_tensor_count(t),
                                rsh_tensor_dtype(t), op);
        py_comm_end(get(self), state);
    }
    rsh_tensor_free(t);
    if (state && !st) return py_array_wrap(result, rsh_tensor_dtype(result), false);
    rsh_tensor_free(result);
    return st ? py_comm_raise(get(self), st) : NULL;
}

static PyObject *comm_split(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"colour", "key", NULL};
    int colour, key = 0;
    rsh_comm *made = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "i|i:split", names, &colour, &key)) return NULL;
    PyThreadState *state = py_comm_begin(get(self));
    if (!state) return NULL;
    rsh_status st = rsh_comm_split(get(self)->c, colour, key, &made);
    py_comm_end(get(self), state);
    if (st) return py_comm_raise(get(self), st);
    if (!made) Py_RETURN_NONE;
    return py_comm_wrap(made, get(self)->by_mpi);
}

static PyObject *comm_node(PyObject *self, PyObject *arg) {
    long rank = PyLong_AsLong(arg);
    if (PyErr_Occurred() || py_comm_check(get(self))) return NULL;
    if (rank < 0 || rank >= get(self)->size)
        return PyErr_Format(PyExc_IndexError, "rank must be 0 to %d, got %ld", get(self)->size - 1, rank);
    return PyLong_FromLong(rsh_comm_node(get(self)->c, (int)rank));
}

static PyObject *comm_cache_stats(PyObject *self, PyObject *none) {
    rsh_cache_stats stats = RSH_CACHE_STATS_INIT;
    (void)none;
    if (py_comm_check(get(self)) || py_check(rsh_comm_get_cache_stats(get(self)->c, &stats))) return NULL;
    return Py_BuildValue("{s:K,s:K,s:L}", "hits", (unsigned long long)stats.hits, "misses",
                         (unsigned long long)stats.misses, "bindings", (long long)stats.bindings);
}

/* ---- getters ---- */

static PyObject *get_rank(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromLong(get(self)->rank);
}

static PyObject *get_size(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromLong(get(self)->size);
}

static PyObject *get_closed(PyObject *self, void *none) {
    (void)none;
    return PyBool_FromLong(!get(self)->c);
}

static PyObject *get_engine(PyObject *self, void *none) {
    (void)none;
    if (py_comm_check(get(self))) return NULL;
    return PyUnicode_FromString(rsh_comm_engine(get(self)->c));
}

static PyObject *get_nnodes(PyObject *self, void *none) {
    (void)none;
    if (py_comm_check(get(self))) return NULL;
    return PyLong_FromLong(rsh_comm_nnodes(get(self)->c));
}

static PyObject *comm_repr(PyObject *self) {
    const py_comm *comm = get(self);
    return PyUnicode_FromFormat("<reshard.Comm rank %d of %d, %s>", comm->rank, comm->size,
                                comm->c ? rsh_comm_engine(comm->c) : "closed");
}

static PyMethodDef methods[] = {
    {"barrier", comm_barrier, METH_NOARGS, "barrier()\n--\n\nReturns when every rank has called it.  Collective."},
    {"allgather_bytes", comm_allgather, METH_VARARGS,
     "allgather_bytes(data)\n--\n\nReturns the bytes of every rank as a list; all ranks must pass the same length.  "
     "Collective."},
    {"allreduce", comm_allreduce, METH_VARARGS,
     "allreduce(array, op='sum')\n--\n\nReduces a few numbers over all ranks, element by element.  Collective.\n"
     "For tensors, reshard a layout with partial values instead."},
    {"split", (PyCFunction)(void (*)(void))comm_split, METH_VARARGS | METH_KEYWORDS,
     "split(colour, key=0)\n--\n\nReturns a comm of the ranks with equal colour, ordered by (key, rank); None for a "
     "negative\n"
     "colour.  Collective."},
    {"node", comm_node, METH_O, "node(rank)\n--\n\nReturns the node of a rank."},
    {"cache_stats", comm_cache_stats, METH_NOARGS,
     "cache_stats()\n--\n\nReturns a dict that tells how often plans and bindings were found in the cache."},
    {"close", comm_close, METH_NOARGS,
     "close()\n--\n\nCloses the comm, and all execs and transits on it.  With MPI this is collective."},
    {"_fail", comm_fail, METH_VARARGS, NULL},
    {"_stop", comm_stop, METH_NOARGS, NULL},
    {"__enter__", comm_enter, METH_NOARGS, NULL},
    {"__exit__", comm_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"rank", get_rank, NULL, "The rank of this thread or process.", NULL},
    {"size", get_size, NULL, "The number of ranks.", NULL},
    {"engine", get_engine, NULL, "\"threads\", \"shm\" or \"mpi\".", NULL},
    {"nnodes", get_nnodes, NULL, "The number of nodes.  Ranks of one node can read each other's memory.", NULL},
    {"closed", get_closed, NULL, "True if this rank has closed the comm.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, py_comm_from_mpi},
    {Py_tp_dealloc, comm_dealloc},
    {Py_tp_repr, comm_repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_doc,
     "Comm(mpi_comm)\n--\n\nA group of ranks, here on a communicator of mpi4py.\n\n"
     "reshard.run() and reshard.join() create comms without MPI.  A comm belongs to one thread, its rank.  Every\n"
     "rank must make the same collective calls in the same order."},
    {0, NULL},
};

static PyType_Spec spec = {"reshard.Comm", sizeof(py_comm), 0, Py_TPFLAGS_DEFAULT, slots};

/* Raises an exception in another thread, which gets it when it next runs Python code. */
static PyObject *raise_in_thread(PyObject *module, PyObject *args) {
    unsigned long thread;
    PyObject *error;
    (void)module;
    if (!PyArg_ParseTuple(args, "kO:_raise_in_thread", &thread, &error)) return NULL;
    return PyLong_FromLong(PyThreadState_SetAsyncExc(thread, error));
}

static PyMethodDef functions[] = {
    {"_raise_in_thread", raise_in_thread, METH_VARARGS, NULL},
    {"_comm_threads", comm_threads, METH_O, NULL},
    {"_join", comm_join, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int py_comm_add(PyObject *module) {
    py_comm_type = py_type_add(module, &spec);
    return py_comm_type ? PyModule_AddFunctions(module, functions) : -1;
}
