/* _reshard: the extension module, on public headers and the limited API of Python 3.11.
 *
 * There is a file for each kind of object.  A function that returns PyObject * returns a new
 * reference, or NULL with an exception set; a function that returns int returns 0, or -1 with an
 * exception set. */
#ifndef PY_MODULE_H
#define PY_MODULE_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

#include <stdbool.h>

#include <reshard.h>
#include <reshard/stash.h>

/* ---- objects ---- */

typedef struct py_layout {
    PyObject_HEAD
    rsh_layout *l; /* owned */
} py_layout;

typedef struct py_plan {
    PyObject_HEAD
    rsh_plan *p;       /* owned */
    PyObject *options; /* owned: a dict of those that were given */
    PyObject *derived; /* owned: (plan, "adjoint" or "backward"); NULL: made from layouts */
} py_plan;

typedef struct py_array {
    PyObject_HEAD
    rsh_tensor *t; /* owned */
    rsh_dtype dtype; /* of the elements; storage-only dtypes are stored in a tensor of u8 */
    bool readonly;
} py_array;

typedef struct py_comm py_comm;

/* Something that uses a comm and must end before it: an exec, a transit, a ticket. */
typedef struct py_user {
    struct py_user *previous, *next; /* in the comm's ring */
    py_comm *comm;                   /* borrowed from the object around this; NULL: not linked */
    void (*end)(struct py_user *user);
} py_user;

struct py_comm {
    PyObject_HEAD
    rsh_comm *c;         /* owned; NULL: closed */
    int rank, size;
    volatile int busy;   /* a thread is in a call without the interpreter's lock */
    volatile int stop;   /* waits should end: the program was interrupted */
    bool by_mpi;         /* its owner is libreshard-mpi */
    py_user users;       /* the head of a ring */
};

typedef struct py_sharded {
    PyObject_HEAD
    rsh_sharded *s; /* owned */
    py_comm *comm;  /* owned */
    bool readonly;  /* a part is memory that must not be written */
} py_sharded;

extern PyTypeObject *py_layout_type, *py_plan_type, *py_array_type, *py_comm_type, *py_sharded_type;
extern PyObject *py_peer_error, *py_mismatch_error;

/* Each adds its types and functions to the module. */
int py_errors_add(PyObject *module);
int py_layout_add(PyObject *module);
int py_plan_add(PyObject *module);
int py_array_add(PyObject *module);
int py_move_add(PyObject *module);
int py_comm_add(PyObject *module);
int py_sharded_add(PyObject *module);
int py_exec_add(PyObject *module);
int py_rules_add(PyObject *module);
int py_ckpt_add(PyObject *module);
int py_convert_add(PyObject *module);
int py_stash_add(PyObject *module);

/* Creates a type from its spec and adds it to the module.  The result is borrowed. */
PyTypeObject *py_type_add(PyObject *module, PyType_Spec *spec);
/* A new object of the type, zeroed; frees one. */
void *py_object_new(PyTypeObject *type);
void py_object_free(void *self);

/* ---- errors ---- */

/* Raises the exception for a status with the library's sentence, and returns NULL. */
PyObject *py_raise(rsh_status status);
/* 0 for RSH_OK; otherwise -1 with the exception. */
int py_check(rsh_status status);

/* ---- values ---- */

PyObject *py_dtype_object(rsh_dtype dtype);
/* A name such as "f32", "float32" or "torch.float32", or an object with such a name. */
int py_dtype_from(PyObject *object, rsh_dtype *out);
PyObject *py_ints(int64_t n, const int64_t *values);
/* Reads a sequence of at most `most` integers. */
int py_ints_from(PyObject *sequence, int most, int64_t *values, int *n);

/* Numbers that a walk gives, gathered without the interpreter's lock; freed with free. */
typedef struct py_numbers {
    int64_t *values;
    size_t n, room;
    bool failed; /* there was no memory */
} py_numbers;
/* Appends n numbers; non-zero, which stops a walk, if there is no memory. */
int py_numbers_push(py_numbers *list, int n, const int64_t *values);

/* The layout of a Layout or a text, held: the caller frees it.  NULL with an exception. */
rsh_layout *py_layout_from(PyObject *object);
/* Wraps a layout; takes over the reference. */
PyObject *py_layout_wrap(rsh_layout *l);

/* Plan options from keyword arguments; `nodes` is freed with PyMem_Free. */
typedef struct py_options {
    rsh_plan_opts opts;
    int64_t *nodes;
} py_options;
int py_options_read(PyObject *keywords, py_options *out);

/* Text that a function of the library writes to a sink. */
typedef struct py_text {
    char *bytes;
    size_t length, room;
} py_text;
rsh_sink py_text_sink(py_text *text);
/* The text as a str; frees the buffer.  With a status that is not RSH_OK raises it. */
PyObject *py_text_finish(py_text *text, rsh_status status);

/* ---- arrays ---- */

/* Imports an array without copying: a tensor on its memory that keeps the object alive.  `want` is
 * the dtype that the caller expects; integers of the same size stand for floats that NumPy lacks.
 * RSH_DTYPE_NONE: any.  With `writable`, read-only memory is refused.  NULL with an exception. */
rsh_tensor *py_import(PyObject *object, rsh_dtype want, bool writable, bool *readonly);
/* Wraps a tensor; takes over the reference. */
PyObject *py_array_wrap(rsh_tensor *t, rsh_dtype dtype, bool readonly);
/* The array of one part of a rank: the object itself, or one of a list.  NULL with an exception. */
PyObject *py_part_of(PyObject *object, int64_t nparts, int64_t part);
/* ValueError if a tensor does not have the shape of the part. */
int py_part_check(const rsh_layout *l, int64_t rank, int64_t part, const rsh_tensor *t);
/* Another tensor on the same storage. */
rsh_tensor *py_tensor_again(const rsh_tensor *t);

#endif
