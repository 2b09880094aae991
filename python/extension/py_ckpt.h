/* Checkpoints: what their files share. */
#ifndef PY_CKPT_H
#define PY_CKPT_H

#include "py_comm.h"

/* Rules of a Rules object or of a file; None gives NULL.  `owner` keeps them: Py_XDECREF it. */
int py_rules_from(PyObject *object, const rsh_ckpt_rules **rules, PyObject **owner);

/* An open checkpoint, or NULL with an exception if it is closed. */
const rsh_ckpt *py_ckpt_get(PyObject *object);
extern PyTypeObject *py_ckpt_type;

/* A list of str as texts that live as long as the list; freed with PyMem_Free. */
const char **py_texts_from(PyObject *list, int64_t *n);

/* A callable that is told how far the work is: callable(done, total) returns true to stop. */
typedef struct py_progress {
    PyObject *callable; /* borrowed */
    PyObject *type, *value, *trace; /* owned: what it raised */
} py_progress;
int py_progress_tell(void *ctx, uint64_t done, uint64_t total);
/* Raises what the callable raised, or the status. */
PyObject *py_progress_raise(py_progress *progress, rsh_status status);

#endif
