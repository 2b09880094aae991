/* Comm: what objects that use a comm need. */
#ifndef PY_COMM_H
#define PY_COMM_H

#include "py_module.h"

/* Begins a call on the comm: checks that it is open and that no other thread is in a call, and
 * releases the interpreter's lock.  NULL with an exception.  Until py_comm_end nothing of Python
 * may be touched. */
PyThreadState *py_comm_begin(py_comm *comm);
/* Ends it: takes the lock again. */
void py_comm_end(py_comm *comm, PyThreadState *state);
/* 0, or -1 with an exception if the comm is closed. */
int py_comm_check(py_comm *comm);
/* Raises what a call on the comm returned; KeyboardInterrupt if the program was interrupted. */
PyObject *py_comm_raise(py_comm *comm, rsh_status status);

/* Comm(mpi_comm): the constructor of the type. */
PyObject *py_comm_from_mpi(PyTypeObject *type, PyObject *args, PyObject *keywords);
/* Wraps a comm; takes it over. */
PyObject *py_comm_wrap(rsh_comm *c, bool by_mpi);

/* Links a user of the comm, so that it ends before the comm does. */
void py_user_link(py_user *user, py_comm *comm, void (*end)(py_user *user));
/* Unlinks it, if it is linked. */
void py_user_unlink(py_user *user);

/* Wraps a sharded tensor; takes it over. */
PyObject *py_sharded_wrap(rsh_sharded *s, py_comm *comm, bool readonly);
/* Methods of Sharded that make a Transit and an Exec. */
PyObject *py_sharded_begin(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_sharded_bind(PyObject *self, PyObject *args, PyObject *keywords);
/* Seconds of n reshards without Python between them. */
PyObject *py_sharded_time_reshards(PyObject *self, PyObject *args);
/* The sharded tensor of an object, or NULL with TypeError. */
py_sharded *py_sharded_from(PyObject *object);

#endif
