/* Plan options as keyword arguments. */
#include "py_module.h"

#include <string.h>

static int read_nodes(PyObject *value, py_options *out) {
    Py_ssize_t n = PySequence_Size(value);
    if (n < 0) return -1;
    out->nodes = PyMem_Calloc((size_t)n + 1, sizeof *out->nodes);
    if (!out->nodes) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        out->nodes[i] = item ? PyLong_AsLongLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred()) return -1;
    }
    out->opts.node_of = out->nodes;
    out->opts.nnode_of = n;
    return 0;
}

static int read_reduce(PyObject *value, rsh_reduce_order *out) {
    const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
    if (text && !strcmp(text, "in_order"))
        *out = RSH_REDUCE_IN_ORDER;
    else if (text && !strcmp(text, "by_node"))
        *out = RSH_REDUCE_BY_NODE;
    else {
        PyErr_Format(PyExc_ValueError, "reduce must be \"in_order\" or \"by_node\", got %R", value);
        return -1;
    }
    return 0;
}

static int read_flag(PyObject *value, bool *out) {
    int truth = PyObject_IsTrue(value);
    *out = truth > 0;
    return truth < 0 ? -1 : 0;
}

static int read_scratch(PyObject *value, rsh_plan_opts *opts) {
    opts->has_max_scratch = true;
    opts->max_scratch_bytes = PyLong_AsUnsignedLongLong(value);
    return PyErr_Occurred() ? -1 : 0;
}

static int read_ranks_per_node(PyObject *value, rsh_plan_opts *opts) {
    opts->ranks_per_node = PyLong_AsLongLong(value);
    return PyErr_Occurred() ? -1 : 0;
}

static int read_option(const char *name, PyObject *value, py_options *out) {
    rsh_plan_opts *opts = &out->opts;
    if (!strcmp(name, "nodes")) return read_nodes(value, out);
    if (!strcmp(name, "ranks_per_node")) return read_ranks_per_node(value, opts);
    if (!strcmp(name, "max_scratch")) return read_scratch(value, opts);
    if (!strcmp(name, "reduce")) return read_reduce(value, &opts->reduce);
    if (!strcmp(name, "approximate")) return read_flag(value, &opts->approximate);
    if (!strcmp(name, "may_alias")) return read_flag(value, &opts->may_alias);
    if (!strcmp(name, "messages")) return read_flag(value, &opts->messages);
    PyErr_Format(PyExc_TypeError,
                 "unknown option \"%s\"; expected nodes, ranks_per_node, max_scratch, reduce, approximate, may_alias "
                 "or messages",
                 name);
    return -1;
}

int py_options_read(PyObject *keywords, py_options *out) {
    PyObject *key, *value;
    Py_ssize_t place = 0;
    *out = (py_options){.opts = RSH_PLAN_OPTS_INIT};
    while (keywords && PyDict_Next(keywords, &place, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        if (!name || (value != Py_None && read_option(name, value, out))) {
            PyMem_Free(out->nodes);
            out->nodes = NULL;
            return -1;
        }
    }
    return 0;
}
