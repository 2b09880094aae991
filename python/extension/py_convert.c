/* Conversions and comparisons of checkpoints. */
#include "py_ckpt.h"

#include <string.h>

/* ---- progress ---- */

/* Called by a thread of the library.  An exception stops the work and is kept for the caller. */
int py_progress_tell(void *ctx, uint64_t done, uint64_t total) {
    py_progress *p = ctx;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *answer = PyObject_CallFunction(p->callable, "KK", (unsigned long long)done, (unsigned long long)total);
    int stop = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    if (stop < 0 && !p->type)
        PyErr_Fetch(&p->type, &p->value, &p->trace);
    else
        PyErr_Clear();
    PyGILState_Release(state);
    return stop;
}

PyObject *py_progress_raise(py_progress *p, rsh_status status) {
    if (!p->type) return py_raise(status);
    PyErr_Restore(p->type, p->value, p->trace);
    return NULL;
}

static void progress_drop(py_progress *p) {
    Py_XDECREF(p->type);
    Py_XDECREF(p->value);
    Py_XDECREF(p->trace);
}

/* ---- options ---- */

typedef struct conversion {
    PyObject *source, *target;       /* owned; paths as bytes */
    PyObject *from_rules, *to_rules; /* owned */
    const char **include, **exclude; /* owned */
    rsh_convert_opts opts;
    py_progress progress;
} conversion;

static void conversion_free(conversion *c) {
    Py_XDECREF(c->source);
    Py_XDECREF(c->target);
    Py_XDECREF(c->from_rules);
    Py_XDECREF(c->to_rules);
    PyMem_Free(c->include);
    PyMem_Free(c->exclude);
}

static int conversion_read(PyObject *args, conversion *c) {
    PyObject *to, *from, *include, *exclude;
    unsigned long long mem, max_shard;
    long long max_tensors;
    int threads, resume, force, dedup, drop, digest, verify;
    *c = (conversion){.opts = RSH_CONVERT_OPTS_INIT};
    if (!PyArg_ParseTuple(args, "O&O&OOKiKppppppO!O!OzL:convert", PyUnicode_FSConverter, &c->source,
                          PyUnicode_FSConverter, &c->target, &to, &from, &mem, &threads, &max_shard, &resume, &force,
                          &dedup, &drop, &digest, &verify, &PyList_Type, &include, &PyList_Type, &exclude,
                          &c->progress.callable, &c->opts.format, &max_tensors))
        return -1;
    if (py_rules_from(to, &c->opts.to, &c->to_rules) || py_rules_from(from, &c->opts.from, &c->from_rules)) return -1;
    c->include = py_texts_from(include, &c->opts.ninclude);
    c->exclude = c->include ? py_texts_from(exclude, &c->opts.nexclude) : NULL;
    if (!c->exclude) return -1;
    c->opts.include = c->include;
    c->opts.exclude = c->exclude;
    c->opts.mem = mem;
    c->opts.max_shard = max_shard;
    c->opts.max_tensors = max_tensors;
    c->opts.threads = threads;
    c->opts.resume = resume;
    c->opts.force = force;
    c->opts.dedup = dedup;
    c->opts.drop = drop;
    c->opts.no_digest = !digest;
    c->opts.verify = verify;
    if (c->progress.callable != Py_None) {
        c->opts.progress = py_progress_tell;
        c->opts.progress_ctx = &c->progress;
    }
    return 0;
}

/* ---- converting ---- */

static PyObject *report_object(const rsh_convert_report *r) {
    typedef unsigned long long number;
    return Py_BuildValue("{s:L,s:L,s:K,s:K,s:K,s:K,s:K,s:O,s:L}", "tensors", (long long)r->tensors, "files",
                         (long long)r->files, "source_bytes", (number)r->source_bytes, "target_bytes",
                         (number)r->target_bytes, "bytes_read", (number)r->bytes_read, "bytes_written",
                         (number)r->bytes_written, "bytes_kept", (number)r->bytes_kept, "verified",
                         r->verified ? Py_True : Py_False, "converted", (long long)r->converted);
}

static PyObject *convert(PyObject *module, PyObject *args) {
    conversion c;
    rsh_convert_report report = RSH_CONVERT_REPORT_INIT;
    PyObject *result = NULL;
    (void)module;
    if (!conversion_read(args, &c)) {
        const char *source = PyBytes_AsString(c.source), *target = PyBytes_AsString(c.target);
        rsh_status st;
        Py_BEGIN_ALLOW_THREADS
        st = rsh_ckpt_convert(source, target, &c.opts, &report);
        Py_END_ALLOW_THREADS
        result = st ? py_progress_raise(&c.progress, st) : report_object(&report);
        if (!st) progress_drop(&c.progress);
    }
    conversion_free(&c);
    return result;
}

/* ---- previews ---- */

static PyObject *layout_or_none(const rsh_layout *l) {
    return l ? py_layout_wrap(rsh_layout_hold(l)) : Py_NewRef(Py_None);
}

static int add_step(void *list, const rsh_convert_step *s) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *entry =
        Py_BuildValue("{s:s,s:N,s:N,s:s,s:s,s:z,s:i,s:K}", "name", s->name, "from", layout_or_none(s->from), "to",
                      layout_or_none(s->to), "from_dtype", rsh_dtype_name(s->from_dtype), "to_dtype",
                      rsh_dtype_name(s->to_dtype), "pattern", s->rule >= 0 ? s->pattern : NULL, "line",
                      s->rule >= 0 ? s->line : 0, "bytes", (unsigned long long)s->bytes);
    int failed = !entry || PyList_Append(list, entry);
    Py_XDECREF(entry);
    PyGILState_Release(state);
    return failed;
}

static PyObject *preview(PyObject *module, PyObject *args) {
    conversion c;
    rsh_convert_report report = RSH_CONVERT_REPORT_INIT;
    PyObject *list = conversion_read(args, &c) ? NULL : PyList_New(0);
    (void)module;
    if (list) {
        const char *source = PyBytes_AsString(c.source), *target = PyBytes_AsString(c.target);
        rsh_status st;
        Py_BEGIN_ALLOW_THREADS
        st = rsh_convert_preview(source, target, &c.opts, add_step, list, &report);
        Py_END_ALLOW_THREADS
        if (st) py_raise(st);
        if (PyErr_Occurred()) Py_CLEAR(list);
    }
    conversion_free(&c);
    return list;
}

/* ---- comparing ---- */

static PyObject *difference_object(const rsh_ckpt_difference *d) {
    if (!d->found) Py_RETURN_NONE;
    PyObject *index = d->has_index ? py_ints(d->ndim, d->index) : Py_NewRef(Py_None);
    return index ? Py_BuildValue("(ssN)", d->tensor, d->sentence, index) : NULL;
}

static PyObject *compare(PyObject *module, PyObject *args) {
    PyObject *a_object, *b_object;
    unsigned long long mem;
    int converted, allow_missing, threads;
    rsh_compare_opts opts = RSH_COMPARE_OPTS_INIT;
    rsh_ckpt_difference found = RSH_CKPT_DIFFERENCE_INIT;
    rsh_status st;
    py_progress progress = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "OOppKiO:_compare", &a_object, &b_object, &converted, &allow_missing, &mem, &threads,
                          &progress.callable))
        return NULL;
    const rsh_ckpt *a = py_ckpt_get(a_object), *b = a ? py_ckpt_get(b_object) : NULL;
    if (!b) return NULL;
    opts.converted = converted;
    opts.allow_missing = allow_missing;
    opts.mem = mem;
    opts.threads = threads;
    if (progress.callable != Py_None) {
        opts.progress = py_progress_tell;
        opts.progress_ctx = &progress;
    }
    Py_BEGIN_ALLOW_THREADS
    st = rsh_ckpt_compare(a, b, &opts, &found);
    Py_END_ALLOW_THREADS
    if (st) return py_progress_raise(&progress, st);
    progress_drop(&progress);
    return difference_object(&found);
}

static PyMethodDef functions[] = {
    {"_convert", convert, METH_VARARGS, NULL},
    {"_preview", preview, METH_VARARGS, NULL},
    {"_compare", compare, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int py_convert_add(PyObject *module) { return PyModule_AddFunctions(module, functions); }
