/* The module: adds its types and functions. */
#include "py_module.h"

PyTypeObject *py_type_add(PyObject *module, PyType_Spec *spec) {
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    if (type && PyModule_AddType(module, type)) Py_CLEAR(type);
    return type; /* the static pointer keeps this reference */
}

void *py_object_new(PyTypeObject *type) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return alloc(type, 0);
}

void py_object_free(void *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static PyObject *version(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
    return PyUnicode_FromString(rsh_version());
}

static PyMethodDef functions[] = {
    {"version", version, METH_NOARGS, "version()\n--\n\nReturns the version of the loaded library."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "reshard._reshard",
                                        "The library behind the package reshard.",
                                        -1,
                                        functions,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit__reshard(void);

PyMODINIT_FUNC PyInit__reshard(void) {
    int (*const add[])(PyObject *) = {py_errors_add, py_layout_add, py_plan_add,    py_array_add,
                                      py_move_add,   py_comm_add,   py_sharded_add, py_exec_add,
                                      py_rules_add,  py_ckpt_add,   py_convert_add, py_stash_add};
    PyObject *module = PyModule_Create(&definition);
    for (size_t i = 0; module && i < sizeof add / sizeof *add; i++)
        if (add[i](module)) Py_CLEAR(module);
    return module;
}
