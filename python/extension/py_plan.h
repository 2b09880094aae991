/* Plan: shared by its files. */
#ifndef PY_PLAN_H
#define PY_PLAN_H

#include "py_module.h"

/* Reads layouts of several tensors from one layout or a sequence.  NULL with an exception. */
rsh_layout **py_layouts_from(PyObject *object, int64_t *n);
void py_layouts_free(rsh_layout **layouts, int64_t n);
PyObject *py_layouts_list(rsh_layout **layouts, int64_t n);

/* Source and target layouts, equally many. */
typedef struct py_pair {
    rsh_layout **from, **to; /* owned */
    int64_t n, nto;
} py_pair;
int py_pair_read(PyObject *from, PyObject *to, py_pair *out);
void py_pair_free(py_pair *pair);

/* Methods that only read a plan. */
PyObject *py_plan_totals(PyObject *self, PyObject *none);
PyObject *py_plan_rank(PyObject *self, PyObject *rank);
PyObject *py_plan_bytes_per_rank(PyObject *self, PyObject *none);
PyObject *py_plan_sources(PyObject *self, PyObject *rank);
PyObject *py_plan_destinations(PyObject *self, PyObject *rank);
PyObject *py_plan_matrix(PyObject *self, PyObject *none);
PyObject *py_plan_stages(PyObject *self, PyObject *rank);
PyObject *py_plan_simulate(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *py_plan_print(PyObject *self, PyObject *args);
PyObject *py_plan_draw(PyObject *self, PyObject *args);
PyObject *py_plan_bind(PyObject *self, PyObject *args);

/* Returns one total; `member` is its offset in rsh_plan_totals. */
PyObject *py_plan_total(PyObject *self, void *member);
#define PY_TOTAL_MAP(X) \
    X(tensor_bytes, "Size of the target tensors in bytes, without replicas.") \
    X(bytes_moved, "Bytes that move between different ranks.") \
    X(lower_bound, "The minimum number of bytes that any plan must move.") \
    X(bytes_local, "Bytes that are copied within a rank.") \
    X(bytes_between_nodes, "Bytes that move between nodes.") \
    X(lower_bound_between_nodes, "The fewest bytes that any plan must move between nodes.") \
    X(max_send, "The maximum number of bytes that one rank sends.") \
    X(max_recv, "The maximum number of bytes that one rank receives.") \
    X(messages, "The number of pairs of different ranks that exchange data.") \
    X(scratch_bytes, "The maximum scratch memory of a rank with direct transport, in bytes.") \
    X(scratch_messages, "The maximum scratch memory of a rank with messages, in bytes.")
#define PY_TOTAL_GETTER(name, text) \
    {#name, py_plan_total, NULL, text, (void *)offsetof(rsh_plan_totals, name)},
#define PY_TOTAL_GETTERS \
    PY_TOTAL_MAP(PY_TOTAL_GETTER) \
    {"ntensors", py_plan_ntensors, NULL, "The number of tensors.", NULL}
PyObject *py_plan_ntensors(PyObject *self, void *none);

int py_relabel_add(PyObject *module);

#endif
