/* Errors: raises the Python exception for a status of the library. */
#include "py_module.h"

PyObject *py_peer_error, *py_mismatch_error;

static PyObject *exception_of(rsh_status status) {
    switch (status) {
    case RSH_EVALUE: return PyExc_ValueError;
    case RSH_ETYPE: return PyExc_TypeError;
    case RSH_EKEY: return PyExc_KeyError;
    case RSH_EINDEX: return PyExc_IndexError;
    case RSH_EATTR: return PyExc_AttributeError;
    case RSH_EUNSUP: return PyExc_NotImplementedError;
    case RSH_ENOMEM: return PyExc_MemoryError;
    case RSH_EIO: return PyExc_OSError;
    case RSH_EPEER: return py_peer_error;
    case RSH_EMISMATCH: return py_mismatch_error;
    case RSH_ETIMEOUT: return PyExc_TimeoutError;
    default: return PyExc_RuntimeError;
    }
}

PyObject *py_raise(rsh_status status) {
    const char *sentence = rsh_error_detail();
    if (!PyErr_Occurred()) PyErr_SetString(exception_of(status), *sentence ? sentence : rsh_status_text(status));
    return NULL;
}

int py_check(rsh_status status) {
    if (status) py_raise(status);
    return status ? -1 : 0;
}

int py_errors_add(PyObject *module) {
    py_peer_error = PyErr_NewExceptionWithDoc("reshard.PeerError",
                                              "Another rank failed, died or left while this rank was waiting for it.",
                                              PyExc_RuntimeError, NULL);
    py_mismatch_error = PyErr_NewExceptionWithDoc(
        "reshard.MismatchError", "Ranks made different collective calls, or passed different arguments.",
        PyExc_RuntimeError, NULL);
    if (!py_peer_error || !py_mismatch_error) return -1;
    if (PyModule_AddObjectRef(module, "PeerError", py_peer_error)) return -1;
    return PyModule_AddObjectRef(module, "MismatchError", py_mismatch_error);
}
