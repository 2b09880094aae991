/* Checkpoints: shared by their files. */
#ifndef PY_CKPT_H
#define PY_CKPT_H

#include "py_comm.h"

/* Returns the rules of a Rules object or of a file; NULL for None.  `owner` keeps them alive; call
 * Py_XDECREF on it. */
int py_rules_from(PyObject *object, const rsh_ckpt_rules **rules, PyObject **owner);

/* Returns an open checkpoint, or NULL with an exception if it is closed. */
const rsh_ckpt *py_ckpt_get(PyObject *object);
extern PyTypeObject *py_ckpt_type;

/* Converts a list of str to texts that are valid as long as the list; freed with PyMem_Free. */
const char **py_texts_from(PyObject *list, int64_t *n);

/* A callback for progress: callable(done, total) returns true to stop. */
typedef struct py_progress {
    PyObject *callable; /* borrowed */
    PyObject *type, *value, *trace; /* owned; the exception that it raised */
} py_progress;
int py_progress_tell(void *ctx, uint64_t done, uint64_t total);
/* Raises the exception of the callback, or that of the status. */
PyObject *py_progress_raise(py_progress *progress, rsh_status status);

#endif
