/* Plan views: totals, ranks, pairs, stages, simulation and pictures of a plan. */
#include "py_plan.h"

#include <stdlib.h>
#include <string.h>

static const rsh_plan *get(PyObject *self) { return ((py_plan *)self)->p; }

static int set_number(PyObject *dict, const char *name, long long value) {
    PyObject *number = PyLong_FromLongLong(value);
    int failed = !number || PyDict_SetItemString(dict, name, number);
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

static int set_double(PyObject *dict, const char *name, double value) {
    PyObject *number = PyFloat_FromDouble(value);
    int failed = !number || PyDict_SetItemString(dict, name, number);
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

/* ---- totals ---- */

static int find_totals(PyObject *self, rsh_plan_totals *out) {
    rsh_status st;
    Py_BEGIN_ALLOW_THREADS
    st = rsh_plan_get_totals(get(self), out);
    Py_END_ALLOW_THREADS
    return py_check(st);
}

PyObject *py_plan_total(PyObject *self, void *member) {
    rsh_plan_totals totals = RSH_PLAN_TOTALS_INIT;
    if (find_totals(self, &totals)) return NULL;
    return PyLong_FromLongLong(*(const int64_t *)((const char *)&totals + (size_t)member));
}

PyObject *py_plan_ntensors(PyObject *self, void *none) {
    (void)none;
    return PyLong_FromLongLong(rsh_plan_ntensors(get(self)));
}

PyObject *py_plan_totals(PyObject *self, PyObject *none) {
    rsh_plan_totals totals = RSH_PLAN_TOTALS_INIT;
    PyObject *dict = find_totals(self, &totals) ? NULL : PyDict_New();
    (void)none;
#define PY_TOTAL_ENTRY(name, text)                                                                                     \
    if (dict && set_number(dict, #name, totals.name)) Py_CLEAR(dict);
    PY_TOTAL_MAP(PY_TOTAL_ENTRY)
#undef PY_TOTAL_ENTRY
    return dict;
}

/* ---- ranks and pairs ---- */

PyObject *py_plan_rank(PyObject *self, PyObject *arg) {
    long long rank = PyLong_AsLongLong(arg);
    rsh_rank_totals view = RSH_RANK_TOTALS_INIT;
    rsh_status st;
    if (PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = rsh_plan_get_rank_totals(get(self), rank, &view);
    Py_END_ALLOW_THREADS
    if (st) return py_raise(st);
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "rank", (long long)view.rank, "bytes_sent",
                         (long long)view.bytes_sent, "bytes_received", (long long)view.bytes_received, "bytes_local",
                         (long long)view.bytes_local, "sends", (long long)view.nsend, "receives", (long long)view.nrecv,
                         "scratch_bytes", (long long)view.scratch_bytes, "scratch_messages",
                         (long long)view.scratch_messages);
}

/* Entries of a dict; each has nkey numbers as key and nvalue numbers as value. */
typedef struct entries {
    py_numbers list;
    int nkey, nvalue;
} entries;

static int push_rank(void *e, int64_t rank, int64_t sent, int64_t received, int64_t kept) {
    return py_numbers_push(&((entries *)e)->list, 4, (const int64_t[]){rank, sent, received, kept});
}

static int push_peer(void *e, int64_t peer, int64_t bytes) {
    return py_numbers_push(&((entries *)e)->list, 2, (const int64_t[]){peer, bytes});
}

static int push_pair(void *e, int64_t source, int64_t destination, int64_t bytes) {
    return py_numbers_push(&((entries *)e)->list, 3, (const int64_t[]){source, destination, bytes});
}

static PyObject *number_or_tuple(int n, const int64_t *values) {
    return n == 1 ? PyLong_FromLongLong(values[0]) : py_ints(n, values);
}

static PyObject *entries_dict(const entries *e) {
    PyObject *dict = PyDict_New();
    const int64_t *at = e->list.values, *end = at + e->list.n;
    for (; dict && at < end; at += e->nkey + e->nvalue) {
        PyObject *key = number_or_tuple(e->nkey, at), *value = number_or_tuple(e->nvalue, at + e->nkey);
        if (!key || !value || PyDict_SetItem(dict, key, value)) Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *finish_walk(entries *e, rsh_status st) {
    PyObject *dict = st ? py_raise(st) : e->list.failed ? PyErr_NoMemory() : entries_dict(e);
    free(e->list.values);
    return dict;
}

PyObject *py_plan_bytes_per_rank(PyObject *self, PyObject *none) {
    entries e = {.nkey = 1, .nvalue = 3};
    rsh_status st;
    (void)none;
    Py_BEGIN_ALLOW_THREADS
    st = rsh_plan_each_rank(get(self), push_rank, &e);
    Py_END_ALLOW_THREADS
    return finish_walk(&e, st);
}

typedef rsh_status (*neighbours_fn)(const rsh_plan *, int64_t, rsh_neighbour_fn, void *);

static PyObject *neighbours(PyObject *self, PyObject *arg, neighbours_fn walk) {
    long long rank = PyLong_AsLongLong(arg);
    entries e = {.nkey = 1, .nvalue = 1};
    rsh_status st;
    if (PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = walk(get(self), rank, push_peer, &e);
    Py_END_ALLOW_THREADS
    return finish_walk(&e, st);
}

PyObject *py_plan_sources(PyObject *self, PyObject *rank) { return neighbours(self, rank, rsh_plan_each_source); }

PyObject *py_plan_destinations(PyObject *self, PyObject *rank) {
    return neighbours(self, rank, rsh_plan_each_destination);
}

PyObject *py_plan_matrix(PyObject *self, PyObject *none) {
    entries e = {.nkey = 2, .nvalue = 1};
    rsh_status st;
    (void)none;
    Py_BEGIN_ALLOW_THREADS
    st = rsh_plan_each_pair(get(self), push_pair, &e);
    Py_END_ALLOW_THREADS
    return finish_walk(&e, st);
}

/* ---- stages of a rank ---- */

typedef struct stage_counts {
    int64_t copies, receives, sends;
    int64_t copied, received, sent; /* numbers of elements */
} stage_counts;

static void count_transfers(const rsh_transfer *list, int64_t n, stage_counts *stages, size_t number, size_t elements) {
    for (int64_t i = 0; i < n; i++) {
        char *stage = (char *)&stages[list[i].stage];
        *(int64_t *)(stage + number) += 1;
        *(int64_t *)(stage + elements) += list[i].count;
    }
}

static PyObject *list_stages(const stage_counts *stages, int n) {
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < n; i++) {
        const stage_counts *s = &stages[i];
        PyObject *entry =
            Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L}", "copies", (long long)s->copies, "receives",
                          (long long)s->receives, "sends", (long long)s->sends, "elements_copied", (long long)s->copied,
                          "elements_received", (long long)s->received, "elements_sent", (long long)s->sent);
        if (!entry || PyList_Append(list, entry)) Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

PyObject *py_plan_stages(PyObject *self, PyObject *arg) {
    long long rank = PyLong_AsLongLong(arg);
    stage_counts stages[RSH_MAX_STAGES] = {{0}};
    rsh_share *share = NULL;
    rsh_status st;
    int n = RSH_MAX_STAGES;
    if (PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = rsh_plan_share(get(self), rank, &share);
    Py_END_ALLOW_THREADS
    if (st) return py_raise(st);
    count_transfers(share->copies, share->ncopies, stages, offsetof(stage_counts, copies),
                    offsetof(stage_counts, copied));
    count_transfers(share->receives, share->nreceives, stages, offsetof(stage_counts, receives),
                    offsetof(stage_counts, received));
    count_transfers(share->sends, share->nsends, stages, offsetof(stage_counts, sends), offsetof(stage_counts, sent));
    rsh_share_free(share);
    while (n > 1 && !stages[n - 1].copies && !stages[n - 1].receives && !stages[n - 1].sends) n--;
    return list_stages(stages, n);
}

/* ---- simulation ---- */

static PyObject *simulated_stage(const rsh_simulated_stage *s) {
    PyObject *dict =
        Py_BuildValue("{s:d,s:s,s:L,s:L,s:L,s:L}", "seconds", s->seconds, "limit", rsh_resource_name(s->limit),
                      "bytes_copied", (long long)s->bytes_copied, "bytes_in", (long long)s->bytes_in, "bytes_out",
                      (long long)s->bytes_out, "peers", (long long)s->peers);
    for (int r = 0; dict && r < RSH_RESOURCE_COUNT; r++)
        if (set_double(dict, rsh_resource_name((rsh_resource)r), s->resource[r])) Py_CLEAR(dict);
    return dict;
}

static PyObject *simulation(const rsh_simulation *found) {
    PyObject *stages = PyList_New(0);
    for (int i = 0; stages && i < found->nstages; i++) {
        PyObject *stage = simulated_stage(&found->stage[i]);
        if (!stage || PyList_Append(stages, stage)) Py_CLEAR(stages);
        Py_XDECREF(stage);
    }
    if (!stages) return NULL;
    return Py_BuildValue("{s:d,s:s,s:d,s:s,s:L,s:L,s:L,s:N}", "seconds", found->seconds, "limit",
                         rsh_resource_name(found->limit), "lower_bound", found->lower_bound, "lower_bound_limit",
                         rsh_resource_name(found->lower_bound_limit), "ranks", (long long)found->ranks, "nodes",
                         (long long)found->nodes, "ranks_walked", (long long)found->ranks_walked, "stages", stages);
}

PyObject *py_plan_simulate(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"memory", "core", "nic", "latency", "run_bytes", "transposed", "combined", NULL};
    rsh_machine m = RSH_MACHINE_INIT;
    rsh_simulation found = RSH_SIMULATION_INIT;
    rsh_status st;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "d|dddddd:simulate", names, &m.memory, &m.core, &m.nic, &m.latency,
                                     &m.run_bytes, &m.transposed, &m.combined))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = rsh_simulate(get(self), &m, &found);
    Py_END_ALLOW_THREADS
    return st ? py_raise(st) : simulation(&found);
}

/* ---- texts and pictures ---- */

PyObject *py_plan_print(PyObject *self, PyObject *args) {
    long long rank;
    int form;
    py_text text;
    rsh_status st;
    if (!PyArg_ParseTuple(args, "Li:_print", &rank, &form)) return NULL;
    rsh_sink sink = py_text_sink(&text);
    Py_BEGIN_ALLOW_THREADS
    st = rsh_plan_print(get(self), rank, (rsh_print_format)form, &sink);
    Py_END_ALLOW_THREADS
    return py_text_finish(&text, st);
}

PyObject *py_plan_draw(PyObject *self, PyObject *args) {
    long long tensor;
    int form;
    py_text text;
    rsh_status st;
    if (!PyArg_ParseTuple(args, "Li:_draw", &tensor, &form)) return NULL;
    rsh_sink sink = py_text_sink(&text);
    Py_BEGIN_ALLOW_THREADS
    st = rsh_draw_plan(get(self), tensor, (rsh_picture_format)form, &sink);
    Py_END_ALLOW_THREADS
    return py_text_finish(&text, st);
}

/* ---- relabelling ---- */

static PyObject *relabelled(const py_pair *pair, const rsh_plan_opts *opts, rsh_layout **found) {
    bool exact = false;
    rsh_status st;
    Py_BEGIN_ALLOW_THREADS
    st = rsh_plan_relabel(pair->n, (const rsh_layout *const *)pair->from, (const rsh_layout *const *)pair->to, opts,
                          found, &exact);
    Py_END_ALLOW_THREADS
    if (st) return py_raise(st);
    PyObject *list = py_layouts_list(found, pair->n);
    return list ? Py_BuildValue("(NO)", list, exact ? Py_True : Py_False) : NULL;
}

static PyObject *relabel(PyObject *module, PyObject *args, PyObject *keywords) {
    PyObject *from, *to, *result = NULL;
    py_options options;
    py_pair pair;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:relabel", &from, &to) || py_pair_read(from, to, &pair)) return NULL;
    rsh_layout **found = PyMem_Calloc((size_t)pair.n + 1, sizeof *found);
    if (found && !py_options_read(keywords, &options)) {
        result = relabelled(&pair, &options.opts, found);
        PyMem_Free(options.nodes);
    }
    py_layouts_free(found, pair.n);
    py_pair_free(&pair);
    return result;
}

static PyMethodDef functions[] = {
    {"_relabel", (PyCFunction)(void (*)(void))relabel, METH_VARARGS | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};

int py_relabel_add(PyObject *module) { return PyModule_AddFunctions(module, functions); }
