/* _reshard: the extension module.  It uses public headers and the limited API of Python 3.11.
 *
 * There is one file for each kind of object.  Functions that return PyObject * return a new
 * reference, or NULL with an exception; functions that return int return 0, or -1 with an
 * exception. */
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
    PyObject *options; /* owned; a dict of the given options */
    PyObject *derived; /* owned; (plan, "adjoint" or "backward"); NULL: created from layouts */
} py_plan;

typedef struct py_array {
    PyObject_HEAD
    rsh_tensor *t; /* owned */
    rsh_dtype dtype; /* of the elements; storage-only dtypes are stored in a tensor of u8 */
    bool readonly;
} py_array;

typedef struct py_comm py_comm;

/* An object that uses a comm and must end before it: an exec, a transit, a ticket. */
typedef struct py_user {
    struct py_user *previous, *next; /* in the comm's ring */
    py_comm *comm;                   /* borrowed from the enclosing object; NULL: not linked */
    void (*end)(struct py_user *user);
} py_user;

struct py_comm {
    PyObject_HEAD
    rsh_comm *c;         /* owned; NULL: closed */
    int rank, size;
    volatile int busy;   /* a thread is in a call without the interpreter lock */
    volatile int stop;   /* waits should end, because the program was interrupted */
    bool by_mpi;         /* libreshard-mpi owns it */
    py_user users;       /* the head of a ring */
};

typedef struct py_sharded {
    PyObject_HEAD
    rsh_sharded *s; /* owned */
    py_comm *comm;  /* owned */
    bool readonly;  /* a part is on read-only memory */
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
/* Create a zeroed object of the type, and free one. */
void *py_object_new(PyTypeObject *type);
void py_object_free(void *self);

/* ---- errors ---- */

/* Raises the exception for a status with the library's message, and returns NULL. */
PyObject *py_raise(rsh_status status);
/* 0 for RSH_OK; otherwise -1 with the exception. */
int py_check(rsh_status status);

/* ---- values ---- */

PyObject *py_dtype_object(rsh_dtype dtype);
/* Reads a name such as "f32", "float32" or "torch.float32", or an object with such a name. */
int py_dtype_from(PyObject *object, rsh_dtype *out);
PyObject *py_ints(int64_t n, const int64_t *values);
/* Reads a sequence of at most `most` integers. */
int py_ints_from(PyObject *sequence, int most, int64_t *values, int *n);

/* A list of numbers that is filled without the interpreter lock; freed with free. */
typedef struct py_numbers {
    int64_t *values;
    size_t n, room;
    bool failed; /* memory has run out */
} py_numbers;
/* Appends n numbers; returns nonzero, which stops a walk, if memory runs out. */
int py_numbers_push(py_numbers *list, int n, const int64_t *values);

/* Returns the layout of a Layout or a text; the caller frees it.  NULL with an exception. */
rsh_layout *py_layout_from(PyObject *object);
/* Wraps a layout and takes ownership of the reference. */
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
/* Returns the text as a str and frees the buffer.  Raises `status` if it is not RSH_OK. */
PyObject *py_text_finish(py_text *text, rsh_status status);

/* ---- arrays ---- */

/* Imports an array without copying: a tensor on its memory that keeps the object alive.  `want` is
 * the expected dtype (RSH_DTYPE_NONE: any); integers of the same size are accepted for floats that
 * NumPy lacks.  With `writable`, read-only memory is an error.  NULL with an exception. */
rsh_tensor *py_import(PyObject *object, rsh_dtype want, bool writable, bool *readonly);
/* Wraps a tensor and takes ownership of the reference. */
PyObject *py_array_wrap(rsh_tensor *t, rsh_dtype dtype, bool readonly);
/* Returns the array of one part of a rank: the object itself, or an entry of a list.  NULL with an
 * exception. */
PyObject *py_part_of(PyObject *object, int64_t nparts, int64_t part);
/* ValueError if the tensor does not have the shape of the part. */
int py_part_check(const rsh_layout *l, int64_t rank, int64_t part, const rsh_tensor *t);
/* Creates another tensor on the same storage. */
rsh_tensor *py_tensor_again(const rsh_tensor *t);

#endif
