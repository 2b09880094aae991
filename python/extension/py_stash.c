/* Stash: stores replicated tensors as one chunk per rank until they are needed again. */
#include "py_comm.h"

#include <reshard/stash.h>

#include <string.h>

typedef struct py_stash {
    PyObject_HEAD
    rsh_stash *s; /* owned */
    py_comm *comm; /* owned */
} py_stash;

typedef struct py_ticket {
    PyObject_HEAD
    py_user user;
    rsh_ticket *t; /* owned; NULL: its comm was closed */
    py_comm *comm; /* owned */
    bool readonly;
} py_ticket;

static PyTypeObject *stash_type, *ticket_type;

/* ---- tickets ---- */

static void ticket_end(py_user *user) {
    py_ticket *self = (py_ticket *)(void *)((char *)user - offsetof(py_ticket, user));
    rsh_ticket *t = self->t;
    self->t = NULL;
    Py_BEGIN_ALLOW_THREADS
    rsh_ticket_free(t);
    Py_END_ALLOW_THREADS
}

static void ticket_dealloc(PyObject *object) {
    py_ticket *self = (py_ticket *)object;
    py_user_unlink(&self->user);
    ticket_end(&self->user);
    Py_XDECREF((PyObject *)self->comm);
    py_object_free(self);
}

static PyObject *ticket_wrap(rsh_ticket *t, py_comm *comm, bool readonly) {
    py_ticket *self = py_object_new(ticket_type);
    if (!self) {
        rsh_ticket_free(t);
        return NULL;
    }
    self->t = t;
    self->comm = (py_comm *)Py_NewRef((PyObject *)comm);
    self->readonly = readonly;
    py_user_link(&self->user, comm, ticket_end);
    return (PyObject *)self;
}

static int ticket_check(const py_ticket *self) {
    if (self->t) return 0;
    PyErr_SetString(PyExc_ValueError, "the ticket has ended: its comm was closed");
    return -1;
}

static PyObject *ticket_unpack(PyObject *object, PyObject *none) {
    py_ticket *self = (py_ticket *)object;
    rsh_tensor *out = NULL;
    (void)none;
    PyThreadState *state = ticket_check(self) ? NULL : py_comm_begin(self->comm);
    if (!state) return NULL;
    bool cut = rsh_ticket_is_cut(self->t);
    rsh_status st = rsh_stash_unpack(self->t, &out);
    py_comm_end(self->comm, state);
    if (st) return py_comm_raise(self->comm, st);
    return py_array_wrap(out, rsh_tensor_dtype(out), !cut && self->readonly);
}

static PyObject *ticket_prefetch(PyObject *object, PyObject *none) {
    py_ticket *self = (py_ticket *)object;
    (void)none;
    PyThreadState *state = ticket_check(self) ? NULL : py_comm_begin(self->comm);
    if (!state) return NULL;
    rsh_status st = rsh_stash_prefetch(self->t);
    py_comm_end(self->comm, state);
    if (st) return py_comm_raise(self->comm, st);
    Py_RETURN_NONE;
}

static PyObject *get_number(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromUnsignedLongLong(rsh_ticket_number(((py_ticket *)self)->t));
}

static PyObject *get_is_cut(PyObject *self, void *none) {
    (void)none;
    return PyBool_FromLong(((py_ticket *)self)->t && rsh_ticket_is_cut(((py_ticket *)self)->t));
}

static PyObject *get_bytes(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromUnsignedLongLong(rsh_ticket_bytes(((py_ticket *)self)->t));
}

static PyObject *get_bytes_kept(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromUnsignedLongLong(rsh_ticket_bytes_kept(((py_ticket *)self)->t));
}

static PyMethodDef ticket_methods[] = {
    {"unpack", ticket_unpack, METH_NOARGS,
     "unpack()\n--\n\nReturns the tensor as an Array.  Each call gathers again.  Collective if the tensor was cut."},
    {"prefetch", ticket_prefetch, METH_NOARGS,
     "prefetch()\n--\n\nStarts the gather, so that unpack() need not wait.  Collective if the tensor was cut."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef ticket_getters[] = {
    {"number", get_number, NULL, "The number of the ticket, counted from 1.", NULL},
    {"is_cut", get_is_cut, NULL, "True if this rank keeps only a chunk.", NULL},
    {"bytes", get_bytes, NULL, "The size of the whole tensor in bytes.", NULL},
    {"bytes_kept", get_bytes_kept, NULL, "The size that this rank keeps, in bytes.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot ticket_slots[] = {
    {Py_tp_dealloc, ticket_dealloc},
    {Py_tp_methods, ticket_methods},
    {Py_tp_getset, ticket_getters},
    {Py_tp_doc, "A packed tensor."},
    {0, NULL},
};

static PyType_Spec ticket_spec = {"reshard.Ticket", sizeof(py_ticket), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, ticket_slots};

/* ---- the stash ---- */

static PyObject *stash_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"comm", NULL};
    PyObject *comm;
    rsh_stash *s = NULL;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!:Stash", names, py_comm_type, &comm)) return NULL;
    if (py_comm_check((py_comm *)comm) || py_check(rsh_stash_new(((py_comm *)comm)->c, &s))) return NULL;
    py_stash *self = py_object_new(stash_type);
    if (!self) {
        rsh_stash_free(s);
        return NULL;
    }
    self->s = s;
    self->comm = (py_comm *)Py_NewRef(comm);
    return (PyObject *)self;
}

static void stash_dealloc(PyObject *object) {
    py_stash *self = (py_stash *)object;
    rsh_stash_free(self->s);
    Py_XDECREF((PyObject *)self->comm);
    py_object_free(self);
}

static PyObject *stash_pack(PyObject *object, PyObject *args) {
    py_stash *self = (py_stash *)object;
    PyObject *array;
    int dim;
    bool readonly = false;
    rsh_ticket *ticket = NULL;
    rsh_status st = RSH_OK;
    if (!PyArg_ParseTuple(args, "Oi:pack", &array, &dim)) return NULL;
    rsh_tensor *t = py_import(array, RSH_DTYPE_NONE, false, &readonly);
    PyThreadState *state = t ? py_comm_begin(self->comm) : NULL;
    if (state) {
        st = rsh_stash_pack(self->s, t, dim, &ticket);
        py_comm_end(self->comm, state);
    }
    rsh_tensor_free(t);
    if (st) return py_comm_raise(self->comm, st);
    return state ? ticket_wrap(ticket, self->comm, readonly) : NULL;
}

static PyObject *stash_would_cut(PyObject *object, PyObject *args) {
    py_stash *self = (py_stash *)object;
    PyObject *array;
    int dim;
    if (!PyArg_ParseTuple(args, "Oi:would_cut", &array, &dim) || py_comm_check(self->comm)) return NULL;
    rsh_tensor *t = py_import(array, RSH_DTYPE_NONE, false, NULL);
    if (!t) return NULL;
    bool cut = rsh_stash_would_cut(self->s, t, dim);
    rsh_tensor_free(t);
    return PyBool_FromLong(cut);
}

static PyObject *stash_restart(PyObject *object, PyObject *none) {
    (void)none;
    rsh_stash_restart(((py_stash *)object)->s);
    Py_RETURN_NONE;
}

static PyMethodDef stash_methods[] = {
    {"pack", stash_pack, METH_VARARGS,
     "pack(array, dim)\n--\n\nKeeps this rank's chunk of an array that is equal on all ranks, and returns a Ticket.\n"
     "An array that cannot be cut is kept whole."},
    {"would_cut", stash_would_cut, METH_VARARGS,
     "would_cut(array, dim)\n--\n\nReturns whether pack() would cut this array."},
    {"restart", stash_restart, METH_NOARGS,
     "restart()\n--\n\nRestarts the numbering of tickets at 1.  Call it at the start of every step."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot stash_slots[] = {
    {Py_tp_new, stash_new},
    {Py_tp_dealloc, stash_dealloc},
    {Py_tp_methods, stash_methods},
    {Py_tp_doc, "Stash(comm)\n--\n\nStores replicated tensors as one chunk per rank until they are needed "
                "again.\n\nEvery rank must pack the same tensors in the same order."},
    {0, NULL},
};

static PyType_Spec stash_spec = {"reshard.Stash", sizeof(py_stash), 0, Py_TPFLAGS_DEFAULT, stash_slots};

int py_stash_add(PyObject *module) {
    stash_type = py_type_add(module, &stash_spec);
    ticket_type = stash_type ? py_type_add(module, &ticket_spec) : NULL;
    return ticket_type ? 0 : -1;
}
