/* Comm: functions for objects that use a comm. */
#ifndef PY_COMM_H
#define PY_COMM_H

#include "py_module.h"

/* Begins a call on the comm: checks that it is open and that no other thread is in a call, and
 * releases the interpreter lock.  NULL with an exception.  Until py_comm_end no Python object may
 * be used. */
PyThreadState *py_comm_begin(py_comm *comm);
/* Ends the call and takes the lock again. */
void py_comm_end(py_comm *comm, PyThreadState *state);
/* 0, or -1 with an exception if the comm is closed. */
int py_comm_check(py_comm *comm);
/* Raises the status of a call on the comm; KeyboardInterrupt if the program was interrupted. */
PyObject *py_comm_raise(py_comm *comm, rsh_status status);

/* Comm(mpi_comm): the constructor of the type. */
PyObject *py_comm_from_mpi(PyTypeObject *type, PyObject *args, PyObject *keywords);
/* Wraps a comm and takes ownership of it. */
PyObject *py_comm_wrap(rsh_comm *c, bool by_mpi);

/* Links an object to its comm, so that it ends before the comm. */
void py_user_link(py_user *user, py_comm *comm, void (*end)(py_user *user));
/* Unlinks it.  No-op if it is not linked. */
void py_user_unlink(py_user *user);

/* Wraps a sharded tensor and takes ownership of it. */
PyObject *py_sharded_wrap(rsh_sharded *s, py_comm *comm, bool readonly);
/* Methods of Sharded that create a Transit and an Exec. */
PyObject *py_sharded_begin(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_sharded_bind(PyObject *self, PyObject *args, PyObject *keywords);
/* Measures n reshards without Python in between, in seconds. */
PyObject *py_sharded_time_reshards(PyObject *self, PyObject *args);
/* The sharded tensor of an object, or NULL with TypeError. */
py_sharded *py_sharded_from(PyObject *object);

#endif
