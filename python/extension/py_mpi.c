/* MPI: creates a comm on an mpi4py communicator with libreshard-mpi, which is loaded on first use.
 *
 * Neither <mpi.h> nor mpi4py's headers are needed: the communicator is passed as a Fortran handle, and libreshard-mpi
 * detects which MPI the process uses. */
#include "py_comm.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef rsh_status (*open_fn)(int comm, rsh_comm **out);

/* Loads the library from the directory of the core library, or from the system's search path. */
static void *load_library(void) {
    char path[PATH_MAX], soname[64];
    Dl_info core;
    snprintf(soname, sizeof soname, "libreshard-mpi.so.%d.%d", RSH_VERSION_MAJOR, RSH_VERSION_MINOR);
    const char *file = dladdr((void *)(uintptr_t)rsh_version, &core) ? core.dli_fname : NULL;
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (slash && snprintf(path, sizeof path, "%.*s/%s", (int)(slash - file), file, soname) < PATH_MAX) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
    }
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        PyErr_Format(PyExc_NotImplementedError, "cannot load %s: %s; build reshard with MPI", soname, dlerror());
    return library;
}

static PyObject *open_comm(void *library, int fortran_handle) {
    rsh_comm *c = NULL;
    rsh_status st;
    open_fn open = (open_fn)(uintptr_t)dlsym(library, "rsh_comm_mpi_f");
    if (!open) return PyErr_Format(PyExc_NotImplementedError, "libreshard-mpi lacks rsh_comm_mpi_f; reinstall reshard");
    Py_BEGIN_ALLOW_THREADS
    st = open(fortran_handle, &c);
    Py_END_ALLOW_THREADS
    return st ? py_raise(st) : py_comm_wrap(c, true);
}

static int check_is_communicator(PyObject *comm) {
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *mpi = modules ? PyDict_GetItemString(modules, "mpi4py.MPI") : NULL;
    PyObject *type = mpi ? PyObject_GetAttrString(mpi, "Comm") : NULL;
    int is = type ? PyObject_IsInstance(comm, type) : 0;
    Py_XDECREF(type);
    if (is == 1) return 0;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError,
                     "Comm: expected an mpi4py communicator, got %R; without MPI use reshard.run or reshard.join",
                     (PyObject *)Py_TYPE(comm));
    return -1;
}

PyObject *py_comm_from_mpi(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"mpi_comm", NULL};
    static void *library;
    PyObject *comm;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:Comm", names, &comm)) return NULL;
    if (check_is_communicator(comm)) return NULL;
    if (!library) library = load_library();
    if (!library) return NULL;
    PyObject *number = PyObject_CallMethod(comm, "py2f", NULL);
    long handle = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    return PyErr_Occurred() ? NULL : open_comm(library, (int)handle);
}
