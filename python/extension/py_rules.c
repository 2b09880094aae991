/* Rules: how each tensor of a checkpoint is cut. */
#include "py_ckpt.h"

#include <string.h>

typedef struct py_rules {
    PyObject_HEAD
    rsh_ckpt_rules *r; /* owned */
    PyObject *text; /* owned */
} py_rules;

static PyTypeObject *rules_type;

static void rules_dealloc(PyObject *self) {
    rsh_ckpt_rules_free(((py_rules *)self)->r);
    Py_XDECREF(((py_rules *)self)->text);
    py_object_free(self);
}

static PyObject *rules_wrap(rsh_ckpt_rules *r, PyObject *text) {
    py_rules *self = py_object_new(rules_type);
    if (!self) {
        rsh_ckpt_rules_free(r);
        return NULL;
    }
    self->r = r;
    self->text = Py_NewRef(text);
    return (PyObject *)self;
}

static PyObject *rules_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"text", "name", NULL};
    PyObject *text;
    const char *name = "rules";
    rsh_ckpt_rules *r = NULL;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "U|s:Rules", names, &text, &name)) return NULL;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, NULL);
    if (!bytes || py_check(rsh_ckpt_rules_parse(bytes, name, &r))) return NULL;
    return rules_wrap(r, text);
}

static PyObject *rules_read(PyObject *type, PyObject *path) {
    PyObject *bytes = NULL;
    rsh_ckpt_rules *r = NULL;
    (void)type;
    if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
    const char *name = PyBytes_AsString(bytes);
    rsh_status st;
    Py_BEGIN_ALLOW_THREADS
    st = rsh_ckpt_rules_read(name, &r);
    Py_END_ALLOW_THREADS
    PyObject *text = st ? NULL : PyUnicode_DecodeFSDefault(PyBytes_AsString(bytes));
    PyObject *result = st ? py_raise(st) : text ? rules_wrap(r, text) : NULL;
    Py_XDECREF(text);
    Py_DECREF(bytes);
    return result;
}

static PyObject *rules_layout(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"name", "dtype", "shape", NULL};
    PyObject *dtype_object, *sequence;
    const char *name;
    int64_t shape[RSH_MAX_NDIM];
    rsh_layout *l = NULL;
    rsh_dtype dtype;
    int ndim;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sOO:layout", names, &name, &dtype_object, &sequence)) return NULL;
    if (py_dtype_from(dtype_object, &dtype) || py_ints_from(sequence, RSH_MAX_NDIM, shape, &ndim)) return NULL;
    if (py_check(rsh_ckpt_rules_layout(((py_rules *)self)->r, name, dtype, ndim, shape, &l))) return NULL;
    return py_layout_wrap(l);
}

static PyObject *rules_repr(PyObject *self) {
    return PyUnicode_FromFormat("<reshard.Rules %R>", ((py_rules *)self)->text);
}

int py_rules_from(PyObject *object, const rsh_ckpt_rules **rules, PyObject **owner) {
    *rules = NULL;
    *owner = NULL;
    if (object == Py_None) return 0;
    *owner = PyObject_TypeCheck(object, rules_type) ? Py_NewRef(object) : rules_read(NULL, object);
    if (!*owner) return -1;
    *rules = ((py_rules *)*owner)->r;
    return 0;
}

static PyMethodDef methods[] = {
    {"read", rules_read, METH_O | METH_STATIC, "read(path)\n--\n\nReads a rule file."},
    {"layout", (PyCFunction)(void (*)(void))rules_layout, METH_VARARGS | METH_KEYWORDS,
     "layout(name, dtype, shape)\n--\n\nReturns the layout of a tensor by the rules.  KeyError if no rule matches."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, rules_new},
    {Py_tp_dealloc, rules_dealloc},
    {Py_tp_repr, rules_repr},
    {Py_tp_methods, methods},
    {Py_tp_doc, "Rules(text, name='rules')\n--\n\nHow each tensor of a checkpoint is cut:\n\n"
                "    mesh tp=4\n    *.q_proj.weight  [_/tp, _]\n    *                [...]\n\n"
                "Functions that take rules also accept the path of a rule file."},
    {0, NULL},
};

static PyType_Spec spec = {"reshard.Rules", sizeof(py_rules), 0, Py_TPFLAGS_DEFAULT, slots};

int py_rules_add(PyObject *module) {
    rules_type = py_type_add(module, &spec);
    return rules_type ? 0 : -1;
}
